"""What a site holds: its rows, the indexes that live there, and how a batch changes both, in memory.

Memory: the kept columns as Arrow and 36 to 46 bytes a row, 1 byte a row and constant CFD, and the indexes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdstrue.errors import StateError
from holdstrue.fragments.across import Flags
from holdstrue.fragments.atoms import Atom
from holdstrue.fragments.classes import Classes, Step
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.setup import Setup
from holdstrue.fragments.turn import Turn
from holdstrue.index.arrays import room, with_slack
from holdstrue.index.numbering import Snapshot, nested, unnested
from holdstrue.index.rows import Rows
from holdstrue.typing import I32, Mask


@dataclass(frozen=True)
class Arrived:
    """By entry what an index is given: ids of left and right side, and whether the row matches."""

    x: Ids
    b: Ids
    member: Mask


@dataclass(frozen=True)
class AtomStep:
    """What a batch does to one CFD: the index step, and by entry whether its old image violated."""

    arrived: Arrived
    step: Step | None
    before: Mask


@dataclass(frozen=True)
class Found:
    """Keys of rows that began or ceased to violate a CFD."""

    added: pa.Table
    removed: pa.Table


class Holding:
    """Rows and indexes of one site."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.rows = Rows(setup.schema, keyed=True)
        self._classes = {a.number: Classes() for a in setup.own_atoms if not a.is_constant}
        self._marks = {a.number: np.zeros(64, dtype=np.uint8) for a in setup.own_atoms if a.is_constant}

    def classes(self, atom: Atom) -> Classes:
        """The index of a variable CFD."""
        return self._classes[atom.number]

    # --- a batch --------------------------------------------------------------------------------------

    def stage(self, atom: Atom, old: I32, now: Mask, arrived: Arrived) -> AtomStep:
        """Count a batch into a CFD's index."""
        gone = old[old >= 0]
        before = np.zeros(old.size, dtype=np.bool_)
        if atom.is_constant:
            marks = self._marks[atom.number]
            before[old >= 0] = marks[gone] != 0
            return AtomStep(arrived, None, before)
        classes = self._classes[atom.number]
        before[old >= 0] = classes.violating(gone)
        step = classes.stage(gone, arrived.x.take(now), arrived.b.take(now), arrived.member[now])
        return AtomStep(arrived, step, before)

    def recheck(self, atom: Atom, turn: Turn, x: Ids, b: Ids, member: Mask) -> None:
        """Compare shipped ids of removed rows with the index: they must be those the rows came with."""
        if atom.is_constant or turn.images == turn.size:
            return
        gone = turn.old >= 0
        late = slice(turn.size, None)
        was = self._classes[atom.number].kind_ids(turn.old[gone])
        ids = Ids((x.hi + b.hi)[late][gone], (x.lo + b.lo)[late][gone])
        known = member[late][gone]
        if not ((was[1] == known) & (~known | was[0].equals(ids))).all():
            raise StateError(
                f"the index of CFD {atom.number} at site {self.setup.name!r} does not fit the rows of its sites",
                hint="load the relation anew",
            )

    def found(self, atom: Atom, turn: Turn, staged: AtomStep, flags: Flags | None) -> Found:
        """Whose violation of a CFD began or ceased. Complexity: O(entries + rows that flip)."""
        before, after = staged.before, np.zeros(turn.size, dtype=np.bool_)
        up = down = np.empty(0, dtype=np.int32)
        if staged.step is None:
            after = staged.arrived.member[: turn.size] & turn.now
        else:
            classes = self._classes[atom.number]
            after[turn.now] = classes.kinds_dirty(staged.step.new)
            flips = (flags or Flags(classes)).flipped(staged.step)
            up, down = (self._others(classes, groups, turn.old) for groups in flips)
        key = list(self.setup.key)
        added = [self.rows.take(up, key), turn.rows.select(key).take(pa.array(np.flatnonzero(after & ~before)))]
        removed = [self.rows.take(down, key), turn.rows.select(key).take(pa.array(np.flatnonzero(before & ~after)))]
        return Found(pa.concat_tables(added), pa.concat_tables(removed))

    def _others(self, classes: Classes, groups: I32, old: I32) -> I32:
        """Living rows of groups that the batch itself does not remove."""
        gone = old[old >= 0]
        self.rows.alive[gone] = 0
        try:
            return classes.rows_of(groups, self.rows.alive, self.rows.size)
        finally:
            self.rows.alive[gone] = 1

    def commit(self, ids: Ids, rows: pa.Table, now: Mask, old: I32, staged: Iterable[tuple[Atom, AtomStep]]) -> None:
        """Put the rows in their places. Complexity: O(entries)."""
        gone = old >= 0
        keys = ids.take(gone)
        self.rows.remove(old[gone], (keys.hi, keys.lo))
        come = ids.take(now)
        slots = self.rows.append(_kept(rows, self.setup.schema).filter(pa.array(now)), (come.hi, come.lo), ())
        for atom, part in staged:
            if part.step is not None:
                self._classes[atom.number].commit(part.step, slots)
                continue
            marks = room(self._marks[atom.number], self.rows.size, fill=0)
            marks[old[gone]] = 0
            marks[slots] = part.arrived.member[: now.size][now]
            self._marks[atom.number] = marks

    def abort(self, staged: Iterable[tuple[Atom, AtomStep]]) -> None:
        """Take staged counts back."""
        for atom, part in staged:
            if part.step is not None:
                self._classes[atom.number].abort(part.step)

    # --- what violates --------------------------------------------------------------------------------

    def violating(self, atom: Atom) -> I32:
        """Slots of the rows that violate a CFD, ascending."""
        if atom.is_constant:
            marks = self._marks[atom.number][: self.rows.size]
            return np.flatnonzero(marks).astype(np.int32)
        classes = self._classes[atom.number]
        return classes.rows_of(classes.dirty_groups(), self.rows.alive, self.rows.size)

    def standing(self, atom: Atom, ids: Ids) -> Mask:
        """Which rows, by their ids, violate a CFD."""
        slots = self.rows.find(ids.hi, ids.lo)
        here = slots >= 0
        found = np.zeros(ids.size, dtype=np.bool_)
        if atom.is_constant:
            found[here] = self._marks[atom.number][slots[here]] != 0
        else:
            found[here] = self._classes[atom.number].violating(slots[here])
        return found

    def size_bytes(self) -> int:
        """Memory held beside the values of the rows."""
        indexes = sum(classes.size_bytes() for classes in self._classes.values())
        return self.rows.size_bytes() + indexes + sum(marks.nbytes for marks in self._marks.values())

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state (the values are kept apart)."""
        arrays = nested("rows", self.rows.snapshot())
        for number, classes in self._classes.items():
            arrays |= nested(f"classes{number}", classes.snapshot(self.rows.size))
        for number, marks in self._marks.items():
            arrays[f"marks{number}"] = with_slack(marks, min(self.rows.size, marks.size))
        return arrays

    def restore(self, arrays: Snapshot, values: pa.Table) -> None:
        """Take over the arrays of a snapshot and the values that belong to it."""
        self.rows.restore(unnested("rows", arrays), values)
        for number, classes in self._classes.items():
            classes.restore(unnested(f"classes{number}", arrays))
        for number in self._marks:
            self._marks[number] = arrays[f"marks{number}"]


def _kept(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns that are kept, in their types."""
    found = rows.select(schema.names)
    return found if found.schema.equals(schema) else found.cast(schema)
