"""What rules mean, in quadratic plain Python over rows with NULLs: the judge of the simplifier."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

from holdstrue.rules import CFD, DC, FD, Body, Column, Key, NotNull, Op, Predicate, columns_of

Row = Mapping[str, Any]

COMPARE: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


def violations(body: Body, rows: Sequence[Row], *, nulls_equal: bool = False) -> set[tuple[int, ...]]:
    """Rows as (i,), ordered pairs as (i, j)."""
    return set(_violations(body, rows, nulls_equal))


def _violations(body: Body, rows: Sequence[Row], nulls_equal: bool) -> Iterator[tuple[int, ...]]:
    pairs = list(permutations(range(len(rows)), 2))
    match body:
        case NotNull(columns):
            yield from ((i,) for i, row in enumerate(rows) if any(row[c] is None for c in columns))
        case DC(predicates):
            if body.two_rows and any(c.var == "t" for p in predicates for c in columns_of(p)):
                yield from ((i, j) for i, j in pairs if all(_true(p, rows[i], rows[j]) for p in predicates))
            else:
                yield from ((i,) for i, row in enumerate(rows) if all(_true(p, row, row) for p in predicates))
        case Key(columns):
            yield from ((i, j) for i, j in pairs if _agree(columns, rows[i], rows[j], nulls_equal))
        case FD(lhs, rhs):
            for i, j in pairs:
                if _agree(lhs, rows[i], rows[j], nulls_equal) and _differ(rhs, rows[i], rows[j], nulls_equal):
                    yield i, j
        case CFD(lhs, rhs, tableau):
            for pattern in tableau:
                hits = [
                    i
                    for i, row in enumerate(rows)
                    if all(cell is None or row[c] == cell.value for c, cell in zip(lhs, pattern.lhs))
                ]
                for column, cell in zip(rhs, pattern.rhs):
                    if cell is not None:
                        yield from ((i,) for i in hits if rows[i][column] not in (None, cell.value))
                        continue
                    for i, j in pairs:
                        both = i in hits and j in hits and _agree(lhs, rows[i], rows[j], nulls_equal)
                        if both and _differ((column,), rows[i], rows[j], nulls_equal):
                            yield i, j


def _true(predicate: Predicate, t: Row, s: Row) -> bool:
    left = (t if predicate.left.var == "t" else s)[predicate.left.name]
    right = predicate.right
    other = (t if right.var == "t" else s)[right.name] if isinstance(right, Column) else right.value
    return left is not None and other is not None and COMPARE[predicate.op](left, other)


def _agree(columns: Sequence[str], t: Row, s: Row, nulls_equal: bool) -> bool:
    return all(t[c] == s[c] and (nulls_equal or t[c] is not None) for c in columns)


def _differ(columns: Sequence[str], t: Row, s: Row, nulls_equal: bool) -> bool:
    return any(t[c] != s[c] and (nulls_equal or None not in (t[c], s[c])) for c in columns)
