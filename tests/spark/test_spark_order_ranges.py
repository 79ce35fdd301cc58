"""Order rules without equalities on Spark go by ranges, with the answers of one process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdstrue
import holdstrue.spark as hs
from holdstrue.monitor import order_ranges
from holdstrue.spark.runner import SparkRunner
from oracle import satisfied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = [
    "not(t.salary > s.salary and t.rate < s.rate)",
    "not(t.name <= s.name and t.rate <= s.rate and t.salary > s.salary and t.half = 1)",
    "not(t.half = s.half and t.salary > s.salary and t.rate < s.rate)",
]


def rows() -> pa.Table:
    salaries = [(i * 37) % 101 for i in range(300)]
    return pa.table(
        {
            "id": range(300),
            "half": [i % 2 for i in range(300)],
            "salary": [None if i % 50 == 3 else salary for i, salary in enumerate(salaries)],
            "rate": [salary / 4 - (5 if i % 40 == 7 else 0) for i, salary in enumerate(salaries)],
            "name": [f"n{i % 60:02d}" for i in range(300)],
        }
    )


@pytest.mark.usefixtures("by_cluster")
def test_ranges(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows()
    for part in range(3):
        pq.write_table(table.slice(part * 100, 100), tmp_path / f"{part}.parquet")
    monkeypatch.setattr(order_ranges, "_pays", lambda *_: True)
    monkeypatch.setattr(SparkRunner, "known_rows", lambda *_: 300)  # through Connect only large tables are counted
    monkeypatch.setattr(order_ranges, "LEAST_CUTS", 5)
    frame = spark.read.parquet(str(tmp_path))
    report = hs.check(frame, RULES, key="id", limit=1000)
    assert report.explain().count("by ranges") == 2
    one = holdstrue.check(table, RULES, key="id")
    assert [(r.rule.name, r.counts) for r in report.results] == [(r.rule.name, r.counts) for r in one.results]
    listed = list(report.listed())
    assert len(listed) == min(1000, one.total) == len({(v.rule, v.t, v.s) for v in listed})
    by_id = {row["id"]: row for row in table.to_pylist()}
    first = [v for v in listed if v.rule == one.results[0].rule.name]
    broken = [(("t", "salary"), ">", ("s", "salary")), (("t", "rate"), "<", ("s", "rate"))]
    assert first and all(satisfied(broken, by_id[v.t], by_id[v.s]) for v in first)
    assert report.violations(one.results[0].rule.name).count() == one.results[0].counts.open
