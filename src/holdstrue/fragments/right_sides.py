"""IDX: groups of rows with one id of X, and what is known of their right sides (paper 000, Section 4).

The groups of a left side are numbered once for all CFDs that share it (`LeftSide`), right sides are kept once for all
CFDs that share both sides and differ in their patterns (`RightSides`). All rows of a group violate a CFD when those
that match it have two right sides or more, or when other fragments are known to hold one that differs. Right sides
are compared inside a group only, by 64 bits of their ids.

Memory: of a left side 4 bytes a row version and 27 to 37 a group, 4 and 4 more once rows are listed; of right sides 8
bytes a group and 4 a group and CFD (5 where it has violations), a bit a row version and CFD (in whole bytes), 4 a row
version whose right side is not the common one of its group, and 35 to 45 for each of those.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from holdstrue.fragments.ids import Ids
from holdstrue.fragments.sparse_arrays import grown, zeros
from holdstrue.index.arrays import Numbering, Snapshot, all_true, nested, room, turns, with_slack
from holdstrue.index.checked import Checked
from holdstrue.index.grouping import Grouping, RowLists
from holdstrue.kernels import bounds
from holdstrue.kernels import sides as kernels
from holdstrue.typing import I32, U8, U64, Mask


class LeftSide:
    """The groups of rows that agree on a left side, for all CFDs of a site that have it."""

    def __init__(self) -> None:
        self._grouping = Grouping()
        self._lists = RowLists()
        self._turn = next(turns)

    def __len__(self) -> int:
        return len(self._grouping)

    def number(self, x: Ids, member: Mask) -> I32:
        """Numbers of groups by their ids, new ones where they are unknown, -1 for others than members."""
        return self._grouping.numbers.assign(x.hi, x.lo, member)

    def find(self, x: Ids) -> I32:
        """Numbers of groups by their ids, -1 for unknown ones. Complexity: O(ids) expected."""
        return self._grouping.numbers.find(x.hi, x.lo, all_true(x.size))

    def ids(self, groups: I32) -> Ids:
        """The ids of groups."""
        return Ids(self._grouping.numbers.hi[groups], self._grouping.numbers.lo[groups])

    def groups(self, slots: I32) -> I32:
        """The groups of row versions, -1 where no CFD looked at one."""
        return self._grouping.t_groups[slots]

    def commit(self, slots: I32, groups: I32) -> None:
        """Give the rows that came their groups."""
        if slots.size:
            self._grouping.t_groups = room(self._grouping.t_groups, int(slots[-1]) + 1, fill=-1, turn=self._turn)
            self._grouping.t_groups[slots] = groups

    def slice_of(self, part: int, parts: int) -> I32:
        """The groups whose ids fall into one of some slices, the same at every site. Complexity: O(groups)."""
        if parts == 1:
            return np.arange(len(self), dtype=np.int32)
        # owners are chosen by the other word
        here = self._grouping.numbers.keys()[0] % np.uint64(parts) == np.uint64(part)
        return np.flatnonzero(here).astype(np.int32)

    def reserve(self, rows: int) -> None:
        """Make room for so many rows."""
        self._grouping.t_groups = room(self._grouping.t_groups, rows, fill=-1, turn=self._turn)

    @property
    def listed(self) -> bool:
        """Whether rows were listed by group."""
        return self._lists.size_bytes() > 0

    def lists(self, rows: int) -> tuple[I32, I32]:
        """First slot by group and next slot by slot. Complexity: O(slots that came since the last call)."""
        self._grouping.t_groups = room(self._grouping.t_groups, rows, fill=-1, turn=self._turn)
        return self._lists.upto(self._grouping.t_groups, len(self), rows)

    def size_bytes(self) -> int:
        """Memory held."""
        return self._grouping.size_bytes() + self._lists.size_bytes()

    def snapshot(self, rows: int) -> Snapshot:
        """The arrays that make up the state of the first `rows` slots."""
        self._grouping.t_groups = room(self._grouping.t_groups, rows, fill=-1, turn=self._turn)
        return self._grouping.snapshot(rows)

    def restore(self, arrays: Checked, rows: int) -> None:
        """Take over the arrays of a snapshot of so many slots."""
        self._grouping.restore(arrays, rows)
        self._lists = RowLists()


@dataclass
class SidesStep:
    """What a batch does to right sides: counters, and flags that other fragments' words set; all can be taken back."""

    sides: RightSides
    side: I32
    """By row that comes: 0 for the common right side of its group, 1 + kind for another, -1 for none."""
    group: I32
    members: U8
    touched: I32
    """Groups that a row left or entered, ascending."""
    count_before: I32
    others_before: I32
    flags_before: U8
    kinds: I32
    kinds_before: I32
    _flagged: dict[int, tuple[I32, U8, Mask]] = field(default_factory=dict)
    """By CFD: groups whose flag was set, the flag before, and whether they violated before."""

    @cached_property
    def before(self) -> I32:
        """By touched group and CFD how many right sides it had."""
        found: I32 = self.others_before + (self.count_before > 0)
        return found

    @cached_property
    def after(self) -> I32:
        """By touched group and CFD how many right sides it has."""
        return self.sides.numbers_of(self.touched)

    @cached_property
    def was_dirty(self) -> Mask:
        """By touched group and CFD whether it violated."""
        return (self.before > 1) | ((self.flags_before != 0) & (self.before > 0))

    @property
    def is_dirty(self) -> Mask:
        """By touched group and CFD whether it violates, as flags are by now."""
        return (self.after > 1) | ((self.sides.all_flags(self.touched) != 0) & (self.after > 0))

    @cached_property
    def moved(self) -> tuple[Mask, Mask]:
        """By touched group and CFD whether it has a right side that it had not, and whether it lost one."""
        before, after = self.count_before > 0, self.sides.common(self.touched) > 0
        gained, lost = after & ~before, before & ~after
        if self.kinds.size:
            was, now = self.kinds_before > 0, self.sides.kind_count[self.kinds] > 0
            at = np.searchsorted(self.touched, self.sides.kind_group[self.kinds])
            for found, some in ((gained, now & ~was), (lost, was & ~now)):
                kind, cfd = np.nonzero(some)
                found[at[kind], cfd] = True
        return gained, lost

    @cached_property
    def _told(self) -> tuple[Mask, Mask, Mask]:
        gained, lost = self.moved
        new = (self.before == 0) & (self.after > 0)
        narrowed = self.was_dirty & lost & (self.after < 2)
        return new | ((self.before > 0) & ~self.was_dirty & gained & (self.after > 0)) | narrowed, new, narrowed

    @cached_property
    def telling(self) -> list[bool]:
        """By CFD whether something must be told of a group."""
        return [bool(self._told[0][:, cfd].any()) for cfd in range(self.sides.cfds)]

    def tells(self, cfd: int) -> tuple[Mask, Mask, Mask]:
        """By touched group what must be told: in all, of groups that are new here, of those that lost some."""
        told, new, narrowed = self._told
        return told[:, cfd], new[:, cfd], narrowed[:, cfd]

    def flag(self, cfd: int, groups: I32, value: int) -> None:
        """Set flags of groups (unknown ones are negative); the first change of a group remembers what was."""
        groups = groups[groups >= 0]
        if not groups.size:
            return
        empty = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.bool_)
        known, flags, dirty = self._flagged.get(cfd, empty)
        fresh = np.setdiff1d(groups, known).astype(np.int32)
        if fresh.size:
            was = self._was_dirty(cfd, fresh)
            flags = np.concatenate((flags, self.sides.flags(fresh, cfd)))
            self._flagged[cfd] = (np.concatenate((known, fresh)), flags, np.concatenate((dirty, was)))
        self.sides.set_flags(groups, cfd, value)

    def _was_dirty(self, cfd: int, groups: I32) -> Mask:
        """Whether groups whose flags are as they were violated before the batch."""
        found = self.sides.dirty(groups, cfd)
        if self.touched.size:
            at = np.minimum(np.searchsorted(self.touched, groups), self.touched.size - 1)
            here = self.touched[at] == groups
            found[here] = self.was_dirty[at[here], cfd]
        return found

    def flagged(self, cfd: int) -> I32:
        """Groups whose flag was set."""
        return self._flagged[cfd][0] if cfd in self._flagged else np.empty(0, dtype=np.int32)

    def flipped(self, cfd: int) -> tuple[I32, I32]:
        """Groups that violate now and did not, and the other way round."""
        groups, before = self.touched, self.was_dirty[:, cfd]
        if cfd in self._flagged:
            known, _, dirty = self._flagged[cfd]
            others = ~np.isin(known, groups)
            groups, before = np.concatenate((groups, known[others])), np.concatenate((before, dirty[others]))
        now = self.sides.dirty(groups, cfd)
        return groups[now & ~before], groups[before & ~now]

    def abort(self) -> None:
        """Take everything back."""
        for cfd, (groups, flags, _) in self._flagged.items():
            self.sides.set_flags(groups, cfd, flags)
        self.sides.set_counts(self.touched, self.count_before, self.others_before, self.kinds, self.kinds_before)


