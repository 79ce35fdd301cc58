"""Laws of detection: every path gives the oracle's violations, from scratch and after every batch."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from holdstrue import HoldstrueError, Monitor, check, load_rules
from holdstrue.detect import pair
from holdstrue.index.protocol import IndexKind
from holdstrue.rules import FD, Key, Rule, RuleSet
from laws import worlds
from translate import at_first, expected

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
INDEXES: list[IndexKind] = ["blocks", "lt_tree", "chains"]


def draw_rules(data: st.DataObject, most: int = 4) -> RuleSet:
    """A rule set; rules that contradict themselves are refused by the parser and drawn again."""
    texts = data.draw(st.lists(st.tuples(worlds.rule_text, worlds.where_text), min_size=1, max_size=most))
    rules: list[Rule] = []
    for i, (text, where) in enumerate(texts):
        entry: dict[str, Any] = {"name": f"r{i}", "rule": text}
        if where is not None:
            entry["where"] = where
        try:
            rules.extend(load_rules([entry]))
        except HoldstrueError:
            continue
    assume(rules)
    return RuleSet(tuple(rules), nulls=data.draw(st.sampled_from(["unknown", "unknown", "equal"])))


def found(violations: Any) -> dict[str, set[tuple[Any, ...]]]:
    by_rule: dict[str, set[tuple[Any, ...]]] = {}
    for violation in violations:
        named = tuple(key for key in (violation.t, violation.s) if key is not None)
        own = by_rule.setdefault(violation.rule, set())
        assert named not in own, "a violation is listed once"
        own.add(named)
    return by_rule


def nonempty(by_rule: dict[str, set[tuple[Any, ...]]]) -> dict[str, set[tuple[Any, ...]]]:
    return {rule: some for rule, some in by_rule.items() if some}


def assert_counts(monitor_counts: Any, truth: dict[str, set[tuple[Any, ...]]]) -> None:
    for rule, counts in monitor_counts.items():
        want = truth[rule]
        assert counts.open == len(want), rule
        assert counts.pairs == sum(len(v) == 2 for v in want), rule
        assert counts.rows == len({key for v in want for key in v}), rule


def assert_groups(index: str, rules: RuleSet, counts: Any, rows: list[worlds.Row], truth: Any) -> None:
    """Keys and FDs: the groups that violating pairs lie in."""
    by_key = {row["id"]: row for row in rows}
    for rule in rules:
        if isinstance(rule.body, Key | FD):
            lhs = rule.body.columns if isinstance(rule.body, Key) else rule.body.lhs
            places = {tuple(_same(by_key[t][name]) for name in lhs) for t, _ in truth[rule.name]}
            assert counts[rule.name].groups == len(places), (index, rule.text)


def _same(value: Any) -> Any:
    """NaN equals itself, and -0.0 is 0.0."""
    return "nan" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.parametrize("index", INDEXES)
@SETTINGS
@given(data=st.data())
def test_from_scratch(index: Any, data: st.DataObject) -> None:
    rules = draw_rules(data)
    rows = [data.draw(worlds.row(i)) for i in range(data.draw(st.integers(0, 9)))]
    report = check(pa.Table.from_pylist(rows, schema=worlds.SCHEMA), rules, key="id", index=index, limit=None)
    truth = expected(rules, rows, [row["id"] for row in rows])
    assert found(report) == nonempty(truth)
    assert_counts({r.rule.name: r.counts for r in report.results}, truth)
    assert_groups(index, rules, {r.rule.name: r.counts for r in report.results}, rows, truth)


@pytest.mark.parametrize("index", INDEXES)
@SETTINGS
@given(data=st.data())
def test_counted_by_sweeping(index: Any, data: st.DataObject) -> None:
    """The counting path for large loads, forced on small ones."""
    rules = draw_rules(data)
    rows = [data.draw(worlds.row(i)) for i in range(data.draw(st.integers(1, 9)))]
    before = pair.COUNT_FROM
    pair.COUNT_FROM = 0
    try:
        report = check(pa.Table.from_pylist(rows, schema=worlds.SCHEMA), rules, key="id", index=index, limit=None)
        truth = expected(rules, rows, [row["id"] for row in rows])
        assert_counts({r.rule.name: r.counts for r in report.results}, truth)
        assert found(report) == nonempty(truth)
    finally:
        pair.COUNT_FROM = before


@SETTINGS
@given(data=st.data())
def test_counted_by_sweeping_across_columns(data: st.DataObject) -> None:
    """The same for rules whose terms compare different columns of few values, so that groups of t and s differ."""
    columns = st.sampled_from("abc")
    terms = data.draw(st.lists(st.tuples(columns, st.sampled_from(worlds.OPS), columns), min_size=1, max_size=4))
    if not any(op in ("!=", "=") and left != right for left, op, right in terms):
        terms.append(("a", "!=", "b"))
    text = " and ".join(f"t.{left} {op} s.{right}" for left, op, right in terms)
    rows = [
        {"id": i, **{name: data.draw(st.one_of(st.integers(0, 2), st.none())) for name in "abc"}}
        for i in range(data.draw(st.integers(1, 9)))
    ]
    try:
        rules = load_rules([f"not({text})"])
    except HoldstrueError:
        return  # it can never be violated
    schema = pa.schema(dict.fromkeys(("id", "a", "b", "c"), pa.int64()))
    before = pair.COUNT_FROM
    pair.COUNT_FROM = 0
    try:
        report = check(pa.Table.from_pylist(rows, schema=schema), rules, key="id", limit=None)
        truth = expected(rules, rows, [row["id"] for row in rows])
        assert_counts({r.rule.name: r.counts for r in report.results}, truth)
        assert found(report) == nonempty(truth)
    finally:
        pair.COUNT_FROM = before


@pytest.mark.parametrize("index", INDEXES)
@SETTINGS
@given(data=st.data())
def test_under_changes(index: Any, data: st.DataObject) -> None:
    """After every batch the violations, the deltas, the counts and the rows' degrees are the oracle's."""
    rules = draw_rules(data)
    monitor = Monitor(rules, key="id", index=index)
    rows: dict[int, worlds.Row] = {}
    truth = at_first(rules)
    for _ in range(data.draw(st.integers(1, 5))):
        batch = data.draw(worlds.changes(set(rows)))
        delta = monitor.apply(worlds.as_table(batch), limit=None, op_column="_op", feed="ops")
        rows = worlds.applied(rows, batch)
        after = expected(rules, list(rows.values()), list(rows))
        assert found(delta.added) == nonempty({rule: after[rule] - truth[rule] for rule in after})
        assert found(delta.removed) == nonempty({rule: truth[rule] - after[rule] for rule in after})
        for rule, step in delta.counts.items():
            assert (step.added, step.removed) == (
                len(after[rule] - truth[rule]),
                len(truth[rule] - after[rule]),
            ), rule
        assert found(monitor.violations()) == nonempty(after)
        assert_counts(monitor.counts(), after)
        assert_groups(index, rules, monitor.counts(), list(rows.values()), after)
        for key in rows:
            degrees = {rule: sum(key in violation for violation in some) for rule, some in after.items()}
            assert monitor.row(key) == {rule: degree for rule, degree in degrees.items() if degree}
        truth = after


@SETTINGS
@given(data=st.data())
def test_undo_is_identity(data: st.DataObject) -> None:
    """A batch and its opposite leave everything as it was."""
    rules = draw_rules(data)
    monitor = Monitor(rules, key="id")
    rows = {i: data.draw(worlds.row(i)) for i in range(data.draw(st.integers(0, 5)))}
    monitor.apply(worlds.as_table([("insert", row) for row in rows.values()]), op_column="_op", feed="ops")
    before, counts = found(monitor.violations()), monitor.counts()
    batch = data.draw(worlds.changes(set(rows)))
    done = monitor.apply(worlds.as_table(batch), op_column="_op", feed="ops", limit=None)
    after = worlds.applied(rows, batch)
    undo = [("delete", row) for key, row in after.items() if key not in rows]
    undo += [("update" if key in after else "insert", row) for key, row in rows.items()]
    undone = monitor.apply(worlds.as_table(undo), op_column="_op", feed="ops", limit=None)
    assert found(undone.added) == found(done.removed)
    assert found(undone.removed) == found(done.added)
    assert found(monitor.violations()) == before
    assert monitor.counts() == counts
