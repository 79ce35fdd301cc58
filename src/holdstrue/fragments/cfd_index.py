"""IDX: by id of a left side the ids of its right sides, and by these the rows (paper 000, Section 4).

A group is a set of rows with one id of X, a kind one with one id of X and B. All rows of a group violate the
CFD when the group has two kinds or more, or when other fragments are known to hold a row that differs.

Memory: 8 bytes a row version; 27 to 37 bytes and 9 a group; 27 to 37 and 20 a kind.
Rows of deleted keys are skipped and go with the next rebuild from the source.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from holdstrue.fragments.ids import Ids
from holdstrue.index.arrays import Numbering, Snapshot, all_true, nested, room, with_slack
from holdstrue.index.checked import Checked
from holdstrue.index.grouping import RowLists
from holdstrue.kernels import bounds
from holdstrue.kernels import classes as kernels
from holdstrue.typing import I32, U8, Mask

_BY_KIND = {"kind_group": 0, "following": -1, "count": 0}
_BY_GROUP = {"first": -1, "sides": 0, "flag": 0}
"""Arrays of an index by what they are indexed with, and what fills new places."""


@dataclass
class IndexStep:
    """What a batch does to an index: its counters, and flags that other fragments' words set; all can be taken back."""

    index: CFDIndex
    new: I32
    """By row that comes: its kind, -1 for rows that do not match."""
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
    flagged: I32 = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    """Groups whose flag was set."""
    _flags_before: U8 = field(default_factory=lambda: np.empty(0, dtype=np.uint8))
    _flagged_dirty: Mask = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    def flag(self, groups: I32, value: int) -> None:
        """Set flags of groups (unknown ones are negative); the first change of a group remembers what was."""
        groups = groups[groups >= 0]
        if not groups.size:
            return
        fresh = np.setdiff1d(groups, self.flagged).astype(np.int32)
        if fresh.size:
            self._flags_before = np.concatenate((self._flags_before, self.index.flags(fresh)))
            self._flagged_dirty = np.concatenate((self._flagged_dirty, self.index.dirty(fresh)))
            self.flagged = np.concatenate((self.flagged, fresh))
        self.index.set_flags(groups, value)

    def flipped(self) -> tuple[I32, I32]:
        """Groups that violate now and did not, and the other way round."""
        groups, before = self.groups, self.dirty_before
        if self.flagged.size:
            others = ~np.isin(self.flagged, self.groups)
            groups = np.concatenate((groups, self.flagged[others]))
            before = np.concatenate((before, self._flagged_dirty[others]))
        now = self.index.dirty(groups)
        return groups[now & ~before], groups[before & ~now]

    def abort(self) -> None:
        """Take everything back."""
        self.index.set_flags(self.flagged, self._flags_before)
        self.index.set_counts(self.kinds, self.counts_before, self.groups, self.sides_before)


