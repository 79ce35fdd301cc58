"""How many pairs break sets of atoms, as far as it matters: exactly, or more than a limit for sure."""

from __future__ import annotations

import numpy as np

from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.lower_bounds import LowerBounds
from holdstrue.discovery.denials.pair_sums import PairSums
from holdstrue.discovery.work import Work
from holdstrue.typing import I64, U64, Mask


class SetCounts:
    """Sets of atoms with exactly how many pairs break each, and which are within a limit."""

    def __init__(self, rows: CodedRows, bounds: LowerBounds, known: dict[bytes, int], most: int) -> None:
        self._rows, self._bounds, self._most = rows, bounds, most
        self.known = known
        self.asked: dict[bytes, int] = {}
        """Those that were asked for."""
        self._sums: PairSums | None = None
        self.refuted = 0
        """Sets of which some pairs showed that too many break them."""

    @property
    def swept(self) -> int:
        """Sums that were made by sweeps."""
        return 0 if self._sums is None else self._sums.swept

    def within(self, sets: U64, work: Work) -> Mask:
        """Which sets at most so many pairs break."""
        good = np.zeros(sets.shape[0], dtype=np.bool_)
        doubtful = np.flatnonzero([mask.tobytes() not in self.known for mask in sets])
        beyond = self._bounds.at_least(np.ascontiguousarray(sets[doubtful]), self._most, work) > self._most
        self.refuted += int(beyond.sum())
        counted = np.ones(sets.shape[0], dtype=np.bool_)
        counted[doubtful[beyond]] = False
        at = np.flatnonzero(counted)
        good[at] = self.counts(np.ascontiguousarray(sets[at]), work) <= self._most
        return good

    def counts(self, sets: U64, work: Work) -> I64:
        """How many pairs break each set, which are as `canonical` has them."""
        names = [mask.tobytes() for mask in sets]
        missing = np.flatnonzero([name not in self.known for name in names])
        if missing.size:
            if self._sums is None:
                self._sums = PairSums(self._rows, work)
            found = self._sums.counts(np.ascontiguousarray(sets[missing]), work)
            self.known |= {names[at]: count for at, count in zip(missing.tolist(), found.tolist(), strict=True)}
        asked = {name: self.known[name] for name in names}
        self.asked |= asked
        return np.array([asked[name] for name in names], dtype=np.int64)
