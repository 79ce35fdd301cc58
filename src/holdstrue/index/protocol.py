"""What every index of row pairs can, wants and says, so that one can stand in for another; and the indexes by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

from holdstrue.errors import HoldstrueError
from holdstrue.index.arrays import Snapshot
from holdstrue.index.checked import Checked
from holdstrue.operators import Op
from holdstrue.typing import I32, I64, U8

Slots: TypeAlias = I32
Codes: TypeAlias = I64

T_ROLE = 1
S_ROLE = 2

Name = TypeVar("Name", bound=int | str)


@dataclass(frozen=True)
class Term(Generic[Name]):
    """One predicate `t.left op s.right` of a two-row rule; an index knows columns by number, a plan by name.

    >>> print(Term("salary", Op.GT, "salary"), Term(0, Op.EQ, 1))
    t.salary > s.salary t.0 = s.1
    """

    left: Name
    op: Op
    right: Name

    def __str__(self) -> str:
        return f"t.{self.left} {self.op} s.{self.right}"


@dataclass(frozen=True)
class Shape:
    """The two-row part of a rule: what a pair (t, s) of distinct rows must never satisfy together."""

    terms: tuple[Term[int], ...]


class PairRows(Protocol):
    """What an index may read of the rows: codes, the roles they may play, and the groups they are in.

    A row version is named by its slot. Codes compare as the values do (equality for all columns,
    order for columns that a term orders).
    """

    @property
    def alive(self) -> U8:
        """By slot: 0 for row versions that were removed."""
        ...

    def codes(self, column: int) -> Codes:
        """Codes of a column by slot (at least as long as the largest slot in use)."""
        ...

    @property
    def roles(self) -> Sequence[U8]:
        """By check and slot: T_ROLE if the row may be t in that check, plus S_ROLE if it may be s (else 0)."""
        ...

    def groups(self, check: int) -> tuple[Slots, Slots]:
        """By slot: the group of rows with equal equality columns that a row is in as t and as s, -1 for none."""
        ...

    @property
    def lopsided(self) -> Sequence[bool]:
        """By check: whether its two roles ask for different rows or different equality columns."""
        ...


@dataclass(frozen=True)
class Hits:
    """Partners found by a probe: `queries[i]` is a position in the probed slots, `partners[i]` a slot."""

    queries: I64
    partners: Slots


class PairIndex(Protocol):
    """All two-row checks of a table in one structure; `INDEXES` has them by name."""

    reads_equalities: ClassVar[bool]
    """Whether it compares the codes of equality terms itself; otherwise it goes by the groups of the rows."""
    takes_keys: ClassVar[bool]
    """Whether keys and FDs are searched here too, pair by pair; otherwise they are counted by group."""
    keeps_arrays: ClassVar[bool]
    """Whether `snapshot` holds the rows; otherwise they are inserted again after `restore`."""

    def __init__(self, shapes: Sequence[Shape], rows: PairRows) -> None: ...

    def insert(self, slots: Slots) -> None:
        """Add rows; each enters the roles that `PairRows.roles` gives it."""
        ...

    def settle(self, check: int) -> None:
        """Take in for a check what may have waited, so that probes of many rows need not."""
        ...

    def remove(self, slots: Slots) -> None:
        """Take rows out again."""
        ...

    def probe(self, check: int, slots: Slots, role: int) -> Iterator[Hits]:
        """Rows inside that complete a violation when the probed rows (inside or not) play `role`.

        A probed row is never its own partner unless the index goes by groups. With T_ROLE the partners
        are the s of pairs (probed, partner); with S_ROLE they are the t of pairs (partner, probed).
        Probed rows that may not play `role` have no partners. Hits come in chunks.
        """
        ...

    def probe_among(self, check: int, slots: Slots) -> Iterator[Hits]:
        """Partners s of each of the rows as t, among the same rows; `partners` are positions in `slots`."""
        ...

    def hits_about(self, check: int, slots: Slots, role: int, most: int) -> float:
        """About how many partners a probe finds for each of a few rows, judged by `most` of them."""
        ...

    def unsearched(self, check: int) -> tuple[Term[int], ...]:
        """Terms that probes do not take care of, so that their answers are candidates only."""
        ...

    @staticmethod
    def outline(terms: Sequence[Term[str]]) -> list[str]:
        """How a check of these terms will be served, for people who read a plan."""
        ...

    def explain(self, check: int) -> list[str]:
        """How a check is served now, with columns by number, for people."""
        ...

    def size_bytes(self) -> int:
        """Memory held."""
        ...

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state; none where it is rebuilt."""
        ...

    def restore(self, arrays: Checked, slots: int) -> None:
        """Take over the arrays of a snapshot of so many slots."""
        ...


IndexKind: TypeAlias = Literal["blocks", "lt_tree", "chains"]

INDEXES: dict[str, tuple[str, str]] = {
    "blocks": ("holdstrue.index.blocks", "BlockIndex"),
    "lt_tree": ("holdstrue.papers.bitmaps", "LTTreeIndex"),
    "chains": ("holdstrue.papers.chains", "ChainIndex"),
}
"""By name the module and the class of an index."""


def index_type(name: str) -> type[PairIndex]:
    """The class of an index, which says what it wants before there is one.

    Examples
    --------
    >>> index_type("blocks").takes_keys, index_type("chains").takes_keys
    (False, True)
    """
    if name not in INDEXES:
        *most, last = INDEXES
        raise HoldstrueError(f"no index {name!r}", hint=f"choose {', '.join(most)} or {last}")
    module, kind = INDEXES[name]
    found: type[PairIndex] = getattr(import_module(module), kind)
    return found
