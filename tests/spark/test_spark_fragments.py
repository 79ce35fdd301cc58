"""Relations split over sites on Spark: the same violations and the same shipments as in one process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from holdstrue.errors import HoldstrueError
from holdstrue.fragments import Relation, Site
from holdstrue.spark.fragments import SparkHost, relation
from unit.fragments.test_fragments_site_state import FIRST, RULES, split, state_of, told, wanted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def on_spark(spark: SparkSession, sites: list[Site]) -> list[Site]:
    return [replace(site, source=spark.createDataFrame(site.source)) for site in sites]


@pytest.mark.parametrize("shape", ["vertical", "mixed"])
def test_spark_finds_and_ships_the_same(spark: SparkSession, shape: str, tmp_path: Path) -> None:
    plain = Relation(split(shape, None), RULES, key="id")
    found = relation(spark, on_spark(spark, split(shape, tmp_path)), RULES, key="id")
    assert told(found.load()) == told(plain.load())
    host = found._host
    assert isinstance(host, SparkHost) and all(size > 0 for size in host.inside.values())
    assert told(found.apply(FIRST, "one")) == told(plain.apply(FIRST, "one"))
    assert found.apply(FIRST, "one").repeated
    assert state_of(found) == wanted(shape, FIRST)
    assert told(found.check()) == told(plain.check())
    found.close()
    # what Spark wrote is opened in one process
    with Relation(split(shape, tmp_path), RULES, key="id") as opened:
        assert state_of(opened) == wanted(shape, FIRST)


def test_a_job_that_fails_leaves_a_batch_that_can_be_applied_again(spark: SparkSession, tmp_path: Path) -> None:
    sites = on_spark(spark, split("vertical", tmp_path))
    found = relation(spark, sites, RULES, key="id")
    found.load()
    away = (tmp_path / "c").rename(tmp_path / "away")
    (tmp_path / "c").write_text("not a directory")
    with pytest.raises(HoldstrueError, match=r"failed in Spark|is not an empty directory|not a state"):
        found.apply(FIRST, "one")
    (tmp_path / "c").unlink()
    away.rename(tmp_path / "c")
    assert not found.apply(FIRST, "one").repeated
    assert state_of(found) == wanted("vertical", FIRST)


def test_a_site_needs_a_data_frame_and_a_state(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(HoldstrueError, match="no state directory"):
        relation(spark, [Site("s", source=spark.range(1))], ["id -> a"], key="id")
    with pytest.raises(HoldstrueError, match="no data frame"):
        relation(spark, [Site("s", source=pa.table({"id": [1]}), state=tmp_path)], ["id -> a"], key="id")
