"""Numbers that stand for a whole table, and what they are held against: `orders.sum(total)`, `1000`, `2 days`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeAlias

from holdstrue.operators import Op
from holdstrue.rules.terms import Constant
from holdstrue.rules.text import constant_text
from holdstrue.rules.tokens import name_text

Function: TypeAlias = Literal["count", "sum", "min", "max", "fresh"]

FUNCTIONS: dict[str, Function] = {"count": "count", "sum": "sum", "min": "min", "max": "max", "fresh": "fresh"}
"""The functions of measures by the words that rules name them with."""

UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
"""Units of time in seconds; a rule may write them in the plural."""


@dataclass(frozen=True)
class Measure:
    """A number that stands for the rows of a table: how many there are, or what becomes of one of their columns.

    >>> Measure("sum", "total", "orders").text, Measure("count").text
    ('orders.sum(total)', 'count()')
    """

    function: Function
    column: str | None = None
    table: str | None = None
    """The table it is of; None for the one that the rule speaks of."""

    @property
    def text(self) -> str:
        """As rule text."""
        of = "" if self.table is None else f"{name_text(self.table)}."
        return f"{of}{self.function}({'' if self.column is None else name_text(self.column)})"

    @property
    def words(self) -> str:
        """What it is, for people."""
        of = "" if self.table is None else f" of {self.table}"
        match self.function:
            case "count":
                what = "rows" if self.column is None else f"known values of {self.column}"
                return f"the number of {what}{of}"
            case "sum":
                return f"the sum of {self.column}{of}"
            case "min":
                return f"the smallest {self.column}{of}"
            case "max":
                return f"the largest {self.column}{of}"
            case "fresh":
                return f"the age of the newest {self.column}{of}"


@dataclass(frozen=True)
class Amount:
    """A constant that a measure is held against, of time in a unit.

    >>> Amount(Constant(2), "day").text, Amount(Constant(2), "day").seconds
    ('2 days', Fraction(172800, 1))
    """

    constant: Constant
    unit: str | None = None

    @property
    def text(self) -> str:
        """As rule text."""
        written = constant_text(self.constant)
        return written if self.unit is None else f"{written} {self.unit}{'' if self.constant.value == 1 else 's'}"

    @property
    def words(self) -> str:
        """What it is, for people."""
        return self.text

    @property
    def seconds(self) -> Fraction:
        """A length of time in seconds."""
        value = self.constant.value
        if self.unit is None or isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise TypeError(f"{self.text} is no length of time")
        return Fraction(value) * UNITS[self.unit]

    def in_seconds(self) -> Amount:
        """The same for all ways of writing a length of time; other amounts as they are."""
        if self.unit is None:
            return self
        seconds = self.seconds
        if seconds.denominator == 1:
            return Amount(Constant(int(seconds)), "second")
        return Amount(Constant(float(seconds)), "second") if Fraction(float(seconds)) == seconds else self


@dataclass(frozen=True)
class Bound:
    """What a measure must satisfy: a comparison with a constant or with another measure."""

    op: Op
    right: Measure | Amount

    @property
    def text(self) -> str:
        """As rule text."""
        return f"{self.op} {self.right.text}"


def bounds_text(bounds: tuple[Bound, ...]) -> str:
    """What comes after the measure in the text of a rule.

    >>> bounds_text((Bound(Op.GE, Amount(Constant(1))), Bound(Op.LE, Amount(Constant(5)))))
    'between 1 and 5'
    """
    if [bound.op for bound in bounds] == [Op.GE, Op.LE]:
        low, high = bounds
        return f"between {low.right.text} and {high.right.text}"
    [only] = bounds
    return only.text


def idle(measure: Measure, bound: Bound) -> bool:
    """Whether a bound holds whatever the rows are: no count is below zero or broken."""
    if isinstance(bound.right, Measure):
        return bound.right == measure and bound.op in (Op.EQ, Op.LE, Op.GE)
    value = bound.right.constant.value
    if measure.function != "count" or isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return False
    if not math.isfinite(value):
        return (bound.op in (Op.LT, Op.LE) and not value < 0) or (bound.op in (Op.GT, Op.GE) and value < 0)
    if bound.op is Op.GE:
        return value <= 0
    if bound.op is Op.GT:
        return value < 0
    return bound.op is Op.NE and (value < 0 or value != int(value))


def empty(bounds: tuple[Bound, ...]) -> bool:
    """Whether nothing lies between two bounds: the upper one is below the lower one."""
    if len(bounds) < 2:
        return False
    low, high = (bound.right for bound in bounds)
    if isinstance(low, Measure) or isinstance(high, Measure):
        return False
    if low.unit is not None and high.unit is not None:
        return low.seconds > high.seconds
    try:
        return bool(low.constant.value > high.constant.value)  # type: ignore[operator]
    except TypeError:
        return False  # whether they compare is told by the column that they are held against


def with_constant(bound: Bound, constant: Constant) -> Bound:
    """The bound with another constant in the place of its own."""
    if isinstance(bound.right, Measure):
        return bound
    return replace(bound, right=replace(bound.right, constant=constant))
