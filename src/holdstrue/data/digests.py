"""Digests of values that depend on the values alone, so that columns of all types can be compared by equality.

| family | digested as |
|---|---|
| whole numbers of any type | the integer |
| other floating-point numbers | the double; NaN equals itself |
| other decimals | digits and exponent without trailing zeros |
| dates, booleans | the integer that they stand for |
| times, timestamps, durations | seconds and nanoseconds, zoned ones in UTC |
| text and bytes | their bytes |

A digest has 128 bits (`kernels/digest.py`) and is keyed by a seed: two different values, chosen by somebody who does
not know it, agree with a probability of about 2^-122.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.buffers import SMALL, lend, numbers
from holdstrue.data.seed import Seed
from holdstrue.data.values import PER_SECOND, Family, family_of
from holdstrue.errors import DataError
from holdstrue.kernels import digest, number_digests
from holdstrue.typing import F64, I32, I64, U8, U64

_SORTS: dict[Family, int] = {
    "bool": 16, "date": 17, "time": 18, "timestamp": 19, "zoned": 20, "duration": 21, "bytes": 22,
}  # fmt: skip
"""What the tuples of values that are no numbers start with; numbers have the sorts of `kernels/number_digests.py`."""

_DAY = 86_400_000


def digests(array: pa.Array, seed: Seed) -> tuple[U64, U64]:
    """The two lanes of the digest of each value of a plain array; what stands for NULL is undefined.

    Complexity: O(values and bytes).

    Examples
    --------
    >>> from decimal import Decimal
    >>> seed = Seed.new()
    >>> one, other = digests(pa.array([2, 3]), seed), digests(pa.array([Decimal("2.00"), Decimal("2.50")]), seed)
    >>> (one[0] == other[0]).tolist(), (one[1] == other[1]).tolist()
    ([True, False], [True, False])
    """
    family = family_of(array.type)
    hi, lo = np.empty(len(array), dtype=np.uint64), np.empty(len(array), dtype=np.uint64)
    if not hi.size or family == "null":
        return hi, lo
    match family:
        case "text":
            _bytes(array, seed, hi, lo)
        case "bytes":
            # bytes and the text that they spell are different values
            upper, lower = np.empty_like(hi), np.empty_like(lo)
            _bytes(array, seed, upper, lower)
            hi[:] = lo[:] = _SORTS["bytes"]
            digest.extend_key(hi, lo, upper, lower, seed.keys)
        case "integer":
            _integers(array, seed, hi, lo)
        case "float":
            values = doubles(array)
            number_digests.digest_doubles(values, values.view(np.int64), seed.keys, hi, lo)
        case "decimal":
            number_digests.digest_decimals(limbs(array), array.type.scale, seed.keys, hi, lo)
        case "bool" | "date":
            number_digests.digest_words(whole_numbers(array).view(np.uint64), _SORTS[family], seed.keys, hi, lo)
        case "time" | "timestamp" | "zoned" | "duration":
            ticks, per_second = whole_numbers(array), PER_SECOND[array.type.unit]
            seconds = ticks // per_second
            nanos = (ticks - seconds * per_second) * (10**9 // per_second)
            number_digests.digest_words(seconds.view(np.uint64), _SORTS[family], seed.keys, hi, lo)
            digest.extend_key_by_words(hi, lo, nanos.view(np.uint64), seed.keys)
        case _:
            raise TypeError(f"values of type {array.type} have no digest")
    return hi, lo


def whole_numbers(array: pa.Array) -> I64:
    """Booleans, dates (in milliseconds), times, timestamps and durations (in units) as the numbers they stand for.

    Also integers but those of 64 bits without a sign. What stands for NULL is undefined.
    """
    data_type = array.type
    if pa.types.is_boolean(data_type):
        return numbers(array.cast(pa.int8()), np.int8).astype(np.int64)
    if pa.types.is_date32(data_type):
        return numbers(array, np.int32).astype(np.int64) * _DAY
    width = data_type.bit_width
    sign = "u" if pa.types.is_unsigned_integer(data_type) else "i"
    read = numbers(array, np.dtype(f"{sign}{width // 8}"))
    return lend(read) if width == 64 else read.astype(np.int64)


def doubles(array: pa.Array) -> F64:
    """Floating-point values as doubles, which hold them all."""
    read = numbers(array, np.dtype(f"f{array.type.bit_width // 8}"))
    return lend(read) if array.type.bit_width == 64 else read.astype(np.float64)


def limbs(array: pa.Array) -> U64:
    """Decimals without their scale: little-endian words of two's complement, a row a value."""
    width = array.type.bit_width
    if width == 32:
        return numbers(array, np.int32).astype(np.int64).view(np.uint64).reshape(-1, 1)
    words = width // 64
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros((len(array), words), dtype=np.uint64)
    flat = np.frombuffer(buffer, dtype=np.uint64)[words * array.offset : words * (array.offset + len(array))]
    return lend(flat).reshape(-1, words)


