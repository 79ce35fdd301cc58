"""A growing table that counts words of any width.

Memory: 8 bytes a word and entry, 24 bytes an entry (its count and the pair it came with first), 4 bytes a cell
with at most three cells in four in use.
"""

from __future__ import annotations

import numpy as np

from holdstrue.discovery.denials.word_layout import TileSide, WordLayout
from holdstrue.index.arrays import room
from holdstrue.kernels import outcome_words as kernels
from holdstrue.kernels import word_table as words_kernels
from holdstrue.typing import I64, U64

_SMALLEST = 4096


class WordCounts:
    """Words, numbered in the order of their first appearance, each with a count and the pair that brought it.

    Examples
    --------
    >>> tally = WordCounts(1)
    >>> words = np.array([[7], [9], [7]], dtype=np.uint64)
    >>> tally.add(words, np.array([1, 1, 5])).tolist()
    [0, 1, 0]
    >>> tally.words().tolist(), tally.counts().tolist()
    ([[7], [9]], [6, 1])
    """

    def __init__(self, width: int) -> None:
        self._cells = np.zeros(_SMALLEST, dtype=np.int32)
        self._keys = np.empty((_SMALLEST, width), dtype=np.uint64)
        self._counts = np.zeros(_SMALLEST, dtype=np.int64)
        self._first = np.zeros((_SMALLEST, 2), dtype=np.int64)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def words(self) -> U64:
        """The distinct words."""
        return self._keys[: self._used]

    def counts(self) -> I64:
        """How often each occurred."""
        return self._counts[: self._used]

    def first(self) -> I64:
        """The pair each came with first."""
        return self._first[: self._used]

    def add(self, words: U64, counts: I64, first: I64 | None = None) -> I64:
        """Count words (`words[i]` occurs `counts[i]` times more); returns their numbers.

        Runtime complexity: O(words) expected.
        """
        self._reserve(self._used + words.shape[0])
        before, numbers = self._used, np.empty(words.shape[0], dtype=np.int64)
        self._used = words_kernels.enter(self._cells, self._keys, before, np.ascontiguousarray(words.T), numbers)
        self._counts[before : self._used] = 0
        words_kernels.accumulate(self._counts, numbers, np.ascontiguousarray(counts))
        if first is not None:
            fresh = np.flatnonzero(numbers >= before)
            new, place = np.unique(numbers[fresh], return_index=True)
            self._first[new] = first[fresh[place]]
        return numbers

    def size_bytes(self) -> int:
        """Memory held."""
        return self._cells.nbytes + self._keys.nbytes + self._counts.nbytes + self._first.nbytes

    def _reserve(self, words: int) -> None:
        self._keys = room(self._keys, words)
        self._counts = room(self._counts, words)
        self._first = room(self._first, words)
        size = self._cells.size
        while words * 4 > size * 3:
            size *= 2
        if size > self._cells.size:
            self._cells = np.zeros(size, dtype=np.int32)
            words_kernels.reenter(self._cells, self._keys, self._used)


class PairCounter:
    """Counts the words of tiles: a table of words with their counts beside them, for one thread.

    Memory: 24 bytes and 8 bytes a word for each row of a table that is at most half full.
    """

    def __init__(self, width: int) -> None:
        self._table = np.zeros((2 * _SMALLEST, width + 1), dtype=np.uint64)
        self._first = np.zeros((2 * _SMALLEST, 2), dtype=np.int64)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def count(self, layout: WordLayout, t: TileSide, s: TileSide, span: I64) -> None:
        """Count the pairs of a tile. Runtime complexity: as `kernels.outcome_words.count_pairs`."""
        state = np.array([self._used, span[0], span[2], 1], dtype=np.int64)
        while not kernels.count_pairs(
            t.ranks, s.ranks, layout.plan, layout.bits, layout.base, t.known[0], s.known[1], t.hopes,
            t.weights, s.weights, span, self._table, self._first, state,
        ):  # fmt: skip
            larger = np.zeros((2 * self._table.shape[0], self._table.shape[1]), dtype=np.uint64)
            larger_first = np.zeros((larger.shape[0], 2), dtype=np.int64)
            kernels.regrow(self._table, self._first, larger, larger_first)
            self._table, self._first = larger, larger_first
        self._used = int(state[0])

    def into(self, tally: WordCounts) -> None:
        """Add all counts to a tally."""
        used = np.flatnonzero(self._table[:, -1])
        counts = self._table[used, -1].astype(np.int64)
        tally.add(np.ascontiguousarray(self._table[used, :-1]), counts, self._first[used])
