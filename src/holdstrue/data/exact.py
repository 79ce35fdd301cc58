"""Sums and extremes of columns without rounding: values as whole numbers of some unit, many words each if need be.

Everything a measure is computed from is such a number: an integer itself, a decimal without its point, a date in
milliseconds, a time in units, a double as a multiple of 2^-1074. Sums are Python's integers, made of sums of 32 bits
that 64 hold for 2^31 values.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import arrow_of, known, numbers, plain
from holdstrue.data.coding import float_codes
from holdstrue.data.digests import doubles, limbs, whole_numbers
from holdstrue.data.values import PER_SECOND, family_of
from holdstrue.kernels.floats import NAN
from holdstrue.typing import F64, I64, U64, Mask

Exact: TypeAlias = Fraction | float
"""A number: a fraction, or NaN or an infinity."""

SMALLEST = 1074
"""Every double is a multiple of 2^-1074, the smallest of them."""
_AT_ONCE = 1 << 25
"""Doubles that are summed at once: halves of 27 bits, so that their sums stay below 2^53, where doubles are exact."""


def known_values(column: pa.Array, chosen: Mask | None = None) -> pa.Array:
    """The values of a column that are not NULL, of the rows that are chosen, laid out plainly."""
    array = plain(column)
    if chosen is not None and not chosen.all():
        array = array.take(arrow_of(np.flatnonzero(chosen)))
    return array.take(arrow_of(np.flatnonzero(known(array)))) if array.null_count else array


def units_of(data_type: pa.DataType) -> Fraction:
    """How many units of its whole numbers one of a column's values has, such as 100 for a decimal of scale 2.

    >>> units_of(pa.decimal128(9, 2)), units_of(pa.date32()), units_of(pa.timestamp("us"))
    (Fraction(100, 1), Fraction(1000, 1), Fraction(1000000, 1))
    """
    match family_of(data_type):
        case "decimal":
            return Fraction(10) ** int(data_type.scale)
        case "date":
            return Fraction(1000)
        case "time" | "timestamp" | "zoned" | "duration":
            return Fraction(PER_SECOND[data_type.unit])
    return Fraction(1)


def words_of(array: pa.Array) -> U64:
    """Values as whole numbers that order alike: little-endian words of two's complement, a row a value.

    Doubles are by their codes, see `kernels/floats.py`.
    """
    match family_of(array.type):
        case "float":
            return float_codes(doubles(array)).view(np.uint64).reshape(-1, 1)
        case "decimal":
            return limbs(array)
    if pa.types.is_uint64(array.type):
        own = numbers(array, np.uint64)
        return np.stack((own, np.zeros_like(own)), axis=1)
    return whole_numbers(array).view(np.uint64).reshape(-1, 1)


def float_of(code: int) -> float:
    """The double of a code.

    >>> [float_of(int(code)) for code in float_codes(np.array([-1.5, 0.0, np.inf, np.nan]))]
    [-1.5, 0.0, inf, nan]
    """
    if code == NAN:
        return math.nan
    bits = code if code >= 0 else code ^ 0x7FFF_FFFF_FFFF_FFFF
    return float(np.array([bits], dtype=np.int64).view(np.float64)[0])


def total(words: U64) -> int:
    """The sum of whole numbers. Complexity: O(numbers).

    >>> total(words_of(pa.array([2**63 - 1, 2**63 - 1, -5])))
    18446744073709551609
    """
    if not words.size:
        return 0
    found, last = 0, words.shape[1] - 1
    for k in range(words.shape[1]):
        own = np.ascontiguousarray(words[:, k])
        low = int((own & np.uint64(0xFFFF_FFFF)).sum(dtype=np.uint64))
        # the upper half of the highest word has the sign
        high = int((own.view(np.int64) >> 32).sum()) if k == last else int((own >> np.uint64(32)).sum(dtype=np.uint64))
        found += (low + (high << 32)) << (64 * k)
    return found


def float_total(values: F64) -> tuple[int, int, int, int]:
    """The sum of the finite doubles in multiples of 2^-1074, and how many are NaN, infinite and minus infinite.

    Complexity: O(values).

    >>> float_total(np.array([1e308, 0.1, -1e308, np.inf]))[0] == Fraction(0.1) * 2**SMALLEST
    True
    """
    finite = np.isfinite(values)
    counts = 0, 0, 0
    if not finite.all():
        counts = int(np.isnan(values).sum()), int((values == np.inf).sum()), int((values == -np.inf).sum())
        values = values[finite]
    found = 0
    for start in range(0, values.size, _AT_ONCE):
        found += _finite_total(values[start : start + _AT_ONCE])
    return found, *counts


def _finite_total(values: F64) -> int:
    fractions, exponents = np.frexp(values)
    # a double is a whole number of 53 bits times 2^(exponent - 53); small ones have fewer bits, and these are zero
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    places = exponents.astype(np.int64) + (SMALLEST - 53)
    lowest = int(places.min())
    high, low = mantissas >> 27, mantissas & ((1 << 27) - 1)
    highs, lows = (np.bincount(places - lowest, weights=half) for half in (high, low))
    found = 0
    for at in np.flatnonzero((highs != 0) | (lows != 0)).tolist():
        found += ((int(highs[at]) << 27) + int(lows[at])) << (at + lowest + SMALLEST)
    return found >> SMALLEST


def largest(words: U64, most: int) -> list[int]:
    """The largest whole numbers, ascending, at most so many. Complexity: O(numbers).

    >>> largest(words_of(pa.array([5, -1, 7, 5, 2])), 3)
    [5, 5, 7]
    """
    chosen: list[I64] = []
    candidates = np.arange(words.shape[0])
    for k in range(words.shape[1] - 1, -1, -1):
        if candidates.size <= most:
            break
        own: I64 | U64 = np.ascontiguousarray(words[candidates, k])
        if k == words.shape[1] - 1:
            own = own.view(np.int64)
        least = np.partition(own, own.size - most)[own.size - most] if most else own.max()
        above = candidates[own > least]
        chosen.append(above)
        most -= above.size
        candidates = candidates[own == least]
    return sorted(whole(words[np.concatenate((*chosen, candidates[:most]))]))


def at_least(words: U64, bound: int) -> U64:
    """Those of the whole numbers that are not below a bound. Complexity: O(numbers)."""
    count = words.shape[1]
    low, high = -(1 << (64 * count - 1)), (1 << (64 * count - 1)) - 1
    if bound > high:
        return words[:0]
    told = np.frombuffer(max(bound, low).to_bytes(8 * count, "little", signed=True), dtype=np.uint64)
    above, equal = np.zeros(words.shape[0], dtype=np.bool_), np.ones(words.shape[0], dtype=np.bool_)
    sign = np.uint64(1 << 63)
    for k in range(count - 1, -1, -1):
        own, other = (words[:, k] ^ sign, told[k] ^ sign) if k == count - 1 else (words[:, k], told[k])
        above |= equal & (own > other)
        equal &= own == other
    return words[above | equal]


def whole(words: U64) -> list[int]:
    """Words as Python's integers."""
    if words.shape[1] == 1:
        one: list[int] = np.ascontiguousarray(words[:, 0]).view(np.int64).tolist()
        return one
    return [int.from_bytes(row.tobytes(), "little", signed=True) for row in np.ascontiguousarray(words)]
