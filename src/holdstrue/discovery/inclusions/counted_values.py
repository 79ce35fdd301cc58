"""Counted values of one shard: the attributes that hold each value, and in how many rows (the paper's generator).

Memory: a value takes 4 bytes and 27 to 37 for its digest and cell, an attribute that holds it 12:
56 bytes a value at ten million values of which most are in one column, 61 at one million.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdstrue.discovery.inclusions.attributes import Attribute
from holdstrue.discovery.inclusions.net_changes import NetChanges, ValueCounts
from holdstrue.errors import ChangeError
from holdstrue.index.arrays import MOST_SLOTS, Numbering, Snapshot, nested, room, with_slack
from holdstrue.index.checked import Checked
from holdstrue.kernels import value_chains as kernels
from holdstrue.typing import I32, I64, U64

COMPACT_FROM = 4096
"""Fewer values than this are never compacted. Chosen, not tuned."""


class Values:
    """Values by digest, each with a chain of (attribute, count)."""

    def __init__(self, attributes: int) -> None:
        self._numbers = Numbering()
        self._head = np.full(64, -1, dtype=np.int32)
        self._nodes = np.empty((64, 3), dtype=np.int32)
        self._ends = np.array([0, -1], dtype=np.int64)
        self.living = 0
        self._scratch(attributes)

    def _scratch(self, attributes: int) -> None:
        self._delta = np.zeros(attributes, dtype=np.int32)
        self._sets = np.empty((3, attributes), dtype=np.int32)

    def __len__(self) -> int:
        return len(self._numbers)

    def extend(self, attributes: int) -> None:
        """Make room for attributes that come later; their numbers follow those there are."""
        self._scratch(attributes)

    def insert(self, column: ValueCounts) -> None:
        """Add the values of an attribute that holds none yet. Complexity: O(values)."""
        numbers = self._assign(column.hi, column.lo)
        before = int((self._head[numbers] < 0).sum())
        self._nodes = room(self._nodes, int(self._ends[0]) + numbers.size)
        self._ends[0] = kernels.append_attribute(
            self._head, self._nodes, int(self._ends[0]), numbers, column.counts, column.attribute
        )
        self.living += before

    def number(self, tally: NetChanges) -> I32:
        """Numbers of the changed values; refuses changes that would take a count below zero."""
        numbers = self._assign(tally.hi, tally.lo)
        bad = kernels.lacking(
            self._head, self._nodes, numbers, tally.offsets, tally.attributes, tally.nets, self._delta
        )
        if bad >= 0:
            raise LackingError(int(tally.attributes[bad]), -int(tally.nets[bad]))
        self._nodes = room(self._nodes, int(self._ends[0]) + tally.changes)
        return numbers

    def shift(self, numbers: I32, tally: NetChanges, shared: I64) -> None:
        """Apply numbered changes, and count in `shared[a, b]` the values that both hold."""
        self.living += kernels.shift(*self._changed(numbers, tally), shared)

    def reassign(self, numbers: I32, tally: NetChanges) -> tuple[I32, U64]:
        """Apply numbered changes; returns which groups changed their attribute set, and their new sets as bits."""
        moved = np.empty(numbers.size, dtype=np.int32)
        words = np.empty((numbers.size, words_for(self._delta.size)), dtype=np.uint64)
        count, grown = kernels.reassign(*self._changed(numbers, tally), moved, words)
        self.living += grown
        return moved[:count], words[:count]

    def _changed(self, numbers: I32, changes: NetChanges) -> tuple[I32, I32, I64, I32, I64, I32, I32, I32, I32]:
        """The chains, numbered changes and scratch, as kernels take them."""
        own = self._head, self._nodes, self._ends
        return *own, numbers, changes.offsets, changes.attributes, changes.nets, self._delta, self._sets

    def count_shared(self, shared: I64, *, rows: bool = False) -> None:
        """Add the values (or with `rows` the first one's rows) that two attributes share. Complexity: O(values)."""
        kernels.count_shared(self._head, self._nodes, len(self), rows, shared, self._sets[0])

    def attribute_sets(self, start: int, end: int) -> U64:
        """The attributes that hold the values numbered `start` to `end`, as bits."""
        words = np.empty((end - start, words_for(self._delta.size)), dtype=np.uint64)
        kernels.attribute_sets(self._head, self._nodes, start, end, words)
        return words

    def frequencies(self, hi: U64, lo: U64) -> list[dict[int, int]]:
        """For each of a few values the attributes that hold it, with the number of their rows."""
        found = []
        for number in self._numbers.find(hi, lo, np.ones(hi.size, dtype=np.bool_)):
            counts: dict[int, int] = {}
            at = -1 if number < 0 else int(self._head[number])
            while at >= 0:
                counts[int(self._nodes[at, 0])] = int(self._nodes[at, 1])
                at = int(self._nodes[at, 2])
            found.append(counts)
        return found

    def find(self, hi: U64, lo: U64) -> I32:
        """Numbers of values, -1 for unknown ones."""
        return self._numbers.find(hi, lo, np.ones(hi.size, dtype=np.bool_))

    def compact(self) -> I64 | None:
        """Forget values that no attribute holds once they are most; returns the old numbers of those that stay.

        Complexity: O(values) when it does so, which is O(1) for each value that vanished.
        """
        if len(self) < COMPACT_FROM or 2 * self.living > len(self):
            return None
        staying = np.flatnonzero(self._head[: len(self)] >= 0)
        hi, lo = self._numbers.keys()
        hi, lo = hi[staying], lo[staying]
        self._numbers = Numbering()
        self._head = self._head[staying]
        self._assign(hi, lo)
        self.pack()
        return staying

    def pack(self) -> None:
        """Lay every chain out in one piece, as after loading column by column it is not. Complexity: O(values).

        At 10M values in 400 columns a batch took 23 us a row on scattered chains.
        """
        packed = np.empty((int(self._ends[0]), 3), dtype=np.int32)
        used = kernels.repack(self._head[: len(self)], self._nodes, packed)
        self._nodes, self._ends[:] = with_slack(packed, used), (used, -1)

    def _assign(self, hi: U64, lo: U64) -> I32:
        numbers = self._numbers.assign(hi, lo, np.ones(hi.size, dtype=np.bool_))
        self._head = room(self._head, len(self), fill=-1)
        return numbers

    def size_bytes(self) -> int:
        """Memory held."""
        return self._numbers.size_bytes() + self._head.nbytes + self._nodes.nbytes

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        return {
            "head": with_slack(self._head, len(self), fill=-1),
            "nodes": with_slack(self._nodes, int(self._ends[0])),
            "ends": np.append(self._ends, self.living),
            **nested("numbers", self._numbers.snapshot()),
        }

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot (they will be written to). Complexity: O(values)."""
        self._numbers.restore(arrays.part("numbers"))
        used, free, self.living = arrays.few("ends", -1, MOST_SLOTS, 3)
        arrays.require(used >= 0, f"{used} nodes are in use")
        self._head = arrays.index("head", -1, used - 1, len(self), fill=-1)
        self._nodes = arrays.array("nodes", np.int32, (used, 3), grows=0)
        living = kernels.sound(self._head[: len(self)], self._nodes, used, free, self._delta.size)
        arrays.require(living == self.living, f"the attributes of its {self.living} values are not told apart")
        self._ends = np.array([used, free], dtype=np.int64)


class LackingError(ChangeError):
    """A batch removes a value more often than the attribute holds it."""

    def __init__(self, attribute: int, times: int) -> None:
        self.attribute, self.times = attribute, times
        super().__init__(f"attribute {attribute} does not hold a value {times} times that the batch removes")

    def told(self, columns: Sequence[Attribute]) -> ChangeError:
        """The same with the column that the number stands for."""
        column = columns[self.attribute]
        return ChangeError(
            f"the batch removes rows with a value {self.times} times more often than it is in "
            f"{column.table}.{column.columns[0]}",
            hint="remove only rows that are in the table, with the values they have there",
        )


def words_for(attributes: int) -> int:
    """Words of 64 bits that hold a set of attributes."""
    return max(1, (attributes + 63) // 64)
