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

import pyarrow as pa

from holdstrue.data.seed import Seed
from holdstrue.data.values import CLOCKS, UNITS, Family, common_families, family_of, plain_type

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
