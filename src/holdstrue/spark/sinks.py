"""Where the outcome of each batch of a stream goes.

A sink is called with every batch once it is committed. After a crash between the commit and the
sink the batch is handed over again, so a sink that must not see a batch twice goes by its name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.detect.delta import Delta
from holdstrue.location import spark_place
from holdstrue.report.delta_text import line_of
from holdstrue.spark.monitor import SparkMonitor


@dataclass(frozen=True)
class AppliedBatch:
    """One applied batch of a stream."""

    monitor: SparkMonitor
    delta: Delta
    files: tuple[str, ...] = ()
    """Where the changes were read from, if from files."""

    def frame(self) -> DataFrame:
        """What it added and removed, as a data frame of batch, rule, change, pair, t and s."""
        return self.monitor.delta().withColumn("batch", F.lit(self.delta.batch))


Sink: TypeAlias = Callable[[AppliedBatch], None]


def console(batch: AppliedBatch) -> None:
    """One line a batch: what is new, what is resolved, what is open."""
    print(line_of(batch.delta), flush=True)  # noqa: T201


def batch_folder(path: str | os.PathLike[str], batch: str) -> str:
    """Where Spark writes what belongs to one batch: a URL stays one, of which a `Path` would lose a slash.

    >>> batch_folder("s3a://bucket/out", "orders-1f:7")
    's3a://bucket/out/batch=orders-1f-7'
    """
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in batch)
    return f"{spark_place(path, 'sink')}/batch={name}"


@dataclass(frozen=True)
class Parquet:
    """Appends what each batch added and removed to a parquet table, a folder a batch, so that none is there twice."""

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        spark_place(self.path, "sink")

    def __call__(self, batch: AppliedBatch) -> None:
        """Write one batch over whatever an earlier attempt wrote of it."""
        batch.frame().drop("batch").write.mode("overwrite").parquet(batch_folder(self.path, batch.delta.batch))


@dataclass(frozen=True)
class Call:
    """Calls a function with the delta of each batch."""

    function: Callable[[Delta], None]

    def __call__(self, batch: AppliedBatch) -> None:
        """Hand over the delta."""
        self.function(batch.delta)


@dataclass(frozen=True)
class Write:
    """Hands what each batch added and removed to a function as a data frame, to be written anywhere."""

    function: Callable[[DataFrame], None]

    def __call__(self, batch: AppliedBatch) -> None:
        """Hand over the data frame."""
        self.function(batch.frame())
