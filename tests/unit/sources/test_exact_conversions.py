"""Values on their way into a table: each conversion keeps them exactly, or is refused with the row named."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdstrue import HoldstrueError, Monitor, check
from holdstrue.errors import DataError
from holdstrue.sources.read import read_table


def wide(digits: str, data_type: pa.DataType) -> pa.Array:
    return pa.array([Decimal(digits)], data_type)


@pytest.mark.parametrize(
    ("state", "batch"),
    [
        (wide("0.50", pa.decimal32(9, 2)), wide("42949673.46", pa.decimal128(12, 2))),
        (wide("0.5", pa.decimal128(38, 37)), pa.array([16777216], pa.int32())),
        (wide("0.5", pa.decimal128(38, 37)), pa.array(["16777216"])),
        (pa.array([1.0]), wide("12345678901234567", pa.decimal128(20, 0))),
        (pa.array([1.0]), pa.array([2**53 + 1])),
        (wide("1.00", pa.decimal128(38, 2)), pa.array([12345678901234567.89])),
        (pa.array([1.0], pa.float32()), pa.array([0.1])),
        (pa.array([1.0], pa.float32()), pa.array([1e300])),
        (pa.array([dt.time(12)], pa.time64("us")), pa.array(["12:00:00+02:00"])),
        (pa.array([dt.time(12)], pa.time64("us")), pa.array(["12:00:00.0000009"])),
    ],
)
def test_what_a_column_cannot_hold_is_refused(state: pa.Array, batch: pa.Array) -> None:
    monitor = Monitor("key(p)", key="id", data=pa.table({"id": [1], "p": state}))
    with pytest.raises(DataError, match="row 1 of the table: column 'p' holds"):
        monitor.apply(pa.table({"id": [2], "p": batch}))
    assert monitor.rows == {"data": 1}


@pytest.mark.parametrize(
    ("state", "batch"),
    [
        (pa.array([1], pa.time64("ns")), pa.array(["00:00:00.000000001"])),
        (pa.array([0.1]), wide("0.1", pa.decimal128(20, 1))),
        (wide("0.10", pa.decimal128(38, 2)), pa.array([0.1])),
        (wide("5.00", pa.decimal128(12, 2)), pa.array([5], pa.int8())),
        (pa.array([5], pa.int64()), wide("5.0", pa.decimal128(5, 1))),
    ],
)
def test_what_it_holds_is_the_same_value(state: pa.Array, batch: pa.Array) -> None:
    monitor = Monitor("key(p)", key="id", data=pa.table({"id": [1], "p": state}))
    monitor.apply(pa.table({"id": [2], "p": batch}))
    assert monitor.counts()["key(p)"].open == 1


def test_nulls_among_the_values_of_a_dictionary() -> None:
    indices, values = pa.array([0, 1, 1], pa.int8()), pa.array([5, None], pa.int64())
    data = pa.table({"a": pa.DictionaryArray.from_arrays(indices, values), "b": [1, 2, 2]})
    assert check(data, "not(t.a != 7)").total == 1
    assert check(data, "not null(a)").total == 2
    assert check(data, "[a] -> [b=1]").total == 0
    assert check(data, [{"rule": "key(b)", "where": "a in (0)"}]).total == 0


@pytest.mark.parametrize(
    ("cell", "declared"),
    [("258175740484446517370165384043605741934", "decimal(38,0)"), ("16777216", "decimal(38,37)"),
     ("9" * 400, "decimal(38,2)"), ("9" * 150, "decimal(12,2)")],
)  # fmt: skip
def test_declared_decimals_do_not_wrap_around(cell: str, declared: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"id,v\n1,0\n2,{cell}\n", encoding="utf-8")
    with pytest.raises(DataError, match="row 2 of"):
        check(path, "not(t.v < 0)", types={"v": declared})


def test_declared_times_keep_their_digits(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,t\n1,12:30:15.123456\n2,12:30:15.123456789\n", encoding="utf-8")
    with pytest.raises(DataError, match="row 2 of"):
        check(path, "key(t)", types={"t": "time"})


def test_files_of_decimals_and_doubles_do_not_go_together(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [Decimal(12345678901234567), Decimal(12345678901234568)]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"v": [0.5]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match="several types"):
        check(tmp_path, "key(v)")


@pytest.mark.parametrize(
    "values",
    [
        [dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 5)],
        [dt.time(5), dt.time(5, tzinfo=dt.UTC)],
        [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)],
        ["a", b"a"],
    ],
)
def test_records_of_several_kinds(values: list[Any]) -> None:
    with pytest.raises(DataError, match="record 2: column 'x' holds"):
        read_table([{"x": value} for value in values])


@pytest.mark.parametrize("source", ["", " ", {"x": [2**70]}])
def test_sources_that_are_none(source: Any) -> None:
    with pytest.raises(HoldstrueError):
        check(source, "key(x)")


@pytest.mark.parametrize(
    ("data_type", "number", "shown"),
    [
        (pa.date32(), -719_528, "0000-01-01"),
        (pa.timestamp("s"), 10**13, "10000000000000 (timestamp[s])"),
        (pa.duration("s"), 2**62, f"{2**62} (duration[s])"),
        (pa.timestamp("s", "Mars/Phobos"), 5, "5 (timestamp[s, tz=Mars/Phobos])"),
    ],
)
def test_values_that_python_does_not_have_are_named(data_type: pa.DataType, number: int, shown: str) -> None:
    width = pa.int32() if data_type.bit_width == 32 else pa.int64()
    data = pa.table({"id": pa.array([number, number], width).view(data_type), "x": [1, 1]})
    assert [(v.t, v.s) for v in check(data, "key(x)", key="id")] == [(shown, shown)]
    [group] = check(data.set_column(1, "x", pa.array([1, 2])), "id -> x", key="x").groups("id -> x")
    assert group.values == {"id": shown}
