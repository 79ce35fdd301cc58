"""Which columns may be compared with each other, and in which common form.

A domain is a set of columns (and constants) that rules compare. All of them are coded the same way:

| kind | values | code |
|---|---|---|
| `int` | integers, booleans, dates, times, timestamps of one unit, decimals of up to 18 digits | the integer itself |
| `float` | floating point, or mixed with integers | the bits of the double, so that codes order as values do |
| `text` | strings and bytes, for equality | 64 bits of the 128-bit digest |
| `label` | strings, bytes, long decimals, for order | a label from an order-keeping dictionary |

NaN equals itself and is larger than every number; -0.0 equals 0.0. NULL has no code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa

Kind: TypeAlias = Literal["int", "float", "text", "label"]
Family: TypeAlias = Literal[
    "number", "decimal", "bool", "date", "time", "timestamp", "zoned", "duration", "text", "bytes", "null"
]

EXACT_DIGITS = 18
"""Decimals of up to this many digits fit a 64-bit integer at their scale."""

_UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class Domain:
    """How a set of compared columns is coded."""

    kind: Kind
    family: Family
    scale: int = 0
    unit: str = ""

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


def family_of(data_type: pa.DataType) -> Family | None:
    """The family a type compares in, or None for types that do not compare (lists, structs, maps).

    Examples
    --------
    >>> family_of(pa.int32()), family_of(pa.timestamp("us", "Europe/Berlin")), family_of(pa.list_(pa.int8()))
    ('number', 'zoned', None)
    """
    types = pa.types
    if types.is_dictionary(data_type):
        return family_of(data_type.value_type)
    tests: tuple[tuple[Family, bool], ...] = (
        ("null", types.is_null(data_type)),
        ("bool", types.is_boolean(data_type)),
        ("number", types.is_integer(data_type) or types.is_floating(data_type)),
        ("decimal", types.is_decimal(data_type)),
        ("date", types.is_date(data_type)),
        ("time", types.is_time(data_type)),
        ("timestamp", types.is_timestamp(data_type) and data_type.tz is None),
        ("zoned", types.is_timestamp(data_type)),
        ("duration", types.is_duration(data_type)),
        (
            "text",
            types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type),
        ),
        (
            "bytes",
            types.is_binary(data_type)
            or types.is_large_binary(data_type)
            or types.is_fixed_size_binary(data_type)
            or types.is_binary_view(data_type),
        ),
    )
    return next((family for family, holds in tests if holds), None)


def domain_of(data_types: Iterable[pa.DataType], *, ordered: bool) -> Domain | None:
    """The common domain of compared columns, or None when they do not compare.

    Examples
    --------
    >>> domain_of([pa.int64(), pa.float32()], ordered=True)
    Domain(kind='float', family='number', scale=0, unit='')
    >>> domain_of([pa.string(), pa.int64()], ordered=False) is None
    True
    """
    known = [_plain(data_type) for data_type in data_types if not pa.types.is_null(_plain(data_type))]
    families = {family_of(data_type) for data_type in known}
    if not known:
        return Domain("int", "null")
    if families == {"number", "decimal"} and not any(pa.types.is_floating(t) for t in known):
        return _decimal_domain([t for t in known if pa.types.is_decimal(t)], with_integers=True)
    if len(families) != 1:
        return None
    family = families.pop()
    if family is None:
        return None
    if family == "number":
        return Domain("float" if any(pa.types.is_floating(t) for t in known) else "int", family)
    if family == "decimal":
        return _decimal_domain(known, with_integers=False)
    if family in ("text", "bytes"):
        return Domain("label" if ordered else "text", family)
    if family in ("timestamp", "zoned", "duration", "time"):
        finest = max(_UNITS.index(data_type.unit) for data_type in known)
        return Domain("int", family, unit=_UNITS[max(finest, 2) if family == "time" else finest])
    return Domain("int", family)


def _decimal_domain(decimals: list[pa.DataType], *, with_integers: bool) -> Domain:
    scale = max(data_type.scale for data_type in decimals)
    digits = max(data_type.precision - data_type.scale for data_type in decimals) + scale
    return Domain("int" if with_integers or digits <= EXACT_DIGITS else "label", "decimal", scale=scale)


def _plain(data_type: pa.DataType) -> pa.DataType:
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type
