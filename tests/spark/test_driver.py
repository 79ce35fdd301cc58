"""What the driver may not hold and what the cluster offers: no rows of tables are collected, tasks follow settings.

The session of all tests refuses results of more than four megabytes (`spark.driver.maxResultSize`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdstrue.spark import Inclusions, Monitor, check
from holdstrue.spark.runner import TASK_BYTES, SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 300_000


def rows(spark: SparkSession, start: int, end: int) -> DataFrame:
    """Rows of which each group breaks an FD, and each fifth row an order."""
    return spark.range(start, end).selectExpr(
        "id", "id % 60000 as g", "concat('some text ', id % 7) as name", "if(id % 5 = 0, -id, id) as x"
    )


def test_no_table_goes_through_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    """Checks by Catalyst and by stages, loading, a large batch, inclusions: of tables that the driver cannot take."""
    rows(spark, 0, ROWS).write.parquet(str(tmp_path / "t"))
    data = spark.read.parquet(str(tmp_path / "t"))
    with pytest.raises(Exception, match="maxResultSize"):  # PySpark's or py4j's, by the kind of session
        data.toArrow()
    rules = ["g -> name", "not(t.g = s.g and t.id < s.id and t.x > s.x)", "key(id)", "not null(x)"]
    report = check(data, rules, key="id", limit=5)
    broken = [result.counts for result in report.results]
    assert [(counts.groups, counts.pairs) for counts in broken] == [(60_000, 600_000), (0, 120_000), (0, 0), (0, 0)]
    assert report.native.rules == [0, 2, 3] and len(list(report.listed())) == 5
    assert check({"data": data, "o": data.where("g < 10").select("g")}, "data.g in o.g", limit=3).total == ROWS - 50
    monitor = Monitor(spark, tmp_path / "state", rules, key="id", data=data)
    delta = monitor.apply(rows(spark, ROWS, ROWS + 150_000), limit=5)
    assert delta.counts["key(id)"].open == 0 and delta.counts["g -> name"].added > ROWS
    assert monitor.violations("g -> name").count() == delta.counts["g -> name"].open
    kept = Inclusions.create(tmp_path / "found", {"data": data.select("id", "g")}, shards=4)
    assert [(rule.body.columns, rule.body.ref_columns) for rule in kept.rules()] == [(("g",), ("id",))]


@pytest.mark.parametrize(
    ("settings", "tasks"),
    [
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "spark://h:7077", "spark.cores.max": "24"}, 24),
        ({"spark.master": "yarn", "spark.executor.instances": "5", "spark.executor.cores": "4"}, 20),
        ({"spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "1", "spark.executor.cores": "4",
          "spark.dynamicAllocation.maxExecutors": "50"}, 200),
        ({"spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "1",
          "spark.dynamicAllocation.maxExecutors": str(2**31 - 1)}, 2),
        ({"spark.master": "k8s://h"}, 2),
        ({}, 2),
    ],
)  # fmt: skip
def test_as_many_tasks_as_the_cluster_offers(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], tasks: int
) -> None:
    """By what the settings say; else by the parts into which Spark cuts a range: the session here has two cores."""
    monkeypatch.setattr(SparkRunner, "_setting", lambda self, name: settings.get(name))
    assert SparkRunner(spark).tasks() == tasks


def test_more_tasks_for_more_bytes(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    runner: Any = SparkRunner(spark)
    monkeypatch.setattr(runner, "tasks", lambda: 2)
    assert runner.tasks_for([spark.range(10)]) == 2
    # eight bytes a row
    assert runner.tasks_for([spark.range(TASK_BYTES), spark.range(10)]) == 9
