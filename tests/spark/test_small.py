"""Small tables are fetched and checked in this process, with the answers of Catalyst and of stages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdstrue import check as check_here
from holdstrue.spark import small
from holdstrue.spark.checking import check
from laws.test_detection import found
from spark.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")

TABLE = pa.table(
    {
        "id": [1, 2, 3, 4, 4],
        "a": ["x", "x", None, "y", "y"],
        "b": [1.0, 2.0, 3.0, -0.0, 0.0],
        "ref": [7, 8, 9, 7, None],
    }
)
KEYS = pa.table({"k": [7, 8]})
RULES = ["a -> b", "key(a)", "not(t.b > 2.5)", "data.ref in keys.k", "not(t.id < s.id and t.b < s.b)", "count() = 5"]


@pytest.mark.parametrize("key", ["id", None])
def test_the_same_as_by_the_cluster(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    """Counts, lists, notes and examples, with rows named by a key that two of them share and by Spark's numbers."""
    frames = {"data": frame(spark, TABLE, 2), "keys": frame(spark, KEYS)}
    here = check(frames, RULES, key=key, limit=None)
    assert here.small is not None and "in this process: 7 rows" in here.explain()
    monkeypatch.setattr(small, "reach_for", lambda _: small.Reach(-1, 0))
    there = check(frames, RULES, key=key, limit=None)
    assert there.small is None
    for mine, other in zip(here.results, there.results, strict=True):
        assert (mine.counts, mine.status, mine.measured) == (other.counts, other.status, other.measured), mine.rule
    assert found(here.listed()) == found(there.listed())
    assert here.examples(here.results[2], 9) == there.examples(there.results[2], 9)
    assert (here.rows, here.notes) == (there.rows, there.notes)
    assert here.total > 5 and [here.key_columns(r.rule) for r in here.results] == [(key,) if key else ()] * len(RULES)


def test_what_is_not_small(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimate that is too low, sizes that were asked for, and rows of other tables that are to be named."""
    data = frame(spark, TABLE, 2)
    assert check(data, "a -> b", tasks=2).small is None
    assert check({"data": data, "keys": frame(spark, KEYS)}, ["keys.k in data.ref", "data.ref in keys.k"]).small is None
    monkeypatch.setattr(small, "FOR_PASSES", small.Reach(1 << 20, 4))
    report = check(data, "a -> b", key="id")
    assert report.small is None and report.results[0].counts.pairs == 1


def test_rules_of_order_reach_further(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows are fetched where stages would do the work, from Parquet and from a frame whose rows nobody knows."""
    rows = 12_000
    table = pa.table({"g": [i % 7 for i in range(rows)], "a": list(range(rows)), "b": [i % 1000 for i in range(rows)]})
    rule = "not(t.g = s.g and t.a < s.a and t.b > s.b and t.b > 997)"
    pq.write_table(table, tmp_path / "t.parquet")
    wanted = check_here(table, rule, limit=0).results[0].counts
    for data in (spark.read.parquet(str(tmp_path / "t.parquet")), frame(spark, table, 5000)):
        assert check(data, "g -> b", limit=0).small is None
        here = check(data, rule, limit=0)
        assert here.small is not None and here.results[0].counts == wanted
        with monkeypatch.context() as less:
            less.setattr(small, "FOR_STAGES", small.Reach(4 << 20, rows - 1))
            there = check(data, rule, limit=0)
            assert there.small is None and there.results[0].counts == wanted
