"""Laws of accepted violations: what is accepted is counted, what is new is the oracle's violations without it."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue import Monitor, accepting, check
from holdstrue.monitor.accepting import accepted_in, accepted_now
from holdstrue.monitor.known import WrittenReport
from holdstrue.monitor.report import Report
from holdstrue.rules import RuleSet
from holdstrue.rules.accepted import Acceptance, dump_accepted, parse_accepted
from laws import worlds
from laws.test_detection import INDEXES, draw_rules, found, nonempty
from translate import expected

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
TODAY = dt.date(2026, 11, 16)


def known(entries: tuple[Acceptance, ...], rule: str, violation: tuple[Any, ...]) -> bool:
    """What it means to be accepted: a row by itself, or two rows that stand in one set."""
    own = [entry for entry in entries if entry.rule == rule and not entry.expired(TODAY)]
    if len(violation) == 1:
        return any(violation[0] in entry.rows for entry in own)
    return any(set(violation) <= set(conflict) for entry in own for conflict in entry.conflicts)


def assert_told(report: Report, entries: tuple[Acceptance, ...], truth: dict[str, set[tuple[Any, ...]]]) -> Report:
    """A report with entries says what is accepted and what is new."""
    told = accepting(report, entries, today=TODAY)
    fresh = {rule: {v for v in own if not known(entries, rule, v)} for rule, own in truth.items()}
    assert found(told) == nonempty(fresh)
    for result in told.results:
        assert (result.accepted, result.new) == (
            len(truth[result.rule.name]) - len(fresh[result.rule.name]),
            len(fresh[result.rule.name]),
        )
        assert len(told.examples(result, 3)) == min(3, result.new)
        assert (result.status == "accepted") == (bool(result.accepted) and not result.new)
        for group in told.groups(result.rule.name) if result.counts.groups else ():
            assert group.sides
    return told


def new_entries(data: st.DataObject, told: Report, entries: tuple[Acceptance, ...]) -> tuple[Acceptance, ...]:
    """Entries for all that is new, of the report itself or of what it wrote as JSON."""
    names = [result.rule.name for result in told.results]
    if data.draw(st.booleans()):
        return tuple(accepted_now(told, names, "drawn"))
    written = WrittenReport.of(json.loads(json.dumps(told.to_dict())))
    return accepted_in(written, names, "drawn", entries, TODAY)[1]


@SETTINGS
@given(data=st.data())
def test_only_new_violations_are_listed(data: st.DataObject) -> None:
    rules = draw_rules(data)
    rows: dict[int, worlds.Row] = {}
    entries: tuple[Acceptance, ...] = ()
    index = data.draw(st.sampled_from(INDEXES))
    monitor = Monitor(rules, key="id", index=index)
    for _ in range(data.draw(st.integers(1, 4))):
        batch = data.draw(worlds.changes(set(rows)))
        monitor.apply(worlds.as_table(batch), op_column="_op", feed="ops")
        rows = worlds.applied(rows, batch)
        truth = expected(rules, list(rows.values()), list(rows))
        report = monitor.report(limit=None) if data.draw(st.booleans()) else from_scratch(rules, rows)
        told = assert_told(report, entries, truth)
        if data.draw(st.booleans()):
            entries += new_entries(data, told, entries)
            assert parse_accepted(dump_accepted(entries)) == entries
            # a table as a whole is no row that a file could name
            left = sum(len(truth[rule.name]) for rule in rules if rule.kind == "measure")
            assert accepting(report, entries, today=TODAY).new == left


def from_scratch(rules: RuleSet, rows: dict[int, worlds.Row]) -> Report:
    return check(pa.Table.from_pylist(list(rows.values()), schema=worlds.SCHEMA), rules, key="id", limit=None)
