"""What a site holds: its rows, the indexes that live there, and how a batch changes both, in memory.

Memory: the kept columns as Arrow and 36 to 46 bytes a row, 1 byte a row and constant CFD, and the indexes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdstrue.errors import StateError
from holdstrue.fragments.cfd_index import CFDIndex, IndexStep
from holdstrue.fragments.exchange import SharedFlags
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.normal_cfds import NormalCFD
from holdstrue.fragments.site_batch import SiteBatch
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.index.arrays import room, with_slack
from holdstrue.index.numbering import Snapshot, nested, unnested
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
    """What a batch does to one CFD: the index step, and by entry whether its old image violated."""

    arrived: IndexInput
    step: IndexStep | None
    before: Mask


@dataclass(frozen=True)
class ChangedKeys:
    """Keys of rows that began or ceased to violate a CFD."""

    added: pa.Table
    removed: pa.Table


class IndexedRows:
    """Rows and indexes of one site."""

    def __init__(self, spec: SiteSpec) -> None:
        self.spec = spec
        self.rows = Rows(spec.schema, keyed=True)
        self._indexes = {a.number: CFDIndex() for a in spec.own_cfds if not a.is_constant}
        self._marks = {a.number: np.zeros(64, dtype=np.uint8) for a in spec.own_cfds if a.is_constant}

    def index(self, cfd: NormalCFD) -> CFDIndex:
        """The index of a variable CFD."""
        return self._indexes[cfd.number]

    # --- a batch --------------------------------------------------------------------------------------

    def stage(self, cfd: NormalCFD, old: I32, now: Mask, arrived: IndexInput) -> CFDStep:
        """Count a batch into a CFD's index."""
        gone = old[old >= 0]
        before = np.zeros(old.size, dtype=np.bool_)
        if cfd.is_constant:
            marks = self._marks[cfd.number]
            before[old >= 0] = marks[gone] != 0
            return CFDStep(arrived, None, before)
        index = self._indexes[cfd.number]
        before[old >= 0] = index.violating(gone)
        step = index.stage(gone, arrived.x.take(now), arrived.b.take(now), arrived.member[now])
        return CFDStep(arrived, step, before)

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

    def found(self, cfd: NormalCFD, batch: SiteBatch, staged: CFDStep, flags: SharedFlags | None) -> ChangedKeys:
        """Whose violation of a CFD began or ceased. Complexity: O(entries + rows that flip)."""
        before, after = staged.before, np.zeros(batch.size, dtype=np.bool_)
        up = down = np.empty(0, dtype=np.int32)
        if staged.step is None:
            after = staged.arrived.member[: batch.size] & batch.now
        else:
            index = self._indexes[cfd.number]
            after[batch.now] = index.kinds_dirty(staged.step.new)
            flips = (flags or SharedFlags(index)).flipped(staged.step)
            up, down = (self._others(index, groups, batch.old) for groups in flips)
        key = list(self.spec.key)
        added = [self.rows.take(up, key), batch.rows.select(key).take(pa.array(np.flatnonzero(after & ~before)))]
        removed = [self.rows.take(down, key), batch.rows.select(key).take(pa.array(np.flatnonzero(before & ~after)))]
        return ChangedKeys(pa.concat_tables(added), pa.concat_tables(removed))

    def _others(self, index: CFDIndex, groups: I32, old: I32) -> I32:
        """Living rows of groups that the batch itself does not remove."""
        gone = old[old >= 0]
        self.rows.alive[gone] = 0
        try:
            return index.rows_of(groups, self.rows.alive, self.rows.size)
        finally:
            self.rows.alive[gone] = 1

    def commit(
        self, ids: Ids, rows: pa.Table, now: Mask, old: I32, staged: Iterable[tuple[NormalCFD, CFDStep]]
    ) -> None:
        """Put the rows in their places. Complexity: O(entries)."""
        gone = old >= 0
        keys = ids.take(gone)
        self.rows.remove(old[gone], (keys.hi, keys.lo))
        come = ids.take(now)
        slots = self.rows.append(_kept(rows, self.spec.schema).filter(pa.array(now)), (come.hi, come.lo), ())
        for cfd, part in staged:
            if part.step is not None:
                self._indexes[cfd.number].commit(part.step, slots)
                continue
            marks = room(self._marks[cfd.number], self.rows.size, fill=0)
            marks[old[gone]] = 0
            marks[slots] = part.arrived.member[: now.size][now]
            self._marks[cfd.number] = marks

    def abort(self, staged: Iterable[tuple[NormalCFD, CFDStep]]) -> None:
        """Take staged counts back."""
        for cfd, part in staged:
            if part.step is not None:
                self._indexes[cfd.number].abort(part.step)

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
        here = slots >= 0
        found = np.zeros(ids.size, dtype=np.bool_)
        if cfd.is_constant:
            found[here] = self._marks[cfd.number][slots[here]] != 0
        else:
            found[here] = self._indexes[cfd.number].violating(slots[here])
        return found

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

    def restore(self, arrays: Snapshot, values: pa.Table) -> None:
        """Take over the arrays of a snapshot and the values that belong to it."""
        self.rows.restore(unnested("rows", arrays), values)
        for number, index in self._indexes.items():
            index.restore(unnested(f"classes{number}", arrays))
        for number in self._marks:
            self._marks[number] = arrays[f"marks{number}"]


def _kept(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns that are kept, in their types."""
    found = rows.select(schema.names)
    return found if found.schema.equals(schema) else found.cast(schema)
