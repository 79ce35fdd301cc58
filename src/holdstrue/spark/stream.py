"""Streams: every micro-batch of a streaming data frame applied once, then handed to the sinks."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.location import local_path
from holdstrue.shards.scatter import PATH, SOMEWHERE
from holdstrue.spark.monitor import SparkMonitor
from holdstrue.spark.sinks import AppliedBatch, Sink

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

MODIFIED = "modificationTime"
"""The column in which Spark's source of binary files says how old a file is."""


@dataclass(frozen=True)
class Batches:
    """What Spark calls with every micro-batch, in this process or, through Spark Connect, beside the server."""

    path: str
    place: str
    """Where the stream keeps how it stands."""
    stream: str
    table: str | None
    sinks: tuple[Sink, ...]
    options: Mapping[str, Any]

    def __call__(self, changes: DataFrame, number: int) -> None:
        """Apply a micro-batch that may have been applied before the last crash, and hand it on.

        Of files each is a batch of its own, so that a bad one does not hold back those before it.
        """
        monitor = SparkMonitor(changes.sparkSession, self.path)
        name = f"{self.stream}-{number}"
        if self.options["feed"] != "files":
            self._applied(monitor, changes, name)
            return
        for path in self._files(changes, name):
            file = PurePosixPath(path).name
            try:
                self._applied(monitor, monitor.files([path]), f"{name}-{file}", path)
            except ChangeError as error:
                raise in_file(error, path) from error

    def _applied(self, monitor: SparkMonitor, changes: DataFrame, name: str, *files: str) -> None:
        # the sinks read what the last batch did, so no other thread may apply one before they are done
        with monitor.alone():
            delta = monitor.apply({self.table: changes} if self.table else changes, name, **self.options)
            if delta.duplicate:
                # it was committed, but nobody can say whether the sinks had it
                last = monitor.last(self.options["limit"])
                if last is None or last.batch != name:
                    return
                delta = last
            for sink in self.sinks:
                sink(AppliedBatch(monitor, delta, files))

    def _files(self, changes: DataFrame, name: str) -> list[str]:
        """The files of a micro-batch in the order in which they were first seen: one that is mended keeps its turn."""
        note = Path(self.place) / "order.json"
        found = files_in(changes)
        known = json.loads(note.read_text(encoding="utf-8")) if note.exists() else {}
        if known.get("batch") == name:
            return sorted(found, key=known["files"].index)
        draft = note.with_name("order.tmp")
        draft.write_text(json.dumps({"batch": name, "files": found}), encoding="utf-8")
        draft.replace(note)
        return found


def files_in(changes: DataFrame) -> list[str]:
    """The files of a micro-batch: the oldest first where their age is known, then by name."""
    order = [name for name in (MODIFIED, PATH) if name in changes.columns]
    return [row[PATH].removeprefix("file:") for row in sorted(changes.select(*order).collect())]


def in_file(error: ChangeError, path: str) -> ChangeError:
    """The same error; what it says of a row of the changes is of the file that holds all of them."""
    return ChangeError(error.message.replace(SOMEWHERE, path), hint=error.hint)


def start_stream(
    monitor: SparkMonitor,
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
    # beside what Spark keeps there, files are written that say how the stream stands
    own = None if checkpoint is None else Path(local_path(checkpoint, "state"))
    place = own or Path(monitor.path) / "streams" / name
    batches = Batches(monitor.path, str(place), stream_name(place, name), table, tuple(sinks), dict(options))

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
