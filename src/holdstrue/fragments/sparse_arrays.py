"""Arrays of zeros and few other entries, whose zeros take no memory."""

from __future__ import annotations

import math
import mmap
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from holdstrue.index.arrays import room

SPARSE = 64
"""Arrays with fewer than one entry in so many that is not 0 are copied entry by entry, so that their zeros stay
without memory."""
MAPPED_FROM = 1 << 16
"""Bytes from which on zeros are mapped: an allocator that has been used hands out memory that it clears, and then all
of it is there. Of ten sites with 2M rows that was 280 MB by columns and 500 by rows."""


Whole = TypeVar("Whole", np.int32, np.uint8, np.uint64)


def grown(array: NDArray[Whole], needed: int) -> NDArray[Whole]:
    """An array of zeros and few other entries, with room for so many."""
    if needed <= array.shape[0]:
        return array
    some = np.flatnonzero(array.reshape(array.shape[0], -1).any(axis=1))
    if some.size * SPARSE > array.shape[0]:
        return room(array, needed, fill=0)
    larger = zeros((needed + needed // 4 + 64, *array.shape[1:]), array.dtype)
    larger[some] = array[some]
    return larger


def zeros(shape: tuple[int, ...], dtype: np.dtype[Whole]) -> NDArray[Whole]:
    """Zeros that take no memory before they are written to."""
    size = math.prod(shape) * dtype.itemsize
    if size < MAPPED_FROM or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(shape, dtype=dtype)
    # shared maps, which are the default, would take memory where they are only read
    private = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(private, dtype=dtype).reshape(shape)
