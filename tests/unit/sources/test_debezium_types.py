"""What Debezium writes for each type, with and without its schema block, as bytes of a file."""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue import Monitor
from holdstrue.data.changes import OP_NAMES
from holdstrue.errors import ChangeError
from holdstrue.sources.feeds import read_changes
from unit.sources.test_feeds import refuses

CONNECT = "org.apache.kafka.connect.data."
TIME = "io.debezium.time."
DATA = "io.debezium.data."
PLACEHOLDER = "__debezium_unavailable_value"
NOON = dt.datetime(2024, 2, 29, 12, 34, 56, 789012)
EPOCH = dt.datetime(1970, 1, 1)
MICROS = (NOON - EPOCH) // dt.timedelta(microseconds=1)


def field(name: str, type_: str, logical: str | None = None, **parameters: str) -> dict[str, Any]:
    """A field of a schema block as Kafka Connect's JsonConverter writes it."""
    found: dict[str, Any] = {"type": type_, "optional": True, "field": name}
    if logical is not None:
        found |= {"name": logical, "version": 1}
    if parameters:
        found["parameters"] = {key.replace("_", "."): value for key, value in parameters.items()}
    return found


def decimals(name: str, scale: int, precision: int | None = None) -> dict[str, Any]:
    more = {} if precision is None else {"connect_decimal_precision": str(precision)}
    return field(name, "bytes", CONNECT + "Decimal", scale=str(scale), **more)


def block(*fields: dict[str, Any]) -> dict[str, Any]:
    """The schema block of an envelope."""
    row = [{"type": "int32", "optional": False, "field": "id"}, *fields]
    image = {"type": "struct", "fields": row, "optional": True, "name": "s.t.Value"}
    rest = [{"type": "string", "optional": False, "field": "op"}, {"type": "int64", "optional": True, "field": "ts_ms"}]
    sides = [image | {"field": "before"}, image | {"field": "after"}]
    return {"type": "struct", "fields": [*sides, *rest], "optional": False, "name": "s.t.Envelope"}


def event(after: Any, schema: Any = None, before: Any = None, op: str = "c") -> dict[str, Any]:
    payload = {"before": before, "after": after, "op": op, "ts_ms": 1}
    return payload if schema is None else {"schema": schema, "payload": payload}


def written(path: Path, events: list[Any]) -> Path:
    path.write_bytes("\n".join(json.dumps(value) for value in events).encode() + b"\n")
    return path


def signed(number: int) -> str:
    """The unscaled value of a decimal as Java writes it: the shortest big-endian two's complement, in base64."""
    size = 1
    while not -(1 << (8 * size - 1)) <= number < 1 << (8 * size - 1):
        size += 1
    return base64.b64encode((number % (1 << 8 * size)).to_bytes(size, "big")).decode()


