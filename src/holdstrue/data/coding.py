"""Arrow columns into codes that compare as their values do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdstrue.data.buffers import known, numbers
from holdstrue.data.domain import Domain
from holdstrue.data.labels import Labels
from holdstrue.errors import DataError
from holdstrue.kernels import digest, floats

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
Mask = NDArray[np.bool_]

NULL_DIGEST = (np.uint64(0x5851F42D4C957F2D), np.uint64(0x14057B7EF767814F))
"""Stands for NULL in the digest of a tuple where NULLs compare as equal."""

_EXACT_INT = 2**53
_DOUBLE = pa.float64()

# the common types by their number: asking one question a type would cost more than coding a small batch
_PLAIN = {("int", pa.int64().id): "words", ("text", pa.string().id): "text"}

_SMALL = 4096
"""Below this many values memory is copied instead of lent. Chosen, not tuned."""


@dataclass(frozen=True)
class Coded:
    """A column's codes, which are known (all, when `valid` is None), and its digests where codes are not content.

    `upper` and `lower` are the lanes of the values' digests; where they are None the code itself is
    the lower lane and the upper follows from it.
    """

    codes: I64
    valid: Mask | None
    upper: U64 | None = None
    lower: U64 | None = None

    @property
    def identity(self) -> I64:
        """A code that depends on the value alone (a label may move when its dictionary grows)."""
        return self.codes if self.lower is None else self.lower.view(np.int64)

    def mask(self) -> Mask:
        """Which values are known."""
        return np.ones(self.codes.size, dtype=np.bool_) if self.valid is None else self.valid

    def extend(self, hi: U64, lo: U64, *, nulls_equal: bool) -> None:
        """Append these values to the digests of tuples."""
        lower = self.codes.view(np.uint64) if self.lower is None else self.lower
        if not nulls_equal:
            if self.upper is None:
                digest.extend_key_by_words(hi, lo, lower)
            else:
                digest.extend_key(hi, lo, self.upper, lower)
            return
        # NULL is a value here: all batches are digested in one way, with NULLs in them or without
        upper = lower if self.upper is None else self.upper
        if self.valid is not None:
            upper, lower = np.where(self.valid, upper, NULL_DIGEST[0]), np.where(self.valid, lower, NULL_DIGEST[1])
        digest.extend_key(hi, lo, upper, lower)


def encode(column: pa.ChunkedArray | pa.Array, domain: Domain, *, name: str, labels: Labels | None = None) -> Coded:
    """Code a column in its domain; `name` is the column's name for messages.

    Complexity: O(values); `label` domains add a dictionary look-up a value.
    """
    plain = _PLAIN.get((domain.kind, column.type.id))
    array = (
        column.chunk(0) if plain and isinstance(column, pa.ChunkedArray) and column.num_chunks == 1 else _plain(column)
    )
    if plain and not array.null_count:
        if plain == "words":
            return Coded(lend(numbers(array, np.int64)), None)
        codes, upper = _digest(array)
        return Coded(codes, None, upper)
    if pa.types.is_null(array.type):
        return Coded(np.zeros(len(array), dtype=np.int64), np.zeros(len(array), dtype=np.bool_))
    valid = known(array) if array.null_count else None
    if domain.kind == "text":
        codes, upper = _digest(array)
        return Coded(codes, valid, upper)
    if domain.kind == "label":
        if labels is None:
            raise ValueError("a label domain needs its dictionary")
        text = array.cast(pa.string()) if domain.family == "decimal" else array
        lower, upper = _digest(text)
        return Coded(_label(array, labels, domain), valid, upper, lower.view(np.uint64))
    if domain.kind == "float":
        return Coded(_float_codes(array, name), valid)
    return Coded(_integers(array, domain, name), valid)


def key_digest(columns: list[Coded], rows: int, *, nulls_equal: bool = False) -> tuple[U64, U64, Mask]:
    """The 128-bit digest of each row's tuple of values, and which rows have one (no NULL in the tuple)."""
    hi, lo = np.empty(rows, dtype=np.uint64), np.empty(rows, dtype=np.uint64)
    hi.fill(digest.EMPTY_KEY[0])
    lo.fill(digest.EMPTY_KEY[1])
    usable: Mask | None = None
    for column in columns:
        column.extend(hi, lo, nulls_equal=nulls_equal)
        if column.valid is not None and not nulls_equal:
            usable = column.valid if usable is None else usable & column.valid
    return hi, lo, np.ones(rows, dtype=np.bool_) if usable is None else usable


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One contiguous array of a plain (not dictionary, not view) type."""
    types = pa.types
    data_type = column.type
    if types.is_dictionary(data_type):
        column = column.cast(data_type.value_type)
    if types.is_string_view(data_type):
        column = column.cast(pa.large_string())
    if types.is_binary_view(data_type) or types.is_fixed_size_binary(data_type):
        column = column.cast(pa.large_binary())
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        if types.is_string(column.type) and column.nbytes >= 2**31:
            column = column.cast(pa.large_string())
        return column.combine_chunks() if column.num_chunks else pa.array([], type=column.type)
    return column


def _digest(array: pa.Array) -> tuple[I64, U64]:
    n = len(array)
    hi, lo = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    if n == 0:
        return lo.view(np.int64), hi
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offset_buffer, data_buffer = array.buffers()
    data = np.zeros(1, dtype=np.uint8)
    if data_buffer is not None and data_buffer.size:
        data = np.frombuffer(data_buffer, dtype=np.uint8)
    raw: NDArray[Any] = np.frombuffer(offset_buffer, dtype=np.int64 if large else np.int32)[
        array.offset : array.offset + n + 1
    ]
    if n < _SMALL:
        text = data[raw[0] : raw[-1]].copy() if raw[-1] > raw[0] else data[:1]
        digest.digest_bytes(text, (raw - raw[0]).astype(np.int32), hi, lo)
        return lo.view(np.int64), hi
    data = lend(data)
    if not large:
        digest.digest_bytes(data, lend(raw), hi, lo)
        return lo.view(np.int64), hi
    start = 0
    while start < n:
        # as many strings as 31-bit offsets reach
        end = max(start + 1, int(np.searchsorted(raw, raw[start] + 2**31 - 1, side="right")) - 1)
        offsets = (raw[start : end + 1] - raw[start]).astype(np.int32)
        digest.digest_bytes(data[raw[start] : max(raw[end], raw[start] + 1)], offsets, hi[start:end], lo[start:end])
        start = end
    return lo.view(np.int64), hi


Array = TypeVar("Array", bound=NDArray[Any])


def lend(view: Array) -> Array:
    """The same memory marked writable: a kernel compiled once serves all arrays, and none here is written."""
    if view.flags.writeable:
        return view
    if view.size < _SMALL:
        return view.copy()
    interface = dict(view.__array_interface__)
    interface["data"] = (interface["data"][0], False)
    return np.asarray(_Memory(interface, view))  # type: ignore[return-value]


class _Memory:
    """Lends out memory through the array interface and keeps its owner alive."""

    def __init__(self, interface: dict[str, object], owner: object) -> None:
        self.__array_interface__ = interface
        self._owner = owner


def _label(array: pa.Array, labels: Labels, domain: Domain) -> I64:
    if domain.family == "decimal":
        array = array.cast(pa.decimal256(76, domain.scale))
    values = array.to_pylist()
    assigned = labels.assign(value for value in values if value is not None)
    codes = np.zeros(len(values), dtype=np.int64)
    codes[[value is not None for value in values]] = assigned
    return codes


def _float_codes(array: pa.Array, name: str) -> I64:
    if pa.types.is_integer(array.type):
        _refuse_inexact(array, name)
    if array.type != _DOUBLE:
        array = array.cast(_DOUBLE, safe=False)
    if array.null_count:
        array = array.fill_null(0.0)
    return float_codes(lend(numbers(array, np.float64)))


def float_codes(values: NDArray[np.float64]) -> I64:
    """Codes of doubles: they order as the numbers do, NaN last, -0.0 and 0.0 alike.

    Examples
    --------
    >>> codes = float_codes(np.array([-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, np.nan]))
    >>> bool((np.diff(codes) >= 0).all()), bool(codes[2] == codes[3])
    (True, True)
    """
    codes = np.empty(values.size, dtype=np.int64)
    floats.order_codes(values, values.view(np.int64), codes)
    return codes


def _refuse_inexact(array: pa.Array, name: str) -> None:
    extremes = pc.min_max(array)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    if low is not None and (low < -_EXACT_INT or high > _EXACT_INT):
        value = high if high > _EXACT_INT else low
        raise DataError(
            f"column {name!r} holds {value}, too large to be compared exactly with floating-point values",
            hint="cast both columns to a decimal type, or the floating-point column to an integer",
        )


def _integers(array: pa.Array, domain: Domain, name: str) -> I64:
    data_type = array.type
    types = pa.types
    if domain.family == "decimal":
        return _scaled(array, domain, name)
    if types.is_boolean(data_type):
        array = array.cast(pa.int8())
    elif types.is_uint64(data_type):
        high = pc.max(array).as_py()
        if high is not None and high > 2**63 - 1:
            raise DataError(
                f"column {name!r} holds {high}, above the largest 64-bit integer {2**63 - 1}",
                hint="cast the column to decimal(20, 0) or to text",
            )
    elif types.is_date(data_type):
        array = array.cast(pa.date64()).cast(pa.int64())
    elif domain.value_type is not None:
        array = _cast(array, domain.value_type, name).cast(pa.int64())
    whole = array if types.is_int64(array.type) else array.cast(pa.int64())
    return lend(numbers(whole.fill_null(0) if whole.null_count else whole, np.int64))


def _cast(array: pa.Array, data_type: pa.DataType, name: str) -> pa.Array:
    try:
        return array.cast(data_type)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"column {name!r} holds a value outside the range of {data_type}: {error}",
            hint="use a coarser time unit for this column",
        ) from error


def _scaled(array: pa.Array, domain: Domain, name: str) -> I64:
    """Decimals (and integers beside them) as integers at the domain's scale."""
    try:
        exact = array.cast(pa.decimal128(38, domain.scale))
        factor = pa.scalar(10**domain.scale, type=pa.decimal128(domain.scale + 1, 0))
        shifted = pc.multiply(exact.cast(pa.decimal256(76 - domain.scale - 2, domain.scale)), factor)
        whole = shifted.cast(pa.decimal128(38, 0)).cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise DataError(
            f"column {name!r} holds a value too large for 18 digits at scale {domain.scale}: {error}",
            hint="give both columns the same decimal type",
        ) from error
    return lend(numbers(whole.fill_null(0), np.int64))
