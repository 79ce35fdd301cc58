"""Rules as SQL that Spark answers: the same violations as `check` finds, for every kind of rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest

from holdstrue.report.sql import to_sql
from spark.frames import frame
from sql_cases import OTHER, SCHEMA, TABLE, expected, measured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")


def listed(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """The keys of the rows that a query gave."""
    keys = [(row["id"],) if "id" in row else (row["t.id"], row["s.id"]) for row in rows]
    answer = {tuple(part for part in key if part is not None) for key in keys}
    assert len(answer) == len(rows)
    return answer


def test_spark_answers_what_check_finds(spark: SparkSession) -> None:
    frame(spark, TABLE).createOrReplaceTempView("data")
    frame(spark, OTHER).createOrReplaceTempView("other")
    wrong: dict[Any, Any] = {}
    either: tuple[Literal["unknown", "equal"], ...] = ("unknown", "equal")
    for nulls in either:
        rules, truth = expected(nulls)
        assert sum(map(bool, truth.values())) > len(truth) / 2
        queries = to_sql(rules, "spark", key="id", schemas={"data": SCHEMA, "other": OTHER.schema})
        # one question for all counts, so that this takes seconds
        each = (f"SELECT {i} AS rule, violations FROM (\n{query.count}\n)" for i, query in enumerate(queries))
        counts = "\nUNION ALL\n".join(each)
        counted = {row["rule"]: row["violations"] for row in spark.sql(counts).toArrow().to_pylist()}
        for i, query in enumerate(queries):
            if counted[i] != len(truth[query.rule.name]):
                wrong[nulls, query.rule.text] = (counted[i], truth[query.rule.name])
        for query in queries[:: 5 if nulls == "unknown" else 11]:
            assert query.violations is not None
            answer = listed(spark.sql(query.violations).toArrow().to_pylist())
            if answer != truth[query.rule.name]:
                wrong[nulls, query.rule.text, "list"] = (answer, truth[query.rule.name])
    assert not wrong


def test_rules_about_whole_tables(spark: SparkSession) -> None:
    frame(spark, TABLE).createOrReplaceTempView("data")
    frame(spark, OTHER).createOrReplaceTempView("other")
    rules, truth = measured()
    queries = to_sql(rules, "spark", key="id", schemas={"data": SCHEMA, "other": OTHER.schema})
    each = (f"SELECT {i} AS rule, violations FROM (\n{query.count}\n)" for i, query in enumerate(queries))
    rows = spark.sql("\nUNION ALL\n".join(each)).toArrow().to_pylist()
    counted = {row["rule"]: row["violations"] for row in rows}
    assert {name: counted[i] for i, name in enumerate(truth)} == truth
