"""What values mean: which types there are, and how values of each compare with values of the others.

Every type belongs to a family. Values of one family compare with each other, whatever their types; of different
families only integers with floats and integers with decimals do. All comparisons are exact, as Python's `Fraction`
makes them; what could only be compared approximately (decimals with floats) is refused when a rule meets its table.

| family | types | equal when | ordered by |
|---|---|---|---|
| integer | int8 to int64, uint8 to uint64 | the same number | size |
| float | float16, float32, float64 | the same number; NaN equals itself, -0.0 equals 0.0 | size, NaN last |
| decimal | decimal32 to decimal256, scales up to their digits | the same number, whatever the scales | size |
| bool | boolean | the same | false, true |
| date | date32, date64 | the same day | time |
| time | time32, time64 | the same time of day, whatever the units | time |
| timestamp | timestamp without a zone | the same date and time, whatever the units | time |
| zoned | timestamp with a zone | the same moment, whatever the zones and units | time |
| duration | duration | the same length, whatever the units | length |
| text | string, large_string, string_view | the same code points | code points |
| bytes | binary, large_binary, binary_view, fixed_size_binary | the same bytes | bytes |
| null | null | never: there is no value | |

A dictionary-encoded column is of the family of its values. Lists, structs, maps and unions do not compare. NULL is no
value: every comparison with it is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

import pyarrow as pa

Family: TypeAlias = Literal[
    "integer", "float", "decimal", "bool", "date", "time", "timestamp", "zoned", "duration", "text", "bytes", "null"
]

NUMBERS: frozenset[Family] = frozenset({"integer", "float", "decimal"})
CLOCKS: frozenset[Family] = frozenset({"time", "timestamp", "zoned", "duration"})
"""Families whose types have a unit."""
CATEGORIES: frozenset[Family] = frozenset({"bool", "text", "bytes"})
"""Families whose order says little about what they stand for."""

UNITS = ("s", "ms", "us", "ns")
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

_TOGETHER: frozenset[frozenset[Family]] = frozenset(
    (frozenset({"integer", "float"}), frozenset({"integer", "decimal"}))
)
"""Families that compare with each other."""

_types = pa.types
_DIGITS = {32: 9, 64: 18, 128: 38, 256: 76}
"""Of the largest decimals of a width."""
_TESTS: tuple[tuple[Family, Callable[[pa.DataType], bool]], ...] = (
    ("integer", _types.is_integer),
    ("text", lambda t: _types.is_string(t) or _types.is_large_string(t) or _types.is_string_view(t)),
    ("float", _types.is_floating),
    # beyond, Arrow itself cannot print a value
    ("decimal", lambda t: _types.is_decimal(t) and abs(t.scale) <= _DIGITS[t.bit_width]),
    ("bool", _types.is_boolean),
    ("date", _types.is_date),
    ("time", _types.is_time),
    ("timestamp", lambda t: _types.is_timestamp(t) and t.tz is None),
    ("zoned", _types.is_timestamp),
    ("duration", _types.is_duration),
    (
        "bytes",
        lambda t: (
            _types.is_binary(t)
            or _types.is_large_binary(t)
            or _types.is_binary_view(t)
            or _types.is_fixed_size_binary(t)
        ),
    ),
    ("null", _types.is_null),
)


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """The type of the values of a column, seen through a dictionary, runs and extensions.

    >>> plain_type(pa.dictionary(pa.int8(), pa.string()))
    DataType(string)
    """
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_type(data_type.storage_type)
    if _types.is_dictionary(data_type) or _types.is_run_end_encoded(data_type):
        return plain_type(data_type.value_type)
    return data_type


def family_of(data_type: pa.DataType) -> Family | None:
    """The family a type compares in, or None for types that do not compare (lists, structs, maps).

    Examples
    --------
    >>> family_of(pa.int32()), family_of(pa.timestamp("us", "Europe/Berlin")), family_of(pa.list_(pa.int8()))
    ('integer', 'zoned', None)
    """
    plain = plain_type(data_type)
    return next((family for family, holds in _TESTS if holds(plain)), None)


def common_families(data_types: Iterable[pa.DataType]) -> frozenset[Family] | None:
    """The families of types that all compare with each other, NULL columns aside; None where some do not.

    Examples
    --------
    >>> sorted(common_families([pa.int8(), pa.null(), pa.float64()]))
    ['float', 'integer']
    >>> common_families([pa.decimal128(9, 2), pa.float64()]) is None
    True
    """
    found: set[Family] = set()
    for data_type in data_types:
        family = family_of(data_type)
        if family is None:
            return None
        if family != "null":
            found.add(family)
    families = frozenset(found)
    return families if len(families) < 2 or families in _TOGETHER else None
