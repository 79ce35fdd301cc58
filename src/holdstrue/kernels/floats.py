"""Doubles as integers that order alike."""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import kernel
from holdstrue.typing import F64, I64

NAN = np.int64(0x7FFF_FFFF_FFFF_FFFE)
"""Above the code of +infinity and below the largest integer, so that closed intervals can exclude it."""

_REST = np.int64(0x7FFF_FFFF_FFFF_FFFF)


@kernel
def order_codes(values: F64, bits: I64, out: I64) -> None:
    """Codes of doubles, given with their bits: NaN last and equal to itself, -0.0 as 0.0. Complexity: O(n).

    Examples
    --------
    >>> values, codes = np.array([0.5, -1.0, np.nan, -0.0, 0.0]), np.empty(5, dtype=np.int64)
    >>> order_codes(values, values.view(np.int64), codes)
    >>> np.argsort(codes, kind="stable").tolist(), bool(codes[3] == codes[4])
    ([1, 3, 4, 0, 2], True)
    """
    for i in range(values.size):
        if values[i] != values[i]:
            out[i] = NAN
        elif values[i] == 0.0:
            out[i] = 0
        else:
            out[i] = bits[i] ^ _REST if bits[i] < 0 else bits[i]