DECODED: list[tuple[dict[str, Any], Any, pa.DataType, Any]] = [
    (field("v", "bytes"), "AAEC/w==", pa.binary(), b"\x00\x01\x02\xff"),
    (field("v", "bytes"), "", pa.binary(), b""),
    (decimals("v", 2), "AJY=", pa.decimal128(38, 2), Decimal("1.50")),  # 0x0096 = 150
    (decimals("v", 2, 10), "/2o=", pa.decimal128(10, 2), Decimal("-1.50")),  # 0xff6a = -150
    (decimals("v", 0, 20), "AP//////////", pa.decimal128(20, 0), Decimal(2**64 - 1)),
    (decimals("v", 4), "D3J5", pa.decimal128(38, 4), Decimal("101.2345")),
    (decimals("v", -2), signed(12), pa.decimal128(38, 0), Decimal(1200)),
    (decimals("v", 3, 45), signed(-(10**44)), pa.decimal256(45, 3), -Decimal(10**44) / 1000),
    (decimals("v", 2), 10, pa.decimal128(38, 2), Decimal("10.00")),  # decimal.format=NUMERIC
    (field("v", "struct", DATA + "VariableScaleDecimal"), {"scale": 3, "value": "MDk="},
     pa.decimal128(38, 3), Decimal("12.345")),
    (field("v", "int32", TIME + "Date"), 19782, pa.date32(), dt.date(2024, 2, 29)),
    (field("v", "int32", TIME + "Date"), -1, pa.date32(), dt.date(1969, 12, 31)),
    (field("v", "int32", CONNECT + "Date"), 19782, pa.date32(), dt.date(2024, 2, 29)),
    (field("v", "int32", TIME + "Time"), 45296789, pa.time32("ms"), dt.time(12, 34, 56, 789000)),
    (field("v", "int32", CONNECT + "Time"), 45296789, pa.time32("ms"), dt.time(12, 34, 56, 789000)),
    (field("v", "int64", TIME + "MicroTime"), 45296789012, pa.time64("us"), dt.time(12, 34, 56, 789012)),
    (field("v", "int64", TIME + "NanoTime"), 45296789012000, pa.time64("ns"), dt.time(12, 34, 56, 789012)),
    (field("v", "int64", TIME + "Timestamp"), MICROS // 1000, pa.timestamp("ms"), NOON.replace(microsecond=789000)),
    (field("v", "int64", CONNECT + "Timestamp"), -1, pa.timestamp("ms"), EPOCH - dt.timedelta(milliseconds=1)),
    (field("v", "int64", TIME + "MicroTimestamp"), MICROS, pa.timestamp("us"), NOON),
    (field("v", "int64", TIME + "NanoTimestamp"), MICROS * 1000, pa.timestamp("ns"), NOON),
    (field("v", "string", TIME + "ZonedTimestamp"), "2024-02-29T13:34:56.789012+01:00",
     pa.timestamp("us", "UTC"), NOON.replace(tzinfo=dt.UTC)),
    (field("v", "string", TIME + "ZonedTimestamp"), "2024-02-29T12:34:56Z",
     pa.timestamp("us", "UTC"), dt.datetime(2024, 2, 29, 12, 34, 56, tzinfo=dt.UTC)),
    (field("v", "string", TIME + "ZonedTime"), "12:34:56.5Z", pa.time64("us"), dt.time(12, 34, 56, 500000)),
    (field("v", "string", TIME + "IsoDate"), "2024-02-29Z", pa.date32(), dt.date(2024, 2, 29)),
    (field("v", "string", TIME + "IsoTime"), "12:34:56Z", pa.time64("us"), dt.time(12, 34, 56)),
    (field("v", "string", TIME + "IsoTimestamp"), "2024-02-29T12:34:56.789012Z", pa.timestamp("us"), NOON),
    (field("v", "int64", TIME + "MicroDuration"), 1500000, pa.duration("us"), dt.timedelta(seconds=1.5)),
    (field("v", "int64", TIME + "NanoDuration"), -2000, pa.duration("ns"), dt.timedelta(microseconds=-2)),
    (field("v", "string", TIME + "Interval"), "P0Y0M1DT2H0M0S", pa.string(), "P0Y0M1DT2H0M0S"),
    (field("v", "int32", TIME + "Year"), 2024, pa.int64(), 2024),
    (field("v", "string", DATA + "Uuid"), "00000000-0000-0000-0000-000000000001", pa.string(),
     "00000000-0000-0000-0000-000000000001"),
    (field("v", "string", DATA + "Enum", allowed="a,b"), "a", pa.string(), "a"),
    (field("v", "string", DATA + "Json"), "{}", pa.string(), "{}"),
    (field("v", "string", DATA + "Xml"), "<a/>", pa.string(), "<a/>"),
    (field("v", "bytes", DATA + "Bits", length="12"), "AgE=", pa.binary(), b"\x02\x01"),
    (field("v", "string"), "2024-02-29", pa.string(), "2024-02-29"),  # text stays text
    (field("v", "boolean"), True, pa.bool_(), True),
    (field("v", "int64"), -(2**63), pa.int64(), -(2**63)),
    (field("v", "double"), 0.1, pa.float64(), 0.1),
    (field("v", "double"), "NaN", pa.float64(), "nan"),
    (field("v", "float"), 0.1, pa.float32(), struct.unpack("f", struct.pack("f", 0.1))[0]),
    (field("v", "string", "com.example.Thing"), "x", pa.string(), "x"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("described", "sent", "type_", "value"), DECODED, ids=[f"{d.get('name', d['type'])} {s}" for d, s, *_ in DECODED]
)
@pytest.mark.parametrize("flat", [False, True])
def test_a_value_is_what_its_schema_block_says(
    tmp_path: Path, described: dict[str, Any], sent: Any, type_: pa.DataType, value: Any, flat: bool
) -> None:
    if flat:
        fields = [field("id", "int32"), described, field("__deleted", "string"), field("__op", "string")]
        schema = {"type": "struct", "fields": fields, "optional": False, "name": "s.t.Value"}
        rows = [{"id": 1, "v": sent, "__deleted": "false", "__op": "c"}, {"id": 2, "v": None, "__deleted": "true"}]
        events = [{"schema": schema, "payload": row} for row in rows]
    else:
        schema = block(described)
        events = [event({"id": 1, "v": sent}, schema), event(None, schema, {"id": 2, "v": None}, "d")]
    if flat:
        events[1]["payload"]["__op"] = "d"
    path = written(tmp_path / "events.jsonl", events)
    changes = read_changes(path, key=["id"])
    column = changes.rows.column("v")
    assert column.type == type_
    found = column.to_pylist()
    assert found[1] is None
    assert str(found[0]) == "nan" if value == "nan" else found[0] == value
    assert [OP_NAMES[op] for op in changes.ops] == ["insert", "delete"]
    # read with the types that the first batch gave, and as records
    for source in (path, events):
        again = read_changes(source, key=["id"], schema=changes.rows.schema)
        assert again.rows.equals(changes.rows) or value == "nan"


BY_TYPE: list[tuple[pa.DataType, Any, Any]] = [
    (pa.binary(), "AAEC/w==", b"\x00\x01\x02\xff"),
    (pa.large_binary(), "", b""),
    (pa.binary(3), "AAEC", b"\x00\x01\x02"),
    (pa.date32(), 19782, dt.date(2024, 2, 29)),
    (pa.date32(), "2024-02-29", dt.date(2024, 2, 29)),
    (pa.decimal128(10, 2), "1.50", Decimal("1.50")),
    (pa.decimal128(10, 2), "-7", Decimal(-7)),
    (pa.decimal128(10, 0), 1234, Decimal(1234)),
    (pa.decimal256(50, 2), "9" * 40 + ".25", Decimal("9" * 40 + ".25")),
    (pa.float64(), "-Infinity", float("-inf")),
    (pa.float64(), 3, 3.0),
    (pa.timestamp("us", "UTC"), "2024-02-29T12:34:56.789012Z", NOON.replace(tzinfo=dt.UTC)),
    (pa.timestamp("us"), "2024-02-29T12:34:56.789012", NOON),
    (pa.time64("us"), "12:34:56", dt.time(12, 34, 56)),
    (pa.int64(), 5, 5),
    (pa.bool_(), False, False),
    (pa.string(), "AAEC", "AAEC"),
]


@pytest.mark.parametrize(("type_", "sent", "value"), BY_TYPE)
def test_without_a_schema_block_the_types_of_the_table_tell(
    tmp_path: Path, type_: pa.DataType, sent: Any, value: Any
) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", type_)])
    path = written(tmp_path / "e.jsonl", [event({"id": 1, "v": sent}), event({"id": 2, "v": None})])
    flat = [{"id": 1, "v": sent, "__deleted": "false"}, {"id": 2, "v": None, "__deleted": "false"}]
    for source in (path, flat, pa.Table.from_pylist(flat)):
        changes = read_changes(source, key=["id"], schema=schema)
        assert changes.rows.schema.field("v").type == type_
        assert changes.rows.column("v").to_pylist() == [value, None]


def test_numbers_keep_all_their_digits(tmp_path: Path) -> None:
    """Neither JSON's numbers nor an array of events pass through a double."""
    digits = "12345678901234567.89"
    for text in ('{"op": "c", "after": {"id": 1, "v": %s}}', '[{"op": "c",\n "after": {"id": 1, "v": %s}}]'):
        path = tmp_path / "e.json"
        path.write_text(text % digits)
        schema = pa.schema([("id", pa.int64()), ("v", pa.decimal128(20, 2))])
        assert read_changes(path, key=["id"], schema=schema).rows.column("v").to_pylist() == [Decimal(digits)]
        assert read_changes(path, key=["id"]).rows.column("v").to_pylist() == [Decimal(digits)]
        described = {"schema": block(decimals("v", 2)), "payload": {"op": "c", "after": {"id": 1, "v": 0}}}
        path.write_text(json.dumps(described).replace('"v": 0', f'"v": {digits}'))
        assert read_changes(path, key=["id"]).rows.column("v").to_pylist() == [Decimal(digits)]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_units_of_numbers_are_asked_for(tmp_path: Path, unit: str) -> None:
    per = {"ms": 1000, "us": 10**6, "ns": 10**9}[unit]
    at = dt.datetime(2024, 2, 29, 12, 34, 56)
    seconds = (at - EPOCH) // dt.timedelta(seconds=1)
    schema = pa.schema([
        ("id", pa.int64()), ("at", pa.timestamp("us")), ("zoned", pa.timestamp("ns", "UTC")),
        ("t", pa.time64("ns")), ("d", pa.duration("us")),
    ])  # fmt: skip
    row = {"id": 1, "at": seconds * per, "zoned": seconds * per, "t": 61 * per, "d": 61 * per}
    path = written(tmp_path / "e.jsonl", [event(row)])
    where = f"line 1 of {path}: column 'at' holds {seconds * per}: milliseconds, microseconds or nanoseconds?"
    with refuses(where, "--unit at=us"):
        read_changes(path, key=["id"], schema=schema)
    units = dict.fromkeys(["at", "zoned", "t", "d"], unit)
    rows = read_changes(path, key=["id"], schema=schema, units=units).rows
    assert rows.schema == schema
    assert rows.column("at").to_pylist() == [at]
    assert rows.column("zoned").cast(pa.timestamp("us", "UTC")).to_pylist() == [at.replace(tzinfo=dt.UTC)]
    assert rows.column("t").cast(pa.time64("us")).to_pylist() == [dt.time(0, 1, 1)]
    assert rows.column("d").to_pylist() == [dt.timedelta(seconds=61)]
    first = read_changes(path, key=["id"], units={"at": unit}).rows
    assert first.column("at").type == pa.timestamp(unit)


def test_units_that_make_no_sense(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))])
    path = written(tmp_path / "e.jsonl", [event({"id": 1, "at": 5})])
    with refuses("unknown unit 'm' of column 'at'", "ms, us, ns"):
        read_changes(path, key=["id"], schema=schema, units={"at": "m"})
    with refuses("column 'att', which the table does not have", "did you mean 'at'?"):
        read_changes(path, key=["id"], schema=schema, units={"att": "ms"})
    with refuses("a unit (ms) was given, but the column is int64"):
        read_changes(path, key=["id"], schema=schema, units={"id": "ms", "at": "ms"})
    with refuses("a feed of the kind append", "Debezium"):
        read_changes(pa.table({"id": [1]}), key=["id"], units={"at": "ms"})
    micros = block(field("at", "int64", TIME + "MicroTimestamp"))
    with refuses(f"it is {TIME}MicroTimestamp, which does not count ms", "leave out the unit"):
        read_changes([event({"id": 1, "at": 5}, micros)], key=["id"], units={"at": "ms"})
    zoned = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    with refuses("which has no zone, but the table's column has one", "--unit at=us"):
        read_changes([event({"id": 1, "at": 5}, micros)], key=["id"], schema=zoned)
    rows = read_changes([event({"id": 1, "at": 5}, micros)], key=["id"], schema=zoned, units={"at": "us"}).rows
    assert rows.column("at").to_pylist() == [EPOCH.replace(tzinfo=dt.UTC) + dt.timedelta(microseconds=5)]


