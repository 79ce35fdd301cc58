"""Number rows so that equal keys have equal numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.typing import I64


def number_rows(columns: Sequence[Any]) -> I64:
    """A number per row, below about twice their count, equal exactly where all columns are equal.

    NULL equals NULL here, and NaN equals NaN.

    Runtime complexity: O(rows x columns), and O(rows log rows) where several columns have many values.

    >>> number_rows([pa.chunked_array([[1, 1, 2, 1]]), pa.chunked_array([["a", "b", "a", "a"]])]).tolist()
    [0, 1, 2, 0]
    """
    numbers, width = _number_values(columns[0])
    for column in columns[1:]:
        more, values = _number_values(column)
        numbers, width = numbers * values + more, width * values
        if width > 2 * len(numbers):
            distinct, numbers = np.unique(numbers, return_inverse=True)
            numbers, width = numbers.astype(np.int64), len(distinct)
    return numbers


def _number_values(column: Any) -> tuple[I64, int]:
    if pa.types.is_float16(column.type):  # Arrow does not compute with these and small decimals
        column = pc.cast(column, pa.float32())
    elif pa.types.is_decimal32(column.type) or pa.types.is_decimal64(column.type):
        column = pc.cast(column, pa.decimal128(column.type.precision, column.type.scale))
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 is 0.0
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # what an empty column combines to in some versions
        return np.zeros(len(column), np.int64), 1
    return encoded.indices.to_numpy().astype(np.int64), max(1, len(encoded.dictionary))
