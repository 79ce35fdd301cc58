"""Inclusion dependencies: rows whose reference is missing, as either table changes.

One number stands for each referenced value (or tuple of values); per number the rows that refer to
it and the rows that provide it are counted. Memory: 4 bytes a row of either table, 8 a distinct
value beside the numbering, and 4 more a referring row once rows are listed.
"""

from __future__ import annotations

import numpy as np

from holdstrue.data.coding import key_digest
from holdstrue.detect.detector import Batch, Batches, Detector, Outcome, nothing
from holdstrue.index.arrays import Numbering, Snapshot, nested, room, with_slack
from holdstrue.index.checked import Checked
from holdstrue.index.grouping import RowLists
from holdstrue.index.rows import Rows
from holdstrue.kernels import bounds
from holdstrue.plan.checks import ReferenceCheck
from holdstrue.plan.filter import holds
from holdstrue.typing import I32, I64, Mask


class ReferenceDetector(Detector):
    """Which rows refer to a value that no row of the other table provides."""

    check: ReferenceCheck

    def __init__(self, check: ReferenceCheck, rows: Rows, ref_rows: Rows) -> None:
        self.check = check
        self._rows = rows
        self._ref_rows = ref_rows
        self._numbers = Numbering()
        self._lists = RowLists()
        self._refers = np.full(64, -1, dtype=np.int32)
        self._provides = np.full(64, -1, dtype=np.int32)
        self._referring = np.zeros(64, dtype=np.int32)
        self._providers = np.zeros(64, dtype=np.int32)

    def apply(self, batches: Batches, limit: int) -> Outcome:
        """Take in changes of either table, or of both at once. Complexity: O(batch), plus the rows that flip."""
        own, other = batches.get(self.check.table), batches.get(self.check.ref_table)
        if own is None and other is None:
            return nothing(1)
        if own is not None:
            self._refers = self._place(own, self.check.referring, self._refers, referring=True)
        if other is not None:
            self._provides = self._place(other, self.check.ref_columns, self._provides, referring=False)
        self._referring = room(self._referring, len(self._numbers), fill=0)
        self._providers = room(self._providers, len(self._numbers), fill=0)
        nobody = np.empty(0, dtype=np.int32)
        old, new = (nobody, nobody) if own is None else (own.old, own.new)
        went = self._missing(self._refers[old])
        self._count(self._referring, self._refers[old], -1)
        appeared, vanished = self._provide(other)
        came = self._missing(self._refers[new])
        # at this point only rows that stay are counted
        lost, won = int(self._referring[appeared].sum()), int(self._referring[vanished].sum())
        self._count(self._referring, self._refers[new], 1)
        self.rows += int(came.sum()) - int(went.sum()) + won - lost
        gone, fresh = self._changed(own, went, came)
        added, removed = fresh.size + won, gone.size + lost
        return Outcome(
            added,
            removed,
            self._listed(fresh, vanished, own, min(limit, added)),
            self._listed(gone, appeared, own, min(limit, removed)),
        )

    def _place(self, batch: Batch, columns: tuple[str, ...], numbers: I32, *, referring: bool) -> I32:
        """Give the new rows of one table the numbers of their values."""
        coded = [batch.incoming.coded(column) for column in columns]
        hi, lo, known = key_digest(coded, batch.new.size, coded[0].seed)
        if referring:
            known = known & holds(self.check.member, batch.incoming.column, known.size)
        numbers = room(numbers, batch.rows.size, fill=-1)
        batch.put(numbers, self._numbers.assign(hi, lo, known), -1)
        return numbers

    def _missing(self, numbers: I32) -> Mask:
        return (numbers >= 0) & (self._providers[numbers] == 0)

    @staticmethod
    def _count(counts: I32, numbers: I32, step: int) -> None:
        np.add.at(counts, numbers[numbers >= 0], np.int32(step))

    def _provide(self, other: Batch | None) -> tuple[I32, I32]:
        """Count the providing rows; returns the values that appeared and those that vanished."""
        if other is None:
            return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
        old, new = self._provides[other.old], self._provides[other.new]
        touched = np.unique(np.concatenate((old[old >= 0], new[new >= 0])))
        before = self._providers[touched] > 0
        self._count(self._providers, old, -1)
        self._count(self._providers, new, 1)
        after = self._providers[touched] > 0
        return touched[~before & after], touched[before & ~after]

    def _changed(self, own: Batch | None, went: Mask, came: Mask) -> tuple[I32, I32]:
        """Changed rows that violate only before, and only after the batch."""
        if own is None:
            return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
        still, before = np.zeros(went.size, dtype=np.bool_), np.zeros(came.size, dtype=np.bool_)
        updated = np.flatnonzero(own.old_twin >= 0)
        twin = np.searchsorted(own.new, own.old_twin[updated])
        still[updated], before[twin] = came[twin], went[updated]
        return own.old[went & ~still], own.new[came & ~before]

    def _listed(self, changed: I32, flipped: I32, own: Batch | None, limit: int) -> I32:
        """Changed rows, then the unchanged rows that refer to the flipped values."""
        found = [changed[:limit]]
        left = limit - found[0].size
        edge = self._rows.size if own is None else own.first_new
        for number in flipped:
            if left <= 0:
                break
            slots = self._referring_rows(int(number))
            found.append(slots[slots < edge][:left])
            left -= found[-1].size
        return np.concatenate(found)[:, None]

    def _referring_rows(self, number: int) -> I32:
        self._lists.upto(self._refers, len(self._numbers), self._rows.size)
        slots = self._lists.read(number)
        return slots[self._rows.alive[slots] != 0]

    def violating(self) -> I32:
        """Slots of rows whose reference is missing. Complexity: O(distinct values + result)."""
        size = len(self._numbers)
        missing = np.flatnonzero((self._providers[:size] == 0) & (self._referring[:size] > 0))
        parts = [self._referring_rows(int(number)) for number in missing]
        return np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int32)

    def degrees(self, slots: I32) -> I64:
        """How many violations each row is in: one or none."""
        return (self._missing(self._refers[slots]) & (self._rows.alive[slots] != 0)).astype(np.int64)

    def size_bytes(self) -> int:
        """Memory held."""
        arrays = (self._refers, self._provides, self._referring, self._providers)
        return self._numbers.size_bytes() + self._lists.size_bytes() + sum(array.nbytes for array in arrays)

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        distinct = len(self._numbers)
        return {
            "refers": with_slack(self._refers, min(self._rows.size, self._refers.size), fill=-1),
            "provides": with_slack(self._provides, min(self._ref_rows.size, self._provides.size), fill=-1),
            "referring": with_slack(self._referring, distinct),
            "providers": with_slack(self._providers, distinct),
            "rows": np.array([self.rows], dtype=np.int64),
            **nested("numbers", self._numbers.snapshot()),
        }

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot. Complexity: O(slots)."""
        self._numbers.restore(arrays.part("numbers"))
        self._refers, self._referring = self._counted(arrays, "refers", "referring", self._rows)
        self._provides, self._providers = self._counted(arrays, "provides", "providers", self._ref_rows)
        distinct = len(self._numbers)
        missing = self._referring[:distinct][self._providers[:distinct] == 0]
        [self.rows] = arrays.few("rows", 0, self._rows.living, 1)
        arrays.require(int(missing.sum()) == self.rows, f"not {self.rows} rows refer to what is missing")

    def _counted(self, arrays: Checked, place: str, count: str, rows: Rows) -> tuple[I32, I32]:
        """By slot the value of a row, and by value its living rows, which must be as many."""
        distinct = len(self._numbers)
        numbers = arrays.index(place, -1, distinct - 1, rows.size)
        # what has no number is looked up at the last place, so that there must be one
        counts = arrays.array(count, np.int32, (distinct + 1,), grows=0)
        known = np.zeros_like(counts)
        bounds.count_living(numbers[: rows.size], rows.alive, known)
        arrays.require(np.array_equal(known, counts), f"{count!r} does not count the rows of {place!r}")
        return numbers, counts
