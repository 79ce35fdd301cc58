"""Changes that come late: however they are ordered and cut into batches, the newest of each key counts."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdstrue
from holdstrue.detect import sequence
from holdstrue.errors import ChangeError, DataError, HoldstrueError
from holdstrue.monitor.sharded import Sharded
from laws.shards import Loops

SCHEMA = pa.schema({"op": pa.string(), "id": pa.int64(), "zip": pa.string(), "city": pa.string(), "at": pa.int64()})
RULE = "zip -> city"
Event = dict[str, Any]

EVENTS = st.lists(
    st.builds(
        lambda op, key, zip_, city, at: {"op": op, "id": key, "zip": zip_, "city": city, "at": at},
        st.sampled_from(["insert", "update", "delete", "upsert"]), st.integers(0, 4), st.sampled_from("ab"),
        st.sampled_from("xy"), st.integers(0, 9),
    ),
    max_size=14,
)  # fmt: skip


def batch(events: list[Event]) -> pa.Table:
    return pa.Table.from_pylist(events, SCHEMA)


def truth(events: list[Event], first: dict[int, Event] | None = None) -> dict[int, Event]:
    """The rows that are left: of each key the event with the highest sequence, the last of equal ones."""
    newest: dict[int, Event] = dict(first or {})
    for event in events:
        known = newest.get(event["id"])
        if known is None or known["at"] is None or event["at"] >= known["at"]:
            newest[event["id"]] = event
    return {key: event for key, event in newest.items() if event["op"] != "delete"}


def broken(rows: dict[int, Event]) -> int:
    pairs = [(a, b) for a in rows.values() for b in rows.values() if a["id"] < b["id"]]
    return sum(a["zip"] == b["zip"] and a["city"] != b["city"] for a, b in pairs)


def held(monitor: holdstrue.Monitor, rows: dict[int, Event]) -> None:
    """The monitor has these rows, as far as violations tell, and says nothing of what it remembers beside them."""
    assert monitor.rows == {"data": len(rows)}
    assert monitor.counts()[RULE].open == broken(rows)


@settings(max_examples=60, deadline=None)
@given(EVENTS, st.data())
def test_the_newest_counts(events: list[Event], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=3)))
    parts = [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]
    most = data.draw(st.sampled_from([2, sequence.MOST_GONE]))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        here = holdstrue.Monitor.create(Path(folder, "here"), RULE, "id", sequence_by="at")
        apart = Sharded(Loops(2), Path(folder, "apart"), RULE, "id", sequence_by="at")
        if most == 2:
            # what is forgotten may come back, so that only the machinery is looked at
            patch.setattr(sequence, "MOST_GONE", 2)
        seen: list[Event] = []
        for number, part in enumerate(parts):
            seen += part
            here.apply(batch(part), number)
            apart.apply([batch(part)], number)
            if data.draw(st.booleans()):
                here.close()
                here = holdstrue.Monitor.open(Path(folder, "here"))
            if most > 2:
                held(here, truth(seen))
                held(apart, truth(seen))
        here.close()
        # the state goes on in the other form
        last = {"op": "update", "id": 3, "zip": "a", "city": "z", "at": 10}
        moved = Sharded(Loops(2), Path(folder, "here"))
        moved.apply([batch([last])], "moved")
        with holdstrue.Monitor.open(Path(folder, "apart")) as gathered:
            gathered.apply(batch([last]), "moved")
            if most > 2:
                held(gathered, truth([*seen, last]))
                held(moved, truth([*seen, last]))


def event(op: str, key: int, at: int | None, city: str = "x") -> Event:
    return {"op": op, "id": key, "zip": "a", "city": city, "at": at}


def test_late_changes_are_counted_and_deletes_remembered(tmp_path: Path) -> None:
    with holdstrue.Monitor.create(tmp_path / "state", RULE, "id", sequence_by="at") as monitor:
        monitor.apply(batch([event("insert", 1, 5), event("delete", 2, 7)]))
        delta = monitor.apply(batch([event("update", 1, 4, "old"), event("insert", 2, 6), event("update", 1, 3)]))
        assert delta.notes == ("3 changes of data came late: newer ones are there, by at",)
        assert monitor.rows == {"data": 1}
        monitor.apply(batch([event("insert", 2, 7, "again")]))
        held(monitor, {1: event("", 1, 5), 2: event("", 2, 7, "again")})


def test_a_state_learns_to_go_by_a_sequence(tmp_path: Path) -> None:
    """What is there before is older than any change; shards and one piece go on alike."""
    first = batch([event("insert", 1, 1), event("insert", 2, 1)])
    with holdstrue.Monitor.create(tmp_path / "here", RULE, "id") as monitor:
        monitor.apply(first)
    shutil.copytree(tmp_path / "here", tmp_path / "apart")
    late = batch([event("update", 1, -5, "y"), event("delete", 2, -5), event("delete", 9, -5)])
    with holdstrue.Monitor.open(tmp_path / "here") as monitor:
        monitor.apply(late, sequence_by="at")
        held(monitor, {1: event("", 1, -5, "y")})
        monitor.apply(batch([event("insert", 2, -6), event("insert", 3, -6)]))
        held(monitor, {1: event("", 1, -5, "y"), 3: event("", 3, -6)})
        with pytest.raises(HoldstrueError, match="ordered by 'at', not by 'city'"):
            monitor.apply(late, sequence_by="city")
        with pytest.raises(HoldstrueError, match="ignore is not for tables whose changes have a sequence"):
            monitor.apply(late, on_conflict="ignore")
    for path in (tmp_path / "apart", tmp_path / "here"):
        apart = Sharded(Loops(2), path)
        apart.apply([late], sequence_by="at")
        apart.apply([batch([event("insert", 2, -6)])])
        assert apart.rows["data"] == (1 if path.name == "apart" else 2)


def test_what_cannot_order_changes_is_refused() -> None:
    monitor = holdstrue.Monitor(RULE, "id", sequence_by="at")
    with pytest.raises(ChangeError, match=r"row 2 of the table: no value in 'at', by which changes are ordered"):
        monitor.apply(batch([event("insert", 1, 1), event("delete", 1, None)]))
    assert monitor.batches == 0
    for column, said in (
        ("city", "it holds string"),
        ("id", "it is part of the key"),
        ("when", "has no column 'when'"),
    ):
        with pytest.raises(DataError, match=said):
            holdstrue.Monitor(RULE, "id", sequence_by=column).apply(batch([event("insert", 1, 1)]))
    with pytest.raises(HoldstrueError, match="no rule reads"):
        holdstrue.Monitor(RULE, "id", sequence_by={"orders": "at"})


def test_records_of_a_log(tmp_path: Path) -> None:
    """Debezium's events and plain rows as bytes; the sequence stands in the event around the row, or beside it."""
    schema = pa.schema({"id": pa.int64(), "zip": pa.string(), "city": pa.string(), "price": pa.float64()})
    monitor = Sharded(Loops(2), tmp_path / "state", RULE, "id")
    read = {"schema": schema}

    def records(*values: Any, start: int = 0) -> list[pa.Table]:
        texts = [None if value is None else json.dumps(value).encode() for value in values]
        offsets = pa.array(range(start, start + len(texts)), pa.int64())
        topics = pa.array(["shop"] * len(texts), pa.string())
        return [pa.table({"key": topics, "value": pa.array(texts, pa.binary()), "topic": topics, "offset": offsets})]

    def envelope(op: str, lsn: int, key: int, city: str) -> Event:
        image = {"id": key, "zip": "a", "city": city, "price": 1.5, "new": 1}
        images = {"before": image, "after": None} if op == "d" else {"before": None, "after": image}
        return {"schema": None, "payload": {"op": op, **images, "source": {"lsn": lsn}}}

    first = records(envelope("c", 5, 1, "x"), envelope("u", 9, 2, "y"), None)
    monitor.apply(first, feed="kafka", read=read, sequence_by="source.lsn")
    monitor.apply(records(envelope("u", 4, 1, "y"), envelope("d", 8, 2, "y"), envelope("d", 7, 3, "x")), feed="kafka")
    held(monitor, {1: event("", 1, 5, "x"), 2: event("", 2, 9, "y")})
    monitor.apply(records(envelope("c", 6, 3, "x"), envelope("d", 9, 2, "y")), feed="kafka")
    held(monitor, {1: event("", 1, 5, "x")})
    with pytest.raises(ChangeError, match=r"topic shop, offset 8: the value is no JSON"):
        bad = records({"op": "c"}, None, start=7)[0]
        monitor.apply([bad.set_column(1, "value", pa.array([None, b"{oops"], pa.binary()))], feed="kafka")
    with pytest.raises(ChangeError, match=r"no column 'source.lsn', which the rules read"):
        monitor.apply(records({"id": 4, "zip": "a", "city": "x", "price": 0.5}), feed="kafka")
    plain = Sharded(Loops(2), tmp_path / "plain", RULE, "id", sequence_by="offset")
    with pytest.raises(ChangeError, match="not known yet"):
        plain.apply(records({"id": 1}), feed="kafka")
    rows = [{"op": "update", "id": 1, "zip": "a", "city": city, "price": 0.5} for city in "xy"]
    plain.apply(records(*rows, {"id": 2, "op": "insert", "zip": "a", "city": "x"}), feed="kafka", read=read)
    held(plain, {1: event("", 1, 1, "y"), 2: event("", 2, 2, "x")})


