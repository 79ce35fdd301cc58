"""What rules are made of: columns, constants, comparisons, patterns and conditions, as frozen data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from holdstrue.operators import Op

Scalar: TypeAlias = bool | int | float | Decimal | str | dt.date | dt.datetime
Var: TypeAlias = Literal["t", "s"]


@dataclass(frozen=True)
class Column:
    """A column of one of the rule's rows: `t.salary`."""

    var: Var
    name: str

    @property
    def other_row(self) -> Column:
        """The same column of the other row."""
        return Column("s" if self.var == "t" else "t", self.name)


@dataclass(frozen=True)
class Constant:
    """A literal value in a rule.

    `written` is how a number stands in the rule where that is not how it prints (01907, +5, 1.50): on a column of text
    it is that text.
    """

    value: Scalar
    written: str | None = None


def number_as_written(value: Scalar, text: str) -> Constant:
    """The constant of a number that stands so in a rule.

    >>> number_as_written(1907, "01907"), number_as_written(5, "5")
    (Constant(value=1907, written='01907'), Constant(value=5, written=None))
    """
    return Constant(value, None if text == str(value) else text)


@dataclass(frozen=True)
class Predicate:
    """One comparison of a denial constraint; the left side is always a column."""

    left: Column
    op: Op
    right: Column | Constant

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns it reads, left first."""
        return (self.left, self.right) if isinstance(self.right, Column) else (self.left,)

    @property
    def swapped(self) -> Predicate:
        """The same with t and s exchanged.

        >>> Predicate(Column("t", "a"), Op.LT, Column("s", "b")).swapped
        Predicate(left=Column(var='s', name='a'), op=<Op.LT: '<'>, right=Column(var='t', name='b'))
        """
        right = self.right.other_row if isinstance(self.right, Column) else self.right
        return Predicate(self.left.other_row, self.op, right)


def across(column: str, op: Op) -> Predicate:
    """A column of t compared with the same column of s."""
    return Predicate(Column("t", column), op, Column("s", column))


def columns_of(predicate: Predicate) -> tuple[Column, ...]:
    """The columns a predicate reads, left first."""
    return predicate.columns


@dataclass(frozen=True)
class Pattern:
    """One row of a pattern tableau; None stands for the unnamed variable `_`."""

    lhs: tuple[Constant | None, ...]
    rhs: tuple[Constant | None, ...]


@dataclass(frozen=True)
class Read:
    """A column that a rule reads, and what it is compared with: a column, a constant, or (None) other rows' values."""

    column: str
    op: Op = Op.EQ
    right: str | Constant | None = None
    as_text: bool = False
    """Whether it asks what stands in a text, which only columns of text can answer."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read, left first."""
        return (self.column, self.right) if isinstance(self.right, str) else (self.column,)


@dataclass(frozen=True)
class Comparison:
    """`column op constant` or `column op column` in a `where` filter."""

    column: str
    op: Op
    right: Constant | str


@dataclass(frozen=True)
class IsNull:
    """`column is null`, or with `negated` `column is not null`."""

    column: str
    negated: bool = False


@dataclass(frozen=True)
class Matches:
    """`column matches 'shape'`: the shape (see `shapes`) occurs in the text."""

    column: str
    shape: str


@dataclass(frozen=True)
class Length:
    """`len(column) op number`: how many characters a text has."""

    column: str
    op: Op
    size: int


@dataclass(frozen=True)
class Not:
    """Negation in a `where` filter (unknown stays unknown)."""

    operand: Condition


@dataclass(frozen=True)
class All:
    """Conjunction in a `where` filter."""

    operands: tuple[Condition, ...]


@dataclass(frozen=True)
class Any:
    """Disjunction in a `where` filter."""

    operands: tuple[Condition, ...]


Condition: TypeAlias = Comparison | IsNull | Matches | Length | Not | All | Any


def reads_of(condition: Condition | None) -> Iterator[Read]:
    """What a condition reads, comparison by comparison: the one walk over conditions.

    >>> [read.columns for read in reads_of(All((IsNull("a"), Not(Comparison("b", Op.LT, "c")))))]
    [('a',), ('b', 'c')]
    """
    match condition:
        case Comparison(column, op, right):
            yield Read(column, op, right)
        case IsNull(column):
            yield Read(column)
        case Matches(column) | Length(column):
            yield Read(column, as_text=True)
        case Not(operand):
            yield from reads_of(operand)
        case All(operands) | Any(operands):
            for operand in operands:
                yield from reads_of(operand)


def with_constants(condition: Condition, change: Callable[[Constant], Constant]) -> Condition:
    """A condition with every constant changed."""
    match condition:
        case Comparison(column, op, Constant() as constant):
            return Comparison(column, op, change(constant))
        case Not(operand):
            return Not(with_constants(operand, change))
        case All(operands):
            return All(tuple(with_constants(operand, change) for operand in operands))
        case Any(operands):
            return Any(tuple(with_constants(operand, change) for operand in operands))
    return condition


def condition_columns(condition: Condition | None) -> tuple[str, ...]:
    """The columns of a condition, each once, in order of appearance."""
    return tuple(dict.fromkeys(name for read in reads_of(condition) for name in read.columns))


@dataclass(frozen=True)
class Source:
    """Where a rule came from, for messages that underline the place.

    `spans` maps a name as the rule uses it (a column, `t.column`, or a predicate's text form) to
    its first position in `text`.
    """

    text: str
    spans: tuple[tuple[str, int, int], ...] = ()

    def span(self, name: str) -> tuple[int, int]:
        """The place of `name`, or the whole text when it was not recorded."""
        for known, start, end in self.spans:
            if known == name:
                return start, end
        return 0, len(self.text)
