"""A table as dense codes: rows with equal values in a column have equal numbers 0, 1, 2, ... there.

Memory: 4 bytes a value and 9 bytes a row, and for every distinct value of a column 27 to 37 bytes
of its numbering (`index.arrays`).
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from holdstrue.data.coding import Coded, domain_of, encode
from holdstrue.data.seed import PROCESS, Seed
from holdstrue.discovery.options import Nulls
from holdstrue.discovery.work import Work
from holdstrue.errors import ChangeError, DataError
from holdstrue.index.arrays import Numbering, Snapshot, all_true, nested, room, with_slack
from holdstrue.index.checked import Checked
from holdstrue.kernels import bounds
from holdstrue.typing import I32, I64, U64, Mask

MOST_ROWS = 2**31 - 2


class Codes:
    """The codes of a growing and shrinking table.

    A row has a slot, its number in order of arrival, which is never used again, and a position in the
    arrays, which changes when the places of removed rows are given up. Unknown values have code -1;
    with `nulls="equal"` NULL is a value like others.

    Examples
    --------
    >>> codes = Codes(pa.schema([("a", pa.string())]), "unknown")
    >>> codes.append(codes.encode(pa.table({"a": ["x", None, "x", "y"]}), Work(threads=1)))
    >>> codes.matrix[:, :4].tolist(), codes.members().tolist()
    ([[0, -1, 0, 1]], [0, 1, 2, 3])
    """

    def __init__(self, schema: pa.Schema, nulls: Nulls, seed: Seed = PROCESS) -> None:
        repeated = [name for name, times in Counter(schema.names).items() if times > 1]
        if repeated:
            raise DataError(f"several columns are called {repeated[0]!r}", hint="rename all but one of them")
        self.domains = {field.name: domain_of([field.type], ordered=False, seed=seed) for field in schema}
        self.names = tuple(name for name, domain in self.domains.items() if domain is not None)
        self.skipped = tuple(name for name, domain in self.domains.items() if domain is None)
        self.nulls = nulls
        self.seed = seed
        self.numberings = [Numbering() for _ in self.names]
        """By column the codes that it has had."""
        self.matrix: I32 = np.empty((len(self.names), 0), dtype=np.int32)
        self.alive = np.empty(0, dtype=np.bool_)
        self.slots = np.empty(0, dtype=np.int64)
        self.used = 0
        self.next_slot = 0

    def encode(self, table: pa.Table, work: Work) -> I32:
        """The codes of further rows, which are not in the table yet, column by column. Complexity: O(values)."""
        # looking names up in a table takes as long as it has columns
        columns = dict(zip(table.column_names, table.columns, strict=True))
        for name in self.names:
            if name not in columns:
                raise ChangeError(f"the added rows have no column {name!r}", hint="give every column of the table")
            if domain_of([columns[name].type], ordered=False, seed=self.seed) != self.domains[name]:
                raise ChangeError(
                    f"column {name!r} holds {columns[name].type} values here, others in the table",
                    hint="cast the column to the type it has in the table",
                )
        if self.used + table.num_rows > MOST_ROWS:
            raise DataError(f"there are more than {MOST_ROWS:,} rows", hint="discover rules in a part of them")
        codes = np.empty((len(self.names), table.num_rows), dtype=np.int32)

        def one(number: int) -> None:
            name = self.names[number]
            domain = self.domains[name]
            assert domain is not None
            coded = encode(columns[name], domain, name=name)
            codes[number] = self.numberings[number].assign(*_words(coded, nulls_equal=self.nulls == "equal"))

        work.each(one, range(len(self.names)))
        return codes

    def append(self, codes: I32) -> None:
        """Add rows, given by their codes, at the end. Complexity: O(values)."""
        start, end = self.used, self.used + codes.shape[1]
        self.matrix = room(self.matrix, end, axis=1)
        self.alive = room(self.alive, end)
        self.slots = room(self.slots, end)
        self.matrix[:, start:end] = codes
        self.alive[start:end] = True
        self.slots[start:end] = np.arange(self.next_slot, self.next_slot + end - start)
        self.used, self.next_slot = end, self.next_slot + end - start

    def lay_out(self, codes: I32) -> I32:
        """Put rows that are not in the table behind its last one, until rows are added; returns their positions."""
        end = self.used + codes.shape[1]
        self.matrix = room(self.matrix, end, axis=1)
        self.matrix[:, self.used : end] = codes
        return np.arange(self.used, end, dtype=np.int32)

    def places(self, slots: I64) -> I64:
        """The positions of rows by slot. Complexity: O(slots log rows)."""
        places = np.searchsorted(self.slots[: self.used], slots)
        known = places < self.used
        known[known] = (self.slots[places[known]] == slots[known]) & self.alive[places[known]]
        if not known.all():
            raise ChangeError(f"there is no row {slots[~known][0]} to remove", hint="remove each row once")
        if np.unique(slots).size < slots.size:
            raise ChangeError("a row is removed twice in one batch", hint="remove each row once")
        return places

    def remove(self, places: I64) -> None:
        """Take rows out by position."""
        self.alive[places] = False

    def members(self) -> I32:
        """Positions of the rows that are in the table, ascending."""
        return np.flatnonzero(self.alive[: self.used]).astype(np.int32)

    @property
    def rows(self) -> int:
        """How many rows are in the table."""
        return int(np.count_nonzero(self.alive[: self.used]))

    def known_rows(self, columns: list[int]) -> int:
        """How many rows have a value in all of some columns. Complexity: O(rows * columns)."""
        known = self.alive[: self.used].copy()
        for column in columns:
            known &= self.matrix[column, : self.used] >= 0
        return int(np.count_nonzero(known)) if columns else 0

    def compact(self) -> I32 | None:
        """Give up the places of removed rows when they are the most; the new position of each old one, else None."""
        members = self.members()
        if self.used < 1024 or members.size * 2 > self.used:
            return None
        moved = np.full(self.used, -1, dtype=np.int32)
        moved[members] = np.arange(members.size, dtype=np.int32)
        self.matrix = np.ascontiguousarray(self.matrix[:, members])
        self.slots = self.slots[members]
        self.alive = np.ones(members.size, dtype=np.bool_)
        self.used = members.size
        return moved

    def size_bytes(self) -> int:
        """Memory held."""
        numberings = sum(numbering.size_bytes() for numbering in self.numberings)
        return self.matrix.nbytes + self.alive.nbytes + self.slots.nbytes + numberings

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        arrays: Snapshot = {
            "matrix": with_slack(self.matrix, self.used, axis=1),
            "alive": with_slack(self.alive, self.used),
            "slots": with_slack(self.slots, self.used),
            "counts": np.array([self.used, self.next_slot], dtype=np.int64),
        }
        for number, numbering in enumerate(self.numberings):
            arrays |= nested(f"numbering{number}", numbering.snapshot())
        return arrays

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot (they will be written to). Complexity: O(values)."""
        self.used, self.next_slot = arrays.few("counts", 0, 2**62, 2)
        self.matrix = arrays.array("matrix", np.int32, (len(self.names), self.used), grows=1)
        self.alive = arrays.array("alive", np.bool_, (self.used,), grows=0)
        self.slots = arrays.index("slots", 0, self.next_slot - 1, self.used, dtype=np.int64)
        arrays.require(bounds.unsorted(self.slots[: self.used], True) < 0, "its slots do not ascend")
        for number, numbering in enumerate(self.numberings):
            numbering.restore(arrays.part(f"numbering{number}"))
            arrays.within("matrix", self.matrix[number, : self.used], -1, len(numbering) - 1)


def _words(coded: Coded, *, nulls_equal: bool) -> tuple[U64, U64, Mask]:
    """Two words for each value, and which values get a number."""
    lower = coded.codes.view(np.uint64)
    upper = np.zeros(lower.size, dtype=np.uint64) if coded.upper is None else coded.upper
    if coded.valid is None:
        return upper, lower, all_true(lower.size)
    if not nulls_equal:
        return upper, lower, coded.valid
    null = coded.seed.null
    return np.where(coded.valid, upper, null[0]), np.where(coded.valid, lower, null[1]), all_true(lower.size)
