"""Row versions of one table by slot: which live, their key, their values, and the codes rules compare.

A slot is never reused: an update removes the old version and appends the new one, so that a batch
can still look at the versions it removed. Memory: the needed columns as Arrow, 5 bytes a row, 8 a
row and code column, and the key's numbering (31 to 41 bytes a row).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.buffers import arrow_of, arrow_values, python_value, python_values
from holdstrue.data.distinct import rows_at, unpacked
from holdstrue.index.arrays import MOST_SLOTS, SLACK, Numbering, Snapshot, all_true, nested, room, with_slack
from holdstrue.index.checked import Checked
from holdstrue.kernels import bounds
from holdstrue.typing import I32, I64, U64, Mask

MOST_PARTS = 64
"""Small parts are joined beyond this many, so that reading rows stays cheap after many small batches."""
LARGE_PART = 1 << 15
"""Rows from which on a part is joined with no other: a batch waits 10 ms for as many, and 300 for a million."""

RESERVED = 2.25
"""How much room codes get, the largest arrays: rows are compacted when there are twice as many as live."""
MOST_WAITING = 1024
"""Rows that came one by one and wait as Python values: as Arrow each would take 10 us, so many together 1 each."""
ONE_BY_ONE = 64
"""Up to this many rows are read one by one: naming six pairs took 114 us so, 229 us vectorised."""


class Rows:
    """The versions of a table's rows.

    Parameters
    ----------
    schema
        The columns that are kept: the key and what the rules read.
    keyed
        Whether rows are found by key; without it rows are only appended.
    code_columns
        How many columns of codes are kept by slot.

    Examples
    --------
    An update of the row with key 1: its old version goes, the new one gets the next slot.

    >>> rows = Rows(pa.schema([("id", pa.int64())]), keyed=True)
    >>> word = lambda *keys: (np.zeros(len(keys), np.uint64), np.array(keys, np.uint64))
    >>> rows.append(pa.table({"id": [1, 2]}), word(1, 2), []).tolist()
    [0, 1]
    >>> rows.remove(np.array([0], dtype=np.int32), word(1))
    >>> rows.append(pa.table({"id": [1]}), word(1), []).tolist(), rows.find(*word(1, 2, 3)).tolist(), rows.living
    ([2], [2, 1, -1], 2)
    """

    def __init__(self, schema: pa.Schema, *, keyed: bool, code_columns: int = 0) -> None:
        self.schema = schema
        self.size = 0
        self.living = 0
        self._keyed = keyed
        self._numbers = Numbering()
        self._current = np.full(64, -1, dtype=np.int32)
        self.alive = np.zeros(64, dtype=np.uint8)
        """By slot: 1 for living row versions, 0 for removed ones."""
        self.codes = np.zeros((code_columns, 64), dtype=np.int64)
        """`codes[column, slot]`."""
        self.twin = np.empty(64, dtype=np.int32)
        """Scratch by slot: the other version of a row that the batch at hand updates."""
        self._parts: list[pa.Table] = []
        self._starts: list[int] = []
        self._small = 0
        """How many parts there are after the last large one."""
        self.origin: I32 | None = None
        """By slot the number of a row in what was read, where only some rows are held."""
        self.whole: int | None = None
        """How many rows the table has in all, in that case."""
        self._short = False
        """Whether a part holds whole numbers in fewer bytes than the schema says."""
        self._waiting: list[Sequence[Any]] = []
        """The last rows, as far as they came one by one and nobody asked for them as Arrow."""

    @property
    def there(self) -> int:
        """How many rows the table has, held or not."""
        return self.living if self.whole is None else self.whole

    def find(self, hi: U64, lo: U64) -> I32:
        """Slots of the living rows with these keys, -1 where there is none. Complexity: O(keys) expected."""
        return self.current(self.numbers(hi, lo))

    def numbers(self, hi: U64, lo: U64) -> I32:
        """The numbers of keys, which stay theirs; -1 for unknown ones. Complexity: O(keys) expected."""
        return self._numbers.find(hi, lo, all_true(hi.size))

    def current(self, numbers: I32) -> I32:
        """Slots of the living rows whose keys have these numbers, -1 where there is none. Complexity: O(keys)."""
        # an unknown key has number -1, and the last place of the array answers for it
        slots: I32 = self._current[numbers]
        slots[numbers < 0] = -1
        return slots

    def append(
        self,
        values: pa.Table,
        keys: tuple[U64, U64] | None,
        codes: Sequence[I64],
        stays: Mask | None = None,
        numbers: I32 | None = None,
    ) -> I32:
        """Add rows at the end; returns the slots of those that stay, to which `keys` and `codes` belong.

        Where it is known which of the keys have numbers, `numbers` tells them. Complexity: O(rows) amortised.
        """
        first, end = self.size, self.size + values.num_rows
        self.alive = room(self.alive, end, fill=0)
        self.twin = room(self.twin, end)
        self.codes = room(self.codes, end, axis=1, times=RESERVED)
        slots = np.arange(first, end, dtype=np.int32)
        if stays is None:
            self.alive[first:end] = 1
            for column, added in enumerate(codes):
                self.codes[column, first:end] = added
        else:
            slots = slots[stays]
            self.alive[first:end] = stays
            self.codes[:, first:end] = 0
            for column, added in enumerate(codes):
                self.codes[column, slots] = added
        if keys is not None and self._keyed:
            numbers = self._numbered(keys, numbers)
            self._current = room(self._current, len(self._numbers), fill=-1)
            self._current[numbers] = slots
        self._gather()
        self._add_part(values, first)
        self.size = end
        self.living += slots.size
        return slots

    def _numbered(self, keys: tuple[U64, U64], known: I32 | None) -> I32:
        """The numbers of keys, new ones for those that have none."""
        unknown = None if known is None else known < 0
        if known is None or unknown is None or unknown.all():
            return self._numbers.assign(*keys, all_true(keys[0].size))
        if unknown.any():
            known = known.copy()
            known[unknown] = self._numbers.assign(keys[0][unknown], keys[1][unknown], all_true(int(unknown.sum())))
        return known

    def hold(self, values: pa.Table, origin: I32 | None = None, whole: int | None = None) -> None:
        """Take in the rows of a table that is empty and will not change, whose rows are found by slot alone.

        Where these are some of `whole` rows, `origin` are their numbers among all.
        """
        self.size = self.living = values.num_rows
        self.origin, self.whole = origin, whole
        self.alive = np.ones(max(self.size, 1), dtype=np.uint8)
        self.twin = np.empty(self.alive.size, dtype=np.int32)
        self._add_part(values, 0)

    def code(self, codes: Sequence[I64]) -> None:
        """Give all rows their codes, a column each."""
        self.codes = np.zeros((len(codes), self.alive.size), dtype=np.int64)
        for column, added in enumerate(codes):
            self.codes[column, : self.size] = added

    def _add_part(self, values: pa.Table, first: int) -> None:
        if values.num_rows:
            self._parts.append(values)
            self._starts.append(first)
            self._small = self._small + 1 if values.num_rows < LARGE_PART else 0
            # only what is large is held in fewer bytes, and small batches need not be asked
            self._short |= values.num_rows >= LARGE_PART and values.schema.types != self.schema.types
            if self._small > MOST_PARTS:
                self._join_parts()

    def reserve(self) -> None:
        """Make room for one more row."""
        end = self.size + 1
        self.alive = room(self.alive, end, fill=0)
        self.twin = room(self.twin, end)
        self.codes = room(self.codes, end, axis=1, times=RESERVED)
        self._numbers.reserve(1)
        self._current = room(self._current, len(self._numbers) + 1, fill=-1)

    @property
    def by_key(self) -> tuple[Numbering, I32]:
        """The numbers of keys, and by number the slot of the living row."""
        return self._numbers, self._current

    def take_over(self, values: Sequence[Any]) -> None:
        """Keep the values of a row that is in already but for these, in the order of the schema."""
        self._waiting.append(values)
        self.size += 1
        self.living += 1
        if len(self._waiting) == MOST_WAITING:
            self._gather()

    def retract(self) -> None:
        """Forget the last row, which lives no longer, so that the next one gets its slot."""
        if self._waiting:
            self._waiting.pop()
        else:
            last = self._parts[-1]
            self._parts[-1] = last.slice(0, last.num_rows - 1)
        self.size -= 1

    def number(self, slots: I32, keys: tuple[U64, U64]) -> bool:
        """Number the keys of all living rows, which a snapshot left out; False where two rows share one.

        Complexity: O(rows) expected.
        """
        self._numbers = Numbering()
        self._current = np.full(max(64, slots.size + slots.size // SLACK), -1, dtype=np.int32)
        self._current[self._numbers.assign(*keys, all_true(slots.size))] = slots
        return len(self._numbers) == slots.size

    def _gather(self) -> None:
        """Bring rows that came one by one to Arrow."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._add_part(table_of(waiting, self.schema), self.size - len(waiting))

    def remove(self, slots: I32, keys: tuple[U64, U64] | None) -> None:
        """End the life of rows; `keys` are theirs. Complexity: O(rows)."""
        self.discard(slots, None if keys is None else self.numbers(*keys))

    def discard(self, slots: I32, numbers: I32 | None) -> None:
        """End the life of rows whose keys have these numbers. Complexity: O(rows)."""
        self.alive[slots] = 0
        self.living -= slots.size
        if numbers is not None:
            self._current[numbers] = -1

    def _join_parts(self) -> None:
        """Join the small parts at the end, as far as they are not larger than all after them."""
        at, size = len(self._parts) - 1, self._parts[-1].num_rows
        first_small = len(self._parts) - self._small
        while at > first_small and self._parts[at - 1].num_rows <= 2 * size:
            at -= 1
            size += self._parts[at].num_rows
        self._parts[at:] = [pa.concat_tables(self._parts[at:]).combine_chunks()]
        del self._starts[at + 1 :]
        self._small = 0 if size >= LARGE_PART else at + 1 - first_small

    def take(self, slots: NDArray[np.integer], columns: Sequence[str] | None = None) -> pa.Table:
        """Values of row versions, living or not, in the order given. Complexity: O(rows taken)."""
        self._gather()
        names = list(self.schema.names if columns is None else columns)
        if not slots.size:
            return pa.Table.from_batches([], schema=pa.schema([self.schema.field(name) for name in names]))
        part = np.searchsorted(np.array(self._starts), slots, side="right") - 1
        used = np.unique(part)
        taken = [
            self._declared(rows_at(self._parts[p].select(names), slots[part == p] - self._starts[p])) for p in used
        ]
        if len(used) == 1:
            return taken[0]
        place = np.argsort(np.concatenate([np.flatnonzero(part == p) for p in used]), kind="stable")
        return pa.concat_tables(taken).take(arrow_of(place))

    def values_of(self, slots: NDArray[np.integer], column: str) -> list[Any]:
        """One column of row versions as Python values. Complexity: O(rows)."""
        if slots.size > ONE_BY_ONE:
            return python_values(self.take(slots, [column]).column(0))
        at = self.schema.get_field_index(column)
        found = []
        arrays: dict[int, Any] = {}
        first = self.size - len(self._waiting)
        for slot in slots.tolist():
            if slot >= first:
                found.append(self._waiting[slot - first][at])
                continue
            part = bisect_right(self._starts, slot) - 1
            own = arrays.get(part)
            if own is None:
                whole = self._parts[part].column(at)
                # one array gives a value in a third of the time
                own = arrays[part] = whole.chunk(0) if whole.num_chunks == 1 else whole
            found.append(python_value(own[slot - self._starts[part]]))
        return found

    def living_slots(self) -> I32:
        """Slots of all living rows, ascending. Complexity: O(slots)."""
        return np.flatnonzero(self.alive[: self.size]).astype(np.int32)

    def values(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All row versions by slot, or some columns of them, as one table."""
        self._gather()
        names = list(self.schema.names if columns is None else columns)
        if not self._parts:
            return pa.Table.from_batches([], schema=pa.schema([self.schema.field(name) for name in names]))
        return pa.concat_tables([self._declared(part.select(names)) for part in self._parts])

    def _declared(self, rows: pa.Table) -> pa.Table:
        """Values of a part in the types of the schema."""
        found = unpacked(rows)
        if not self._short:
            return found
        return found.cast(pa.schema([self.schema.field(name) for name in found.column_names]))

    def value_bytes(self) -> int:
        """What the values take, in memory or as mapped files."""
        return sum(part.nbytes for part in self._parts)

    def size_bytes(self) -> int:
        """Memory held beside the values themselves."""
        arrays = (self._current, self.alive, self.codes[:, : self.size], self.twin)
        return self._numbers.size_bytes() + sum(array.nbytes for array in arrays)

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state (the values are kept apart)."""
        arrays: Snapshot = nested("numbers", self._numbers.snapshot())
        return arrays | {
            "current": with_slack(self._current, len(self._numbers), fill=-1),
            "alive": with_slack(self.alive, self.size),
            "codes": with_slack(self.codes, self.size, axis=1),
            "counts": np.array([self.size, self.living], dtype=np.int64),
        }

    def restore(self, arrays: Checked, values: pa.Table) -> None:
        """Take over the arrays of a snapshot and the values that belong to it. Complexity: O(slots)."""
        if "current" in arrays:
            self._numbers.restore(arrays.part("numbers"))
        size, living = arrays.few("counts", 0, MOST_SLOTS, 2)
        arrays.require(size == values.num_rows, f"{size} rows, and the values of {values.num_rows}")
        self.alive = arrays.index("alive", 0, 1, size, dtype=np.uint8)
        self.codes = arrays.array("codes", np.int64, (self.codes.shape[0], size), grows=1)
        arrays.require(np.count_nonzero(self.alive[:size]) == living, f"not {living} of its rows are alive")
        if "current" in arrays:
            # an unknown key is looked up at the last place, so that there must be one
            keys = len(self._numbers)
            self._current = arrays.index("current", -1, size - 1, max(keys, 1), fill=-1)
            known = bounds.placed(self._current[:keys], self.alive)
            arrays.require(known == (living if self._keyed else 0), f"its keys are not those of {living} living rows")
        self.size, self.living = size, living
        self.twin = np.empty(self.alive.size, dtype=np.int32)
        self._parts, self._starts, self._small, self._short = ([values], [0], 0, False) if size else ([], [], 0, False)
        self._waiting = []


def table_of(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Rows as Arrow, of values that are known to have the types of their columns.

    >>> table_of([(1, "a"), (2, None)], pa.schema({"id": pa.int64(), "name": pa.string()})).to_pydict()
    {'id': [1, 2], 'name': ['a', None]}
    """
    columns = [arrow_values(values, type_) for values, type_ in zip(zip(*rows, strict=True), schema.types, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)
