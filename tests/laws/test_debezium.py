"""A monitor fed with Debezium's events holds the rows that were written, however they were encoded."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import oracle
from holdstrue import Monitor
from holdstrue.monitor.sharded import Sharded
from laws import debezium
from laws.debezium import COLUMNS, SCHEMA, UNITS, Row
from laws.shards import Loops
from laws.test_detection import found, nonempty

ORDERED = ("b", "d", "day", "tm", "ts", "z", "w", "f", "n", "s")
WHOLE = (f"key({', '.join(COLUMNS)})", ("key", list(COLUMNS)))
"""A rule that reads all columns, so that all are kept."""
RULES: dict[str, tuple[Any, ...]] = {f"key({name})": ("key", [name]) for name in COLUMNS}
RULES |= {
    f"not(t.id < s.id and t.{name} > s.{name})": (
        "dc", [(("t", "id"), "<", ("s", "id")), (("t", name), ">", ("s", name))]
    )
    for name in ORDERED
}  # fmt: skip


def happen(data: st.DataObject, rows: dict[int, Row], *, moves: bool) -> list[tuple[str, Row | None, Row | None]]:
    """Some changes of a table, which are made in `rows` too."""
    steps: list[tuple[str, Row | None, Row | None]] = []
    for _ in range(data.draw(st.integers(1, 4))):
        free = data.draw(st.integers(0, 50).filter(lambda key: key not in rows))
        old = data.draw(st.sampled_from(sorted(rows))) if rows else None
        op = "c" if old is None else data.draw(st.sampled_from("cudr"))
        before = None if old is None or op in "cr" else rows.pop(old)
        key = free if before is None or (moves and data.draw(st.booleans())) else before["id"]
        after = None if op == "d" else data.draw(debezium.rows(key))
        if after is not None:
            rows[key] = after
        steps.append((op, before, after))
    return steps


def held(monitor: Monitor) -> dict[int, Row]:
    """The rows a monitor holds."""
    table = monitor._shard().engine.tables["data"].rows
    return {row["id"]: row for row in table.take(table.living_slots()).select(SCHEMA.names).to_pylist()}


def rules_of(data: st.DataObject) -> dict[str, tuple[Any, ...]]:
    return dict([WHOLE, *data.draw(st.lists(st.sampled_from(list(RULES.items())), max_size=4, unique_by=str))])


def as_source(data: st.DataObject, events: list[Any], folder: str, number: int, form: str) -> Any:
    if form == "records":
        return events
    if form == "table":
        try:
            return pa.Table.from_pylist(events)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers and "Infinity" in one column, which only JSON can hold
            form = "lines"
    path = Path(folder) / f"{number}.jsonl"
    text = "\n".join(json.dumps(value) for value in events)
    if form == "array":
        text = json.dumps(events, indent=data.draw(st.sampled_from([None, 1])))
    path.write_text(text)
    return path


@pytest.mark.parametrize("flat", [False, True])
@settings(max_examples=60)
@given(data=st.data())
def test_rows_are_those_that_were_written(flat: bool, data: st.DataObject) -> None:
    """One process and shards, from rows with types on, by files, records and tables, with schema blocks and without."""
    rows = {key: data.draw(debezium.rows(key)) for key in range(data.draw(st.integers(0, 3)))}
    start = pa.Table.from_pylist(list(rows.values()), SCHEMA)
    write = debezium.flattened if flat else debezium.envelope
    rules = rules_of(data)
    with tempfile.TemporaryDirectory() as folder:
        one = Monitor(list(rules), key="id", data=start)
        many = Sharded(Loops(2), Path(folder) / "state", list(rules), key="id")
        many.apply([start], feed="append")
        for number in range(data.draw(st.integers(1, 3))):
            steps = happen(data, rows, moves=not flat)
            typed = data.draw(st.booleans())
            how = data.draw(debezium.ways(typed))
            form = data.draw(st.sampled_from(["lines", "array", "records", "table"]))
            event(f"{form}, typed: {typed}, flat: {flat}")
            events = [write(*step, how, typed=typed) for step in steps]
            source = as_source(data, events, folder, number, form)
            read: dict[str, Any] = {} if typed else {"units": UNITS}
            one.apply(source, feed="debezium", **read)
            if isinstance(source, pa.Table):
                many.apply([source], feed="debezium", read=read)
            else:
                path = as_source(data, events, folder, number, "lines") if form == "records" else source
                frame = pa.table({"path": [str(path)]})
                many.apply([frame], feed="files", read=read | {"feed": "debezium"})
            assert held(one) == rows
            truth = violated(rows, rules)
            assert nonempty(found(one.violations())) == truth
            assert many.counts() == one.counts()


def violated(rows: dict[int, Row], rules: dict[str, tuple[Any, ...]]) -> dict[str, set[tuple[Any, ...]]]:
    """What the oracle finds, by the keys of rows; a pair of a symmetric rule in the order in which rows are."""
    table = [rows[key] for key in sorted(rows)]
    return nonempty({
        name: {tuple(table[i]["id"] for i in pair) for pair in oracle.violations(rule, table)}
        for name, rule in rules.items()
    })  # fmt: skip


@settings(max_examples=40)
@given(data=st.data())
def test_a_table_may_begin_with_events(data: st.DataObject) -> None:
    """Types come from the schema blocks then; the values are the same."""
    rows: dict[int, Row] = {}
    steps = happen(data, rows, moves=True)
    how = data.draw(debezium.ways(True))
    rules = rules_of(data)
    events = [debezium.envelope(*step, how, typed=True) for step in steps]
    with tempfile.TemporaryDirectory() as folder:
        path = as_source(data, events, folder, 0, "lines")
        one = Monitor(list(rules), key="id")
        one.apply(path)
        table = as_source(data, events, folder, 1, "table")
        if isinstance(table, pa.Table):
            many = Sharded(Loops(2), Path(folder) / "state", list(rules), key="id")
            many.apply([table])
            assert many.counts() == one.counts()
    # text and doubles are what they are where no table says that they stand for decimals
    plain = how["d"].field is not None and how["d"].field["type"] in ("string", "double")
    assert held(one) == {
        key: row | ({"d": how["d"].write(row["d"])} if plain and row["d"] is not None else {})
        for key, row in rows.items()
    }  # fmt: skip
