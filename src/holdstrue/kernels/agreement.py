"""On which columns two rows agree and on which they differ, as bit sets of 64-bit words.

Column c is bit c % 64 of word c // 64. Where a value is unknown (a code below zero) rows neither
agree nor differ.
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I32, U64

_TILE = 4096
"""Pairs whose words stay in the first-level cache while all columns pass. Chosen, not tuned."""


@kernel
def compare(codes: I32, pairs: I32, agree: U64, differ: U64) -> None:
    """Fill in the columns on which each pair of rows agrees, and differs. Complexity: O(pairs * columns)."""
    agree[:] = 0
    differ[:] = 0
    count = pairs.shape[0]
    for begin in range(0, count, _TILE):
        end = min(begin + _TILE, count)
        for c in range(codes.shape[0]):
            column = codes[c]
            word = c >> 6
            shift = np.uint64(c & 63)
            for i in range(begin, end):
                a = column[pairs[i, 0]]
                b = column[pairs[i, 1]]
                both = (a >= 0) & (b >= 0)
                same = a == b
                agree[i, word] |= np.uint64(both & same) << shift
                differ[i, word] |= np.uint64(both & (not same)) << shift
