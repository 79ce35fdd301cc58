"""Columns compared value by value, exactly: with each other, and with a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdstrue.data.buffers import flags, numbers, plain
from holdstrue.data.coding import float_codes
from holdstrue.data.digests import doubles, limbs, whole_numbers
from holdstrue.data.values import CLOCKS, PER_SECOND, common_families, family_of
from holdstrue.operators import ABOVE, BELOW, Op
from holdstrue.typing import F64, U64, Mask

_WIDEST = 76
"""Digits of the largest decimals of Arrow."""


def with_number(column: pa.Array, op: Op, point: Fraction | float) -> Mask:
    """`value op point` for each value, the point in the column's own unit; what it says of NULLs is undefined.

    Complexity: O(values).

    Examples
    --------
    >>> with_number(pa.array([1, 2, 3]), Op.LT, Fraction(5, 2)).tolist()
    [True, True, False]
    """
    array = plain(column)
    match family_of(array.type):
        case "float":
            return _doubles(doubles(array), op, point)
        case "decimal":
            words = limbs(array)
            bound = 1 << (64 * words.shape[1] - 1)
            return _integers(op, point, bound, words.shape[0], lambda sure, n: _limbs(words, sure, n))
    values: NDArray[Any]
    values = numbers(array, np.uint64) if pa.types.is_uint64(array.type) else whole_numbers(array)
    low, high = (0, 2**64) if values.dtype == np.uint64 else (-(2**63), 2**63)
    kind = values.dtype.type
    return _integers(op, point, high, values.size, lambda sure, n: sure.on_codes(values, kind(n)), low=low)


def with_text(column: pa.Array, op: Op, value: str | bytes) -> Mask:
    """The same of text or bytes: text by code points, bytes by bytes, which is one order."""
    array = plain(column)
    if len(array) == 0:
        return np.zeros(0, dtype=np.bool_)
    return flags(getattr(pc, op.function)(array, pa.scalar(value, type=array.type)))


def with_shape(column: pa.Array, expression: str) -> Mask:
    """Where a regular expression (of RE2) occurs in a text; what it says of NULLs is undefined.

    Examples
    --------
    >>> with_shape(pa.array(["A-1", "a"]), "^[A-Z]").tolist()
    [True, False]
    """
    return flags(pc.match_substring_regex(_text(column), expression))


def lengths(column: pa.Array) -> pa.Array:
    """How many characters each text has."""
    return pc.utf8_length(_text(column))


def _text(column: pa.Array) -> pa.Array:
    array = plain(column)
    # a column without values has no type of its own
    return array.cast(pa.large_string())


def with_column(left: pa.Array, right: pa.Array, op: Op) -> Mask:
    """`left op right` row by row, for columns that compare; what it says of NULLs is undefined.

    Complexity: O(values).

    Examples
    --------
    >>> from decimal import Decimal
    >>> with_column(pa.array([5, 7]), pa.array([Decimal("1.00"), Decimal("9.50")]), Op.GT).tolist()
    [True, False]
    """
    left, right = plain(left), plain(right)
    families = common_families([left.type, right.type])
    if families is None:
        raise TypeError(f"{left.type} does not compare with {right.type}")
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return np.zeros(len(left), dtype=np.bool_)
    if "decimal" in families:
        return _decimals(left, right, op)
    if "float" in families:
        return _floats(left, right, op)
    [family] = families
    if family in ("text", "bytes"):
        wide = pa.large_string() if family == "text" else pa.large_binary()
        return flags(getattr(pc, op.function)(left.cast(wide), right.cast(wide)))
    if family in CLOCKS and left.type.unit != right.type.unit:
        return _clocks(left, right, op)
    both = [numbers(a, np.uint64) if pa.types.is_uint64(a.type) else whole_numbers(a) for a in (left, right)]
    return op.on_codes(*both)


def _integers(
    op: Op,
    point: Fraction | float,
    high: int,
    size: int,
    compare: Callable[[Op, int], Mask],
    low: int | None = None,
) -> Mask:
    """`integer op point` by comparisons with integers in [low, high); low is -high unless given."""
    if isinstance(point, float):
        # NaN is above every number, as plus infinity is
        return np.full(size, (ABOVE if point < 0 else BELOW) in op.outcomes)
    floor = math.floor(point)
    if floor != point:
        if not op.is_order:
            return np.full(size, op is Op.NE)
        op = Op.LE if BELOW in op.outcomes else Op.GT
    if not (-high if low is None else low) <= floor < high:
        return _integers(op, math.inf if floor > 0 else -math.inf, high, size, compare)
    return compare(op, floor)


def _limbs(words: U64, op: Op, number: int) -> Mask:
    """Integers in little-endian words of two's complement against one number that as many words hold."""
    count = words.shape[1]
    told = np.frombuffer(number.to_bytes(8 * count, "little", signed=True), dtype=np.uint64)
    # words but the first compare without a sign; its sign bit turned, the first does too
    sign = np.uint64(2**63)
    below = np.zeros(words.shape[0], dtype=np.bool_)
    equal = np.ones(words.shape[0], dtype=np.bool_)
    for k in range(count - 1, -1, -1):
        own, other = (words[:, k] ^ sign, told[k] ^ sign) if k == count - 1 else (words[:, k], told[k])
        below |= equal & (own < other)
        equal &= own == other
    return op.truth(below, equal)


