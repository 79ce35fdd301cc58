"""Types on Spark: every two types that Spark has and that compare, from Spark's frames to the oracle's violations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import oracle
from holdstrue import HoldstrueError
from holdstrue.spark.checking import check
from laws.typed import KINDS, Column, Kind, compare, may_refuse_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("by_cluster", "interpreted")

TYPES = (
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(),
    pa.decimal128(12, 2), pa.decimal128(38, 18), pa.decimal128(38, 0), pa.timestamp("us"), pa.timestamp("us", "UTC"),
    pa.duration("us"), pa.string(), pa.binary(),
)  # fmt: skip
OWN = tuple(kind for kind in KINDS if kind.type in TYPES)
PAIRS = [
    (pa.int64(), pa.float64()),
    (pa.float32(), pa.int8()),
    (pa.int32(), pa.decimal128(12, 2)),
    (pa.int64(), pa.decimal128(38, 0)),
    (pa.int64(), pa.decimal128(38, 18)),
    (pa.decimal128(12, 2), pa.decimal128(38, 18)),
]


def kind_of(data_type: pa.DataType) -> Kind:
    return next(kind for kind in KINDS if kind.type == data_type)


def test_each_type_with_itself(spark: SparkSession) -> None:
    """All types in one table: keys, FDs, orders and comparisons within a row and across rows."""
    assert len(OWN) == len(TYPES)
    rows = max(len(kind.raws) for kind in OWN)
    columns = {f"c{i}": Column(kind, ([*kind.raws, None] * rows)[:rows], "plain") for i, kind in enumerate(OWN)}
    table = pa.table({"id": pa.array(range(rows), pa.int64()), **{name: c.arrow() for name, c in columns.items()}})
    rules, bodies = [], {}
    for name, column in columns.items():
        ordered = column.kind.family not in ("text", "bytes")
        for text, body in (
            (f"key({name})", ("key", [name])),
            (f"{name} -> id", ("fd", [name], ["id"])),
            (f"not(t.{name} < s.{name} and t.id > s.id)", ("dc", [
                (("t", name), "<", ("s", name)), (("t", "id"), ">", ("s", "id"))])),
        )[: 3 if ordered else 2]:  # fmt: skip
            rules.append({"name": text, "rule": text})
            bodies[text] = body
    meant = [{"id": i, **{name: c.meanings[i] for name, c in columns.items()}} for i in range(rows)]
    report = check(spark.createDataFrame(table), rules, key="id", limit=None)
    for result in report.results:
        truth = oracle.violations(bodies[result.rule.name], meant)
        assert result.counts.open == len(truth), result.rule.name
        got = {(v.t, v.s) for v in report.listed() if v.rule == result.rule.name}
        assert got == truth, result.rule.name


@pytest.mark.parametrize(("left", "right"), PAIRS, ids=str)
def test_types_with_each_other(spark: SparkSession, left: pa.DataType, right: pa.DataType) -> None:
    one, two = kind_of(left), kind_of(right)
    assert compare(one, two)
    rows = max(len(one.raws), len(two.raws)) + 1
    x, y = (Column(kind, [*kind.raws, None, *kind.raws, *kind.raws][:rows], "plain") for kind in (one, two))
    table = pa.table({"id": pa.array(range(rows), pa.int64()), "x": x.arrow(), "y": y.arrow()})
    frame = spark.createDataFrame(table)
    meant = [{"id": i, "x": a, "y": b} for i, (a, b) in enumerate(zip(x.meanings, y.meanings, strict=True))]
    rules = {
        f"not(t.x {op} {side}.y)": ("dc", [(("t", "x"), op, (side, "y"))]) for op in ("=", "<") for side in ("t", "s")
    }
    # of all at once, unless the order of rows with each other is refused
    asked = [[*rules]]
    if may_refuse_values(one, two):
        asked = [[text] for text in rules if text == "not(t.x < s.y)"] + [[t for t in rules if t != "not(t.x < s.y)"]]
    for texts in asked:
        try:
            report = check(frame, texts, key="id", limit=None)
        except HoldstrueError:
            assert texts == ["not(t.x < s.y)"] and may_refuse_values(one, two)
            continue
        for text in texts:
            truth = oracle.violations(rules[text], meant)
            found = {(v.t,) if v.s is None else (v.t, v.s) for v in report.listed() if v.rule == text}
            assert found == truth, text
