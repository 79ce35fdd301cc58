"""What breaks a near-inclusion: the values of its left side that the right side lacks, and the rows that have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.seed import PROCESS
from holdstrue.discovery.inclusions.attributes import Contents
from holdstrue.discovery.inclusions.contents import Compare
from holdstrue.index.numbering import Numbering
from holdstrue.rules.model import Inclusion

I64 = NDArray[np.int64]


@dataclass(frozen=True)
class Breaks:
    """The values that are missing on the right, most frequent first, with their rows counted; and rows that have them.

    `values` has the left side's columns and `rows`, the number of rows; `slots` are positions of rows in the table
    as given. Both end at the limit; `missing` and `rows` count all of them.
    """

    values: pa.Table
    slots: I64
    missing: int
    rows: int


def breaks(
    body: Inclusion, tables: Mapping[str, pa.Table], *, compare: Compare = "types", limit: int | None = 1000
) -> Breaks:
    """The values and rows that break an inclusion. Complexity: O(rows of both tables).

    Examples
    --------
    >>> tables = {"t": pa.table({"a": [1, 5, 5, None]}), "s": pa.table({"b": [1, 2]})}
    >>> found = breaks(Inclusion("t", ("a",), "s", ("b",)), tables)
    >>> found.values.to_pylist(), found.slots.tolist(), found.missing, found.rows
    ([{'a': 5, 'rows': 2}], [1, 2], 1, 2)
    """
    table = tables[str(body.table)]
    right = Contents(tables[body.ref_table], compare, PROCESS).of(body.ref_columns)
    left = Contents(table, compare, PROCESS).of(body.columns)
    provided = Numbering()
    provided.assign(right.hi, right.lo, right.mask())
    slots = np.flatnonzero(left.mask() & (provided.find(left.hi, left.lo, left.mask()) < 0))
    numbers, origin = Numbering().assign_new(left.hi[slots], left.lo[slots], np.ones(slots.size, dtype=np.bool_))
    counts = np.bincount(numbers, minlength=origin.size)
    order = np.argsort(-counts, kind="stable")[:limit]
    values = table.select(list(dict.fromkeys(body.columns))).take(slots[origin[order]])
    listed = values.append_column("rows", pa.array(counts[order].astype(np.int64)))
    return Breaks(listed, slots[:limit], origin.size, slots.size)
