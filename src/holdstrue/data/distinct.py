"""Columns by their distinct values, as states hold those that repeat, and as they were."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.buffers import arrow_of, decoded, plain
from holdstrue.typing import I32, I64

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


def rows_at(table: pa.Table, places: I32 | I64) -> pa.Table:
    """Rows of a table in the order given; of a column with several dictionaries their values.

    Arrow would make one dictionary of all of these first, however few rows are asked for. Complexity: O(rows taken).

    >>> parts = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c"]).dictionary_encode()]
    >>> rows_at(pa.table({"x": pa.chunked_array(parts), "y": [1, 2, 3]}), np.array([2, 0])).to_pydict()
    {'x': ['c', 'a'], 'y': [3, 1]}
    """
    several = {
        name: column
        for name, column in zip(table.column_names, table.columns, strict=True)
        if column.num_chunks > 1 and pa.types.is_dictionary(column.type)
    }
    others = table.select([name for name in table.column_names if name not in several]).take(arrow_of(places))
    if not several:
        return others
    found = {name: _values_at(several[name], places) if name in several else others.column(name)
             for name in table.column_names}  # fmt: skip
    return pa.table(found)


def _values_at(column: pa.ChunkedArray, places: I32 | I64) -> pa.ChunkedArray:
    """Values of a column with a dictionary a chunk."""
    starts = np.cumsum([0, *map(len, column.chunks)])
    which = np.searchsorted(starts, places, side="right") - 1
    order = np.argsort(which, kind="stable")
    used, first = np.unique(which[order], return_index=True)
    parts = [
        decoded(column.chunk(at).take(arrow_of(places[own] - starts[at])), _laid_out)
        for at, own in zip(used.tolist(), np.split(order, first[1:]), strict=False)  # without places one part is empty
    ]
    values = pa.chunked_array(parts, column.type.value_type)
    if (order[1:] > order[:-1]).all():
        return values
    back = np.empty(order.size, dtype=np.int64)
    back[order] = np.arange(order.size)
    return values.take(arrow_of(back))


def _laid_out(values: pa.Array) -> pa.Array:
    return values if pa.types.is_fixed_size_binary(values.type) else plain(values)