class RightSides:
    """The right sides of the groups of one left side in one column, for all CFDs that have both.

    Examples
    --------
    Five rows, of which zip 0 lies in the cities 100 and 200; a second CFD looks at the first row and the last two.

    >>> def ints(*values): return np.array(values, np.int32)
    >>> sides, members = RightSides(2), np.array([[3], [1], [1], [3], [3]], np.uint8)
    >>> cities = np.array([100, 200, 100, 300, 400], np.uint64)
    >>> step = sides.stage(3, ints(), ints(), ints(0, 0, 0, 1, 2), cities, members)
    >>> sides.commit(step, np.arange(5, dtype=np.int32))
    >>> [sides.dirty(ints(0, 1, 2), cfd).tolist() for cfd in (0, 1)]
    [[True, False, False], [False, False, False]]
    >>> none = np.empty(0, np.uint64), np.empty((0, 1), np.uint8)
    >>> step = sides.stage(3, ints(1), ints(0), ints(), *none)  # the second row goes
    >>> [groups.tolist() for groups in step.flipped(0)]  # groups that begin and that cease to violate
    [[], [0]]
    >>> step.abort(); sides.dirty(ints(0), 0).tolist()
    [True]
    """

    def __init__(self, cfds: int) -> None:
        self.cfds = cfds
        self._turn = next(turns)
        width = (cfds + 7) // 8
        # by group: its common right side, the list of others, rows of the common one, how many others, flags
        self._main = np.zeros(64, dtype=np.uint64)
        self._first = np.zeros(64, dtype=np.int32)
        self._count = np.zeros((64, cfds), dtype=np.int32)
        self._others = np.zeros((64, cfds), dtype=np.int32)
        self._flag = np.zeros((64, cfds), dtype=np.uint8)
        # right sides that are not the common ones of their groups
        self._kinds = Numbering()
        self.kind_group = np.zeros(64, dtype=np.int32)
        self._following = np.full(64, -1, dtype=np.int32)
        self.kind_count = np.zeros((64, cfds), dtype=np.int32)
        # by row version: which CFDs look at it, and 1 + its kind where that is not the common one
        self._members = np.zeros((64, width), dtype=np.uint8)
        self._side = np.zeros(64, dtype=np.int32)

    def stage(
        self, groups: int, old: I32, old_groups: I32, new_groups: I32, value: U64, members: U8,
        touched: I32 | None = None,
    ) -> SidesStep:  # fmt: skip
        """Count old row versions out and new rows in; `commit` or the step's `abort` follows. Complexity: O(rows).

        `groups` is how many groups the left side has, `touched` those that the rows are in, ascending.
        """
        self.make_groups(groups)
        if touched is None:
            both = np.concatenate((old_groups, new_groups))
            touched = np.unique(both[both >= 0]).astype(np.int32)
        side = self._place(new_groups, value, members)
        old_side = self._side[old]
        kinds = np.unique(np.concatenate((old_side[old_side > 0], side[side > 0]))) - np.int32(1)
        step = SidesStep(
            self, side, new_groups, members, touched, self._count[touched], self._others[touched],
            self._flag[touched], kinds, self.kind_count[kinds],
        )  # fmt: skip
        counters = (self._count, self._others, self.kind_count)
        kernels.shift_sides(old_groups, old_side, self._members[old], -1, *counters)
        kernels.shift_sides(new_groups, side, members, 1, *counters)
        return step

    def reserve(self, rows: int) -> None:
        """Make room for so many rows."""
        self._members = room(self._members, rows, fill=0, turn=self._turn)
        self._side = grown(self._side, rows)

    def take_in(self, groups: int, slots: I32, new_groups: I32, value: U64, members: U8) -> None:
        """Count rows of a first load in, which are not taken back. Complexity: O(rows)."""
        self.make_groups(groups)
        side = self._place(new_groups, value, members)
        kernels.shift_sides(new_groups, side, members, 1, self._count, self._others, self.kind_count)
        self._keep(slots, side, members)

    def _place(self, groups: I32, value: U64, members: U8) -> I32:
        side = np.empty(groups.size, dtype=np.int32)
        if kernels.place_sides(groups, value, members, self._main, side):
            rows = np.flatnonzero(side > 0)
            upper, known = groups[rows], len(self._kinds)
            words = np.maximum(value[rows], np.uint64(1))
            numbers, origin = self._kinds.assign_new(upper.astype(np.uint64), words, all_true(rows.size))
            total = len(self._kinds)
            self.kind_group = room(self.kind_group, total, fill=0)
            self._following = room(self._following, total, fill=-1)
            self.kind_count = room(self.kind_count, total, fill=0)
            self.kind_group[known:total] = upper[origin]
            kernels.link_sides(self.kind_group, self._first, self._following, known, total)
            side[rows] = numbers + np.int32(1)
        return side

    def make_groups(self, groups: int) -> None:
        """Make room for so many groups."""
        self._main = room(self._main, groups, fill=0, turn=self._turn)
        self._first = grown(self._first, groups)
        self._count = room(self._count, groups, fill=0, turn=self._turn)
        self._others = grown(self._others, groups)
        self._flag = grown(self._flag, groups)

    def commit(self, step: SidesStep, slots: I32) -> None:
        """Keep what is known of the rows that came; `slots` are where they were put."""
        self._keep(slots, step.side, step.members)

    def _keep(self, slots: I32, side: I32, members: U8) -> None:
        if slots.size:
            self.reserve(int(slots[-1]) + 1)
            self._members[slots] = members
            other = side > 0
            self._side[slots[other]] = side[other]

    # --- what is known of groups ------------------------------------------------------------------

    def number_of(self, groups: I32, cfd: int) -> I32:
        """How many right sides groups have."""
        return self._others[groups, cfd] + (self._count[groups, cfd] > 0)

    def numbers_of(self, groups: I32) -> I32:
        """How many right sides groups have, by CFD."""
        found: I32 = self._others[groups] + (self._count[groups] > 0)
        return found

    def common(self, groups: I32) -> I32:
        """How many rows have the common right sides of groups, by CFD."""
        return self._count[groups]

    def all_flags(self, groups: I32) -> U8:
        """Which groups other fragments are known to violate with, by CFD."""
        return self._flag[groups]

    def dirty(self, groups: I32, cfd: int) -> Mask:
        """Whether the rows of groups violate a CFD."""
        sides = self.number_of(groups, cfd)
        return (sides > 1) | ((self._flag[groups, cfd] != 0) & (sides > 0))

    def flags(self, groups: I32, cfd: int) -> U8:
        """Which groups other fragments are known to violate with."""
        return self._flag[groups, cfd]

    def set_flags(self, groups: I32, cfd: int, flags: U8 | int) -> None:
        """Note which groups violate together with other fragments."""
        self._flag[groups, cfd] = flags

    def set_counts(self, groups: I32, count: I32, others: I32, kinds: I32, kind_count: I32) -> None:
        """Set the counters of groups and of kinds."""
        self._count[groups], self._others[groups] = count, others
        self.kind_count[kinds] = kind_count

    def sole(self, groups: I32, cfd: int) -> tuple[U8, U64]:
        """By group NONE, ONE or MANY right sides, and where it is one, which. Unknown groups are negative."""
        state, found = np.empty(groups.size, dtype=np.uint8), np.empty(groups.size, dtype=np.uint64)
        kernels.sole_sides(
            np.ascontiguousarray(groups), cfd, self._count, self._others, self._main, self._first, self._following,
            self.kind_count, self._kinds.lo, state, found,
        )  # fmt: skip
        return state, found

    def every(self, groups: I32, cfd: int) -> tuple[I32, U64]:
        """All right sides that have rows: their groups, and which they are. Complexity: O(groups + kinds)."""
        common = groups[self._count[groups, cfd] > 0]
        kinds = np.flatnonzero(self.kind_count[: len(self._kinds), cfd]).astype(np.int32)
        values = np.concatenate((self._main[common], self._kinds.lo[kinds]))
        return np.concatenate((common, self.kind_group[kinds])), values

    # --- rows ---------------------------------------------------------------------------------------

    def members(self, slots: I32, cfd: int) -> Mask:
        """Which row versions a CFD looks at."""
        found: Mask = self._members[slots, cfd // 8] & np.uint8(1 << cfd % 8) != 0
        return found

    def looked(self, slots: I32) -> U8:
        """By row version a bit for each CFD that looks at it."""
        return self._members[slots]

    def values(self, slots: I32, groups: I32) -> U64:
        """The right sides of row versions, which are of these groups."""
        side = self._side[slots]
        found: U64 = np.where(side > 0, self._kinds.lo[np.maximum(side - 1, 0)], self._main[np.maximum(groups, 0)])
        return found

    def rows_of(self, groups: I32, cfd: int, lists: tuple[I32, I32], alive: U8, rows: int) -> I32:
        """The living row versions of groups that a CFD looks at, ascending. Complexity: O(rows of the groups)."""
        if not groups.size or not rows:
            return np.empty(0, dtype=np.int32)
        self._members = room(self._members, rows, fill=0, turn=self._turn)
        out = np.empty(max(64, 4 * groups.size), dtype=np.int32)
        args = (np.ascontiguousarray(groups), *lists, alive, self._members, cfd)
        size = kernels.list_members(*args, out)
        if size > out.size:
            out = np.empty(size, dtype=np.int32)
            kernels.list_members(*args, out)
        return np.sort(out[:size])

    def size_bytes(self, rows: int) -> int:
        """Memory held; entries that are 0 in sparse arrays take none."""
        own = (self._main, self._count, self.kind_group, self._following, self.kind_count, self._members)
        sparse = sum(np.count_nonzero(array) for array in (self._side[:rows], self._others, self._first, self._flag))
        return sum(array.nbytes for array in own) + 4 * int(sparse) + self._kinds.size_bytes()

    # --- the state ------------------------------------------------------------------------------------

    def snapshot(self, groups: int, rows: int) -> Snapshot:
        """The arrays that make up the state of so many groups and slots."""
        self.make_groups(groups)
        self._members = room(self._members, rows, fill=0, turn=self._turn)
        arrays: Snapshot = nested("kinds", self._kinds.snapshot())
        kinds = len(self._kinds)
        by_group: Snapshot = {"main": self._main, "first": self._first, "count": self._count, "flag": self._flag}
        arrays |= {name: with_slack(array, groups) for name, array in by_group.items()}
        arrays["kind_group"] = with_slack(self.kind_group, kinds)
        arrays["following"] = with_slack(self._following, kinds, fill=-1)
        arrays["members"] = with_slack(self._members, rows)
        slots = np.flatnonzero(self._side[:rows]).astype(np.int32)
        return arrays | {"other_slots": slots, "other_kinds": self._side[slots] - np.int32(1)}

    def restore(self, arrays: Checked, left: LeftSide, rows: int, alive: U8) -> None:
        """Take over the arrays of a snapshot (they will be written to) of so many slots. Complexity: O(slots)."""
        groups, width = len(left), self._members.shape[1]
        self._kinds.restore(arrays.part("kinds"))
        kinds = len(self._kinds)
        self._main = arrays.array("main", np.uint64, (groups,), grows=0)
        self._first = arrays.index("first", 0, kinds, groups, fill=0)
        self._flag = arrays.array("flag", np.uint8, (groups, self.cfds), grows=0, fill=0)
        arrays.within("flag", np.ascontiguousarray(self._flag[:groups]), 0, 1)
        self.kind_group = arrays.index("kind_group", 0, groups - 1, kinds)
        self._following = arrays.index("following", -1, kinds - 1, kinds, fill=-1)
        links = np.stack((self.kind_group[:kinds], self._following[:kinds]), axis=1)
        heads = (self._first[:groups, None] - 1).astype(np.int32)
        lists = bounds.unlinked(links, 0, 1) < 0 and bounds.unheaded(heads, 0, links, 0) < 0
        arrays.require(lists, "a list of right sides leaves its group, or runs in a circle")
        self._members = arrays.array("members", np.uint8, (rows, width), grows=0, fill=0)
        spare = (0xFF << (self.cfds - 8 * (width - 1))) & 0xFF
        arrays.require(not (self._members[:rows, -1] & spare).any(), "a row is looked at by a rule that there is not")
        slots = arrays.index("other_slots", 0, rows - 1, 0)
        other = arrays.index("other_kinds", 0, kinds - 1, slots.size)
        arrays.require(slots.size == other.size and bounds.unsorted(slots, True) < 0, "it lists rows twice")
        self._side = zeros((rows + 64,), np.dtype(np.int32))
        self._side[slots] = other + 1
        self._recount(arrays, left, rows, alive)

    def _recount(self, arrays: Checked, left: LeftSide, rows: int, alive: U8) -> None:
        """Count the living rows anew, and hold the counts of the snapshot against them."""
        groups, kinds = len(left), len(self._kinds)
        everything = np.arange(rows, dtype=np.int32)
        group, side = left.groups(everything).copy(), self._side[:rows].copy()
        looked = self._members[:rows].any(axis=1)
        # of a row that nobody looks at, nor at others of its group, there may be no group
        arrays.require(not (looked & (group < 0)).any(), "a row is of no group")
        at = side > 0
        arrays.require(
            np.array_equal(self.kind_group[side[at] - 1], group[at]), "a row has the right side of another group"
        )
        arrays.require(not (looked & (self._main[np.maximum(group, 0)] == 0)).any(), "a group has no right side")
        side[(alive[:rows] == 0) | ~looked] = -1
        self._others = zeros((groups + 64, self.cfds), np.dtype(np.int32))
        self.kind_count = np.zeros((kinds + 64, self.cfds), dtype=np.int32)
        count = np.zeros((groups, self.cfds), dtype=np.int32)
        kernels.shift_sides(
            group, side, np.ascontiguousarray(self._members[:rows]), 1, count, self._others, self.kind_count
        )
        self._count = arrays.array("count", np.int32, (groups, self.cfds), grows=0, fill=0)
        arrays.require(np.array_equal(count, self._count[:groups]), "its counts do not follow from its rows")
