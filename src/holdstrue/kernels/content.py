"""Digests of numbers that depend on the number alone, not on the type or the unit of its column.

`kernels/digest.py` digests bytes and tuples; these kernels start from a *salt*, a pair of words that
says what sort of value follows, so that the date 5 and the number 5 are different values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdstrue.kernels.digest import mix
from holdstrue.kernels.floats import NAN
from holdstrue.kernels.jit import inline, kernel

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

WHOLE, HUGE, FRACTION, DECIMAL = 0, 1, 2, 3
"""Rows of the salts that `digest_doubles` and `digest_decimals` take."""

_K1 = np.uint64(0x9E3779B97F4A7C15)
_K2 = np.uint64(0xD6E8FEB86659FD93)
_K4 = np.uint64(0xE7037ED1A0B428DB)
_S32 = np.uint64(32)


@inline
def _upper(salt: np.uint64, word: np.uint64) -> np.uint64:
    return mix(salt * _K2 + mix(word * _K4 + _K2) + (word >> _S32))


@inline
def _lower(salt: np.uint64, word: np.uint64) -> np.uint64:
    return mix(salt * _K1 + word)


@kernel
def digest_words(words: U64, salt: U64, hi: U64, lo: U64) -> None:
    """Digest words of one sort. Complexity: O(n)."""
    for i in range(words.size):
        hi[i] = _upper(salt[0], words[i])
        lo[i] = _lower(salt[1], words[i])


@kernel
def digest_doubles(values: NDArray[np.float64], bits: I64, salts: U64, hi: U64, lo: U64) -> None:
    """Digest doubles, given with their bits: one that is a whole number has the digest of that integer.

    NaN equals itself, -0.0 equals 0.0. Complexity: O(n).
    """
    for i in range(values.size):
        x = values[i]
        kind = FRACTION
        word = np.uint64(bits[i])
        if np.isnan(x):
            word = np.uint64(NAN)
        elif x == np.floor(x):
            if -9223372036854775808.0 <= x < 9223372036854775808.0:
                kind = WHOLE
                word = np.uint64(np.int64(x))
            elif 9223372036854775808.0 <= x < 18446744073709551616.0:
                kind = HUGE
                word = np.uint64(np.int64(x - 9223372036854775808.0)) + np.uint64(0x8000000000000000)
        hi[i] = _upper(salts[kind, 0], word)
        lo[i] = _lower(salts[kind, 1], word)


@kernel
def digest_decimals(unscaled: I64, scale: int, salts: U64, hi: U64, lo: U64) -> None:
    """Digest decimals of up to 18 digits: trailing zeros do not count, whole ones are digested as integers.

    Complexity: O(n * scale).
    """
    for i in range(unscaled.size):
        value = unscaled[i]
        left = scale
        while left > 0 and value % 10 == 0:
            value //= 10
            left -= 1
        if value == 0:
            left = 0
        word = np.uint64(value)
        if left == 0:
            hi[i] = _upper(salts[WHOLE, 0], word)
            lo[i] = _lower(salts[WHOLE, 1], word)
        else:
            hi[i] = _upper(salts[DECIMAL, 0] + np.uint64(left), word)
            lo[i] = _lower(salts[DECIMAL, 1] + np.uint64(left), word)
