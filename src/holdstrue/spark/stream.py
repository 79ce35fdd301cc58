"""Streams: every micro-batch of a streaming data frame applied once, then handed to the sinks."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from holdstrue.errors import HoldstrueError
from holdstrue.spark.monitor import Monitor
from holdstrue.spark.sinks import Batch, Sink

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class Batches:
    """What Spark calls with every micro-batch, in this process or, through Spark Connect, beside the server."""

    path: str
    stream: str
    table: str | None
    sinks: tuple[Sink, ...]
    options: Mapping[str, Any]

    def __call__(self, changes: DataFrame, number: int) -> None:
        """Apply a micro-batch that may have been applied before the last crash, and hand it on."""
        monitor = Monitor(changes.sparkSession, self.path)
        name = f"{self.stream}-{number}"
        delta = monitor.apply({self.table: changes} if self.table else changes, name, **self.options)
        if delta.duplicate:
            # it was committed, but nobody can say whether the sinks had it
            last = monitor.last(self.options["limit"])
            if last is None or last.batch != name:
                return
            delta = last
        for sink in self.sinks:
            sink(Batch(monitor, delta))


def start_stream(
    monitor: Monitor,
    changes: DataFrame,
    sinks: Sequence[Sink],
    table: str | None,
    name: str,
    checkpoint: str | os.PathLike[str] | None,
    trigger: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> StreamingQuery:
    """Start the query that feeds a monitor."""
    if not changes.isStreaming:
        raise HoldstrueError("the changes are not a stream", hint="read them with spark.readStream, or use apply")
    place = Path(checkpoint) if checkpoint is not None else Path(monitor.path) / "streams" / name
    batches = Batches(monitor.path, stream_name(place, name), table, tuple(sinks), dict(options))

    def each(frame: DataFrame, number: int) -> None:
        batches(frame, number)

    writer = changes.writeStream.foreachBatch(each).option("checkpointLocation", str(place / "spark"))
    if trigger:
        writer = writer.trigger(**trigger)
    return writer.start()


def stream_name(place: Path, name: str) -> str:
    """The name of a stream and of its checkpoint: a checkpoint made anew counts its batches from 0 again."""
    place.mkdir(parents=True, exist_ok=True)
    token = place / "name"
    if not token.exists() or not (place / "spark").exists():
        token.write_text(f"{name}-{uuid.uuid4().hex[:8]}", encoding="utf-8")
    return token.read_text(encoding="utf-8")
