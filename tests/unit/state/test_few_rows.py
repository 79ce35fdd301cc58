"""Rows that entries of the log hold as text come back as they were."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue import Monitor
from holdstrue.state import few_rows
from holdstrue.state.few_rows import FewRows, RowForm, decode, encode
from holdstrue.state.files import StateFiles
from holdstrue.state.store import LOG

UTC = dt.UTC
CASES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 127]),
    (pa.uint64(), [0, 2**64 - 1]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.float64(), [0.1, -0.0, 5e-324, float("inf"), float("-inf"), 1.7976931348623157e308]),
    (pa.float32(), [0.10000000149011612, float("inf"), 1.401298464324817e-45]),
    (pa.bool_(), [True, False]),
    (pa.string(), ["", "a\0b", "δ😀", '"\\', "\u2028"]),
    (pa.large_string(), ["x"]),
    (pa.binary(), [b"", bytes(range(256))]),
    (pa.large_binary(), [b"\xff"]),
    (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (pa.timestamp("us"), [dt.datetime(1, 1, 1, 0, 0, 0, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    (pa.timestamp("s"), [dt.datetime(1969, 12, 31, 23, 59, 59)]),
    (pa.timestamp("ms", "UTC"), [dt.datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)]),
    (pa.decimal128(38, 10), [Decimal("-9999999999999999999999999999.9999999999"), Decimal("1E-10")]),
    (pa.decimal128(5, -2), [Decimal("1.5E+4")]),
]


@pytest.mark.parametrize(("type_", "values"), CASES, ids=[str(type_) for type_, _ in CASES])
def test_values_come_back(type_: pa.DataType, values: list[Any]) -> None:
    column = pa.array([*values, None], type_)
    schema = pa.schema([pa.field("x", type_), pa.field("n", pa.int64())])
    read = [column[at].as_py() for at in range(len(column))]
    [table] = decode(encode([FewRows(RowForm(schema), [(value, at) for at, value in enumerate(read)])]))
    assert table.schema == schema
    assert table.column("x").combine_chunks().equals(column)
    table.validate(full=True)


def test_tables_without_rows_and_their_metadata() -> None:
    form = RowForm(pa.schema({"id": pa.int64(), "day": pa.date32()}))
    first, second = decode(encode([FewRows(form, [], {"old": "3"}), FewRows(form, [(1, None)])]))
    assert first.num_rows == 0 and first.schema.metadata == {b"old": b"3"}
    assert second.to_pylist() == [{"id": 1, "day": None}] and second.schema.metadata is None


@pytest.mark.parametrize(
    "rows", [[1], [["x"]], [[1, 2, 3]], [[2**63]], {"a": 1}, [[[]]], [[{}]], "x", [[1.5]], [["\ud800"]], None]
)
def test_other_rows_are_refused(rows: Any) -> None:
    text = json.loads(encode([FewRows(RowForm(pa.schema({"n": pa.int64()})), [(1,)])]).removeprefix(few_rows.MARK))
    text[0][2] = rows
    with pytest.raises(ValueError, match=r"rows cannot be read|half a letter|longer|shorter|strict"):
        decode(few_rows.MARK + json.dumps(text).encode())


def test_other_types_have_no_text() -> None:
    with pytest.raises(ValueError, match="have no text"):
        RowForm(pa.schema({"n": pa.timestamp("ns")}))


def test_single_rows_of_a_state_are_text_and_batches_are_not(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "zip": ["a", "b"], "city": ["x", "y"]})
    with Monitor.create(tmp_path / "state", "zip -> city", key="id", data=rows) as monitor:
        monitor.apply({"id": 3, "zip": "a", "city": "z"})
        monitor.apply(rows.set_column(0, "id", [[4, 5]]))
        held = monitor.rows, monitor.counts(), monitor.history()
    with StateFiles(tmp_path / "state") as files:
        starts = [bytes(files._entry(version).payload[:8]) for version in (1, 2)]
        assert starts[0] == few_rows.MARK and starts[1] != few_rows.MARK
        assert files.newest() == 2 and files.store.read(f"{LOG}{1:012d}")
    with Monitor.open(tmp_path / "state") as monitor:
        assert (monitor.rows, monitor.counts(), monitor.history()) == held