def test_the_table_decides_where_the_block_leaves_a_choice() -> None:
    def read(described: dict[str, Any], sent: Any, type_: pa.DataType) -> Any:
        schema = pa.schema([("id", pa.int64()), ("v", type_)])
        changes = read_changes([event({"id": 1, "v": sent}, block(described))], key=["id"], schema=schema)
        return changes.rows.column("v").to_pylist()[0]

    bits = field("v", "bytes", DATA + "Bits", length="12")
    assert read(bits, "AgE=", pa.int32()) == 0x0102
    assert read(bits, "//////////8=", pa.uint64()) == 2**64 - 1
    assert read(decimals("v", 1), signed(1), pa.float64()) == 0.1
    assert read(decimals("v", 0), signed(2**64 - 1), pa.uint64()) == 2**64 - 1
    assert read(field("v", "double"), 1.1, pa.decimal128(4, 1)) == Decimal("1.1")
    assert read(field("v", "string"), "1234", pa.decimal128(6, 2)) == Decimal(1234)
    assert read(field("v", "float"), 0.1, pa.float64()) == 0.1
    assert read(field("v", "string", TIME + "Interval"), "P0Y0M1DT-2H0M0.5S", pa.duration("ms")) == dt.timedelta(
        days=1, hours=-2, milliseconds=500
    )
    negative = dt.timedelta(hours=-1)
    assert read(field("v", "int64", TIME + "MicroTime"), -3_600_000_000, pa.duration("us")) == negative
    assert read(field("v", "string", TIME + "ZonedTime"), "12:00:00+02:00", pa.string()) == "12:00:00+02:00"
    assert read(field("v", "int64", TIME + "MicroTimestamp"), 5000, pa.timestamp("ms")) == EPOCH.replace(
        microsecond=5000
    )


