"""Pairs of a table whose evidences are counted: whatever breaks a rule among them breaks it in the whole table.

Most sets of atoms are broken by far more pairs than are allowed, which a small part of the pairs shows for sure: some
rows are compared with all, and what is left is counted by sweeps.
"""

from __future__ import annotations

import numpy as np

from holdstrue.discovery.denials.evidence import Evidence
from holdstrue.discovery.denials.steps import Steps
from holdstrue.discovery.denials.word_layout import WordCounts
from holdstrue.discovery.work import Work
from holdstrue.index.arrays import Snapshot
from holdstrue.index.checked import Checked
from holdstrue.kernels import pair_sums as kernels
from holdstrue.typing import I64, U64

FIRST_ROWS = 64
"""Rows that are compared with all others at first."""

GROWTH = 4
"""So many times more of them are tried as long as that is worth it."""

MOST_PAIRS = 4 * 10**8
"""Unordered pairs that are compared, about: a second on one core."""

MOST_EVIDENCES = 50_000
"""Distinct evidences from which more rows are not tried: every set is held against all of them. Chosen, not tuned."""

PART = 64
"""Sets of a task. Chosen, not tuned."""


class LowerBounds:
    """Counted evidences of some pairs; those of a batch are added, and taken off where rows went.

    Memory: 8 bytes a word and 30 bytes a distinct evidence.

    Examples
    --------
    >>> from holdstrue.discovery.denials.evidence import Evidence
    >>> bounds = LowerBounds(1)
    >>> evidence = Evidence(np.array([[5], [4]], dtype=np.uint64), np.array([3, 9]), np.zeros((2, 2), dtype=np.int64))
    >>> bounds.shift([], [evidence])
    >>> bounds.at_least(np.array([[1], [4]], dtype=np.uint64), 100, Work(threads=1)).tolist()
    [3, 12]
    """

    def __init__(self, width: int) -> None:
        self._tally = WordCounts(width)
        self._width = width

    def draw(self, steps: Steps, rows: I64, work: Work) -> None:
        """Compare some rows with all of them. Complexity: that of `MOST_PAIRS` pairs."""
        count, size = rows.size, FIRST_ROWS
        while True:
            some = steps.sample(min(size, count))
            others = np.setdiff1d(rows, some, assume_unique=True)
            found = [steps.tile(some, None, work)] + ([steps.tile(some, others, work)] if others.size else [])
            if not all(part.complete for part in found):
                return
            self._tally = WordCounts(self._width)
            self.shift([], found)
            if size >= count or size * GROWTH * count > MOST_PAIRS or len(self._tally) > MOST_EVIDENCES:
                return
            size *= GROWTH

    def shift(self, removed: list[Evidence], added: list[Evidence]) -> None:
        """Pairs that went and pairs that came. Those that went may not have been among the counted ones: the bound is
        then lower than it could be."""
        for sign, parts in ((-1, removed), (1, added)):
            for part in parts:
                if len(part.counts):
                    self._tally.add(part.words, sign * part.counts, part.pairs)

    def at_least(self, sets: U64, enough: int, work: Work) -> I64:
        """By set of atoms a number of pairs that break it for sure; no more is looked at once it is above `enough`.

        Complexity: O(sets x evidences).
        """
        words, counts = self._tally.words(), self._tally.counts()
        # what may go from a sum first, then what adds most
        order = np.argsort(np.where(counts < 0, np.iinfo(np.int64).min, -counts), kind="stable")
        words, counts = np.ascontiguousarray(words[order]), counts[order].copy()
        out = np.zeros(sets.shape[0], dtype=np.int64)

        def bound(start: int) -> None:
            part = slice(start, start + PART)
            kernels.broken_at_least(np.ascontiguousarray(sets[part]), words, counts, enough, out[part])

        work.each(bound, range(0, sets.shape[0], PART))
        return out

    def size_bytes(self) -> int:
        """Memory held."""
        return self._tally.size_bytes()

    def snapshot(self) -> Snapshot:
        """Plain arrays that make up the state."""
        return {"words": self._tally.words().copy(), "counts": self._tally.counts().copy()}

    def restore(self, arrays: Checked, atoms: U64, pairs: int) -> None:
        """Take over the arrays of a snapshot."""
        words = arrays.sets("words", atoms)
        counts = arrays.array("counts", np.int64, (words.shape[0],))
        arrays.within("counts", counts, -pairs, pairs)
        self._tally = WordCounts(self._width)
        self._tally.add(np.ascontiguousarray(words), counts)
