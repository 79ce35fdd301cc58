"""Laws of sharded states: however rows are spread, violations, deltas and counts are the oracle's."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue import Monitor, RuleSet
from holdstrue.detect.delta import Violation
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards import hot
from holdstrue.shards.lists import ADDED, violation_of
from holdstrue.shards.runner import Sizing
from holdstrue.shards.shard import POOL
from holdstrue.shards.status import sharded_counts
from holdstrue.state.files import StateFiles
from laws import test_references as references
from laws import worlds
from laws.shards import Loops
from laws.test_detection import assert_counts, draw_rules, found, nonempty
from translate import at_first, expected

# a batch of a state on disk costs more than one in memory
MOST = max(40, settings().max_examples // 3)
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=MOST)
SHAPES = st.builds(
    Sizing,
    shards=st.sampled_from([1, 2, 5]),
    blocks=st.sampled_from([1, 3, 4]),
    tasks=st.sampled_from([1, 2, 3]),
    hot_from=st.just(0),
)


@pytest.fixture(autouse=True, scope="module")
def _small_is_hot() -> Any:
    """Keys that occur twice are hot, so that grids are tried on small tables."""
    before = hot.SEEN_AT_LEAST
    hot.SEEN_AT_LEAST = 2
    yield
    hot.SEEN_AT_LEAST = before


def listed(monitor: Sharded) -> list[Violation]:
    """All violations that there are."""
    listing = monitor.listing()
    if listing is None:
        return []
    tables = listing.tables(list(range(listing.job.tasks)))
    return [violation_of(row) for table in tables for row in table.to_pylist() if row["change"] == ADDED]


def partitions(data: st.DataObject, table: pa.Table) -> list[pa.Table]:
    """A table cut in two somewhere."""
    cut = data.draw(st.integers(0, table.num_rows))
    return [table.slice(0, cut), table.slice(cut)]


@SETTINGS
@given(data=st.data())
def test_under_changes(data: st.DataObject) -> None:
    rules = draw_rules(data)
    with tempfile.TemporaryDirectory() as folder:
        monitor = Sharded(Loops(), Path(folder) / "state", rules, key="id", sizing=data.draw(SHAPES))
        rows = {i: data.draw(worlds.row(i)) for i in range(data.draw(st.integers(0, 9)))}
        start = pa.Table.from_pylist(list(rows.values()), schema=worlds.SCHEMA)
        truth = at_first(rules)
        after = expected(rules, list(rows.values()), list(rows))
        delta = monitor.apply(partitions(data, start), limit=None)
        for _ in range(data.draw(st.integers(0, 4))):
            check(monitor, delta, truth, after)
            truth = after
            batch = data.draw(worlds.changes(set(rows)))
            if data.draw(st.booleans()):
                POOL.empty()
            delta = monitor.apply(
                partitions(data, worlds.as_table(batch)),
                limit=None,
                op_column="_op",
                feed="ops",
                one_task=data.draw(st.booleans()),
            )
            rows = worlds.applied(rows, batch)
            after = expected(rules, list(rows.values()), list(rows))
        check(monitor, delta, truth, after)
        one = Monitor.open(Path(folder) / "state")
        assert found(one.violations()) == nonempty(after)
        assert_counts(one.counts(), after)
        one.close()


def check(monitor: Sharded, delta: Any, truth: dict[str, set[Any]], after: dict[str, set[Any]]) -> None:
    """A batch took the violations from what they were to what they are."""
    for rule, step in delta.counts.items():
        wanted = len(after[rule] - truth[rule]), len(truth[rule] - after[rule]), len(after[rule])
        assert (step.added, step.removed, step.open) == wanted, rule
    assert found(delta.added) == nonempty({rule: after[rule] - truth[rule] for rule in after})
    assert found(delta.removed) == nonempty({rule: truth[rule] - after[rule] for rule in after})
    assert found(listed(monitor)) == nonempty(after)
    assert_counts(monitor.counts(), after)
    assert sharded_counts(monitor.path, StateFiles(monitor.path).manifest()) == monitor.counts()


@SETTINGS
@given(data=st.data())
def test_both_tables_change(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        keys = {"orders": "id", "customers": "id"}
        monitor = Sharded(Loops(), Path(folder) / "state", references.RULES, key=keys, sizing=data.draw(SHAPES))
        orders: dict[int, Any] = {}
        customers: dict[int, Any] = {}
        before = references.truth(orders, customers)
        for _ in range(data.draw(st.integers(1, 5))):
            one = data.draw(references.batch(set(orders), references.order))
            two = data.draw(references.batch(set(customers), references.customer))
            parts = {
                "orders": [references.as_table(one, references.ORDERS)],
                "customers": [references.as_table(two, references.CUSTOMERS)],
            }
            skip = data.draw(st.sampled_from(["none", "orders", "customers"]))
            parts.pop(skip, None)
            delta = monitor.apply(parts, op_column="_op", feed="ops", limit=None)
            orders = orders if skip == "orders" else worlds.applied(orders, one)
            customers = customers if skip == "customers" else worlds.applied(customers, two)
            after = references.truth(orders, customers)
            check(monitor, delta, before, after)
            before = after


@SETTINGS
@given(data=st.data())
def test_a_state_goes_from_engine_to_engine(data: st.DataObject) -> None:
    """Batches by turns in one process and in shards of any number."""
    rules: RuleSet = draw_rules(data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        Monitor.create(path, rules, key="id").close()
        rows: dict[int, worlds.Row] = {}
        truth = at_first(rules)
        for turn in range(data.draw(st.integers(1, 5))):
            batch = data.draw(worlds.changes(set(rows)))
            changes = worlds.as_table(batch)
            rows = worlds.applied(rows, batch)
            after = expected(rules, list(rows.values()), list(rows))
            if data.draw(st.booleans()):
                sharded = Sharded(Loops(), path, sizing=data.draw(SHAPES))
                delta = sharded.apply([changes], str(turn), limit=None, op_column="_op", feed="ops")
                again = sharded.apply([changes], str(turn), op_column="_op", feed="ops")
                check(sharded, delta, truth, after)
            else:
                with Monitor.open(path) as one:
                    delta = one.apply(changes, batch_id=str(turn), limit=None, op_column="_op", feed="ops")
                    again = one.apply(changes, batch_id=str(turn), op_column="_op", feed="ops")
                    assert found(one.violations()) == nonempty(after)
                assert found(delta.added) == nonempty({rule: after[rule] - truth[rule] for rule in after})
            assert again.duplicate
            truth = after
        with Monitor.open(path, read_only=True) as one:
            names = list(dict.fromkeys(line.batch for line in one.history()))
            assert names == [str(i) for i in range(len(names))]