REFUSED: list[tuple[dict[str, Any] | None, Any, pa.DataType | None, str, str]] = [
    (field("v", "bytes"), "AAE", None, "holds 'AAE', expected base64 (bytes)", "was not applied"),
    (field("v", "bytes"), 5, None, "holds 5, expected base64", ""),
    (decimals("v", 2), "1.50", None, "holds '1.50', expected base64 or a number", ""),
    (decimals("v", 2), 1.505, None, "holds 1.505, expected no more digits", ""),
    (decimals("v", 2), signed(10**80), None, "at most 76 digits", ""),
    (decimals("v", 200), "AQ==", None, "a scale within 76 is needed", "parameters.scale"),
    (field("v", "bytes", CONNECT + "Decimal"), "AQ==", None, "a scale within 76 is needed", "parameters.scale"),
    (decimals("v", 3), signed(1234), pa.decimal128(9, 2), "holds Decimal('1.234'), expected a decimal number", ""),
    (field("v", "struct", DATA + "VariableScaleDecimal"), {"scale": -(10**9), "value": "AQ=="}, None,
     "expected a scale and a base64 value", ""),
    (field("v", "struct", DATA + "VariableScaleDecimal"), {"value": "AQ=="}, None, "expected a scale and", ""),
    (field("v", "int32", TIME + "Date"), "2024-02-29", None, "holds '2024-02-29', expected days since", ""),
    (field("v", "int32", TIME + "Date"), 2**31, None, f"holds {2**31}, expected days since", ""),
    (field("v", "int32", TIME + "Date"), True, None, "holds True, expected days since", ""),
    (field("v", "int64", TIME + "MicroTime"), 86_400_000_000, None, "expected us since midnight", "within one day"),
    (field("v", "int64", TIME + "MicroTimestamp"), 1.5, None, "expected us since 1970-01-01", ""),
    (field("v", "int64", TIME + "MicroTimestamp"), 5001, pa.timestamp("ms"), "expected a date and time", ""),
    (field("v", "string", TIME + "ZonedTimestamp"), "2024-02-29T12:34:56", None, "a date and time with zone", ""),
    (field("v", "string", TIME + "ZonedTimestamp"), "infinity", None, "holds 'infinity'", ""),
    (field("v", "string", TIME + "ZonedTimestamp"), "2024-02-29T12:34:56Z", pa.timestamp("us"), "without zone", ""),
    (field("v", "string", TIME + "ZonedTime"), "12:34:56+02:00", None, "expected a time in UTC", ""),
    (field("v", "string", TIME + "Interval"), "P0Y1M0DT0H0M0S", pa.duration("us"), "expected days, hours", "months"),
    (field("v", "int64", TIME + "PicoTimestamp"), 1, None, "PicoTimestamp, whose meaning is not known", ""),
    (field("v", "int128"), 1, None, "int128, which is no type of Kafka Connect", ""),
    (field("v", "string"), "AAEC", pa.binary(), "but bytes in the table", "binary.handling.mode=bytes"),
    (field("v", "string"), 5, None, "holds 5, expected text (string)", ""),
    (field("v", "int64"), 2**63, None, f"holds {2**63}, expected a whole number (int64)", ""),
    (field("v", "boolean"), 1, None, "holds 1, expected true or false", ""),
    (field("v", "float"), 1e300, None, "expected a number that fits float", ""),
    (field("v", "bytes", DATA + "Bits"), "AAAAAAAAAAAB", pa.int64(), "at most 64 bits", ""),
    (None, "AJY=", pa.decimal128(5, 2), "holds 'AJY=', expected a decimal number", "decimal.handling.mode=string"),
    (None, "1234", pa.decimal128(9, 2), "that cannot be base64 as well", "schemas.enable=true"),
    (None, "1.505", pa.decimal128(9, 2), "expected a decimal number", ""),
    (None, "?", pa.binary(), "holds '?', expected base64", "schemas.enable=true"),
    (None, "abc", pa.float64(), "holds 'abc', expected a number", ""),
    (None, 10**400, pa.float64(), "expected a number", ""),
    (None, 86_400_000, pa.timestamp("ms", "UTC"), "milliseconds, microseconds or nanoseconds?", "--unit v=us"),
    (None, 5, pa.time32("ms"), "milliseconds, microseconds or nanoseconds?", "--unit v=us"),
    (None, 5, pa.duration("us"), "milliseconds, microseconds or nanoseconds?", "--unit v=us"),
]  # fmt: skip


