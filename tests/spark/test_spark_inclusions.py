"""Inclusions kept on Spark are those that one process finds from scratch, after every batch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from holdstrue import HoldstrueError
from holdstrue.discovery.inclusions.durable import DurableInclusions
from holdstrue.discovery.inclusions.unary import UnaryInclusions
from holdstrue.spark import Inclusions
from spark.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMAS = {
    "r": pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.int64()}),
    "q": pa.schema({"x": pa.string(), "y": pa.int64()}),
}
Rows = dict[str, list[dict[str, Any]]]


def some_row(draw: random.Random, table: str) -> dict[str, Any]:
    values = {name: draw.choice([None, 1, 2, 3, 4]) for name in SCHEMAS[table].names}
    return {n: v if v is None or SCHEMAS[table].field(n).type == pa.int64() else f"é{v}" for n, v in values.items()}


def tables(rows: Rows) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(rows[name], schema=schema) for name, schema in SCHEMAS.items()}


def bodies(found: Any) -> set[Any]:
    return {(rule.body, rule.values, rule.missing) for rule in found}


@pytest.mark.parametrize("seed", range(2))
def test_as_in_one_process(spark: SparkSession, place: str, seed: int) -> None:
    draw = random.Random(seed)
    rows: Rows = {name: [some_row(draw, name) for _ in range(draw.randrange(7))] for name in SCHEMAS}
    frames = {name: frame(spark, table) for name, table in tables(rows).items()}
    kept = Inclusions.create(place, frames, shards=4)
    assert bodies(kept.rules(1.0)) == bodies(UnaryInclusions.load(tables(rows)).rules(1.0))
    for step in range(4):
        before = {body for body, _, missing in bodies(kept.rules()) if not missing}
        changes = {}
        for name in draw.sample(list(SCHEMAS), draw.randrange(1, 3)):
            gone = draw.sample(rows[name], draw.randrange(min(3, len(rows[name])) + 1))
            new = [some_row(draw, name) for _ in range(draw.randrange(4))]
            for row in gone:
                rows[name].remove(row)
            rows[name] += new
            said = [r | {"op": "delete"} for r in gone] + [r | {"op": "insert"} for r in new]
            schema = SCHEMAS[name].append(pa.field("op", pa.string()))
            changes[name] = frame(spark, pa.Table.from_pylist(said, schema=schema))
        turnover = kept.apply(changes, f"b{step}", op_column="op")
        expected = bodies(UnaryInclusions.load(tables(rows)).rules(1.0))
        assert bodies(kept.rules(1.0)) == expected
        after = {body for body, _, missing in expected if not missing}
        assert ({died.body for died in turnover.died}, set(turnover.born)) == (before - after, after - before)
        assert kept.apply(changes, f"b{step}", op_column="op").born == ()
    with DurableInclusions.open(place, read_only=True) as one:
        assert bodies(one.core.rules(1.0)) == bodies(kept.rules(1.0))


def test_rows_that_are_not_there_cannot_go(spark: SparkSession, tmp_path: Path) -> None:
    rows: Rows = {"r": [{"a": 1, "b": "x", "c": 2}], "q": []}
    frames = {name: frame(spark, table) for name, table in tables(rows).items()}
    kept = Inclusions.create(tmp_path / "state", frames, shards=4)
    before = bodies(kept.rules(1.0))
    gone = spark.createDataFrame(pa.table({"a": [7], "b": ["x"], "c": [2], "op": ["delete"]}))
    with pytest.raises(HoldstrueError, match=r"more often than it is in r\.a"):
        kept.apply({"r": gone}, op_column="op")
    assert bodies(kept.rules(1.0)) == before
