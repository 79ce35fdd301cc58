"""Values of Debezium's events as Arrow columns, by what their schema block says of them.

| logical type | written as | becomes |
|---|---|---|
| none, bytes | base64 | binary |
| connect `Decimal`, `VariableScaleDecimal` | base64, big-endian two's complement | decimal of that scale |
| `Bits` | base64, the lowest byte first | binary; an integer where the table has one |
| `Date`, connect `Date` | days since 1970 | date32 |
| `Time`, `MicroTime`, `NanoTime`, connect `Time` | ms, us or ns since midnight | time in that unit |
| `Timestamp`, `MicroTimestamp`, `NanoTimestamp`, connect `Timestamp` | since 1970 | timestamp without zone |
| `MicroDuration`, `NanoDuration` | us or ns | duration in that unit |
| `ZonedTimestamp` | text with a zone | timestamp in UTC |
| `IsoDate`, `IsoTime`, `IsoTimestamp`, `ZonedTime` | text in UTC | date32, time, timestamp without zone |
| `Interval` | text | text; a duration where the table has one |
| others, as `Uuid`, `Enum`, `Json`, `Xml`, `Year` | as it is | its literal type |

Debezium's are in `io.debezium.time` and `io.debezium.data`, connect's in `org.apache.kafka.connect.data`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.values import family_of
from holdstrue.sources.feeds.cells import (
    MOST_DIGITS,
    Cells,
    as_float,
    decimal_array,
    floats,
    from_base64,
    is_unavailable,
    is_whole,
    plain_numbers,
    unit_option,
    unscaled,
)
from holdstrue.sources.feeds.connect import Field
from holdstrue.sources.fit import is_bytes

_CONNECT = "org.apache.kafka.connect.data."
_TIME = "io.debezium.time."
_DATA = "io.debezium.data."

_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_INTERVAL = re.compile(r"P(-?\d+)Y(-?\d+)M(-?\d+)DT(-?\d+)H(-?\d+)M(-?\d+(?:\.\d{1,6})?)S")
_LITERAL = {
    "int8": pa.int64(), "int16": pa.int64(), "int32": pa.int64(), "int64": pa.int64(),
    "boolean": pa.bool_(), "string": pa.string(),
}  # fmt: skip


def decode(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    """The values of a column as its field says, in the type of the table where the field leaves a choice.

    Complexity: O(values).

    >>> day = Field("int32", "io.debezium.time.Date")
    >>> decode(Cells("day", [19753, None]), day, None).to_pylist()
    [datetime.date(2024, 1, 31), None]
    """
    if cells.unit is not None and _UNITS.get(field.name or "") != cells.unit:
        cells.refuse_type(field, f"which does not count {cells.unit}", f"leave out the unit of {cells.name!r}")
    reader = _READERS.get(field.name or "")
    if reader is not None:
        return reader(cells, field, wanted)
    if field.name and field.name.startswith((_TIME, _CONNECT)):
        cells.refuse_type(field, "whose meaning is not known here", "leave the column out of the events, or convert it")
    return _literal(cells, field, wanted)


def _literal(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    if field.type in ("float", "double"):
        return _numbers(cells, field, wanted)
    if field.type == "bytes":
        return pa.array(_bytes(cells, field), pa.binary())
    if field.type in ("struct", "array", "map"):
        return pa.array(plain_numbers(cells.values))
    if field.type not in _LITERAL:
        cells.refuse_type(field, "which is no type of Kafka Connect", "is the schema block whole?")
    if field.type == "string":
        if wanted is not None and is_bytes(wanted):
            cells.refuse_type(
                field,
                "but bytes in the table: base64, hex or text cannot be told apart",
                "set binary.handling.mode=bytes in the connector",
            )
        cells.check(lambda value: type(value) is str, f"text ({field})")
    elif field.type == "boolean":
        cells.check(lambda value: type(value) is bool, f"true or false ({field})")
    else:
        cells.check(is_whole, f"a whole number ({field})")
    return pa.array(cells.values, _LITERAL[field.type])


def _numbers(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    """Floats; where the table has decimals, the digits as they are written."""
    if wanted is not None and pa.types.is_decimal(wanted):
        found = [unscaled(value) for value in cells.values]
        cells.check_against(found, f"a number ({field})")
        return decimal_array(cells, found, None, None)
    values = [as_float(value) for value in cells.values]
    cells.check_against(values, f"a number ({field})")
    natural = pa.float32() if field.type == "float" else pa.float64()
    # what is written as 0.1 is 0.1 in the table's own width, not 0.1 in 32 bits made wider
    type_ = wanted if wanted is not None and pa.types.is_floating(wanted) else natural
    return floats(cells, values, type_)


def _bytes(cells: Cells, field: Field) -> list[bytes | None]:
    values = [from_base64(value) for value in cells.values]
    cells.check_against(values, f"base64 ({field})")
    return values


def _decimals(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    """Base64 of the unscaled value, or a number where the converter has `decimal.format=NUMERIC`."""
    scale = field.scale
    if scale is None or abs(scale) > MOST_DIGITS:
        cells.refuse_type(
            field, f"of which a scale within {MOST_DIGITS} is needed", "it is `parameters.scale` in the schema block"
        )
    found = [
        _from_bytes(value, scale) if type(value) in (str, bytes) else unscaled(value) for value in cells.values
    ]  # fmt: skip
    cells.check_against(found, f"base64 or a number of at most {MOST_DIGITS} digits ({field})")
    fitting = [value is None or value[1] <= scale or value[0] % 10 ** (value[1] - scale) == 0 for value in found]
    cells.check_all(fitting, f"no more digits than a {field} has")
    return _as_wanted(cells, found, scale, field.precision, wanted)


def _variable_decimals(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    """Structs of a scale and an unscaled value: a column of the largest scale that occurs."""
    found = [
        _from_bytes(value.get("value"), value["scale"])
        if isinstance(value, dict) and is_whole(value.get("scale")) and abs(value["scale"]) <= MOST_DIGITS else None
        for value in cells.values
    ]  # fmt: skip
    cells.check_against(found, f"a scale and a base64 value of at most {MOST_DIGITS} digits ({field})")
    return _as_wanted(cells, found, None, None, wanted)


def _as_wanted(
    cells: Cells,
    found: list[tuple[int, int] | None],
    scale: int | None,
    precision: int | None,
    wanted: pa.DataType | None,
) -> Any:
    if wanted is not None and pa.types.is_floating(wanted):
        # Arrow's own cast from decimals may miss the nearest double
        nearest = [None if v is None else float(Decimal(f"{v[0]}e{-v[1]}")) for v in found]
        return floats(cells, nearest, wanted)
    return decimal_array(cells, found, scale, precision)


def _from_bytes(value: Any, scale: int) -> tuple[int, int] | None:
    raw = None if is_unavailable(value) else from_base64(value)
    # a decimal of 76 digits takes 32 bytes
    return None if not raw or len(raw) > 33 else (int.from_bytes(raw, "big", signed=True), scale)


def _bits(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    values = _bytes(cells, field)
    if wanted is not None and pa.types.is_integer(wanted):
        numbers = [None if value is None else int.from_bytes(value, "little") for value in values]
        cells.check_all([n is None or n < 2**64 for n in numbers], "at most 64 bits")
        return pa.array(numbers, pa.uint64())
    return pa.array(values, pa.binary())


def _days(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    cells.check(lambda value: is_whole(value) and -(2**31) <= value < 2**31, f"days since 1970-01-01 ({field})")
    return pc.cast(pa.array(cells.values, pa.int32()), pa.date32())


def _unit(field: Field) -> str:
    return _UNITS[field.name or ""]


def _times(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    if wanted is not None and pa.types.is_duration(wanted):  # MySQL's TIME is one
        return durations(cells, _unit(field), str(field))
    return times_of_day(cells, _unit(field), str(field))


def times_of_day(cells: Cells, unit: str, said: str) -> Any:
    """Numbers of units since midnight as times."""
    whole = _DAY[unit]
    cells.check(
        lambda value: is_whole(value) and 0 <= value < whole,
        f"{unit} since midnight ({said})",
        "a time lies within one day; durations of MySQL fit a column of durations",
    )
    if unit == "ms":
        return pc.cast(pa.array(cells.values, pa.int32()), pa.time32("ms"))
    return pc.cast(pa.array(cells.values, pa.int64()), pa.time64(unit))


def _timestamps(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    unit = _unit(field)
    if wanted is not None and family_of(wanted) == "zoned" and cells.unit is None:
        cells.refuse_type(
            field,
            "which has no zone, but the table's column has one",
            f"give its unit to read it as UTC ({unit_option(cells.name, unit)}), or load the table without zones",
        )
    return since_epoch(cells, unit, wanted, str(field))


def since_epoch(cells: Cells, unit: str, wanted: pa.DataType | None, said: str) -> Any:
    """Numbers of units since 1970-01-01 as timestamps, in UTC where the table's column has a zone."""
    cells.check(is_whole, f"{unit} since 1970-01-01 ({said})")
    zone = "UTC" if wanted is not None and family_of(wanted) == "zoned" else None
    return pc.cast(pa.array(cells.values, pa.int64()), pa.timestamp(unit, zone))