class CFDIndex:
    """The index of one CFD at its home.

    Examples
    --------
    >>> def ids(*values): return Ids(np.zeros(len(values), np.uint64), np.array(values, np.uint64))
    >>> index, none = CFDIndex(), np.empty(0, np.int32)
    >>> x, b = ids(7, 7, 7, 8, 9), ids(100, 200, 100, 300, 400)  # five rows: zip 7 lies in two cities
    >>> step = index.stage(none, x, b, np.ones(5, bool))
    >>> index.commit(step, np.arange(5, dtype=np.int32))
    >>> index.violating(np.arange(5, dtype=np.int32)).tolist()
    [True, True, True, False, False]
    >>> step = index.stage(np.array([1], np.int32), ids(), ids(), np.ones(0, bool))  # the second row goes
    >>> [groups.tolist() for groups in step.flipped()]  # groups that begin and that cease to violate
    [[], [0]]
    >>> step.abort(); index.dirty_groups().tolist()
    [0]
    """

    def __init__(self) -> None:
        self._groups = Numbering()
        self._kinds = Numbering()
        self._slot_kind = np.full(64, -1, dtype=np.int32)
        # by kind: its group, the next kind of this group, how many rows it has
        self._kind_group = np.zeros(64, dtype=np.int32)
        self._following = np.full(64, -1, dtype=np.int32)
        self._count = np.zeros(64, dtype=np.int32)
        # by group: its first kind, how many kinds with rows it has, whether other fragments make it violate
        self._first = np.full(64, -1, dtype=np.int32)
        self._sides = np.zeros(64, dtype=np.int32)
        self._flag = np.zeros(64, dtype=np.uint8)
        self._lists = RowLists()
        self._place = np.full(64, -1, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._groups)

    def stage(self, old: I32, x: Ids, b: Ids, member: Mask) -> IndexStep:
        """Count old row versions out and new rows in; `commit` or the step's `abort` follows. Complexity: O(rows)."""
        new = self._number(x, b, member)
        left = self._slot_kind[old]
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
        return IndexStep(self, new, kinds[0, :some], kinds[1, :some], touched, before, after, dirty, gained, lost)

    def _number(self, x: Ids, b: Ids, member: Mask) -> I32:
        group = self._groups.assign(x.hi, x.lo, member)
        both = x + b
        known = len(self._kinds)
        kinds, origin = self._kinds.assign_new(both.hi, both.lo, member)
        total = len(self._kinds)
        self._grow(len(self._groups), total)
        self._kind_group[known:total] = group[origin]
        kernels.link_kinds(self._kind_group, self._first, self._following, known, total)
        return kinds

    def _grow(self, groups: int, kinds: int) -> None:
        for names, size in ((_BY_GROUP, groups), (_BY_KIND, kinds)):
            for name, fill in names.items():
                setattr(self, f"_{name}", room(getattr(self, f"_{name}"), size, fill=fill))

    def set_counts(self, kinds: I32, counts: I32, groups: I32, sides: I32) -> None:
        """Set how many rows kinds have, and how many kinds groups have."""
        self._count[kinds] = counts
        self._sides[groups] = sides

    def commit(self, step: IndexStep, slots: I32) -> None:
        """Give the rows that came their kinds; `slots` are where they were put."""
        if slots.size:
            rows = int(slots[-1]) + 1
            self._slot_kind = room(self._slot_kind, rows, fill=-1)
            self._slot_kind[slots] = step.new
            self._lists.upto(self._slot_kind, len(self._kinds), rows)

    # --- what is known of groups ------------------------------------------------------------------

    def find(self, x: Ids) -> I32:
        """Numbers of groups by their ids, -1 for unknown ones. Complexity: O(ids) expected."""
        return self._groups.find(x.hi, x.lo, all_true(x.size))

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
        return self.kinds_dirty(self._slot_kind[slots])

    def kinds_dirty(self, kinds: I32) -> Mask:
        """Which kinds are of groups that violate the CFD; -1 is of none."""
        return (kinds >= 0) & self.dirty(self._kind_group[np.maximum(kinds, 0)])

    def kind_ids(self, slots: I32) -> tuple[Ids, Mask]:
        """Ids of left and right side together, and which row versions match the CFD at all."""
        kinds = self._slot_kind[slots]
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
        own = sum(getattr(self, f"_{name}").nbytes for name in ("slot_kind", *_BY_KIND, *_BY_GROUP))
        return int(own) + self._groups.size_bytes() + self._kinds.size_bytes() + self._lists.size_bytes()

    def snapshot(self, rows: int) -> Snapshot:
        """The arrays that make up the state of the first `rows` slots."""
        arrays: Snapshot = nested("groups", self._groups.snapshot()) | nested("kinds", self._kinds.snapshot())
        arrays["slot_kind"] = with_slack(self._slot_kind, min(rows, self._slot_kind.size), fill=-1)
        for names, used in ((_BY_KIND, len(self._kinds)), (_BY_GROUP, len(self._groups))):
            arrays |= {name: with_slack(getattr(self, f"_{name}"), used, fill=fill) for name, fill in names.items()}
        return arrays

    def restore(self, arrays: Checked, rows: int, alive: U8) -> None:
        """Take over the arrays of a snapshot (they will be written to) of so many slots. Complexity: O(slots)."""
        self._groups.restore(arrays.part("groups"))
        self._kinds.restore(arrays.part("kinds"))
        groups, kinds = len(self._groups), len(self._kinds)
        found = arrays.array("slot_kind", np.int32, (0,), grows=0)
        arrays.within("slot_kind", found[:rows], -1, kinds - 1)
        # an index that no batch told of anything has no place for rows yet
        self._slot_kind = room(found, rows, fill=-1)
        self._kind_group = arrays.index("kind_group", 0, groups - 1, kinds)
        self._following = arrays.index("following", -1, kinds - 1, kinds, fill=-1)
        self._first = arrays.index("first", -1, kinds - 1, groups, fill=-1)
        self._flag = arrays.index("flag", 0, 1, groups, dtype=np.uint8, fill=0)
        links = np.stack((self._kind_group[:kinds], self._following[:kinds]), axis=1)
        lists = bounds.unlinked(links, 0, 1) < 0 and bounds.unheaded(self._first[:groups, None], 0, links, 0) < 0
        arrays.require(lists, "a list of kinds leaves its group, or runs in a circle")
        self._count = arrays.array("count", np.int32, (kinds,), grows=0, fill=0)
        self._sides = arrays.array("sides", np.int32, (groups,), grows=0, fill=0)
        counted = np.zeros(kinds, dtype=np.int32)
        bounds.count_living(self._slot_kind[:rows], alive, counted)
        sides = np.bincount(self._kind_group[:kinds][counted > 0], minlength=groups)
        same = np.array_equal(counted, self._count[:kinds]) and np.array_equal(sides, self._sides[:groups])
        arrays.require(same, "its counts do not follow from its rows")
        self._lists = RowLists()
