"""The monitor's own verbs on Spark: opening, reading, annotating, splitting, laying out anew, and its refusals."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.errors import DataError, HoldstrueError, StateError
from holdstrue.shards import hot
from holdstrue.shards.homes import MOST_BYTES
from holdstrue.spark import Monitor
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import Journal
from laws.test_detection import assert_counts, found, nonempty
from spark.frames import added, assert_step, frame, listed, shard_rows
from translate import expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = holdstrue.load_rules(
    [
        {"name": "fd", "rule": "zip -> city", "description": "one city a zip"},
        {"name": "pairs", "rule": "not(t.zip = s.zip and t.size < s.size and t.cost > s.cost)"},
        {"name": "row", "rule": "not(t.size > 8)"},
    ]
)
Row = dict[str, Any]


def row(key: int, **changed: Any) -> Row:
    return {"id": key, "zip": f"z{key % 3}", "city": f"c{key % 3}", "size": key, "cost": float(key)} | changed


FIRST = {i: row(i) for i in range(9)} | {9: row(9, city="Ulm"), 10: row(10, cost=-1.0)}


def table(rows: dict[int, Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows.values()))


@pytest.fixture
def monitor(spark: SparkSession, tmp_path: Path) -> Monitor:
    """A monitor of a few rows, some of them wrong."""
    return made(spark, tmp_path / "state")


def made(spark: SparkSession, place: str | Path) -> Monitor:
    return Monitor(spark, place, RULES, key="id", data=frame(spark, table(FIRST), 4), shards=3, tasks=2)


def test_what_a_monitor_tells(spark: SparkSession, place: str) -> None:
    monitor = made(spark, place)
    before = expected(RULES, list(FIRST.values()), list(FIRST))
    assert all(before.values())
    rows = {**FIRST, 2: row(2, zip="z0"), 11: row(11, size=20)}
    del rows[9]
    after = expected(RULES, list(rows.values()), list(rows))
    changes = pa.Table.from_pylist([row(2, zip="z0", op="update"), row(11, size=20, op="insert"), row(9, op="delete")])
    delta = monitor.apply(frame(spark, changes), "tuesday")
    assert_step(delta, before, after)
    assert monitor.batches == 2
    assert monitor.rows == {"data": len(rows)}
    history = monitor.history()
    assert [(line.batch, line.rule) for line in history] == [(b, r.name) for b in ("#1", "tuesday") for r in RULES]
    assert [(line.added, line.removed, line.open) for line in history[3:]] == [
        (step.added, step.removed, step.open) for step in delta.counts.values()
    ]
    last = monitor.last()
    assert last is not None and last.batch == "tuesday"
    assert found(last.added) == found(delta.added) and found(last.removed) == found(delta.removed)
    changed = monitor.delta().toArrow().to_pylist()
    for change, wanted in ((1, added(before, after)), (-1, added(after, before))):
        own = [(row["rule"], row["t"], row["s"]) for row in changed if row["change"] == change]
        assert sorted(own, key=str) == sorted(((r, *v, None)[:3] for r, some in wanted.items() for v in some), key=str)
    for rule in RULES:
        assert found(listed(monitor.violations(rule.name))) == nonempty({rule.name: after[rule.name]})
    assert "data by (zip), for 'fd', 'pairs'" in monitor.explain()
    again = Monitor(spark, monitor.path)
    assert again.counts() == monitor.counts()
    assert again.apply(frame(spark, changes), "tuesday").duplicate
    assert again.batches == 2


def test_before_the_first_batch(spark: SparkSession, place: str) -> None:
    monitor = Monitor(spark, place, RULES, key="id")
    assert monitor.violations().toArrow().num_rows == monitor.delta().toArrow().num_rows == 0
    assert {name: counts.open for name, counts in monitor.counts().items()} == {"fd": 0, "pairs": 0, "row": 0}
    assert (monitor.batches, monitor.rows, monitor.history(), monitor.last()) == (0, {"data": 0}, [], None)
    assert "no data yet" in monitor.explain()
    rows = frame(spark, table(FIRST))
    good, bad = monitor.quarantine(rows)
    assert (good.count(), bad.count()) == (len(FIRST), 0)


def test_lists_stop_at_the_limit_and_counts_do_not(spark: SparkSession, monitor: Monitor) -> None:
    rows = {i: row(i, city=f"c{i}") for i in range(20, 40)}
    truth = expected(RULES, [*FIRST.values(), *rows.values()], [*FIRST, *rows])
    delta = monitor.apply(frame(spark, table(rows)), limit=5)
    assert delta.truncated
    assert {rule: step.open for rule, step in delta.counts.items()} == {rule: len(some) for rule, some in truth.items()}
    assert len(delta.added) == 5
    assert found(listed(monitor.violations())) == nonempty(truth)


def test_few_changes_that_turn_out_many(spark: SparkSession, monitor: Monitor) -> None:
    """A batch that one task should not hold goes the long way, and goes in once."""
    before = monitor.counts()["fd"].open
    text = f"repeat('x', {2 * MOST_BYTES // 100_000})"
    many = spark.range(100, 100_100).selectExpr(
        "id", "concat('q', id div 2) as zip", f"if(id = 999, 'y', {text}) as city", "1L as size", "1.0D as cost"
    )
    delta = monitor.apply(many, one_task=True)
    assert [(v.t, v.s) for v in delta.added] == [(998, 999)]
    assert monitor.rows == {"data": len(FIRST) + 100_000}
    assert monitor.counts()["fd"].open == before + 1


# --- rows with what is wrong with them -----------------------------------------------------------


def said(rows: pa.Table, key: str) -> dict[Any, list[tuple[str, str | None, str]]]:
    """By row what its annotation says."""
    return {row[key]: [(e["rule"], e["partner"], e["message"]) for e in row["_violations"]] for row in rows.to_pylist()}


def test_annotated_and_split(spark: SparkSession, monitor: Monitor) -> None:
    truth = expected(RULES, list(FIRST.values()), list(FIRST))
    messages = {rule.name: rule.description or rule.text for rule in RULES}
    wanted: dict[int, list[tuple[str, str | None, str]]] = {key: [] for key in (*FIRST, 99)}
    for rule, violations in truth.items():
        for violation in violations:
            for at, key in enumerate(violation):
                partner = str(violation[1 - at]) if len(violation) == 2 else None
                wanted[key].append((rule, partner, messages[rule]))
    # a row that the monitor has not seen has no violations
    rows = frame(spark, table({**FIRST, 99: row(99)}).append_column("more", pa.array(["x"] * (len(FIRST) + 1))))
    annotated = monitor.annotated(rows)
    assert annotated.columns == [*rows.columns, "_violations"]
    assert said(annotated.toArrow(), "id") == {key: sorted(some) for key, some in wanted.items()}
    good, bad = monitor.quarantine(rows)
    assert good.columns == rows.columns
    assert {row["id"] for row in good.toArrow().to_pylist()} == {key for key, some in wanted.items() if not some}
    assert said(bad.toArrow(), "id") == {key: sorted(some) for key, some in wanted.items() if some}


def test_annotated_with_a_key_of_several_columns(spark: SparkSession, tmp_path: Path) -> None:
    day = dt.date(2024, 1, 1)
    data = pa.table({"shop": ["a", "a", "b"], "day": [day, dt.date(2024, 1, 2), day], "total": [1, 2, 3]})
    monitor = Monitor(spark, tmp_path / "state", ["day -> total"], key=["shop", "day"], data=frame(spark, data))
    assert [(v.t, v.s) for v in listed(monitor.violations())] == [(("a", day), ("b", day))]
    rows = monitor.annotated(frame(spark, data)).toArrow().to_pylist()
    partners = {(row["shop"], row["day"]): [e["partner"] for e in row["_violations"]] for row in rows}
    assert [json.loads(partner) for partner in partners["a", day]] == [{"shop": "b", "day": "2024-01-01"}]
    assert [json.loads(partner) for partner in partners["b", day]] == [{"shop": "a", "day": "2024-01-01"}]
    assert partners["a", dt.date(2024, 1, 2)] == []


def test_two_tables_with_keys_of_different_types(spark: SparkSession, tmp_path: Path) -> None:
    """Keys that differ by table are shown as text, and rows are still annotated by their own key."""
    rules = [
        {"name": "known", "rule": "orders.customer in customers.name"},
        {"name": "served", "rule": "customers.first in orders.id"},
    ]
    orders = pa.table({"id": [1, 2, 3], "customer": ["ann", "bob", None]})
    customers = pa.table({"name": ["ann", "cid"], "first": [1, 7]})
    monitor = Monitor(spark, tmp_path / "state", rules, key={"orders": "id", "customers": "name"})
    assert monitor.apply({"orders": frame(spark, orders)}).counts["known"].open == 2
    # nothing is known of customers' keys yet, so those of orders are what they are
    assert found(listed(monitor.violations())) == {"known": {(1,), (2,)}}
    monitor.apply({"customers": frame(spark, customers)})
    assert found(listed(monitor.violations())) == {"known": {("2",)}, "served": {("cid",)}}
    assert found(listed(monitor.violations("known"))) == {"known": {(2,)}}
    annotated = said(monitor.annotated(frame(spark, orders)).toArrow(), "id")
    assert {key: [rule for rule, _, _ in some] for key, some in annotated.items()} == {1: [], 2: ["known"], 3: []}
    _, bad = monitor.quarantine(frame(spark, customers), table="customers")
    assert [row["name"] for row in bad.toArrow().to_pylist()] == ["cid"]
    with pytest.raises(HoldstrueError, match="no table 'shops'"):
        monitor.annotated(frame(spark, orders), table="shops")


# --- layout --------------------------------------------------------------------------------------


def test_laid_out_anew(spark: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that grew is given more shards, and grids for the keys that became hot."""
    monkeypatch.setattr(hot, "SEEN_AT_LEAST", 2)
    rows = {i: row(i, zip="z" if i % 2 else f"z{i}", city=f"c{i // 30}") for i in range(60)}
    truth = expected(RULES, list(rows.values()), list(rows))
    monitor = Monitor(spark, place, RULES, key="id", data=frame(spark, table(rows)), shards=1, tasks=2)
    version = StateFiles(monitor.path).manifest()["version"]
    assert {route: len(held) for route, held in shard_rows(monitor).items()} == {"home": 1, "data by (zip)": 1}
    monitor.rebalance(shards=4, blocks=3)
    held = shard_rows(monitor)["data by (zip)"]
    assert len(held) > 6 and max(held.values()) < 40
    assert "1 hot places on grids of 3 blocks: 6 cells" in monitor.explain()
    assert StateFiles(monitor.path).manifest()["version"] == version + 1
    assert monitor.batches == 1
    assert found(listed(monitor.violations())) == nonempty(truth)
    assert_counts(monitor.counts(), truth)
    rows[1] = row(1, zip="z2", city="Ulm")
    delta = monitor.apply(frame(spark, pa.Table.from_pylist([rows[1] | {"op": "update"}])))
    assert_step(delta, truth, expected(RULES, list(rows.values()), list(rows)))


