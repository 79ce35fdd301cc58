"""The parts a rule is made of: checks of one row, of groups, of pairs, of references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from holdstrue.rules.model import Condition, Op


@dataclass(frozen=True)
class RowCheck:
    """Rows for which `broken` is known to hold violate the rule."""

    rule: int
    table: str
    broken: Condition


@dataclass(frozen=True)
class GroupCheck:
    """Rows that agree on `lhs` and differ on some of `rhs` violate the rule, pair by pair.

    With an empty `rhs` any two rows that agree violate it (a key). A row takes part where `member`
    holds, and its i-th right-hand value counts only where `asked[i]` holds.
    """

    rule: int
    table: str
    lhs: tuple[str, ...]
    rhs: tuple[str, ...]
    nulls_equal: bool
    member: Condition | None = None
    asked: tuple[Condition | None, ...] = ()

    @property
    def grouped(self) -> bool:
        """Its violations lie in groups."""
        return True


@dataclass(frozen=True)
class PairTerm:
    """`t.left op s.right`."""

    left: str
    op: Op
    right: str


@dataclass(frozen=True)
class PairCheck:
    """Pairs of distinct rows (t, s) that satisfy every term violate the rule."""

    rule: int
    table: str
    terms: tuple[PairTerm, ...]
    t_member: Condition | None = None
    s_member: Condition | None = None

    @property
    def symmetric(self) -> bool:
        """Every term compares a column with itself by = or != and both rows are chosen alike."""
        plain = all(term.left == term.right and not term.op.is_order for term in self.terms)
        return plain and self.t_member == self.s_member

    @property
    def lhs(self) -> tuple[str, ...]:
        """The columns of t that must agree with s."""
        return tuple(term.left for term in self.terms if term.op is Op.EQ)

    @property
    def rhs(self) -> tuple[str, ...]:
        """The columns of t that must differ from s."""
        return tuple(term.left for term in self.terms if term.op is Op.NE)

    @property
    def grouped(self) -> bool:
        """Whether the rule is a key or an FD with one right-hand column: rows that agree, and differ in one column."""
        return self.symmetric and bool(self.lhs) and len(self.rhs) <= 1


@dataclass(frozen=True)
class ReferenceCheck:
    """Rows whose (known) `columns` do not occur in `ref_columns` of `ref_table` violate the rule."""

    rule: int
    table: str
    columns: tuple[str, ...]
    ref_table: str
    ref_columns: tuple[str, ...]
    member: Condition | None = None


Check: TypeAlias = RowCheck | GroupCheck | PairCheck | ReferenceCheck
