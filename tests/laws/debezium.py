"""Rows as Debezium writes them, from its documentation alone: imports nothing of the package.

Each column has an Arrow type, values, and the ways in which events may hold them: a field of the schema block, and a
function from a value to JSON. Ways without a field are for events without a schema block.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

EPOCH = dt.datetime(1970, 1, 1)
CONNECT = "org.apache.kafka.connect.data."
TIME = "io.debezium.time."


@dataclass(frozen=True)
class Way:
    """How a value is written."""

    field: dict[str, Any] | None
    write: Callable[[Any], Any]


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    type: pa.DataType
    values: st.SearchStrategy[Any]
    ways: tuple[Way, ...]
    unit: str | None = None
    """What numbers count in events without a schema block."""


def described(type_: str, name: str | None = None, **parameters: str) -> dict[str, Any]:
    known: dict[str, Any] = {"type": type_, "optional": True}
    if name:
        known |= {"name": name, "version": 1}
    return known | ({"parameters": parameters} if parameters else {})


def base64_of(value: bytes) -> str:
    return base64.standard_b64encode(value).decode()


def two_complement(number: int) -> bytes:
    """As Java's BigInteger.toByteArray: as few bytes as hold the sign."""
    size = ((number + (number < 0)).bit_length() // 8) + 1
    return number.to_bytes(size, "big", signed=True)


def unscaled(value: Decimal, scale: int) -> str:
    return base64_of(two_complement(int(value * 10**scale)))


def shortest(value: Decimal) -> dict[str, Any]:
    """A decimal with the scale it needs."""
    scale = max(0, -int(value.normalize().as_tuple().exponent))
    return {"scale": scale, "value": unscaled(value, scale)}


def since_epoch(per_second: int) -> Callable[[dt.datetime], int]:
    return lambda value: (value - EPOCH) // dt.timedelta(microseconds=1) * per_second // 1_000_000


def of_day(per_second: int) -> Callable[[dt.time], int]:
    return lambda value: since_epoch(per_second)(dt.datetime.combine(EPOCH, value))


def as_is(value: Any) -> Any:
    return value


def column(type_: pa.DataType, values: list[Any], *ways: Way, unit: str | None = None) -> Column:
    return Column(type_, st.sampled_from(values), ways, unit)


INSTANTS = [EPOCH, dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(2024, 2, 29, 12), dt.datetime(1900, 1, 1)]
TIMES = [dt.time(0), dt.time(23, 59, 59, 999000), dt.time(0, 0, 0, 1000), dt.time(12, 30)]
DECIMALS = [
    Decimal(text) for text in ("0.000", "-0.001", "1.280", "-1.280", "999999999.999", "-999999999.999", "0.255")
]
ZONED = [at.replace(tzinfo=dt.UTC) for at in INSTANTS]
PLUS_ONE = dt.timezone(dt.timedelta(hours=1))

COLUMNS: dict[str, Column] = {
    "b": column(
        pa.binary(), [b"", b"\x00", b"\x00\x00", b"\xff\xfe", b"text", b"\x01\x00"],
        Way(described("bytes"), base64_of), Way(None, base64_of),
    ),
    "d": column(
        pa.decimal128(12, 3), DECIMALS,
        Way(described("bytes", CONNECT + "Decimal", scale="3"), lambda v: unscaled(v, 3)),
        Way(described("bytes", CONNECT + "Decimal", scale="3", **{"connect.decimal.precision": "12"}),
            lambda v: unscaled(v, 3)),
        Way(described("bytes", CONNECT + "Decimal", scale="5"), lambda v: unscaled(v, 5)),
        Way(described("struct", "io.debezium.data.VariableScaleDecimal"), shortest),
        Way(described("string"), str), Way(described("double"), float),
        Way(None, str), Way(None, shortest), Way(None, float),
    ),
    "day": column(
        pa.date32(), [at.date() for at in INSTANTS],
        Way(described("int32", TIME + "Date"), lambda v: (v - EPOCH.date()).days),
        Way(described("int32", CONNECT + "Date"), lambda v: (v - EPOCH.date()).days),
        Way(described("string", TIME + "IsoDate"), lambda v: f"{v}Z"),
        Way(None, lambda v: (v - EPOCH.date()).days), Way(None, str),
    ),
    "tm": column(
        pa.time64("us"), TIMES,
        Way(described("int32", TIME + "Time"), of_day(1000)), Way(described("int32", CONNECT + "Time"), of_day(1000)),
        Way(described("int64", TIME + "MicroTime"), of_day(10**6)),
        Way(described("int64", TIME + "NanoTime"), of_day(10**9)),
        Way(described("string", TIME + "ZonedTime"), lambda v: f"{v.isoformat()}Z"),
        Way(None, of_day(10**6)), unit="us",
    ),
    "ts": column(
        pa.timestamp("ms"), INSTANTS,
        Way(described("int64", TIME + "Timestamp"), since_epoch(1000)),
        Way(described("int64", CONNECT + "Timestamp"), since_epoch(1000)),
        Way(described("int64", TIME + "MicroTimestamp"), since_epoch(10**6)),
        Way(described("int64", TIME + "NanoTimestamp"), since_epoch(10**9)),
        Way(described("string", TIME + "IsoTimestamp"), lambda v: f"{v.isoformat()}Z"),
        Way(None, since_epoch(1000)), unit="ms",
    ),
    "z": column(
        pa.timestamp("us", "UTC"), ZONED,
        Way(described("string", TIME + "ZonedTimestamp"), lambda v: v.isoformat().replace("+00:00", "Z")),
        Way(described("string", TIME + "ZonedTimestamp"), lambda v: v.astimezone(PLUS_ONE).isoformat()),
        Way(None, lambda v: v.isoformat()),
    ),
    "w": column(
        pa.duration("us"), [dt.timedelta(0), dt.timedelta(days=-1), dt.timedelta(microseconds=1)],
        Way(described("int64", TIME + "MicroDuration"), lambda v: v // dt.timedelta(microseconds=1)),
        Way(described("int64", TIME + "NanoDuration"), lambda v: v // dt.timedelta(microseconds=1) * 1000),
        Way(None, lambda v: v // dt.timedelta(microseconds=1)), unit="us",
    ),
    "f": column(
        pa.float64(), [0.0, -1.5, 0.1, 1e300, float("inf")],
        Way(described("double"), lambda v: "Infinity" if v == float("inf") else v),
        Way(None, lambda v: "Infinity" if v == float("inf") else v),
    ),
    "n": column(
        pa.int64(), [0, -(2**63), 2**63 - 1, 7],
        Way(described("int64"), as_is), Way(described("bytes", CONNECT + "Decimal", scale="0"),
                                            lambda v: base64_of(two_complement(v))),
        Way(None, as_is),
    ),
    "s": column(pa.string(), ["", "AQ==", "2024-01-01", "é\x00"], Way(described("string"), as_is), Way(None, as_is)),
    "q": column(pa.bool_(), [True, False], Way(described("boolean"), as_is), Way(None, as_is)),
}  # fmt: skip
SCHEMA = pa.schema([("id", pa.int64()), *((name, known.type) for name, known in COLUMNS.items())])
UNITS = {name: known.unit for name, known in COLUMNS.items() if known.unit}

Row = dict[str, Any]
Ways = dict[str, Way]


@st.composite
def rows(draw: st.DrawFn, key: int) -> Row:
    """A row of the table, some of it NULL."""
    return {"id": key} | {name: draw(st.none() | known.values) for name, known in COLUMNS.items()}


@st.composite
def ways(draw: st.DrawFn, typed: bool) -> Ways:
    """How a connector writes each column."""
    return {
        name: draw(st.sampled_from([way for way in known.ways if (way.field is not None) == typed]))
        for name, known in COLUMNS.items()
    }


def image(row: Row | None, how: Ways) -> Row | None:
    """A row as JSON."""
    if row is None:
        return None
    return {"id": row["id"]} | {n: None if row[n] is None else way.write(row[n]) for n, way in how.items()}


def struct(how: Ways, *more: str) -> dict[str, Any]:
    """The fields of a row in a schema block."""
    fields = [{"field": "id", "type": "int64", "optional": False}]
    fields += [{"field": name} | way.field for name, way in how.items() if way.field is not None]
    fields += [{"field": name, "type": "string", "optional": True} for name in more]
    return {"type": "struct", "fields": fields, "optional": True, "name": "s.t.Value"}


def envelope(op: str, before: Row | None, after: Row | None, how: Ways, *, typed: bool) -> Any:
    """An event with both images."""
    payload = {"before": image(before, how), "after": image(after, how), "op": op, "ts_ms": 5}
    if not typed:
        return payload
    sides = [{"field": side} | struct(how) for side in ("before", "after")]
    operation = {"field": "op", "type": "string", "optional": False}
    return {"schema": {"type": "struct", "fields": [*sides, operation]}, "payload": payload}


def flattened(op: str, before: Row | None, after: Row | None, how: Ways, *, typed: bool) -> Any:
    """An event as Debezium's ExtractNewRecordState leaves it."""
    known = image(after or before, how) or {}
    payload = known | {"__op": op, "__deleted": "true" if op == "d" else "false"}
    return {"schema": struct(how, "__op", "__deleted"), "payload": payload} if typed else payload
