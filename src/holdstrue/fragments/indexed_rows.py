"""What a site holds: its rows, the indexes that live there, and how a batch changes both, in memory.

Memory: the kept columns as Arrow (those of a first load packed), 19 to 26 bytes a row, 1 byte a row and constant CFD,
and the indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.errors import StateError
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.key_slots import KeySlots
from holdstrue.fragments.normal_cfds import NormalCFD
from holdstrue.fragments.owned_groups import OwnedGroups
from holdstrue.fragments.right_sides import LeftSide, RightSides, SidesStep
from holdstrue.fragments.site_batch import SiteBatch
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.index.arrays import Snapshot, nested, room, with_slack
from holdstrue.index.checked import Checked
from holdstrue.index.rows import Rows
from holdstrue.typing import I32, U8, U64, Mask

_NO_ROWS = np.empty(0, dtype=np.int32)
_FEW = 16
"""Where groups are more than so many times the rows these are looked up one by one, else in a table. Chosen, not
tuned."""
_SCANNED = 1 << 17
"""Rows that are looked at together where all are. Chosen, not tuned."""


@dataclass(frozen=True)
class IndexInput:
    """By entry what the indexes are given: ids of left sides, words of right sides, and which CFDs look at the row."""

    x: tuple[Ids, ...]
    """By left side."""
    values: tuple[U64, ...]
    """By pair of left and right side."""
    members: Mapping[int, Mask]
    """By CFD."""

    def take(self, rows: slice | Mask | I32) -> IndexInput:
        """The same of some entries."""
        # CFDs that ask the same of rows share one mask, and go on to
        shared = {id(mask): mask[rows] for mask in self.members.values()}
        members = {number: shared[id(mask)] for number, mask in self.members.items()}
        return IndexInput(tuple(ids.take(rows) for ids in self.x), tuple(some[rows] for some in self.values), members)


class Place(NamedTuple):
    """Where a variable CFD is indexed: its left side, its pair of sides, its number among the CFDs of that pair."""

    left: int
    pair: int
    column: int


@dataclass(frozen=True)
class IndexStep:
    """What a batch does to all indexes of a site."""

    given: IndexInput
    groups: tuple[I32, ...]
    """By left side the groups of rows that come."""
    pairs: tuple[SidesStep, ...]
    before: Mapping[int, Mask]
    """By constant CFD: which entries' old images violated it."""
    _known: dict[tuple[str, int], NDArray[np.intp]] = field(default_factory=dict)

    def places(self, which: str, left: int, groups: I32, touched: I32) -> NDArray[np.intp]:
        """Where the groups of rows (`which` names them) are among the touched ones of a left side, worked out once."""
        if (which, left) not in self._known:
            self._known[which, left] = _places(groups, touched)
        return self._known[which, left]

    def abort(self) -> None:
        """Take everything back."""
        for step in self.pairs:
            step.abort()


class ChangedKeys(NamedTuple):
    """Keys of rows that began and ceased to violate a CFD."""

    added: pa.Table
    removed: pa.Table

    @property
    def size(self) -> int:
        """How many there are."""
        return self.added.num_rows + self.removed.num_rows


def keys_table(found: Mapping[int, ChangedKeys]) -> pa.Table:
    """By CFD changed keys as one table, with `:cfd` and `:removed` beside the columns of the key."""
    parts = [pa.table({":cfd": pa.array([], pa.int32()), ":removed": pa.array([], pa.bool_())})]
    for cfd, keys in found.items():
        for removed, table in enumerate(keys):
            marks = pa.array(np.full(table.num_rows, cfd, np.int32)), pa.array(np.full(table.num_rows, bool(removed)))
            parts.append(table.append_column(":cfd", marks[0]).append_column(":removed", marks[1]))
    return pa.concat_tables(parts, promote_options="default")


def keys_by_cfd(table: pa.Table) -> dict[int, ChangedKeys]:
    """Back from `keys_table`; CFDs without keys are left out."""
    names = [name for name in table.column_names if name not in (":cfd", ":removed")]
    found = {}
    for cfd in table.column(":cfd").unique().to_pylist():
        own = table.filter(pa.compute.field(":cfd") == cfd)
        sides = (own.filter(pa.compute.field(":removed") == removed).select(names) for removed in (False, True))
        found[cfd] = ChangedKeys(*sides)
    return found


