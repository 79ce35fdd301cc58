"""One batch as detectors see it, and what every detector can: count what it does to one check, and list what stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.buffers import plain
from holdstrue.data.coding import Coded, Domain, encode
from holdstrue.data.labels import Labels
from holdstrue.detect.clock import Clock
from holdstrue.detect.costs import Counting, Estimate
from holdstrue.index.arrays import Snapshot
from holdstrue.index.checked import Checked
from holdstrue.index.rows import Rows
from holdstrue.plan.checks import Check
from holdstrue.typing import I32, I64

Pairs = I32


@dataclass
class NewRows:
    """Columns of the rows that come in, coded once for all checks."""

    table: str
    values: pa.Table
    domains: dict[str, tuple[int, Domain]]
    labels: dict[int, Labels]
    ordered: frozenset[str] = frozenset()
    """Columns of which only the order counts, so that their values need no digests."""
    _arrays: dict[str, pa.Array] = field(default_factory=dict)
    _coded: dict[str, Coded] = field(default_factory=dict)

    def column(self, name: str) -> pa.Array:
        """A column as one array."""
        if name not in self._arrays:
            column = self.values.column(name)
            if pa.types.is_dictionary(column.type):
                column = pa.chunked_array([plain(column)])
            self._arrays[name] = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
            if isinstance(self._arrays[name], pa.ChunkedArray):
                self._arrays[name] = pa.concat_arrays(self._arrays[name].chunks)
        return self._arrays[name]

    def coded(self, name: str) -> Coded:
        """A column's codes in its domain."""
        if name not in self._coded:
            number, domain = self.domains[name]
            self._coded[name] = encode(
                self.column(name), domain, name=name, labels=self.labels.get(number), digested=name not in self.ordered
            )
        return self._coded[name]


@dataclass(frozen=True)
class Batch:
    """What a batch does to one table.

    `old` are the slots of versions that were removed, `new` those of versions that came in, ascending
    and from `first_new` on; slots between them are of rows that came and went within the batch.
    `old_twin` and `new_twin` give the other version of an updated row, -1 where a row was only removed
    or only inserted.
    """

    rows: Rows
    first_new: int
    incoming: NewRows
    old: I32
    new: I32
    old_twin: I32
    new_twin: I32
    threads: int = 1
    """How many threads may share out the work."""

    @property
    def leaves_few(self) -> bool:
        """Whether fewer rows stay than go, so that counting what stays is less work than counting out what goes."""
        return self.old.size > self.staying

    @property
    def staying(self) -> int:
        """How many rows there were before and are there still."""
        return self.rows.living - self.new.size

    def put(self, by_slot: NDArray[Any], values: NDArray[Any], nothing: int) -> None:
        """Write what the new rows have into an array by slot; rows that came and went have `nothing`."""
        if self.new.size < self.rows.size - self.first_new:
            by_slot[self.first_new : self.rows.size] = nothing
        by_slot[self.new] = values


@dataclass(frozen=True)
class Outcome:
    """What one check makes of a batch: exact counts, and the violations themselves up to a limit.

    Lists have one column of slots for violations of one row and two, (t, s), for pairs.
    """

    added: int
    removed: int
    added_list: Pairs
    removed_list: Pairs


def no_pairs(width: int = 2) -> Pairs:
    """An empty list of violations."""
    return np.empty((0, width), dtype=np.int32)


def nothing(width: int) -> Outcome:
    """What a check makes of a batch that does not touch its tables."""
    return Outcome(0, 0, no_pairs(width), no_pairs(width))


def first(chunks: Iterator[Pairs], limit: int) -> Pairs:
    """The first rows of a stream of chunks."""
    taken: list[Pairs] = []
    for part in chunks:
        taken.append(part[:limit])
        limit -= taken[-1].shape[0]
        if limit <= 0:
            break
    return np.concatenate(taken) if taken else no_pairs()


Batches: TypeAlias = Mapping[str, Batch]
"""By table what a batch does to its rows."""


class Detector(ABC):
    """The violations of one check, kept current; rows are named by slot.

    The check knows the width, the symmetry and the columns of its violations. What is said here of groups and pairs
    fits checks that single rows violate; others say more.
    """

    check: Check
    rows: int = 0
    """Rows in at least one violation."""
    pairs: int = 0
    """Violating pairs; none where single rows violate."""
    estimate: Estimate | Counting | None = None
    """How the last batch was counted, and what other ways were estimated to cost; None where there was no choice."""

    @property
    def groups(self) -> int:
        """Groups of a key or an FD with a violation."""
        return 0

    @property
    def open(self) -> int:
        """Violations: pairs, or rows where single rows violate."""
        return self.rows if self.check.width == 1 else self.pairs

    @abstractmethod
    def apply(self, batches: Batches, limit: int) -> Outcome:
        """Count old rows out and new ones in, and list up to `limit` violations that came and that went."""

    @abstractmethod
    def violating(self) -> I32:
        """Slots of rows in a violation, ascending."""

    def violations(self) -> Iterator[Pairs]:
        """Chunks of violations: one column of slots, or two for pairs."""
        slots = self.violating()
        if slots.size:
            yield slots[:, None]

    def violations_of(self, slot: int) -> Pairs:
        """The violations that one row is in. Complexity: O(their number), and what finding a row's partners costs."""
        own = np.array([slot], dtype=np.int32)
        return own[self.degrees(own) > 0][:, None]

    @abstractmethod
    def degrees(self, slots: I32) -> I64:
        """How many violations each row is in."""

    @property
    def group_by_slot(self) -> I32:
        """By slot: the group of rows that agree on the check's columns, seen as t."""
        raise TypeError(f"no groups in {self.check!r}")

    def violating_groups(self) -> I32:
        """Groups with a violation. Complexity: that of `violating`, and one sort of it."""
        return np.unique(self.group_by_slot[self.violating()]).astype(np.int32)

    def representatives(self) -> I32:
        """The first violating row of each violating group. Complexity: as `violating_groups`."""
        slots = self.violating()
        return slots[np.unique(self.group_by_slot[slots], return_index=True)[1]]

    def conflicting(self, group: int) -> list[I32]:
        """Rows of a violating group: one array for each right-hand side that occurs (each row, for a key)."""
        raise TypeError(f"no groups in {self.check!r}")

    def measured(self) -> str | None:
        """What the check measures, in words; None where it looks at rows."""
        return None

    def at(self, clock: Clock) -> Detector:
        """The same judged by another clock, where time matters to the check."""
        return self

    def explain(self) -> list[str]:
        """What the structures behind it say of the check, for people."""
        return []

    @abstractmethod
    def size_bytes(self) -> int:
        """Memory held beside what rules share."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""

    @abstractmethod
    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot."""
