"""The sets of atoms of listed pairs (BuildEvidence, Algorithm 6 of paper 001)."""

from __future__ import annotations

import numpy as np

from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.evidence import ranked
from holdstrue.discovery.denials.word_layout import WordCounts, WordLayout
from holdstrue.discovery.work import Work
from holdstrue.kernels import outcome_words as kernels
from holdstrue.typing import I64, U64


class PairWords:
    """Sets of atoms of pairs of slots, on the rows as they are now.

    Runtime complexity: O(rows x comparisons) to set up where values are unknown, O(comparisons) a pair.
    """

    def __init__(self, rows: CodedRows) -> None:
        space = rows.space
        self._width = space.width
        if space.nulls == "equal":
            slots = np.arange(rows.size, dtype=np.int64)
            codes, known = rows.codes[:, : rows.size], rows.known[:, : rows.size]
            self._layout, side = ranked(space, codes, known, slots, Work(threads=1), as_given=True)
            self._codes, self._known = side.ranks, side.known
            return
        # codes compare as the values do: there is no need to rank them
        known = rows.known.copy()
        known[:, rows.size :] = True
        self._layout = WordLayout(space, np.logical_not(known.all(axis=1)), 1 << 32)
        self._codes = rows.codes
        self._known = self._layout.known_lanes(known)

    def _packed(self, t: I64, s: I64) -> U64:
        layout = self._layout
        words = np.empty((layout.width, t.size), dtype=np.uint64)
        kernels.words_of_pairs(
            self._codes, self._codes, layout.plan, layout.bits, layout.base, self._known[0], self._known[1],
            np.ascontiguousarray(t, dtype=np.int64), np.ascontiguousarray(s, dtype=np.int64), words,
        )  # fmt: skip
        return np.ascontiguousarray(words.T)

    def words(self, t: I64, s: I64) -> U64:
        """One set for each pair (t[i], s[i])."""
        return self._layout.atoms(self._packed(t, s), mirrored=False)

    def distinct(self, t: I64, s: I64) -> tuple[U64, I64]:
        """The different sets of the pairs in both orders, each with a pair that has it."""
        packed = self._packed(t, s)
        tally = WordCounts(self._layout.width)
        numbers = tally.add(packed, np.ones(t.size, dtype=np.int64))
        first = np.empty(len(tally), dtype=np.int64)
        first[numbers[::-1]] = np.arange(t.size - 1, -1, -1)
        pairs = np.stack([t[first], s[first]], axis=1)
        ways = [self._layout.atoms(tally.words(), mirrored=way) for way in (False, True)]
        return np.concatenate(ways), np.concatenate([pairs, pairs[:, ::-1]])
