"""All two-row checks of a table: the roles that rows may play, and the one index that serves the checks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdstrue.detect.detector import Batch
from holdstrue.index.arrays import MOST_SLOTS, Snapshot, nested, room, with_slack
from holdstrue.index.checked import Checked
from holdstrue.index.grouping import Grouping
from holdstrue.index.order_screen import OrderScreen, screens_of
from holdstrue.index.protocol import S_ROLE, T_ROLE, PairIndex, Shape, index_type
from holdstrue.index.rows import Rows
from holdstrue.plan.checks import PairCheck
from holdstrue.plan.filter import holds
from holdstrue.rules.model import Condition
from holdstrue.typing import I32, I64, U8, Mask

MOST_WAITING = 128
"""Rows that wait to enter the index where they come one by one: looking at each of them takes 1 ns a rule, entering
100 us for all of them together. Chosen, not tuned."""


class PairSet:
    """All two-row checks of a table: what their index may read, and the index itself."""

    def __init__(
        self,
        checks: Sequence[PairCheck],
        shapes: Sequence[Shape],
        rows: Rows,
        groupings: Sequence[Grouping],
        index: str,
    ) -> None:
        self._checks, self.shapes = tuple(checks), tuple(shapes)
        self._rows = rows
        self._groupings = tuple(groupings)
        self.roles = [np.zeros(64, dtype=np.uint8) for _ in checks]
        """By check and slot: the roles a row may play."""
        self.lopsided = [
            grouping.two_sided or check.t_member != check.s_member
            for check, grouping in zip(checks, groupings, strict=True)
        ]
        """By check: whether the two roles ask for different rows or columns."""
        self._type = index_type(index)
        self._pending: list[I32] = []
        self._tail = np.empty(MOST_WAITING, dtype=np.int32)
        self._waiting = 0
        self._entered = 0
        self._touched: dict[int, Mask] = {}
        self.generation = 0
        """Grows whenever the index may hold its rows in other arrays."""
        self._index: PairIndex = self._type(self.shapes, self)
        self._screens = self._make_screens() if index == "blocks" else []
        self._suspects: tuple[Batch | None, dict[int, I64]] = None, {}

    def _make_screens(self) -> list[OrderScreen]:
        """What answers several rules of a grouping at once."""
        grouped: dict[int, list[int]] = {}
        for number, grouping in enumerate(self._groupings):
            if not grouping.two_sided:
                grouped.setdefault(id(grouping), []).append(number)
        return screens_of(self.shapes, self, list(grouped.values()))

    @property
    def alive(self) -> U8:
        """By slot: 0 for row versions that were removed."""
        return self._rows.alive

    def codes(self, column: int) -> I64:
        """Codes of a column by slot."""
        codes: I64 = self._rows.codes[column]
        return codes

    @property
    def every_code(self) -> I64:
        """`every_code[column, slot]`: the codes of all columns."""
        return self._rows.codes

    def groups(self, check: int) -> tuple[I32, I32]:
        """By slot: the groups of a row as t and as s."""
        return self._groupings[check].t_groups, self._groupings[check].s_groups

    def grouping(self, check: int) -> Grouping:
        """What groups the rows of a check."""
        return self._groupings[check]

    @property
    def held(self) -> PairIndex:
        """The index without the rows that wait."""
        return self._index

    @property
    def index(self) -> PairIndex:
        """The index, with every row that came in."""
        self.flush()
        return self._index

    @property
    def waiting(self) -> I32:
        """Rows that came one by one and are in the index only when it is next read as a whole."""
        return self._tail[: self._waiting]

    def flush_batches(self) -> None:
        """Let rows of batches into the index, where some wait."""
        if self._pending:
            self.flush()

    def enter_row(self, slot: int) -> None:
        """Let one new row in, which may wait."""
        if self._waiting == MOST_WAITING:
            self.flush()
        self._tail[self._waiting] = slot
        self._waiting += 1
        self._entered = self._rows.size

    def retract(self, slot: int) -> None:
        """Forget the last row, which lives no longer, so that another can get its slot."""
        if self._waiting and self._tail[self._waiting - 1] == slot:
            self._waiting -= 1
        self._entered = self._rows.size

    def leave_row(self, slot: int) -> None:
        """Take one row out again, which lives no longer."""
        if not (self.waiting == slot).any():
            self._index.remove(np.array([slot], dtype=np.int32))
            self.generation += 1

    def flush(self) -> None:
        """Let waiting rows into the index."""
        if self._waiting:
            self._pending.insert(0, self.waiting.copy())  # batches came after them
            self._waiting = 0
        if self._pending:
            self.generation += 1
            slots = self._pending[0] if len(self._pending) == 1 else np.concatenate(self._pending)
            self._pending = []
            alive = self._rows.alive[slots] != 0
            self._index.insert(slots if alive.all() else slots[alive])

    def begin(self, batch: Batch) -> None:
        """Give the new rows their roles and take the old ones out of the index. Complexity: O(batch)."""
        self._touched.clear()
        known: dict[tuple[int, tuple[str, ...]], U8] = {}
        for number, check in enumerate(self._checks):
            self.roles[number] = room(self.roles[number], batch.rows.size, fill=0)
            # rules with the same groups and without NULLs or conditions have the same roles
            lefts = self._partly([term.left for term in check.terms], batch)
            rights = self._partly([term.right for term in check.terms], batch)
            plain = not self.lopsided[number] and lefts == rights and check.t_member is None
            place = id(self._groupings[number]), lefts
            roles = known.get(place) if plain else None
            if roles is None:
                t_groups, s_groups = self.groups(number)
                t = self._able(t_groups, lefts, check.t_member, batch)
                both = not self.lopsided[number] and lefts == rights
                s = t if both else self._able(s_groups, rights, check.s_member, batch)
                roles = t.view(np.uint8) * np.uint8(T_ROLE) + s.view(np.uint8) * np.uint8(S_ROLE)
            if plain:
                known[place] = roles
            batch.put(self.roles[number], roles, 0)
        if batch.leaves_few:
            # removed rows would outnumber the others, so that the index would be built anew before long
            self._start_over(np.flatnonzero(self._rows.alive[: batch.first_new]).astype(np.int32))
        elif batch.old.size:
            entered = batch.old[batch.old < self._first_outside()]
            if entered.size:
                self._index.remove(entered)
                self.generation += 1
        self._suspects = batch, {}
        late = sum(slots.size for slots in self._pending)
        for screen in self._screens:
            found = screen.suspects(batch.first_new, batch.new, batch.old, late)
            if found is not None:
                self._suspects[1].update(found)

    def suspects(self, number: int, batch: Batch) -> I64 | None:
        """Which of a batch's new rows may violate a check, by their positions; None where any may."""
        asked, found = self._suspects
        return found.get(number) if asked is batch else None

    def _first_outside(self) -> int:
        """The first slot that waits to enter the index; those after it do so too."""
        return next((int(slots[0]) for slots in (self.waiting, *self._pending) if slots.size), MOST_SLOTS)

    def touched(self, number: int, batch: Batch) -> Mask | None:
        """By group of a check whether the batch at hand touches it; None where each role has its own groups.

        The last place stands for rows without a group, whose number is -1. Complexity: O(groups + batch), once for all
        rules that share the groups.
        """
        grouping = self._groupings[number]
        if grouping.two_sided:
            return None
        known = self._touched.get(id(grouping))
        if known is None:
            known = np.zeros(len(grouping) + 1, dtype=np.bool_)
            known[grouping.t_groups[batch.old]] = True
            known[grouping.t_groups[batch.new]] = True
            known[-1] = False
            self._touched[id(grouping)] = known
        return known

    @staticmethod
    def _partly(columns: Sequence[str], batch: Batch) -> tuple[str, ...]:
        """Those of the columns that are unknown in some new rows."""
        return tuple(sorted({name for name in columns if batch.incoming.coded(name).valid is not None}))

    @staticmethod
    def _able(groups: I32, columns: Sequence[str], member: Condition | None, batch: Batch) -> Mask:
        """Which new rows may play a role: in a group, chosen, and with every compared value known."""
        able = groups[batch.new] >= 0
        if member is not None:
            able &= holds(member, batch.incoming.column, able.size)
        for column in columns:
            valid = batch.incoming.coded(column).valid
            if valid is not None:
                able &= valid
        return able

    def end(self, batch: Batch) -> None:
        """Let the new rows into the index, at the latest when it is next read; a second call does nothing."""
        if batch.new.size and self._entered < batch.rows.size:
            self._pending.append(batch.new)
            self._entered = batch.rows.size

    def rebuild(self) -> None:
        """Build the index anew from the living rows, after their codes changed. Complexity: O(n log n)."""
        self._start_over(self._rows.living_slots())

    def _start_over(self, slots: I32) -> None:
        """Let an index without rows take the place of this one; some rows enter it when it is next read."""
        self._index = self._type(self.shapes, self)
        for screen in self._screens:
            screen.forget()
        self._pending, self._waiting = [slots], 0
        self.generation += 1

    def settle(self) -> None:
        """Let rows that came in into the index of every check that no screen answers for."""
        answered = {check for screen in self._screens if screen.active for check in screen.plan.rules}
        if len(answered) < len(self._checks):
            index = self.index
            for check in range(len(self._checks)):
                if check not in answered:
                    index.settle(check)

    def size_bytes(self) -> int:
        """Memory held by the index and the roles."""
        screens = sum(screen.size_bytes() for screen in self._screens)
        return self.index.size_bytes() + screens + sum(roles.nbytes for roles in self.roles)

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        self.generation += 1
        roles = {f"roles.{i}": with_slack(roles, self._rows.size) for i, roles in enumerate(self.roles)}
        return {**nested("index", self.index.snapshot()), **roles}

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot."""
        size = self._rows.size
        self.roles = [
            arrays.index(f"roles.{i}", 0, T_ROLE | S_ROLE, size, dtype=np.uint8) for i in range(len(self.roles))
        ]
        self._entered, self._waiting = size, 0
        self.generation += 1
        for screen in self._screens:
            screen.forget()
        self._index.restore(arrays.part("index"), size)
        if not self._index.keeps_arrays:
            self._pending = [self._rows.living_slots()]
