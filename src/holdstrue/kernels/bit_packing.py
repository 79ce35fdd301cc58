"""Small numbers in as few bits as the largest takes, the lowest bit first.

>>> import numpy as np
>>> numbers = np.array([5, 0, 3, 7, 1], dtype=np.int32)
>>> packed = np.zeros(2, dtype=np.uint8); pack_bits(numbers, 3, packed); packed.tolist()
[197, 30]
>>> found = np.empty(5, dtype=np.int32); unpack_bits(packed, 3, found); found.tolist()
[5, 0, 3, 7, 1]
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I32, U8

_BYTE = np.uint64(0xFF)
_EIGHT = np.uint64(8)


@kernel
def pack_bits(numbers: I32, width: int, out: U8) -> None:
    """Write numbers of `width` bits (at most 31) one after the other. Complexity: O(numbers)."""
    held, bits, at = np.uint64(0), 0, 0
    for i in range(numbers.size):
        held |= np.uint64(numbers[i]) << np.uint64(bits)
        bits += width
        while bits >= 8:
            out[at] = held & _BYTE
            held >>= _EIGHT
            bits -= 8
            at += 1
    if bits > 0:
        out[at] = held & _BYTE


@kernel
def unpack_bits(packed: U8, width: int, out: I32) -> None:
    """Read numbers of `width` bits (at most 31) back. Complexity: O(numbers)."""
    held, bits, at = np.uint64(0), 0, 0
    mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    for i in range(out.size):
        while bits < width:
            held |= np.uint64(packed[at]) << np.uint64(bits)
            bits += 8
            at += 1
        out[i] = np.int32(held & mask)
        held >>= np.uint64(width)
        bits -= width
