"""A site's values in as few bytes as hold them: text by its distinct values, whole numbers by their range.

A relation is held once, but its key at every site: the values of 2M rows at ten sites took 752 MB as they came, and
take 204 so. `index/rows.py` gives them back in the types of the schema.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.distinct import encoded, unpacked
from holdstrue.index import rows as index_rows
from holdstrue.shards.memory import trim_heap

_WIDTHS = (pa.int8(), pa.int16(), pa.int32())


def is_text(type_: pa.DataType) -> bool:
    """Whether a column may be held by its distinct values, as Parquet files have text."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def packed(rows: pa.Table) -> pa.Table:
    """The same rows in fewer bytes, each column one chunk. Complexity: O(values).

    >>> rows = pa.table({"id": range(40_000), "city": ["Ulm", "Bonn"] * 20_000})
    >>> packed(rows).schema.types, rows.nbytes > 3 * packed(rows).nbytes
    ([DataType(int32), DictionaryType(dictionary<values=string, indices=int8, ordered=0>)], True)
    """
    if rows.num_rows < index_rows.LARGE_PART:  # small parts are joined, and taken as they are
        return rows
    columns = [_packed(rows.column(name)) for name in rows.column_names]
    return pa.Table.from_arrays(columns, names=rows.column_names)


def _packed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type_ = column.type
    if pa.types.is_int64(type_) or pa.types.is_int32(type_) or pa.types.is_int16(type_):
        column = _narrow(column)
    elif pa.types.is_dictionary(type_):
        column = column.unify_dictionaries()
        chunks = [pa.DictionaryArray.from_arrays(_narrow_array(one.indices), one.dictionary) for one in column.chunks]
        column = pa.chunked_array(chunks)
    elif is_text(type_):
        column = encoded(column)
    return column if column.num_chunks == 1 else pa.chunked_array([column.combine_chunks()])


def _narrow_array(values: pa.Array) -> pa.Array:
    return pa.chunked_array([values]).cast(_width(values)).chunk(0) if len(values) else values


def _narrow(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(_width(column))


def _width(values: pa.Array | pa.ChunkedArray) -> pa.DataType:
    """The shortest type of whole numbers that holds all of some."""
    least, most = (part.as_py() for part in pc.min_max(values).values())
    if least is None:
        return pa.int8()
    own = (width for width in _WIDTHS if width.bit_width < values.type.bit_width)
    return next((w for w in own if -(1 << w.bit_width - 1) <= least and most < 1 << w.bit_width - 1), values.type)


def give_back() -> None:
    """Let the system have what was freed, which the allocators keep: of 2M rows at ten sites 260 MB."""
    pa.default_memory_pool().release_unused()
    trim_heap()


def laid_out(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    """A packed column as one array of its own type."""
    plain = unpacked(pa.table([column], names=["column"])).column(0)
    plain = plain if plain.type == type_ else plain.cast(type_)
    return plain.chunk(0) if plain.num_chunks == 1 else plain.combine_chunks()
