"""How compared columns are coded: as 64-bit integers that compare as the values do.

A domain is a set of columns that rules compare. All of them are coded the same way:

| kind | values | code |
|---|---|---|
| `int` | whole numbers of a unit that 64 bits hold: integers, booleans, dates, times, short decimals | the number |
| `float` | floating point, also ordered among integers | the bits of the double, so that codes order as values do |
| `digest` | all others, for equality | 64 bits of the 128-bit digest of the value |
| `label` | text, bytes and long decimals, for order | a label from an order-keeping dictionary |

`data/values.py` says what values mean; a domain only says how that is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.buffers import known, lend, numbers, plain
from holdstrue.data.digests import digests, doubles, limbs, whole_numbers
from holdstrue.data.labels import Labels
from holdstrue.data.seed import Seed
from holdstrue.data.values import CLOCKS, UNITS, Family, common_families, family_of, plain_type
from holdstrue.errors import DataError
from holdstrue.kernels import digest, floats
from holdstrue.typing import F64, I64, U64, Mask

DomainKind: TypeAlias = Literal["int", "float", "digest", "label"]

EXACT_DIGITS = 18
"""Decimals of up to this many digits fit a 64-bit integer at their scale."""

_SHORT_SCALE = 6
"""Up to this scale, integers ordered together with short decimals are coded at the decimals' scale: 12 digits are
left for them, and a larger one is refused by name. Beyond, order is kept by labels, which hold any number."""


@dataclass(frozen=True)
class Domain:
    """How a set of compared columns is coded."""

    kind: DomainKind
    family: Family
    seed: Seed
    scale: int = 0
    """The decimal places of `int` codes."""
    unit: str = ""
    """Of times, timestamps and durations."""
    unsigned: bool = False
    """Whether codes are 2^63 less than the values, which are of 64 bits without a sign."""

    @property
    def value_type(self) -> pa.DataType | None:
        """The Arrow type every column of the domain is cast to before coding, if one is needed."""
        if self.family in ("timestamp", "zoned"):
            return pa.timestamp(self.unit, tz="UTC" if self.family == "zoned" else None)
        if self.family == "duration":
            return pa.duration(self.unit)
        if self.family == "time":
            return pa.time64(self.unit)
        return None


def domain_of(data_types: Iterable[pa.DataType], *, ordered: bool, seed: Seed) -> Domain | None:
    """The common domain of compared columns, or None when they do not compare.

    Examples
    --------
    >>> seed = Seed.new()
    >>> domain_of([pa.int64(), pa.float32()], ordered=True, seed=seed).kind
    'float'
    >>> domain_of([pa.int64(), pa.float32()], ordered=False, seed=seed).kind
    'digest'
    >>> domain_of([pa.string(), pa.int64()], ordered=False, seed=seed) is None
    True
    """
    types = [plain_type(data_type) for data_type in data_types]
    families = common_families(types)
    if families is None:
        return None
    known = [data_type for data_type in types if not pa.types.is_null(data_type)]
    if not known:
        return Domain("int", "null", seed)
    if "decimal" in families:
        return _decimals(known, ordered=ordered, seed=seed)
    if "float" in families:
        exact = all(pa.types.is_floating(t) or t.bit_width <= 32 for t in known)
        return Domain("float" if exact or ordered else "digest", "float", seed)
    [family] = families
    if family == "integer":
        return _integers(known, ordered=ordered, seed=seed)
    if family in ("text", "bytes"):
        return Domain("label" if ordered else "digest", family, seed)
    if family in CLOCKS:
        units = sorted(UNITS.index(data_type.unit) for data_type in known)
        if family == "time":
            return Domain("int", family, seed, unit=UNITS[max(units[-1], UNITS.index("us"))])
        # the finest unit may not reach as far as the coarsest
        return Domain("int" if ordered or units[0] == units[-1] else "digest", family, seed, unit=UNITS[units[-1]])
    return Domain("int", family, seed)


def _integers(types: list[pa.DataType], *, ordered: bool, seed: Seed) -> Domain:
    unsigned = [pa.types.is_unsigned_integer(data_type) for data_type in types]
    large = any(pa.types.is_uint64(data_type) for data_type in types)
    if large and all(unsigned):
        return Domain("int", "integer", seed, unsigned=True)
    return Domain("int" if ordered or not large else "digest", "integer", seed)


def _decimals(types: list[pa.DataType], *, ordered: bool, seed: Seed) -> Domain:
    decimals = [data_type for data_type in types if family_of(data_type) == "decimal"]
    scale = max(0, *(data_type.scale for data_type in decimals))
    own = max(data_type.precision - data_type.scale for data_type in decimals) + scale
    whole = max((_digits(data_type) for data_type in types if family_of(data_type) == "integer"), default=0) + scale
    if max(own, whole) <= EXACT_DIGITS or (ordered and own <= EXACT_DIGITS and scale <= _SHORT_SCALE):
        return Domain("int", "decimal", seed, scale=scale)
    return Domain("label" if ordered else "digest", "decimal", seed)


def _digits(integer: pa.DataType) -> int:
    """Digits of the largest value of an integer type."""
    return len(str(2 ** (integer.bit_width - (not pa.types.is_unsigned_integer(integer)))))


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


def encode(
    column: pa.ChunkedArray | pa.Array,
    domain: Domain,
    *,
    name: str,
    labels: Labels | None = None,
    digested: bool = True,
) -> Coded:
    """Code a column in its domain; `name` is the column's name for messages.

    Values with labels are also digested, unless nobody asks which are equal over time.

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
        lanes = digests(array, domain.seed) if digested else ()
        return Coded(_label(array, labels), valid, domain.seed, *lanes)
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
    if not array.null_count:
        return labels.assign_array(array)
    valid = known(array)
    codes = np.zeros(len(array), dtype=np.int64)
    codes[valid] = labels.assign_array(array.drop_null())
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
