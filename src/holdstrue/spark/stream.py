"""Streams: every micro-batch of a streaming data frame applied once, then handed to the sinks."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from holdstrue.detect.delta import Delta
from holdstrue.errors import ChangeError, DataError, HoldstrueError
from holdstrue.location import is_elsewhere, spark_place
from holdstrue.monitor.in_shards import require_feed
from holdstrue.progress import LOG
from holdstrue.shards.scatter import PATH, SOMEWHERE
from holdstrue.spark.files import literal
from holdstrue.spark.letters import BadBatch, Letters, OnBadBatch, letters_of
from holdstrue.spark.monitor import SparkMonitor
from holdstrue.spark.sinks import AppliedBatch, Sink
from holdstrue.state.lock import HeldError
from holdstrue.state.object_url import is_object_url
from holdstrue.state.store import fixed_place
from holdstrue.state.versions import GoneError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SPARK = "spark"
"""The folder of Spark's own checkpoint."""
WAITED = 120.0
"""Seconds for which a batch waits for another process that writes the state: through Spark Connect each stream is a
process of its own, and one monitor may have several. Chosen: a batch takes less."""
LOOKED_AGAIN = 0.1
"""Seconds between two attempts, little beside a batch."""
MODIFIED = "modificationTime"
"""The column in which Spark's source of binary files says how old a file is."""


@dataclass(frozen=True)
class Batches:
    """What Spark calls with every micro-batch, in this process or, through Spark Connect, beside the server."""

    path: str
    place: str
    """Where the stream keeps how it stands."""
    stream: str
    """The name of the stream, and of its checkpoint if that is on this machine."""
    table: str | None
    sinks: tuple[Sink, ...]
    options: Mapping[str, Any]
    on_bad_batch: OnBadBatch = "stop"
    letters: Letters | None = None
    """Who gets the batches that are set aside."""

    def __call__(self, changes: DataFrame, number: int) -> None:
        """Apply a micro-batch that may have been applied before the last crash, and hand it on.

        Of files each is a batch of its own, so that a bad one does not hold back those before it.
        """
        monitor = SparkMonitor(changes.sparkSession, self.path)
        name = f"{self.stream}{spark_id(changes.sparkSession, self.place)}-{number}"
        if self.options["feed"] != "files":
            self._applied(monitor, changes, name)
            return
        found = {f"{name}-{PurePosixPath(path).name}": path for path in self._files(changes, name)}
        # those before the last one that was applied are done: the sinks had each before the next was begun
        done = next((own for own in reversed(found) if monitor.seen(own)), None)
        first = 0 if done is None else list(found).index(done)
        for own, path in list(found.items())[first:]:
            self._applied(monitor, monitor.files([path]), own, path)

    def _applied(self, monitor: SparkMonitor, changes: DataFrame, name: str, *files: str) -> None:
        # the sinks read what the last batch did, so no other thread may apply one before they are done
        with monitor.alone():
            try:
                changed = {self.table: changes} if self.table else changes
                delta = self._in_turn(monitor, changed, name, self.options)
            except (ChangeError, DataError) as error:
                delta = self._bad(monitor, changes, name, files, in_file(error, *files))
            if not delta.duplicate:
                self._hand_on(monitor, delta, files)
            elif self.sinks:
                self._hand_on_again(monitor, name, files)

    def _hand_on(self, monitor: SparkMonitor, delta: Delta, files: tuple[str, ...]) -> None:
        for sink in self.sinks:
            sink(AppliedBatch(monitor, delta, files))

    def _hand_on_again(self, monitor: SparkMonitor, name: str, files: tuple[str, ...]) -> None:
        """Hand on a batch that was committed before a crash: nobody can say whether the sinks had it.

        Others may have been applied since, such as those of another stream, so that it is read from its own version.
        """
        then, limit = monitor, self.options["limit"]
        last = monitor.last(limit)
        if last is None or last.batch != name:
            last = None
            version = monitor.made_by(name)
            with suppress(GoneError):
                if version is not None:
                    then = SparkMonitor(monitor.spark, self.path, at=version)
                    last = then.last(limit)
        if last is None:
            LOG.warning("batch %s: it was applied before, and what it did is no longer kept: sinks may lack it", name)
        else:
            self._hand_on(then, last, files)

    def _in_turn(self, monitor: SparkMonitor, changes: Any, name: str, options: Mapping[str, Any]) -> Delta:
        """Apply a batch when no other process writes the state, such as another stream's beside a Connect server."""
        until = time.monotonic() + WAITED
        while True:
            try:
                return monitor.apply(changes, name, **options)
            except HeldError:
                if time.monotonic() > until:
                    raise
                time.sleep(LOOKED_AGAIN)

    def _bad(
        self, monitor: SparkMonitor, changes: DataFrame, name: str, files: tuple[str, ...], error: HoldstrueError
    ) -> Delta:
        """Pass over a batch that does not fit, as was asked for: nothing of it is applied, now or later.

        That is committed under its name, so that the batch is not tried again after a crash, when it might fit.
        """
        if self.on_bad_batch == "stop":
            raise error
        done = "passed over"
        if self.letters is not None:
            done = "set aside"
            rows = changes
            if files:
                rows = changes.sparkSession.read.format("binaryFile").load([f"file:{literal(Path(f))}" for f in files])
            self.letters(BadBatch(name, self.table or monitor.facts.main, rows, error, files))
        said = f"the batch was {done}: {error.message}"
        LOG.warning("batch %s: %s", name, said)
        return replace(self._in_turn(monitor, {}, name, {"limit": 0}), notes=(said,))

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


