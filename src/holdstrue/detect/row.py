"""Rules on single rows: one-row denial constraints, constant CFDs, NOT NULL (paper 002, Algorithm 6).

Memory: 4 bytes a violating row.
"""

from __future__ import annotations

import numpy as np

from holdstrue.detect.detector import Batches, Detector, Outcome, no_pairs, nothing
from holdstrue.index.arrays import Snapshot
from holdstrue.index.checked import Checked
from holdstrue.index.rows import Rows
from holdstrue.kernels import bounds
from holdstrue.plan.checks import RowCheck
from holdstrue.plan.filter import holds
from holdstrue.typing import I32, I64, Mask


class RowDetector(Detector):
    """The slots of violating rows, ascending; slots of rows removed since are skipped when read."""

    check: RowCheck

    def __init__(self, check: RowCheck, rows: Rows) -> None:
        self.check = check
        self._rows = rows
        self._found: list[I32] = []
        self._sorted = np.empty(0, dtype=np.int32)

    def apply(self, batches: Batches, limit: int) -> Outcome:
        """Judge the new rows, forget the old ones. Complexity: O(batch * log violations)."""
        batch = batches.get(self.check.table)
        if batch is None:
            return nothing(1)
        went = self._violates(batch.old)
        came = holds(self.check.broken, batch.incoming.column, batch.new.size)
        if came.any():
            self._found.append(batch.new[came])
        self.rows += int(came.sum()) - int(went.sum())
        still = self._violates(batch.old_twin)
        before = self._violates(batch.new_twin)
        added, removed = batch.new[came & ~before], batch.old[went & ~still]
        return Outcome(added.size, removed.size, added[:limit, None], removed[:limit, None])

    def load(self, slots: I32) -> None:
        """Take over which rows of a whole table violate the rule, ascending."""
        self._sorted = slots
        self.rows = slots.size

    def apply_row(self, old: int, new: int, came: bool, limit: int) -> Outcome | None:
        """As `apply` for one row, whose new version violates the rule or not; None where nothing changed."""
        went = old >= 0 and bool(self._violates(np.array([old], dtype=np.int32))[0])
        if came:
            self._found.append(np.array([new], dtype=np.int32))
        self.rows += came - went
        if came == went:
            return None
        slots = np.array([[new if came else old]], dtype=np.int32)[:limit]
        empty = no_pairs(1)
        return Outcome(int(came), int(went), *((slots, empty) if came else (empty, slots)))

    def retract(self, slot: int) -> None:
        """Forget the last slot, whose row went."""
        slots = self._slots()
        if slots.size and slots[-1] == slot:
            self._sorted = slots[:-1]

    def _slots(self) -> I32:
        if self._found:
            self._sorted = np.concatenate((self._sorted, *self._found))
            self._found = []
        return self._sorted

    def _violates(self, slots: I32) -> Mask:
        known = self._slots()
        if not known.size or not slots.size:
            return np.zeros(slots.size, dtype=np.bool_)
        place = np.minimum(np.searchsorted(known, slots), known.size - 1)
        return known[place] == slots

    def violating(self) -> I32:
        """Slots of the violating rows. Complexity: O(violating rows, removed ones since the last rebuild included)."""
        slots = self._slots()
        return slots[self._rows.alive[slots] != 0]

    def degrees(self, slots: I32) -> I64:
        """How many violations each row is in: one or none."""
        return (self._violates(slots) & (self._rows.alive[slots] != 0)).astype(np.int64)

    def size_bytes(self) -> int:
        """Memory held."""
        return self._slots().nbytes

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        return {"slots": self.violating(), "rows": np.array([self.rows], dtype=np.int64)}

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot."""
        [self.rows] = arrays.few("rows", 0, self._rows.living, 1)
        self._sorted = arrays.index("slots", 0, self._rows.size - 1, self.rows)
        ascending = self._sorted.size == self.rows and bounds.unsorted(self._sorted, True) < 0
        arrays.require(
            ascending and bool(self._rows.alive[self._sorted].all()),
            f"its rows are not {self.rows} living ones in order",
        )
