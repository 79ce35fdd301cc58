"""Columns by their distinct values are what they were, whatever their type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdstrue.data.distinct import encoded, unpacked


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
