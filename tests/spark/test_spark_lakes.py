"""Tables of Delta Lake and Iceberg on Spark: the rows of the version, never those of files that are gone."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdstrue
from holdstrue.errors import DataError
from holdstrue.sources.lakehouse import lake_table
from holdstrue.spark.checking import check
from holdstrue.spark.files import frame_of
from holdstrue.spark.lakes import lake_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKEN = pa.table({"id": [1, 2, 3, 4], "zip": ["a", "a", "b", "b"], "city": ["x", "y", "z", "w"]})
MENDED = pa.table({"id": [1, 2, 3, 4], "zip": ["a", "a", "b", "b"], "city": ["x", "x", "z", "z"]})


def test_a_delta_table_has_the_rows_of_its_version(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    place = tmp_path / "a table"
    deltalake.write_deltalake(place, BROKEN, partition_by=["zip"])
    deltalake.write_deltalake(place, MENDED, mode="overwrite")
    deltalake.write_deltalake(
        place, pa.table({"id": [5], "zip": ["b"], "city": ["z"], "late": [7]}), mode="append", schema_mode="merge"
    )
    report = check(frame_of(spark, [str(place)], None, {}), "zip -> city", key="id")
    one = holdstrue.check(place, "zip -> city", key="id")
    assert (report.rows, report.total) == ({"data": 5}, 0) == (one.rows, one.total)
    late = check(frame_of(spark, [str(place)], None, {}), "not null(late)", key="id")
    assert late.results[0].counts.rows == 4, "files from before a column was added have no values in it"


def test_a_delta_table_that_its_files_do_not_tell_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    place = tmp_path / "table"
    deltalake.write_deltalake(place, BROKEN)
    [log] = (place / "_delta_log").glob("*.json")
    text = log.read_text()
    vectors = '"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors"]'
    features = f'"protocol":{{"minReaderVersion":3,"minWriterVersion":7,{vectors}}}'
    start = text.index('"protocol":{')
    log.write_text(text[:start] + features + text[text.index("}", start) + 1 :])
    table = lake_table([str(place)])
    assert table is not None
    with pytest.raises(DataError, match="deletionVectors"):
        lake_frame(spark, table)


def test_an_iceberg_table_has_the_rows_of_its_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    pytest.importorskip("sqlalchemy")
    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/house")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=BROKEN.schema)
    table.append(BROKEN)
    table.overwrite(MENDED)
    place = Path(table.location().removeprefix("file://"))
    report = check(frame_of(spark, [str(place)], None, {}), "zip -> city", key="id")
    assert (report.rows, report.total) == ({"data": 4}, 0)


NOON = dt.datetime(2024, 3, 31, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([NOON, NOON + dt.timedelta(microseconds=5), None], pa.timestamp("us", "UTC")),
        pa.array([NOON.replace(tzinfo=None), None, None], pa.timestamp("us")),
        pa.array([dt.date(2024, 3, 31), dt.date(1, 1, 1), None]),
        pa.array(["x y", "a=b c%/#?[x]", None]),
        pa.array(["07", "1.50", "7"]),
        pa.array([Decimal("1.50"), Decimal("-2.00"), None], pa.decimal128(5, 2)),
        pa.array([True, False, None]),
    ],
    ids=lambda values: str(values.type),
)
def test_values_in_the_paths_of_a_delta_table(spark: SparkSession, tmp_path: Path, values: pa.Array) -> None:
    """Delta writes moments in UTC there, whatever zone a session has."""
    deltalake = pytest.importorskip("deltalake")
    place = tmp_path / "table"
    deltalake.write_deltalake(place, pa.table({"id": [1, 2, 3], "part": values}), partition_by=["part"])
    wanted = deltalake.DeltaTable(place).to_pyarrow_table().select(["id", "part"]).sort_by("id")
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    try:
        got = frame_of(spark, [str(place)], None, {}).select("id", "part").toArrow().sort_by("id")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert got.cast(wanted.schema).to_pylist() == wanted.to_pylist()


def test_letters_in_paths_that_spark_reads_otherwise_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """`part=%C3%BC`: Spark takes it for two letters."""
    deltalake = pytest.importorskip("deltalake")
    place = tmp_path / "t\u00fcble"
    for values, refused in ((["a", "b"], False), (["a", "\u00fc"], True)):
        rows = pa.table({"id": [1, 2], "part": values})
        deltalake.write_deltalake(place, rows, partition_by=["part"], mode="overwrite")
        if not refused:
            assert frame_of(spark, [str(place)], None, {}).count() == 2
            continue
        with pytest.raises(DataError, match="letters beyond ASCII are escaped"):
            frame_of(spark, [str(place)], None, {})


def test_folders_of_an_iceberg_table_say_nothing_of_its_values(spark: SparkSession, tmp_path: Path) -> None:
    """They are called `part=null` and `part=x+y`, which are not the values of NULL and of `x y`."""
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    pytest.importorskip("sqlalchemy")
    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/house")
    catalog.create_namespace("n")
    rows = pa.table({"id": [1, 2, 3], "part": ["x y", None, "x+y"]})
    table = catalog.create_table("n.t", schema=rows.schema)
    with table.update_spec() as update:
        update.add_identity("part")
    table.append(rows)
    place = Path(table.location().removeprefix("file://"))
    got = frame_of(spark, [str(place)], None, {}).select("id", "part").toArrow().sort_by("id")
    assert got.to_pylist() == rows.to_pylist()
    # as in a table that was brought from Hive, whose files do not repeat what is in their paths
    for file in place.rglob("*.parquet"):
        pq.write_table(pq.read_table(file, partitioning=None).select(["id"]), file)
    with pytest.raises(DataError, match="has no column 'part' in it"):
        frame_of(spark, [str(place)], None, {})