def test_a_column_that_was_empty_gets_a_type(spark: SparkSession, place: str) -> None:
    """One process learned no type from a column of NULLs alone; the shards that follow have one."""
    nothing = table(FIRST).set_column(2, "city", pa.nulls(len(FIRST)))
    holdstrue.Monitor.create(place, RULES, key="id", data=nothing).close()
    monitor = Monitor(spark, place, shards=2)
    rows = {key: image | {"city": None} for key, image in FIRST.items()}
    before = expected(RULES, list(rows.values()), list(rows))
    assert found(listed(monitor.violations())) == nonempty(before)
    new = {30: row(30, city="Ulm"), 33: row(33, city="Hof")}
    delta = monitor.apply(frame(spark, table(new)))
    assert_step(delta, before, expected(RULES, [*rows.values(), *new.values()], [*rows, *new]))
    assert delta.counts["fd"].added == 1


# --- what is refused -----------------------------------------------------------------------------


def test_other_rules_than_its_own_are_refused(spark: SparkSession, monitor: Monitor) -> None:
    with pytest.raises(StateError, match="watches other rules"):
        Monitor(spark, monitor.path, ["zip -> cost"], key="id")
    assert Monitor(spark, monitor.path, RULES, key="id").batches == 1
    with pytest.raises(StateError, match="are named by id, not by zip"):
        Monitor(spark, monitor.path, RULES, key="zip")
    with pytest.raises(DataError, match="column '_violations' already"):
        monitor.annotated(frame(spark, table(FIRST)).selectExpr("*", "1 as _violations"))
    with pytest.raises(HoldstrueError, match="holds 1 batches already"):
        Monitor(spark, monitor.path, data=frame(spark, table(FIRST)))
    with pytest.raises(HoldstrueError, match="no rule called 'fdd'"):
        monitor.violations("fdd")


