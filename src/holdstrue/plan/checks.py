"""The parts a rule is made of: checks of one row, of groups, of pairs, of references, of whole tables.

Every check says how many rows a violation has (`width`), whether a pair counts once rather than in each order
(`symmetric`), whether its violations lie in groups of rows that agree on `lhs` (`grouped`), and what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from holdstrue.index.protocol import Term
from holdstrue.plan.measures import Aggregate, Limit, Part, Values, said, violated
from holdstrue.rules.model import Condition, Op
from holdstrue.rules.terms import condition_columns

Equal: TypeAlias = tuple[tuple[str, str], ...]
"""Columns of t and of s that must agree, in one order."""


class _Alone:
    """A check whose violations are single rows."""

    width: ClassVar[int] = 1
    symmetric: ClassVar[bool] = False
    grouped: ClassVar[bool] = False
    nulls_equal: ClassVar[bool] = False
    lhs: ClassVar[tuple[str, ...]] = ()
    rhs: ClassVar[tuple[str, ...]] = ()
    equal: ClassVar[Equal] = ()


@dataclass(frozen=True)
class RowCheck(_Alone):
    """Rows for which `broken` is known to hold violate the rule."""

    rule: int
    table: str
    broken: Condition

    @property
    def conditions(self) -> tuple[Condition | None, ...]:
        """What the check asks of single rows of its table."""
        return (self.broken,)

    def columns(self, table: str) -> tuple[str, ...]:
        """The columns of a table that the check reads."""
        return _once(conditioned(self))


@dataclass(frozen=True)
class GroupCheck:
    """Rows that agree on `lhs` and differ on some of `rhs` violate the rule, pair by pair.

    With an empty `rhs` any two rows that agree violate it (a key). A row takes part where `member`
    holds, and its i-th right-hand value counts only where `asked[i]` holds.
    """

    width: ClassVar[int] = 2
    symmetric: ClassVar[bool] = True
    grouped: ClassVar[bool] = True

    rule: int
    table: str
    lhs: tuple[str, ...]
    rhs: tuple[str, ...]
    nulls_equal: bool
    member: Condition | None = None
    asked: tuple[Condition | None, ...] = ()

    @property
    def equal(self) -> Equal:
        """The columns that must agree."""
        return tuple((name, name) for name in self.lhs)

    @property
    def conditions(self) -> tuple[Condition | None, ...]:
        """What the check asks of single rows of its table."""
        return (self.member, *self.asked)

    def columns(self, table: str) -> tuple[str, ...]:
        """The columns of a table that the check reads."""
        return _once((*self.lhs, *self.rhs, *conditioned(self)))


@dataclass(frozen=True)
class PairCheck:
    """Pairs of distinct rows (t, s) that satisfy every term violate the rule."""

    width: ClassVar[int] = 2
    nulls_equal: ClassVar[bool] = False

    rule: int
    table: str
    terms: tuple[Term[str], ...]
    t_member: Condition | None = None
    s_member: Condition | None = None

    @property
    def symmetric(self) -> bool:
        """Every term compares a column with itself by = or != and both rows are chosen alike."""
        alike = (term.left == term.right and not term.op.is_order for term in self.terms)
        return all(alike) and self.t_member == self.s_member

    @property
    def lhs(self) -> tuple[str, ...]:
        """The columns of t that must agree with s."""
        return tuple(term.left for term in self.terms if term.op is Op.EQ)

    @property
    def rhs(self) -> tuple[str, ...]:
        """The columns of t that must differ from s."""
        return tuple(term.left for term in self.terms if term.op is Op.NE)

    @property
    def equal(self) -> Equal:
        """The columns that must agree."""
        return tuple(sorted({(term.left, term.right) for term in self.terms if term.op is Op.EQ}))

    @property
    def grouped(self) -> bool:
        """Whether the rule is a key or an FD with one right-hand column: rows that agree, and differ in one column."""
        return self.symmetric and bool(self.lhs) and len(self.rhs) <= 1

    @property
    def conditions(self) -> tuple[Condition | None, ...]:
        """What the check asks of single rows of its table."""
        return (self.t_member, self.s_member)

    def columns(self, table: str) -> tuple[str, ...]:
        """The columns of a table that the check reads."""
        compared = (name for term in self.terms for name in (term.left, term.right))
        return _once((*compared, *conditioned(self)))


@dataclass(frozen=True)
class ReferenceCheck(_Alone):
    """Rows whose (known) `referring` columns do not occur in `ref_columns` of `ref_table` violate the rule."""

    rule: int
    table: str
    referring: tuple[str, ...]
    ref_table: str
    ref_columns: tuple[str, ...]
    member: Condition | None = None

    @property
    def conditions(self) -> tuple[Condition | None, ...]:
        """What the check asks of single rows of its table."""
        return (self.member,)

    def columns(self, table: str) -> tuple[str, ...]:
        """The columns of a table that the check reads."""
        own = (*self.referring, *conditioned(self)) if self.table == table else ()
        return _once((*own, *(self.ref_columns if self.ref_table == table else ())))


@dataclass(frozen=True)
class MeasureCheck(_Alone):
    """The first of the measures must satisfy the limits, of which one may be the second measure."""

    width: ClassVar[int] = 0

    rule: int
    table: str
    measures: tuple[Aggregate, ...]
    limits: tuple[Limit, ...]

    @property
    def conditions(self) -> tuple[Condition | None, ...]:
        """What the check asks of single rows of its table."""
        return tuple(dict.fromkeys(measure.member for measure in self.measures))

    @property
    def timed(self) -> bool:
        """Whether it may be violated by the passing of time alone."""
        return self.measures[0].function == "fresh"

    def columns(self, table: str) -> tuple[str, ...]:
        """The columns of a table that the check reads."""
        return _once(name for measure in self.measures if measure.table == table for name in measure.columns)

    def values(self, parts: Sequence[Part]) -> Values:
        """The measures, from what is kept of each."""
        return tuple(measure.value(part) for measure, part in zip(self.measures, parts, strict=True))

    def broken(self, parts: Sequence[Part], moment: int) -> bool:
        """Whether the rule is violated at a moment, in nanoseconds since 1970."""
        return violated(self.measures, self.limits, self.values(parts), moment)

    def said(self, parts: Sequence[Part], moment: int) -> str:
        """The measures in words, and what is expected of them."""
        return said(self.measures, self.limits, self.values(parts), moment)


Check: TypeAlias = RowCheck | GroupCheck | PairCheck | ReferenceCheck | MeasureCheck


def conditioned(check: Check) -> tuple[str, ...]:
    """The columns whose values a check looks at one by one, beyond comparing them with those of other rows."""
    return _once(name for condition in check.conditions for name in condition_columns(condition))


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
