"""Arrow columns into codes that compare as their values do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.buffers import known, lend, numbers, plain
from holdstrue.data.digests import digests, doubles, limbs, whole_numbers
from holdstrue.data.domain import Domain
from holdstrue.data.labels import Labels
from holdstrue.data.seed import Seed
from holdstrue.data.values import family_of
from holdstrue.errors import DataError
from holdstrue.kernels import digest, floats
from holdstrue.typing import F64, I64, U64, Mask

_INT64 = pa.int64().id
_TEXT = pa.string().id
_EXACT_INT = 2**53
_SIGN = np.uint64(2**63)


@dataclass(frozen=True)
class Coded:
    """A column's codes, which are known (all, when `valid` is None), and its digests where codes are not content.

    `upper` and `lower` are the lanes of the values' digests; where both are None the code itself stands for the
    value, where `lower` is None the code is the lower lane.
    """

    codes: I64
    valid: Mask | None
    seed: Seed
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
                digest.extend_key_by_words(hi, lo, lower, self.seed.keys)
            else:
                digest.extend_key(hi, lo, self.upper, lower, self.seed.keys)
            return
        # NULL is a value here: all batches are digested in one way, with NULLs in them or without
        upper = lower if self.upper is None else self.upper
        if self.valid is not None:
            null = self.seed.null
            upper, lower = np.where(self.valid, upper, null[0]), np.where(self.valid, lower, null[1])
        digest.extend_key(hi, lo, upper, lower, self.seed.keys)


def encode(column: pa.ChunkedArray | pa.Array, domain: Domain, *, name: str, labels: Labels | None = None) -> Coded:
    """Code a column in its domain; `name` is the column's name for messages.

    Complexity: O(values); `label` domains add a dictionary look-up a value.
    """
    # the common cases first: asking more of a type would cost more than coding a small batch
    common = column.type.id
    if (common == _INT64 and domain.kind == "int" and domain.family == "integer" and not domain.unsigned) or (
        common == _TEXT and domain.kind == "digest"
    ):
        array = column.chunk(0) if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1 else plain(column)
        if not array.null_count:
            if common == _INT64:
                return Coded(lend(numbers(array, np.int64)), None, domain.seed)
            hi, lo = digests(array, domain.seed)
            return Coded(lo.view(np.int64), None, domain.seed, hi)
    array = plain(column)
    if pa.types.is_null(array.type):
        return Coded(np.zeros(len(array), dtype=np.int64), np.zeros(len(array), dtype=np.bool_), domain.seed)
    valid = known(array) if array.null_count else None
    if domain.kind == "digest":
        hi, lo = digests(array, domain.seed)
        return Coded(lo.view(np.int64), valid, domain.seed, hi)
    if domain.kind == "label":
        if labels is None:
            raise ValueError("a label domain needs its dictionary")
        hi, lo = digests(array, domain.seed)
        return Coded(_label(array, labels), valid, domain.seed, hi, lo)
    codes = _floats(array, valid, name) if domain.kind == "float" else _whole(array, valid, domain, name)
    return Coded(codes if valid is None else np.where(valid, codes, 0), valid, domain.seed)


def key_digest(columns: list[Coded], rows: int, seed: Seed, *, nulls_equal: bool = False) -> tuple[U64, U64, Mask]:
    """The 128-bit digest of each row's tuple of values, and which rows have one (no NULL in the tuple)."""
    hi, lo = np.empty(rows, dtype=np.uint64), np.empty(rows, dtype=np.uint64)
    start = seed.start
    hi.fill(start[0])
    lo.fill(start[1])
    usable: Mask | None = None
    for column in columns:
        column.extend(hi, lo, nulls_equal=nulls_equal)
        if column.valid is not None and not nulls_equal:
            usable = column.valid if usable is None else usable & column.valid
    return hi, lo, np.ones(rows, dtype=np.bool_) if usable is None else usable


def _label(array: pa.Array, labels: Labels) -> I64:
    values = array.to_pylist()
    assigned = labels.assign(value for value in values if value is not None)
    codes = np.zeros(len(values), dtype=np.int64)
    codes[[value is not None for value in values]] = assigned
    return codes


def _floats(array: pa.Array, valid: Mask | None, name: str) -> I64:
    if family_of(array.type) == "float":
        return float_codes(doubles(array))
    values = lend(numbers(array, np.uint64)) if pa.types.is_uint64(array.type) else whole_numbers(array)
    rounded = values.astype(np.float64)
    if array.type.bit_width == 64:
        _refuse_rounded(values, rounded, valid, name)
    return float_codes(rounded)


def _refuse_rounded(values: NDArray[np.integer], rounded: F64, valid: Mask | None, name: str) -> None:
    """Refuse integers that no double equals."""
    large = np.flatnonzero((np.abs(rounded) >= _EXACT_INT) & (True if valid is None else valid))
    for row in large.tolist():
        if int(rounded[row]) != int(values[row]):
            raise DataError(
                f"column {name!r} holds {values[row]}, which cannot be ordered exactly among floating-point values",
                hint="cast both columns to a decimal type, or the floating-point column to an integer",
            )


def float_codes(values: F64) -> I64:
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


def _whole(array: pa.Array, valid: Mask | None, domain: Domain, name: str) -> I64:
    """Values as whole numbers of the domain's unit."""
    family = family_of(array.type)
    if domain.family == "decimal":
        return _scaled(array, valid, domain, name)
    if domain.unsigned:
        # numbers of 64 bits without a sign, moved so that they order with one
        values = whole_numbers(array) if array.type.bit_width < 64 else numbers(array, np.int64)
        return (values.view(np.uint64) ^ _SIGN).view(np.int64)
    if family == "integer" and pa.types.is_uint64(array.type):
        words = numbers(array, np.uint64)
        large = np.flatnonzero((words >= _SIGN) & (True if valid is None else valid))
        if large.size:
            raise DataError(
                f"column {name!r} holds {words[large[0]]}, above the largest 64-bit integer {2**63 - 1}, "
                "and is ordered among integers with a sign",
                hint="cast both columns to decimal(20, 0)",
            )
        return lend(words.view(np.int64))
    if domain.value_type is not None:
        array = _cast(array, domain.value_type, name)
    return whole_numbers(array)


def _cast(array: pa.Array, data_type: pa.DataType, name: str) -> pa.Array:
    try:
        return array.cast(data_type)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"column {name!r} holds a value outside the range of {data_type}: {error}",
            hint="use a coarser time unit for this column",
        ) from error


def _scaled(array: pa.Array, valid: Mask | None, domain: Domain, name: str) -> I64:
    """Short decimals (and integers beside them) as integers at the domain's scale."""
    if family_of(array.type) == "decimal":
        # the types say that 18 digits hold them at this scale
        return limbs(array)[:, 0].view(np.int64) * np.int64(10 ** (domain.scale - array.type.scale))
    most = (2**63 - 1) // 10**domain.scale
    values = numbers(array, np.uint64) if pa.types.is_uint64(array.type) else whole_numbers(array)
    beyond = (values > most) if values.dtype == np.uint64 else (values > most) | (values < -most)
    large = np.flatnonzero(beyond & (True if valid is None else valid))
    if large.size:
        raise DataError(
            f"column {name!r} holds {values[large[0]]}, too large to be ordered among decimals of scale {domain.scale}",
            hint="cast the column to decimal(38, 0)",
        )
    return values.astype(np.int64) * np.int64(10**domain.scale)