def test_a_place_without_a_state_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no state directory"):
        Monitor(spark, tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(StateError, match="is not an empty directory"):
        Monitor(spark, tmp_path / "other", RULES, key="id")


@pytest.mark.parametrize("name", ["shards", "blocks", "tasks"])
def test_work_cut_into_no_parts_is_refused(spark: SparkSession, tmp_path: Path, name: str) -> None:
    nothing: dict[str, Any] = {name: 0}
    with pytest.raises(HoldstrueError, match=f"{name} is 0"):
        Monitor(spark, tmp_path / "state", RULES, key="id", **nothing)


def test_one_writer_at_a_time(spark: SparkSession, monitor: Monitor) -> None:
    with Journal.open(monitor.path, "monitor"):
        with pytest.raises(StateError, match="is being written by another process"):
            monitor.apply(frame(spark, table({50: row(50)})))
        assert monitor.batches == 1
        assert monitor.violations().toArrow().num_rows, "readers need no lock"
    monitor.apply(frame(spark, table({50: row(50)})))
    assert monitor.batches == 2


def test_a_damaged_run_is_named(spark: SparkSession, monitor: Monitor, tmp_path: Path) -> None:
    # a copy, since workers keep the shards of the original open
    copy = Path(shutil.copytree(monitor.path, tmp_path / "copy"))
    shard = next(iter(StateFiles(copy).manifest()["shards"].values()))
    damaged = copy / "runs" / shard["base"]["arrays"]["name"]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(StateError, match=f"{damaged.name} is damaged"):
        Monitor(spark, copy).apply(frame(spark, table({key: row(key) for key in range(50, 80)})))
    assert Monitor(spark, copy).batches == 1
