"""The left sides that a target can still have: the minimal sets of columns that no known pair of rows refutes.

Memory: 16 bytes for each 64 columns and 2 bytes more a left side.
"""

from __future__ import annotations

import numpy as np

from holdstrue.discovery.dependencies.agree_sets import Outcomes
from holdstrue.discovery.work import Work
from holdstrue.index.arrays import room
from holdstrue.index.checked import Checked
from holdstrue.kernels import antichains
from holdstrue.kernels.antichains import CUT, DONE, HITS, HOLDS, OPEN, SET_AT, SETS, STALE
from holdstrue.typing import I64, U8, U64, Mask

BUDGET = 20_000_000
"""Comparisons between two looks at the clock, less than a tenth of a second. Chosen, not tuned."""


class LeftSides:
    """An antichain of left sides of one target, each open, stale or known to hold."""

    def __init__(self, target: int, columns: int) -> None:
        self.target = target
        self.words = columns // 64 + 1
        self.allowed = np.full(self.words, ~np.uint64(0))
        self.allowed[-1] = np.uint64((1 << (columns & 63)) - 1)
        if target < columns:
            self.allowed[target >> 6] &= ~np.uint64(1 << (target & 63))
        self._sets: U64 = np.zeros((64 * self.words + 1, self.words), dtype=np.uint64)
        self._status: U8 = np.zeros(64 * self.words + 1, dtype=np.uint8)
        self._used = 1
        self.cut = False
        """Whether left sides were left out because they are too long."""
        self.settled = True
        """Whether the antichain follows from all evidence: not when it grew beyond what there is room for."""

    def __len__(self) -> int:
        return self._used

    @property
    def sets(self) -> U64:
        """The left sides, a line of words each."""
        return self._sets[: self._used]

    @property
    def status(self) -> U8:
        """What is known of each left side: `OPEN`, `STALE` or `HOLDS`."""
        return self._status[: self._used]

    def holding(self) -> U64:
        """The left sides that hold."""
        return self.sets[self.status == HOLDS]

    def extend(self, evidence: Outcomes, numbers: I64, longest: int, most: int, work: Work) -> bool:
        """Take in pieces of evidence, the largest agree sets first; False when time or room ran out.

        A set inside one before it then meets no left side any more, and costs little.
        `most` bounds how many left sides there may be. When it ends early, left sides
        are kept of which something is known.
        """
        state = np.zeros(5, dtype=np.int64)
        state[SETS] = self._used
        hits, hit_status = np.empty_like(self._sets), np.empty_like(self._status)
        while state[SET_AT] < numbers.size or state[DONE] < state[HITS]:
            needed = int(state[SETS]) + 64 * self.words
            if needed - 64 * self.words > most or work.over:
                self._used = int(state[SETS])
                self._keep(self.status != OPEN)
                self.settled = False
                return False
            self._sets, self._status = room(self._sets, needed), room(self._status, needed)
            hits, hit_status = room(hits, self._sets.shape[0]), room(hit_status, self._sets.shape[0])
            antichains.extend(
                self._sets, self._status, hits, hit_status, evidence.agree, evidence.differ, numbers,
                self.target, self.allowed, longest, state, BUDGET,
            )  # fmt: skip
        self._used = int(state[SETS])
        self.cut |= bool(state[CUT])
        return True

    def renew(self, evidence: Outcomes, numbers: I64, longest: int, most: int, work: Work, *, stale: bool) -> bool:
        """Build the antichain anew from all evidence; what held before still does (`stale`: among the old rows).

        False when time or room ran out; then left sides of which something is known are all that is kept.
        """
        before = self.sets[self.status != OPEN].copy()
        fresh = LeftSides.__new__(LeftSides)
        fresh.__dict__.update(self.__dict__)
        fresh._sets, fresh._status = np.zeros_like(self._sets), np.zeros_like(self._status)
        fresh._used, fresh.cut, fresh.settled = 1, False, True
        if not fresh.extend(evidence, numbers, longest, most, work):
            self._keep(self.status != OPEN)
            self.settled = False
            return False
        implied = np.empty(len(fresh), dtype=np.bool_)
        antichains.contained(fresh.sets, before, implied)
        fresh.status[implied] = STALE if stale else HOLDS
        self.__dict__.update(fresh.__dict__)
        return True

    def age(self) -> None:
        """New rows came: what holds is to be looked at again for them."""
        self.status[self.status == HOLDS] = STALE

    def forget(self) -> None:
        """What was left stale, as time ran out, is open: it is not known for which rows it holds."""
        self.status[self.status == STALE] = OPEN

    def _keep(self, mask: Mask) -> None:
        kept = int(np.count_nonzero(mask))
        self._sets[:kept], self._status[:kept] = self.sets[mask], self.status[mask]
        self._used = kept

    def snapshot(self) -> dict[str, U64 | U8 | Mask]:
        """The arrays that make up the state."""
        return {"sets": self.sets, "status": self.status, "flags": np.array([self.cut, self.settled])}

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot."""
        sets = arrays.sets("sets", self.allowed)
        self._used = sets.shape[0]
        status = arrays.array("status", np.uint8, (self._used,))
        arrays.within("status", status, OPEN, STALE)
        self._sets = room(self._sets, self._used)
        self._status = room(self._status, self._used)
        self._sets[: self._used], self._status[: self._used] = sets, status
        self.cut, self.settled = arrays.flags("flags", 2).tolist()


def set_sizes(sets: U64) -> I64:
    """The number of members of each set."""
    out = np.empty(sets.shape[0], dtype=np.int64)
    antichains.sizes(np.ascontiguousarray(sets), out)
    return out
