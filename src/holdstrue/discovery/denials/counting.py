"""The first way: the evidences of all pairs, counted, so that rows may come and go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdstrue.discovery.denials.bitsets import without
from holdstrue.discovery.denials.budget import Budget
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.counted import CountedEvidence, Shift
from holdstrue.discovery.denials.cover import Cover, CoverSearch
from holdstrue.discovery.denials.evidence import Evidence, evidence_between, evidence_within
from holdstrue.discovery.denials.predicates import Space
from holdstrue.discovery.shares import Proportion, allowed
from holdstrue.typing import I64, U64, Mask

Snapshot = dict[str, NDArray[Any]]
Within: TypeAlias = Callable[[Space, I64, Mask, I64, Budget], Evidence]
"""Counts the evidence of all pairs of some rows: (space, codes, known, slots, budget)."""


@dataclass(frozen=True)
class Outcome:
    """The cover after a batch, and the evidences of new pairs (with a pair of slots for each)."""

    cover: Cover
    words: U64
    pairs: I64


class CountingWay:
    """Counted evidences behind the verbs of a way.

    Memory: as `CountedEvidence`. A batch costs O(rows of the batch x rows) comparisons.
    """

    name = "counted evidences"

    def __init__(self, rows: CodedRows, search: CoverSearch, error: Proportion = 0.0) -> None:
        self._rows = rows
        self._search = search
        self._error = error
        self.evidence = CountedEvidence(rows.space.width)
        self._whole = True

    def load(self, slots: I64, budget: Budget, within: Within | None = None) -> Cover:
        """Compare all pairs, here or elsewhere, and search."""
        rows = self._rows
        found = (within or evidence_within)(rows.space, rows.codes, rows.known, slots, budget)
        self.evidence.apply([], [found])
        self._whole = found.complete
        return self._searched(found.complete, budget)

    def apply(self, cover: Cover, removed: I64, rest: I64, new: I64, budget: Budget) -> Outcome:
        """Count the pairs of removed rows out and those of new rows in; bring the cover up to date.

        Where time ran out before all pairs were counted, they are counted anew.
        """
        if not self._whole:
            self.evidence = CountedEvidence(self._rows.space.width)
            cover = self.load(np.sort(np.concatenate([rest, new])), budget)
            return Outcome(cover, self.evidence.words()[:0], np.zeros((0, 2), dtype=np.int64))
        lost = [self._within(removed, budget), self._between(removed, rest, budget)] if removed.size else []
        won = [self._within(new, budget), self._between(new, rest, budget)] if new.size else []
        shift = self.evidence.apply(lost, won)
        self._whole = all(part.complete for part in (*lost, *won))
        cover = self._followed(cover, shift, self._whole, budget)
        if not won:
            return Outcome(cover, shift.fresh, shift.pairs)
        return Outcome(cover, np.concatenate([p.words for p in won]), np.concatenate([p.pairs for p in won]))

    @property
    def allowed(self) -> int:
        """How many ordered pairs may break a rule."""
        return allowed(self._error, int(self.evidence.counts().sum()))

    def weighted(self) -> tuple[U64, I64]:
        """The evidences with their numbers of pairs."""
        return self.evidence.words(), self.evidence.counts()

    def _within(self, slots: I64, budget: Budget) -> Evidence:
        return evidence_within(self._rows.space, self._rows.codes, self._rows.known, slots, budget)

    def _between(self, one: I64, other: I64, budget: Budget) -> Evidence:
        return evidence_between(self._rows.space, self._rows.codes, self._rows.known, one, other, budget)

    def _searched(self, all_pairs: bool, budget: Budget) -> Cover:
        if not all_pairs:
            # what was not compared may break any rule
            return Cover(np.zeros((0, self._rows.space.width), dtype=np.uint64), complete=False)
        if self._error:
            return self._search.approximate(*self.weighted(), self.allowed, budget)
        return self._search.search(self.evidence.words(), budget)

    def _followed(self, cover: Cover, shift: Shift, all_pairs: bool, budget: Budget) -> Cover:
        if not cover.complete or not all_pairs or self._error:
            return self._searched(all_pairs, budget)
        if shift.gone.size:
            remaining = without(self.evidence.words(), shift.fresh)
            cover = self._search.reduced(cover, remaining, shift.gone, budget)
        if cover.complete and shift.fresh.size:
            cover = self._search.extended(cover, shift.fresh)
        return cover if cover.complete else self._searched(all_pairs, budget)

    def explain(self) -> list[str]:
        """What is kept, in a few words."""
        counts = self.evidence.counts()
        return [f"{counts.size} distinct evidences of {int(counts.sum())} ordered pairs are kept"]

    def size_bytes(self) -> int:
        """Memory held."""
        return self.evidence.size_bytes()

    def snapshot(self) -> Snapshot:
        """Plain arrays that make up the state."""
        return {**self.evidence.snapshot(), "whole": np.array([self._whole])}

    def restore(self, arrays: Snapshot) -> None:
        """Take over the arrays of a snapshot."""
        self.evidence.restore(arrays["words"], arrays["counts"])
        self._whole = bool(arrays["whole"][0])