def test_types_grow_and_columns_come(tmp_path: Path) -> None:
    """A frame of wider types widens the state, a narrower one does not matter, a new column is left out."""
    rules = ["zip -> n", "not(t.zip = s.zip and t.n < s.n and t.x > s.x)"]
    monitor = Sharded(Loops(2), tmp_path / "state", rules, "id")
    narrow = {"id": pa.int32(), "zip": pa.string(), "n": pa.int16(), "x": pa.float32()}
    wide = {"id": pa.int64(), "zip": pa.string(), "n": pa.int64(), "x": pa.float64(), "note": pa.string()}
    rows = [{"id": 1, "zip": "a", "n": 7, "x": 0.5}, {"id": 2, "zip": "a", "n": 7, "x": 0.5}]
    monitor.apply([pa.Table.from_pylist(rows, pa.schema(narrow))])
    more = [{"id": 2**40, "zip": "a", "n": 2**40, "x": 0.1, "note": "new"}]
    delta = monitor.apply([pa.Table.from_pylist(more, pa.schema(wide))])
    assert "'note'" in delta.notes[0]
    monitor.apply([pa.Table.from_pylist([{"id": 3, "zip": "a", "n": 7, "x": 0.5}], pa.schema(narrow))])
    assert [counts.open for counts in monitor.counts().values()] == [3, 3]
    kept = monitor.facts.schemas["data"]
    assert [str(kept.field(name).type) for name in ("id", "n", "x")] == ["int64", "int64", "double"]
    with holdstrue.Monitor.open(tmp_path / "state") as here:
        assert here.rows == {"data": 4}
