"""Digests of numbers that depend on the number alone, not on the type, the scale or the unit of its column.

`kernels/digest.py` digests bytes and tuples; here a *sort*, a small number that says what follows, is the start of a
tuple of words, so that the date 5 and the number 5 are different values.
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.digest import FIRST, SECOND, STEP, keyed
from holdstrue.kernels.floats import NAN
from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import F64, I64, U64

WHOLE, HUGE, FRACTION, DECIMAL, LONG = 1, 2, 3, 4, 5
"""Sorts of numbers: whole in 64 bits with a sign; whole in 64 bits without; other doubles; other decimals whose digits
fit 63 bits; all other decimals. Every number is of one sort only."""

_HALF = np.uint64(0x8000000000000000)
_MOST = np.uint64(0xFFFFFFFFFFFFFFFF)
_LOW = np.uint64(0xFFFFFFFF)
_S32 = np.uint64(32)
_TEN = np.uint64(10)


@inline
def _extended(state: np.uint64, word: np.uint64, keys: U64, lane: int) -> np.uint64:
    return keyed(state * keys[lane, STEP] + word, keys[lane, FIRST], keys[lane, SECOND])


@kernel
def digest_words(words: U64, sort: int, keys: U64, hi: U64, lo: U64) -> None:
    """Digest words of one sort. Complexity: O(n)."""
    start = np.uint64(sort)
    for i in range(words.size):
        hi[i] = _extended(start, words[i], keys, 0)
        lo[i] = _extended(start, words[i], keys, 1)


@kernel
def digest_doubles(values: F64, bits: I64, keys: U64, hi: U64, lo: U64) -> None:
    """Digest doubles, given with their bits: one that is a whole number has the digest of that integer.

    NaN equals itself, -0.0 equals 0.0. Complexity: O(n).

    Examples
    --------
    >>> keys = np.arange(3, 27, 2, dtype=np.uint64).reshape(2, 6)
    >>> values, hi, lo = np.array([2.0, 2.5, -0.0, 0.0, np.nan]), *np.empty((2, 5), dtype=np.uint64)
    >>> digest_doubles(values, values.view(np.int64), keys, hi, lo)
    >>> whole, _ = np.empty((2, 1), dtype=np.uint64)
    >>> digest_words(np.array([2], dtype=np.uint64), WHOLE, keys, whole, _)
    >>> (hi == whole[0]).tolist(), bool(hi[2] == hi[3])
    ([True, False, False, False, False], True)
    """
    for i in range(values.size):
        x = values[i]
        sort = FRACTION
        word = np.uint64(bits[i])
        if np.isnan(x):
            word = np.uint64(NAN)
        elif x == np.floor(x):
            if -9223372036854775808.0 <= x < 9223372036854775808.0:
                sort = WHOLE
                word = np.uint64(np.int64(x))
            elif 9223372036854775808.0 <= x < 18446744073709551616.0:
                sort = HUGE
                word = np.uint64(np.int64(x - 9223372036854775808.0)) + _HALF
        hi[i] = _extended(np.uint64(sort), word, keys, 0)
        lo[i] = _extended(np.uint64(sort), word, keys, 1)


@kernel
def digest_decimals(limbs: U64, scale: int, keys: U64, hi: U64, lo: U64) -> None:
    """Digest decimals `limbs[i]`, little-endian words of two's complement, at a scale that may be negative.

    1.50 at scale 2 and 1.5 at scale 1 have one digest, and 2.00 has that of the integer 2.
    Complexity: O(n * words * log10 of the trailing zeros).
    """
    digits = np.zeros(2 * limbs.shape[1], dtype=np.uint64)
    for i in range(limbs.shape[0]):
        negative = limbs[i, limbs.shape[1] - 1] >= _HALF
        used = _magnitude(limbs[i], negative, digits)
        exponent = -scale
        if used > 2:
            used, exponent = _strip_long(digits, used, exponent)
        if used <= 2:
            word = digits[0] | (digits[1] << _S32)
            word, exponent = _strip(word, exponent)
            sort, word, exponent = _sorted(word, exponent, negative)
            if sort != LONG:
                start = np.uint64(np.int64(sort + 8 * exponent))
                hi[i] = _extended(start, word, keys, 0)
                lo[i] = _extended(start, word, keys, 1)
                continue
            digits[0] = word & _LOW
            digits[1] = word >> _S32
        for lane in range(2):
            state = np.uint64(np.int64(LONG + 8 * exponent))
            state = _extended(state, np.uint64(negative), keys, lane)
            for k in range(0, used, 2):
                upper = digits[k + 1] if k + 1 < used else np.uint64(0)
                state = _extended(state, digits[k] | (upper << _S32), keys, lane)
            if lane == 0:
                hi[i] = state
            else:
                lo[i] = state


@inline
def _magnitude(words: U64, negative: bool, digits: U64) -> int:
    """The absolute value of a two's complement number in digits of 32 bits; returns how many are not leading zeros."""
    carry = np.uint64(1) if negative else np.uint64(0)
    used = 0
    for k in range(words.size):
        word = ~words[k] if negative else words[k]
        word = word + carry
        carry = np.uint64(1) if negative and carry == 1 and word == 0 else np.uint64(0)
        digits[2 * k] = word & _LOW
        digits[2 * k + 1] = word >> _S32
        if word != 0:
            used = 2 * k + 1 if digits[2 * k + 1] == 0 else 2 * k + 2
    return used


