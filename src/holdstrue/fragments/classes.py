"""IDX: by id of a left side the ids of its right sides, and by these the rows (paper 000, Section 4).

A group is a set of rows with one id of X, a kind one with one id of X and B. All rows of a group violate the
CFD when the group has two kinds or more, or when other fragments are known to hold a row that differs.

Memory: 8 bytes a row version; 27 to 37 bytes and 9 a group; 27 to 37 and 20 a kind.
Rows of deleted keys are skipped and go with the next rebuild from the source.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdstrue.fragments.ids import Ids
from holdstrue.index.arrays import room, with_slack
from holdstrue.index.numbering import Numbering, Snapshot, nested, unnested
from holdstrue.index.row_lists import RowLists
from holdstrue.kernels import classes as kernels
from holdstrue.kernels.classes import MANY_KINDS, NO_KIND
from holdstrue.typing import I32, U8, Mask


@dataclass(frozen=True)
class Step:
    """What a batch does to the counters, with all that is needed to take it back."""

    old: I32
    """By removed row version: its kind, -1 for rows that do not match."""
    new: I32
    """By row that comes: its kind."""
    kinds: I32
    counts_before: I32
    groups: I32
    """Groups that a row left or entered."""
    sides_before: I32
    sides_after: I32
    dirty_before: Mask
    gained: Mask
    """By group: whether it has a kind that it had not."""
    lost: Mask


class Classes:
    """The index of one CFD at its home."""

    def __init__(self) -> None:
        self._groups = Numbering()
        self._kinds = Numbering()
        self._slot_kind = np.full(64, -1, dtype=np.int32)
        self._kind_group = np.zeros(64, dtype=np.int32)
        self._following = np.full(64, -1, dtype=np.int32)
        self._count = np.zeros(64, dtype=np.int32)
        self._first = np.full(64, -1, dtype=np.int32)
        self._sides = np.zeros(64, dtype=np.int32)
        self._flag = np.zeros(64, dtype=np.uint8)
        self._lists = RowLists()
        self._place = np.full(64, -1, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._groups)

    def stage(self, old: I32, x: Ids, b: Ids, member: Mask) -> Step:
        """Count old row versions out and new rows in; `commit` or `abort` follows. Complexity: O(rows) expected."""
        new = self._number(x, b, member)
        left = self._slot_kind[old] if old.size else np.empty(0, dtype=np.int32)
        most = left.size + new.size
        kinds, groups = np.empty((2, most), dtype=np.int32), np.empty((4, most), dtype=np.int32)
        self._place = room(self._place, max(len(self._kinds), len(self._groups)), fill=-1)
        some, found = kernels.shift_counts(
            left, new, self._kind_group, self._count, self._sides, self._place, kinds, groups
        )
        touched, before = groups[0, :found], groups[1, :found]
        dirty = (before > 1) | ((self._flag[touched] != 0) & (before > 0))
        after = self._sides[touched]
        gained, lost = groups[2, :found] != 0, groups[3, :found] != 0
        return Step(left, new, kinds[0, :some], kinds[1, :some], touched, before, after, dirty, gained, lost)

    def _number(self, x: Ids, b: Ids, member: Mask) -> I32:
        group = self._groups.assign(x.hi, x.lo, member)
        both = x + b
        known = len(self._kinds)
        kinds, origin = self._kinds.assign_new(both.hi, both.lo, member)
        total = len(self._kinds)
        for name, size, fill in (("_first", len(self._groups), -1), ("_sides", len(self._groups), 0),
                                 ("_flag", len(self._groups), 0), ("_count", total, 0),
                                 ("_kind_group", total, 0), ("_following", total, -1)):  # fmt: skip
            setattr(self, name, room(getattr(self, name), size, fill=fill))
        self._kind_group[known:total] = group[origin]
        kernels.link_kinds(self._kind_group, self._first, self._following, known, total)
        return kinds

    def abort(self, step: Step) -> None:
        """Take a step back."""
        self._count[step.kinds] = step.counts_before
        self._sides[step.groups] = step.sides_before

    def commit(self, step: Step, slots: I32) -> None:
        """Give the rows that came their kinds; `slots` are where they were put."""
        if slots.size:
            rows = int(slots[-1]) + 1
            self._slot_kind = room(self._slot_kind, rows, fill=-1)
            self._slot_kind[slots] = step.new
            self._lists.upto(self._slot_kind, len(self._kinds), rows)

    # --- what is known of groups ------------------------------------------------------------------

    def find(self, x: Ids) -> I32:
        """Numbers of groups by their ids, -1 for unknown ones. Complexity: O(ids) expected."""
        return self._groups.find(x.hi, x.lo, np.ones(x.size, dtype=np.bool_))

    def ids(self, groups: I32) -> Ids:
        """The ids of groups."""
        return Ids(self._groups.hi[groups], self._groups.lo[groups])

    def dirty(self, groups: I32) -> Mask:
        """Whether the rows of groups violate the CFD."""
        return (self._sides[groups] > 1) | ((self._flag[groups] != 0) & (self._sides[groups] > 0))

    def flags(self, groups: I32) -> U8:
        """Which groups other fragments are known to violate with."""
        return self._flag[groups].copy()

    def set_flags(self, groups: I32, flags: U8 | int) -> None:
        """Note which groups violate together with other fragments."""
        self._flag[groups] = flags

    def sole_values(self, groups: I32) -> tuple[I32, Ids]:
        """NO_KIND, MANY_KINDS or the only kind of each group, and the id of its right side."""
        found = np.empty(groups.size, dtype=np.int32)
        kernels.sole_kinds(np.ascontiguousarray(groups), self._first, self._following, self._count, found)
        kind = np.maximum(found, 0)
        known = np.maximum(groups, 0)
        value = Ids(self._kinds.hi[kind], self._kinds.lo[kind]) - self.ids(known)
        return found, value

    def kinds(self) -> tuple[Ids, Ids]:
        """Ids of the left and right sides of all kinds that have rows."""
        some = np.flatnonzero(self._count[: len(self._kinds)])
        x = self.ids(self._kind_group[some])
        return x, Ids(self._kinds.hi[some], self._kinds.lo[some]) - x

    # --- rows ---------------------------------------------------------------------------------------

    def violating(self, slots: I32) -> Mask:
        """Which row versions violate the CFD."""
        kinds = self._slot_kind[slots] if slots.size else np.empty(0, dtype=np.int32)
        return self.kinds_dirty(kinds)

    def kinds_dirty(self, kinds: I32) -> Mask:
        """Which kinds are of groups that violate the CFD; -1 is of none."""
        if not kinds.size:
            return np.zeros(0, dtype=np.bool_)
        return (kinds >= 0) & self.dirty(self._kind_group[np.maximum(kinds, 0)])

    def kind_ids(self, slots: I32) -> tuple[Ids, Mask]:
        """Ids of left and right side together, and which row versions match the CFD at all."""
        kinds = self._slot_kind[slots] if slots.size else np.empty(0, dtype=np.int32)
        at = np.maximum(kinds, 0)
        return Ids(self._kinds.hi[at], self._kinds.lo[at]), kinds >= 0

    def rows_of(self, groups: I32, alive: U8, rows: int) -> I32:
        """The living row versions of groups, ascending. Complexity: O(rows of the groups)."""
        if not groups.size or not rows:
            return np.empty(0, dtype=np.int32)
        self._slot_kind = room(self._slot_kind, rows, fill=-1)
        head, after = self._lists.upto(self._slot_kind, len(self._kinds), rows)
        out = np.empty(max(64, 4 * groups.size), dtype=np.int32)
        args = (np.ascontiguousarray(groups), self._first, self._following, head, after, alive)
        size = kernels.list_rows(*args, out)
        if size > out.size:
            out = np.empty(size, dtype=np.int32)
            kernels.list_rows(*args, out)
        return np.sort(out[:size])

    def dirty_groups(self) -> I32:
        """All groups whose rows violate the CFD. Complexity: O(groups), vectorised."""
        everything = np.arange(len(self._groups), dtype=np.int32)
        return everything[self.dirty(everything)]

    def size_bytes(self) -> int:
        """Memory held."""
        arrays = (self._slot_kind, self._kind_group, self._following, self._count, self._first, self._sides, self._flag)
        own = sum(array.nbytes for array in arrays)
        return own + self._groups.size_bytes() + self._kinds.size_bytes() + self._lists.size_bytes()

    def snapshot(self, rows: int) -> Snapshot:
        """The arrays that make up the state of the first `rows` slots."""
        groups, kinds = len(self._groups), len(self._kinds)
        arrays: Snapshot = nested("groups", self._groups.snapshot()) | nested("kinds", self._kinds.snapshot())
        return arrays | {
            "slot_kind": with_slack(self._slot_kind, min(rows, self._slot_kind.size), fill=-1),
            "kind_group": with_slack(self._kind_group, kinds),
            "following": with_slack(self._following, kinds, fill=-1),
            "count": with_slack(self._count, kinds),
            "first": with_slack(self._first, groups, fill=-1),
            "sides": with_slack(self._sides, groups),
            "flag": with_slack(self._flag, groups),
        }

    def restore(self, arrays: Snapshot) -> None:
        """Take over the arrays of a snapshot (they will be written to)."""
        self._groups.restore(unnested("groups", arrays))
        self._kinds.restore(unnested("kinds", arrays))
        self._slot_kind, self._kind_group = arrays["slot_kind"], arrays["kind_group"]
        self._following, self._count = arrays["following"], arrays["count"]
        self._first, self._sides, self._flag = arrays["first"], arrays["sides"], arrays["flag"]
        self._lists = RowLists()


__all__ = ["MANY_KINDS", "NO_KIND", "Classes", "Step"]