def durations(cells: Cells, unit: str, said: str) -> Any:
    """Numbers of units as durations."""
    cells.check(is_whole, f"{unit} ({said})")
    return pc.cast(pa.array(cells.values, pa.int64()), pa.duration(unit))


def _durations(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    return durations(cells, _unit(field), str(field))


def _zoned_timestamps(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    return _parsed(cells, cells.values, "UTC", f"a date and time with zone ({field})")


def _iso_timestamps(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    said = f"a date and time in UTC ({field})"
    if wanted is not None and family_of(wanted) == "zoned":
        return _parsed(cells, cells.values, "UTC", said)
    return _parsed(cells, _in_utc(cells.values), None, said)


def _iso_dates(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    return cells.cast(_in_utc(cells.values), (pa.date32(),), f"a date ({field})")


def _zoned_times(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    if wanted is not None and family_of(wanted) == "text":
        return _literal(cells, Field("string", field.name), wanted)
    stamps = [None if value is None else f"1970-01-01T{value}" for value in _in_utc(cells.values)]
    parsed = _parsed(cells, stamps, None, f"a time in UTC ({field})")
    return pc.cast(parsed, pa.time64(parsed.type.unit))


def _parsed(cells: Cells, values: Sequence[Any], zone: str | None, said: str) -> Any:
    return cells.cast(values, (pa.timestamp("us", zone), pa.timestamp("ns", zone)), said)


def _in_utc(values: Sequence[Any]) -> list[Any]:
    """Text without the mark of UTC; that of another zone stays and does not parse."""
    return [value.removesuffix("Z").removesuffix("+00:00") if type(value) is str else value for value in values]


def _intervals(cells: Cells, field: Field, wanted: pa.DataType | None) -> Any:
    if wanted is None or not pa.types.is_duration(wanted):
        return _literal(cells, Field("string", field.name), wanted)
    found = [_micros(value) for value in cells.values]
    cells.check_against(
        found, f"days, hours, minutes and seconds ({field})", "months and years have no length of their own"
    )
    return pc.cast(pa.array(found, pa.int64()), pa.duration("us"))


def _micros(value: Any) -> int | None:
    match = _INTERVAL.fullmatch(value) if type(value) is str else None
    if match is None or int(match[1]) or int(match[2]):
        return None
    days, hours, minutes = (int(match[i]) for i in (3, 4, 5))
    return ((days * 24 + hours) * 60 + minutes) * 60_000_000 + int(Decimal(match[6]) * 1_000_000)


_COUNTED = (("ms", ""), ("us", "Micro"), ("ns", "Nano"))

_UNITS = {
    _CONNECT + "Time": "ms",
    _CONNECT + "Timestamp": "ms",
    **{f"{_TIME}{size}{what}": unit for unit, size in _COUNTED for what in ("Time", "Timestamp")},
    **{f"{_TIME}{size}Duration": unit for unit, size in _COUNTED[1:]},
}

_READERS: dict[str, Callable[[Cells, Field, pa.DataType | None], Any]] = {
    _CONNECT + "Decimal": _decimals,
    _CONNECT + "Date": _days,
    _CONNECT + "Time": _times,
    _CONNECT + "Timestamp": _timestamps,
    _DATA + "VariableScaleDecimal": _variable_decimals,
    _DATA + "Bits": _bits,
    _TIME + "Date": _days,
    **{f"{_TIME}{size}Time": _times for _, size in _COUNTED},
    **{f"{_TIME}{size}Timestamp": _timestamps for _, size in _COUNTED},
    **{f"{_TIME}{size}Duration": _durations for _, size in _COUNTED[1:]},
    _TIME + "ZonedTimestamp": _zoned_timestamps,
    _TIME + "ZonedTime": _zoned_times,
    _TIME + "IsoDate": _iso_dates,
    _TIME + "IsoTime": _zoned_times,
    _TIME + "IsoTimestamp": _iso_timestamps,
    _TIME + "Interval": _intervals,
    _TIME + "Year": _literal,
}
