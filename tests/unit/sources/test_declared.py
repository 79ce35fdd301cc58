"""Columns of every declared type and format, from every kind of file, and the cell that does not fit."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdstrue import Monitor
from holdstrue.errors import DataError
from holdstrue.rules.types import Declared
from holdstrue.sources.declared import declared_column
from holdstrue.sources.feeds import read_changes
from holdstrue.sources.read import read_table, schema_of

ZONED = dt.datetime(2024, 1, 31, 9, 5, tzinfo=dt.UTC)
CASES: list[tuple[str, list[str], list[Any], pa.DataType]] = [
    ("text", ["01907", " x"], ["01907", " x"], pa.string()),
    ("integer", ["+5", " -007 "], [5, -7], pa.int64()),
    ("number", ["1.5", "+2e3"], [1.5, 2000.0], pa.float64()),
    ("number(comma)", ["1,5", "2"], [1.5, 2.0], pa.float64()),
    ("decimal", ["1.50", "2"], [Decimal("1.50"), Decimal(2)], pa.decimal128(18, 2)),
    ("decimal", ["12345678901234567", "0.55"], [Decimal("12345678901234567"), Decimal("0.55")], pa.decimal128(38, 2)),
    ("decimal", ["1e3", "1.5e-2"], [Decimal(1000), Decimal("0.015")], pa.decimal128(18, 3)),
    ("decimal(comma)", ["1,50", "-2"], [Decimal("1.50"), Decimal(-2)], pa.decimal128(18, 2)),
    ("decimal(12,2)", ["1.5", "2.500"], [Decimal("1.5"), Decimal("2.5")], pa.decimal128(12, 2)),
    ("decimal(12,2,comma)", ["1,5"], [Decimal("1.5")], pa.decimal128(12, 2)),
    ("boolean", ["true", "FALSE", "1"], [True, False, True], pa.bool_()),
    ("date", ["2024-01-31"], [dt.date(2024, 1, 31)], pa.date32()),
    ("date(%d.%m.%Y)", ["31.01.2024", "1.2.0099"], [dt.date(2024, 1, 31), dt.date(99, 2, 1)], pa.date32()),
    ("date(%m/%d/%y)", ["01/31/68", "01/31/69"], [dt.date(2068, 1, 31), dt.date(1969, 1, 31)], pa.date32()),
    ("date(%d %b %Y)", ["31 Jan 2024"], [dt.date(2024, 1, 31)], pa.date32()),
    ("time", ["09:05", "23:59:59.5"], [dt.time(9, 5), dt.time(23, 59, 59, 500_000)], pa.time64("us")),
    ("time(%I:%M %p)", ["09:05 PM"], [dt.time(21, 5)], pa.time64("us")),
    ("timestamp", ["2024-01-31 09:05:00"], [dt.datetime(2024, 1, 31, 9, 5)], pa.timestamp("us")),
    ("timestamp", ["2024-01-31T10:05:00+01:00"], [ZONED], pa.timestamp("us", "UTC")),
    ("timestamp(%d/%m/%Y %H:%M)", ["31/01/2024 9:05"], [dt.datetime(2024, 1, 31, 9, 5)], pa.timestamp("us")),
    (
        "timestamp(%Y%m%d %H%M%S.%f)",
        ["20240131 090500.25"],
        [dt.datetime(2024, 1, 31, 9, 5, 0, 250_000)],
        pa.timestamp("us"),
    ),
    ("timestamp(%d.%m.%Y %H:%M %z)", ["31.01.2024 10:05 +0100"], [ZONED], pa.timestamp("us", "UTC")),
]


def fails(text: str, hint: str = "") -> pytest.RaisesExc[DataError]:
    def check(error: DataError) -> bool:
        assert text in error.message, error.message
        assert hint in (error.hint or ""), error.hint
        return True

    return pytest.RaisesExc(DataError, check=check)


@pytest.mark.parametrize(("declared", "cells", "values", "type_"), CASES)
def test_every_type_from_csv_and_json(
    declared: str, cells: list[str], values: list[Any], type_: pa.DataType, tmp_path: Path
) -> None:
    csv, lines = tmp_path / "a.csv", tmp_path / "a.jsonl"
    csv.write_text("x;y\n" + "".join(f'"{cell}";1\n' for cell in cells) + ";1\n")
    lines.write_text("".join(json.dumps({"x": cell, "y": 1}) + "\n" for cell in cells) + '{"x": null, "y": 1}\n')
    for path in (csv, lines):
        column = read_table(path, types={"x": declared}, delimiter=";").column("x")
        assert column.to_pylist() == [*values, None]
        assert column.type == type_


def test_numbers_and_booleans_of_json_are_read_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first = '{"a": 1.10, "b": 1907, "c": 7, "d": true, "e": 0.5, "f": [1.5]}'
    path.write_text(first + '\n{"a": "2", "b": 1e3, "c": null}\n')
    types = {"a": "decimal", "b": "text", "c": "integer", "d": "boolean", "e": "number"}
    table = read_table(path, types=types)
    assert table.to_pylist() == [
        {"a": Decimal("1.10"), "b": "1907", "c": 7, "d": True, "e": 0.5, "f": [1.5]},
        {"a": Decimal("2.00"), "b": "1e3", "c": None, "d": None, "e": None, "f": None},
    ]
    path.write_text('{"a": 1.10}\n{"a": 2}\n')
    assert read_table(path, types={"a": "decimal(12,2)"}).column("a").to_pylist() == [Decimal("1.10"), Decimal(2)]


@pytest.mark.parametrize(
    ("declared", "good", "bad", "hint"),
    [
        ("integer", "5", "1.0", "decimal"),
        ("integer", "5", "9223372036854775808", "decimal(38,0)"),
        ("integer", "5", "0x10", "--null-value 0x10"),
        ("number", "1.5", "1,5", "number(comma)"),
        ("decimal", "1.5", "n/a", "--null-value n/a"),
        ("decimal", "1.5", "1,5", "decimal(comma)"),
        ("decimal(comma)", "1,5", "1.5", "declare"),
        ("decimal(4,2)", "1.5", "1.125", "decimal(5,3)"),
        ("decimal(4,2)", "1.5", "100", "decimal(5,2)"),
        ("boolean", "true", "maybe", ""),
        ("date", "2024-01-31", "31.01.2024", ""),
        ("date(%d.%m.%Y)", "31.01.2024", "31.02.2024", ""),
        ("date(%d.%m.%Y)", "31.01.2024", "31.01.24", ""),
        ("date(%d.%m.%Y)", "31.01.2024", "00.01.2024", ""),
        ("date(%d.%m.%Y)", "31.01.2024", "01.13.2024", ""),
        ("date(%d %b %Y)", "31 Jan 2024", "31 Jax 2024", ""),
        ("time(%H:%M)", "09:05", "24:00", ""),
        ("time", "09:05", "25:00", ""),
        ("timestamp(%d.%m.%Y %H:%M)", "31.01.2024 10:00", "31.01.2024 10:60", ""),
    ],
)
def test_the_first_cell_that_does_not_fit_is_named(
    declared: str, good: str, bad: str, hint: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x;y\n" + f'"{good}";1\n' * 5 + f'"{bad}";1\n' + f'"{good}";1\n' * 3 + f'"{bad}";1\n')
    with fails(f"row 6 of {path}: column 'x' holds {bad!r}, declared as {Declared.of(declared)}", hint):
        read_table(path, types={"x": declared}, delimiter=";")


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    with fails("is empty"):
        read_table(tmp_path / "a.jsonl", types={"x": "date"})


def test_a_declared_column_may_mix_numbers_and_text_in_json(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": 0.5}\n{"x": "inf"}\n')
    assert schema_of(tmp_path / "a.jsonl", types={"x": "number"}) == pa.schema([("x", pa.float64())])
    assert read_table(tmp_path / "a.jsonl", types={"x": "number"}).column("x").to_pylist() == [0.5, float("inf")]


def test_several_files_are_one_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1.5\n")
    (tmp_path / "b.csv").write_text("x\n2.125\nno\n")
    with fails(f"row 2 of {tmp_path / 'b.csv'}: column 'x' holds 'no'"):
        read_table([tmp_path / "a.csv", tmp_path / "b.csv"], types={"x": "decimal"})
    (tmp_path / "b.csv").write_text("x\n2.125\n")
    table = read_table(str(tmp_path / "*.csv"), types={"x": "decimal"})
    assert table.column("x").to_pylist() == [Decimal("1.5"), Decimal("2.125")]
    assert table.schema.field("x").type == pa.decimal128(18, 3)


def test_too_many_digits_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n" + "9" * 30 + "\n0." + "1" * 20 + "\n")
    with fails("need 50 digits", "x=number"):
        read_table(tmp_path / "a.csv", types={"x": "decimal"})


def test_unknown_columns_and_types_are_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("price,y\n1,2\n")
    with fails("declared for 'prise'", "did you mean 'price'"):
        read_table(tmp_path / "a.csv", types={"prise": "text"})
    with fails("declared for 'prise'", "did you mean 'price'"):
        read_table(pa.table({"price": [1]}), types={"prise": "text"})


def test_typed_sources_agree_or_become_it_without_loss(tmp_path: Path) -> None:
    table = pa.table(
        {
            "day": ["31.01.2024", None],
            "n": pa.array([1, 2], pa.int32()),
            "f": [1.5, 2.0],
            "d": [dt.date(2024, 1, 1), None],
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    types = {"day": "date(%d.%m.%Y)", "n": "decimal(12,2)", "f": "number", "d": "date(%d.%m.%Y)"}
    for source in (table, path, table.to_pandas(), table.to_pylist()):
        read = read_table(source, types=types)
        assert read.column("day").to_pylist() == [dt.date(2024, 1, 31), None]
        assert read.column("n").to_pylist() == [Decimal(1), Decimal(2)]
        assert read.column("d").to_pylist() == [dt.date(2024, 1, 1), None]
    with fails("row 1 of the table: column 'n' holds 1, expected text", "declared as text"):
        read_table(table, types={"n": "text"})
    with fails("column 'f' holds double values, declared as decimal", "decimal(12,2)"):
        read_table(table, types={"f": "decimal"})
    assert read_table(table, types={"n": "decimal"}).schema.field("n").type == pa.decimal128(18, 0)
    assert read_table(table, types={"n": "integer"}).schema.field("n").type == pa.int32()


def test_nothing_but_null_says_no_more_than_was_declared() -> None:
    empty = pa.chunked_array([pa.array([None, None], pa.string())])
    assert declared_column(empty, Declared("date"), name="x").type == pa.date32()
    assert declared_column(pa.nulls(2), Declared("decimal"), name="x").type == pa.null(), "a first value tells"


def test_a_batch_has_the_digits_of_the_first_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\n1,2.5\n")
    schema = pa.schema([("id", pa.int64()), ("x", pa.decimal128(18, 2))])
    how: dict[str, Any] = {"key": ["id"], "schema": schema, "types": {"x": "decimal"}}
    assert read_changes(tmp_path / "a.csv", **how).rows.schema == schema
    (tmp_path / "a.csv").write_text("id,x\n1,2.555\n")
    with fails("row 1 of", "it needs x=decimal(19,3): declare that when the state is made"):
        read_changes(tmp_path / "a.csv", **how)
    rows = pa.table({"id": [1], "x": ["2.5"]})
    assert read_changes(rows, **how).rows.schema == schema


def test_a_plain_decimal_without_values_learns_its_digits_later(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,c\n0,\n")
    (tmp_path / "b.csv").write_text("id,c\n1,1.5\n2,-2.25\n")
    with Monitor.create(
        tmp_path / "s", "not(t.c < 0)", key="id", data=tmp_path / "a.csv", types={"c": "decimal"}
    ) as first:
        assert first.counts()["not(t.c < 0)"].open == 0
    with Monitor.open(tmp_path / "s") as monitor:
        assert [violation.t for violation in monitor.apply(tmp_path / "b.csv").added] == [2]
