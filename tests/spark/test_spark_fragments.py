"""Relations split over sites on Spark: one job a batch, the same violations and shipments as in one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from holdstrue.errors import ChangeError, HoldstrueError, StateError
from holdstrue.fragments import Relation, Site
from holdstrue.spark.fragments import relation
from unit.fragments.test_fragments_site_state import FIRST, RULES, SECOND, split, state_of, told, wanted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def on_spark(spark: SparkSession, sites: list[Site]) -> list[Site]:
    return [replace(site, source=spark.createDataFrame(site.source)) for site in sites]


@contextmanager
def counted_jobs(spark: SparkSession, allowed: int) -> Iterator[None]:
    """No more jobs than so many; through Connect nobody can count them."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        yield
        return
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    yield
    assert len(set(tracker.getJobIdsForGroup(None)) - before) <= allowed


@pytest.mark.parametrize(("shape", "parts"), [("vertical", 1), ("mixed", 1), ("horizontal", 3)])
def test_spark_finds_and_ships_the_same(spark: SparkSession, shape: str, parts: int, tmp_path: Path) -> None:
    plain = Relation(split(shape, None), RULES, key="id")
    with relation(spark, on_spark(spark, split(shape, tmp_path)), RULES, key="id", parts=parts) as found:
        assert keys_of(found.check()) == keys_of(plain.check())
        loaded, wanted_delta = found.load(), plain.load()
        with counted_jobs(spark, 1):
            first = found.apply(FIRST, "one")
        assert found.apply(FIRST, "one").repeated
        for ours, theirs in ((first, plain.apply(FIRST, "one")), (loaded, wanted_delta)):
            if ours is first:
                assert keys_of(ours) == keys_of(theirs)
                with pytest.raises(StateError, match="not the last one"):
                    found._listed("load")
            if parts == 1:
                assert told(replace(ours, added={}, removed={})) == told(replace(theirs, added={}, removed={}))
        assert state_of(found) == wanted(shape, FIRST)
        assert found.counts() == plain.counts()
        changes = spark.createDataFrame(SECOND)
        assert keys_of(found.apply(changes, "two")) == keys_of(plain.apply(SECOND, "two"))
        assert {(row.rule, row.id) for row in found.violating().collect()} == {
            (rule, key) for rule, keys in state_of(plain).items() for key in keys
        }
        assert sum(size["rows"] for size in found.sizes().values()) == sum(s["rows"] for s in plain.sizes().values())
    if parts == 1:
        # what Spark wrote is opened in one process
        with Relation(split(shape, tmp_path), RULES, key="id") as opened:
            assert state_of(opened) == wanted(shape, FIRST, SECOND)
    else:
        with pytest.raises(StateError, match="cut into parts"):
            Relation(split(shape, tmp_path), RULES, key="id")


def keys_of(delta: Any) -> Any:
    found = delta.to_dict()
    return found["added"], found["removed"]


def test_a_batch_that_fails_leaves_everything_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    sites = on_spark(spark, split("mixed", tmp_path))
    with relation(spark, sites, RULES, key="id", parts=2) as found:
        found.load()
        before = state_of(found)
        with pytest.raises(ChangeError, match=r"1 row\(s\) that the batch updates or deletes do not exist"):
            found.apply(pa.table({"op": ["d"], "id": [99]}), "gone")
        with pytest.raises(ChangeError, match="which exists already"):
            found.apply(pa.table({"op": ["i"], "id": [1], "a": [1], "b": [1], "c": [1]}), "twice")
        with pytest.raises(ChangeError, match="belongs to no fragment"):
            found.apply(pa.table({"op": ["i"], "id": [9], "a": [1], "b": pa.array([None], pa.int64()), "c": [1]}), "no")
        assert state_of(found) == before
        assert not found.apply(FIRST, "one").repeated
        assert state_of(found) == wanted("mixed", FIRST)


def test_errors_of_workers_give_their_cause(spark: SparkSession, tmp_path: Path) -> None:
    def forgets(batches: Any) -> Any:
        """Whichever worker comes to run this has nothing open afterwards."""
        from holdstrue.fragments.part_pool import POOL

        POOL.empty()
        yield from batches

    sites = on_spark(spark, split("vertical", tmp_path))
    with relation(spark, sites, RULES, key="id") as found:
        found.load()
        runs = tmp_path / "c" / "runs"
        for file in runs.iterdir():
            file.write_bytes(file.read_bytes()[:-9] + b"something")
        found.close()
    with relation(spark, sites, RULES, key="id") as found, pytest.raises(StateError, match="checksum") as told_of:
        found._runner.spark.range(4).mapInArrow(forgets, "id long").collect()
        found.apply(FIRST, "one")
    assert str(tmp_path / "c") in told_of.value.message and "\n" not in told_of.value.message


def test_a_site_needs_a_data_frame_and_a_state(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(HoldstrueError, match="no state directory"):
        relation(spark, [Site("s", source=spark.range(1))], ["id -> a"], key="id")
    with pytest.raises(HoldstrueError, match="no data frame"):
        relation(spark, [Site("s", source=pa.table({"id": [1]}), state=tmp_path)], ["id -> a"], key="id")
    frame = spark.createDataFrame([(1, 2)], "id long, a long")
    with pytest.raises(HoldstrueError, match="cannot be cut into 0 parts"):
        relation(spark, [Site("s", source=frame, state=tmp_path)], ["id -> a"], key="id", parts=0)
