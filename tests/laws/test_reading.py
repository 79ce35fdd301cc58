"""Laws of lists: one that is being read stays as it was when it began, whatever is applied meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue import HoldstrueError, Monitor
from holdstrue.monitor import reading, views
from holdstrue.monitor import report as reports
from holdstrue.report import Groups
from holdstrue.rules import RuleSet
from holdstrue.shards import shard
from laws import crowd, worlds
from laws.test_detection import INDEXES, draw_rules


@pytest.fixture(autouse=True, scope="module")
def _small_parts() -> Iterator[None]:
    """Lists are made two violations at a time, and removed versions are soon dropped."""
    before = views.NAMED_AT_ONCE, shard.COMPACT_FROM
    views.NAMED_AT_ONCE, shard.COMPACT_FROM = 2, 3
    yield
    views.NAMED_AT_ONCE, shard.COMPACT_FROM = before


def lists_of(monitor: Monitor, rules: RuleSet, limit: int | None) -> list[Iterator[Any]]:
    """Every list that there is to read."""
    report = monitor.report(limit=limit)
    named = [rule.name for rule in rules]
    grouped = [rule.name for rule in rules if rule.kind in ("key", "fd", "cfd")]
    return [
        monitor.violations(limit=limit),
        *(monitor.violations(name) for name in named),
        *(monitor.groups(name, limit=limit) for name in grouped),
        iter(report),
        report.listed(),
        iter(Groups(report, limit=limit)),
    ]


@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_list_stays_as_it_began(index: Any, data: st.DataObject) -> None:
    """All lists, begun at several versions, each read as far as it happens before the next batch."""
    rules = draw_rules(data)
    rows = {i: data.draw(worlds.row(i)) for i in range(data.draw(st.integers(2, 9)))}
    monitor = Monitor(rules, "id", data=pa.Table.from_pylist(list(rows.values()), schema=worlds.SCHEMA), index=index)
    begun: list[tuple[list[Any], Iterator[Any], list[Any]]] = []
    for _ in range(data.draw(st.integers(1, 4))):
        limit = data.draw(st.sampled_from([None, None, 3]))
        wanted = [list(items) for items in lists_of(monitor, rules, limit)]
        begun += zip(wanted, lists_of(monitor, rules, limit), ([] for _ in wanted), strict=True)
        for _, items, so_far in begun:
            so_far.extend(islice(items, data.draw(st.integers(0, 4))))
        batch = data.draw(worlds.changes(set(rows)))
        monitor.apply(worlds.as_table(batch), op_column="_op", feed="ops")
        rows = worlds.applied(rows, batch)
    for wanted_items, items, so_far in begun:
        # as text, in which a NaN equals itself
        assert str([*so_far, *items]) == str(wanted_items)


@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_report_keeps_what_it_lists(index: Any, data: st.DataObject) -> None:
    rules = draw_rules(data)
    rows = {i: data.draw(worlds.row(i)) for i in range(data.draw(st.integers(2, 9)))}
    monitor = Monitor(rules, "id", data=pa.Table.from_pylist(list(rows.values()), schema=worlds.SCHEMA), index=index)
    limit = data.draw(st.sampled_from([None, 0, 1, 3, 100]))
    report = monitor.report(limit=limit)
    said, listed = report.to_dict(), list(report.listed())
    examples = {result.rule.name: report.examples(result, 2) for result in report.results}
    whole = limit is None or report.total <= limit
    for _ in range(data.draw(st.integers(1, 3))):
        batch = data.draw(worlds.changes(set(rows)))
        monitor.apply(worlds.as_table(batch), op_column="_op", feed="ops")
        rows = worlds.applied(rows, batch)
        assert report.to_dict() == said and list(report.listed()) == listed  # keys only
        if whole:
            assert list(report) == listed
            assert str({result.rule.name: report.examples(result, 2) for result in report.results}) == str(examples)
        else:
            with pytest.raises(HoldstrueError, match=rf"of the {report.total} violations .* first {limit} were kept"):
                report.violations()


def test_reading_and_applying_take_turns_in_one_thread() -> None:
    monitor = Monitor(crowd.RULES, key="id", data=crowd.table(crowd.FIRST))
    wanted = crowd.named(monitor.violations())
    order, seen = crowd.names(0, 40), []
    for violation, name in zip(monitor.violations(), order, strict=False):
        seen.append(violation)
        monitor.apply(crowd.table(crowd.changes(name)), name)
    assert len(seen) == len(order) < len(wanted) and set(crowd.named(seen)) < set(wanted)
    crowd.assert_last(monitor.counts(), monitor.violations(), order)


def test_what_is_too_much_to_keep_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = Monitor(crowd.RULES, key="id", data=crowd.table(crowd.FIRST))
    every = list(monitor.violations())
    monkeypatch.setattr(reading, "MOST_DRAWN", len(every) - 2)
    late, far = monitor.violations(), monitor.violations()
    few, groups = monitor.violations(limit=len(every) - 2), monitor.groups("zip -> city", limit=1)
    begun = [next(late), *islice(far, 3)]
    monitor.apply(crowd.table(crowd.changes("0-0")))
    # two are made at a time: the second is there, and the first list has as many to go as may be kept
    assert [begun[0], *late] == every
    assert begun[1:] == every[:3] and next(far) == every[3]
    assert list(far) == every[4:]
    assert list(few) == every[:-2] and len(list(groups)) == 1
    lost = monitor.violations()
    monitor.apply(crowd.table(crowd.changes("0-1")))
    with pytest.raises(HoldstrueError, match="too much to be kept") as told:
        next(lost)
    assert told.value.hint is not None and "limit=" in told.value.hint and "read_only=True" in told.value.hint


def test_a_list_that_nobody_reads_any_more_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = Monitor(crowd.RULES, key="id", data=crowd.table(crowd.FIRST))
    drawn = []

    def draw(reader: object) -> None:
        drawn.append(reader)

    monkeypatch.setattr(reading.PartReader, "draw", draw)
    monkeypatch.setattr(reports.FirstViolations, "draw", draw)
    done, given_up, report = monitor.violations(), monitor.groups("zip -> city"), monitor.report()
    next(given_up)
    assert len(list(done)) > 2 and report.total
    del given_up, report
    gc.collect()
    monitor.apply(crowd.table(crowd.changes("0-0")))
    assert not drawn
    held = monitor.violations()
    monitor.apply(crowd.table(crowd.changes("0-1")))
    assert len(drawn) == 1 and held is not None


def test_a_report_says_what_it_no_longer_has() -> None:
    monitor = Monitor(crowd.RULES, key="id", data=crowd.table(crowd.FIRST))
    report = monitor.report(limit=5)
    begun, groups = iter(report), list(report.groups("zip -> city"))
    late_groups = report.groups("zip -> city")
    wanted = list(report)
    monitor.apply(crowd.table(crowd.changes("0-0")))
    assert list(begun) == wanted and list(late_groups) == groups
    assert list(report.violations(limit=5)) == wanted[:5]
    for asked in (
        report.violations,
        lambda: report.groups("zip -> city"),
        report.explain,
        lambda: list(Groups(report)),
    ):
        with pytest.raises(HoldstrueError, match="applied a batch since this report was made"):
            asked()
    assert monitor.report().total != report.total
