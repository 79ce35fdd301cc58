"""Suspects of data frames are those of one process; larger tables than a task holds are cut, and the answer says so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

import holdstrue
from dirty_tables import Dirty, forms, orders, prices
from holdstrue import spark as on_spark
from holdstrue.discovery.suspects.answer import Suspects
from holdstrue.errors import HoldstrueError
from holdstrue.spark.suspecting import searching
from holdstrue.spark.suspecting.frame_suspects import FrameSuspects
from lookalikes import hospital
from spark.frames import frame
from spark.test_spark_discover_large import orders as many_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Said = set[tuple[Any, ...]]


def here(found: Suspects) -> Said:
    return {(s.key, s.column, _text(s.value), _text(s.proposed), round(s.confidence, 9), s.why, s.rows) for s in found}


def there(found: FrameSuspects) -> Said:
    lines = found.frame.toArrow().to_pylist()
    assert len(lines) == len(found)
    return {
        (
            _key(line["row"]),
            line["column"],
            line["value"],
            line["proposed"],
            round(line["confidence"], 9),
            tuple(line["why"]),
            tuple(map(_key, line["rows"])),
        )
        for line in lines
    }


def _key(named: Any) -> Any:
    return tuple(named.values()) if isinstance(named, dict) else named


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def numbered(table: pa.Table) -> pa.Table:
    return table.append_column("row number", pa.array(range(len(table)), pa.int64()))


@pytest.mark.parametrize(
    "make",
    [
        lambda: orders(seed=11),
        lambda: forms(seed=12),
        lambda: prices(seed=13),
        lambda: Dirty(*hospital(seed=3)),
    ],
    ids=["orders", "forms", "prices", "hospital"],
)
def test_suspects_are_those_of_one_process(spark: SparkSession, make: Callable[[], Dirty]) -> None:
    table = numbered(make().dirty)
    alone = holdstrue.suspects(table, key="row number")
    found = on_spark.suspects(frame(spark, table, 100, 700), key="row number")
    assert here(alone)
    assert there(found) == here(alone)
    assert (found.rows, {*found.rules}, found.parts, found.notes) == (len(table), {*alone.rules}, 1, alone.notes)
    assert there(found.at_least(0.95)) == here(alone.at_least(0.95))
    assert here(found.first(3)) <= here(alone)
    assert [s.confidence for s in found.first(3)] == [s.confidence for s in alone[:3]]


@pytest.mark.parametrize("name", ["bibliography", "factory"])
def test_so_they_are_in_tables_of_another_author(
    spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    eight = import_module("workloads.dirty").dirty_tables(1)
    table = numbered(next(dirty for own, _, dirty, _ in eight if own == name))
    rows = frame(spark, table, 999)
    # Spark gives times of day and year a zone
    alone = holdstrue.suspects(rows.toArrow(), key="row number")
    assert len(alone) > 20
    assert there(on_spark.suspects(rows, key="row number")) == here(alone)


def test_declared_rules_types_and_keys_of_several_columns(spark: SparkSession) -> None:
    rules = ["towns := zip -> town", "not null(town)", "key(no)", "[zip='2'] -> [town='Ulm']"]
    table = pa.table(
        {
            "no": list("0123456789"),
            "part": [0] * 10,
            "zip": list("1111122223"),
            "town": ["Bonn", "Bonn", "Bonn", "Bomn", None, "Ulm", "Ulm", "Ulm", "Uln", "Ulm"],
        }
    )
    how: dict[str, Any] = {"discover": False, "key": ("no", "part"), "types": {"no": "integer"}}
    alone = holdstrue.suspects(table, rules, **how)
    found = on_spark.suspects(frame(spark, table, 5), rules, **how)
    assert {(s.key, s.column) for s in alone} == {((3, 0), "town"), ((4, 0), "town"), ((8, 0), "town")}
    assert there(found) == here(alone)
    assert found.notes == alone.notes
    assert any("key(no)" in note for note in found.notes)


def test_types_of_all_kinds_and_rows_without_a_key(spark: SparkSession) -> None:
    table = many_types(400)
    alone = holdstrue.suspects(table)
    found = on_spark.suspects(frame(spark, table, 100))
    assert len(found) == len(alone)
    # a row is named by partition and place
    named = {(line[0] >> 33, line[0] % (1 << 33)) for line in there(found)}
    assert {(0, s.key) if s.key < 100 else (1, s.key - 100) for s in alone} == named


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_keys_of_moments(spark: SparkSession, zone: str | None) -> None:
    days = pa.array([datetime(2026, 1, day) for day in range(1, 5)], pa.timestamp("us", zone))
    table = pa.table({"at": days, "zip": ["1"] * 4, "town": ["Bonn", "Bonn", "Bonn", "Bomn"]})
    kind = "timestamp" if zone else "timestamp_ntz"
    rows = frame(spark, table).withColumn("at", F.col("at").cast(kind))
    found = on_spark.suspects(rows, "zip -> town", key="at", discover=False)
    assert found.frame.schema["row"].dataType.simpleString() == kind
    assert [line["row"].day for line in found.frame.collect()] == [4]
    [mended] = found.patch(0.5).collect()
    assert (mended["at"].day, mended["town"]) == (4, "Bonn")


def test_a_patch_mends_rows_by_their_key(spark: SparkSession) -> None:
    table = numbered(orders(seed=11).dirty)
    found = on_spark.suspects(frame(spark, table, 300), key="row number")
    patch = holdstrue.suspects(table, key="row number").patch()
    mine = found.patch().toArrow().sort_by("row number")
    assert len(mine) > 50
    assert mine.select(patch.column_names).to_pylist() == patch.sort_by("row number").to_pylist()
    with pytest.raises(HoldstrueError, match="updates rows by their key"):
        on_spark.suspects(frame(spark, table.slice(0, 50))).patch()


def test_a_large_table_is_cut_in_parts_of_whole_groups(spark: SparkSession) -> None:
    made = orders(rows=6000, errors=400, seed=3)
    table = numbered(made.dirty)
    rows = frame(spark, table, 2000)
    found = on_spark.suspects(rows, key="row number", whole=150_000)
    assert found.parts >= 3
    assert found.cut in ("zip", "customer", "product", "name")
    assert f"in {found.parts} parts with all rows of each `{found.cut}`" in found.notes[0]
    cells = {(line[0], line[1]) for line in there(found)}
    alone = {(s.key, s.column) for s in holdstrue.suspects(table, key="row number")}
    assert len(cells & made.wrong) >= 0.85 * len(alone & made.wrong)
    assert len(cells & made.wrong) >= 0.9 * len(cells)


def test_a_column_of_one_frequent_value_does_not_cut(spark: SparkSession) -> None:
    """Half of the rows have one zip: no part could hold less than these, so rows are dealt in another way."""
    zips = ["0"] * 2000 + [str(at // 8) for at in range(2000)]
    towns = [f"town {zip_}" for zip_ in zips]
    towns[100] = towns[3000] = "Bonn"
    table = numbered(pa.table({"zip": zips, "town": towns}))
    rows = frame(spark, table)
    found = on_spark.suspects(rows, "zip -> town", key="row number", discover=False, whole=50_000)
    assert found.parts > 2
    assert found.cut is None
    assert f"in {found.parts} parts of rows drawn at random" in found.notes[0]
    assert (100, "town") in {(line[0], line[1]) for line in there(found)}
    ids = found.frame.select("row").distinct().count()
    assert ids <= 2


def test_what_does_not_fit_is_refused_by_name(spark: SparkSession) -> None:
    rows = frame(spark, pa.table({"a": [1, 2], "b": ["x", "y"]}))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"key": "c"}, "no key column 'c'"),
        ({"columns": ["c"]}, "no column 'c'"),
        ({"discover": False}, "nothing to go by"),
        ({"budget": 0}, "budget is 0"),
        ({"rules": "c -> a"}, "c"),
    ]
    for wrong, said in cases:
        with pytest.raises(HoldstrueError, match=said):
            on_spark.suspects(rows, **wrong)
    assert len(on_spark.suspects(rows.limit(0))) == 0


def test_a_discovery_of_a_large_table_is_asked_too(spark: SparkSession) -> None:
    table = numbered(orders(seed=11).dirty)
    rows = frame(spark, table)
    discovery = on_spark.discover(rows, kinds="key", max_predicates=2, key="row number", whole=0)
    assert there(discovery.suspects()) == here(holdstrue.suspects(table, key="row number"))  # type: ignore[arg-type]


def test_a_monitor_believes_its_rules_and_takes_the_patch(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": range(7),
            "zip": ["1"] * 5 + ["2"] * 2,
            "town": ["Bonn", "Bonn", "Bonn", "Bonn", "Bomn", "Ulm", "Ulm"],
        }
    )
    rows = frame(spark, table, 3)
    monitor = on_spark.Monitor(spark, str(tmp_path / "state"), ["towns := zip -> town"], key="id", data=rows)
    found = monitor.suspects(rows, discover=False)
    alone = holdstrue.suspects(table, ["towns := zip -> town"], key="id", discover=False)
    assert there(found) == here(alone)
    assert [(s.key, s.proposed, s.why) for s in alone] == [(4, "Bonn", ("towns",))]
    with pytest.raises(HoldstrueError, match="rows are in shards"):
        monitor.suspects()
    assert monitor.counts()["towns"].open
    monitor.apply(found.patch(0.9), op_column="op")
    assert not monitor.counts()["towns"].open
    with pytest.raises(HoldstrueError, match="no key column 'id'"):
        monitor.suspects(rows.drop("id"))


def test_the_sample_that_says_where_to_cut_is_bounded(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "SAMPLED", 1500)
    table = numbered(orders(rows=6000, errors=400, seed=3).dirty)
    found = on_spark.suspects(frame(spark, table, 2000), key="row number", whole=150_000)
    assert found.cut in ("zip", "customer", "product", "name")
