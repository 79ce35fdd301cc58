"""Conditions that enough rows satisfy: values of one column, of two together, and so on, numbered by their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.options import Proportion, most_of
from holdstrue.typing import I32, I64

DENSE = 20
"""Bits up to which there is a table of all keys; beyond that they are looked up by search. Chosen, not tuned."""

MOST_BITS = 62
"""Bits of a key in all: conditions on more values than that are not looked at."""


class NumberedConditions:
    """Frequent conditions of a table, found for a set of columns when it is first asked for.

    Memory: 20 bytes a frequent condition, and up to 4 MB for each set of columns.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from holdstrue.discovery.work import Work
    >>> codes = Codes(pa.schema([("a", pa.string()), ("b", pa.string())]), "unknown")
    >>> codes.append(codes.encode(pa.table({"a": ["x", "x", "x", "y"], "b": ["p", "p", "q", "q"]}), Work(threads=1)))
    >>> conditions = NumberedConditions(codes, codes.members(), {0: [0, 1], 1: [0, 1]}, 2)
    >>> conditions.rows((0,)).tolist(), conditions.rows((0, 1)).tolist(), conditions.values((0, 1), 0)
    ([3], [2], (0, 0))
    >>> conditions.of((0, 1), codes.members()).tolist(), conditions.seen_from((0, 1), (1,)).tolist()
    ([0, 0, -1, -1], [0])
    """

    def __init__(self, codes: Codes, members: I32, constants: Mapping[int, Sequence[int]], least: int) -> None:
        self._codes, self._members, self._least = codes, members, least
        self._places: dict[int, I64] = {}
        """By column the place of each code among those that conditions may name, -1 for others."""
        self._named: dict[int, I64] = {}
        self._found: dict[tuple[int, ...], tuple[I64, I64, I64 | None]] = {}
        self._allowed: dict[tuple[int, ...], I64] = {}
        for column, named in constants.items():
            values = codes.matrix[column][members]
            counts = np.bincount(values[values >= 0], minlength=max(named, default=0) + 1)
            frequent = np.array([code for code in named if counts[code] >= least], dtype=np.int64)
            if frequent.size:
                # one more for codes that are unknown
                places = np.full(len(codes.numberings[column]) + 1, -1, dtype=np.int64)
                places[frequent] = np.arange(frequent.size)
                self._places[column], self._named[column] = places, frequent

    def __contains__(self, column: int) -> bool:
        return column in self._places

    def rows(self, columns: tuple[int, ...]) -> I64:
        """How many rows each frequent condition on these columns has. Complexity: O(rows), once."""
        return self._known(columns)[1]

    def allowed(self, columns: tuple[int, ...], share: Proportion) -> I64:
        """How many rows may be exceptions under each condition."""
        if columns not in self._allowed:
            self._allowed[columns] = most_of(share, self.rows(columns))
        return self._allowed[columns]

    def of(self, columns: tuple[int, ...], rows: I32) -> I64:
        """The number of the condition that each of some rows satisfies, -1 where it is not frequent."""
        keys, _, table = self._known(columns)
        asked = self._keys(columns, rows)
        if table is not None:
            # the last place is for rows without such a key
            return table[asked]
        at = np.minimum(np.searchsorted(keys, asked), max(0, keys.size - 1))
        found: I64 = np.where(keys[at] == asked, at, -1) if keys.size else np.full(asked.size, -1, dtype=np.int64)
        return found

    def values(self, columns: tuple[int, ...], number: int) -> tuple[int, ...]:
        """The codes that a condition names."""
        return tuple(int(self._named[c][at]) for c, at in zip(columns, self._parted(columns, number), strict=True))

    def seen_from(self, columns: tuple[int, ...], part: tuple[int, ...]) -> I64:
        """By condition the number of the one that names a part of its columns; enough rows satisfy that too."""
        keys = self._known(columns)[0]
        shifts = dict(zip(columns, self._shifts(columns), strict=True))
        narrow = np.zeros(keys.size, dtype=np.int64)
        for column, shift in zip(part, self._shifts(part), strict=True):
            narrow |= ((keys >> shifts[column]) & ((1 << self._bits(column)) - 1)) << shift
        found: I64 = np.searchsorted(self._known(part)[0], narrow)
        return found

    def _bits(self, column: int) -> int:
        return max(1, (self._named[column].size - 1).bit_length())

    def _shifts(self, columns: tuple[int, ...]) -> list[int]:
        shifts, at = [], 0
        for column in columns:
            shifts.append(at)
            at += self._bits(column)
        return shifts

    def _parted(self, columns: tuple[int, ...], number: int) -> list[int]:
        key = int(self._known(columns)[0][number])
        shifts = zip(columns, self._shifts(columns), strict=True)
        return [(key >> shift) & ((1 << self._bits(column)) - 1) for column, shift in shifts]

    def _keys(self, columns: tuple[int, ...], rows: I32) -> I64:
        """The values of some rows as one number, -1 where a condition names one of them not."""
        keys, lacks = np.zeros(rows.size, dtype=np.int64), np.zeros(rows.size, dtype=np.bool_)
        for column, shift in zip(columns, self._shifts(columns), strict=True):
            places = self._places[column][self._codes.matrix[column][rows]]
            lacks |= places < 0
            keys |= places << shift
        keys[lacks] = -1
        return keys

    def _known(self, columns: tuple[int, ...]) -> tuple[I64, I64, I64 | None]:
        found = self._found.get(columns)
        if found is None:
            found = self._found[columns] = self._counted(columns)
        return found

    def _counted(self, columns: tuple[int, ...]) -> tuple[I64, I64, I64 | None]:
        """Keys of frequent conditions, ascending, their rows, and by key its place."""
        bits = sum(map(self._bits, columns))
        if bits > MOST_BITS:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), None
        keys = self._keys(columns, self._members)
        keys = keys[keys >= 0]
        if bits > DENSE:
            every, counts = np.unique(keys, return_counts=True)
            frequent = counts >= self._least
            return every[frequent], counts[frequent].astype(np.int64), None
        counts = np.bincount(keys, minlength=1 << bits)
        often = np.flatnonzero(counts >= self._least)
        table = np.full((1 << bits) + 1, -1, dtype=np.int64)
        table[often] = np.arange(often.size)
        return often, counts[often].astype(np.int64), table
