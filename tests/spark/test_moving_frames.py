"""Rows that change places on Spark, tables without keys, grids of any size: the answers of one process and the oracle.

`tests/laws/test_moving_rows.py` draws far more of this without Spark.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812

import holdstrue
from holdstrue import RuleSet, load_rules
from holdstrue.shards import hot
from holdstrue.spark import Monitor
from holdstrue.spark.checking import check
from laws import moving
from laws.moving import World
from laws.test_detection import assert_counts, found, nonempty
from laws.test_moving_rows import LIMITS, assert_delta, assert_listed, lines
from spark.frames import frame, listed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = settings(
    max_examples=settings().max_examples // 20,
    phases=(Phase.explicit, Phase.generate),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
OPS: dict[str, Any] = {"op_column": "_op", "feed": "ops"}


@pytest.fixture(autouse=True, scope="module")
def _small_is_hot() -> Iterator[None]:
    """Values that occur twice are hot, so that grids are tried on small tables."""
    with mock.patch.object(hot, "SEEN_AT_LEAST", 2):
        yield


def table(names: str, *rows: tuple[Any, ...]) -> pa.Table:
    """Rows as a table."""
    return pa.table(dict(zip(names.split(), map(list, zip(*rows)))))


def test_a_violation_that_only_moves(spark: SparkSession, tmp_path: Path) -> None:
    """A row that refers elsewhere and stays as one who provides; two rows that meet in both of their buckets."""
    rules = ["emp.boss in emp.id", "not(t.a = s.b)"]
    first = table("id boss a b", (1, 103, 2, 1), (2, 1, 0, 2))
    changes = table("id boss a b _op", (1, 200, 1, 5, "update"), (2, 1, 2, 1, "update"))
    ruleset = RuleSet(load_rules(rules).rules, table="emp")
    monitor = Monitor(spark, tmp_path / "state", ruleset, key="id", data=frame(spark, first))
    delta = monitor.apply(frame(spark, changes, 1), **OPS)
    assert [(step.added, step.removed, step.open) for step in delta.counts.values()] == [(0, 0, 1), (0, 0, 1)]
    assert (delta.added, delta.removed) == ((), ())
    assert [(line.added, line.removed, line.open) for line in monitor.history()[-2:]] == [(0, 0, 1), (0, 0, 1)]
    assert found(listed(monitor.violations())) == {rules[0]: {(1,)}, rules[1]: {(1, 2)}}
    assert listed(monitor.delta()) == []


WIDE = ["a -> d", "a, b -> c"]


def wide_rows() -> pa.Table:
    """One group of the first rule, a hundred of the second."""
    numbers = range(400)
    return pa.table({"id": numbers, "a": [1] * 400, "b": [i % 100 for i in numbers], "c": numbers, "d": numbers})


def test_groups_of_a_rule_wider_than_its_route(spark: SparkSession, tmp_path: Path) -> None:
    rows = wide_rows()
    one = holdstrue.check(rows, WIDE, key="id")
    assert [result.counts.groups for result in one.results] == [1, 100]
    options: dict[str, Any] = {"key": "id", "blocks": 3, "hot_from": 1, "tasks": 2}
    report = check(frame(spark, rows, 150), WIDE, limit=0, **options)
    assert [result.counts for result in report.results] == [result.counts for result in one.results]
    monitor = Monitor(spark, tmp_path / "state", WIDE, data=frame(spark, rows, 150), **options)
    assert list(monitor.counts().values()) == [result.counts for result in one.results]


@pytest.mark.parametrize(
    ("blocks", "key"),
    [(2, "id"), (3, None), (1, None), (2, None), (4, "id")],
)
def test_every_number_of_blocks_with_and_without_a_key(spark: SparkSession, blocks: int, key: str | None) -> None:
    """Pairs inside a block and across blocks, in two tables that are sampled for hot values."""
    rules = [*WIDE, "not(t.a = s.b)", "data.b in other.b"]
    rows, other = wide_rows().slice(0, 120), pa.table({"b": range(60)})
    one = holdstrue.check(rows, rules, key="id", tables={"other": other}, limit=None)
    frames = {"data": frame(spark, rows, 50), "other": frame(spark, other)}
    report = check(frames, rules, key=key, blocks=blocks, hot_from=1, tasks=2, limit=5)
    assert [result.counts for result in report.results] == [result.counts for result in one.results]
    # without a key a row is named by its partition and its place in it
    named = frames["data"].select("id", (F.monotonically_increasing_id() if key is None else F.col("id")).alias("name"))
    name = {row["name"]: row["id"] for row in named.toArrow().to_pylist()}
    every = listed(report.violations())
    assert found(replace(v, t=name[v.t], s=name[v.s] if v.pair else None) for v in every) == found(one)
    assert len(list(report.listed())) == 5


# --- the laws, drawn -----------------------------------------------------------------------------


def cut(data: st.DataObject, spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A table as a data frame cut in two somewhere."""
    return frame(spark, rows, data.draw(st.integers(0, rows.num_rows)))


