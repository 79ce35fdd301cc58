"""Packed arrays and columns are what they were once they are read."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from holdstrue.data.distinct import encoded, is_packed, unpacked
from holdstrue.errors import StateError
from holdstrue.state.files import StateFiles
from holdstrue.state.packing import joined, packed

NUMBERS = st.sampled_from([np.int32, np.int64, np.uint8, np.uint64, np.float64]).flatmap(
    lambda kind: arrays_of.arrays(
        kind,
        arrays_of.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=9),
        elements=arrays_of.from_dtype(np.dtype(kind), allow_nan=False),
    )
)


@given(array=NUMBERS)
def test_arrays(array: Any) -> None:
    parts = dict(packed("some.name", array))
    assert all(part.dtype.itemsize <= array.dtype.itemsize for part in parts.values())
    [(name, again)] = joined({name: part.astype(array.dtype) for name, part in parts.items()}).items()
    assert name == "some.name" and again.dtype == array.dtype
    assert np.array_equal(again, array)


def test_arrays_in_a_file(tmp_path: Path) -> None:
    rows = np.arange(600, dtype=np.int32)
    written: dict[str, Any] = {
        "small": np.full(5000, -1, dtype=np.int64),
        "kinds": np.stack((rows % 3, rows + 70_000, rows * 0, rows * 0 - 1), axis=1).astype(np.int32),
        "digests": np.array([2**63 + 5, 1], dtype=np.uint64),
        "flags": np.array([True, False]),
        "rates": np.array([0.1, -0.0]),
        "none": np.empty((0, 4), dtype=np.int32),
    }
    with StateFiles(tmp_path) as files:
        files.lock()
        file = files.write_arrays("arrays", 1, written, packed=True)
        found = files.map_arrays(file)
        assert 2 * file.size < files.write_arrays("arrays", 1, written).size
    assert found.keys() == written.keys()
    for name, array in written.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array), name
    found["small"][7] = 3  # what is read is written to


def test_columns_that_do_not_belong_together(tmp_path: Path) -> None:
    with StateFiles(tmp_path) as files:
        files.lock()
        torn = {"a|0": np.arange(3), "a|1": np.arange(4)}
        with pytest.raises(StateError, match="damaged"):
            files.map_arrays(files.write_arrays("arrays", 1, torn))
        with pytest.raises(StateError, match="not in their order"):
            files.map_arrays(files.write_arrays("arrays", 1, {"a|1": np.arange(3)}))


COLUMNS = {
    "text": pa.array(["Ulm", None, "Bonn", ""] * 50),
    "digest": pa.array([b"0123456789abcdef", b"fedcba9876543210"] * 100, pa.binary(16)),
    "rate": pa.array([0.0, -0.0, float("nan"), None] * 50),
    "day": pa.array([1, 2, 3, None] * 50, pa.date32()),
    "price": pa.array([Decimal("1.25"), Decimal("2.00")] * 100, pa.decimal128(12, 2)),
    "flag": pa.array([True, None] * 100),
    "nothing": pa.nulls(200),
    "different": pa.array(range(200)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(name: str) -> None:
    column = pa.chunked_array([COLUMNS[name].slice(0, 90), COLUMNS[name].slice(90)])
    found = encoded(column)
    assert pa.types.is_dictionary(found.type) == (name not in ("flag", "nothing", "different"))
    table = pa.table({"c": found})
    assert is_packed(table.schema, pa.schema({"c": column.type}))
    again = unpacked(table).column("c")
    assert again.type == column.type
    assert [str(value) for value in again] == [str(value) for value in column], "a zero keeps its sign"
