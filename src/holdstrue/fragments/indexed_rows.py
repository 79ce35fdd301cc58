"""What a site holds: its rows, the indexes that live there, and how a batch changes both, in memory.

Memory: the kept columns as Arrow and 36 to 46 bytes a row, 1 byte a row and constant CFD, and the indexes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from holdstrue.errors import StateError
from holdstrue.fragments.cfd_index import CFDIndex, IndexStep
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.normal_cfds import NormalCFD
from holdstrue.fragments.site_batch import SiteBatch
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.index.arrays import Snapshot, nested, room, with_slack
from holdstrue.index.checked import Checked
from holdstrue.index.rows import Rows
from holdstrue.typing import I32, Mask


@dataclass(frozen=True)
class IndexInput:
    """By entry what an index is given: ids of left and right side, and whether the row matches."""

    x: Ids
    b: Ids
    member: Mask


@dataclass(frozen=True)
class CFDStep:
    """What a batch does to one CFD: the index step of a variable one, and by entry whether its old image violated."""

    given: IndexInput
    before: Mask
    step: IndexStep | None = None

    def flag(self, x: Ids) -> None:
        """Note groups that violate together with other fragments."""
        if self.step is not None:
            self.step.flag(self.step.index.find(x), 1)


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
    """Rows and indexes of one site."""

    def __init__(self, spec: SiteSpec) -> None:
        self.spec = spec
        self.rows = Rows(spec.schema, keyed=True)
        self._indexes = {a.number: CFDIndex() for a in spec.own_cfds if not a.is_constant}
        self._marks = {a.number: np.zeros(64, dtype=np.uint8) for a in spec.own_cfds if a.is_constant}

    def index(self, number: int) -> CFDIndex:
        """The index of a variable CFD."""
        return self._indexes[number]

    # --- a batch --------------------------------------------------------------------------------------

    def stage(self, cfd: NormalCFD, old: I32, now: Mask, given: IndexInput) -> CFDStep:
        """Count a batch into a CFD's index."""
        gone = old[old >= 0]
        before = np.zeros(old.size, dtype=np.bool_)
        before[old >= 0] = self._violating(cfd, gone)
        if cfd.is_constant:
            return CFDStep(given, before)
        step = self._indexes[cfd.number].stage(gone, given.x.take(now), given.b.take(now), given.member[now])
        return CFDStep(given, before, step)

    def _violating(self, cfd: NormalCFD, slots: I32) -> Mask:
        """Which row versions violate a CFD."""
        if cfd.is_constant:
            return self._marks[cfd.number][slots] != 0
        return self._indexes[cfd.number].violating(slots)

    def recheck(self, cfd: NormalCFD, batch: SiteBatch, x: Ids, b: Ids, member: Mask) -> None:
        """Compare shipped ids of removed rows with the index: they must be those the rows came with."""
        if cfd.is_constant or batch.images == batch.size:
            return
        gone = batch.old >= 0
        late = slice(batch.size, None)
        was = self._indexes[cfd.number].kind_ids(batch.old[gone])
        ids = Ids((x.hi + b.hi)[late][gone], (x.lo + b.lo)[late][gone])
        known = member[late][gone]
        if not ((was[1] == known) & (~known | was[0].equals(ids))).all():
            raise StateError(
                f"the index of CFD {cfd.number} at site {self.spec.name!r} does not fit the rows of its sites",
                hint="load the relation anew",
            )

    def changed(self, batch: SiteBatch, staged: CFDStep) -> ChangedKeys:
        """Whose violation of a CFD began or ceased. Complexity: O(entries + rows that flip)."""
        before, after = staged.before, np.zeros(batch.size, dtype=np.bool_)
        up = down = np.empty(0, dtype=np.int32)
        if staged.step is None:
            after = staged.given.member & batch.now
        else:
            index = staged.step.index
            after[batch.now] = index.kinds_dirty(staged.step.new)
            up, down = (self._others(index, groups, batch.old) for groups in staged.step.flipped())
        return ChangedKeys(self._keys(up, batch, after & ~before), self._keys(down, batch, before & ~after))

    def _keys(self, slots: I32, batch: SiteBatch, entries: Mask) -> pa.Table:
        """Keys of rows that are held and of entries of the batch."""
        key = list(self.spec.key)
        return pa.concat_tables([self.rows.take(slots, key), batch.rows.select(key).filter(pa.array(entries))])

    def _others(self, index: CFDIndex, groups: I32, old: I32) -> I32:
        """Living rows of groups that the batch itself does not remove."""
        gone = old[old >= 0]
        self.rows.alive[gone] = 0
        try:
            return index.rows_of(groups, self.rows.alive, self.rows.size)
        finally:
            self.rows.alive[gone] = 1

    def commit(self, ids: Ids, rows: pa.Table, now: Mask, old: I32, steps: Mapping[int, CFDStep]) -> None:
        """Put the rows, in the columns and types that are kept, in their places. Complexity: O(entries)."""
        gone = old >= 0
        keys = ids.take(gone)
        self.rows.remove(old[gone], (keys.hi, keys.lo))
        come = ids.take(now)
        slots = self.rows.append(self.spec.kept(rows).filter(pa.array(now)), (come.hi, come.lo), ())
        for number, part in steps.items():
            if part.step is not None:
                self._indexes[number].commit(part.step, slots)
                continue
            marks = self._marks[number] = room(self._marks[number], self.rows.size, fill=0)
            marks[old[gone]] = 0
            marks[slots] = part.given.member[now]

    # --- what violates --------------------------------------------------------------------------------

    def violating(self, cfd: NormalCFD) -> I32:
        """Slots of the rows that violate a CFD, ascending."""
        if cfd.is_constant:
            marks = self._marks[cfd.number][: self.rows.size]
            return np.flatnonzero(marks).astype(np.int32)
        index = self._indexes[cfd.number]
        return index.rows_of(index.dirty_groups(), self.rows.alive, self.rows.size)

    def violates(self, cfd: NormalCFD, ids: Ids) -> Mask:
        """Which rows, by their ids, violate a CFD."""
        slots = self.rows.find(ids.hi, ids.lo)
        return (slots >= 0) & self._violating(cfd, np.maximum(slots, 0))

    def size_bytes(self) -> int:
        """Memory held beside the values of the rows."""
        indexes = sum(index.size_bytes() for index in self._indexes.values())
        return self.rows.size_bytes() + indexes + sum(marks.nbytes for marks in self._marks.values())

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state (the values are kept apart)."""
        arrays = nested("rows", self.rows.snapshot())
        for number, index in self._indexes.items():
            arrays |= nested(f"classes{number}", index.snapshot(self.rows.size))
        for number, marks in self._marks.items():
            arrays[f"marks{number}"] = with_slack(marks, min(self.rows.size, marks.size))
        return arrays

    def restore(self, arrays: Checked, values: pa.Table) -> None:
        """Take over the arrays of a snapshot and the values that belong to it."""
        self.rows.restore(arrays.part("rows"), values)
        rows, alive = self.rows.size, self.rows.alive
        for number, index in self._indexes.items():
            index.restore(arrays.part(f"classes{number}"), rows, alive)
        for number in self._marks:
            marks = arrays.array(f"marks{number}", np.uint8, (0,), grows=0)
            arrays.within(f"marks{number}", marks, 0, 1)
            marks = self._marks[number] = room(marks, rows, fill=0)
            arrays.require(not (marks[:rows] > alive[:rows]).any(), f"a row violates CFD {number} and is not there")
