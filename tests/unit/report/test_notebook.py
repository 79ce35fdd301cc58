"""Answers in a notebook, and as tables of other libraries."""

from __future__ import annotations

import re
import sys
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from holdstrue import HoldstrueError, Monitor
from holdstrue.monitor.sharded import Sharded
from holdstrue.tabular import Tabular
from laws.shards import Loops

ROWS = pa.table({"id": [1, 2, 3], "zip": ["1", "1", "2"], "city": ["Bonn", "<i>Ulm</i>", "Kiel"], "x": [3, 1, 2]})
RULES = ["zip -> city", "not(t.zip = s.zip and t.x > s.x)", "low := not(t.x < 2)"]


def shown(answer: Tabular) -> str:
    """The page of an answer without its style; data makes no elements."""
    html = answer._repr_html_()
    assert "<i>" not in html
    return re.sub(r"<style>.*?</style>", "", html)


def text_of(answer: Tabular) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", shown(answer))).strip()


def test_reports_and_monitors_show_values() -> None:
    report = holdstrue.check(ROWS, RULES, key="id")
    said = text_of(report)
    assert said.startswith("3 rows of data: 3 violations status rule violations rows groups")
    assert "zip 1 city Bonn : 1 row (1) city &lt;i&gt;Ulm&lt;/i&gt; : 1 row (2)" in said
    assert "id zip x t 1 1 3 s 2 1 1" in said
    assert "<mark>3</mark>" in shown(report)
    monitor = Monitor(RULES, key="id", data=ROWS)
    assert shown(monitor) == shown(report)
    assert "row zip x" in text_of(holdstrue.check(ROWS, RULES[1]))
    assert text_of(Monitor("zip -> city", key="id")).startswith("0 rows of data: 0 violations")


def test_what_a_batch_did() -> None:
    monitor = Monitor(RULES, key="id", data=ROWS)
    delta = monitor.apply(
        pa.table({"id": [2, 4], "zip": ["9", "2"], "city": ["", "<i>"], "x": [1, 1], "op": ["update", "insert"]})
    )
    said = text_of(delta)
    assert said.startswith("batch #2: +2 new, -2 resolved") or "new" in said
    table = delta.to_arrow()
    assert table.column_names == ["change", "rule", "t", "s"]
    assert table.num_rows == len(delta.added) + len(delta.removed) > 0
    assert delta.to_pandas().shape == (table.num_rows, 4)
    assert delta.to_polars().shape == (table.num_rows, 4)


def test_discoveries_near_misses_and_what_batches_do_to_rules() -> None:
    rows = pa.table(
        {"id": range(40), "zip": [n % 8 for n in range(40)], "city": [f"<i>{n % 8}" for n in range(39)] + ["?"]}
    )
    found = holdstrue.discover(rows, kinds=("fd", "key"), key="id")
    assert "score kind rule in words" in text_of(found)
    assert found.to_arrow().num_rows == len(found.rules) == found.to_polars().height
    near = found.near_misses()
    assert "zip -&gt; city" in text_of(near)
    assert "zip -> city" in near.to_pandas()["rule"].to_list()
    changes = found.apply(pa.table({"id": [99], "zip": [1], "city": ["<i>"]}))
    assert "died" in text_of(changes)
    assert changes.to_arrow().num_rows == len(changes.died) + len(changes.born)
    assert "<pre>" in found.explain()._repr_html_()


def test_plans_keep_their_lines() -> None:
    plan = holdstrue.check(ROWS, RULES).explain()
    assert plan._repr_html_().startswith("<pre>")
    assert isinstance(plan, str) and "\n" in plan


def test_plans_are_tables_too() -> None:
    rows = pa.table({"id": [1, 2], "zip": ["a", "a"], "city": ["x", "y"]})
    for plan in (
        holdstrue.Monitor(["zip -> city", "count() > 3"], "id", data=rows).explain(),
        holdstrue.check(rows, ["zip -> city", "key(id)"]).explain(),
        holdstrue.discover(rows, key="id").explain(),
        holdstrue.Monitor("zip -> city", "id").explain(),
    ):
        table = plan.to_arrow()
        assert table.column_names == ["about", "says"] and table.num_rows
        assert all(said in plan for row in table.to_pylist() for said in row.values())
        assert plan.to_pandas().shape == plan.to_polars().shape == table.shape


def test_a_monitor_in_shards_shows_counts(tmp_path: Any) -> None:
    with Monitor.create(tmp_path / "s", RULES, key="id", data=ROWS):
        pass
    assert text_of(Sharded(Loops(), tmp_path / "s")).startswith("3 rows of data: 3 violations")


def test_tables_of_keys_of_several_kinds() -> None:
    two = holdstrue.check(ROWS, "low := not(t.x < 2)", key=("id", "zip")).to_arrow()
    assert two.column("t").to_pylist() == ["[2, '1']"]
    assert holdstrue.check(ROWS, "low := not(t.x < 0)").to_arrow().num_rows == 0
    assert Monitor(RULES, key="id", data=ROWS).to_arrow().column("t").to_pylist() == [1, 1, 2]
    assert Monitor(RULES, key="id").to_arrow().num_rows == 0


def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(HoldstrueError, match="polars is not installed"):
        holdstrue.check(ROWS, "zip -> city").to_polars()
