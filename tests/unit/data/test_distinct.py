"""Columns by their distinct values are what they were, whatever their type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.data.distinct import encoded, rows_at, unpacked


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.decimal32(5, 2), Decimal("1.50")), (pa.decimal64(12, 2), Decimal("1.50")),
        (pa.decimal128(20, 2), Decimal("1.50")), (pa.decimal256(50, 2), Decimal("1.50")), (pa.float16(), 0.5),
        (pa.float64(), -0.0), (pa.uint64(), 2**64 - 1), (pa.bool_(), True), (pa.string(), "Ulm"),
        (pa.large_string(), "Ulm"), (pa.binary(), b"Ulm"), (pa.binary(3), b"Ulm"), (pa.timestamp("ns", "UTC"), 7),
        (pa.time64("ns"), 7), (pa.duration("ms"), 7), (pa.date64(), 0), (pa.null(), None),
    ],
    ids=str,
)  # fmt: skip
def test_every_type(type_: pa.DataType, value: Any) -> None:
    column = pa.chunked_array([pa.array([value, None] * 20, type_), pa.array([value], type_)])
    table = pa.table({"a": encoded(column)})
    assert unpacked(table).column("a").cast(type_).equals(column)


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_several_dictionaries(seed: int) -> None:
    """They are what Arrow takes, with NULLs as values and as indices, in any order and repeated."""
    rng = np.random.default_rng(seed)
    chunks = []
    for size in rng.integers(0, 9, 5).tolist():
        values = pa.array([*(f"{seed}-{v}" for v in rng.integers(0, 9, 4)), None], pa.string())
        chunks.append(pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 5, size), pa.int32(),
                                                              mask=rng.random(size) < 0.2), values))  # fmt: skip
    coded = pa.chunked_array(chunks)
    table = pa.table({"a": coded, "n": np.arange(len(coded)), "b": coded.cast(pa.string())})
    for places in (rng.integers(0, len(coded), 12), np.arange(len(coded)), np.empty(0, dtype=np.int64)):
        found = rows_at(table, places)
        assert found.column_names == table.column_names
        assert found["a"].to_pylist() == found["b"].to_pylist() == table["b"].take(pa.array(places)).to_pylist()
        assert found["n"].to_pylist() == places.tolist()