@inline
def _divides(divisor: np.uint64, digits: U64, used: int) -> bool:
    rest = np.uint64(0)
    for k in range(used - 1, -1, -1):
        rest = ((rest << _S32) | digits[k]) % divisor
    return rest == 0


@inline
def _strip_long(digits: U64, used: int, exponent: int) -> tuple[int, int]:
    """Take trailing zeros off a long number, as many at once as a digit of 32 bits holds."""
    zeros = 9
    divisor = np.uint64(1000000000)
    while zeros > 0:
        if not _divides(divisor, digits, used):
            # nine, then what is left of eight: four, two, one
            zeros = 4 if zeros == 9 else zeros // 2
            divisor = np.uint64(10000) if zeros == 4 else (np.uint64(100) if zeros == 2 else _TEN)
            continue
        rest = np.uint64(0)
        for k in range(used - 1, -1, -1):
            whole = (rest << _S32) | digits[k]
            digits[k] = whole // divisor
            rest = whole % divisor
        while used > 0 and digits[used - 1] == 0:
            used -= 1
        exponent += zeros
    return used, exponent


@inline
def _strip(word: np.uint64, exponent: int) -> tuple[np.uint64, int]:
    """Take trailing zeros off a number."""
    if word == 0:
        return word, 0
    while word % np.uint64(100000000) == 0:
        word //= np.uint64(100000000)
        exponent += 8
    if word % np.uint64(10000) == 0:
        word //= np.uint64(10000)
        exponent += 4
    if word % np.uint64(100) == 0:
        word //= np.uint64(100)
        exponent += 2
    if word % _TEN == 0:
        word //= _TEN
        exponent += 1
    return word, exponent


@inline
def _sorted(word: np.uint64, exponent: int, negative: bool) -> tuple[int, np.uint64, int]:
    """The sort of a number without trailing zeros, and the word and exponent that it is digested by."""
    if exponent < 0:
        if word >= _HALF:
            return LONG, word, exponent
        return DECIMAL, np.uint64(-np.int64(word)) if negative else word, exponent
    whole = word
    left = exponent
    while left > 0 and whole <= _MOST // _TEN:
        whole *= _TEN
        left -= 1
    if left > 0:
        return LONG, word, exponent
    if negative:
        return (WHOLE, ~whole + np.uint64(1), 0) if whole <= _HALF else (LONG, word, exponent)
    return (WHOLE if whole < _HALF else HUGE), whole, 0
