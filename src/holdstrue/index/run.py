"""One immutable sorted run of rows, with a chain, blocks and fences for each group (see `kernels.runs`).

Memory: 20 bytes a row, 0.5 for fences and 12 a distinct group of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdstrue.index.arrays import MOST_SLOTS, Snapshot
from holdstrue.index.checked import Checked
from holdstrue.kernels import bounds
from holdstrue.kernels import runs as kernels
from holdstrue.kernels.sorting import SMALL, argsort
from holdstrue.typing import I32, I64, U8

CHUNK = 1 << 16
"""Hits a chunk: 1 MB of output stays in the second-level cache."""


@dataclass(frozen=True)
class Run:
    """Rows of one spine, by group and first attribute.

    Examples
    --------
    Five rows (a, b) in two groups; which of group 0 have a <= 2 and b >= 20?

    >>> group, slots = np.array([0, 0, 1, 0, 1], dtype=np.int32), np.arange(5, dtype=np.int32)
    >>> run = Run.build(group, np.array([3, 1, 1, 2, 2]), np.array([30, 10, 10, 20, 20]), slots, rising=True)
    >>> run.slots.tolist(), run.starts.tolist()
    ([1, 3, 0, 2, 4], [0, 3, 5])
    >>> question = np.array([[-100, 2, 20, 100]])
    >>> [found.tolist() for _, found in run.probe(np.zeros(1, np.int32), question, np.ones(5, np.uint8))]
    [[3]]
    """

    groups: I32
    starts: I32
    splits: I32
    a: I64
    b: I64
    slots: I32
    fence_low: I64
    fence_high: I64
    wall_low: I64
    wall_high: I64
    rising: bool

    def __len__(self) -> int:
        return self.slots.size

    @property
    def arrays(self) -> tuple[I32, I32, I32, I64, I64, I32, I64, I64, I64, I64]:
        """All arrays, in the order in which they are listed here and kernels take them."""
        rows = (self.groups, self.starts, self.splits, self.a, self.b, self.slots)
        return (*rows, self.fence_low, self.fence_high, self.wall_low, self.wall_high)

    @staticmethod
    def build(group: I32, a: I64, b: I64, slots: I32, *, rising: bool, chains: bool = True) -> Run:
        """Sort rows into a run; `rising` tells in which direction clean rows go together.

        Complexity: O(n log n).
        """
        # among equal first attributes the second decides how long the chain gets, which matters in large runs
        order = argsort(group, a) if group.size < SMALL else argsort(group, a, b if rising else ~b)
        group, a, b, slots = group[order], a[order], b[order], slots[order]
        first = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1]))) if group.size else group[:0]
        starts = np.append(first, group.size).astype(np.int32)
        splits = starts[:-1].copy()
        if chains and group.size >= kernels.MIN_CHAIN:
            place = np.empty(group.size, dtype=np.int32)
            largest = int(np.diff(starts).max())
            kernels.place_chains(
                starts,
                b,
                rising,
                splits,
                place,
                np.empty(group.size, dtype=np.bool_),
                np.empty(largest, dtype=np.int32),
                np.empty(largest, dtype=np.int32),
            )
            a, b, slots = a[place], b[place], slots[place]
        blocks = -(-a.size // kernels.BLOCK)
        walls = -(-blocks // kernels.BLOCK)
        fence_low, fence_high = np.empty(blocks, dtype=np.int64), np.empty(blocks, dtype=np.int64)
        wall_low, wall_high = np.empty(walls, dtype=np.int64), np.empty(walls, dtype=np.int64)
        kernels.fences(b, fence_low, fence_high)
        kernels.extrema(fence_low, fence_high, wall_low, wall_high)
        groups = np.ascontiguousarray(group[first], dtype=np.int32)
        return Run(groups, starts, splits, a, b, slots, fence_low, fence_high, wall_low, wall_high, rising)

    def probe(self, query_group: I32, query: I64, alive: U8) -> Iterator[tuple[I64, I32]]:
        """Chunks of (position of the query, slot) for the rows inside each query's two intervals.

        Complexity: O(log n + answers) a query on clean data.
        """
        cursor = np.array([0, -1], dtype=np.int64)
        room = min(CHUNK, max(256, 4 * query_group.size))
        while cursor[0] < query_group.size:
            out_query = np.empty(room, dtype=np.int64)
            out_slot = np.empty(room, dtype=np.int32)
            found = kernels.probe_run(*self.arrays, self.rising, query_group, query, alive, cursor, out_query, out_slot)
            if found:
                yield out_query[:found], out_slot[:found]
            room = CHUNK

    def size_bytes(self) -> int:
        """Memory held."""
        return sum(array.nbytes for array in self.arrays)

    def snapshot(self) -> Snapshot:
        """The arrays that make up the run."""
        arrays: list[NDArray[Any]] = [*self.arrays, np.array([self.rising], dtype=np.int64)]
        return {field.name: array for field, array in zip(fields(self), arrays, strict=True)}

    @staticmethod
    def restore(arrays: Checked, members: int, slots: int, *, rising: bool) -> Run:
        """The run of a snapshot of so many members among so many slots. Complexity: O(members)."""
        arrays.require(arrays.few("rising", 0, 1, 1) == [rising], "its chains run the other way")
        places = arrays.index("slots", 0, slots - 1, members)
        arrays.require(places.size == members, f"{places.size} rows instead of {members}")
        a, b = (arrays.array(name, np.int64, (members,)) for name in ("a", "b"))
        blocks = -(-members // kernels.BLOCK)
        walls = -(-blocks // kernels.BLOCK)
        fence_low, fence_high = (arrays.array(f"fence_{end}", np.int64, (blocks,)) for end in ("low", "high"))
        wall_low, wall_high = (arrays.array(f"wall_{end}", np.int64, (walls,)) for end in ("low", "high"))
        groups = arrays.index("groups", 0, MOST_SLOTS, 0)
        starts = arrays.index("starts", 0, members, groups.size + 1)
        splits = arrays.index("splits", 0, members, groups.size)
        arrays.require(
            starts.size == groups.size + 1
            and splits.size == groups.size
            and starts[0] == 0
            and starts[-1] == members
            and bounds.unsorted(starts, True) < 0
            and bounds.unsorted(groups, True) < 0
            and bool((splits >= starts[:-1]).all() and (splits <= starts[1:]).all()),
            "its groups do not lie one after the other",
        )
        return Run(groups, starts, splits, a, b, places, fence_low, fence_high, wall_low, wall_high, rising)


def hits_a_row(found: Iterator[tuple[I64, I32]], rows: int, most: int) -> float:
    """About how many hits each of some rows has, from the first chunks that hold `most` hits.

    >>> chunks = [(np.array([0, 0, 1]), np.arange(3, dtype=np.int32)), (np.array([1, 2]), np.arange(2, dtype=np.int32))]
    >>> hits_a_row(iter(chunks), 4, 99), hits_a_row(iter(chunks), 4, 3)
    (1.25, 3.0)
    """
    hits = 0
    for queries, _ in found:
        hits += queries.size
        if hits >= most:
            return hits / max(1, int(queries[-1]))
    return hits / max(1, rows)


@dataclass(frozen=True)
class UnsortedRun:
    """Some rows in no order, for so few that building a run is not worth it; probed as a `Run` is.

    Examples
    --------
    >>> group, slots = np.zeros(3, np.int32), np.array([4, 5, 6], np.int32)
    >>> rows = UnsortedRun(group, np.array([3, 1, 2]), np.array([7, 8, 9]), slots)
    >>> question = np.array([[2, 9, 0, 99]])
    >>> [found.tolist() for _, found in rows.probe(np.zeros(1, np.int32), question, np.ones(7, np.uint8))]
    [[4, 6]]
    """

    group: I32
    a: I64
    b: I64
    slots: I32

    def __len__(self) -> int:
        return self.slots.size

    def probe(self, query_group: I32, query: I64, alive: U8) -> Iterator[tuple[I64, I32]]:
        """As `Run.probe`. Complexity: O(queries * rows)."""
        cursor = np.zeros(1, dtype=np.int64)
        room = max(len(self), min(CHUNK, len(self) * query_group.size))
        while cursor[0] < query_group.size:
            out_query = np.empty(room, dtype=np.int64)
            out_slot = np.empty(room, dtype=np.int32)
            found = kernels.probe_unsorted(
                self.group, self.a, self.b, self.slots, query_group, query, alive, cursor, out_query, out_slot
            )
            if found:
                yield out_query[:found], out_slot[:found]
