"""Spark as the place where stages run: data frames in, messages out, one job a batch. DataFrame API only."""

from __future__ import annotations

import math
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
from holdstrue.errors import DataError, HoldstrueError
from holdstrue.rules.types import Declared
from holdstrue.shards import scatter
from holdstrue.shards.memory import free_bytes
from holdstrue.shards.runner import Sources, Stage
from holdstrue.shards.wire import Message, receive
from holdstrue.spark.estimates import estimated_bytes, plan_text
from holdstrue.spark.footers import footer_rows
from holdstrue.spark.jobs import causes, described, require_version
from holdstrue.spark.parquet_splits import OwnReading, shared_out, splits_of
from holdstrue.spark.stages import followed

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

OBSERVED = "holdstrue"
"""The name under which Spark's listeners are told what a batch read and moved, as its one job goes on."""

TASK_BYTES = 128 << 20
"""Of files, or of what Spark thinks that a query gives, for each task, as Spark itself cuts files."""
TIMES_IN_MEMORY = 16
"""A byte of a file takes so many in a worker: Parquet is compressed, and rows go to several routes."""
_MOST_TASKS = 2000
_NO_LIMIT = 2**31 - 1
"""What Spark says of executors that come and go where nobody limits their number."""
_UNKNOWN_BYTES = 2.0**50
"""Spark says 2^63 where it does not know."""


