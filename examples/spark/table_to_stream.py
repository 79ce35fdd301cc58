"""From a table in Spark to a stream that is watched: check, load, follow records of Kafka, set aside, read."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812

import holdstrue.spark as hs
from holdstrue.spark.sinks import Parquet, console

PLACE = Path(tempfile.mkdtemp(prefix="holdstrue-example-"))
RECORD = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"


def put(number: int, *values: Any) -> None:
    """One micro-batch of records, as Kafka's source would give them."""
    texts = [(value if isinstance(value, str) else json.dumps(value)).encode() for value in values]
    offsets = range(number * 10, number * 10 + len(texts))
    (PLACE / "topic").mkdir(exist_ok=True)
    pq.write_table(
        pa.table(
            {
                "value": pa.array(texts, pa.binary()), "topic": ["orders"] * len(texts),
                "partition": pa.array([0] * len(texts), pa.int32()), "offset": pa.array(offsets, pa.int64()),
            }
        ),
        PLACE / "topic" / f"{number}.parquet",
    )  # fmt: skip


def event(op: str, changed: int, **row: Any) -> dict[str, Any]:
    """One of Debezium's events, without its schema block."""
    image = {**row, "changed": changed}
    return {"op": op, "before": image if op == "d" else None, "after": None if op == "d" else image}


spark = hs.start("local[2]")
rows = [(1, "10115", "Berlin", 5), (2, "10115", "Bern", 5), (3, "20095", "Hamburg", 5)]
spark.createDataFrame(rows, "id long, zip string, city string, changed long").createOrReplaceTempView("orders")

# a table by its name, or a query: counts, and the first violations
report = hs.check("orders", ["zip -> city"], key="id")
print(report)

# a state that knows all rows; where changes come late, the one with the highest `changed` counts
state = str(PLACE / "state")  # or s3://bucket/state, gs://..., abfss://...
monitor = hs.Monitor(spark, state, ["zip -> city"], key="id", data="orders", sequence_by="changed")

# the rows as they are now, parted: those without violations, and the others with what is wrong with them
clean, broken = monitor.quarantine(spark.table("orders"))
parted = clean.count(), broken.count()
print(parted)

# what happens to the table, as Debezium writes it to Kafka: the second batch is none, in the third one comes late
put(0, event("u", 7, id=2, zip="10115", city="Berlin"))
put(1, "this is no event", event("c", 8, id=4, zip="20095", city="Hamm"))
put(2, event("c", 9, id=5, zip="20095", city="Altona"), event("u", 6, id=2, zip="10115", city="Bern"))
records = spark.readStream.schema(RECORD).option("maxFilesPerTrigger", 1).parquet(str(PLACE / "topic"))
# in earnest: spark.readStream.format("kafka").option("subscribe", "shop.orders").load()
query = monitor.stream(
    records,
    [console, Parquet(PLACE / "violations")],
    feed="kafka",
    on_bad_batch="quarantine",
    dead_letters=PLACE / "letters",
    trigger={"availableNow": True},  # or {"processingTime": "5 seconds"}
)
query.awaitTermination()

# what did not fit waits with the reason, to be mended and applied again
letters = spark.read.parquet(str(PLACE / "letters"))
came = letters.select("reason", F.from_json("row", letters.first()["schema"]).alias("row"))
came.select("reason", "row.offset").show(truncate=False)

# the state as a source of Spark, for dashboards and joins
hs.register(spark)
open_now = spark.read.format("holdstrue").load(state)
open_now.show()
spark.read.format("holdstrue").option("what", "history").load(state).show(truncate=False)

assert report.total == 1
assert parted == (1, 2), "before the stream mended one of them"
assert [tuple(row) for row in open_now.select("t", "s").collect()] == [(3, 5)]
assert sorted(row["offset"] for row in came.select("row.offset").collect()) == [10, 11]
