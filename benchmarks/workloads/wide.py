"""Many tables of twelve columns with values in common, for inclusions by the number of attributes and of values.

Of four columns one draws from many numbers, one from fifty, one from many strings and one from fractions: most
values are in one column, some in a quarter of all.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

COLUMNS = 12
FILLING = 5.4
"""Rows over distinct values of a base: half of the columns draw from twice as many values as the base shall have."""


def table_count(attributes: int) -> int:
    """Tables that have so many columns together."""
    return max(1, attributes // COLUMNS)


def wide(rows: int, attributes: int, values: int, seed: int) -> dict[str, pa.Table]:
    """Tables of `rows` rows that draw from `values` numbers and as many strings."""
    rng = np.random.default_rng(seed)
    return {f"t{i}": wide_table(rng, rows, i, values) for i in range(table_count(attributes))}


def wide_table(rng: np.random.Generator, rows: int, number: int, values: int) -> pa.Table:
    """One of the tables."""
    columns: dict[str, object] = {}
    for c in range(COLUMNS):
        name = f"t{number}c{c}"
        match (number * COLUMNS + c) % 4:
            case 0:
                columns[name] = rng.integers(0, values, rows)
            case 1:
                columns[name] = rng.integers(0, 50, rows)
            case 2:
                digits = pa.array(rng.integers(0, values, rows)).cast(pa.string())
                columns[name] = pc.binary_join_element_wise("n", digits, "")
            case _:
                columns[name] = rng.integers(0, 100_000, rows) / 100
    return pa.table(columns)


def rows_for(distinct: int, attributes: int) -> int:
    """Rows of each table so that the base has about so many distinct values."""
    return int(distinct / FILLING / table_count(attributes)) + 1
