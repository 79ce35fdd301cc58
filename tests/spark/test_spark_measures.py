"""Rules about whole tables on Spark: parts of every home put together, and a check that sends no rows anywhere."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.detect.delta import Violation
from holdstrue.shards.wire import SUMMARY
from holdstrue.spark import Monitor, check
from spark.frames import frame, listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("by_cluster")

NOW = dt.datetime(2026, 11, 16, 12, tzinfo=dt.UTC)
RULES = [
    "orders.count() > 4", "orders.sum(total) = lines.sum(amount)", "orders.fresh(placed) < 1 day",
    "orders.max(total) < 9", "lines.min(amount) > 0",
]  # fmt: skip
KEYS = {"orders": "id", "lines": "id"}


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[dt.datetime]:
    """The time as the driver sees it."""
    times = [NOW]
    for place in ("detect.clock", "monitor.in_shards", "monitor.sharded_check", "spark.checking"):
        monkeypatch.setattr(f"holdstrue.{place}.wall", lambda: int(times[0].timestamp()) * 10**9)
    return times


def orders(*rows: tuple[int, float | None, int]) -> pa.Table:
    """Rows of key, total and hours before noon."""
    placed = [NOW - dt.timedelta(hours=hours) for *_, hours in rows]
    return pa.table(
        {
            "id": [key for key, *_ in rows],
            "total": pa.array([total for _, total, _ in rows], pa.float64()),
            "placed": pa.array(placed, pa.timestamp("us", "UTC")),
        }
    )


FIRST = orders((1, 0.1, 30), (2, 0.2, 20), (3, None, 40), (4, 0.7, 23))
LINES = pa.table({"id": [1, 2], "amount": [0.5, 0.5]})


def whole(*rules: str) -> list[Violation]:
    return [Violation(rule, None) for rule in rules]


def test_a_check_sends_no_rows_anywhere(spark: SparkSession) -> None:
    tables = {"orders": FIRST, "lines": LINES}
    report = check({name: frame(spark, table, 2) for name, table in tables.items()}, RULES, key="id")
    here = holdstrue.check(tables, RULES, key="id")
    assert [(r.counts, r.measured, r.status) for r in report.results] == [
        (r.counts, r.measured, r.status) for r in here.results
    ]
    assert list(report.listed()) == list(here) == whole(*RULES[:2])
    assert listed(report.violations()) == whole(*RULES[:2])
    assert listed(report.violations(RULES[1])) == whole(RULES[1])
    assert report.examples(report.results[0], 3) == []
    source = report._shards[1]
    messages = report.runner.messages(source.work, source.job.tasks)
    assert {row["kind"] for row in messages.toArrow().to_pylist()} == {SUMMARY}


def test_a_monitor_puts_parts_together(spark: SparkSession, tmp_path: Path, now: list[dt.datetime]) -> None:
    monitor = Monitor(spark, tmp_path / "state", RULES, key=KEYS, shards=3, blocks=2)
    one = holdstrue.Monitor(RULES, key=KEYS)
    first = {"orders": FIRST, "lines": LINES}
    delta = monitor.apply({name: frame(spark, table, 1) for name, table in first.items()})
    assert delta.counts == one.apply(first).counts
    assert list(delta.added) == listed(monitor.violations()) == whole(*RULES[:2])
    assert listed(monitor.delta()) == whole(*RULES[:2])
    changes = orders((5, 9.0, 1), (2, 0.2, 20)).append_column("op", pa.array(["insert", "delete"]))
    again = monitor.apply(frame(spark, changes, 1), feed="ops")
    alone = one.apply({"orders": changes}, feed="ops")
    assert (again.counts, dict(again.measured)) == (alone.counts, dict(alone.measured))
    assert sorted(again.added, key=str) == whole(RULES[3])
    now[0] += dt.timedelta(days=1)
    assert monitor.counts() == one.counts()
    assert monitor.counts()[RULES[2]].open == 1
    assert {violation.rule for violation in listed(monitor.violations())} == {*RULES[:4]}
    annotated = monitor.annotated(frame(spark, FIRST), table="orders")
    assert all(not row["_violations"] for row in annotated.toArrow().to_pylist()), "no row breaks such a rule"
    with holdstrue.Monitor.open(tmp_path / "state", read_only=True) as opened:
        assert opened.counts() == one.counts()


def test_a_table_that_has_had_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    monitor = Monitor(spark, tmp_path / "state", RULES, key=KEYS)
    monitor.apply({"lines": frame(spark, LINES)})
    assert listed(monitor.violations()) == whole(RULES[0])
    assert listed(monitor.delta()) == whole(RULES[0])
