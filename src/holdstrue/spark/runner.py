"""Spark as the place where stages run: data frames in, messages out, one job a batch. DataFrame API only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from holdstrue import __version__
from holdstrue.errors import DataError
from holdstrue.rules.types import Declared
from holdstrue.shards import scatter
from holdstrue.shards.runner import Sources, Stage
from holdstrue.shards.wire import Message, receive
from holdstrue.spark.jobs import causes, described, require_version

# Spark would ask Java to parse these on every use if they were text
MESSAGES = StructType(
    [
        StructField("task", IntegerType()),
        StructField("kind", IntegerType()),
        StructField("route", IntegerType()),
        StructField("name", StringType()),
        StructField("payload", BinaryType()),
    ]
)
DIGESTS = StructType([StructField("rule", IntegerType()), StructField("hi", LongType()), StructField("lo", LongType())])

UNKNOWN_CLUSTER_TASKS = 8
"""Tasks of a batch where Spark does not say how many cores it has; `tasks=` tells."""


class SparkRunner:
    """Runs stages as `mapInArrow` over data frames; a task is one partition."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @contextmanager
    def about(self, what: str) -> Iterator[None]:
        """Jobs of the block are shown as this, and what goes wrong in their workers is said in one sentence."""
        with described(self.spark, f"holdstrue: {what}"), causes():
            yield

    def schema(self, frame: DataFrame) -> pa.Schema:
        """Columns and types of a data frame, timestamps in UTC."""
        return to_arrow_schema(frame.schema, timezone="UTC")

    def select(self, frame: DataFrame, columns: Sequence[str]) -> DataFrame:
        """Some columns."""
        for name in columns:
            if "." in name or "`" in name:
                raise DataError(
                    f"column {name!r} cannot be read on Spark, whose Arrow stages take no dots and backticks in names",
                    hint="rename it, for example frame.withColumnsRenamed({...}), or check it in one process",
                )
        if list(columns) == frame.columns:
            return frame
        return frame.select(*(column(name) for name in columns))

    def numbered(self, frame: DataFrame, name: str) -> DataFrame:
        """The same rows with a column of their numbers, the last one: partition times 2^33 plus the place in it."""
        return frame.withColumn(name, F.monotonically_increasing_id())

    def gathered(self, frame: DataFrame) -> DataFrame:
        """The same rows, in their order, in one partition."""
        return frame.coalesce(1)

    def declared(self, frame: DataFrame, types: Mapping[str, Declared], known: pa.Schema | None) -> DataFrame:
        """The data frame with its columns as declared."""
        from holdstrue.spark.typed import declared_frame

        return declared_frame(frame, types, known)

    def count(self, frame: DataFrame) -> int:
        """How many rows there are."""
        return frame.count()

    def sample(self, frame: DataFrame, rows: int, of: int) -> pa.Table:
        """About so many rows, out of so many; the first ones where it is not known how many there are."""
        found = frame.limit(rows) if not of else frame.sample(fraction=min(1.0, rows / of), seed=0)
        return found.toArrow()

    def tasks(self) -> int:
        """How many tasks run at a time, as far as the settings tell."""
        master = self._setting("spark.master") or ""
        local = re.match(r"local\[(\d+)", master)
        if local:
            return int(local[1])
        shuffle = self._setting("spark.sql.shuffle.partitions")
        if master.startswith("local"):
            return int(shuffle or 1)
        cores = self._setting("spark.cores.max")
        if cores:
            return int(cores)
        instances, each = self._setting("spark.executor.instances"), self._setting("spark.executor.cores")
        return int(instances) * int(each or 1) if instances else UNKNOWN_CLUSTER_TASKS

    def _setting(self, name: str) -> str | None:
        try:
            return self.spark.conf.get(name, None)
        except PySparkException:
            # some servers do not tell clients about their deployment
            return None

    def run(self, sources: Sources, stages: Sequence[Stage], tasks: int) -> Iterator[Message]:
        """Send each frame through its stage, then all messages through the stages, in one job."""
        if not sources:
            return
        messages = self.messages(sources, tasks)
        for at, stage in enumerate(stages):
            if at:
                messages = messages.repartitionById(tasks, F.col("task"))
            messages = messages.mapInArrow(sendable(stage), MESSAGES)
        with causes():
            found = messages.toArrow()
        yield from receive(found.to_batches())

    def messages(self, sources: Sources, tasks: int) -> DataFrame:
        """The messages that the stages of the sources send, each in the partition of its task."""
        sent: DataFrame | None = None
        for frame, stage in sources:
            own = (self.numbers(tasks) if frame is None else frame).mapInArrow(sendable(stage), MESSAGES)
            sent = own if sent is None else sent.unionAll(own)
        if sent is None:
            raise ValueError("no sources")
        return sent.repartitionById(tasks, F.col("task"))

    def distinct(self, stage: Stage, tasks: int, sources: Sources = ()) -> dict[int, int]:
        """Run a stage over the tasks and count the distinct rows that it gives, by their first column."""
        messages = self.messages(sources, tasks) if sources else self.numbers(tasks)
        rows = messages.mapInArrow(sendable(stage), DIGESTS)
        counts = rows.distinct().groupBy("rule").count().toArrow().to_pylist()
        return {int(row["rule"]): int(row["count"]) for row in counts}

    def numbers(self, tasks: int) -> DataFrame:
        """The numbers of the tasks, each in a partition of its own."""
        numbers = self.spark.range(tasks).select(F.col("id").cast("int").alias("task"))
        return numbers.repartitionById(tasks, F.col("task"))


def column(name: str) -> Any:
    """A column by its very name, whatever is in it."""
    return F.col(quoted(name))


def quoted(name: str) -> str:
    """The name of a column in SQL, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def sendable(stage: Stage) -> Any:
    """A stage as a plain function, which is what Spark takes."""

    driver = __version__

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        require_version(driver)
        context = TaskContext.get()
        # by way of its module, which travels by name: the variable itself cannot be pickled
        scatter.PARTITION.set(0 if context is None else context.partitionId())
        yield from stage(batches)

    return run
