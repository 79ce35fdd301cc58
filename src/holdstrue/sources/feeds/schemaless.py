"""Values of events without a schema block: as the table's types say, where these leave no doubt.

JSON has text, numbers, true and false. What Debezium writes in them for other types can be told in some cases:

| column of the table | taken | refused |
|---|---|---|
| bytes | base64 | what is not base64 |
| date | days since 1970, or text | |
| decimal | numbers, text that can only be a decimal number, structs of scale and value | base64: of which scale? |
| time, timestamp, duration | text; numbers whose unit the user gives | numbers: ms, us or ns? |
| float | numbers, "NaN", "Infinity", "-Infinity" | |
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from holdstrue.data.values import family_of
from holdstrue.errors import ChangeError
from holdstrue.sources.dicts import values_column
from holdstrue.sources.feeds.cells import (
    Cells,
    as_float,
    decimal_array,
    floats,
    from_base64,
    plain_numbers,
    unit_option,
    unscaled,
)
from holdstrue.sources.feeds.connect import Field
from holdstrue.sources.feeds.decoding import decode, durations, since_epoch, times_of_day

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SCHEMAS = "send the schema block with the events (value.converter.schemas.enable=true)"
_WRITTEN = frozenset({
    ("integer", "date"), ("text", "bytes"), ("text", "float"),
    ("text", "decimal"), ("float", "decimal"), (None, "decimal"),
})  # fmt: skip
_TIMES = ("time", "timestamp", "zoned", "duration")


def needs_reading(have: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of a table of events holds what JSON has for the type it should have.

    >>> needs_reading(pa.int32(), pa.date32()), needs_reading(pa.date32(), pa.date32())
    (True, False)
    """
    held, needed = family_of(have), family_of(wanted)
    return (held, needed) in _WRITTEN or (held == "integer" and needed in _TIMES)


def read_column(cells: Cells, wanted: pa.DataType | None) -> Any:
    """The values of a column as the type that the table has; as what they look like where it is not known.

    >>> read_column(Cells("day", [19753]), pa.date32()).to_pylist()
    [datetime.date(2024, 1, 31)]
    >>> read_column(Cells("at", [1706659200000]), pa.timestamp("ms"))
    Traceback (most recent call last):
    holdstrue.errors.ChangeError: value 1: column 'at' holds 1706659200000: milliseconds, microseconds or nanoseconds?
    hint: send the schema block with the events (value.converter.schemas.enable=true), or give its unit: ms, us or ns \
(--unit at=us; in Python units={'at': 'us'})
    """
    if wanted is None or pa.types.is_null(wanted):
        return _inferred(cells)
    if cells.unit is not None and family_of(wanted) not in _TIMES:
        cells.refuse_column(f"a unit ({cells.unit}) was given, but the column is {wanted}", "units are for times")
    numbers = all(value is None or type(value) is int for value in cells.values)
    match family_of(wanted):
        case "date" if numbers:
            return decode(cells, Field("int32", "io.debezium.time.Date"), wanted)
        case "time" | "timestamp" | "zoned" | "duration" as what if numbers and not _all_null(cells):
            return _counted(cells, what, wanted)
        case "bytes" if all(value is None or type(value) in (str, bytes) for value in cells.values):
            found = [from_base64(value) for value in cells.values]
            cells.check_against(found, f"base64, as Debezium writes bytes ({wanted})", _SCHEMAS)
            return pa.array(found, pa.binary())
        case "decimal" if any(isinstance(value, dict) for value in cells.values):
            return decode(cells, Field("struct", "io.debezium.data.VariableScaleDecimal"), wanted)
        case "decimal":
            return _decimals(cells, wanted)
        case "float" if all(value is None or type(value) in _FLOATS for value in cells.values):
            values = [as_float(value) for value in cells.values]
            cells.check_against(values, f"a number ({wanted})")
            return floats(cells, values, wanted)
        case _:
            return _typed(cells, wanted)


_FLOATS = (int, float, Decimal, str)


def _all_null(cells: Cells) -> bool:
    return all(value is None for value in cells.values)


def _counted(cells: Cells, what: str, wanted: pa.DataType) -> Any:
    if cells.unit is None:
        cells.refuse_column(
            "milliseconds, microseconds or nanoseconds?",
            f"{_SCHEMAS}, or give its unit: ms, us or ns ({unit_option(cells.name, 'us')})",
        )
    if what == "time":
        return times_of_day(cells, cells.unit, str(wanted))
    if what == "duration":
        return durations(cells, cells.unit, str(wanted))
    return since_epoch(cells, cells.unit, wanted, str(wanted))


def _decimals(cells: Cells, wanted: pa.DataType) -> Any:
    """Numbers as they are written. Text may be base64 as well: some of it must show that it is not."""
    texts = [(i, value) for i, value in enumerate(cells.values) if type(value) is str]
    for i, value in texts:
        if not _NUMBER.fullmatch(value):
            cells.refuse(
                i,
                f"a decimal number ({wanted})",
                f"if this is base64, only the schema block tells its scale: {_SCHEMAS}, or set "
                "decimal.handling.mode=string in the connector",
            )
    if texts and all(from_base64(value) is not None for _, value in texts):
        cells.refuse(
            texts[0][0],
            f"a decimal number that cannot be base64 as well ({wanted})",
            f"{_SCHEMAS}, or set value.converter.decimal.format=NUMERIC with decimal.handling.mode=precise",
        )
    found = [unscaled(Decimal(value) if type(value) is str else value) for value in cells.values]
    cells.check_against(found, f"a decimal number ({wanted})")
    return decimal_array(cells, found, None, None)


def _inferred(cells: Cells) -> Any:
    if cells.unit is not None:
        return since_epoch(cells, cells.unit, None, "as its unit says")
    fractions = [value for value in cells.values if type(value) is Decimal]
    numbers = fractions and all(value is None or type(value) in (int, Decimal) for value in cells.values)
    if numbers and any(Decimal(repr(float(value))) != value for value in fractions):
        # more digits than a double has: only a decimal can have been sent
        found = [unscaled(value) for value in cells.values]
        cells.check_against(found, "a number")
        return decimal_array(cells, found, None, None)
    return _typed(cells, None)


def _typed(cells: Cells, wanted: pa.DataType | None) -> Any:
    """Numbers as JSON is commonly read, and text that holds only dates or times as such."""
    values = plain_numbers(cells.values)
    return values_column(values, wanted, cells.name, cells.place, temporal=True, error=ChangeError)