@pytest.mark.parametrize(("described", "sent", "type_", "text", "hint"), REFUSED, ids=[case[3] for case in REFUSED])
def test_what_cannot_be_read_is_refused_whole(
    tmp_path: Path, described: dict[str, Any] | None, sent: Any, type_: pa.DataType | None, text: str, hint: str
) -> None:
    schema = None if type_ is None else pa.schema([("id", pa.int64()), ("v", type_)])
    known = None if described is None else block(described)
    path = written(tmp_path / "e.jsonl", [event({"id": 1, "v": None}, known), event({"id": 2, "v": sent}, known)])
    for source, place in (
        (path, f"line 2 of {path}"),
        ([json.loads(x) for x in path.open()], "record 2 of the records"),
    ):
        with pytest.raises(ChangeError) as told:
            read_changes(source, key=["id"], schema=schema)
        assert told.value.message.startswith(place)
        assert "column 'v'" in told.value.message
        assert text in told.value.message
        assert hint in (told.value.hint or "")


def test_a_refused_batch_changes_nothing(tmp_path: Path) -> None:
    monitor = Monitor("v -> w", key="id")
    monitor.apply(pa.table({"id": [1], "v": [Decimal("1.50")], "w": ["a"]}))
    schema = block(decimals("v", 2), field("w", "string"))
    good, bad = ({"id": i, "v": v, "w": "b"} for i, v in ((2, "AJY="), (3, "*")))
    path = written(tmp_path / "e.jsonl", [event(good, schema), event(bad, schema)])
    with refuses(f"line 2 of {path}: column 'v' holds '*'"):
        monitor.apply(path)
    assert monitor.rows == {"data": 1}
    delta = monitor.apply(written(path, [event(good, schema)]))
    assert [(v.t, v.s) for v in delta.added] == [(1, 2)]


