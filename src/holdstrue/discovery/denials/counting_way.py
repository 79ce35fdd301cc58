"""The first way: the evidences of all pairs with their numbers, so that rows may come and go."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from holdstrue.discovery.bitsets import without
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.cover import Cover, CoverSearch, deepened
from holdstrue.discovery.denials.evidence import Evidence, evidence_between, evidence_within
from holdstrue.discovery.denials.measures import violations
from holdstrue.discovery.denials.word_layout import WordCounts
from holdstrue.discovery.options import Method, Proportion, allowed
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.errors import StateError
from holdstrue.index.arrays import Snapshot
from holdstrue.index.checked import Checked
from holdstrue.typing import I64, U64

_MOST_DEAD = 0.5


@dataclass(frozen=True)
class Shift:
    """Evidences that a batch made (with a pair of slots for each) and those of which it left no pair."""

    fresh: U64
    pairs: I64
    gone: U64


@dataclass(frozen=True)
class CoverUpdate:
    """The cover after a batch, and the evidences of new pairs (with a pair of slots for each); all pairs if `anew`."""

    cover: Cover
    words: U64
    pairs: I64
    anew: bool = False


class CountingWay:
    """Counted evidences behind the verbs of a way.

    Memory: as `WordCounts`, 8 bytes a word and 30 bytes a distinct evidence. A batch costs O(rows of the batch x rows)
    comparisons.
    """

    name = "counted evidences"
    method: Method = "evidence"

    def __init__(self, rows: CodedRows, search: CoverSearch, error: Proportion = 0.0) -> None:
        self._rows = rows
        self._search = search
        self._error = error
        self._tally = WordCounts(rows.space.width)
        self._whole = True

    def load(self, slots: I64, work: Work) -> Cover:
        """Compare all pairs, here or elsewhere, and search."""
        rows = self._rows
        found = (work.count_pairs or evidence_within)(rows.space, rows.codes, rows.known, slots, work)
        self._shifted([], [found])
        self._whole = found.complete
        return self._searched(found.complete, work)

    def apply(self, cover: Cover, removed: I64, rest: I64, new: I64, work: Work) -> CoverUpdate:
        """Count the pairs of removed rows out and those of new rows in; bring the cover up to date.

        Where time ran out before all pairs were counted, they are counted anew.
        """
        live = rest.size + new.size
        changed = removed.size * (rest.size + removed.size // 2) + new.size * (rest.size + new.size // 2)
        if not self._whole or changed > live * live // 2:
            # the pairs of the batch are more than there are
            self._tally = WordCounts(self._rows.space.width)
            cover = self.load(np.sort(np.concatenate([rest, new])), work)
            none = np.zeros((0, self._rows.space.width), dtype=np.uint64)
            return CoverUpdate(cover, none, np.zeros((0, 2), dtype=np.int64), anew=True)
        lost = [self._within(removed, work), self._between(removed, rest, work)] if removed.size else []
        won = [self._within(new, work), self._between(new, rest, work)] if new.size else []
        shift = self._shifted(lost, won)
        self._whole = all(part.complete for part in (*lost, *won))
        cover = self._followed(cover, shift, self._whole, work)
        if not won:
            return CoverUpdate(cover, shift.fresh, shift.pairs)
        return CoverUpdate(cover, np.concatenate([p.words for p in won]), np.concatenate([p.pairs for p in won]))

    @property
    def allowed(self) -> int:
        """How many ordered pairs may break a rule."""
        return allowed(self._error, int(self._tally.counts().sum()))

    def weighted(self) -> tuple[U64, I64]:
        """The distinct evidences with their numbers of ordered pairs."""
        counts = self._tally.counts()
        return np.ascontiguousarray(self._tally.words()[counts > 0]), counts[counts > 0]

    def violations(self, sets: U64, work: Work) -> I64:
        """How many ordered pairs break each set. Complexity: O(sets x evidences)."""
        return violations(sets, *self.weighted())

    def _shifted(self, removed: list[Evidence], added: list[Evidence]) -> Shift:
        """Subtract, then add; returns what changed from none to some and from some to none.

        Runtime complexity: O(distinct evidences of the batch).
        """
        touched: list[I64] = []
        before = self._tally.counts().copy()
        for sign, parts in ((-1, removed), (1, added)):
            some = [part for part in parts if len(part.counts)]
            touched += [self._tally.add(part.words, sign * part.counts, part.pairs) for part in some]
        numbers = np.unique(np.concatenate(touched)) if touched else np.zeros(0, dtype=np.int64)
        was = np.zeros(numbers.size, dtype=np.int64)
        old = numbers < before.size
        was[old] = before[numbers[old]]
        counts = self._tally.counts()
        now = counts[numbers]
        if now.size and now.min() < 0:
            raise StateError(
                "the evidences that were counted are not those of the rows", hint="discover the rules anew"
            )
        fresh, gone = numbers[(was == 0) & (now > 0)], numbers[(was > 0) & (now == 0)]
        # a pair kept from an earlier batch may be of rows that left: the pairs of this batch are looked up anew
        pairs = _pairs_of(self._tally.words()[fresh], added, self._rows.space.width)
        shift = Shift(self._tally.words()[fresh].copy(), pairs, self._tally.words()[gone].copy())
        if counts.size > 1024 and (counts == 0).sum() > _MOST_DEAD * counts.size:
            # evidences without pairs are forgotten when they are the larger part
            kept = self.weighted()
            self._tally = WordCounts(self._rows.space.width)
            self._tally.add(*kept)
        return shift

    def _within(self, slots: I64, work: Work) -> Evidence:
        return evidence_within(self._rows.space, self._rows.codes, self._rows.known, slots, work)

    def _between(self, one: I64, other: I64, work: Work) -> Evidence:
        return evidence_between(self._rows.space, self._rows.codes, self._rows.known, one, other, work)

    def _searched(self, all_pairs: bool, work: Work) -> Cover:
        if not all_pairs:
            # what was not compared may break any rule
            return Cover(np.zeros((0, self._rows.space.width), dtype=np.uint64), complete=False)
        words, counts = self.weighted()
        if self._error:
            return deepened(self._search, lambda search, w: search.approximate(words, counts, self.allowed, w), work)
        return deepened(self._search, lambda search, w: search.search(words, w), work)

    def _followed(self, cover: Cover, shift: Shift, all_pairs: bool, work: Work) -> Cover:
        if not (cover.complete or cover.length) or not all_pairs or self._error:
            return self._searched(all_pairs, work)
        # what is complete up to a length stays so
        search = self._search if cover.complete else self._search.up_to(cover.length)
        now = Cover(cover.sets)
        try:
            if shift.gone.size:
                remaining = without(self.weighted()[0], shift.fresh)
                now = search.reduced(now, remaining, shift.gone, work)
            if now.complete and shift.fresh.size:
                now = search.extended(now, shift.fresh, work)
        except OutOfTimeError:
            return self._searched(all_pairs, work)
        return replace(cover, sets=now.sets) if now.complete else self._searched(all_pairs, work)

    def explain(self) -> list[str]:
        """What is kept, in a few words."""
        _, counts = self.weighted()
        return [f"{counts.size} distinct evidences of {int(counts.sum())} ordered pairs are kept"]

    def size_bytes(self) -> int:
        """Memory held."""
        return self._tally.size_bytes()

    def snapshot(self) -> Snapshot:
        """Plain arrays that make up the state."""
        words, counts = self.weighted()
        return {"words": words, "counts": counts, "whole": np.array([self._whole])}

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot."""
        space, rows = self._rows.space, self._rows.live().size
        words = arrays.sets("words", space.mask(range(len(space.atoms))))
        counts = arrays.array("counts", np.int64, (words.shape[0],))
        pairs = rows * (rows - 1)
        arrays.within("counts", counts, 1, pairs)
        [self._whole] = arrays.flags("whole", 1).tolist()
        counted = int(counts.sum())
        arrays.require(counted == pairs or not self._whole, f"{counted} pairs are counted, and there are {pairs}")
        self._tally = WordCounts(space.width)
        self._tally.add(words, counts)


def _pairs_of(words: U64, parts: list[Evidence], width: int) -> I64:
    """For each word a pair of one of the parts that has it."""
    lookup = WordCounts(width)
    for part in parts:
        if len(part.counts):
            lookup.add(part.words, part.counts, part.pairs)
    if not words.shape[0]:
        return np.zeros((0, 2), dtype=np.int64)
    numbers = lookup.add(words, np.zeros(words.shape[0], dtype=np.int64))
    return lookup.first()[numbers].copy()
