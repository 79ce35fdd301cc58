"""Search in values that are bytes in order, as Arrow lays them out: one after the other, with their offsets."""

from __future__ import annotations

from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I64, U8


@inline
def _compared(a: U8, a_start: int, a_end: int, b: U8, b_start: int, b_end: int) -> int:
    """Below 0, 0 or above it, as the first value is before, like or after the second."""
    shared = min(a_end - a_start, b_end - b_start)
    for i in range(shared):
        x = a[a_start + i]
        y = b[b_start + i]
        if x != y:
            return -1 if x < y else 1
    return (a_end - a_start) - (b_end - b_start)


@kernel
def places(data: U8, offsets: I64, wanted: U8, wanted_offsets: I64, out: I64) -> None:
    """For each wanted value the place of it among ascending ones, or `~place` of the first above it.

    Complexity: O(log n) comparisons a value; fast where the wanted ones ascend too.

    Examples
    --------
    >>> import numpy as np
    >>> known, wanted, out = np.frombuffer(b"acc", np.uint8), np.frombuffer(b"abcc", np.uint8), np.empty(3, np.int64)
    >>> places(known.copy(), np.array([0, 1, 3]), wanted.copy(), np.array([0, 1, 2, 4]), out)
    >>> out.tolist()
    [0, -2, 1]
    """
    size = offsets.size - 1
    for i in range(out.size):
        low = 0
        high = size
        found = False
        while low < high and not found:
            middle = (low + high) >> 1
            sign = _compared(
                data, offsets[middle], offsets[middle + 1], wanted, wanted_offsets[i], wanted_offsets[i + 1]
            )
            if sign == 0:
                found = True
                low = middle
            elif sign < 0:
                low = middle + 1
            else:
                high = middle
        out[i] = low if found else ~low


@kernel
def first_unsorted(data: U8, offsets: I64) -> int:
    """The first place whose value is not below the one after it, -1 where all ascend. Complexity: O(bytes)."""
    for i in range(offsets.size - 2):
        if _compared(data, offsets[i], offsets[i + 1], data, offsets[i + 1], offsets[i + 2]) >= 0:
            return i
    return -1
