"""Accepted violations on Spark: the counts, entries and lists of one process, whichever way the tables are checked."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.accepting import accepting
from holdstrue.rules.accepted import Acceptance
from holdstrue.spark.checking import check
from laws.test_detection import found
from spark.frames import frame, listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")

TABLE = pa.table(
    {
        "id": [1, 2, 3, 4, 5, 6],
        "zip": ["1", "1", "1", "2", "2", None],
        "city": ["Bonn", "Ulm", "Kiel", "Rom", "Oslo", "Oslo"],
        "ref": [7, 8, 9, 9, None, 9],
    }
)
KEYS = pa.table({"k": [7, 8]})
RULES = ["zip -> city", "not(t.ref > 8)", "data.ref in keys.k", "[zip='2'] -> [city='Rom']", "key(city)"]
ENTRIES = (
    Acceptance("zip -> city", "seen", conflicts=((1, 2), (4, 5, 77))),
    Acceptance("not(t.ref > 8)", "old", rows=(3, "4", 5)),
    Acceptance("data.ref in keys.k", "late", rows=(3, 4, 99)),
    Acceptance("data.ref in keys.k", "over", rows=(6,), until=dt.date(2020, 1, 1)),
    Acceptance("[zip='2'] -> [city='Rom']", "all of it", rows=(5,)),
)


@pytest.mark.parametrize("way", ["cluster", "here"])
def test_as_in_one_process(spark: SparkSession, request: pytest.FixtureRequest, way: str) -> None:
    if way == "cluster":
        request.getfixturevalue("by_cluster")
    one = accepting(holdstrue.check(TABLE, RULES, key="id", tables={"keys": KEYS}, limit=None), ENTRIES)
    assert [result.accepted for result in one.results] == [2, 2, 2, 1, 0]
    frames = {"data": frame(spark, TABLE, 3), "keys": frame(spark, KEYS)}
    report = check(frames, RULES, key="id", limit=None, accepted=ENTRIES)
    assert (report.small is None) == (way == "cluster")
    for mine, other in zip(report.results, one.results, strict=True):
        assert (mine.counts, mine.accepted, mine.status) == (other.counts, other.accepted, other.status)
    assert [e.to_dict() for e in report.accepted] == [e.to_dict() for e in one.accepted]
    assert found(report.listed()) == found(one.listed()) == found(listed(report.violations()))
    assert (report.total, report.new, report.ok) == (one.total, one.new, one.ok)
    # accepted ones do not take the places of others
    few = check(frames, RULES, key="id", limit=2, accepted=ENTRIES)
    assert len(list(few.listed())) == 2 and few.new == one.new


def test_rows_need_a_key(spark: SparkSession) -> None:
    with pytest.raises(HoldstrueError, match="key"):
        check(frame(spark, TABLE), "zip -> city", accepted=ENTRIES[:1])
