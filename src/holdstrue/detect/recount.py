"""A batch counted by sweeping the groups it touches, where listing the pairs that come and go would be dearer.

Degrees of before are kept, so what the old rows take along is known: the sum of their degrees, less the pairs among
themselves, which are in it twice. What the new rows bring follows from a count of the touched groups as they are now.
Pairs that violate the rule before and after the batch are in both, and come off both: pairs of an updated row with
a row that stays, and of two updated rows, that satisfy the terms in either version.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdstrue.detect.detector import Batch
from holdstrue.detect.partners import SweepSide, count_between, count_partners
from holdstrue.index.protocol import PairRows, Shape
from holdstrue.threads import each
from holdstrue.typing import I32, I64

SHARED_FROM = 1 << 16
"""Rows from which on threads share out the groups. Chosen, not tuned."""


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
    rows: PairRows
    check: int
    symmetric: bool

    def among(self, slots: I32, threads: int = 1) -> I64:
        """By row the violating pairs that it is in, with others of the same rows.

        Pairs lie within groups, so that each of several threads counts those of its own groups.
        """
        t_groups, s_groups = self.rows.groups(self.check)
        if threads > 1 and slots.size >= SHARED_FROM and t_groups is s_groups:
            # rows without a group, whose number is -1, are nobody's partners wherever they are
            owner = t_groups[slots] % np.int32(threads)
            parts = [np.flatnonzero(owner == number) for number in range(threads)]
            degrees = np.empty(slots.size, dtype=np.int64)
            for part, found in zip(parts, each(lambda part: self.among(slots[part]), parts, threads), strict=True):
                degrees[part] = found
            return degrees
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
