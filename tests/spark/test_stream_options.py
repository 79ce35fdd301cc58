"""Streams that people can run: bad batches set aside, late changes that lose, records of Kafka, several tables."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

import holdstrue
from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.spark import Monitor
from holdstrue.spark.letters import BadBatch, DeadLetters
from laws.test_detection import found, nonempty
from spark.checkpoints import forget_last
from spark.frames import listed
from spark.test_stream import BATCHES, RULES, Source, deltas, into, row, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = pa.schema(
    {
        "key": pa.binary(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"), "timestampType": pa.int32(),
    }
)  # fmt: skip
"""What Spark's source for Kafka gives."""


def records(folder: Path, number: int, values: Sequence[Any], *, topic: str = "shop") -> None:
    """One micro-batch in Kafka's shape; text stands for itself, None for a tombstone."""
    folder.mkdir(exist_ok=True)
    rows = [
        {"value": None if value is None else (value if isinstance(value, str) else json.dumps(value)).encode(),
         "topic": topic, "partition": 0, "offset": number * 100 + at}
        for at, value in enumerate(values)
    ]  # fmt: skip
    waiting = folder / f".{number}"
    pq.write_table(pa.Table.from_pylist(rows, RECORDS), waiting)
    os.utime(waiting, (1_700_000_000 + number, 1_700_000_000 + number))
    waiting.rename(folder / f"{number}.parquet")


def kafka(spark: SparkSession, folder: Path) -> Any:
    ddl = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
    return spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1).parquet(str(folder))


def event(op: str, lsn: int, **image: Any) -> dict[str, Any]:
    sides = {"before": image, "after": None} if op == "d" else {"before": None, "after": image}
    return {"op": op, **sides, "source": {"lsn": lsn}, "ts_ms": lsn}


def came(spark: SparkSession, letters: Path) -> Any:
    """Dead letters of batches of the same columns, with these."""
    kept = spark.read.parquet(str(letters))
    (schema,) = {row["schema"] for row in kept.select("schema").collect()}
    return kept.select("batch", "table", "reason", F.from_json("row", schema).alias("row")).select("*", "row.*")


def shown(rows: Any) -> Any:
    """The rows; Connect hands no times of day over."""
    return (rows.withColumn("t", F.col("t").cast("string")) if "t" in rows.columns else rows).collect()


def test_dead_letters_of_any_columns_are_one_table(spark: SparkSession, tmp_path: Path) -> None:
    """Batches that differ in columns and types stand side by side, and each comes back as it was."""
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    batches = {
        "all": spark.sql("""select 1 as `a b`, 'x"y' as s, cast('12.30' as decimal(30,2)) as d, date'0024-01-02' as day,
            timestamp'1700-01-02 03:04:05.123456' as at, timestamp_ntz'0009-01-02 03:04:05.123456' as local,
            X'00ff' as b, float(0.1) as f, 5e-324D as least, double('-Infinity') as low, null as nothing,
            array(named_struct('q r', 1, 's', cast(null as string))) as nested, map('k', 1) as m, true as yes,
            9223372036854775807 as big, interval '1 02:03:04.123456' day to second as took, time'12:34:56.123456' as t
        """),
        "other": spark.sql("select 'one' as `a b`, array(1, null) as s, 'more' as `c``d`"),
        "none": spark.sql("select 1 as `a b` where false"),
    }
    keep = DeadLetters(tmp_path / "letters")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for name, rows in batches.items():
            keep(BadBatch(name, "data", rows, ChangeError("does not fit", hint="mend it")))
        letters = spark.read.parquet(str(tmp_path / "letters"))
        assert {row["batch"] for row in letters.select("batch").collect()} == {"all", "other"}
        for name in ("all", "other"):
            one = letters.where(F.col("batch") == name)
            [said, *_] = one.collect()
            assert (said["table"], said["reason"], said["hint"]) == ("data", "does not fit", "mend it")
            back = one.select(F.from_json("row", said["schema"]).alias("row")).select("row.*")
            assert shown(back) == shown(batches[name])
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_bad_batches_are_set_aside_once(spark: SparkSession, tmp_path: Path) -> None:
    """The batches after a bad one are applied, its rows and the reason kept, also when it comes again."""
    source = Source(tmp_path / "source")
    monitor = Monitor(spark, tmp_path / "state", RULES, key="id", shards=3, tasks=2)
    source.add(BATCHES[0])
    bad = [("insert", row(20)), ("insert", row(2))]
    source.add(bad)
    source.tables[-1] = source.tables[-2]
    source.add(BATCHES[1])
    letters = tmp_path / "letters"
    called = [into(tmp_path / "called")]
    options: dict[str, Any] = {"on_bad_batch": "quarantine", "dead_letters": letters}
    run(monitor, source, called, **options)
    assert found(listed(monitor.violations())) == nonempty(source.truth(3))
    told = deltas(tmp_path / "called")
    assert [delta.get("notes", []) for delta in told] == [
        [], ["the batch was set aside: row 2 of a partition of the changes: insert of id=2, which exists already; "
             "nothing was applied"], [],
    ]  # fmt: skip
    kept = came(spark, letters).toArrow().to_pylist()
    assert [(one["id"], one["op"], one["table"]) for one in kept] == [(20, "insert", "data"), (2, "insert", "data")]
    assert {one["batch"] for one in kept} == {told[1]["batch"]}
    assert all("exists already" in one["reason"] for one in kept)
    # the same batch again, as after a crash, when it would fit: what was decided stays
    monitor.apply(spark.createDataFrame([("delete", *row(2).values())], "op string, id long, zip string, city string, "
                                        "size long, cost double, code long"))  # fmt: skip
    for _ in range(2):
        forget_last(Path(monitor.path) / "streams" / "stream")
    run(monitor, source, called, **options)
    assert monitor.rows["data"] == len(source.tables[3]) - 1
    with pytest.raises(HoldstrueError, match="on_bad_batch is 'skip'"):
        run(monitor, source, on_bad_batch="skip", dead_letters=letters)
    with pytest.raises(HoldstrueError, match="on_bad_batch is 'never'"):
        run(monitor, source, on_bad_batch="never")


