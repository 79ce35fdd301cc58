"""Sharded answers that were once wrong, each as small as it can be; `test_shards.py` draws their kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue import Monitor
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards.runner import Sizing
from holdstrue.shards.shard import POOL
from laws.shards import Loops
from laws.test_detection import found
from laws.test_shards import listed

OPS: dict[str, Any] = {"op_column": "op", "feed": "ops"}


def table(names: str, *rows: tuple[Any, ...]) -> pa.Table:
    """Rows as a table."""
    return pa.table(dict(zip(names.split(), map(list, zip(*rows)))))


def assert_nothing_changed(monitor: Sharded, delta: Any, rule: str, still_open: int) -> None:
    """The last batch neither added nor removed a violation, and history says so too."""
    step = delta.counts[rule]
    assert (step.added, step.removed, step.open) == (0, 0, still_open)
    assert (delta.added, delta.removed) == ((), ())
    last = monitor.history()[-1]
    assert (last.added, last.removed, last.open) == (0, 0, still_open)


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("shards", [2, 5])
def test_a_row_that_leaves_as_one_who_refers_and_stays_as_one_who_provides(
    tmp_path: Path, shards: int, tasks: int
) -> None:
    """Row 1 refers to 103 and then to 200, which are both missing: one violation, before and after."""
    rule = "emp.boss in emp.id"
    for boss in range(100, 110):
        path = tmp_path / str(boss)
        monitor = Sharded(Loops(tasks), path, [rule], key={"emp": "id"}, sizing=Sizing(shards=shards, tasks=tasks))
        monitor.apply({"emp": [table("id boss", (1, boss), (2, 1))]})
        delta = monitor.apply({"emp": [table("id boss op", (1, 200, "update"))]}, **OPS)
        assert_nothing_changed(monitor, delta, rule, 1)


@pytest.mark.parametrize("tasks", [2, 3])
@pytest.mark.parametrize("shards", [2, 4])
def test_rows_that_meet_in_both_of_their_buckets(tmp_path: Path, shards: int, tasks: int) -> None:
    """Rows 1 and 2 break the rule in one order, before and after; on their way they meet twice."""
    rule = "not(t.a = s.b)"
    for more in range(4):
        sizing = Sizing(shards=shards, tasks=tasks)
        monitor = Sharded(Loops(tasks), tmp_path / str(more), [rule], key="id", sizing=sizing)
        monitor.apply([table("id a b", (1, 2 + more, 1), (2, 0, 2 + more))])
        changes = table("id a b op", (1, 1, 5 + more, "update"), (2, 2 + more, 1, "update"))
        assert_nothing_changed(monitor, monitor.apply([changes], **OPS), rule, 1)


@pytest.mark.parametrize("blocks", [1, 2, 3, 5])
def test_groups_of_a_rule_wider_than_its_route(tmp_path: Path, blocks: int) -> None:
    """All rows share one hot value of a, which is one group of the first rule and a hundred of the second."""
    rules = ["a -> d", "a, b -> c"]
    rows = pa.table({"id": range(400), "a": [1] * 400, "b": [i % 100 for i in range(400)], "c": range(400)})
    rows = rows.append_column("d", rows.column("c"))
    sizing = Sizing(blocks=blocks, tasks=2, hot_from=1)
    monitor = Sharded(Loops(2), tmp_path / "state", rules, key="id", sizing=sizing)
    monitor.apply([rows])
    one = Monitor(rules, key="id", data=rows)
    assert monitor.counts() == one.counts()
    assert [counts.groups for counts in one.counts().values()] == [1, 100]
    monitor.apply([rows.slice(0, 2).append_column("op", pa.array(["delete"] * 2))], **OPS)
    one.apply(rows.slice(0, 2).append_column("op", pa.array(["delete"] * 2)), **OPS)
    assert monitor.counts() == one.counts()
    assert found(listed(monitor)) == found(one.violations())


@pytest.mark.parametrize("limit", [0, 1, 3, 1000])
def test_violations_that_only_moved_take_no_room_in_a_list(tmp_path: Path, limit: int) -> None:
    """Ten rows move together, five of them new to their violations: these are listed, up to the limit."""
    rule = "key(a)"
    monitor = Sharded(Loops(2), tmp_path / "state", [rule], key="id", sizing=Sizing(shards=16, tasks=2))
    moving = [(i, 1) for i in range(8)]
    monitor.apply([table("id a", *moving, *((i, i) for i in range(100, 104)))])
    changes = [(i, 2, "update") for i, _ in moving] + [(i, 2, "update") for i in range(100, 104)]
    delta = monitor.apply([table("id a op", *changes)], limit=limit, **OPS)
    # 8 old ones with each of 4 new ones, and the new ones among themselves
    assert (delta.counts[rule].added, delta.counts[rule].removed) == (8 * 4 + 6, 0)
    assert len(delta.added) == min(limit, 38)
    assert all(max(v.t, v.s) >= 100 for v in delta.added)
    assert delta.removed == ()


@pytest.mark.parametrize("limit", [0, 1, 3, 1000])
def test_missing_references_that_only_moved_take_no_room_in_a_list(tmp_path: Path, limit: int) -> None:
    rule = "emp.boss in emp.id"
    monitor = Sharded(Loops(2), tmp_path / "state", [rule], key={"emp": "id"}, sizing=Sizing(shards=2, tasks=2))
    monitor.apply({"emp": [table("id boss", *((i, 100 + i) for i in range(10)), *((i, 1) for i in range(10, 14)))]})
    changes = table("id boss op", *((i, 200, "update") for i in range(14)))
    delta = monitor.apply({"emp": [changes]}, limit=limit, **OPS)
    assert (delta.counts[rule].added, delta.counts[rule].removed) == (4, 0)
    assert len(delta.added) == min(limit, 4)
    assert all(v.t >= 10 for v in delta.added)


@pytest.mark.parametrize("shards", [1, 2, 9])
def test_a_state_laid_out_anew_for_fewer_tasks_keeps_all_rows(tmp_path: Path, shards: int) -> None:
    """One shard of a home and one of a route are work for two tasks, where five have read."""
    rows = pa.table({"id": range(50), "a": [i % 5 for i in range(50)]})
    sizing = Sizing(shards=7, blocks=1, tasks=5)
    monitor = Sharded(Loops(5), tmp_path / "state", ["key(a)"], key="id", sizing=sizing)
    monitor.apply([rows])
    before = monitor.counts()
    monitor.rebalance(shards=shards, blocks=1)
    assert monitor.rows == {"data": 50}
    assert monitor.counts() == before
    with Monitor.open(tmp_path / "state", read_only=True) as one:
        assert one.rows == {"data": 50}
        assert one.counts() == before


def test_what_the_last_batch_did_outlives_a_new_layout(tmp_path: Path) -> None:
    """Sinks that get a batch again after a crash find its lists, whatever was laid out anew in between."""
    monitor = Sharded(Loops(2), tmp_path / "state", ["key(a)"], key="id", sizing=Sizing(shards=4, tasks=2))
    monitor.apply([table("id a", *((i, i // 2) for i in range(8)))])
    delta = monitor.apply([table("id a op", (0, 9, "update"), (1, 9, "update"), (2, 9, "update"))], **OPS)
    monitor.rebalance(shards=3, blocks=1)
    POOL.empty()
    assert monitor.last() == delta
    with Monitor.open(tmp_path / "state") as one:
        one.apply(table("id a op", (7, 0, "update")), **OPS)
    monitor.rebalance(shards=2, blocks=1)
    assert monitor.last() is None, "what one process did is listed nowhere"
