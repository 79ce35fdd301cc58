"""What pairs of rows show: sets of columns on which two rows agree and differ, each with a pair that shows it.

Memory: 16 bytes for each 64 columns and 8 bytes for the pair, and 27 to 37 bytes of the numbering, an agree set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holdstrue.data.seed import OPEN
from holdstrue.discovery.bitsets import set_of
from holdstrue.index.arrays import Numbering, Snapshot, all_true, nested, room, with_slack
from holdstrue.index.checked import Checked
from holdstrue.kernels import agreement, antichains, digest
from holdstrue.typing import I32, I64, U64, Mask

MANY = 1 << 14
"""Below this many outcomes those without a witness are kept. Chosen, not tuned."""


class Outcomes(Protocol):
    """Sets of columns on which rows agree, and differ, line by line."""

    @property
    def agree(self) -> U64:
        """Columns on which the rows agree."""

    @property
    def differ(self) -> U64:
        """Columns on which they differ."""


@dataclass(frozen=True)
class Refuted:
    """Left sides that were counted out: as if two rows agreed on them and differed in the target."""

    agree: U64
    differ: U64


class AgreeSets:
    """Distinct outcomes of comparing two rows, with one witness pair (of positions) each."""

    def __init__(self, columns: int) -> None:
        self.words = columns // 64 + 1
        self.agree: U64 = np.empty((64, self.words), dtype=np.uint64)
        self.differ: U64 = np.empty((64, self.words), dtype=np.uint64)
        self.witness: I32 = np.empty((64, 2), dtype=np.int32)
        self._numbering = Numbering()
        self._key = columns

    def __len__(self) -> int:
        return len(self._numbering)

    def add(self, matrix: I32, pairs: I32) -> I64:
        """Compare pairs of rows; returns the numbers of the outcomes that were not known. Complexity: O(values)."""
        agree, differ = self._compared(matrix, pairs)
        before = len(self)
        numbers, origin = self._number(agree, differ)
        after = len(self)
        self.agree, self.differ = room(self.agree, after), room(self.differ, after)
        self.witness = room(self.witness, after)
        self.agree[before:after], self.differ[before:after] = agree[origin], differ[origin]
        self.witness[before:after] = pairs[origin]
        fresh = np.arange(before, after, dtype=np.int64)
        lost = np.flatnonzero((numbers < before) & (self.witness[numbers, 0] < 0))
        if lost.size == 0:
            return fresh
        self.witness[numbers[lost]] = pairs[lost]
        return np.concatenate((np.unique(numbers[lost]).astype(np.int64), fresh))

    def _compared(self, matrix: I32, pairs: I32) -> tuple[U64, U64]:
        """On which columns pairs of rows agree, and differ."""
        agree = np.empty((pairs.shape[0], self.words), dtype=np.uint64)
        differ = np.empty_like(agree)
        agreement.compare(matrix, pairs, agree, differ)
        # two rows always break the key, the target behind the last column
        differ[:, self._key >> 6] |= np.uint64(1 << (self._key & 63))
        return agree, differ

    def _number(self, agree: U64, differ: U64) -> tuple[I32, I32]:
        """Numbers of outcomes, and the lines in which new ones came first."""
        hi = np.full(agree.shape[0], OPEN.start[0], dtype=np.uint64)
        lo = np.full(agree.shape[0], OPEN.start[1], dtype=np.uint64)
        for word in range(self.words):
            digest.extend_key_by_words(hi, lo, np.ascontiguousarray(agree[:, word]), OPEN.keys)
            digest.extend_key_by_words(hi, lo, np.ascontiguousarray(differ[:, word]), OPEN.keys)
        return self._numbering.assign_new(hi, lo, all_true(hi.size))

    def known(self) -> I64:
        """Numbers of the outcomes that have a witness."""
        return np.flatnonzero(self.witness[: len(self), 0] >= 0)

    def remove(self, gone: Mask) -> I64:
        """Drop witnesses of which a row is gone; returns the numbers of their outcomes. Complexity: O(outcomes)."""
        known = self.known()
        lost = known[gone[self.witness[known]].any(axis=1)]
        self.witness[lost] = -1
        return lost

    def compact(self) -> None:
        """Forget outcomes without a witness when they are the most. Complexity: O(outcomes)."""
        known = self.known()
        if len(self) < MANY or known.size * 2 > len(self):
            return
        self.agree, self.differ, self.witness = self.agree[known], self.differ[known], self.witness[known]
        self._numbering = Numbering()
        self._number(self.agree, self.differ)

    def move(self, moved: I32) -> None:
        """Follow rows to their new positions."""
        known = self.known()
        self.witness[known] = moved[self.witness[known]]

    def uncovered(self, lost: I64) -> U64:
        """For each lost outcome the targets in which no known outcome differs that agrees on as much, as bits.

        Complexity: O(lost * known) at most.
        """
        out = self.differ[lost]
        known = self.by_size(self.known())
        antichains.take_off(self.agree[lost], self.agree[known], self.differ[known], out)
        return out

    def against(self, numbers: I64, target: int) -> I64:
        """Those of the outcomes that differ in the target."""
        bit = np.uint64(1 << (target & 63))
        return numbers[(self.differ[numbers, target >> 6] & bit) != 0]

    def by_size(self, numbers: I64) -> I64:
        """Outcomes in the order of how many columns agree, the most first."""
        sizes = np.empty(numbers.size, dtype=np.int64)
        antichains.sizes(self.agree[numbers], sizes)
        return numbers[np.argsort(-sizes, kind="stable")]

    def size_bytes(self) -> int:
        """Memory held."""
        return self.agree.nbytes + self.differ.nbytes + self.witness.nbytes + self._numbering.size_bytes()

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        arrays: Snapshot = {"agree": self.agree, "differ": self.differ, "witness": self.witness}
        kept: Snapshot = {name: with_slack(array, len(self)) for name, array in arrays.items()}
        return kept | nested("numbering", self._numbering.snapshot())

    def restore(self, arrays: Checked, matrix: I32, alive: Mask) -> None:
        """Take over the arrays of a snapshot (they will be written to) of these rows. Complexity: O(values).

        Every pair is compared again: it must show what is said of it.
        """
        self._numbering.restore(arrays.part("numbering"))
        count = len(self)
        everything = set_of(range(self._key + 1), self.words)
        self.agree, self.differ = (arrays.sets(name, everything, count) for name in ("agree", "differ"))
        self.witness = arrays.array("witness", np.int32, (count, 2), grows=0)
        arrays.within("witness", self.witness[:count], -1, alive.size - 1)
        pairs = np.ascontiguousarray(self.witness[self.known()])
        arrays.require(bool((pairs >= 0).all() and alive[pairs].all()), "a pair has a row that is not there")
        agree, differ = self._compared(matrix, pairs)
        same = np.array_equal(agree, self.agree[self.known()]) and np.array_equal(differ, self.differ[self.known()])
        arrays.require(same, "a pair does not show what is said of it")
