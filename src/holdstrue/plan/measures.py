"""Measures bound to columns and types: what is kept of their rows, the numbers that follow, and what they must satisfy.

What is kept of the rows of one place are a few whole numbers, and those of several places are put together by
`merged`, wherever the rows are: in one process or in shards.

| function | kept | of several places |
|---|---|---|
| count | rows (with a column: known values) | added |
| sum | known values, their sum; of floats also how many are NaN, infinite and minus infinite | added |
| min, max, fresh | known values, the smallest or largest | the smallest or largest of those there are |
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from holdstrue.data.exact import SMALLEST, Exact, float_of, units_of
from holdstrue.data.values import CLOCKS, NUMBERS, Family, common_families, family_of, plain_type
from holdstrue.errors import RuleError
from holdstrue.operators import Op
from holdstrue.plan.constants import constant_for
from holdstrue.rules.bodies import Measured
from holdstrue.rules.measure import Amount, Function, Measure
from holdstrue.rules.model import Condition, Rule
from holdstrue.rules.terms import condition_columns

Part: TypeAlias = tuple[int | None, ...]
"""What is kept of a measure."""

Values: TypeAlias = tuple[Exact | None, ...]
"""The numbers of the measures of a rule; None where nothing is known."""

_MOMENTS: frozenset[Family] = frozenset({"date", "timestamp", "zoned"})
_TAKES: Mapping[Function, frozenset[Family]] = {
    "sum": NUMBERS | {"duration"},
    "min": NUMBERS | CLOCKS | {"date"},
    "max": NUMBERS | CLOCKS | {"date"},
    "fresh": _MOMENTS,
}
"""The families that functions take; counting takes all."""
_SAYS: Mapping[Function, str] = {
    "sum": "sums are of numbers and durations",
    "min": "the smallest is found of numbers, dates and times",
    "max": "the largest is found of numbers, dates and times",
    "fresh": "freshness is of dates and timestamps",
}


@dataclass(frozen=True)
class Aggregate:
    """A measure of a table, with the type of what comes out of it."""

    function: Function
    table: str
    column: str | None
    member: Condition | None
    """Which rows it is of; None for all of them."""
    data_type: pa.DataType
    text: str
    """As the rule writes it."""

    @cached_property
    def family(self) -> Family | None:
        """The family of what comes out of it."""
        return family_of(self.data_type)

    @cached_property
    def units(self) -> Fraction:
        """How many units of the whole numbers that are kept a value has."""
        return units_of(plain_type(self.data_type))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        own = () if self.column is None else (self.column,)
        return tuple(dict.fromkeys((*own, *condition_columns(self.member))))

    @property
    def is_extreme(self) -> bool:
        """Whether it is one of the values, rather than made of all of them."""
        return self.function in ("min", "max", "fresh")

    @property
    def nothing(self) -> Part:
        """What is kept of no rows."""
        if self.function == "count":
            return (0,)
        if self.is_extreme:
            return (0, None)
        return (0,) * (5 if self.family == "float" else 2)

    def merged(self, parts: Iterable[Part]) -> Part:
        """What is kept of the rows of several places."""
        found = self.nothing
        for part in parts:
            if not self.is_extreme:
                found = tuple((a or 0) + (b or 0) for a, b in zip(found, part, strict=True))
                continue
            keys = [key for key in (found[1], part[1]) if key is not None]
            best = (min if self.function == "min" else max)(keys) if keys else None
            found = ((found[0] or 0) + (part[0] or 0), best)
        return found

    def value(self, part: Part) -> Exact | None:
        """The number that follows; of dates and times it is in seconds."""
        count, *rest = part
        if self.function == "count":
            return Fraction(count or 0)
        if not count or rest[0] is None:
            return None
        if self.family != "float":
            return Fraction(rest[0]) / self.units
        if self.is_extreme:
            found = float_of(rest[0])
            return Fraction(found) if math.isfinite(found) else found
        whole, nans, highs, lows = rest
        if nans or (highs and lows):
            return math.nan
        if highs or lows:
            return math.inf if highs else -math.inf
        return Fraction(whole or 0, 2**SMALLEST)

    def fits(self, part: Sequence[Any]) -> bool:
        """Whether these can be numbers that are kept."""
        return len(part) == len(self.nothing) and all(
            isinstance(number, int) or (number is None and self.is_extreme and at == 1)
            for at, number in enumerate(part)
        )


def written(parts: Sequence[Part]) -> list[list[str]]:
    """What is kept of the measures of a rule as plain data: numbers as text, since some are long.

    >>> written([(3, -7), (0, None)])
    [['3', '-7'], ['0', '']]
    """
    return [["" if number is None else str(number) for number in part] for part in parts]


def parts_of(aggregates: Sequence[Aggregate], data: Sequence[Sequence[str]]) -> tuple[Part, ...]:
    """Back from `written`; a ValueError where these measures keep something else."""
    parts = tuple(tuple(int(number) if number else None for number in part) for part in data)
    if len(parts) != len(aggregates) or not all(a.fits(part) for a, part in zip(aggregates, parts, strict=True)):
        raise ValueError(f"{', '.join(a.text for a in aggregates)} keep other numbers than {data}")
    return parts


@dataclass(frozen=True)
class Limit:
    """What a measure must satisfy."""

    op: Op
    value: Exact | None
    """A number; None where it is another measure."""
    text: str


def violated(aggregates: Sequence[Aggregate], limits: Sequence[Limit], values: Values, moment: int) -> bool:
    """Whether the first measure is known to break a limit, at a moment in nanoseconds since 1970."""
    left = values[0]
    if left is None:
        return False
    if aggregates[0].function == "fresh":
        left = Fraction(moment, 10**9) - Fraction(left)
    for limit in limits:
        right = values[1] if limit.value is None else limit.value
        if right is not None and not limit.op.on_values(_ordered(left), _ordered(right)):
            return True
    return False


def _ordered(value: Exact) -> tuple[int, Exact]:
    """Numbers as columns order them: NaN above all others, and equal to itself."""
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


def said(aggregates: Sequence[Aggregate], limits: Sequence[Limit], values: Values, moment: int) -> str:
    """The measures of a rule in words: `count() is 12, expected > 1000`."""
    told = [f"{a.text} is {value_text(a, value)}" for a, value in zip(aggregates, values, strict=True)]
    told += _hidden(aggregates[0], limits, values)
    if aggregates[0].function == "fresh" and values[0] is not None:
        age = Fraction(moment, 10**9) - Fraction(values[0])
        told = [f"the newest {aggregates[0].column} is {value_text(aggregates[0], values[0])}, {span(age)}"]
    return f"{', '.join(told)}, expected {expected_text(limits)}"


def expected_text(limits: Sequence[Limit]) -> str:
    """What a measure must satisfy, as a rule writes it.

    >>> expected_text([Limit(Op.GE, Fraction(1), ">= 1"), Limit(Op.LE, Fraction(5), "<= 5")])
    'between 1 and 5'
    """
    return f"between {' and '.join(limit.text.split(' ', 1)[1] for limit in limits)}" if limits[1:] else limits[0].text


def _hidden(left: Aggregate, limits: Sequence[Limit], values: Values) -> Iterator[str]:
    """What doubles do not show: a difference between two numbers that are written alike."""
    for limit in limits if left.family == "float" else ():
        right = values[1] if limit.value is None else limit.value
        if not isinstance(values[0], Fraction) or not isinstance(right, Fraction) or values[0] == right:
            continue
        if value_text(left, values[0]) == value_text(left, right):
            more = "more" if values[0] > right else "less"
            yield f"{left.text} is {float(abs(values[0] - right)):.1e} {more}"


def span(seconds: Fraction) -> str:
    """How old something is, in the two largest units.

    >>> span(Fraction(186_300)), span(Fraction(59)), span(Fraction(-7200))
    ('2 days 3 hours old', '59 seconds old', '2 hours in the future')
    """
    left, words = abs(int(seconds)), list[str]()
    for unit, size in (("week", 604_800), ("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, left = divmod(left, size)
        if count and len(words) < 2:
            words.append(f"{count:,} {unit}{'' if count == 1 else 's'}")
        elif words:
            break
    said = " ".join(words) or "0 seconds"
    return f"{said} old" if seconds >= 0 else f"{said} in the future"


def value_text(aggregate: Aggregate, value: Exact | None) -> str:
    """A value as people write it; sums of floats are shown as the nearest double."""
    if value is None:
        return "unknown"
    if aggregate.function == "count":
        return str(value)
    if isinstance(value, float):
        return repr(value)
    match aggregate.family:
        case "float":
            try:
                return repr(float(value))
            except OverflowError:
                return f"beyond {'' if value > 0 else '-'}1.8e308"
        case "decimal":
            return _decimal_text(value, max(0, int(plain_type(aggregate.data_type).scale)))
        case "date" | "timestamp" | "zoned" as family:
            return _moment_text(value, family)
        case "time":
            return str((dt.datetime.min + dt.timedelta(microseconds=int(value * 10**6))).time())
        case "duration":
            return f"{_decimal_text(value, 9).rstrip('0').rstrip('.')} seconds"
    return str(value)


def _decimal_text(value: Fraction, scale: int) -> str:
    whole = int(value * 10**scale)
    digits = str(abs(whole)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if whole < 0 else text


def _moment_text(seconds: Fraction, family: Family) -> str:
    whole = math.floor(seconds)
    try:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=whole)
    except OverflowError:
        return f"{whole:,} seconds after 1970"
    if family == "date":
        return moment.date().isoformat()
    rest = _decimal_text(seconds - whole, 9)[1:].rstrip("0").rstrip(".")
    return f"{moment.isoformat(sep=' ')}{rest}{' UTC' if family == 'zoned' else ''}"


# --- binding -----------------------------------------------------------------------------------------------------


def bound_measures(
    rule: Rule, body: Measured, table: str, schemas: Mapping[str, pa.Schema]
) -> tuple[tuple[Aggregate, ...], tuple[Limit, ...]]:
    """The measures of a rule with their types, and what they must satisfy; raises where they do not compare.

    The filter of a rule is on the rows of its own table.
    """
    aggregates = tuple(_aggregate(rule, measure, table, schemas) for measure in body.measures)
    left = aggregates[0]
    if len(aggregates) == 2 and common_families([a.data_type for a in aggregates]) is None:
        other = aggregates[1]
        raise _refused(
            rule,
            f"{left.text} ({left.data_type}) does not compare with {other.text} ({other.data_type})",
            left.text,
            "compare values of one kind, or cast one of the columns",
        )
    limits = []
    for bound in body.bounds:
        value = _limit(rule, left, bound.right, bound.op) if isinstance(bound.right, Amount) else None
        limits.append(Limit(bound.op, value, bound.text))
    return aggregates, tuple(limits)


def _aggregate(rule: Rule, measure: Measure, table: str, schemas: Mapping[str, pa.Schema]) -> Aggregate:
    owner = measure.table or table
    if measure.column is None or measure.function == "count":
        data_type = pa.int64()
    else:
        data_type = schemas[owner].field(measure.column).type
        family = family_of(data_type)
        if family != "null" and family not in _TAKES[measure.function]:
            hint = _SAYS[measure.function]
            if family == "text":
                wanted = "timestamp" if measure.function == "fresh" else "number"
                hint += f"; if the text stands for such, declare it: --type {measure.column}={wanted}"
            raise _refused(
                rule, f"there is no {measure.text}: the column holds {data_type} values", measure.column, hint
            )
    member = rule.where if owner == table else None
    return Aggregate(measure.function, owner, measure.column, member, data_type, measure.text)


def _limit(rule: Rule, left: Aggregate, amount: Amount, op: Op) -> Exact:
    if left.function == "fresh":
        return amount.seconds
    point = constant_for(amount.constant, left.data_type, ordered=op.is_order)
    if point is None or isinstance(point, str | bytes):
        raise _refused(
            rule,
            f"{left.text} is of type {left.data_type}, which does not compare with {amount.text}",
            left.text,
            "write a number"
            if left.family in NUMBERS
            else f"write the constant as a {left.data_type} value: date '2024-01-31', timestamp '2024-01-31 12:30:00'",
        )
    return point if isinstance(point, float) else point / left.units


def _refused(rule: Rule, message: str, name: str, hint: str) -> RuleError:
    message = f"rule {rule.name!r}: {message}"
    if rule.source is None:
        return RuleError(message, hint=hint)
    start, end = rule.source.span(name)
    return RuleError(message, text=rule.source.text, start=start, end=end, hint=hint)
