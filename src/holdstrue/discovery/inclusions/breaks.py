"""What breaks an inclusion: the values of its left side that the right side lacks, and the rows that have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdstrue.data.seed import PROCESS
from holdstrue.discovery.inclusions.attributes import Attribute, Contents
from holdstrue.discovery.inclusions.contents import Compare
from holdstrue.index.arrays import Numbering
from holdstrue.rules.model import Inclusion
from holdstrue.typing import I64


@dataclass(frozen=True)
class Breaks:
    """The values that are missing on the right, most frequent first, with their rows counted; and rows that have them.

    `values` has the left side's columns and `rows`, the number of rows; `slots` are positions of rows in the table
    as given. Both end at the limit; `missing` and `rows` count all of them, `distinct` and `known` all values on the
    left and the rows that have one.
    """

    values: pa.Table
    slots: I64
    missing: int
    rows: int
    distinct: int
    known: int


class BreakFinder:
    """Finds what breaks inclusions between some tables; columns are digested once, as they are first needed.

    Memory: 16 bytes a value of the columns that were looked at, and twice that for those on a right side.
    """

    def __init__(self, tables: Callable[[str], pa.Table], compare: Compare) -> None:
        self._load = tables
        self._compare: Compare = compare
        self._tables: dict[str, tuple[pa.Table, Contents]] = {}
        self._provided: dict[Attribute, Numbering] = {}

    def breaks(self, body: Inclusion, limit: int | None) -> Breaks:
        """The values and rows that break an inclusion. Complexity: O(rows of both tables)."""
        table, contents = self._table(str(body.table))
        left, provided = contents.of(body.columns), self._values(Attribute(body.ref_table, body.ref_columns))
        known = left.mask()
        slots = np.flatnonzero(known & (provided.find(left.hi, left.lo, known) < 0))
        everything = Numbering()
        everything.assign(left.hi, left.lo, known)
        numbers, origin = Numbering().assign_new(left.hi[slots], left.lo[slots], np.ones(slots.size, dtype=np.bool_))
        counts = np.bincount(numbers, minlength=origin.size)
        order = np.argsort(-counts, kind="stable")[:limit]
        values = table.select(list(dict.fromkeys(body.columns))).take(slots[origin[order]])
        listed = values.append_column("rows", pa.array(counts[order].astype(np.int64)))
        return Breaks(listed, slots[:limit], origin.size, slots.size, len(everything), int(known.sum()))

    def _table(self, name: str) -> tuple[pa.Table, Contents]:
        if name not in self._tables:
            table = self._load(name)
            self._tables[name] = table, Contents(table, self._compare, PROCESS)
        return self._tables[name]

    def _values(self, attribute: Attribute) -> Numbering:
        if attribute not in self._provided:
            right = self._table(attribute.table)[1].of(attribute.columns)
            self._provided[attribute] = Numbering()
            self._provided[attribute].assign(right.hi, right.lo, right.mask())
        return self._provided[attribute]


def breaks(
    body: Inclusion, tables: Mapping[str, pa.Table], *, compare: Compare = "types", limit: int | None = 1000
) -> Breaks:
    """The values and rows that break an inclusion. Complexity: O(rows of both tables).

    Examples
    --------
    >>> tables = {"t": pa.table({"a": [1, 5, 5, None]}), "s": pa.table({"b": [1, 2]})}
    >>> found = breaks(Inclusion("t", ("a",), "s", ("b",)), tables)
    >>> found.values.to_pylist(), found.slots.tolist(), found.missing, found.rows, found.distinct
    ([{'a': 5, 'rows': 2}], [1, 2], 1, 2, 2)
    """
    return BreakFinder(tables.__getitem__, compare).breaks(body, limit)