class SparkRunner:
    """Runs stages as `mapInArrow` over data frames; a task is one partition."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._found: int | None = None

    @contextmanager
    def about(self, what: str) -> Iterator[None]:
        """Jobs of the block are shown as this and followed; what goes wrong in workers is said in one sentence."""
        with described(self.spark, f"holdstrue: {what}"), followed(self.spark, what), causes():
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
        alike = [name.casefold() for name in frame.columns]
        for name in columns:
            if alike.count(name.casefold()) > 1 and self._setting("spark.sql.caseSensitive") != "true":
                raise DataError(
                    f"several columns are called {name!r} but for capitals, which Spark takes for the same",
                    hint="rename one, or set spark.sql.caseSensitive to true",
                )
        if list(columns) == frame.columns:
            return frame
        # one text each: columns that are built one by one would be several calls to Java each
        return frame.selectExpr(*map(quoted, columns))

    def numbered(self, frame: DataFrame, name: str) -> DataFrame:
        """The same rows with a column of their numbers, the last one: partition times 2^33 plus the place in it."""
        return frame.withColumn(name, F.monotonically_increasing_id())

    def gathered(self, frame: DataFrame) -> DataFrame:
        """The same rows, in their order, in one partition."""
        return frame.coalesce(1)

    def observed(self, frame: DataFrame, table: str, unit: str) -> DataFrame:
        """The same rows, counted as they pass: listeners are told how many `unit` of a table a batch read."""
        return frame.observe(f"{OBSERVED} {table}", F.count(F.lit(1)).alias(unit))

    def declared(self, frame: DataFrame, types: Mapping[str, Declared], known: pa.Schema | None) -> DataFrame:
        """The data frame with its columns as declared."""
        from holdstrue.spark.typed import declared_frame

        return declared_frame(frame, types, known)

    def known_rows(self, frame: DataFrame) -> int | None:
        """How many rows there are, where the footers of Parquet files tell."""
        return footer_rows(frame)

    def count(self, frame: DataFrame) -> int:
        """How many rows there are."""
        return frame.count()

    def own_reading(self, frame: DataFrame, stage: Stage) -> tuple[DataFrame, Stage]:
        """The frame and the stage that gets its rows, read by the tasks themselves where that is the same."""
        if self.worker_bytes() is not None:
            return frame, stage  # Spark hands on a few rows at a time, whatever row groups there are
        splits = splits_of(frame, self.schema(frame))
        if splits is None:
            return frame, stage
        tasks = max(1, min(len(splits), self.tasks_for([frame])))
        read = OwnReading(shared_out(splits, tasks), tuple(frame.columns), stage)
        return self.spark.range(0, tasks, 1, tasks), read

    def sample(self, frame: DataFrame, rows: int, of: int) -> pa.Table:
        """About so many rows, out of so many; the first ones where it is not known how many there are."""
        found = frame.limit(rows) if not of else frame.sample(fraction=min(1.0, rows / of), seed=0)
        return found.toArrow()

    def tasks(self) -> int:
        """How many tasks run at a time: by the settings that say so, or by what the cluster has now."""
        master = self._setting("spark.master") or ""
        local = re.match(r"local\[(\d+)", master)
        if local:
            return int(local[1])
        cores, each = self._setting("spark.cores.max"), int(self._setting("spark.executor.cores") or 1)
        if cores:
            return int(cores)
        instances = self._setting("spark.executor.instances")
        if self._setting("spark.dynamicAllocation.enabled") == "true":
            # executors come as tasks wait for them: what may come counts, and not what happens to be there
            instances = self._setting("spark.dynamicAllocation.maxExecutors")
        if instances and int(instances) < _NO_LIMIT:
            return int(instances) * each
        return max(1, self._offered())

    def _offered(self) -> int:
        """The parts into which Spark cuts what nobody cut: one for each core that it knows of. No job is run."""
        if self._found is None:
            told = self.spark.range(1).select(F.lit(1).alias("one"))
            self._found = _parts_in(plan_text(told))
        return self._found

    def tasks_for(self, frames: Sequence[DataFrame]) -> int:
        """How many tasks the rows of some frames are for: so many that none of them holds more than its share."""
        sizes = [estimated_bytes(frame) for frame in frames]
        known = sum(size for size in sizes if size is not None and size < _UNKNOWN_BYTES)
        free = free_bytes(self.worker_bytes())
        share = TASK_BYTES if free is None else min(TASK_BYTES, free // TIMES_IN_MEMORY)
        return max(self.tasks(), min(_MOST_TASKS, math.ceil(known / share)))

    def worker_bytes(self) -> int | None:
        """What one Python worker may hold, by the settings of the session; None where they do not limit it."""
        cores = max(1, int(self._setting("spark.executor.cores") or 1))
        limit = size_in_bytes(self._setting("spark.executor.pyspark.memory"))
        if limit is None and re.match("yarn|k8s", self._setting("spark.master") or ""):
            # workers live in what a container has beside Java, and the container is ended when they take more
            java = size_in_bytes(self._setting("spark.executor.memory") or "1g") or 1 << 30
            limit = size_in_bytes(self._setting("spark.executor.memoryOverhead")) or max(384 << 20, java // 10)
        return None if limit is None else limit // cores

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
                moved = F.coalesce(F.sum(F.length("payload")), F.lit(0))
                # a metric of one name may stand in a job once, and sites take many rounds in one
                messages = messages.observe(
                    f"{OBSERVED}:{at}", F.count(F.lit(1)).alias("messages"), moved.alias("bytes")
                )
                messages = messages.repartitionById(tasks, F.col("task"))
            messages = messages.mapInArrow(sendable(stage), MESSAGES)
        with causes():
            found = messages.toArrow()
        yield from receive(found.to_batches())

    def messages(self, sources: Sources, tasks: int) -> DataFrame:
        """The messages that the stages of the sources send, each in the partition of its task."""
        sent: DataFrame | None = None
        for frame, stage in sources:
            own = self.numbers(tasks) if frame is None else frame
            own = own if stage is None else own.mapInArrow(sendable(stage), MESSAGES)
            sent = own if sent is None else sent.unionAll(own)
        if sent is None:
            raise ValueError("no sources")
        if tasks == 1 and all(stage is None for _, stage in sources):
            return sent.coalesce(1)  # messages for the only task, which need not be moved
        return sent.repartitionById(tasks, F.col("task"))

    def distinct(self, stage: Stage, tasks: int, sources: Sources = ()) -> dict[int, int]:
        """Run a stage over the tasks and count the distinct rows that it gives, by their first column."""
        messages = self.messages(sources, tasks) if sources else self.numbers(tasks)
        rows = messages.mapInArrow(sendable(stage), DIGESTS)
        counts = rows.distinct().groupBy("rule").count().toArrow().to_pylist()
        return {int(row["rule"]): int(row["count"]) for row in counts}

    def numbers(self, tasks: int) -> DataFrame:
        """The numbers of the tasks, each in a partition of its own."""
        if tasks == 1:
            return self.spark.range(0, 1, 1, 1).select(F.col("id").cast("int").alias("task"))
        numbers = self.spark.range(tasks).select(F.col("id").cast("int").alias("task"))
        return numbers.repartitionById(tasks, F.col("task"))


def size_in_bytes(text: str | None) -> int | None:
    """A size as Spark's settings have it, in mebibytes unless it says so.

    >>> size_in_bytes("512m"), size_in_bytes("2g"), size_in_bytes("768"), size_in_bytes(None)
    (536870912, 2147483648, 805306368, None)
    """
    found = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)i?b?\s*", (text or "").lower())
    if found is None or int(found[1]) == 0:
        return None
    return int(found[1]) << {"k": 10, "": 20, "m": 20, "g": 30, "t": 40}[found[2]]


def _parts_in(plan: str) -> int:
    """Into how many parts a range is cut, by the plan of it.

    >>> _parts_in("== Physical Plan ==\\n*(1) Project [1 AS one#2]\\n+- *(1) Range (0, 1, step=1, splits=12)")
    12
    """
    found = re.search(r"Range \(.*splits=(?:Some\()?(\d+)", plan)
    if found is None:
        raise HoldstrueError("Spark does not say how many tasks it runs at a time", hint="give tasks=")
    return int(found[1])


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
