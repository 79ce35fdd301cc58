"""Streams of changes into a state: where they come from, what is said of each batch, how they end."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from holdstrue import errors
from holdstrue.cli.alerting import send_alert
from holdstrue.cli.cluster import refuse_lake
from holdstrue.cli.failures import spark_says, with_option
from holdstrue.cli.output import tell_notes
from holdstrue.errors import ChangeError, DataError, HoldstrueError
from holdstrue.location import local_path

if TYPE_CHECKING:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from holdstrue.alerts import Alert
    from holdstrue.cli.output import Output
    from holdstrue.spark.sinks import AppliedBatch

TABLE = "table:"
_FILE = "path string, modificationTime timestamp, length long, content binary"
_NOT_BEING_WRITTEN = "{*[^p],*[^m]p,*[^t]mp,*[^.]tmp}"

# an error in Python's report of it, which goes on with the next error or with what Spark adds
_ERROR = re.compile(
    r"^holdstrue\.errors\.(\w+): (.*?)(?=\n\n(?:The above|During handling) |\s+SQLSTATE: |\n=== |\Z)",
    re.DOTALL | re.MULTILINE,
)

POLL = 0.2
"""Seconds between two looks at whether a signal came."""


class Stopped(Exception):  # noqa: N818
    """Ends a stream after a batch; what is left is taken up by the next start."""


class ChangeSource(Protocol):
    """Where changes come from."""

    @property
    def name(self) -> str:
        """A name for the stream, the same at every start and different from those of other sources."""

    def frame(self, spark: SparkSession) -> DataFrame:
        """The streaming data frame."""

    def options(self, feed: str, op_column: str | None) -> dict[str, Any]:
        """How a monitor is to take the data frame, when its changes are written so."""


@dataclass(frozen=True)
class Folder:
    """A directory into which change files are put; each is a batch, the oldest first, then by name."""

    path: Path
    read: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The last part of the path, and a digest of all of it."""
        return _named(self.path.name, str(self.path))

    def frame(self, spark: SparkSession) -> DataFrame:
        """Paths and ages of files; Spark itself passes over names that start with `.` or `_` or end in `._COPYING_`."""
        from holdstrue.sources.datafiles import COMPRESSIONS, ENDINGS
        from holdstrue.spark.files import literal

        known = f"*{{{','.join(ENDINGS)}}}{{,{','.join(COMPRESSIONS)}}}"
        files = (
            spark.readStream.format("binaryFile")
            .schema(_FILE)
            .option("pathGlobFilter", known if self.read.get("format") is None else _NOT_BEING_WRITTEN)
            # else a file that is a week older than the newest one would never be read
            .option("maxFileAge", "36500d")
        )
        return files.load(f"file:{literal(self.path)}").select("path", "modificationTime")

    def options(self, feed: str, op_column: str | None) -> dict[str, Any]:
        """Each file is read whole, as one process reads it."""
        return {"feed": "files", "read": {**self.read, "feed": feed, "op_column": op_column}}


@dataclass(frozen=True)
class ChangingTable:
    """A table whose catalog keeps a log of its changes."""

    table: str
    since: str | None

    @property
    def name(self) -> str:
        """The name of the table, and a digest of it."""
        return _named(self.table, self.table)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Rows with what became of them."""
        from pyspark.errors import PySparkException

        reader = spark.readStream if self.since is None else spark.readStream.option("startingVersion", self.since)
        try:
            return reader.changes(self.table)
        except (PySparkException, AttributeError) as error:
            raise DataError(
                f"no changes of table {self.table!r} can be read: {spark_says(error)}",
                hint="its catalog must keep a change log (Spark 4.2 or newer); "
                "settings of catalogs are given with --conf",
            ) from error

    def options(self, feed: str, op_column: str | None) -> dict[str, Any]:
        """The rows are in the data frame."""
        return {"feed": feed, "op_column": op_column}


def source_of(text: str, since: str | None, read: Mapping[str, Any]) -> ChangeSource:
    """The source that a command names; `read` is how its files are read."""
    if text.startswith(TABLE) and text != TABLE:
        if "units" in read:
            raise HoldstrueError("--unit is about events in files", hint="a table has types of its own")
        return ChangingTable(text.removeprefix(TABLE), since)
    if since is not None:
        raise HoldstrueError("--since is about tables", hint=f"files are all read once; tables are {TABLE}NAME")
    path = Path(local_path(text))
    if not path.is_dir():
        raise DataError(f"there is no directory {text!r}", hint=f"give a directory of change files, or {TABLE}NAME")
    refuse_lake([text])
    return Folder(path.resolve(), read)


def _named(label: str, identity: str) -> str:
    short = re.sub(r"[^A-Za-z0-9_]+", "-", label).strip("-")[:40] or "files"
    return f"{short}-{hashlib.sha256(identity.encode()).hexdigest()[:6]}"


class Stop:
    """Whether the stream is to end: a first signal asks for it, a second one ends the process at once."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def __bool__(self) -> bool:
        return self._asked.is_set()

    def wait(self, seconds: float) -> None:
        """Wait for so long, or until the end is asked for."""
        self._asked.wait(seconds)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Listen to SIGINT and SIGTERM while the block runs."""
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def ask(number: int, _: Any) -> None:
            self._asked.set()
            signal.signal(number, signal.SIG_DFL)

        for number in before:
            signal.signal(number, ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@dataclass(frozen=True)
class Teller:
    """The sink that says what each batch did, and ends the stream after one if that was asked for."""

    out: Output
    format: str
    told: Path
    """Keeps the name of the last batch that was told, since a stream that was ended hands it over again."""
    stop: Stop
    alert: Alert | None = None
    """Tells others about a batch."""

    def __call__(self, batch: AppliedBatch) -> None:
        """Say it, in one line."""
        from holdstrue.report.answers import BatchLine
        from holdstrue.report.forms import parts

        name = batch.delta.batch
        if not self.told.exists() or self.told.read_text(encoding="utf-8") != name:
            tell_notes(batch.delta.notes)
            files = tuple(PurePosixPath(path).name for path in batch.files)
            self.out.write(parts(BatchLine(batch.delta, files, dt.datetime.now(dt.UTC)), self.format))
            if self.alert is not None:
                send_alert(self.alert, batch.delta)
            self.told.write_text(name, encoding="utf-8")
        if self.stop:
            raise Stopped


def follow(query: StreamingQuery, stop: Stop) -> None:
    """Wait until a stream ends by itself, by an error, or because it was asked to."""
    while query.isActive:
        time.sleep(POLL)
        # while a batch runs, the sink ends the stream when it is through
        if stop and not query.status["isTriggerActive"]:
            query.stop()
    error = query.exception()
    if error is None:
        return
    found = reason(error)
    if found is not None:
        raise (with_option(found) if isinstance(found, ChangeError) else found) from error
    if not stop:
        raise error


def reason(error: StreamingQueryException) -> HoldstrueError | None:
    """The error of ours that Spark found in a batch, and of which only the text is left."""
    said = _ERROR.findall(str(error))
    if not said:
        return None
    # where one error led to another, the last one is what was raised
    kind, text = said[-1]
    message, _, hint = text.strip().partition("\nhint: ")
    made: HoldstrueError = getattr(errors, kind, HoldstrueError)(message, hint=hint or None)
    return made
