"""On which columns two rows agree and on which they differ, as bit sets of 64-bit words.

Column c is bit c % 64 of word c // 64. Where a value is unknown (a code below zero) rows neither
agree nor differ.

Three rows and three columns; the second row has no value in the last one. Rows 0 and 1 agree on column 0 and differ in
column 1, rows 0 and 2 agree on column 2 only:

>>> codes = np.array([[0, 0, 1], [0, 1, 1], [0, -1, 0]], dtype=np.int32)
>>> agree, differ = np.empty((2, 1), dtype=np.uint64), np.empty((2, 1), dtype=np.uint64)
>>> compare(codes, np.array([[0, 1], [0, 2]], dtype=np.int32), agree, differ)
>>> [[f"{word:03b}" for word in words.ravel().tolist()] for words in (agree, differ)]
[['001', '100'], ['010', '011']]
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
