"""A batch of changes to a data frame: which rows go, which come, and the table after it, without any of them here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.data.changes import OP_NAMES
from holdstrue.errors import ChangeError
from holdstrue.spark.discovering.bounded_jobs import ANSWER, most_bytes
from holdstrue.spark.named import named_frames
from holdstrue.spark.runner import SparkRunner, column, quoted

KEY_BYTES = 64
"""Bytes that a row of a batch is taken for where it is sent to every task. Chosen, not tuned."""

_OP, _NET = ":op", ":net"


@dataclass(frozen=True)
class FrameBatch:
    """What a batch does to one data frame. Rows that go and come are kept on the executors, the table is a plan."""

    removed: DataFrame
    added: DataFrame
    after: DataFrame
    gone: int
    come: int


def resolved(
    runner: SparkRunner, table: str, frame: DataFrame, key: Sequence[str], changes: Any, op_column: str | None
) -> FrameBatch:
    """Which rows of a data frame go and which come; what does not fit is refused before anything changes.

    Rows are whole. `op_column` says insert, update, delete or upsert of each, without it all are inserts. A batch has
    no order on Spark, so that it may say one thing of a key only. Without a key rows come and go by all their values.
    Complexity: one scan of the table that looks for rows of the batch.
    """
    given = _operations(runner, table, frame, changes, op_column)
    with runner.about("a batch is read"):
        return _by_key(runner, table, frame, key, given) if key else _by_value(runner, table, frame, given)


def _operations(
    runner: SparkRunner, table: str, frame: DataFrame, changes: Any, op_column: str | None
) -> DataFrame:  # fmt: skip
    arrow = isinstance(changes, pa.Table)
    given = runner.spark.createDataFrame(changes) if arrow else named_frames(changes, runner.spark)
    for name in [*frame.columns, *([op_column] if op_column else [])]:
        if name not in given.columns:
            raise ChangeError(f"the changes have no column {name!r}", hint="rows of a batch are whole")
    for field in frame.schema:
        if field.dataType.simpleString().startswith("time("):
            raise ChangeError(
                f"column {field.name!r} holds times of day, whose rows Spark does not keep between jobs",
                hint="leave it out with columns=, or write it as text",
            )
        kind = given.schema[field.name].dataType
        if kind != field.dataType:
            raise ChangeError(
                f"column {field.name!r} holds {kind.simpleString()} values in the changes, "
                f"{field.dataType.simpleString()} in the table",
                hint="cast the column to the type it has in the table",
            )
    op = F.lower(F.trim(column(op_column).cast("string"))) if op_column else F.lit("insert")
    # read once: a source that gives other rows the second time would come to two batches
    return given.select(*(column(name) for name in frame.columns), op.alias(_OP)).localCheckpoint()


def _by_key(runner: SparkRunner, table: str, frame: DataFrame, key: Sequence[str], given: DataFrame) -> FrameBatch:
    names = list(dict.fromkeys(key))
    marked = [quoted(f":key {at}") for at in range(len(names))]
    said = given.groupBy(*(column(n).alias(f":key {at}") for at, n in enumerate(names))).agg(
        F.count(F.lit(1)).alias(":times"), F.min(column(_OP)).alias(":said")
    )
    said = said.localCheckpoint()
    rows = given.count()
    met = frame.join(_sent(runner, said, rows), _same(names, marked), "left_semi").localCheckpoint()
    there = met.groupBy(*(column(n).alias(f":there {at}") for at, n in enumerate(names))).agg(F.lit(1).alias(":met"))
    both = said.join(there, _same([f":key {at}" for at in range(len(names))], _there(names)), "left")
    known = ", ".join(f"'{name}'" for name in OP_NAMES)
    wrong = both.where(
        f"`:times` > 1 or coalesce(`:said` not in ({known}), true) or (`:said` = 'insert' and `:met` is not null) "
        "or (`:said` in ('update', 'delete') and `:met` is null)"
    )
    for one in wrong.limit(1).collect():
        _refuse(table, names, one.asDict())
    stays = frame.join(_sent(runner, said, rows), _same(names, marked), "left_anti")
    added = given.where(column(_OP) != "delete").drop(_OP)
    return FrameBatch(met, added, stays.unionByName(added), met.count(), added.count())


def _there(names: Sequence[str]) -> list[str]:
    return [quoted(f":there {at}") for at in range(len(names))]


def _refuse(table: str, names: Sequence[str], one: dict[str, Any]) -> None:
    said = ", ".join(f"{name}={one[f':key {at}']!r}" for at, name in enumerate(names))
    if one[":times"] > 1:
        raise ChangeError(
            f"a batch says {one[':times']} things of the row {said} of table {table!r}",
            hint="a batch on Spark has no order: keep the last change of each row, or apply several batches",
        )
    if one[":said"] not in OP_NAMES:
        raise ChangeError(f"unknown operation {one[':said']!r} of the row {said}", hint=", ".join(OP_NAMES))
    there = "is there already" if one[":met"] else "is not there"
    raise ChangeError(f"{one[':said']} of a row that {there}: {said} in table {table!r}", hint="or use upsert")


def _by_value(runner: SparkRunner, table: str, frame: DataFrame, given: DataFrame) -> FrameBatch:
    names = frame.columns
    for one in given.where("coalesce(`:op` not in ('insert', 'delete'), true)").limit(1).collect():
        raise ChangeError(
            f"an {one[_OP]} of table {table!r}, which has no key", hint="name the key when rules are discovered: key="
        )
    values = [column(name) for name in names]
    net = given.groupBy(*values).agg(F.expr("sum(if(`:op` = 'insert', 1, -1))").alias(_NET)).localCheckpoint()
    rows = net.count()
    added = net.where(f"`{_NET}` > 0").withColumn(_NET, F.expr(f"explode(sequence(1, `{_NET}`))")).drop(_NET)
    added = added.localCheckpoint()
    asked = net.where(f"`{_NET}` < 0").select(
        *(column(name).alias(f":key {at}") for at, name in enumerate(names)), (-column(_NET)).alias(_NET)
    )
    marked = [quoted(f":key {at}") for at in range(len(names))]
    sent, match = _sent(runner, asked, rows), _same(names, marked)
    place = F.row_number().over(Window.partitionBy(*values).orderBy(F.lit(1)))
    met = frame.join(sent, match).select(*values, column(_NET), place.alias(":place")).localCheckpoint()
    removed = met.where(f"`:place` <= `{_NET}`").select(*values)
    wanted = asked.agg(F.sum(column(_NET))).collect()[0][0] or 0
    gone = removed.count()
    if gone < wanted:
        raise ChangeError(
            f"{wanted - gone} rows to delete are not in table {table!r}",
            hint="a row without a key is deleted by giving all its values",
        )
    stays = frame.join(sent, match, "left_anti").unionByName(met.where(f"`:place` > `{_NET}`").select(*values))
    return FrameBatch(removed, added, stays.unionByName(added), gone, added.count())


def _sent(runner: SparkRunner, few: DataFrame, rows: int) -> DataFrame:
    """Rows of a batch, sent to every task where the driver, through which they pass, may take them."""
    return F.broadcast(few) if rows * KEY_BYTES <= most_bytes(runner, ANSWER) else few


def _same(names: Sequence[str], others: Sequence[str]) -> list[Column]:
    # a key may be NULL
    return [column(name).eqNullSafe(F.expr(other)) for name, other in zip(names, others, strict=True)]