def in_file(error: HoldstrueError, *path: str) -> HoldstrueError:
    """The same error with the name of the file that holds all of the changes, if there is one."""
    if len(path) != 1:
        return error
    said = error.message.replace(SOMEWHERE, path[0])
    return type(error)(said if path[0] in said else f"{path[0]}: {said}", hint=error.hint)


def start_stream(
    monitor: SparkMonitor,
    changes: DataFrame,
    sinks: Sequence[Sink],
    table: str | None,
    name: str,
    checkpoint: str | os.PathLike[str] | None,
    trigger: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    on_bad_batch: OnBadBatch = "stop",
    dead_letters: str | os.PathLike[str] | Letters | None = None,
) -> StreamingQuery:
    """Start the query that feeds a monitor."""
    if not changes.isStreaming:
        raise HoldstrueError("the changes are not a stream", hint="read them with spark.readStream, or use apply")
    if name in ("", ".", "..") or "/" in name:
        raise HoldstrueError(f"a stream cannot be called {name!r}", hint="give a name without slashes: a folder has it")
    require_feed(options["feed"])
    if table is not None:
        monitor.facts.known_table(table)
    place = stream_place(monitor.path, name, checkpoint, files=options["feed"] == "files")
    stream = name if is_elsewhere(place) else stream_name(Path(place), name)
    letters = letters_of(on_bad_batch, dead_letters, place)
    batches = Batches(monitor.path, place, stream, table, tuple(sinks), dict(options), on_bad_batch, letters)

    def each(frame: DataFrame, number: int) -> None:
        batches(frame, number)

    # what is meant is this machine, whatever file system Spark takes a plain path for
    own = place if is_elsewhere(place) else f"file:{place}"
    writer = changes.writeStream.foreachBatch(each).option("checkpointLocation", f"{own}/{SPARK}")
    writer = writer.queryName(f"holdstrue {name} {uuid.uuid4().hex[:6]}")
    if trigger:
        writer = writer.trigger(**trigger)
    return writer.start()


def stream_place(state: str, name: str, checkpoint: str | os.PathLike[str] | None, *, files: bool = False) -> str:
    """Where a stream keeps how it stands: a folder of this machine, or a URL that Spark writes to.

    Parameters
    ----------
    files
        Whether the stream is one of change files, whose order is written beside Spark's checkpoint.
    """
    if checkpoint is None and is_object_url(state):
        raise HoldstrueError(
            f"a stream into {state} needs a place of its own for where it stands",
            hint="give checkpoint=: a folder of the driver's machine that stays, or a URL that this Spark "
            "has a connector for (s3a://, abfss://, gs://, hdfs://)",
        )
    if checkpoint is None:
        return str(Path(state) / "streams" / name)
    if not is_elsewhere(checkpoint):
        return fixed_place(checkpoint)
    if files:
        raise HoldstrueError(
            f"a stream of change files keeps their order beside its checkpoint, which cannot be at {checkpoint}",
            hint="give a folder of the driver's machine, or read the changes with spark.readStream",
        )
    return spark_place(checkpoint, "checkpoint of a stream")


def spark_id(spark: SparkSession, place: str) -> str:
    """What tells a checkpoint at a URL from one that was there before: Spark's own id of it; empty for a folder."""
    if not is_elsewhere(place):
        return ""
    said = spark.read.text(f"{place}/{SPARK}/metadata").toArrow().column(0).to_pylist()
    return "-" + str(json.loads("".join(said))["id"])[:8]


def stream_name(place: Path, name: str) -> str:
    """The name of a stream and of its checkpoint: a checkpoint made anew counts its batches from 0 again."""
    place.mkdir(parents=True, exist_ok=True)
    token = place / "name"
    if not token.exists() or not (place / SPARK).exists():
        token.write_text(f"{name}-{uuid.uuid4().hex[:8]}", encoding="utf-8")
    return token.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Streams:
    """Several streams into one monitor, followed as one."""

    queries: Mapping[str, StreamingQuery]
    """By table."""

    @property
    def isActive(self) -> bool:  # noqa: N802  # as Spark's queries have it
        """Whether all of them run."""
        return all(query.isActive for query in self.queries.values())

    def exception(self) -> Exception | None:
        """What ended the first of them that failed."""
        return next((error for query in self.queries.values() if (error := query.exception()) is not None), None)

    def awaitTermination(self) -> None:  # noqa: N802
        """Wait until all have ended; one that fails ends the others, and its error is raised."""
        while any(query.isActive for query in self.queries.values()) and self.exception() is None:
            for query in self.queries.values():
                if query.isActive:
                    query.awaitTermination(1)
                    break
        if (error := self.exception()) is not None:
            self.stop()
            raise error

    def processAllAvailable(self) -> None:  # noqa: N802
        """Wait until all that is there now is applied."""
        for query in self.queries.values():
            query.processAllAvailable()

    def stop(self) -> None:
        """End all of them."""
        for query in self.queries.values():
            query.stop()
