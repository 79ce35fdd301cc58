"""The few verbs every index of row pairs speaks, so that one can stand in for another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from holdstrue.rules.model import Op
from holdstrue.typing import I32, I64, U8

Slots: TypeAlias = I32
Codes: TypeAlias = I64

T_ROLE = 1
S_ROLE = 2


@dataclass(frozen=True)
class Term:
    """One predicate `t.left op s.right` of a two-row rule, over numbered code columns."""

    left: int
    op: Op
    right: int


@dataclass(frozen=True)
class Shape:
    """The two-row part of a rule: what a pair (t, s) of distinct rows must never satisfy together."""

    terms: tuple[Term, ...]

    @property
    def symmetric(self) -> bool:
        """Every term compares a column with itself by = or !=, so (t, s) and (s, t) are one violation."""
        return all(term.left == term.right and not term.op.is_order for term in self.terms)


class RowCodes(Protocol):
    """What an index may read of the rows: their codes and the roles they may play.

    A row version is named by its slot. Codes compare as the values do (equality for all columns,
    order for columns that a term orders).
    """

    def codes(self, column: int) -> Codes:
        """Codes of a column by slot (at least as long as the largest slot in use)."""
        ...

    def roles(self, check: int) -> U8:
        """By slot: T_ROLE if the row may be t in that check, plus S_ROLE if it may be s (else 0)."""
        ...


class GroupedRows(RowCodes, Protocol):
    """Rows whose equality columns are numbered already, for indexes that build on groups."""

    @property
    def alive(self) -> U8:
        """By slot: 0 for row versions that were removed."""
        ...

    def groups(self, check: int) -> tuple[Slots, Slots]:
        """By slot: the group a row is in as t and as s, -1 for none."""
        ...

    def lopsided(self, check: int) -> bool:
        """Whether the two roles of a check ask for different rows or different equality columns."""
        ...


@dataclass(frozen=True)
class Hits:
    """Partners found by a probe: `queries[i]` is a position in the probed slots, `partners[i]` a slot."""

    queries: I64
    partners: Slots


class PairIndex(Protocol):
    """All two-row checks of a table in one structure."""

    def insert(self, slots: Slots) -> None:
        """Add rows; each enters the roles that `RowCodes.roles` gives it."""
        ...

    def remove(self, slots: Slots) -> None:
        """Take rows out again."""
        ...

    def probe(self, check: int, slots: Slots, role: int) -> Iterator[Hits]:
        """Rows inside that complete a violation when the probed rows (inside or not) play `role`.

        A probed row is never its own partner. With T_ROLE the partners are the s of pairs
        (probed, partner); with S_ROLE they are the t of pairs (partner, probed). Probed rows that
        may not play `role` have no partners. Hits come in chunks.
        """
        ...