def shape(data: st.DataObject) -> dict[str, Any]:
    """How the work is cut."""
    sizes = {"shards": [2, 1, 3], "blocks": [3, 1, 2, 4], "tasks": [2, 3, 1]}
    return {name: data.draw(st.sampled_from(some)) for name, some in sizes.items()} | {"hot_from": 0}


@pytest.mark.parametrize("kind", [*moving.KINDS, "mixed"])
@SETTINGS
@given(data=st.data())
def test_rows_keep_changing_places(spark: SparkSession, kind: str, data: st.DataObject) -> None:
    world = World(data.draw(moving.rules(kind)), data.draw(moving.values()))
    with tempfile.TemporaryDirectory() as folder:
        monitor = Monitor(spark, Path(folder) / "state", world.rules, key=world.keys, **shape(data))
        one = holdstrue.Monitor(world.rules, key=world.keys)
        truth = world.truth()
        batch: moving.Batch = {
            name: [("insert", data.draw(world.row(name, key))) for key in range(data.draw(moving.sizes))]
            for name in world.used
        }
        for _ in range(data.draw(st.integers(2, 3))):
            limit = data.draw(LIMITS)
            changes = {name: moving.as_table(name, part) for name, part in batch.items()}
            world.apply(batch)
            before, truth = truth, world.truth()
            one.apply(changes, limit=0, **OPS)
            parts = {name: cut(data, spark, rows) for name, rows in changes.items()}
            delta = monitor.apply(parts, limit=limit, one_task=data.draw(st.booleans()), **OPS)
            assert_delta(delta, before, truth, limit)
            batch = data.draw(moving.batches(world))
        assert monitor.counts() == one.counts()
        assert lines(monitor) == lines(one)
        assert found(listed(monitor.violations())) == nonempty(truth)


@pytest.mark.parametrize("kind", [*moving.KINDS, "mixed"])
@SETTINGS
@given(data=st.data())
def test_a_check_of_tables_with_and_without_keys(spark: SparkSession, kind: str, data: st.DataObject) -> None:
    world = World(data.draw(moving.rules(kind)), data.draw(moving.values()))
    for name in world.used:
        keys = range(data.draw(moving.sizes))
        world.tables[name] = {key: data.draw(world.row(name, key)) for key in keys}
    tables = {
        name: pa.Table.from_pylist(list(world.tables[name].values()), schema=moving.SCHEMAS[name])
        for name in world.used
    }
    frames = {name: cut(data, spark, rows) for name, rows in tables.items()}
    key, limit = data.draw(st.sampled_from(["id", None])), data.draw(LIMITS)
    one = holdstrue.check(tables["emp"], world.rules, key=key, tables=tables)
    report = check(frames, world.rules, key=key, limit=limit, **shape(data))
    assert [result.counts for result in report.results] == [result.counts for result in one.results]
    truth = world.truth()
    assert_counts({result.rule.name: result.counts for result in report.results}, truth)
    every = listed(report.violations())
    assert len(every) == sum(map(len, truth.values()))
    if key is not None and not any(rule.text.startswith("dep.") for rule in world.rules):
        assert found(every) == nonempty(truth)
        assert_listed(report.listed(), truth, limit)
