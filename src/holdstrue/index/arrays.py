"""Arrays that grow, and how they are written to and read from a state."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = TypeVar("Array", bound=NDArray[Any])

GROWTH = 1.5
"""A grown array has this much room: copying stays below two writes a row at two thirds mean filling."""

SLACK = 16
"""Snapshots keep room for a sixteenth more rows, so that an opened index takes changes without being copied."""


def room(array: Array, needed: int, *, fill: int | None = None, axis: int = 0) -> Array:
    """`array` itself when it holds `needed` entries along `axis`, else a larger copy (new entries = `fill`).

    >>> room(np.array([3, 4]), 3, fill=-1)[:4].tolist()
    [3, 4, -1, -1]
    """
    size = array.shape[axis]
    if needed <= size:
        return array
    shape = list(array.shape)
    shape[axis] = max(needed, int(size * GROWTH) + 16)
    larger = np.empty(shape, dtype=array.dtype)
    if fill is not None:
        larger[(slice(None),) * axis + (slice(size, None),)] = fill
    larger[(slice(None),) * axis + (slice(0, size),)] = array
    return larger  # type: ignore[return-value]


def with_slack(array: Array, used: int, *, fill: int = 0, axis: int = 0) -> Array:
    """The first `used` entries and some room, for a snapshot."""
    wanted = used + used // SLACK + 1024
    before = (slice(None),) * axis
    if array.shape[axis] >= wanted:
        return array[(*before, slice(0, wanted))]  # type: ignore[return-value]
    shape = list(array.shape)
    shape[axis] = wanted
    padded = np.full(shape, fill, dtype=array.dtype)
    padded[(*before, slice(0, used))] = array[(*before, slice(0, used))]
    return padded  # type: ignore[return-value]


class _Same:
    """Views of one array of equal values: making a new one for each small batch would cost more than using it."""

    def __init__(self, value: int, dtype: type[np.generic]) -> None:
        self._value, self._dtype = value, dtype
        self._array = np.full(1024, value, dtype=dtype)

    def __call__(self, size: int) -> NDArray[Any]:
        if size > self._array.size:
            self._array = np.full(2 * size, self._value, dtype=self._dtype)
        return self._array[:size]


all_true = _Same(1, np.bool_)
"""A mask that is true everywhere; never written to."""

no_slots = _Same(-1, np.int32)
"""Slots that are all -1; never written to."""
