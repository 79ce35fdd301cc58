"""At home in Spark: tables by name and query, jobs with descriptions, workers that lack something, old versions."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import Observation

import holdstrue.spark as hs
from holdstrue.errors import DataError, HoldstrueError
from holdstrue.progress import LISTENER, Doing
from holdstrue.shards.wire import send
from holdstrue.spark.jobs import cause_of, described, require_version
from holdstrue.spark.runner import SparkRunner
from holdstrue.spark.session import require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_tables_by_name_and_query(spark: SparkSession) -> None:
    people = [(1, "a", "x"), (2, "a", "y"), (3, "b", "z")]
    spark.createDataFrame(people, "id long, zip string, city string").createOrReplaceTempView("people_of_test")
    for data in ("people_of_test", "select * from people_of_test", " WITH p AS (TABLE people_of_test) SELECT * FROM p"):
        assert hs.check(data, "zip -> city", key="id").total == 1
    assert hs.check({"data": "people_of_test"}, "zip -> city", key="id").total == 1
    for data in ("no_such_table", "select nothing from nowhere", "selec * from people_of_test", ""):
        with pytest.raises(DataError, match=r"Spark cannot read .*: \[[A-Z_.]+\]") as told:
            hs.check(data, "zip -> city")
        assert "\n" not in told.value.message
    with pytest.raises(HoldstrueError, match="limit is '3'"):
        hs.check("people_of_test", "zip -> city", limit="3")  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [None, Path("t.parquet"), pa.table({"a": [1]}), {"t": pa.table({"a": [1]})}, {}])
def test_what_is_no_data_frame_is_refused(data: Any) -> None:
    with pytest.raises(DataError, match=r"Spark does not read|no data frames") as told:
        hs.check(data, "key(a)")
    assert told.value.hint is not None


def test_frames_that_spark_cannot_check_are_refused(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="no last row"):
        hs.check(spark.readStream.format("rate").load(), "key(value)")
    # sessions of the command line tell capitals apart
    before = str(spark.conf.get("spark.sql.caseSensitive"))
    spark.conf.set("spark.sql.caseSensitive", "false")
    with pytest.raises(DataError, match="but for capitals"):
        hs.check(spark.range(3).selectExpr("id", "id as zip", "id as ZIP"), "key(zip)")
    with pytest.raises(DataError, match="but for capitals"):  # all columns of the frame are read
        hs.check(spark.range(3).selectExpr("id", "id as zip", "id as ZIP"), "zip -> ZIP", key="id")
    spark.conf.set("spark.sql.caseSensitive", before)
    with pytest.raises(HoldstrueError, match="tasks is '2'"):
        hs.check(spark.range(3), "key(id)", tasks="2")  # type: ignore[arg-type]


def test_jobs_say_what_they_are(spark: SparkSession) -> None:
    connected = type(spark).__module__.startswith("pyspark.sql.connect")

    def shown() -> Any:
        return spark.getTags() if connected else spark.sparkContext.getLocalProperty("spark.job.description")

    before = shown()
    with described(spark, "holdstrue: batch 7 into state"), described(spark, "holdstrue: counts, of state"):
        assert "holdstrue: counts" in str(shown())
    assert shown() == before


def test_batches_are_observed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What listeners are told of the one job of a batch: what it read and moved; what it found is logged."""
    seen: dict[str, Observation] = {}
    frames = type(spark.range(1))
    observe = frames.observe

    def kept(frame: Any, name: str, *metrics: Any) -> Any:
        seen[name] = Observation(name)
        return observe(frame, seen[name], *metrics)

    monkeypatch.setattr(frames, "observe", kept)
    people = "id long, zip string, city string"
    first = spark.createDataFrame([(1, "a", "x"), (2, "b", "y")], people)
    monitor = hs.Monitor(spark, tmp_path / "state", "zip -> city", key="id", data=first, tasks=2)
    assert not seen, "a load counts its rows itself"
    new = spark.createDataFrame([(3, "a", "z"), (4, "c", "y"), (5, "d", "y")], people)
    with caplog.at_level(logging.INFO, "holdstrue"):
        monitor.apply(new, "b1")
    assert seen["holdstrue data"].get == {"changes": 3}
    routed = seen["holdstrue:1"].get
    assert routed["messages"] > 0 and routed["bytes"] > 0
    assert "batch b1: zip -> city: 1 violations added, 0 removed, 1 open" in caplog.messages
    monitor.apply(new.filter("id > 9"), "nothing", one_task=True)
    assert seen["holdstrue data"].get == {"changes": 0}


def test_progress_follows_stages(spark: SparkSession) -> None:
    heard: list[Doing] = []

    def slow(batches: Any) -> Any:
        time.sleep(1.0)
        yield from send([])

    listening = LISTENER.set(heard.append)
    try:
        with SparkRunner(spark).about("a batch"):
            list(SparkRunner(spark).run([(None, slow)], [], 3))
    finally:
        LISTENER.reset(listening)
    assert heard and all(work.what.startswith("a batch: stage") and work.done <= work.parts for work in heard)
    assert any(work.parts >= 3 for work in heard)


def test_what_is_done_is_logged(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    people = spark.createDataFrame([(1, "a", "x"), (2, "a", "y")], "id long, zip string, city string")
    with caplog.at_level(logging.INFO, logger="holdstrue"):
        hs.Monitor(spark, tmp_path / "state", "zip -> city", key="id", data=people, tasks=1).apply(
            people.limit(0), "b1"
        )
    assert any("b1" in record.getMessage() for record in caplog.records)


def test_workers_that_lack_something(spark: SparkSession) -> None:
    runner = SparkRunner(spark)

    def lacks(batches: Any) -> Any:
        raise ModuleNotFoundError("No module named 'numba'", name="numba")
        yield batches

    with pytest.raises(HoldstrueError, match=r"the Python of Spark's workers has no 'numba'"), runner.about("a test"):
        list(runner.run([(None, lacks)], [], 1))


def test_causes() -> None:
    other = cause_of("AttributeError: Can't get attribute 'new' on <module 'holdstrue.spark.jobs' from 'x'>")
    assert other is not None and "another version of holdstrue" in other.message
    other = cause_of("ModuleNotFoundError: No module named 'holdstrue.spark.jobs'\n")
    assert other is not None and "another version of holdstrue" in other.message
    missing = cause_of("ModuleNotFoundError: No module named 'holdstrue'\n")
    assert missing is not None and missing.message == "the Python of Spark's workers has no 'holdstrue'"
    own = cause_of("Traceback\nholdstrue.errors.DataError: bad\nhint: mend it\n SQLSTATE: 38000 \n\tat x")
    assert isinstance(own, DataError) and (own.message, own.hint) == ("bad", "mend it")
    with pytest.raises(HoldstrueError, match=r"this worker has holdstrue .*, and the driver 0\.0"):
        require_version("0.0")


def test_an_old_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("3.5.1", "4.1.0"):
        monkeypatch.setattr(pyspark, "__version__", version)
        with pytest.raises(HoldstrueError, match=f"PySpark {version} is too old: holdstrue needs 4.2 or newer"):
            require_pyspark()
    monkeypatch.setattr(pyspark, "__version__", "4.2.0.dev1")
    require_pyspark()
