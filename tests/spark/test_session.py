"""The session, its workers and its servers: what every other Spark test stands on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from database import Postgres
from holdstrue.errors import HoldstrueError
from holdstrue.spark import session as sessions
from spark.conftest import MODE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_function_sees_every_row(spark: SparkSession) -> None:
    def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        for batch in batches:
            yield pa.RecordBatch.from_arrays([pc.multiply(batch.column("id"), 2)], names=["id"])

    answer = spark.range(1000).repartition(2).mapInArrow(doubled, "id long").toArrow()
    assert sorted(answer.column("id").to_pylist()) == [2 * i for i in range(1000)]


def test_workers_are_forked_with_everything_loaded_and_used_again(spark: SparkSession) -> None:
    def witness(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # read before anything of holdstrue is imported here
        loaded = "holdstrue.detect.engine" in sys.modules
        from holdstrue.kernels.hashing import find

        compiled = len(getattr(find, "signatures", ()))
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict(
            {"pid": [os.getpid()], "daemon": [os.getppid()], "loaded": [loaded], "compiled": [compiled]}
        )

    def run() -> list[dict[str, int]]:
        frame = (
            spark.range(8).repartition(2).mapInArrow(witness, "pid long, daemon long, loaded boolean, compiled long")
        )
        rows: list[dict[str, int]] = frame.toArrow().to_pylist()
        return rows

    seen = [row for _ in range(5) for row in run()]
    assert all(row["loaded"] and row["compiled"] for row in seen)
    assert len({row["daemon"] for row in seen}) <= (2 if MODE == "standalone" else 1), "one an executor"
    # which of the idle ones takes a task is Spark's choice
    assert len({row["pid"] for row in seen}) < len(seen)


def test_a_monitor_works_in_a_worker(spark: SparkSession) -> None:
    def judged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from holdstrue import Monitor

        monitor = Monitor(["n -> x", "not(t.n = s.n and t.x < s.x)"], key="id")
        delta = monitor.apply(pa.Table.from_batches(list(batches)), limit=0)
        yield pa.RecordBatch.from_pydict({"open": [step.open for step in delta.counts.values()]})

    rows = spark.range(10_000).selectExpr("id", "id div 2 as n", "id as x").coalesce(1)
    assert rows.mapInArrow(judged, "open long").toArrow().column("open").to_pylist() == [5000, 5000]


@pytest.mark.parametrize("wrong", [pa.schema([("id", pa.int32())]), pa.schema([("other", pa.int64())])])
def test_a_batch_that_is_not_as_declared_is_refused(spark: SparkSession, wrong: pa.Schema) -> None:
    def renamed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch.column(0).cast(wrong.field(0).type)], schema=wrong)

    with pytest.raises(Exception, match="ARROW_TYPE_MISMATCH"):
        spark.range(3).mapInArrow(renamed, "id long").toArrow()


def test_reads_a_database(spark: SparkSession, postgres: Postgres) -> None:
    postgres.sql("create table people (id bigint primary key, name text); insert into people values (1, 'Ada')")
    options = {"url": postgres.url, "dbtable": "people", "user": postgres.user, "driver": postgres.driver}
    assert spark.read.format("jdbc").options(**options).load().toArrow().to_pylist() == [{"id": 1, "name": "Ada"}]


SCRIPT = """
from holdstrue.spark.session import start
spark = start("local[1]")
def same(batches):
    yield from batches
assert spark.range(5).mapInArrow(same, "id long").toArrow().num_rows == 5
def broken(batches):
    raise ValueError("on purpose")
    yield
try:
    spark.range(5).mapInArrow(broken, "id long").toArrow()
except Exception as error:
    assert "on purpose" in str(error)
else:
    raise AssertionError
spark.stop()
"""


@pytest.mark.skipif(MODE != "local", reason="starts a local session of its own")
def test_the_console_stays_clean(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir()), "Spark left something in the working directory"


def test_without_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HoldstrueError, match="there is none on the PATH") as told:
        sessions.require_java()
    assert told.value.hint is not None and "openjdk" in told.value.hint


@pytest.mark.parametrize(("version", "fits"), [("1.8.0_402", False), ("11.0", False), ("17.0.15", True), ("25", True)])
def test_the_java_of_java_home_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, fits: bool
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if fits:
        sessions.require_java()
    else:
        with pytest.raises(HoldstrueError, match="needs Java 17 or newer"):
            sessions.require_java()


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(HoldstrueError, match="does not run") as told:
        sessions.require_java()
    assert told.value.hint is not None and "JAVA_HOME" in told.value.hint


def test_without_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(HoldstrueError, match="pyspark is not installed") as told:
        sessions.start()
    assert told.value.hint == "pip install 'holdstrue[spark]'"


def test_a_connect_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(HoldstrueError, match=r"no answer from sc://127\.0\.0\.1:1") as told:
        sessions.start("sc://127.0.0.1:1")
    assert told.value.hint is not None and "Connect server" in told.value.hint


def test_the_callers_settings_come_first() -> None:
    ours = sessions.settings("local[3]")
    options = "spark.driver.extraJavaOptions"
    joined = sessions._joined(ours, {"spark.sql.shuffle.partitions": "7", options: "-Xss4m"})
    assert ours["spark.sql.shuffle.partitions"] == "3"
    assert joined["spark.sql.shuffle.partitions"] == "7"
    assert joined[options] == f"{ours[options]} -Xss4m"


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4,2]", "spark://127.0.0.1:7077", "spark://localhost:1"])
def test_what_runs_on_this_machine_stays_on_its_loopback_address(master: str) -> None:
    assert sessions.settings(master)["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["spark://head:7077", "yarn", "k8s://https://head"])
def test_a_cluster_can_reach_the_driver(master: str) -> None:
    assert "spark.driver.bindAddress" not in sessions.settings(master)
