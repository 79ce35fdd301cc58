"""Laws of rules with many inequalities: every way to count them, from scratch and under changes, is the oracle's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from holdstrue import HoldstrueError, Monitor, check, load_rules
from holdstrue.detect import costs, order_sieve, pair, recount
from holdstrue.index import blocks, order_screen
from holdstrue.kernels import dominance, halves
from holdstrue.rules import Rule, RuleSet
from holdstrue.state import runs as state_runs
from laws.test_detection import INDEXES, assert_counts, found, nonempty
from places import Folders
from translate import at_first, expected

SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
COLUMNS = "abcde"
SCHEMA = pa.schema({"id": pa.int64()} | dict.fromkeys(COLUMNS, pa.int64()))
ORDERS = ["<", "<=", ">", ">="]

WAYS: dict[str, dict[str, float]] = {
    "probe": {"FEW": 10**9},
    "sweep": {"FEW": -1, "PROBED_ROW": 1e18, "SLOT": 0.0},
    "choose": {"FEW": 1, "DRAWN": 2, "MOST_DRAWN": 2, "SLOT": 0.0, "SWEPT_ROW": 20.0, "HALVED_ROW": 1.0},
}
"""By name what makes the model of costs take one way always, or either on small batches."""


@contextmanager
def thresholds(data: st.DataObject, way: str) -> Iterator[None]:
    """Sizes at which anything changes, so small that a few rows pass them."""
    small: list[tuple[Any, str, Any]] = [
        (pair, "COUNT_FROM", data.draw(st.sampled_from([0, 4096]))),
        (recount, "SHARED_FROM", data.draw(st.sampled_from([1, 1 << 16]))),
        (recount, "SWEPT", data.draw(st.sampled_from([2, 1 << 17]))),
        (order_sieve, "SIEVED_FROM", data.draw(st.sampled_from([1, 1 << 14]))),
        (order_sieve, "FEWEST_CELLS", 1),
        (order_sieve, "SAMPLE", data.draw(st.sampled_from([1, 4, 1 << 11]))),
        # few rows are mostly in disorder
        (order_sieve, "_mostly", lambda rows: False),
        (halves, "SMALL", data.draw(st.sampled_from([0, 3, 1 << 16]))),
        (dominance, "COMPARED", data.draw(st.sampled_from([1, 4, 2048]))),
        (blocks, "MOST_UNSORTED", data.draw(st.sampled_from([0, 128]))),
        (blocks, "CHOSEN_FROM", data.draw(st.sampled_from([2, 256]))),
        (blocks, "CHOSEN_AGAIN", 2),
        (blocks, "BETTER", 1.0),
        (blocks, "MOST_LATE", data.draw(st.sampled_from([0, 5, 1 << 16]))),
        (blocks, "SORTED_AFTER", data.draw(st.sampled_from([0, 3, 200]))),
        (order_screen, "PROBED", data.draw(st.sampled_from([700.0, 1e9]))),
        (order_screen, "TRUSTED", -1.0),
        *((costs, name, value) for name, value in WAYS[way].items()),
    ]
    with ExitStack() as stack:
        for module, name, value in small:
            stack.enter_context(mock.patch.object(module, name, value))
        # a screen for a single rule, too
        stack.enter_context(mock.patch.object(order_screen.ScreenPlan.of, "__defaults__", (1,)))
        yield


@st.composite
def order_rule(draw: st.DrawFn) -> str:
    """Two to five inequalities, some across columns, with equalities and != beside them."""
    column = st.sampled_from(COLUMNS)
    terms = []
    for left in draw(st.lists(column, min_size=2, max_size=5, unique=True)):
        right = left if draw(st.integers(0, 3)) else draw(column)
        terms.append(f"t.{left} {draw(st.sampled_from(ORDERS))} s.{right}")
    for op, most in (("=", 1), ("!=", 2)):
        for _ in range(draw(st.integers(0, most)) if draw(st.booleans()) else 0):
            left = draw(column)
            terms.append(f"t.{left} {op} s.{left if draw(st.booleans()) else draw(column)}")
    return f"not({' and '.join(draw(st.permutations(terms)))})"


def draw_order_rules(data: st.DataObject) -> RuleSet:
    rules: list[Rule] = []
    for i, text in enumerate(data.draw(st.lists(order_rule(), min_size=1, max_size=2))):
        try:
            rules.extend(load_rules([{"name": f"r{i}", "rule": text}]))
        except HoldstrueError:
            continue  # it can never be violated
    assume(rules)
    return RuleSet(tuple(rules))


@st.composite
def order_row(draw: st.DrawFn, key: int) -> dict[str, int | None]:
    """A row of few values, so that ties are frequent, with extremes and NULLs."""
    value = st.sampled_from([0, 1, 1, 2, 2, 3, 4, None, 2**63 - 1, -(2**63)])
    return {"id": key} | {name: draw(value) for name in COLUMNS}


@st.composite
def order_changes(draw: st.DrawFn, rows: dict[int, Any]) -> list[tuple[str, dict[str, Any]]]:
    """A batch, mostly of updates, of which many change one column only."""
    batch: list[tuple[str, dict[str, Any]]] = []
    for key in draw(st.lists(st.integers(0, 11), max_size=10, unique=True)):
        if key not in rows:
            batch.append(("insert", draw(order_row(key))))
        elif draw(st.integers(0, 4)) == 0:
            batch.append(("delete", rows[key]))
        else:
            new = draw(order_row(key))
            only = draw(st.sampled_from(COLUMNS))
            batch.append(("update", rows[key] | {only: new[only]} if draw(st.booleans()) else new))
    return batch


def as_changes(batch: list[tuple[str, dict[str, Any]]]) -> pa.Table:
    table = pa.Table.from_pylist([image for _, image in batch], schema=SCHEMA)
    return table.append_column("_op", pa.array([op for op, _ in batch], pa.string()))


@pytest.mark.parametrize("index", INDEXES)
@SETTINGS
@given(data=st.data())
def test_from_scratch(index: Any, data: st.DataObject) -> None:
    rules = draw_order_rules(data)
    rows = [data.draw(order_row(i)) for i in range(data.draw(st.integers(1, 14)))]
    with thresholds(data, "probe"):
        report = check(pa.Table.from_pylist(rows, schema=SCHEMA), rules, key="id", index=index, limit=None)
    truth = expected(rules, rows, [row["id"] for row in rows])
    assert_counts({r.rule.name: r.counts for r in report.results}, truth)
    assert found(report) == nonempty(truth)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("way", WAYS)
@SETTINGS
@given(data=st.data())
def test_under_changes(folders: Folders, index: Any, way: str, data: st.DataObject) -> None:
    """Counts, degrees, lists up to a limit and in full, in a monitor and in the state that it left."""
    rules = draw_order_rules(data)
    with thresholds(data, way), mock.patch.object(state_runs, "CHECKPOINT_FROM", 0):
        place = folders.fresh() if data.draw(st.integers(0, 3)) == 0 else None
        monitor = Monitor(rules, key="id", index=index) if place is None else Monitor.create(
            place, rules, key="id", index=index
        )  # fmt: skip
        rows: dict[int, dict[str, Any]] = {}
        truth = at_first(rules)
        for _ in range(data.draw(st.integers(1, 4))):
            batch = data.draw(order_changes(rows))
            limit = data.draw(st.sampled_from([0, 1, 3, None]))
            delta = monitor.apply(as_changes(batch), limit=limit, op_column="_op", feed="ops")
            for op, image in batch:
                rows.pop(image["id"], None)
                if op != "delete":
                    rows[image["id"]] = image
            after = expected(rules, list(rows.values()), list(rows))
            came = {rule: after[rule] - truth[rule] for rule in after}
            went = {rule: truth[rule] - after[rule] for rule in after}
            counted = {rule: (step.added, step.removed) for rule, step in delta.counts.items()}
            assert counted == {rule: (len(came[rule]), len(went[rule])) for rule in counted}
            for listed, whole in ((found(delta.added), came), (found(delta.removed), went)):
                assert all(some <= whole[rule] for rule, some in listed.items())
                total = sum(map(len, whole.values()))
                assert sum(map(len, listed.values())) == (total if limit is None else min(total, limit))
            assert_counts(monitor.counts(), after)
            for key in rows:
                degrees = {rule: sum(key in violation for violation in some) for rule, some in after.items()}
                assert monitor.row(key) == {rule: degree for rule, degree in degrees.items() if degree}
            assert found(monitor.violations()) == nonempty(after)
            truth = after
            if place is not None:
                monitor.close()
                monitor = Monitor.open(place)
                assert_counts(monitor.counts(), after)
        monitor.close()
