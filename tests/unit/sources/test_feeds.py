"""Every kind of feed brought to one form, odd cases and messages included."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdstrue
from holdstrue.data.changes import OP_NAMES, Changes
from holdstrue.errors import ChangeError
from holdstrue.sources.feeds import read_changes

SCHEMA = pa.schema([("id", pa.int64()), ("zip", pa.string()), ("day", pa.date32())])


def said(changes: Changes) -> list[tuple[Any, ...]]:
    """Each change as its operation and its values."""
    rows = [tuple(row.values()) for row in changes.rows.to_pylist()]
    return [(OP_NAMES[op], *row) for op, row in zip(changes.ops, rows, strict=True)]


def refuses(text: str, hint: str | None = None) -> pytest.RaisesExc[ChangeError]:
    def check(error: ChangeError) -> bool:
        assert text in error.message, error.message
        assert hint is None or hint in (error.hint or ""), error.hint
        return True

    return pytest.RaisesExc(ChangeError, check=check)


def lines(path: Path, values: Sequence[Any]) -> Path:
    path.write_text("\n".join(json.dumps(value) for value in values) + "\n")
    return path


# --- append ------------------------------------------------------------------------------------


def test_append_brings_rows_to_the_schema(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("zip,id,day\n00501,1,2024-01-31\n,2,\n")
    changes = read_changes(tmp_path / "new.csv", key=["id"], schema=SCHEMA)
    assert said(changes) == [("insert", 1, "00501", dt.date(2024, 1, 31)), ("insert", 2, None, None)]
    assert changes.rows.schema == SCHEMA
    assert changes.place(1) == f"row 2 of {tmp_path / 'new.csv'}"


def test_append_of_several_files_names_the_right_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,zip\n1,a\n")
    (tmp_path / "b.csv").write_text("id,zip\n2,b\n,c\n")
    with refuses(f"row 2 of {tmp_path / 'b.csv'}: no value in key column 'id'", "the whole key"):
        read_changes(str(tmp_path / "*.csv"), key=["id"], schema=SCHEMA)


def test_append_of_json_and_records(tmp_path: Path) -> None:
    values = [{"id": 1, "day": "2024-01-31"}, {"id": 2, "zip": "x"}]
    expected = [("insert", 1, None, dt.date(2024, 1, 31)), ("insert", 2, "x", None)]
    assert said(read_changes(lines(tmp_path / "a.jsonl", values), key=["id"], schema=SCHEMA)) == expected
    assert said(read_changes(values, key=["id"], schema=SCHEMA)) == expected


def test_key_may_be_one_name_or_several() -> None:
    table = pa.table({"a": [1], "b": [None]})
    assert len(read_changes(table, key="a")) == 1
    with refuses("row 1 of the table: no value in key column 'b'"):
        read_changes(table, key=["a", "b"])
    with refuses("the changes in the table have no key column 'idd'", "there are: a, b"):
        read_changes(table, key=["idd"])


def test_unknown_columns() -> None:
    table = pa.table({"id": [1, 2], "zipp": [None, "x"]})
    with refuses("row 2 of the table: unknown column 'zipp'", "did you mean 'zip'?"):
        read_changes(table, key=["id"], schema=SCHEMA)
    assert said(read_changes(table, key=["id"], schema=SCHEMA, extra="ignore")) == [
        ("insert", 1),
        ("insert", 2),
    ]
    with refuses("the table: unknown column 'zipp'"):
        read_changes(table.slice(0, 0), key=["id"], schema=SCHEMA)


@pytest.mark.parametrize("words", [["delet"], ["insert", "delet"], ["insert", None], [None]])
@pytest.mark.parametrize("how", [{"schema": SCHEMA, "extra": "ignore"}, {"schema": SCHEMA}])
def test_a_slip_in_an_operation_is_no_insert(words: list[str | None], how: dict[str, Any]) -> None:
    """Also where other columns may be there."""
    table = pa.table({"op": pa.array(words, pa.string()), "id": list(range(len(words)))})
    wrong = next(row for row, word in enumerate(words, 1) if word != "insert")
    with refuses(f"row {wrong} of the table: {'unknown' if 'delet' in words else 'no'} operation"):
        read_changes(table, key=["id"], **how)


def test_a_column_called_op_may_be_data() -> None:
    """Numbers are; text is where that is said."""
    table = pa.table({"op": ["turned", "milled"], "id": [1, 2]})
    with refuses("row 1 of the table: unknown operation 'turned' in column 'op'", "the feed append if the column is"):
        read_changes(table, key=["id"], schema=SCHEMA, extra="ignore")
    expected = [("insert", 1), ("insert", 2)]
    assert said(read_changes(table, key=["id"], schema=SCHEMA, extra="ignore", feed="append")) == expected
    numbers = pa.table({"op": [7, 8], "id": [1, 2]})
    assert said(read_changes(numbers, key=["id"], schema=SCHEMA, extra="ignore")) == expected


@pytest.mark.parametrize(("values", "type_", "text"), [
    (["1", "x"], pa.int64(), "row 1 of the table: column 'v' holds '1', expected a whole number (int64)"),
    ([1, 2], pa.string(), "row 1 of the table: column 'v' holds 1, expected text (string)"),
    ([None, 1.5], pa.int64(), "row 2 of the table: column 'v' holds 1.5, expected a whole number (int64)"),
    ([1, 0], pa.bool_(), "row 1 of the table: column 'v' holds 1, expected true or false (bool)"),
    (["2024-01-31", "x"], pa.date32(), "row 2 of the table: column 'v' holds 'x', expected a date like"),
    ([1, 300], pa.int8(), "row 2 of the table: column 'v' holds 300, which is beyond int8"),
    ([1.5, 1.55], pa.decimal128(5, 1), "row 2 of the table: column 'v' holds 1.55, expected a decimal"),
    ([1, 99999], pa.decimal128(5, 1), "row 2 of the table: column 'v' holds 99999, expected a decimal"),
    ([19000], pa.date32(), "row 1 of the table: column 'v' holds 19000, expected a date like"),
    ([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 5)], pa.date32(), "row 2 of the table: column 'v'"),
    ([dt.datetime(2024, 1, 1)], pa.timestamp("us", "UTC"), "expected a date and time with zone"),
])  # fmt: skip
def test_values_of_another_type(values: list[Any], type_: pa.DataType, text: str) -> None:
    table = pa.table({"id": list(range(len(values))), "v": values})
    with refuses(text):
        read_changes(table, key=["id"], schema=pa.schema([("id", pa.int64()), ("v", type_)]))


@pytest.mark.parametrize(("values", "type_", "fitted"), [
    ([1, None], pa.float64(), [1.0, None]),
    ([3.0], pa.int32(), [3]),
    (["1.50"], pa.decimal128(5, 2), [Decimal("1.50")]),
    ([2], pa.decimal128(5, 2), [Decimal(2)]),
    ([1.25], pa.decimal128(5, 2), [Decimal("1.25")]),
    ([None], pa.date32(), [None]),
    (["2024-01-31T10:00:00+02:00"], pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 31, 8, tzinfo=dt.UTC)]),
    (["10:30:00"], pa.time32("s"), [dt.time(10, 30)]),
    ([dt.datetime(2024, 1, 1)], pa.date32(), [dt.date(2024, 1, 1)]),
    ([dt.date(2024, 1, 1)], pa.timestamp("us"), [dt.datetime(2024, 1, 1)]),
    (["x"], pa.null(), ["x"]),
])  # fmt: skip
def test_values_of_a_kindred_type(values: list[Any], type_: pa.DataType, fitted: list[Any]) -> None:
    table = pa.table({"id": list(range(len(values))), "v": values})
    changes = read_changes(table, key=["id"], schema=pa.schema([("id", pa.int64()), ("v", type_)]))
    assert changes.rows.column("v").to_pylist() == fitted


def test_values_in_files_name_file_and_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,day\n1,2024-01-31\n2,tomorrow\n")
    with refuses(f"row 2 of {path}: column 'day' holds 'tomorrow', expected a date like 2024-01-31"):
        read_changes(path, key=["id"], schema=SCHEMA)
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "a.parquet")
    with refuses(f"row 1 of {tmp_path / 'a.parquet'}: column 'id' holds 'x'", "is string here and int64"):
        read_changes(tmp_path / "a.parquet", key=["id"], schema=SCHEMA)
    with refuses("there is no file"):
        read_changes(tmp_path / "b.csv", key=["id"])


# --- ops ---------------------------------------------------------------------------------------


def test_ops_words_in_any_case(tmp_path: Path) -> None:
    words = ["insert", "I", "c", "Create", "r", "+", "update", "U", "delete", "D", "-", "UPSERT"]
    expected = ["insert"] * 6 + ["update"] * 2 + ["delete"] * 3 + ["upsert"]
    for name in ("_op", "__op", "op", "operation", "_operation"):
        changes = read_changes(pa.table({"id": list(range(12)), name: words}), key=["id"])
        assert [OP_NAMES[op] for op in changes.ops] == expected
        assert changes.rows.column_names == ["id"]
    path = tmp_path / "a.csv"
    path.write_text("op,id,zip,day\ni,1,a,\nd,2,,\n")
    assert said(read_changes(path, key=["id"], schema=SCHEMA)) == [
        ("insert", 1, "a", None),
        ("delete", 2, None, None),
    ]


def test_a_column_of_the_table_is_data() -> None:
    schema = pa.schema([("id", pa.int64()), ("op", pa.string())])
    table = pa.table({"id": [1], "op": ["d"]})
    assert said(read_changes(table, key=["id"], schema=schema)) == [("insert", 1, "d")]
    assert said(read_changes(table, key=["id"])) == [("delete", 1)]
    named = read_changes(table, key=["id"], schema=schema, op_column="op")
    assert said(named) == [("delete", 1)]


def test_words_that_are_no_operations() -> None:
    table = pa.table({"id": [1, 2], "op": ["d", "hip replacement"]})
    assert said(read_changes(table, key=["id"])) == [("insert", 1, "d"), ("insert", 2, "hip replacement")]
    with refuses("row 2 of the table: unknown operation 'hip replacement' in column 'op'", "insert, i, c, create"):
        read_changes(table, key=["id"], schema=SCHEMA)
    with refuses("row 2 of the table: unknown operation"):
        read_changes(table, key=["id"], feed="ops", op_column="op")
    with refuses("row 2 of the table: no operation in column 'op'"):
        read_changes(pa.table({"id": [1, 2], "op": ["d", None]}), key=["id"], op_column="op")
    with refuses("row 1 of the table: unknown operation 5 in column 'what'"):
        read_changes(pa.table({"id": [1], "what": [5]}), key=["id"], op_column="what")
    with refuses("has no operation column", "_op, __op, op"):
        read_changes(pa.table({"id": [1]}), key=["id"], feed="ops")
    with refuses("has no operation column 'ops'", "did you mean 'op'"):
        read_changes(table, key=["id"], op_column="ops")
    with refuses("unknown feed 'opps'", "append, ops"):
        read_changes(table, key=["id"], feed="opps")


# --- Debezium ----------------------------------------------------------------------------------


def event(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "source": {"table": "t"}, "ts_ms": 1}


EVENTS = [
    event("r", None, {"id": 1, "zip": "a", "day": "2024-01-31"}),
    event("c", None, {"id": 2, "zip": "b", "day": None}),
    event("u", None, {"id": 2, "zip": "c", "day": None}),
    event("u", {"id": 2, "zip": "c"}, {"id": 3, "zip": "c", "day": None}),
    event("d", {"id": 1}, None),
]
DAY = dt.date(2024, 1, 31)
EXPECTED = [
    ("insert", 1, "a", DAY), ("insert", 2, "b", None), ("update", 2, "c", None),
    ("delete", 2, "c", None), ("insert", 3, "c", None), ("delete", 1, None, None),
]  # fmt: skip


@pytest.mark.parametrize("wrapped", [False, True])
def test_debezium_envelopes(tmp_path: Path, wrapped: bool) -> None:
    events: list[Any] = [{"schema": {"type": "struct"}, "payload": e} if wrapped else e for e in EVENTS]
    events.insert(2, {"schema": None, "payload": None} if wrapped else None)
    events.insert(0, None)
    path = lines(tmp_path / "a.jsonl", events)
    changes = read_changes(path, key=["id"], schema=SCHEMA)
    assert said(changes) == EXPECTED
    assert [changes.place(i) for i in (0, 2, 3, 4)] == [f"line {n} of {path}" for n in (2, 5, 6, 6)]
    assert said(read_changes(events, key=["id"], schema=SCHEMA)) == EXPECTED
    assert said(read_changes(path, key=["id"])) == EXPECTED, "dates are told from text"


@pytest.mark.parametrize("wrapped", [False, True])
def test_debezium_struct_columns(tmp_path: Path, wrapped: bool) -> None:
    image = pa.struct([("id", pa.int64()), ("zip", pa.string()), ("day", pa.string())])
    payload = pa.struct([("before", image), ("after", image), ("op", pa.string())])
    table = pa.Table.from_struct_array(
        pa.array([{k: e[k] for k in ("before", "after", "op")} for e in EVENTS], payload)
    )
    if wrapped:
        table = pa.table({"payload": table.to_struct_array()})
    assert said(read_changes(table, key=["id"], schema=SCHEMA)) == EXPECTED
    assert read_changes(table, key=["id"]).rows.schema.field("id").type == pa.int64()
    for name in "ab":
        pq.write_table(table, tmp_path / f"{name}.parquet")
    changes = read_changes(tmp_path, key=["id"], schema=SCHEMA)
    assert said(changes) == EXPECTED * 2
    assert changes.place(len(EXPECTED)) == f"row 1 of {tmp_path / 'b.parquet'}"


def test_debezium_without_events(tmp_path: Path) -> None:
    for content in ("", "null\nnull\n"):
        path = tmp_path / "a.jsonl"
        path.write_text(content)
        assert len(read_changes(path, key=["id"])) == 0
        assert read_changes(path, key=["id"], schema=SCHEMA, feed="debezium").rows.schema == SCHEMA


@pytest.mark.parametrize(("bad", "text", "hint"), [
    (event("t"), "record 2 of the records: the table was truncated (op 't')", "start a new state"),
    (event("x"), "record 2 of the records: unknown operation 'x'", "c, r, u, d"),
    ({"after": {}}, "record 2 of the records: no operation", "c, r, u, d"),
    (event("d"), "record 2 of the records: op 'd' without its 'before' image", "REPLICA IDENTITY"),
    (event("u", {"id": 1}), "record 2 of the records: op 'u' without its 'after' image", "the new row"),
    (event("d", {"zip": "a"}), "record 2 of the records: no value in key column 'id'", "whole key"),
    (event("c", None, {"id": 9, "zp": 1}), "record 2 of the records: unknown column 'zp'", "mean 'zip'"),
    (event("c", None, {"id": "x"}), "record 2 of the records: column 'id' holds 'x', expected a whole", None),
    (event("u", None, {"id": 9, "zip": "__debezium_unavailable_value"}),
     "record 2 of the records: column 'zip' holds Debezium's placeholder", "REPLICA IDENTITY FULL"),
])  # fmt: skip
def test_debezium_troubles(bad: dict[str, Any], text: str, hint: str | None) -> None:
    with refuses(text, hint):
        read_changes([EVENTS[0], bad], key=["id"], schema=SCHEMA)


def test_debezium_lines_that_are_no_events(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(EVENTS[0]) + "\n17\n")
    with refuses(f"line 2 of {path}: not a Debezium event: 17"):
        read_changes(path, key=["id"])
    path.write_text(json.dumps(EVENTS[0]) + "\n{\n")
    with refuses(f"line 2 of {path} is not JSON"):
        read_changes(path, key=["id"])


def test_debezium_flattened(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "zip": "a", "__deleted": "false", "__op": "c", "__source_ts_ms": 1},
        {"id": 2, "zip": "b", "__deleted": "false", "__op": "u", "__source_ts_ms": 2},
        {"id": 3, "zip": None, "__deleted": "true", "__op": "d", "__source_ts_ms": 3},
    ]
    expected = [("insert", 1, "a"), ("update", 2, "b"), ("delete", 3, None)]
    path = lines(tmp_path / "a.jsonl", [rows[0], None, *rows[1:]])
    changes = read_changes(path, key=["id"], schema=SCHEMA)
    assert said(changes) == expected
    assert changes.place(1) == f"line 3 of {path}"
    assert said(read_changes(pa.Table.from_pylist(rows), key=["id"], schema=SCHEMA)) == expected
    flags = pa.table({"id": [1, 2, 3], "__deleted": [True, False, None]})
    assert said(read_changes(flags, key=["id"])) == [("delete", 1), ("upsert", 2), ("upsert", 3)]
    (tmp_path / "a.csv").write_text("id,zip,__deleted\n1,a,false\n2,,true\n")
    csv = read_changes(tmp_path / "a.csv", key=["id"], schema=SCHEMA)
    assert said(csv) == [("upsert", 1, "a"), ("delete", 2, None)]
    with refuses("row 1 of the table: unknown flag 'perhaps' in column '__deleted'", "true, false"):
        read_changes(pa.table({"id": [1], "__deleted": ["perhaps"]}), key=["id"])


# --- cost --------------------------------------------------------------------------------------


def test_rows_of_columnar_feeds_are_not_looked_at_one_by_one() -> None:
    calls = []
    # the first time kernels are loaded
    for n in (8000, 1000, 8000):
        table = pa.table({"id": list(range(n)), **{f"c{i}": [f"v{j % 97}" for j in range(n)] for i in range(4)}})
        ops = table.append_column("_op", pa.array(["c", "u", "d", "u"] * (n // 4)))
        calls.append([_calls(source, table.schema) for source in (table, ops)])
    assert all(many < few + 100 for few, many in zip(*calls[1:], strict=True)), calls


def _calls(source: pa.Table, schema: pa.Schema) -> int:
    """How many functions reading changes enters, Python's and others."""
    count = 0

    def note(_frame: Any, event: str, _what: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        read_changes(source, key=["id"], schema=schema)
    finally:
        sys.setprofile(None)
    return count


def test_debezium_needs_a_mark_of_debezium(tmp_path: Path) -> None:
    rows = lines(tmp_path / "plain.jsonl", [{"id": 1, "zip": "a"}])
    for source in (rows, pa.table({"id": [1], "zip": ["a"]})):
        with refuses("not a feed of Debezium", "append"):
            read_changes(source, key=["id"], feed="debezium")


@pytest.mark.parametrize("name", ["op", "_op", "operation"])
def test_without_rows_an_operation_column_is_told_by_its_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text(f"id,zip,{name}\n")
    assert read_changes(path, key=["id"]).rows.column_names == ["id", "zip"]


def test_a_first_batch_without_rows_does_not_make_deletes_inserts(tmp_path: Path) -> None:
    for name, rows in (("empty", ""), ("first", "1,10,insert\n2,11,insert\n"), ("second", "1,10,delete\n")):
        (tmp_path / f"{name}.csv").write_text("id,zip,op\n" + rows)
    monitor = holdstrue.Monitor("key(zip)", key="id")
    for name in ("empty", "first", "second"):
        monitor.apply(tmp_path / f"{name}.csv")
    assert monitor.rows == {"data": 1}


def test_a_first_batch_without_rows_does_not_say_which_columns_there_are(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("id,zip\n")
    (tmp_path / "empty.jsonl").write_text("")
    for name in ("empty.csv", "empty.jsonl"):
        monitor = holdstrue.Monitor("zip -> city", key="id")
        monitor.apply(tmp_path / name)
        delta = monitor.apply(pa.table({"id": [1, 2], "zip": [1, 1], "city": ["a", "b"], "op": ["i", "i"]}))
        assert delta.counts["zip -> city"].added == 1
