"""The evidences of a table with their numbers of pairs, under rows that come and go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdstrue.discovery.denials.evidence import Evidence
from holdstrue.discovery.denials.word_counts import WordCounts
from holdstrue.typing import I64, U64

_MOST_DEAD = 0.5


@dataclass(frozen=True)
class Shift:
    """Evidences that a batch made (with a pair of slots for each) and those of which it left no pair."""

    fresh: U64
    pairs: I64
    gone: U64


class CountedEvidence:
    """The counted multiset of evidences. Memory as `WordCounts`: 8 bytes a word and 30 bytes a distinct evidence."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._tally = WordCounts(width)

    def words(self) -> U64:
        """The distinct evidences."""
        return np.ascontiguousarray(self._tally.words()[self._tally.counts() > 0])

    def counts(self) -> I64:
        """Their numbers of ordered pairs."""
        counts = self._tally.counts()
        return counts[counts > 0]

    def apply(self, removed: list[Evidence], added: list[Evidence]) -> Shift:
        """Subtract, then add; returns what changed from none to some and from some to none.

        Runtime complexity: O(distinct evidences of the batch).
        """
        touched: list[I64] = []
        before = self._tally.counts().copy()
        for sign, parts in ((-1, removed), (1, added)):
            touched += [self._tally.add(part.words, sign * part.counts, part.pairs) for part in parts if part.size]
        numbers = np.unique(np.concatenate(touched)) if touched else np.zeros(0, dtype=np.int64)
        was = np.zeros(numbers.size, dtype=np.int64)
        old = numbers < before.size
        was[old] = before[numbers[old]]
        now = self._tally.counts()[numbers]
        assert not now.size or now.min() >= 0
        fresh, gone = numbers[(was == 0) & (now > 0)], numbers[(was > 0) & (now == 0)]
        # a pair kept from an earlier batch may be of rows that left: the pairs of this batch are looked up anew
        pairs = _pairs_of(self._tally.words()[fresh], added, self._width)
        shift = Shift(self._tally.words()[fresh].copy(), pairs, self._tally.words()[gone].copy())
        self._sweep()
        return shift

    def _sweep(self) -> None:
        """Forget evidences without pairs when they are the larger part."""
        counts = self._tally.counts()
        if counts.size > 1024 and (counts == 0).sum() > _MOST_DEAD * counts.size:
            words, kept = self.words(), self.counts()
            self._tally = WordCounts(self._width)
            self._tally.add(words, kept)

    def size_bytes(self) -> int:
        """Memory held."""
        return self._tally.size_bytes()

    def snapshot(self) -> dict[str, U64 | I64]:
        """Plain arrays that make up the state."""
        return {"words": self.words(), "counts": self.counts()}

    def restore(self, words: U64, counts: I64) -> None:
        """Take over the arrays of a snapshot."""
        self._tally = WordCounts(self._width)
        self._tally.add(words, counts)


def _pairs_of(words: U64, parts: list[Evidence], width: int) -> I64:
    """For each word a pair of one of the parts that has it."""
    lookup = WordCounts(width)
    for part in parts:
        if part.size:
            lookup.add(part.words, part.counts, part.pairs)
    if not words.shape[0]:
        return np.zeros((0, 2), dtype=np.int64)
    numbers = lookup.add(words, np.zeros(words.shape[0], dtype=np.int64))
    return lookup.first()[numbers].copy()
