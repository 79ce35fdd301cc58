"""Doubles as integers that order alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdstrue.kernels.jit import kernel

NAN = np.int64(0x7FFF_FFFF_FFFF_FFFE)
"""Above the code of +infinity and below the largest integer, so that closed intervals can exclude it."""

_REST = np.int64(0x7FFF_FFFF_FFFF_FFFF)


@kernel
def order_codes(values: NDArray[np.float64], bits: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    """Codes of doubles, given with their bits: NaN last and equal to itself, -0.0 as 0.0. Complexity: O(n)."""
    for i in range(values.size):
        if values[i] != values[i]:
            out[i] = NAN
        elif values[i] == 0.0:
            out[i] = 0
        else:
            out[i] = bits[i] ^ _REST if bits[i] < 0 else bits[i]
