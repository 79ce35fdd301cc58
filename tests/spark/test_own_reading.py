"""Parquet tables that workers read themselves when they are loaded, and all that is left to Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdstrue as hs
import holdstrue.spark
from holdstrue.spark.parquet_splits import splits_of
from holdstrue.spark.runner import SparkRunner
from spark.conftest import MODE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = ["zip -> city", "not(t.pay > s.pay and t.tax < s.tax)"]
ROWS = pa.table(
    {
        "id": pa.array(range(600), pa.int64()),
        "zip": [None if i % 50 == 7 else f"Z{i % 40}" for i in range(600)],
        "city": [f"City é{i % 40 + (i == 77)}" for i in range(600)],
        "pay": pa.array([i * 7 % 600 for i in range(600)], pa.int32()),
        "tax": [i * 7 % 600 / 2 + (i == 5) for i in range(600)],
        "open": [i % 3 == 0 for i in range(600)],
    }
)

pytestmark = pytest.mark.skipif(MODE == "connect", reason="plans are on the server")


@pytest.fixture
def table(tmp_path: Path) -> str:
    place = tmp_path / "a table, 100 %"
    place.mkdir()
    for at in range(3):
        pq.write_table(ROWS.slice(200 * at, 200), place / f"part-{at}.parquet", row_group_size=70)
    return str(place)


def own_rows(spark: SparkSession, frame: Any) -> int | None:
    splits = splits_of(frame, SparkRunner(spark).schema(frame))
    return None if splits is None else sum(split.rows for split in splits)


def test_what_is_loaded_is_what_spark_would_have_read(spark: SparkSession, table: str, tmp_path: Path) -> None:
    frame = spark.read.parquet(table)
    assert own_rows(spark, frame) == 600
    assert own_rows(spark, frame.filter("id >= 0")) is None
    wanted = hs.Monitor(RULES, key="id")
    wanted.apply(ROWS, feed="append")
    for name, rows in (("own", frame), ("by Spark", frame.filter("id >= 0"))):
        with holdstrue.spark.Monitor(spark, tmp_path / name, RULES, key="id", data=rows) as monitor:
            assert monitor.counts() == wanted.counts()
            assert monitor.rows == wanted.rows
        # what carried the rows is gone
        assert not list((tmp_path / name / "runs").glob("passing-*"))


def test_spark_reads_all_else(spark: SparkSession, table: str, tmp_path: Path) -> None:
    # commands that were run in this session have it tell capitals from small letters
    before = str(spark.conf.get("spark.sql.caseSensitive"))
    spark.conf.set("spark.sql.caseSensitive", "false")
    plain = spark.read.parquet(table)
    assert own_rows(spark, plain.select("zip", "id")) == 600
    others = {
        "an expression": plain.selectExpr("id + 1 as id"),
        "another name": plain.withColumnRenamed("id", "number"),
        "a limit": plain.limit(10),
        "a column twice": plain.select("id", "id"),
        "no file": plain.filter("false"),
        "rows twice": plain.union(plain),
        "an option": spark.read.option("mergeSchema", "true").parquet(table),
        "other types": spark.read.schema("id long, pay long").parquet(table),
        "a column that no file has": spark.read.schema("id long, more string").parquet(table),
        "letters of the other case": plain.select("ID"),
        "no Parquet": spark.createDataFrame([(1, "a")], "id long, zip string"),
    }
    plain.write.partitionBy("open").parquet(str(tmp_path / "parted"))
    others["a column in names of folders"] = spark.read.parquet(str(tmp_path / "parted"))
    plain.selectExpr("id", "timestamp_seconds(id) as at").write.parquet(str(tmp_path / "times"))
    others["times"] = spark.read.parquet(str(tmp_path / "times"))
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.uint32())}), tmp_path / "unsigned.parquet")
    others["numbers without a sign"] = spark.read.parquet(str(tmp_path / "unsigned.parquet"))
    cached = spark.read.parquet(str(tmp_path / "times")).select("id").cache()
    others["a frame that is kept"] = cached
    assert {name for name, frame in others.items() if own_rows(spark, frame) is not None} == set()
    cached.unpersist()
    spark.conf.set("spark.sql.caseSensitive", before)


def test_a_session_that_may_leave_files_out_reads_them_itself(spark: SparkSession, table: str) -> None:
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        assert own_rows(spark, spark.read.parquet(table)) is None
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_a_load_that_fails_leaves_nothing(spark: SparkSession, table: str, tmp_path: Path) -> None:
    twice = spark.read.parquet(table)
    with (
        pytest.raises(hs.HoldstrueError, match="zip"),
        holdstrue.spark.Monitor(
            spark, tmp_path / "state", RULES, key="zip", data=twice.select("zip", "city", "pay", "tax")
        ),
    ):
        pass
    assert not list((tmp_path / "state" / "runs").glob("passing-*"))
