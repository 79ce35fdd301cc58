"""`format("holdstrue")`: what a state has, read by Spark's own readers, once and as a stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.cli.any_state import vacuum
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.sharded import Sharded
from holdstrue.spark import register
from holdstrue.spark.state_source import StateSource
from laws.shards import Loops
from spark.conftest import MODE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = ["zip -> city", "not(t.n < 0)"]
SCHEMA = pa.schema({"op": pa.string(), "id": pa.int64(), "zip": pa.string(), "city": pa.string(), "n": pa.int64()})
FIRST = [("insert", 1, "a", "x", 1), ("insert", 2, "a", "y", 1), ("insert", 3, "b", "z", -1)]
SECOND = [("update", 2, "a", "x", 1), ("insert", 4, "b", "q", 0)]
BEFORE = [("not(t.n < 0)", False, 3, None), ("zip -> city", True, 1, 2)]
AFTER = [("not(t.n < 0)", False, 3, None), ("zip -> city", True, 3, 4)]


def batch(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def in_order(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows)


def read(path: Path, **options: Any) -> list[tuple[Any, ...]]:
    """What tasks would read, here one after the other."""
    source = StateSource({"path": str(path), **{name: str(value) for name, value in options.items()}})
    names = source.schema().names
    reader = source.reader(source.schema())
    found: list[Any] = [part for partition in reader.partitions() for part in reader.read(partition)]
    assert all(part.schema.names == names for part in found)
    return in_order([row for part in found for row in part.to_pylist()])


@pytest.fixture(params=["here", "apart"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A state of two batches, in one piece and in shards, whose versions are kept."""
    path = tmp_path / "state"
    monitor: Any = (
        holdstrue.Monitor.create(path, RULES, "id") if request.param == "here" else Sharded(Loops(2), path, RULES, "id")
    )
    monitor.close()
    vacuum(str(path), 86_400)
    monitor = holdstrue.Monitor.open(path) if request.param == "here" else monitor
    for name, rows in (("first", FIRST), ("second", SECOND)):
        monitor.apply(batch(rows) if request.param == "here" else [batch(rows)], name)
    monitor.close()
    return path


def newest(path: Path) -> int:
    with holdstrue.Monitor.open(path, read_only=True) as monitor:
        assert monitor.moment is not None
        return monitor.moment.version


def test_what_a_state_has(state: Path) -> None:
    last = newest(state)
    assert read(state) == read(state, tasks=1) == AFTER
    assert read(state, rule="zip -> city") == AFTER[1:]
    assert read(state, at=last - 1) == BEFORE
    wanted = [(last, "zip -> city", -1, True, 1, 2), (last, "zip -> city", 1, True, 3, 4)]
    assert read(state, what="deltas", since=last - 1) == wanted
    assert read(state, what="deltas", since=last) == []
    assert [row[:2] + row[-1:] for row in read(state, what="counts")] == [
        ("not(t.n < 0)", "error", 1), ("zip -> city", "error", 1),
    ]  # fmt: skip
    told = read(state, what="history", rule="zip -> city")
    assert [(row[0], *row[3:]) for row in told] == [("first", 1, 0, 1), ("second", 1, 1, 1)]


@pytest.mark.skipif(MODE == "standalone", reason="the state lies in a folder that workers need not share")
@pytest.mark.parametrize("state", ["apart"], indirect=True)
def test_spark_reads_and_follows_it(spark: SparkSession, state: Path, tmp_path: Path) -> None:
    register(spark)
    first = newest(state) - 1
    rows = spark.read.format("holdstrue").option("rule", "zip -> city").load(str(state)).collect()
    assert [tuple(row) for row in rows] == AFTER[1:]
    stream = spark.readStream.format("holdstrue").option("what", "deltas").option("since", str(first)).load(str(state))
    writing = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    with holdstrue.Monitor.open(state) as here:
        here.apply(batch([("delete", 3, None, None, None)]), "third")
    writing.start(str(tmp_path / "out"), format="parquet").awaitTermination()
    followed = in_order([row.asDict() for row in spark.read.parquet(str(tmp_path / "out")).collect()])
    assert followed == [
        (first + 1, "zip -> city", -1, True, 1, 2), (first + 1, "zip -> city", 1, True, 3, 4),
        (first + 2, "not(t.n < 0)", -1, False, 3, None), (first + 2, "zip -> city", -1, True, 3, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"what": "rows"}, "what is 'rows'"),
        ({"rule": "nothing"}, "nothing"),
        ({"colour": "red"}, "has no option 'colour'"),
        ({"what": "deltas"}, "since= is missing"),
        ({"since": "1"}, "since is about deltas"),
        ({"tasks": "x"}, "tasks is 'x'"),
        ({"tasks": "0"}, "tasks is '0'"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict[str, str], said: str) -> None:
    path = tmp_path / "state"
    holdstrue.Monitor.create(path, RULES, "id", data=batch(FIRST).drop_columns("op")).close()
    with pytest.raises(HoldstrueError, match=said):
        read(path, **options)
