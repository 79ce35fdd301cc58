"""Rules of tables that stay on Spark, kept current: after every batch those that one process finds in the rows."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdstrue import discover
from holdstrue import spark as on_spark
from holdstrue.discovery.dependencies import search
from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.spark.discovering import frame_kinds, left_side_jobs
from spark.frames import frame
from spark.test_spark_discover_large import NOWHERE, orders, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ["id", "zip", "city", "pay", "tax", "sum"]


def batch_of(draw: random.Random, table: pa.Table, fresh: int, keyed: bool) -> tuple[pa.Table, pa.Table]:
    """Rows that come, go and change, with what is done to each; and the table after them."""
    gone = sorted(draw.sample(range(table.num_rows), 9))
    changed = gone[6:] if keyed else []
    stay = [at for at in range(table.num_rows) if at not in gone]
    come = orders(fresh + 200, seed=fresh).select(table.column_names).slice(fresh, 4 if keyed else 2)
    other = orders(len(changed), seed=fresh + 1).select(table.column_names)
    if "id" in table.column_names:
        other = other.set_column(0, "id", table.column("id").take(changed).combine_chunks())
    deleted = table.take([at for at in gone if at not in changed])
    parts = [(deleted, "delete"), (come, "insert"), (other, "update")]
    ops = pa.chunked_array([pa.array([op] * part.num_rows, pa.string()) for part, op in parts])
    changes = pa.concat_tables([part.cast(table.schema) for part, _ in parts]).append_column("op", ops)
    return changes, pa.concat_tables([table.take(stay), *(part.cast(table.schema) for part in (come, other))])


@pytest.mark.parametrize(("nulls", "keyed"), [("equal", True), ("unknown", False)], ids=["keyed", "by value"])
def test_keys_and_fds_kept_are_those_of_one_process(
    spark: SparkSession, nulls: str, keyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_kinds, "FOLDED", 2)
    if not keyed:
        # a job has few left sides, all groups are counted, and tests come in small rounds
        monkeypatch.setattr(left_side_jobs, "SIDES", 5)
        monkeypatch.setattr(left_side_jobs, "SENT", 1 << 30)
        monkeypatch.setattr(search, "FIRST_ROUND", 4)
    draw = random.Random(7)
    table = orders(60).select(COLUMNS if keyed else COLUMNS[1:])
    asked: dict[str, Any] = {"kinds": ("fd", "key"), "max_predicates": 4, "budget": None, "nulls": nulls}
    key = "id" if keyed else None
    found = on_spark.discover(frame(spark, table, 20), whole=NOWHERE, sample=8, key=key, **asked)
    here = discover(table, key=key, **asked)
    for step in range(3):
        changes, table = batch_of(draw, table, 100 * (step + 1), keyed)
        turnover = found.apply(frame(spark, changes), op_column="op", batch_id=f"b{step}")
        expected = here.apply(changes, op_column="op")
        assert told(found) == told(here) == told(discover(table, key=key, **asked))
        assert {(one.text, one.why) for one in turnover.died} == {(one.text, one.why) for one in expected.died}
        assert {one.text for one in turnover.born} == {one.text for one in expected.born}
    assert found.apply(frame(spark, changes), op_column="op", batch_id="b2").duplicate


def test_rules_break_and_mend(spark: SparkSession) -> None:
    table = pa.table({"id": [*range(40)], "zip": [at % 8 for at in range(40)], "city": [at % 4 for at in range(40)]})
    found = on_spark.discover(frame(spark, table), kinds=("fd", "key"), whole=NOWHERE, sample=4, key="id")
    assert "zip -> city" in [rule.text for rule in found]
    wrong = pa.table({"id": [99], "zip": [1], "city": [3]})
    assert [(one.text, one.why) for one in found.apply(wrong).died] == [("zip -> city", "broken")]
    mended = found.apply(wrong.append_column("op", pa.array(["delete"])), op_column="op")
    assert "zip -> city" in [one.text for one in mended.born]
    assert found.counts() == {"data": 40}
    every = table.append_column("op", pa.array(["delete"] * 40))
    found.apply(every, op_column="op")
    assert told(found) == told(discover(table.slice(0, 0), kinds=("fd", "key"), key="id"))


@pytest.mark.parametrize("kinds", [("cfd", "fd"), ("dc",), ("column", "key"), ("ind",)], ids=str)
def test_other_kinds_are_searched_anew(spark: SparkSession, kinds: tuple[str, ...]) -> None:
    table = orders(80).select(["id", "zip", "city", "pay"])
    more = orders(100, seed=5).select(table.column_names).slice(80)
    asked: dict[str, Any] = {"kinds": kinds, "max_predicates": 3, "budget": None}
    found = on_spark.discover(frame(spark, table, 20), whole=NOWHERE, sample=8, key="id", **asked)
    found.apply(more)
    here = discover(pa.concat_tables([table, more]), key="id", **asked)
    # measures of denial constraints are those of a sample
    assert sorted(rule.text for rule in found) == sorted(rule.text for rule in here)
    if "dc" not in kinds:
        assert told(found) == told(here)


def test_what_does_not_fit_is_refused_and_changes_nothing(spark: SparkSession) -> None:
    table = orders(20).select(["id", "zip", "pay"])
    found = on_spark.discover(frame(spark, table), kinds="fd", whole=NOWHERE, key="id")
    before = told(found)

    def said(op: str, rows: pa.Table) -> pa.Table:
        return rows.append_column("op", pa.array([op] * rows.num_rows))

    new = table.slice(0, 1).set_column(0, "id", pa.array([99]))
    refused = [
        (said("insert", table.slice(3, 1)), "is there already: id=3"),
        (said("delete", new), "is not there: id=99"),
        (said("update", pa.concat_tables([table.slice(3, 1)] * 2)), "says 2 things of the row id=3"),
        (said("merge", new), "unknown operation 'merge'"),
        (said("insert", new).drop_columns(["pay"]), "no column 'pay'"),
        (said("insert", new.set_column(0, "id", pc.cast(new["id"], pa.string()))), "'id' holds string values"),
    ]
    for changes, why in refused:
        with pytest.raises(ChangeError, match=why):
            found.apply(changes, op_column="op")
    with pytest.raises(HoldstrueError, match="no table 'other'"):
        found.apply({"other": new})
    assert told(found) == before
    timed = on_spark.discover(frame(spark, orders(9).select(["id", "at"])), kinds="fd", whole=NOWHERE)
    with pytest.raises(ChangeError, match="times of day"):
        timed.apply(orders(1).select(["id", "at"]))
    bare = on_spark.discover(frame(spark, table), kinds="fd", whole=NOWHERE)
    with pytest.raises(ChangeError, match="1 rows to delete are not in"):
        bare.apply(said("delete", new), op_column="op")
    with pytest.raises(ChangeError, match="an update of table 'data', which has no key"):
        bare.apply(said("update", new), op_column="op")