# --- placeholders ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("described", "type_"), [
    (field("v", "bytes"), pa.binary()), (decimals("v", 2), pa.decimal128(9, 2)), (field("v", "string"), pa.string()),
    (None, pa.binary()), (None, pa.decimal128(9, 2)), (None, pa.string()),
])  # fmt: skip
def test_placeholders_of_every_type(described: dict[str, Any] | None, type_: pa.DataType) -> None:
    """A value that was not logged is refused, except of a row that is deleted."""
    known = None if described is None else block(described)
    encoded = base64.b64encode(PLACEHOLDER.encode()).decode()
    sent = PLACEHOLDER if type_ == pa.string() else encoded
    schema = pa.schema([("id", pa.int64()), ("v", type_)])
    with refuses("record 1 of the records: column 'v' holds Debezium's placeholder", "REPLICA IDENTITY FULL"):
        read_changes([event({"id": 1, "v": sent}, known, op="u")], key=["id"], schema=schema)
    gone = event(None, known, {"id": 1, "v": sent}, "d")
    assert read_changes([gone], key=["id"], schema=schema).rows.column("id").to_pylist() == [1]
    flat = {"id": 1, "v": sent, "__deleted": "true"}
    assert len(read_changes([flat], key=["id"], schema=schema)) == 1


