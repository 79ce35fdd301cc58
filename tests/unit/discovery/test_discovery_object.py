"""What a discovery offers beside its rules: words, pages, rule sets that monitors adopt, budgets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdstrue import Discovery, HoldstrueError, Monitor, check, discover
from holdstrue.errors import StateError

ZIPS = pa.table(
    {"id": [1, 2, 3, 4], "zip": ["1", "1", "2", "2"], "city": ["Bonn", "Bonn", "Ulm", "Ulm"], "pay": [1, 2, 2, 3]}
)


def test_a_monitor_adopts_what_was_found() -> None:
    found = discover(ZIPS, kinds=("fd", "key"), key="id")
    monitor = Monitor(found.ruleset(), key="id", data=ZIPS)
    delta = monitor.apply(pa.table({"id": [5], "zip": ["1"], "city": ["Köln"], "pay": [9]}))
    assert "zip -> city" in delta.stopped_holding
    assert delta.to_dict()["stopped_holding"] == list(delta.stopped_holding)


def test_names_are_escaped_on_a_page() -> None:
    page = discover(pa.table({"<b>": [1, 2]}), kinds="key")._repr_html_()
    assert "<b>" not in page and "&lt;b&gt;" in page


def test_no_time_is_said() -> None:
    rows = [[(i * (c + 3)) % 7 for i in range(300)] for c in range(40)]
    wide = pa.table({f"c{c}": values for c, values in enumerate(rows)})
    found = discover(wide, budget=2, cross=False)
    assert not found.complete
    assert "stopped before the end" in repr(found)
    # what was found holds all the same
    assert all(result.status == "ok" for result in check(wide, found.ruleset(20)).results)


def test_a_batch_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    found = discover(ZIPS, kinds=("fd", "key", "dc"), key="id", state=tmp_path / "s")
    before = [rule.text for rule in found]
    with pytest.raises(HoldstrueError, match="id=1"):
        found.apply(pa.table({"id": [1], "zip": ["1"], "city": ["Bonn"], "pay": [7]}))
    with pytest.raises(HoldstrueError, match="no table 'x'"):
        found.apply({"x": ZIPS})
    assert [rule.text for rule in found] == before
    found.close()
    with Discovery.open(tmp_path / "s") as again:
        assert ([rule.text for rule in again], again.history()) == (before, [])


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    found = discover(ZIPS, kinds="key", key="id", state=tmp_path / "s")
    with pytest.raises(StateError, match="being written by another process"):
        Discovery.open(tmp_path / "s")
    assert len(Discovery.open(tmp_path / "s", read_only=True)) == len(found)
    found.close()


def test_unknown_options_are_named() -> None:
    with pytest.raises(HoldstrueError, match="unknown option 'colour'"):
        discover(ZIPS, colour="red")


def test_columns_that_do_not_compare_are_left_out() -> None:
    found = discover(ZIPS.append_column("tags", pa.array([[1], [2], [3], [4]])), kinds="key")
    assert all("tags" not in rule.text for rule in found)


def test_tables_by_name_are_checked() -> None:
    orders, customers = pa.table({"id": [1, 2], "customer": [7, 9]}), pa.table({"id": [7, 8]})
    report = check({"orders": orders, "customers": customers}, "orders.customer in customers.id", key="id")
    assert [violation.t for violation in report] == [2]
