"""Arrow arrays as numpy arrays, straight from their buffers.

Arrow's own `to_numpy` imports pandas wherever that is installed, which costs a command a quarter of a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


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


def flags(array: pa.Array) -> NDArray[np.bool_]:
    """The values of a boolean array; what stands for NULL is undefined.

    Examples
    --------
    >>> flags(pa.array([True, False, True])[1:]).tolist()
    [False, True]
    """
    return _bits(array.buffers()[1], array.offset, len(array))


def known(array: pa.Array) -> NDArray[np.bool_]:
    """Which values are not NULL.

    Examples
    --------
    >>> known(pa.array([1, None, 3])).tolist(), known(pa.nulls(2)).tolist()
    ([True, False, True], [False, False])
    """
    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=np.bool_)
    if array.null_count == 0:
        return np.ones(len(array), dtype=np.bool_)
    return _bits(array.buffers()[0], array.offset, len(array))


def _bits(buffer: pa.Buffer | None, offset: int, size: int) -> NDArray[np.bool_]:
    if buffer is None or size == 0:
        return np.zeros(size, dtype=np.bool_)
    first = offset // 8
    packed = np.frombuffer(buffer, dtype=np.uint8)[first : (offset + size + 7) // 8]
    return np.unpackbits(packed, bitorder="little")[offset - 8 * first :][:size].view(np.bool_)
