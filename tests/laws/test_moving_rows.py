"""Laws of sharded states and checks under rows that keep changing places, against one process and the oracle."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdstrue
from holdstrue import Monitor
from holdstrue.detect.delta import Delta
from holdstrue.monitor.sharded import Sharded
from holdstrue.monitor.sharded_check import ROW, FreshListing, ShardedFindings, from_scratch
from holdstrue.shards import hot
from holdstrue.shards import routes as work
from holdstrue.shards.lists import by_table, violation_of
from holdstrue.shards.reading import Listing
from holdstrue.shards.runner import Sizing
from holdstrue.shards.shard import POOL
from holdstrue.shards.status import sharded_counts
from holdstrue.state.files import StateFiles
from laws import moving
from laws.moving import Truth, World
from laws.shards import Loops
from laws.test_detection import assert_counts, found, nonempty
from laws.test_shards import listed

# a batch of a state on disk costs more than one in memory
MOST = max(10, settings().max_examples // 6)
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=MOST)
SHAPES = st.builds(
    Sizing,
    shards=st.sampled_from([2, 3, 1, 5]),
    blocks=st.sampled_from([3, 1, 2, 4]),
    tasks=st.sampled_from([2, 3, 1]),
    hot_from=st.just(0),
)
LIMITS = st.sampled_from([None, None, 0, 1, 2, 5])
INDEXES: st.SearchStrategy[Any] = st.sampled_from(["blocks", "blocks", "blocks", "lt_tree", "chains"])
KEYS = st.sampled_from([("id",), ("id",), ("id", "part")])


@pytest.fixture(autouse=True, scope="module")
def _small_is_hot() -> Iterator[None]:
    """Values that occur twice are hot, so that grids are tried on small tables."""
    with mock.patch.object(hot, "SEEN_AT_LEAST", 2):
        yield


def assert_delta(delta: Delta, before: Truth, after: Truth, limit: int | None) -> None:
    """A batch took the violations from what they were to what they are; lists are cut at the limit, counts never."""
    came = {rule: after[rule] - before[rule] for rule in after}
    went = {rule: before[rule] - after[rule] for rule in after}
    for rule, step in delta.counts.items():
        assert (step.added, step.removed, step.open) == (len(came[rule]), len(went[rule]), len(after[rule])), rule
    for violations, truth in ((delta.added, came), (delta.removed, went)):
        assert_listed(violations, truth, limit)
    cut = limit is not None and any(sum(map(len, truth.values())) > limit for truth in (came, went))
    assert delta.truncated == cut


def assert_listed(violations: Any, truth: Truth, limit: int | None) -> None:
    """All violations, or as many different ones as the limit allows."""
    own = found(violations)
    total = sum(map(len, truth.values()))
    assert sum(map(len, own.values())) == (total if limit is None else min(limit, total))
    assert all(some <= truth[rule] for rule, some in own.items())


def assert_state(monitor: Sharded, one: Monitor, world: World) -> None:
    """Violations, counts, groups, rows and history are those of one process and of the oracle."""
    truth = world.truth()
    counts = monitor.counts()
    assert_counts(counts, truth)
    assert counts == one.counts()
    assert sharded_counts(monitor.path, StateFiles(monitor.path).manifest()) == counts
    assert found(listed(monitor)) == nonempty(truth)
    assert monitor.rows == {name: len(world.tables[name]) for name in world.used}
    assert lines(monitor) == lines(one)


def lines(monitor: Any) -> list[tuple[Any, ...]]:
    """History without the times of day."""
    return [(line.batch, line.rule, line.added, line.removed, line.open) for line in monitor.history()]


def cut_somewhere(data: st.DataObject, table: pa.Table) -> list[pa.Table]:
    """A table in up to three parts."""
    one, two = sorted(data.draw(st.integers(0, table.num_rows)) for _ in range(2))
    return [table.slice(0, one), table.slice(one, two - one), table.slice(two)]


def turn(data: st.DataObject, path: Path, monitor: Sharded) -> Sharded:
    """What may happen between two batches and changes no answer."""
    what = data.draw(st.sampled_from(["nothing", "nothing", "forgotten", "opened anew", "laid out anew"]))
    if what == "forgotten":
        POOL.empty()
    elif what == "opened anew":
        return Sharded(Loops(data.draw(st.integers(1, 4))), path, sizing=Sizing(tasks=data.draw(st.integers(1, 4))))
    elif what == "laid out anew":
        sizing = data.draw(SHAPES)
        monitor.rebalance(shards=sizing.shards, blocks=sizing.blocks)
    return monitor


@pytest.mark.parametrize("kind", [*moving.KINDS, "mixed"])
@SETTINGS
@given(data=st.data())
def test_rows_keep_changing_places(kind: str, data: st.DataObject) -> None:
    world = World(data.draw(moving.rules(kind)), data.draw(moving.values()), data.draw(KEYS))
    options: dict[str, Any] = {"op_column": "_op", "feed": "ops"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        index = data.draw(INDEXES)
        monitor = Sharded(Loops(), path, world.rules, key=world.keys, index=index, sizing=data.draw(SHAPES))
        one = Monitor(world.rules, key=world.keys, index=index)
        truth = world.truth()
        first = {
            name: [("insert", data.draw(world.row(name, key))) for key in range(data.draw(moving.sizes))]
            for name in world.used
        }
        for number in range(data.draw(st.sampled_from([3, 2, 4, 1]))):
            batch = data.draw(moving.batches(world)) if number else first
            limit = data.draw(LIMITS)
            changes = {name: moving.as_table(name, part) for name, part in batch.items()}
            world.apply(batch)
            before, truth = truth, world.truth()
            one_delta = one.apply(changes, limit=limit, **options)
            assert_delta(one_delta, before, truth, limit)
            if number and data.draw(st.integers(0, 7)) == 0:
                with Monitor.open(path) as here:
                    assert_delta(here.apply(changes, limit=limit, **options), before, truth, limit)
                monitor = turn(data, path, monitor)
                assert monitor.last() is None
                continue
            parts = {name: cut_somewhere(data, table) for name, table in changes.items()}
            delta = monitor.apply(parts, limit=limit, one_task=data.draw(st.booleans()), **options)
            assert_delta(delta, before, truth, limit)
            monitor = turn(data, path, monitor)
            last = monitor.last(limit)
            assert last is not None
            assert (found(last.added), found(last.removed)) == (found(delta.added), found(delta.removed))
            assert last.counts == delta.counts
        assert_state(monitor, one, world)
        if index == "blocks":
            # the papers' indexes know pairs only
            for rule, groups in world.groups().items():
                assert monitor.counts()[rule].groups == groups, rule
        with Monitor.open(path, read_only=True) as here:
            assert found(here.violations()) == nonempty(truth)
            assert here.counts() == one.counts()


# --- from scratch --------------------------------------------------------------------------------


def every(runner: Loops, checked: ShardedFindings) -> list[Any]:
    """All violations of a check, as its data frame of violations has them."""
    listing = Listing(checked.source.job, tuple(range(len(checked.ledger.layout.plan.checks))))
    tables = runner.read(FreshListing(listing), checked.source.job.tasks, checked.source.work)
    return [violation_of(row) for table in tables for row in table.to_pylist()]


@pytest.mark.parametrize("kind", [*moving.KINDS, "mixed"])
@SETTINGS
@given(data=st.data())
def test_a_check_of_tables_with_and_without_keys(kind: str, data: st.DataObject) -> None:
    world = World(data.draw(moving.rules(kind)), data.draw(moving.values()))
    for name in world.used:
        keys = range(data.draw(moving.sizes))
        world.tables[name] = {key: data.draw(world.row(name, key)) for key in keys}
    tables = {
        name: pa.Table.from_pylist(list(rows.values()), schema=moving.SCHEMAS[name])
        for name, rows in world.tables.items()
        if name in world.used
    }
    parts = {name: cut_somewhere(data, table) for name, table in tables.items()}
    names: dict[str, list[Any]] = {
        name: [(at << 33) + i for at, p in enumerate(cut) for i in range(p.num_rows)] for name, cut in parts.items()
    }
    key: tuple[str, ...] = data.draw(st.sampled_from([(), ("id",), ("id", "part")]))
    if key:
        rows = world.tables["emp"].values()
        names["emp"] = [row["id"] if len(key) == 1 else (row["id"], row["part"]) for row in rows]
    sizing = data.draw(st.one_of(SHAPES, st.builds(Sizing, tasks=st.sampled_from([1, 2, 3, 5]), hot_from=st.just(0))))
    limit = data.draw(LIMITS)
    runner = Loops(3)
    with mock.patch.multiple(work, CROWDED=3, SPREAD_FROM=3), mock.patch.object(hot, "SPREAD_FROM", 3):
        most = work.MOST if limit is None else limit
        checked = from_scratch(runner, parts, world.rules, "emp", key, most, "blocks", sizing)
    truth = world.truth(names)
    counts = {result.rule.name: result.counts for result in checked.results}
    assert_counts(counts, truth)
    for rule, groups in world.groups().items():
        assert counts[rule].groups == groups, rule
    one = holdstrue.check(tables["emp"], world.rules, key=key or None, tables=tables)
    assert [(r.counts, r.status) for r in checked.results] == [(r.counts, r.status) for r in one.results]
    assert checked.rows == {name: table.num_rows for name, table in tables.items()}
    first = [violation_of(row) for table in by_table(checked.lists) for row in table.to_pylist()]
    assert_listed(first if limit is None else first[:limit], truth, limit)
    assert found(every(runner, checked)) == nonempty(truth)


@pytest.mark.parametrize("kind", [*moving.KINDS, "mixed"])
@SETTINGS
@given(data=st.data())
def test_a_check_of_rows_that_share_a_key(kind: str, data: st.DataObject) -> None:
    """Nothing says that rows are told apart by a key: equal rows count as often as they occur."""
    world = World(data.draw(moving.rules(kind)), data.draw(moving.values()))
    for name in world.used:
        keys = range(data.draw(moving.sizes))
        world.tables[name] = {key: data.draw(world.row(name, key)) for key in keys}
    rows = {name: list(held.values()) for name, held in world.tables.items() if name in world.used}
    rows["emp"] = [held | {"id": held["id"] % 3} for held in rows["emp"]]
    world.tables["emp"] = dict(enumerate(rows["emp"]))
    tables = {name: pa.Table.from_pylist(own, schema=moving.SCHEMAS[name]) for name, own in rows.items()}
    parts = {name: cut_somewhere(data, table) for name, table in tables.items()}
    checked = from_scratch(Loops(3), parts, world.rules, "emp", ("id",), 0, "blocks", data.draw(SHAPES))
    assert_counts({result.rule.name: result.counts for result in checked.results}, world.truth())
    one = holdstrue.check(tables["emp"], world.rules, key="id", tables=tables)
    assert [r.counts for r in checked.results] == [r.counts for r in one.results]
    assert checked.source.job.layout.keys["emp"] == ("id",) != (ROW,)
