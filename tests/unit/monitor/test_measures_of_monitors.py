"""Rules about whole tables: what they say, what they refuse, and who is asked."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from holdstrue import HoldstrueError, Monitor, check
from holdstrue.alerts.alert import Alert
from holdstrue.detect.delta import Violation
from holdstrue.monitor.accepting import accepting
from holdstrue.report.openlineage import _assertion
from holdstrue.rules.accepted import Acceptance
from holdstrue.serve.watched import OpenVersion

ROWS = pa.table({"id": [1, 2, 3], "x": [1.5, None, 2.0], "name": ["a", "b", None]})
EVENING = dt.datetime(2026, 11, 16, 22, tzinfo=dt.UTC)


def test_a_violation_names_no_row() -> None:
    report = check(ROWS, ["count() > 5", "key(id)"], key="id")
    assert list(report) == [Violation("count() > 5", None)]
    assert report.to_dict()["violations"] == [{"rule": "count() > 5", "t": None}]
    assert report.to_dict()["rules"][0]["measured"] == "count() is 3, expected > 5"
    assert report.to_arrow().to_pylist() == [{"rule": "count() > 5", "t": None, "s": None}]
    with pytest.raises(HoldstrueError, match=r"count\(\) > 5: count\(\) is 3, expected > 5"):
        report.raise_if_violated()
    assert "count() is 3, expected &gt; 5" in report._repr_html_()


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("sum(name) > 3", "there is no sum(name): the column holds string values"),
        ("max(name) > 3", "there is no max(name)"),
        ("fresh(x) < 2 days", "freshness is of dates and timestamps"),
        ("fresh(name) < 2 days", "--type name=timestamp"),
        ("sum(other) > 3", "has no column 'other'"),
        ("sum(x) > 'many'", "does not compare with 'many'"),
        ("sum(x) > day.sum(x)", "no table 'day'"),
        ("max(x) > date '2024-01-01'", "does not compare"),
    ],
)
def test_what_cannot_be_measured_is_refused(rule: str, said: str) -> None:
    with pytest.raises(HoldstrueError) as refused:
        check(ROWS, [rule])
    assert said in str(refused.value)


def test_decimals_do_not_compare_with_floats() -> None:
    money = pa.table({"d": pa.array([Decimal("1.50")], pa.decimal128(9, 2)), "f": [1.5], "i": [1]})
    with pytest.raises(HoldstrueError, match="does not compare"):
        check(money, ["sum(d) = sum(f)"])
    assert check(money, ["sum(d) >= sum(i)", "sum(f) >= sum(i)", "sum(d) = 1.5"]).ok


def test_a_difference_that_doubles_hide_is_told() -> None:
    floats = pa.table({"a": [0.1] * 10, "b": [1.0, *[None] * 9]})
    [result] = check(floats, ["sum(a) = sum(b)"]).results
    assert result.measured == "sum(a) is 1.0, sum(b) is 1.0, sum(a) is 5.6e-17 more, expected = sum(b)"


def test_tables_without_rows_and_without_columns_to_read() -> None:
    empty = ROWS.slice(0, 0)
    results = check(empty, ["count() > 0", "sum(x) > 5", "max(x) > 5"]).results
    assert [(r.counts.open, r.measured) for r in results] == [
        (1, "count() is 0, expected > 0"),
        (0, "sum(x) is unknown, expected > 5"),
        (0, "max(x) is unknown, expected > 5"),
    ]
    assert check(ROWS, ["count() = 3"]).ok


def test_before_the_first_batch_nothing_is_violated() -> None:
    monitor = Monitor(["count() > 5"], "id")
    assert monitor.counts()["count() > 5"].open == 0
    assert monitor.apply(ROWS).stopped_holding == ("count() > 5",)
    assert monitor.apply(pa.table({"id": [1, 2, 3], "op": ["delete"] * 3})).counts["count() > 5"].added == 0


def test_the_filter_is_on_the_rows_of_the_first_table() -> None:
    rules = {"name": "some", "rule": "orders.count() = lines.count()", "where": "id > 1"}
    report = check({"orders": ROWS, "lines": pa.table({"id": [1, 2]})}, [rules])
    assert report.results[0].measured == "orders.count() is 2, lines.count() is 2, expected = lines.count()"


def test_a_state_gets_stale_without_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [EVENING]
    monkeypatch.setattr("holdstrue.detect.clock.wall", lambda: int(now[0].timestamp()) * 10**9)
    rows = pa.table({"id": [1], "at": pa.array([EVENING], pa.timestamp("s", "UTC"))})
    rule = "fresh(at) <= 1 day"
    Monitor.create(tmp_path / "state", [rule], "id", data=rows).close()
    served = OpenVersion(str(tmp_path / "state"))
    assert [result.status for result in served.results] == ["ok"]
    now[0] += dt.timedelta(days=1)
    assert [result.status for result in served.results] == ["ok"]
    now[0] += dt.timedelta(seconds=1)
    assert [result.status for result in served.results] == ["violated"]
    assert served.overview("state")["rules"][0]["open"] == 1
    with Monitor.open(tmp_path / "state") as monitor:
        assert monitor.counts()[rule].open == monitor.facts.counts[rule].open == 1
        assert monitor.preview(rows.set_column(0, "id", [[2]])).counts[rule].open == 1
        again = pa.table({"id": [2], "at": pa.array([now[0]], pa.timestamp("s", "UTC"))})
        assert monitor.preview(again).counts[rule].removed == 1
        assert monitor.apply(again).counts[rule].removed == 1
        assert [line.open for line in monitor.history()] == [0, 0]


def test_what_is_accepted_are_rows() -> None:
    report = check(ROWS, ["count() > 5"], key="id")
    with pytest.raises(HoldstrueError, match="about a whole table"):
        accepting(report, [Acceptance("count() > 5", "known", rows=(1,))])


def test_alerts_and_lineage_say_what_was_measured() -> None:
    monitor = Monitor(["count() > 5"], "id")
    delta = monitor.apply(ROWS)
    message = Alert(None, "state", monitor.rules.rules).message(delta)
    assert "count() is 3, expected" in message["text"]
    assert message["rules"][0]["measured"] == "count() is 3, expected > 5"
    [result] = monitor.report().results
    assertion = _assertion(result)
    assert (assertion["failures"], assertion["properties"]["measured"]) == (1, "count() is 3, expected > 5")