# --- schemas that change -----------------------------------------------------------------------------


def test_a_schema_may_change_between_events(tmp_path: Path) -> None:
    first, second = block(decimals("v", 2)), block(decimals("v", 3), field("at", "int32", TIME + "Date"))
    events = [
        event({"id": 1, "v": signed(150)}, first),
        event({"id": 2, "v": signed(1501), "at": 1}, second),
        event(None, first, {"id": 1, "v": signed(150)}, "d"),
    ]
    path = written(tmp_path / "e.jsonl", events)
    rows = read_changes(path, key=["id"]).rows
    assert rows.column("v").to_pylist() == [Decimal("1.500"), Decimal("1.501"), Decimal("1.500")]
    assert rows.column("at").to_pylist() == [None, dt.date(1970, 1, 2), None]
    known = pa.schema([("id", pa.int64()), ("v", pa.decimal128(9, 3)), ("at", pa.date32())])
    assert read_changes(path, key=["id"], schema=known).rows.equals(rows.cast(known))
    narrow = pa.schema([("id", pa.int64()), ("v", pa.decimal128(9, 2)), ("at", pa.date32())])
    with refuses(f"line 2 of {path}: column 'v' holds Decimal('1.501')"):
        read_changes(path, key=["id"], schema=narrow)
    with refuses(f"line 2 of {path}: unknown column 'at'"):
        read_changes(path, key=["id"], schema=pa.schema([known.field("id"), known.field("v")]))


def test_units_may_become_finer_but_types_may_not_change(tmp_path: Path) -> None:
    millis, micros = (block(field("v", "int64", TIME + name)) for name in ("Timestamp", "MicroTimestamp"))
    events = [event({"id": 1, "v": 5}, millis), event({"id": 2, "v": 5}, micros)]
    rows = read_changes(events, key=["id"]).rows
    assert rows.column("v").to_pylist() == [EPOCH.replace(microsecond=5000), EPOCH.replace(microsecond=5)]
    path = written(tmp_path / "e.jsonl", [*events, event({"id": 3, "v": "x"}, block(field("v", "string")))])
    with refuses(f"line 3 of {path}: column 'v' is string, but {TIME}Timestamp at line 1 of {path}", "two batches"):
        read_changes(path, key=["id"])
    # events with and without their block in one file
    mixed = [event({"id": 1, "v": "AJY="}, block(decimals("v", 2))), event({"id": 2, "v": "2.5"})]
    schema = pa.schema([("id", pa.int64()), ("v", pa.decimal128(9, 2))])
    assert read_changes(mixed, key=["id"], schema=schema).rows.column("v").to_pylist() == [
        Decimal("1.50"), Decimal("2.50")
    ]  # fmt: skip


