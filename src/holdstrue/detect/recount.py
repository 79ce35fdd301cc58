"""A batch counted by sweeping the groups it touches, where listing the pairs that come and go would be dearer.

Degrees of before are kept, so what the old rows take along is known: the sum of their degrees, less the pairs among
themselves, which are in it twice. What the new rows bring follows from a count of the touched groups as they are now.
Pairs that violate the rule before and after the batch are in both, and come off both: pairs of an updated row with
a row that stays, and of two updated rows, that satisfy the terms in either version.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from holdstrue.detect.detector import Batch
from holdstrue.detect.order_sieve import with_chance
from holdstrue.detect.partners import SweepSide, count_between, count_partners
from holdstrue.index.order_screen import ScreenedRows
from holdstrue.index.protocol import Shape
from holdstrue.kernels.group_parts import rows_by_group, share_out
from holdstrue.threads import results
from holdstrue.typing import I32, I64

SHARED_FROM = 1 << 16
"""Rows from which on groups are counted some at a time. Chosen, not tuned."""
SWEPT = 1 << 17
"""About how many rows are swept at a time: what is written of them stays in the caches until it is read."""


@dataclass(frozen=True)
class Recount:
    """Degrees after a batch, by slot, and how many pairs it added and removed."""

    slots: I32
    degrees: I64
    added: int
    removed: int
    pairs: int
    """By how much the number of violating pairs grew."""


@dataclass(frozen=True)
class PairSweep:
    """What is counted: the pairs of one check among some rows.

    A symmetric check is violated by (s, t) where it is by (t, s); its pairs count once.
    """

    shape: Shape
    rows: ScreenedRows
    check: int
    symmetric: bool

    def among(self, slots: I32, threads: int = 1) -> I64:
        """By row the violating pairs that it is in, with others of the same rows.

        Pairs lie within groups, so that these are counted some at a time, each of several threads those of its own.
        Complexity: O(rows), and the sweeps of those that are left of them where most are in order.
        """
        t_groups, s_groups = self.rows.groups(self.check)
        if slots.size < SHARED_FROM or t_groups is not s_groups:
            return self._counted(slots)
        degrees = np.empty(slots.size, dtype=np.int64)
        places = _parts(slots, t_groups, max(threads, -(-slots.size // SWEPT)))
        for own, found in zip(places, results(lambda own: self._counted(slots[own]), places, threads), strict=True):
            degrees[own] = found
        return degrees

    def _counted(self, slots: I32) -> I64:
        """The same of all at once."""
        chance = with_chance(self.shape, self.rows, self.check, slots)
        if chance is None:
            return self._swept(slots)
        degrees = np.zeros(slots.size, dtype=np.int64)
        left = np.flatnonzero(chance)
        degrees[left] = self._swept(slots[left])
        return degrees

    def _swept(self, slots: I32) -> I64:
        as_t, as_s = count_partners(self.shape, self.rows, self.check, slots)
        return as_t if self.symmetric else as_t + as_s

    def kept(self, slots: I32, twins: I32, stay: I32) -> int:
        """Pairs of updated rows that violate the check in both versions, with each other and with rows that stay."""
        updated, others = SweepSide(slots, twins), SweepSide(stay, stay)
        among, _ = count_between(self.shape, self.rows, self.check, updated, updated)
        as_t, _ = count_between(self.shape, self.rows, self.check, updated, others)
        if self.symmetric:
            return int(among.sum()) // 2 + int(as_t.sum())
        _, as_s = count_between(self.shape, self.rows, self.check, others, updated)
        return int(among.sum()) + int(as_t.sum()) + int(as_s.sum())

    def recount(self, batch: Batch, stay: I32, degree: I64) -> Recount:
        """What a batch does, given all rows that stay in the groups it touches and the degrees of before by slot.

        Complexity: that of a count of those groups, and at most three more over the rows in violations.
        """
        before, old = degree[stay], degree[batch.old]
        went = int(old.sum()) - int(self.among(batch.old[old > 0]).sum()) // 2
        slots = np.concatenate((stay, batch.new))
        after = self.among(slots)
        grown = (int(after.sum()) - int(before.sum()) - int(old.sum())) // 2
        came = grown + went
        kept = 0
        updated = np.flatnonzero(batch.new_twin >= 0)
        if came and went and updated.size:
            new, twins = batch.new[updated], batch.new_twin[updated]
            # a pair that was there and is there again makes both of its rows violate before and after
            both = (after[stay.size :][updated] > 0) & (degree[twins] > 0)
            if both.any():
                kept = self.kept(new[both], twins[both], stay[(before > 0) & (after[: stay.size] > 0)])
        return Recount(slots, after, came - kept, went - kept, grown)


def _parts(slots: I32, groups: I32, parts: int) -> list[I32]:
    """The places of rows in about so many parts of whole groups that follow each other by number."""
    counts = np.zeros(int(groups.max()) + 2, dtype=np.int64)
    rows_by_group(slots, groups, counts)
    # a group is where its first row would be, were all parts equally large
    part_of = ((np.cumsum(counts) - counts) * parts // slots.size).astype(np.int32)
    cuts = np.searchsorted(part_of, np.arange(parts + 1))
    sums = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))[cuts]
    places = np.empty(slots.size, dtype=np.int32)
    share_out(slots, groups, part_of, sums[:-1].copy(), places)
    return [places[start:end] for start, end in pairwise(sums.tolist()) if start < end]
