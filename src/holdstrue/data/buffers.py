"""Arrow arrays as numpy arrays and back, straight from their buffers.

Arrow's own `to_numpy` and `array` import pandas wherever that is installed, which costs a command a quarter of a
second; of few values they take three times as long.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdstrue.typing import Mask

Array = TypeVar("Array", bound=NDArray[Any])

SMALL = 4096
"""Below this many values memory is copied instead of lent. Chosen, not tuned."""


def plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one contiguous array of a plain type: no dictionary, no runs, no views.

    Examples
    --------
    >>> plain(pa.chunked_array([["a"], ["b", "a"]]).dictionary_encode()).type
    DataType(string)
    """
    types = pa.types
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    if types.is_dictionary(column.type):
        column = decoded(column)
    if types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if types.is_binary_view(column.type) or types.is_fixed_size_binary(column.type):
        column = column.cast(pa.large_binary())
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        if types.is_string(column.type) and column.nbytes >= 2**31:
            column = column.cast(pa.large_string())
        return column.combine_chunks() if column.num_chunks else pa.array([], type=column.type)
    return column


def decoded(column: pa.ChunkedArray | pa.Array, laid_out: Callable[[Any], Any] = plain) -> Any:
    """A dictionary-encoded column by its values, laid out plainly (Arrow's cast does not know all value types)."""
    if isinstance(column, pa.Array):
        return laid_out(column.dictionary).take(column.indices)
    chunks = [decoded(chunk, laid_out) for chunk in column.chunks]
    return pa.chunked_array(chunks or [laid_out(pa.array([], column.type.value_type))])


def lend(view: Array) -> Array:
    """The same memory marked writable: a kernel compiled once serves all arrays, and none here is written."""
    if view.flags.writeable:
        return view
    if view.size < SMALL:
        return view.copy()
    interface = dict(view.__array_interface__)
    interface["data"] = (interface["data"][0], False)
    return np.asarray(_Memory(interface, view))  # type: ignore[return-value]


class _Memory:
    """Lends out memory through the array interface and keeps its owner alive."""

    def __init__(self, interface: dict[str, object], owner: object) -> None:
        self.__array_interface__ = interface
        self._owner = owner


def numbers(array: pa.Array, dtype: Any) -> NDArray[Any]:
    """The values of a primitive array of this width; what stands for NULL is undefined. Nothing is copied.

    Examples
    --------
    >>> numbers(pa.array([1, 2, 3])[1:], np.int64).tolist()
    [2, 3]
    """
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype)[array.offset : array.offset + len(array)]


def arrow_of(values: NDArray[Any]) -> pa.Array:
    """Numbers as an Arrow array without NULLs, in the same memory.

    Examples
    --------
    >>> arrow_of(np.array([3, 1], dtype=np.int32)).to_pylist()
    [3, 1]
    """
    held = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [None, held], null_count=0)


_FORMS = {
    pa.int8(): "b", pa.int16(): "h", pa.int32(): "i", pa.int64(): "q",
    pa.uint8(): "B", pa.uint16(): "H", pa.uint32(): "I", pa.uint64(): "Q", pa.float32(): "f", pa.float64(): "d",
}  # fmt: skip
"""How numbers lie in memory."""
_OFFSETS = {pa.string(): "i", pa.binary(): "i", pa.large_string(): "q", pa.large_binary(): "q"}