def _doubles(values: F64, op: Op, point: Fraction | float) -> Mask:
    if isinstance(point, Fraction):
        try:
            near = float(point)
        except OverflowError:
            near = math.inf if point > 0 else -math.inf
        finite = math.isfinite(near)
        if not finite or Fraction(near) != point:
            # no double is the point: the nearest one is on this side of it or on that
            if not op.is_order:
                return np.full(values.size, op is Op.NE)
            beyond = near > 0 if not finite else Fraction(near) > point
            below, above = (Op.LT, Op.GE) if beyond else (Op.LE, Op.GT)
            op = below if BELOW in op.outcomes else above
        point = near
    if math.isnan(point):
        return op.on_codes(float_codes(values), float_codes(np.array([point]))[0])
    # NaN is above every number: what is not below or equal is above
    if op in (Op.GT, Op.GE):
        return ~(op.negated.on_codes(values, np.float64(point)))
    return op.on_codes(values, np.float64(point))


def _floats(left: pa.Array, right: pa.Array, op: Op) -> Mask:
    """Floats with floats, or with integers."""
    if family_of(left.type) == "integer":
        return _floats(right, left, op.flipped)
    values = doubles(left)
    if family_of(right.type) == "float":
        return op.on_codes(float_codes(values), float_codes(doubles(right)))
    whole = numbers(right, np.uint64) if pa.types.is_uint64(right.type) else whole_numbers(right)
    rounded = whole.astype(np.float64)
    result = op.on_codes(float_codes(values), float_codes(rounded))
    # rounding keeps order; only a double that equals the rounded integer may differ from the integer itself
    for row in np.flatnonzero((values == rounded) & (np.abs(rounded) >= 2**53)).tolist():
        result[row] = op.on_values(int(rounded[row]), int(whole[row]))
    return result


def _decimals(left: pa.Array, right: pa.Array, op: Op) -> Mask:
    """Decimals of any scales, or with integers."""
    types = (left.type, right.type)
    decimals = [t for t in types if pa.types.is_decimal(t)]
    scale = max(0, *(t.scale for t in decimals))
    digits = max(t.precision - t.scale if pa.types.is_decimal(t) else 20 for t in types) + scale
    if digits <= _WIDEST and all(t.scale >= 0 for t in decimals):
        wide = pa.decimal256(_WIDEST, scale)
        return flags(getattr(pc, op.function)(left.cast(wide), right.cast(wide)))
    # no type of Arrow holds both: as Python's numbers, which are exact and slow
    compare = op.on_values
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return np.array([a is not None and b is not None and compare(a, b) for a, b in pairs], dtype=np.bool_)


def _clocks(left: pa.Array, right: pa.Array, op: Op) -> Mask:
    """Times of different units: by seconds, then by nanoseconds, which always fit."""
    parts = []
    for array in (left, right):
        ticks, per_second = whole_numbers(array), PER_SECOND[array.type.unit]
        seconds = ticks // per_second
        parts.append((seconds, (ticks - seconds * per_second) * (10**9 // per_second)))
    (a, b), (c, d) = parts
    equal = (a == c) & (b == d)
    below = (a < c) | ((a == c) & (b < d))
    return op.truth(below, equal)
