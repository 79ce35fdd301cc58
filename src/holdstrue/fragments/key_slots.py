"""Where the row with a key is, for the rows of one site.

A site finds rows by their key's id. Of its 128 bits 96 are kept: of ten million rows two have those in common with a
probability of 2^-50. Memory: 10 to 17 bytes a row for the table and 8 for the word; a numbering of all bits takes 41.
A larger table is filled from the smaller one batch by batch: until that is done, keys are looked for in both.
"""

from __future__ import annotations

import numpy as np

from holdstrue.fragments.ids import Ids
from holdstrue.fragments.sparse_arrays import zeros
from holdstrue.index.arrays import Snapshot, room, turns, with_slack
from holdstrue.index.checked import Checked
from holdstrue.kernels import key_slots as kernels
from holdstrue.typing import I32, U8, U64

FULL = 0.8
"""Of the cells at most so many are in use: a search looks at three cells if the key is there, at thirteen if not."""
_SMALLEST = 64
MOVED_FROM = 1 << 16
"""Cells from which on a table is moved to a larger one part by part. Of ten sites of two million rows each a batch of
1,000 changes waited 1.4 s for all their tables at once, where others took 35 ms."""
MOVED_FOR = 32
"""Cells that are moved for each row that comes: two million are moved while 60,000 rows come, of the 900,000 that the
larger table has room for."""
MOVED_AT_LEAST = 1 << 12


class KeySlots:
    """Slots of living rows by the ids of their keys.

    Examples
    --------
    >>> slots = KeySlots()
    >>> ids = Ids(np.array([1, 2], np.uint64), np.array([8, 9], np.uint64))
    >>> slots.add(ids, 0); slots.remove(ids.take([0])); slots.find(ids).tolist(), len(slots)
    ([-1, 1], 1)
    """

    def __init__(self) -> None:
        self._cells = np.zeros(_SMALLEST, dtype=np.uint64)
        self._words = np.empty(_SMALLEST, dtype=np.uint64)
        self._turn = next(turns)
        self._living = 0
        self._used = 0
        """Cells that are not empty: those of living rows and of rows that went."""
        self._smaller: U64 | None = None
        """The table whose keys are being moved to a larger one."""
        self._moved = 0
        """How many cells of it were."""

    def __len__(self) -> int:
        return self._living

    def find(self, ids: Ids) -> I32:
        """Slots of rows, -1 where no living row has the key. Complexity: O(ids) expected."""
        found = np.empty(ids.size, dtype=np.int32)
        kernels.find_slots(self._cells, self._words, ids.hi, ids.lo, found)
        if self._smaller is not None:
            others = np.empty(ids.size, dtype=np.int32)
            kernels.find_slots(self._smaller, self._words, ids.hi, ids.lo, others)
            np.maximum(found, others, out=found)
        return found

    def add(self, ids: Ids, first: int) -> None:
        """Put in the keys of rows `first, first + 1, ...`, which no living row has. Complexity: O(ids) expected."""
        self.reserve(ids.size)
        end = first + ids.size
        self._words = room(self._words, end, turn=self._turn)
        self._words[first:end] = ids.lo
        kernels.place_slots(self._cells, ids.hi, ids.lo, first)
        self._living += ids.size
        self._used += ids.size

    def remove(self, ids: Ids) -> None:
        """Take out the keys of living rows. Complexity: O(ids) expected."""
        kernels.drop_slots(self._cells, self._words, ids.hi, ids.lo)
        if self._smaller is not None:
            kernels.drop_slots(self._smaller, self._words, ids.hi, ids.lo)
        self._living -= ids.size

    def reserve(self, more: int) -> None:
        """Make room for so many more rows, and go on with what is being moved. Complexity: O(more), seldom O(rows)."""
        if self._smaller is not None:
            self._move(max(MOVED_AT_LEAST, MOVED_FOR * more))
        if self._used + more <= self._cells.size * FULL:
            return
        self._move_all()
        wanted = self._living + more
        # a first load leaves a little room, as it may be all; what grows will go on to
        room_for = wanted + wanted // (16 if not self._used else 2) + _SMALLEST
        self._smaller, self._moved = self._cells, 0
        # zeros of numpy are large pages, which a system that has few of them clears for 100 ms and more
        self._cells, self._used = zeros((int(room_for / FULL) + 1,), np.dtype(np.uint64)), self._living
        if self._smaller.size < MOVED_FROM:
            self._move_all()

    def _move(self, cells: int) -> None:
        """Move the keys of so many more cells."""
        smaller, start = self._smaller, self._moved
        if smaller is not None:
            self._moved = min(start + cells, smaller.size)
            kernels.move_slots(smaller, self._words, self._cells, start, self._moved)
            if self._moved == smaller.size:
                self._smaller = None

    def _move_all(self) -> None:
        if self._smaller is not None:
            self._move(self._smaller.size)

    def size_bytes(self) -> int:
        """Memory held."""
        smaller = 0 if self._smaller is None else self._smaller.nbytes
        return self._cells.nbytes + self._words.nbytes + smaller

    def snapshot(self, rows: int) -> Snapshot:
        """The arrays that make up the state of so many slots."""
        self._move_all()
        return {"cells": self._cells, "words": with_slack(self._words, rows)}

    def restore(self, arrays: Checked, rows: int, alive: U8) -> None:
        """Take over the arrays of a snapshot (they will be written to) of so many slots. Complexity: O(cells)."""
        cells = arrays.array("cells", np.uint64, (_SMALLEST,), grows=0)
        self._words = arrays.array("words", np.uint64, (rows,), grows=0)
        slots = (cells[(cells != 0) & (cells < kernels.GONE)] >> np.uint64(32)).astype(np.int64) - 1
        arrays.require(not slots.size or (slots.min() >= 0 and slots.max() < rows), "a key is of no row")
        held = np.zeros(rows, dtype=np.uint8)
        held[slots] = 1
        arrays.require(
            slots.size == int(held.sum()) and np.array_equal(held, alive[:rows]), "its keys are not those of its rows"
        )
        used = int(np.count_nonzero(cells))
        arrays.require(used < cells.size, "a search for a key does not end")
        self._cells, self._living, self._used, self._smaller = cells, slots.size, used, None