class IndexedRows:
    """Rows and indexes of one site: one index of groups for all CFDs with equal left sides, and one of right sides for
    all that differ in their patterns only."""

    def __init__(self, spec: SiteSpec) -> None:
        self.spec = spec
        self.rows = Rows(spec.schema, keyed=False)
        self._keys = KeySlots()
        self.places: dict[int, Place] = {}
        plan, lefts = spec.plan.fragments[spec.fragment], dict[tuple[str, ...], int]()
        pairs: dict[tuple[int, str], list[int]] = {}
        for cfd in spec.own_cfds:
            if not cfd.is_constant:
                left = lefts.setdefault(plan.left_side(cfd), len(lefts))
                pairs.setdefault((left, cfd.b), []).append(cfd.number)
        for pair, ((left, _), numbers) in enumerate(pairs.items()):
            self.places |= {number: Place(left, pair, column) for column, number in enumerate(numbers)}
        self.left_sides = tuple(LeftSide() for _ in lefts)
        self.pair_cfds = tuple(tuple(numbers) for numbers in pairs.values())
        self._left_of = tuple(left for left, _ in pairs)
        self._cfds_of = tuple(
            tuple(cfd for cfd, place in self.places.items() if place.left == left) for left in range(len(lefts))
        )
        """By left side the CFDs that have it."""
        self.pairs = tuple(RightSides(len(numbers)) for numbers in self.pair_cfds)
        self.owned = {bundle.number: OwnedGroups(bundle) for bundle in spec.bundles}
        """By bundle the groups that this site owns."""
        self._marks = {cfd.number: np.zeros(64, dtype=np.uint8) for cfd in spec.own_cfds if cfd.is_constant}

    def find(self, ids: Ids) -> I32:
        """Slots of the living rows with these keys, -1 where there is none. Complexity: O(keys) expected."""
        return self._keys.find(ids)

    # --- a batch --------------------------------------------------------------------------------------

    def given(self, batch: SiteBatch) -> IndexInput:
        """What the indexes are given of a batch, after all of its ids arrived; of old images too, where they came."""
        members: dict[int, Mask] = {}
        x: list[Ids | None] = [None] * len(self.left_sides)
        values: list[U64 | None] = [None] * len(self.pairs)
        for cfd in self.spec.own_cfds:
            sides = batch.arrived(cfd)
            members[cfd.number] = member = sides[2]
            if cfd.number in self.places:
                left, pair, _ = self.places[cfd.number]
                known = x[left]
                # ids of rows that do not matter to a CFD may be those of nothing
                x[left] = sides[0] if known is None else _merged(known, sides[0], member)
                word = values[pair]
                if word is None:
                    values[pair] = sides[1].lo
                elif word is not sides[1].lo:
                    values[pair] = np.where(member, sides[1].lo, word)
        return IndexInput(tuple(ids for ids in x if ids), tuple(w for w in values if w is not None), members)

    def stage(self, old: I32, now: Mask, given: IndexInput) -> IndexStep:
        """Count a batch into the indexes."""
        gone = old >= 0
        slots = old[gone]
        coming = given if now.all() else given.take(now)
        before = {number: self._were(number, slots, gone) for number in self._marks}
        groups, touched = [], []
        bits = _MaskBits()
        for number, left in enumerate(self.left_sides):
            known = len(left)
            found = left.number(coming.x[number], self._looked(number, coming))
            groups.append(found)
            touched.append(_touched(left.groups(slots), found, known, len(left)))
        steps = []
        for pair, sides in enumerate(self.pairs):
            own = self._left_of[pair]
            size, were = len(self.left_sides[own]), self.left_sides[own].groups(slots)
            members = bits.of([coming.members[cfd] for cfd in self.pair_cfds[pair]])
            steps.append(sides.stage(size, slots, were, groups[own], coming.values[pair], members, touched[own]))
        return IndexStep(given, tuple(groups), tuple(steps), before)

    def _were(self, number: int, slots: I32, gone: Mask) -> Mask:
        if not slots.size:
            return gone  # which is false everywhere
        before = np.zeros(gone.size, dtype=np.bool_)
        before[gone] = self._marks[number][slots] != 0
        return before

    def _violating(self, number: int, slots: I32) -> Mask:
        """Which row versions violate a CFD."""
        if number in self._marks:
            return self._marks[number][slots] != 0
        left, pair, column = self.places[number]
        groups = self.left_sides[left].groups(slots)
        return self.pairs[pair].members(slots, column) & self.pairs[pair].dirty(np.maximum(groups, 0), column)

    def recheck(self, batch: SiteBatch, given: IndexInput) -> None:
        """Compare shipped ids of removed rows with the indexes: they must be those the rows came with."""
        gone = batch.old >= 0
        if batch.images == batch.size or not gone.any():
            return
        slots = batch.old[gone]
        was = given.take(slice(batch.size, batch.images))
        groups = [left.groups(slots) for left in self.left_sides]
        same_x = [left.find(x) == own for left, x, own in zip(self.left_sides, was.x, groups, strict=True)]
        both = [
            same_x[left] & (sides.values(slots, groups[left]) == np.maximum(words, np.uint64(1)))
            for left, sides, words in zip(self._left_of, self.pairs, was.values, strict=True)
        ]
        bits = _MaskBits()
        for pair, (sides, same) in enumerate(zip(self.pairs, both, strict=True)):
            looked = bits.of([was.members[cfd] for cfd in self.pair_cfds[pair]])
            if not np.array_equal(sides.looked(slots), looked) or (looked.any(axis=1) & ~same).any():
                raise StateError(
                    f"an index of the CFDs {', '.join(map(str, self.pair_cfds[pair]))} at site {self.spec.name!r} does "
                    "not fit the rows of its sites",
                    hint="load the relation anew",
                )

    def changed(self, batch: SiteBatch, staged: IndexStep) -> dict[int, ChangedKeys]:
        """By CFD whose violation of it began or ceased. Complexity: O(entries + rows that flip)."""
        dirty = [step.is_dirty for step in staged.pairs]
        ever = [np.asarray((now | step.was_dirty).any(axis=0)) for now, step in zip(dirty, staged.pairs, strict=True)]
        key = pa.schema([self.spec.schema.field(name) for name in self.spec.key]).empty_table()
        nothing = ChangedKeys(key, key)
        found = {}
        for number in staged.given.members:
            if number in self._marks:
                after = staged.given.members[number] & batch.now
                found[number] = self._entries(batch, staged.before[number], after)
                continue
            _, pair, column = self.places[number]
            # of most CFDs no group that the batch touches violates, before or after it
            quiet = not (ever[pair][column] or staged.pairs[pair].flagged(column).size)
            found[number] = nothing if quiet else self._changed(number, batch, staged, dirty[pair][:, column])
        return found

    def _changed(self, number: int, batch: SiteBatch, staged: IndexStep, dirty: Mask) -> ChangedKeys:
        left, pair, column = self.places[number]
        after = np.zeros(batch.size, dtype=np.bool_)
        if dirty.any():
            after[batch.now] = dirty[staged.places("now", left, staged.groups[left], staged.pairs[pair].touched)]
            after &= staged.given.members[number]
        before = np.zeros(batch.size, dtype=np.bool_)
        gone = batch.old >= 0
        was_dirty = staged.pairs[pair].was_dirty[:, column]
        if was_dirty.any() and gone.any():
            slots = batch.old[gone]
            # groups that a row left are among the touched ones, if it had any
            groups = self.left_sides[left].groups(slots)
            was = was_dirty[staged.places("was", left, groups, staged.pairs[pair].touched)] & (groups >= 0)
            before[gone] = was & self.pairs[pair].members(slots, column)
        up, down = (self._others(number, groups, batch.old) for groups in staged.pairs[pair].flipped(column))
        return self._entries(batch, before, after, up, down)

    def _entries(
        self, batch: SiteBatch, before: Mask, after: Mask, up: I32 = _NO_ROWS, down: I32 = _NO_ROWS
    ) -> ChangedKeys:
        """Keys of entries that changed, and of rows that are held and did."""
        return ChangedKeys(self._keys_of(up, batch, after & ~before), self._keys_of(down, batch, before & ~after))

    def _keys_of(self, slots: I32, batch: SiteBatch, entries: Mask) -> pa.Table:
        """Keys of rows that are held and of entries of the batch."""
        key = list(self.spec.key)
        own = batch.rows.select(key)
        own = own.filter(pa.array(entries)) if entries.any() else own.slice(0, 0)
        return pa.concat_tables([self.rows.take(slots, key), own])

    def _others(self, number: int, groups: I32, old: I32) -> I32:
        """Living rows of groups that a CFD looks at and the batch itself does not remove."""
        if not groups.size or not self.rows.size:
            return np.empty(0, dtype=np.int32)
        gone = old[old >= 0]
        self.rows.alive[gone] = 0
        try:
            return self._rows_of(number, groups)
        finally:
            self.rows.alive[gone] = 1

    def _rows_of(self, number: int, groups: I32) -> I32:
        left, pair, column = self.places[number]
        lists = self.left_sides[left].lists(self.rows.size)
        return self.pairs[pair].rows_of(groups, column, lists, self.rows.alive, self.rows.size)

    def commit(self, ids: Ids, rows: pa.Table, now: Mask, old: I32, step: IndexStep) -> None:
        """Put the rows, in the columns and types that are kept, in their places. Complexity: O(entries)."""
        gone = old >= 0
        come = ids
        if gone.any():
            self.rows.remove(old[gone], None)
            self._keys.remove(ids.take(gone))
            for marks in self._marks.values():
                marks[old[gone]] = 0
        kept = self.spec.kept(rows)
        if not now.all():
            kept, come = kept.filter(pa.array(now)), ids.take(now)
        self.place(come, self.rows.append(kept, None, ()), now, step)

    def place(self, ids: Ids, slots: I32, now: Mask, step: IndexStep) -> None:
        """Let keys and indexes know where the rows that came lie. Complexity: O(rows)."""
        self._keys.add(ids, int(slots[0]) if slots.size else 0)
        for left, groups in zip(self.left_sides, step.groups, strict=True):
            left.commit(slots, groups)
        for sides, part in zip(self.pairs, step.pairs, strict=True):
            sides.commit(part, slots)
        for number in self._marks:
            marks = self._marks[number] = room(self._marks[number], self.rows.size, fill=0)
            marks[slots] = step.given.members[number][now]

    def hold(self, rows: pa.Table) -> None:
        """Take in the values of a first load, whose rows are given their places portion by portion."""
        self.rows.append(rows, None, ())
        self._keys.reserve(rows.num_rows)
        for left in self.left_sides:
            left.reserve(rows.num_rows)
        for sides in self.pairs:
            sides.reserve(rows.num_rows)

    def take_in(self, ids: Ids, first: int, given: IndexInput) -> None:
        """Count rows of a first load in, which are not taken back, at slots `first, first + 1, ...`."""
        slots = np.arange(first, first + ids.size, dtype=np.int32)
        self._keys.add(ids, first)
        groups = [
            left.number(x, self._looked(i, given))
            for i, (left, x) in enumerate(zip(self.left_sides, given.x, strict=True))
        ]
        bits = _MaskBits()
        for left, found in zip(self.left_sides, groups, strict=True):
            left.commit(slots, found)
        for pair, (sides, words) in enumerate(zip(self.pairs, given.values, strict=True)):
            own = self._left_of[pair]
            members = bits.of([given.members[cfd] for cfd in self.pair_cfds[pair]])
            sides.take_in(len(self.left_sides[own]), slots, groups[own], words, members)
        for number in self._marks:
            marks = self._marks[number] = room(self._marks[number], self.rows.size, fill=0)
            marks[slots] = given.members[number]

    def _looked(self, left: int, given: IndexInput) -> Mask:
        """Which rows some CFD with a left side looks at."""
        return _any([given.members[cfd] for cfd in self._cfds_of[left]])

    def grouped(self, pair: int) -> RightSides:
        """The right sides of a pair, with room for all groups of the left."""
        sides = self.pairs[pair]
        sides.make_groups(len(self.left_sides[self._left_of[pair]]))
        return sides

    # --- what violates --------------------------------------------------------------------------------

    def violating(self, cfd: NormalCFD) -> I32:
        """Slots of the rows that violate a CFD, ascending."""
        if cfd.is_constant:
            marks = self._marks[cfd.number][: self.rows.size]
            return np.flatnonzero(marks).astype(np.int32)
        left, pair, column = self.places[cfd.number]
        everything = np.arange(len(self.left_sides[left]), dtype=np.int32)
        dirty = self.pairs[pair].dirty(everything, column)
        if not dirty.any():
            return np.empty(0, dtype=np.int32)
        if not self.left_sides[left].listed:
            # lists of all rows by group take 8 bytes a row, and are made when a batch needs those of few groups
            return self._violating_of(left, pair, column, dirty)
        return self._rows_of(cfd.number, everything[dirty])

    def _violating_of(self, left: int, pair: int, column: int, dirty: Mask) -> I32:
        found = []
        for start in range(0, self.rows.size, _SCANNED):
            slots = np.arange(start, min(start + _SCANNED, self.rows.size), dtype=np.int32)
            groups = self.left_sides[left].groups(slots)
            some = (groups >= 0) & (self.rows.alive[slots] != 0)
            some[some] = dirty[groups[some]]
            slots = slots[some]
            found.append(slots[self.pairs[pair].members(slots, column)])
        return np.concatenate(found) if found else np.empty(0, dtype=np.int32)

    def violates(self, cfd: NormalCFD, ids: Ids) -> Mask:
        """Which rows, by their ids, violate a CFD."""
        slots = self.find(ids)
        return (slots >= 0) & self._violating(cfd.number, np.maximum(slots, 0))

    def classes(self, number: int, ids: Ids) -> list[tuple[bytes, bytes, bytes] | None]:
        """Of rows, by their ids, the id of their group and the word of their right side under a CFD."""
        left, pair, column = self.places[number]
        found = self.find(ids)
        slots = np.maximum(found, 0)
        groups = self.left_sides[left].groups(slots)
        member = (found >= 0) & self.pairs[pair].members(slots, column)
        x, value = self.left_sides[left].ids(np.maximum(groups, 0)), self.pairs[pair].values(slots, groups)
        return [
            (int(hi).to_bytes(8), int(lo).to_bytes(8), int(word).to_bytes(8)) if own else None
            for hi, lo, word, own in zip(x.hi, x.lo, value, member, strict=True)
        ]

    def size_bytes(self) -> int:
        """Memory held beside the values of the rows."""
        indexes = sum(left.size_bytes() for left in self.left_sides)
        indexes += sum(sides.size_bytes(self.rows.size) for sides in self.pairs)
        indexes += sum(owned.size_bytes() for owned in self.owned.values())
        indexes += sum(marks.nbytes for marks in self._marks.values())
        return self.rows.size_bytes() + self._keys.size_bytes() + indexes

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state (the values are kept apart)."""
        rows = self.rows.size
        arrays = nested("rows", self.rows.snapshot()) | nested("keys", self._keys.snapshot(rows))
        for number, left in enumerate(self.left_sides):
            arrays |= nested(f"left{number}", left.snapshot(rows))
        for number, sides in enumerate(self.pairs):
            groups = len(self.left_sides[self._left_of[number]])
            arrays |= nested(f"right{number}", sides.snapshot(groups, rows))
        for number, owned in self.owned.items():
            arrays |= nested(f"owned{number}", owned.snapshot())
        for number, marks in self._marks.items():
            arrays[f"marks{number}"] = with_slack(marks, min(rows, marks.size))
        return arrays

    def restore(self, arrays: Checked, values: pa.Table) -> None:
        """Take over the arrays of a snapshot and the values that belong to it."""
        self.rows.restore(arrays.part("rows"), values)
        rows, alive = self.rows.size, self.rows.alive
        self._keys.restore(arrays.part("keys"), rows, alive)
        for number, left in enumerate(self.left_sides):
            left.restore(arrays.part(f"left{number}"), rows)
        for number, sides in enumerate(self.pairs):
            sides.restore(arrays.part(f"right{number}"), self.left_sides[self._left_of[number]], rows, alive)
        for number, owned in self.owned.items():
            owned.restore(arrays.part(f"owned{number}"))
        for number in self._marks:
            marks = arrays.array(f"marks{number}", np.uint8, (0,), grows=0)
            arrays.within(f"marks{number}", marks, 0, 1)
            marks = self._marks[number] = room(marks, rows, fill=0)
            arrays.require(not (marks[:rows] > alive[:rows]).any(), f"a row violates CFD {number} and is not there")


def _merged(known: Ids, other: Ids, member: Mask) -> Ids:
    """Ids of rows that matter to several CFDs, put together for each of them."""
    if other is known:
        return known
    return Ids(np.where(member, other.hi, known.hi), np.where(member, other.lo, known.lo))


def _any(masks: Iterable[Mask]) -> Mask:
    """Where one of some masks is true; equal ones are often the same."""
    distinct = [*{id(mask): mask for mask in masks}.values()]
    return distinct[0] if len(distinct) == 1 else np.logical_or.reduce(distinct)


class _MaskBits:
    """By row a bit for each of some masks; rules that differ in their right side alone have the same masks."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], U8] = {}

    def of(self, masks: Sequence[Mask]) -> U8:
        """The bits of masks, which live as long as this."""
        key = tuple(map(id, masks))
        if key not in self._known:
            found = np.zeros((masks[0].size, (len(masks) + 7) // 8), dtype=np.uint8)
            for number, mask in enumerate(masks):
                found[:, number // 8] |= mask.view(np.uint8) << np.uint8(number % 8)
            self._known[key] = found
        return self._known[key]


def _places(groups: I32, some: I32) -> NDArray[np.intp]:
    """Where groups are in an ascending list that has them; anywhere for -1."""
    if groups.size * _FEW < some[-1]:
        return np.minimum(np.searchsorted(some, groups), some.size - 1)
    place = np.zeros(int(some[-1]) + 1, dtype=np.intp)
    place[some] = np.arange(some.size)
    return place[groups]


def _touched(old: I32, new: I32, known: int, total: int) -> I32:
    """The groups that rows left or entered, ascending."""
    if not known:
        return np.arange(total, dtype=np.int32)  # all are new
    both = np.concatenate((old, new))
    return np.unique(both[both >= 0]).astype(np.int32)