def _integers(array: pa.Array, seed: Seed, hi: U64, lo: U64) -> None:
    if not pa.types.is_uint64(array.type):
        number_digests.digest_words(whole_numbers(array).view(np.uint64), number_digests.WHOLE, seed.keys, hi, lo)
        return
    words = lend(numbers(array, np.uint64))
    number_digests.digest_words(words, number_digests.WHOLE, seed.keys, hi, lo)
    large = np.flatnonzero(words >= np.uint64(2**63))
    if large.size:
        upper, lower = np.empty(large.size, dtype=np.uint64), np.empty(large.size, dtype=np.uint64)
        number_digests.digest_words(words[large], number_digests.HUGE, seed.keys, upper, lower)
        hi[large], lo[large] = upper, lower


def lower_lane(array: pa.Array, seed: Seed) -> U64:
    """The lower lane of the digests of a plain array, for what is only looked at once."""
    if family_of(array.type) != "text":
        return digests(array, seed)[1]
    lo = np.empty(len(array), dtype=np.uint64)
    for data, offsets, start, end in _parts(array):
        digest.lower_digests(data, offsets, seed.keys, lo[start:end])
    return lo


def _bytes(array: pa.Array, seed: Seed, hi: U64, lo: U64) -> None:
    for data, offsets, start, end in _parts(array):
        digest.digest_bytes(data, offsets, seed.keys, hi[start:end], lo[start:end])


def _parts(array: pa.Array) -> Iterator[tuple[U8, I32, int, int]]:
    """Byte strings as bytes and offsets of 31 bits, in parts, each with the strings that it starts and ends with."""
    n = len(array)
    if not n:
        return
    large = array.type in (pa.large_string(), pa.large_binary())
    _, offset_buffer, data_buffer = array.buffers()
    data = np.zeros(1, dtype=np.uint8)
    if data_buffer is not None and data_buffer.size:
        data = np.frombuffer(data_buffer, dtype=np.uint8)
    raw: NDArray[Any] = np.frombuffer(offset_buffer, dtype=np.int64 if large else np.int32)[
        array.offset : array.offset + n + 1
    ]
    if n < SMALL:
        text = data[raw[0] : raw[-1]].copy() if raw[-1] > raw[0] else data[:1].copy()
        yield text, (raw - raw[0]).astype(np.int32), 0, n
        return
    data = lend(data)
    if not large:
        yield data, lend(raw), 0, n
        return
    start = 0
    while start < n:
        # as many strings as 31-bit offsets reach
        end = max(start + 1, int(np.searchsorted(raw, raw[start] + 2**31 - 1, side="right")) - 1)
        if raw[end] - raw[start] >= 2**31:
            raise DataError(f"a value holds {raw[end] - raw[start]:,} bytes", hint="values have less than 2 GB each")
        offsets = (raw[start : end + 1] - raw[start]).astype(np.int32)
        yield data[raw[start] : max(raw[end], raw[start] + 1)], offsets, start, end
        start = end