@pytest.mark.parametrize("schema", [{"fields": [{"type": "int32"}]}, {"fields": 5}, "{", ["x"], {"fields": ["x"]}])
def test_a_block_that_cannot_be_read(tmp_path: Path, schema: Any) -> None:
    path = written(tmp_path / "e.jsonl", [event({"id": 1}, block()), event({"id": 1}, schema)])
    with refuses(f"line 2 of {path}: a schema block that cannot be read", "JsonConverter"):
        read_changes(path, key=["id"])


# --- tables of events ----------------------------------------------------------------------------------


def test_tables_with_their_schema_blocks() -> None:
    """What Spark makes of JSON lines of events: structs, with NULL for what a field does not have."""
    known = block(decimals("v", 2), field("at", "int32", TIME + "Date"))
    events = [
        event({"id": 1, "v": "AJY=", "at": 5}, known),
        event({"id": 3, "v": "AJY=", "at": 6}, known, {"id": 1, "v": "/2o=", "at": None}, "u"),
        event(None, known, {"id": 2, "v": "/2o=", "at": None}, "d"),
    ]
    expected = read_changes(events, key=["id"])
    assert expected.rows.column("v").to_pylist() == [Decimal(x) for x in ("1.5", "-1.5", "1.5", "-1.5")]
    text = [{"schema": json.dumps(known), "payload": e["payload"]} for e in events]
    tombstone = {"schema": None, "payload": None}
    for table in (
        pa.Table.from_pylist(events), pa.Table.from_pylist(text), pa.Table.from_pylist([tombstone, *events])
    ):  # fmt: skip
        changes = read_changes(table, key=["id"])
        assert changes.rows.equals(expected.rows)
        assert changes.ops.tolist() == expected.ops.tolist()
    assert changes.place(0) == "row 2 of the table"


def test_tables_of_nanoseconds() -> None:
    """Images in a table keep their types, also those that Python has no values for."""
    image = pa.struct([("id", pa.int64()), ("at", pa.timestamp("ns")), ("f", pa.float32())])
    at = pa.array([1, 2], pa.timestamp("ns"))
    after = pa.StructArray.from_arrays([pa.array([1, 2]), at, pa.array([0.1, None], pa.float32())], fields=list(image))
    table = pa.table({"op": ["c", "r"], "before": pa.nulls(2, image), "after": after})
    rows = read_changes(table, key=["id"]).rows
    assert rows.schema == pa.schema(list(image))
    assert rows.column("at").combine_chunks() == at
    empty = read_changes(table.slice(0, 0), key=["id"])
    assert empty.rows.schema == rows.schema
    assert len(empty) == 0


def test_images_may_differ_in_their_types() -> None:
    """Spark tells the types of both images apart: text where all is NULL, or where a number is no number."""
    before = pa.array([{"id": 1, "f": "NaN", "d": None}, None], pa.struct([("id", pa.int64()), ("f", pa.string()),
                                                                           ("d", pa.string())]))  # fmt: skip
    after = pa.array([None, {"id": 2, "f": 1.5, "d": 5}], pa.struct([("id", pa.int64()), ("f", pa.float64()),
                                                                     ("d", pa.int64())]))  # fmt: skip
    table = pa.table({"op": ["d", "c"], "before": before, "after": after})
    schema = pa.schema([("id", pa.int64()), ("f", pa.float64()), ("d", pa.date32())])
    rows = read_changes(table, key=["id"], schema=schema).rows
    assert rows.column("d").to_pylist() == [None, dt.date(1970, 1, 6)]
    assert str(rows.column("f").to_pylist()) == "[nan, 1.5]"
