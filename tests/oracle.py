"""The meaning of every rule in plain Python, O(n^2) and obvious; imports nothing of the package.

A table is a list of dicts (None is NULL). A rule is a tuple:

- ("key", columns), ("fd", lhs, rhs), ("not null", columns), ("demand", what is true, false or unknown of a row)
- ("cfd", lhs, rhs, patterns): a pattern is (left cells, right cells), None for any value
- ("dc", predicates): a predicate is (left, op, right), a side is ("t", column), ("s", column) or
  ("const", value)
- ("in", columns, other table, other columns)
- ("measure", measure, bounds): a measure is (function, table, column), table None for the rule's own; a bound is
  (op, right), and right a measure, ("const", value) or ("seconds", number)

`violations` gives a set of (row number,) and (t, s) tuples; a pair of a symmetric rule once, t < s. A measure that
breaks a bound is the violation () of no row.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from typing import Any

Row = dict[str, Any]
Rule = tuple[Any, ...]


def violations(
    rule: Rule,
    rows: list[Row],
    *,
    others: dict[str, list[Row]] | None = None,
    nulls_equal: bool = False,
    where: Callable[[Row], bool | None] | None = None,
    now: dt.datetime | None = None,
) -> set[tuple[int, ...]]:
    """All violations of a rule in a table; freshness is judged at `now`."""
    numbers = [i for i, row in enumerate(rows) if where is None or where(row) is True]
    pairs = list(permutations(numbers, 2))
    match rule:
        case ("key", columns):
            return {(i, j) for i, j in pairs if i < j and agree(rows[i], rows[j], columns, nulls_equal)}
        case ("fd", lhs, rhs):
            return {
                (i, j)
                for i, j in pairs
                if i < j and agree(rows[i], rows[j], lhs, nulls_equal) and differ(rows[i], rows[j], rhs, nulls_equal)
            }
        case ("demand", truth):
            return {(i,) for i in numbers if truth(rows[i]) is False}
        case ("not null", columns):
            return {(i,) for i in numbers if any(rows[i][column] is None for column in columns)}
        case ("cfd", lhs, rhs, patterns):
            return cfd(rows, numbers, lhs, rhs, patterns, nulls_equal)
        case ("dc", predicates):
            return dc(rows, numbers, predicates)
        case ("in", columns, other, other_columns):
            provided = [tuple(row[column] for column in other_columns) for row in (others or {})[other]]
            return {
                (i,)
                for i in numbers
                if all(rows[i][column] is not None for column in columns)
                and not any(
                    all(compare(rows[i][column], "=", value) is True for column, value in zip(columns, values))
                    for values in provided
                )
            }
        case ("measure", measure, bounds):
            own = [rows[i] for i in numbers]
            return {()} if any(breaks(measure, op, right, own, others or {}, now) for op, right in bounds) else set()
    raise ValueError(rule)


def breaks(measure: Any, op: str, right: Any, own: list[Row], others: dict[str, list[Row]], now: Any) -> bool:
    """Whether a measure is known to break a bound; the filter of a rule is on its own rows alone."""
    left = measured(measure, own, others)
    if measure[0] == "fresh" and left is not None:
        moment = now if now.tzinfo is None else now.astimezone(dt.UTC).replace(tzinfo=None)
        left = seconds(moment - dt.datetime(1970, 1, 1)) - left
    other = right[1] if right[0] in ("const", "seconds") else measured(right, own, others)
    return compare(left, op, plain_number(other)) is False


def measured(measure: tuple[str, str | None, str | None], own: list[Row], others: dict[str, list[Row]]) -> Any:
    """A measure, exactly; None where nothing is known. Dates and times are in seconds, those without a zone of UTC."""
    function, table, column = measure
    rows = own if table is None else others[table]
    if column is None:
        return len(rows)
    known = [plain_number(row[column]) for row in rows if row[column] is not None]
    if function == "count":
        return sum(row[column] is not None for row in rows)
    if not known:
        return None
    if function != "sum":
        return (min if function == "min" else max)(known, key=_ordered)
    special = [value for value in known if isinstance(value, float)]
    return math.fsum(special) if special and not _both_infinite(special) else math.nan if special else sum(known)


def _both_infinite(values: list[float]) -> bool:
    return math.inf in values and -math.inf in values


def plain_number(value: Any) -> Any:
    """A number as a fraction; dates and times in seconds; NaN, infinities and other values as they are."""
    match value:
        case dt.datetime():
            naive = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
            return seconds(naive - dt.datetime(1970, 1, 1))
        case dt.date():
            return Fraction((value - dt.date(1970, 1, 1)).days * 86_400)
        case dt.time():
            return seconds(dt.datetime.combine(dt.date.min, value) - dt.datetime.min)
        case dt.timedelta():
            return seconds(value)
        case bool() | str() | bytes() | None:
            return value
    return Fraction(value) if math.isfinite(value) else float(value)


def seconds(length: dt.timedelta) -> Fraction:
    """A length of time in seconds."""
    return Fraction(length // dt.timedelta(microseconds=1), 10**6)


def cfd(
    rows: list[Row],
    numbers: list[int],
    lhs: list[str],
    rhs: list[str],
    patterns: list[Any],
    nulls_equal: bool,
) -> set[tuple[int, ...]]:
    """Rows that match a pattern and break its constant; pairs that match one and differ where it asks nothing."""
    found: set[tuple[int, ...]] = set()
    for left, right in patterns:
        matching = [
            i for i in numbers if all(matches(rows[i][column], cell, nulls_equal) for column, cell in zip(lhs, left))
        ]
        for column, cell in zip(rhs, right):
            if cell is not None:
                found |= {(i,) for i in matching if compare(rows[i][column], "!=", cell) is True}
                continue
            found |= {
                (i, j)
                for i in matching
                for j in matching
                if i < j
                and agree(rows[i], rows[j], lhs, nulls_equal)
                and differ(rows[i], rows[j], [column], nulls_equal)
            }
    return found


def matches(value: Any, cell: Any, nulls_equal: bool) -> bool:
    """Whether a value matches a cell of a pattern; NULL matches none, but `_` where NULL is a value like others."""
    if cell is None:
        return value is not None or nulls_equal
    return compare(value, "=", cell) is True


def dc(rows: list[Row], numbers: list[int], predicates: list[Any]) -> set[tuple[int, ...]]:
    """Rows, or pairs of distinct rows, that satisfy every predicate."""
    sides = [side for left, _, right in predicates for side in (left, right)]
    if not any(side[0] == "s" for side in sides):
        return {(i,) for i in numbers if satisfied(predicates, rows[i], rows[i])}
    found: set[tuple[int, ...]] = {
        (i, j) for i, j in permutations(numbers, 2) if satisfied(predicates, rows[i], rows[j])
    }
    return {pair for pair in found if pair[0] < pair[1]} if symmetric(predicates) else found


def symmetric(predicates: list[Any]) -> bool:
    """Every comparison of the two rows is of a column with itself by = or !=, and each row is asked the same."""
    alone: dict[str, set[Any]] = {"t": set(), "s": set()}
    for left, op, right in predicates:
        variables = {left[0], right[0]} - {"const"}
        if variables == {"t", "s"}:
            if left[1] != right[1] or op not in ("=", "!="):
                return False
        else:
            own = variables.pop()
            alone[own].add(_one_way(_nameless(left), op, _nameless(right)))
    return alone["t"] == alone["s"]


def _one_way(left: tuple[str, Any], op: str, right: tuple[str, Any]) -> tuple[Any, str, Any]:
    """A comparison within a row, the same whichever side was written first."""
    if right[0] == "row" and right[1] < left[1]:
        return right, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op), left
    return left, op, right


def _nameless(side: tuple[str, Any]) -> tuple[str, Any]:
    return side if side[0] == "const" else ("row", side[1])


def satisfied(predicates: list[Any], t: Row, s: Row) -> bool:
    """Whether all predicates are known to hold."""

    def value(side: tuple[str, Any]) -> Any:
        return side[1] if side[0] == "const" else (t if side[0] == "t" else s)[side[1]]

    return all(compare(value(left), op, value(right)) is True for left, op, right in predicates)


def compare(a: Any, op: str, b: Any) -> bool | None:
    """Unknown (None) with NULL; NaN equals itself and is above every number."""
    if a is None or b is None:
        return None
    a, b = _ordered(a), _ordered(b)
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def _ordered(value: Any) -> Any:
    if isinstance(value, bool | int | float | Decimal | Fraction):
        return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)
    return value


def has_shape(value: str | None, shape: str) -> bool | None:
    """Whether a pattern occurs in a text; its `$` stands for the very end."""
    if value is None:
        return None
    pattern = shape[:-1] + r"\Z" if shape.endswith("$") else shape
    return re.search(pattern, value, re.ASCII) is not None


def agree(a: Row, b: Row, columns: list[str], nulls_equal: bool) -> bool:
    """Equal on every column."""
    return all(
        compare(a[column], "=", b[column]) is True or (nulls_equal and a[column] is None and b[column] is None)
        for column in columns
    )


def differ(a: Row, b: Row, columns: list[str], nulls_equal: bool) -> bool:
    """Known to be different on some column."""
    return any(
        compare(a[column], "!=", b[column]) is True or (nulls_equal and (a[column] is None) != (b[column] is None))
        for column in columns
    )
