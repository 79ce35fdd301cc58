"""Rules discovered on Spark are those that one process discovers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from holdstrue import Discovery, discover
from holdstrue import spark as on_spark
from spark.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table(rows: int) -> pa.Table:
    draw = random.Random(rows)
    return pa.table(
        {
            "id": list(range(rows)),
            "zip": [draw.choice([None, "10", "11", "12é"]) for _ in range(rows)],
            "pay": [draw.randrange(5) * 10 for _ in range(rows)],
            "tax": [draw.choice([None, 0.5, 1.5, 2.5]) for _ in range(rows)],
        }
    )


def said(found: Discovery) -> set[str]:
    return {rule.text for rule in found}


@pytest.mark.parametrize("rows", [0, 1, 40, 1500])
def test_as_in_one_process(spark: SparkSession, rows: int) -> None:
    here = table(rows)
    found = on_spark.discover(frame(spark, here), key="id")
    assert (said(found), found.complete) == (said(discover(here, key="id")), True)


def test_it_is_kept_and_followed(spark: SparkSession, tmp_path: Path) -> None:
    here = table(40)
    found = on_spark.discover(frame(spark, here), kinds="dc", key="id", state=tmp_path / "state")
    found.close()
    with Discovery.open(tmp_path / "state") as kept:
        kept.apply(pa.table({"id": list(range(20)), "op": ["delete"] * 20}))
        assert said(kept) == said(discover(here.slice(20), kinds="dc", key="id"))


def test_rows_that_share_a_key_are_shown_as_they_are(spark: SparkSession) -> None:
    shared = frame(spark, pa.table({"id": [1, 1], "zip": ["1", "1"], "city": ["Bonn", "Ulm"]}))
    report = on_spark.check(shared, "zip -> city", key="id")
    [(_, rows)] = report.examples(report.results[0], 5)
    assert {row["city"] for row in rows} == {"Bonn", "Ulm"}