def arrow_values(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Python values as an Arrow array of a type that they are known to fit.

    Examples
    --------
    >>> arrow_values([1, None], pa.int8()).to_pylist(), arrow_values(["a", "", None, "δ"], pa.string()).to_pylist()
    ([1, None], ['a', '', None, 'δ'])
    """
    known, nulls = None, 0
    if None in values:
        nulls = values.count(None)
        bits = sum((value is not None) << at for at, value in enumerate(values))
        known = pa.py_buffer(bits.to_bytes(-(-len(values) // 8), "little"))
    form, offsets = _FORMS.get(type_), _OFFSETS.get(type_)
    if form is not None:
        held = array(form, values if known is None else [0 if value is None else value for value in values])
        return pa.Array.from_buffers(type_, len(values), [known, pa.py_buffer(held)], null_count=nulls)
    if offsets is None:
        return pa.array(values, type_)
    parts = [value.encode() if isinstance(value, str) else value or b"" for value in values]
    ends = array(offsets, accumulate(map(len, parts), initial=0))
    buffers = [known, pa.py_buffer(ends), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(type_, len(values), buffers, null_count=nulls)


def flags(array: pa.Array) -> Mask:
    """The values of a boolean array; what stands for NULL is undefined.

    Examples
    --------
    >>> flags(pa.array([True, False, True])[1:]).tolist()
    [False, True]
    """
    return _bits(array.buffers()[1], array.offset, len(array))


def known(array: pa.Array) -> Mask:
    """Which values are not NULL.

    Examples
    --------
    >>> known(pa.array([1, None, 3])).tolist(), known(pa.nulls(2)).tolist()
    ([True, False, True], [False, False])
    """
    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=np.bool_)
    if pa.types.is_dictionary(array.type):
        there = known(array.indices)
        return there & spread(known(array.dictionary), array) if array.dictionary.null_count else there
    if array.null_count == 0:
        return np.ones(len(array), dtype=np.bool_)
    return _bits(array.buffers()[0], array.offset, len(array))


def spread(by_value: Array, coded: pa.DictionaryArray) -> Array:
    """What there is of each value of a dictionary, by row; what stands for NULL is undefined.

    Examples
    --------
    >>> coded = pa.array(["b", None, "a", "b"]).dictionary_encode()
    >>> coded.dictionary.to_pylist(), spread(np.array([7, 9]), coded)[[0, 2, 3]].tolist()
    (['b', 'a'], [7, 9, 7])
    """
    if not by_value.size:
        return np.zeros(len(coded), dtype=by_value.dtype)  # type: ignore[return-value]
    indices = coded.indices
    sign = "u" if pa.types.is_unsigned_integer(indices.type) else "i"
    places = numbers(indices, np.dtype(f"{sign}{indices.type.bit_width // 8}"))
    if indices.null_count:
        places = np.where(known(indices), places, 0)  # what lies there for NULL may be anything
    return by_value[places]


def _bits(buffer: pa.Buffer | None, offset: int, size: int) -> Mask:
    if buffer is None or size == 0:
        return np.zeros(size, dtype=np.bool_)
    first = offset // 8
    packed = np.frombuffer(buffer, dtype=np.uint8)[first : (offset + size + 7) // 8]
    return np.unpackbits(packed, bitorder="little")[offset - 8 * first :][:size].view(np.bool_)


_FINE_TIME = pa.time64("ns")


def python_value(scalar: pa.Scalar) -> Any:
    """A value for people: as Python has it, or as Arrow writes it where Python's dates and times do not reach so far.

    Examples
    --------
    >>> python_value(pa.scalar(-800_000, pa.date32()))
    '-0221-09-04'
    """
    if scalar.type == _FINE_TIME and scalar.is_valid and scalar.value % 1000:
        return str(scalar.cast(pa.string()).as_py())  # Python's times end at microseconds, and would be cut
    try:
        return scalar.as_py()
    except (OverflowError, ValueError, KeyError):
        return _written(scalar)


def python_values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """The same of a column. Complexity: O(values)."""
    if column.type == _FINE_TIME:
        return [python_value(scalar) for scalar in column]
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError, KeyError):
        return [python_value(scalar) for scalar in column]
    return values


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The same of a table, a dict a row. Complexity: O(values)."""
    columns = [python_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _written(scalar: pa.Scalar) -> str:
    if pa.types.is_date(scalar.type):
        return str(scalar.cast(pa.string()).as_py())
    # Arrow itself writes far timestamps wrongly
    return f"{scalar.cast(pa.int64()).as_py()} ({scalar.type})"
