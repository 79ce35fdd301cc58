"""Columns by their distinct values, as states hold those that repeat, and as they were."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.buffers import decoded, plain

SAMPLED = 16_384
"""Values that are looked at to tell whether a column repeats enough to be written by its distinct values."""
BEGUN, SHORT = 1 << 17, 1 << 15
"""Numbers of which the first so many have more distinct ones than two bytes tell are written as they are: to find the
distinct ones among 2M rates took 0.14 CPU s, a third of what writing the shard took, and saved 2.5 of 8 bytes.
"""
_KINDS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_large_string,
          pa.types.is_fixed_size_binary, pa.types.is_decimal128, pa.types.is_decimal256,
          pa.types.is_temporal)  # fmt: skip
"""What Arrow finds the distinct values of; shorter decimals are not among it."""
_BITS = {pa.float16(): pa.uint16(), pa.float32(): pa.uint32(), pa.float64(): pa.uint64()}


def encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column by its distinct values where that takes less room, else as it is. Complexity: O(rows).

    >>> encoded(pa.chunked_array([["Ulm", "Bonn", "Ulm"] * 9])).type
    DictionaryType(dictionary<values=string, indices=int8, ordered=0>)
    """
    if not len(column) or not any(is_kind(column.type) for is_kind in _KINDS):
        return column
    step = max(1, len(column) // SAMPLED)
    sample = column.take(pa.array(np.arange(0, len(column), step)))
    if pc.count_distinct(sample).as_py() > 0.9 * len(sample):
        return column
    if pa.types.is_primitive(column.type) and pc.count_distinct(column.slice(0, BEGUN)).as_py() > SHORT:
        return column
    # zeros with a sign and all that is no number stay what they are: floats are told apart by their bits
    bits = _BITS.get(column.type)
    told = column if bits is None else pa.chunked_array([chunk.view(bits) for chunk in column.chunks])
    found = told.dictionary_encode().unify_dictionaries().combine_chunks()
    chunk = found.chunk(0) if isinstance(found, pa.ChunkedArray) else found
    width = next(
        kind for kind in (pa.int8(), pa.int16(), pa.int32()) if len(chunk.dictionary) < 1 << kind.bit_width - 1
    )
    distinct = chunk.dictionary if bits is None else chunk.dictionary.view(column.type)
    short = pa.DictionaryArray.from_arrays(chunk.indices.cast(width), distinct)
    return pa.chunked_array([short]) if short.nbytes < column.nbytes else column


def is_packed(schema: pa.Schema, wanted: pa.Schema) -> bool:
    """Whether columns are those that are wanted, some of them by their distinct values."""
    types = [type_.value_type if pa.types.is_dictionary(type_) else type_ for type_ in schema.types]
    return schema.names == wanted.names and types == wanted.types


def unpacked(table: pa.Table) -> pa.Table:
    """Rows with their values in the place of numbers of distinct ones."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field.name, decoded(table.column(at), _laid_out))
    return table


def _laid_out(values: pa.Array) -> pa.Array:
    return values if pa.types.is_fixed_size_binary(values.type) else plain(values)
