"""One row's violations, batches that are only tried, and rules tried on the rows of a monitor."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdstrue
from holdstrue import Monitor
from holdstrue.monitor.trial import try_rules

RULES = [
    "zip -> city",
    "key(zip, city)",
    "[zip=1] -> [city='Bonn']",
    "not(t.zip = s.zip and t.pay > s.pay and t.rate < s.rate)",
    "not(t.pay = s.rate and t.city != s.city)",
    "not(t.pay > 3)",
    "not null(city)",
    "data.zip in zips.zip",
]
CITIES = st.sampled_from(["Bonn", "Ulm", None])
ROWS = st.lists(st.tuples(st.integers(0, 2), CITIES, st.integers(0, 4), st.integers(0, 4)), max_size=9)


def table(rows: list[tuple[int, str | None, int, int]], start: int = 0) -> pa.Table:
    names = ("zip", "city", "pay", "rate")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    types = {"zip": pa.int64(), "city": pa.string(), "pay": pa.int64(), "rate": pa.int64()}
    arrays = {name: pa.array(values, types[name]) for name, values in columns.items()}
    return pa.table({"id": pa.array(range(start, start + len(rows)), pa.int64()), **arrays})


def watched(rows: pa.Table) -> Monitor:
    monitor = Monitor(RULES, {"data": "id", "zips": "zip"})
    monitor.apply({"data": rows, "zips": pa.table({"zip": [0, 1]})})
    return monitor


@settings(max_examples=40, deadline=None)
@given(ROWS, ROWS)
def test_a_rows_violations_are_those_of_the_list_that_name_it(
    first: list[tuple[int, str | None, int, int]], more: list[tuple[int, str | None, int, int]]
) -> None:
    monitor = watched(table(first))
    monitor.apply({"data": table(more, start=len(first))})
    if first:
        monitor.apply({"data": pa.table({"id": [0], "op": ["delete"]})})
    listed = list(monitor.violations())
    for key in range(1, len(first) + len(more)):
        own = monitor.violations_of(key)
        wanted = [v for v in listed if v.t == key or (v.pair and v.s == key)]
        assert sorted(map(str, wanted)) == sorted(str(v) for _, v, _ in own)
        for rule, violation, rows in own:
            assert rule.name == violation.rule and [row["id"] for row in rows] == (
                [violation.t, violation.s] if violation.pair else [violation.t]
            )
        assert len(own) == sum(monitor.row(key).values())
        assert monitor.values(key)["id"] == key


def test_lists_of_a_row_end_at_the_limit_of_each_rule() -> None:
    monitor = watched(table([(1, "Bonn", 9, 1)] * 6))
    found = [rule.name for rule, _, _ in monitor.violations_of(0, limit=2)]
    assert found == ["key(zip, city)", "key(zip, city)", "not(t.pay > 3)"]
    with pytest.raises(holdstrue.HoldstrueError, match="no row with key 77"):
        monitor.violations_of(77)


@pytest.mark.parametrize("kept", [True, False])
def test_a_preview_says_what_applying_says_and_changes_nothing(tmp_path: Path, kept: bool) -> None:
    rows = table([(1, "Bonn", 1, 1), (1, "Bonn", 2, 2)])
    monitor = (
        Monitor.create(tmp_path / "s", RULES[:6], "id", data=rows) if kept else Monitor(RULES[:6], "id", data=rows)
    )
    changes = pa.table({"id": [1, 7], "zip": [1, 1], "city": ["Ulm", "Kiel"], "pay": [0, 9], "rate": [3, 0]})
    before = monitor.counts(), monitor.rows, monitor.batches, sorted(p.stat().st_size for p in tmp_path.rglob("*.log"))
    told = monitor.preview(changes, on_conflict="upsert")
    assert before == (
        monitor.counts(), monitor.rows, monitor.batches, sorted(p.stat().st_size for p in tmp_path.rglob("*.log"))
    )  # fmt: skip
    with pytest.raises(holdstrue.HoldstrueError, match="exists"):
        monitor.preview(changes)
    assert told == monitor.apply(changes, on_conflict="upsert")
    assert any(step.added for step in told.counts.values())
    monitor.close()
    if kept:
        with Monitor.open(tmp_path / "s", read_only=True) as reader:
            more = pa.table({"id": [8], "zip": [1], "city": ["Rom"], "pay": [0], "rate": [3]})
            assert reader.preview(more).counts["zip -> city"].added == 3 and reader.rows == {"data": 3}


def test_a_preview_of_a_version_that_is_gone_uses_the_rows_at_hand(tmp_path: Path) -> None:
    rows = table([(1, "Bonn", 1, 1), (1, "Bonn", 2, 2)])
    with Monitor.create(tmp_path / "s", "zip -> city", "id", data=rows) as writer:
        reader = Monitor.open(tmp_path / "s", read_only=True)
        for at in range(40):
            writer.apply(table([(2, "Ulm", 0, 0)] * 3, start=100 + 3 * at))
    with Monitor.open(tmp_path / "s") as writer:
        writer._here().journal.vacuum(0)  # type: ignore[union-attr]
    assert reader.preview(table([(1, "Ulm", 0, 0)], start=50)).counts["zip -> city"].added == 2


def test_rules_are_tried_on_the_rows_there_are() -> None:
    monitor = watched(table([(1, "Bonn", 1, 1), (1, "Bonn", 2, 2), (2, None, 5, 0)]))
    assert [r.counts.open for r in try_rules(monitor, ["key(zip)", "not(t.rate > 1)"]).results] == [1, 1]
    monitor = Monitor("zip -> city", "id", data=table([(1, "Bonn", 1, 1)]))
    with pytest.raises(holdstrue.HoldstrueError, match="column 'pay' of 'data' is not kept"):
        try_rules(monitor, "not(t.pay > 0)")
    with pytest.raises(holdstrue.HoldstrueError, match="payy"):
        try_rules(monitor, "not(t.payy > 0)")
    with pytest.raises(holdstrue.HoldstrueError, match="no data yet"):
        try_rules(Monitor("zip -> city", "id"), "key(zip)")


def test_a_tuple_of_text_and_null_is_a_row() -> None:
    """Text alone may be files; NULL is none."""
    monitor = Monitor("zip -> city", key="id", data=pa.table({"id": ["a"], "zip": ["1"], "city": ["Bonn"]}))
    assert monitor.apply(("b", None, "Ulm")).counts["zip -> city"].added == 0
    assert monitor.apply(("c", "1", None)).counts["zip -> city"].added == 0
    assert monitor.values("b") == {"id": "b", "zip": None, "city": "Ulm"}
    with pytest.raises(holdstrue.HoldstrueError, match="there is no file 'd'"):
        monitor.apply(("d", "1", "Ulm"))