def test_records_late_changes_and_a_backfill(spark: SparkSession, tmp_path: Path) -> None:
    """Rows first, then Debezium's events in Kafka's shape that overlap, come late, and one that is no JSON."""
    monitor = Monitor(spark, tmp_path / "state", ["zip -> city"], key="id", tasks=2)
    rows = spark.createDataFrame([(1, "a", "x"), (2, "a", "x"), (3, "b", "y")], "id int, zip string, city string")
    folder = tmp_path / "topic"
    records(folder, 0, [event("u", 5, id=1, zip="a", city="z"), event("d", 7, id=3, zip="b", city="y"), None])
    records(folder, 1, ["{no json", event("u", 9, id=2, zip="a", city="bad")])
    records(folder, 2, [event("u", 4, id=1, zip="a", city="x"), event("c", 6, id=3, zip="b", city="q"),
                        event("c", 8, id=4, zip="b", city="q")])  # fmt: skip
    for _ in range(2):
        monitor.stream(
            kafka(spark, folder), [into(tmp_path / "called")], feed="kafka", sequence_by="source.lsn", backfill=rows,
            on_bad_batch="quarantine", dead_letters=tmp_path / "letters", trigger={"availableNow": True},
        ).awaitTermination()  # fmt: skip
    told = deltas(tmp_path / "called")
    assert [len(delta["added"]) for delta in told] == [1, 0, 0]
    assert "offset 100: the value is no JSON" in told[1]["notes"][0]
    assert told[2]["notes"] == ["2 changes of data came late: newer ones are there, by source.lsn"]
    letters = came(spark, tmp_path / "letters").toArrow().to_pylist()
    assert letters[0]["value"] == b"{no json"
    assert found(listed(monitor.violations())) == {"zip -> city": {(1, 2)}}


def test_several_streams_into_one_monitor(spark: SparkSession, tmp_path: Path) -> None:
    rules = holdstrue.load_rules([{"name": "known", "rule": "orders.customer in customers.id"}])
    monitor = Monitor(spark, tmp_path / "state", rules, key={"orders": "id", "customers": "id"}, tasks=2)
    records(tmp_path / "orders", 0, [{"id": i, "customer": i % 4} for i in range(8)])
    records(tmp_path / "customers", 0, [{"op": "insert", "id": i} for i in range(3)])
    streams = monitor.streams(
        {name: kafka(spark, tmp_path / name) for name in ("orders", "customers")},
        feed="kafka",
        schema={"orders": "id long, customer long", "customers": "id long"},
        trigger={"availableNow": True},
    )
    streams.awaitTermination()
    assert not streams.isActive and streams.exception() is None
    assert monitor.rows == {"orders": 8, "customers": 3}
    assert found(listed(monitor.violations())) == {"known": {(3,), (7,)}}
    with pytest.raises(HoldstrueError, match="no table 'other'"):
        monitor.streams({"other": kafka(spark, tmp_path / "orders")})


def test_new_and_wider_columns_do_not_stop_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """A stream that goes on with one more column and a wider type of another; no rule reads the new one."""
    folder = tmp_path / "source"
    folder.mkdir()
    monitor = Monitor(spark, tmp_path / "state", "zip -> city", key="id", tasks=1)

    def arrive(number: int, schema: dict[str, pa.DataType], *rows: tuple[Any, ...]) -> None:
        named = [dict(zip(schema, values, strict=True)) for values in rows]
        pq.write_table(pa.Table.from_pylist(named, pa.schema(schema)), folder / f"{number}.parquet")

    def follow(ddl: str) -> None:
        stream = spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1).parquet(str(folder))
        query = monitor.stream(stream, trigger={"availableNow": True})
        query.awaitTermination()
        assert query.exception() is None

    first = {"id": pa.int32(), "zip": pa.int32(), "city": pa.string()}
    arrive(0, first, (1, 10, "Ulm"), (2, 11, "Bonn"))
    follow("id int, zip int, city string")
    wider = {"id": pa.int64(), "zip": pa.int64(), "city": pa.string(), "since": pa.string()}
    arrive(1, wider, (3, 10, "Kiel", "2026"), (2**40, 2**40, "Kiel", None))
    follow("id long, zip long, city string, since string")
    assert monitor.rows == {"data": 4}
    assert found(listed(monitor.violations())) == {"zip -> city": {(1, 3)}}
    # and what still comes as it was
    arrive(2, first, (4, 11, "Jena"))
    follow("id long, zip long, city string, since string")
    assert found(listed(monitor.violations())) == {"zip -> city": {(1, 3), (2, 4)}}
