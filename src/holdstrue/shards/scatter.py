"""Changes as they come in a data frame: told by its columns, brought to the neutral form and sent to their homes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.changes import Changes, Origin, Places
from holdstrue.data.notes import Notes
from holdstrue.detect.ordering import SAMPLE
from holdstrue.detect.resolve import fitted
from holdstrue.detect.sequence import sequence_of
from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.rules.types import Declared
from holdstrue.shards.dispatch import first_rows
from holdstrue.shards.facts import plain_field, typed
from holdstrue.shards.layout import HOME, Columns, Job
from holdstrue.shards.passing import Passing
from holdstrue.shards.wire import (
    LAID,
    OP,
    ROWS,
    SEQ,
    SHARD,
    SUMMARY,
    Lay,
    Message,
    failure,
    pack,
    say,
    send,
    to_tasks,
)
from holdstrue.sources.datafiles import ReadOptions
from holdstrue.sources.feeds.batches import (
    Opened,
    find_op_column,
    log_columns,
    not_for_units,
    open_changes,
    read_changes,
    recognise,
)
from holdstrue.sources.feeds.changelog import LOGS, read_log
from holdstrue.sources.feeds.debezium import debezium_table
from holdstrue.sources.feeds.kafka import COLUMNS as RECORD
from holdstrue.sources.feeds.kafka import VALUE, kafka_changes
from holdstrue.sources.feeds.target import Target
from holdstrue.typing import I64

COMMIT = ":commit"
KAFKA = "kafka"
"""The feed whose rows are records of a message log."""
PATH = "path"
SOMEWHERE = "a partition of the changes"
"""What errors call the place of rows that came in a data frame."""

ENTRIES = 200_000
"""First rows are taken up so many at a time, counted on the route that has most copies of them: a row of a rule without
equalities is in as many cells as its grid has blocks, and a worker of 512 MB does not hold 100,000 rows in 15 cells.
"""

PARTITION: ContextVar[int] = ContextVar("partition", default=0)
"""The number of the partition that this task reads, where a runner knows it."""

_PARTITION_ROWS = 1 << 40
"""Rows are in order inside a partition, and partitions in the order of their numbers."""


@dataclass(frozen=True)
class Scatter:
    """The stage that reads a data frame of changes of one table."""

    job: Job
    table: str
    feed: str
    """append, ops, debezium, delta or iceberg; `files` for a data frame of paths of change files."""
    op_column: str | None = None
    first: bool = False
    """Whether these are the first rows of the state, which go to homes and routes at once."""
    read: Mapping[str, Any] = field(default_factory=dict)
    seen: pa.Schema | None = None
    """All columns of the table, kept or not."""
    types: Mapping[str, Declared] = field(default_factory=dict)
    """What is declared of the columns of change files."""
    laid: bool = False
    """Whether first rows travel in files of the state, and messages only say where they lie."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of changes in, messages out."""
        return send(self.messages(batches))

    def messages(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
        """The messages themselves."""
        if not self.laid:
            yield from self._messages(batches, ROWS, pack)
            return
        with Passing(self.job.path, self.job.version + 1) as passing:
            yield from self._messages(batches, LAID, passing.lay)

    def _messages(self, batches: Iterable[pa.RecordBatch], kind: int, lay: Lay) -> Iterator[Message]:
        at = PARTITION.get() * _PARTITION_ROWS
        notes = Notes()
        try:
            for batch in (part for whole in batches for part in self._parts(whole)):
                for part, commits in self._changes(pa.Table.from_batches([batch]), at, notes):
                    yield from self.sent(part, commits, at, kind, lay)
                    at += len(part)
            if notes:
                yield say(SUMMARY, {"notes": list(notes)})
        except HoldstrueError as error:
            yield failure(error, HOME)

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A batch in parts that are no more than `ENTRIES` rows where they arrive. Complexity: O(parts)."""
        if not self.first or not batch.num_rows:
            return iter((batch,))
        step = max(1, ENTRIES // max(self.job.layout.copies))
        return (batch.slice(start, step) for start in range(0, batch.num_rows, step))

    def _changes(self, rows: pa.Table, at: int, notes: Notes) -> Iterator[tuple[Changes, I64 | None]]:
        schema = self.job.layout.plan.schemas[self.table]
        target = Target(self.job.layout.keys[self.table], schema, "ignore")
        if self.feed == "files":
            # a file may have all columns of the table, and a column of the table is never an operation
            whole = Target(target.key, self.seen, needed=frozenset(schema.names), notes=notes)
            for path in rows.column(PATH).to_pylist():
                opened = open_file(path, whole, {**self.read, "types": self.types})
                if opened.feed in LOGS:
                    # a commit may lie in several files, so that only the rows' homes can settle it
                    yield _log(opened.table, opened.places, whole, opened.feed)
                else:
                    yield opened.changes(), None
            return
        if self.feed == KAFKA:
            whole = Target(target.key, self.seen, needed=frozenset(schema.names), notes=notes)
            read = {**self.read, "types": self.types}
            yield read_records(rows, whole, read, sequence_of(self.job.layout.plan.schemas, self.table)), None
            return
        if self.feed in LOGS:
            position = np.arange(rows.num_rows, dtype=np.int64) + at % _PARTITION_ROWS
            yield _log(rows, Places((Origin(SOMEWHERE, _PARTITION_ROWS),), position), target, self.feed)
            return
        units = {name: unit for name, unit in self.read.get("units", {}).items() if name in target.names}
        options: dict[str, Any] = {"feed": self.feed, "op_column": self.op_column, "units": units}
        yield read_changes(rows, key=target.key, schema=schema, extra="ignore", **options), None

    def sent(
        self, changes: Changes, commits: I64 | None, at: int, kind: int = ROWS, lay: Lay = pack
    ) -> Iterator[Message]:
        """Changes to their homes; first rows also to the routes."""
        layout = self.job.layout
        rows = fitted(changes, layout.plan.schemas[self.table], layout.keys[self.table])
        columns = Columns(rows)
        home, block, _ = layout.home(self.table, columns)
        sent = rows.append_column(OP, pa.array(changes.ops)).append_column(SHARD, pa.array(home))
        if not self.first:  # where nothing is there yet, nothing depends on the order
            sent = sent.append_column(SEQ, pa.array(np.arange(at, at + rows.num_rows, dtype=np.int64)))
        if commits is not None:
            sent = sent.append_column(COMMIT, pa.array(commits))
        yield from to_tasks(sent, self.job.task_of(home), kind, HOME, self.table, lay)
        if self.first:
            yield from first_rows(self.job, self.table, columns, block, kind, lay)


def open_file(path: str, target: Target, read: Mapping[str, Any]) -> Opened:
    """Read a change file by its path as Spark writes it."""
    local = path.removeprefix("file:").replace("///", "/", 1) if path.startswith("file:") else path
    known = {name: value for name, value in read.items() if name in ("feed", "op_column", "format")}
    asked = {name: value for name, value in read.items() if name not in (*known, "units", "schema", "widen")}
    target = replace(target, units=read.get("units", {}))
    if "null_values" in asked:
        asked["null_values"] = tuple(asked["null_values"])
    return open_changes(local, target, options=ReadOptions(None, target.schema, notes=target.notes, **asked), **known)


def read_records(rows: pa.Table, target: Target, read: Mapping[str, Any], sequence: str | None) -> Changes:
    """Read records of a message log."""
    known = {name: value for name, value in read.items() if name in ("feed", "op_column")}
    target = replace(target, units=read.get("units", {}))
    options = ReadOptions(None, target.schema, types=read.get("types", {}), notes=target.notes)
    return kafka_changes(rows, target, options, sequence=sequence, **known)


def types_in(paths: Iterable[str], target: Target, read: Mapping[str, Any]) -> pa.Schema:
    """The types that columns which were all NULL so far have in some change files. Complexity: O(size of the files)."""
    found: dict[str, pa.DataType] = {}
    for path in paths:
        for column in open_file(path, target, read).changes().rows.schema:
            if not pa.types.is_null(column.type):
                found.setdefault(column.name, column.type)
    return pa.schema(found)


def _log(rows: pa.Table, places: Places, target: Target, feed: str) -> tuple[Changes, I64]:
    changes, roles, commits = read_log(rows, places, target, LOGS[feed])
    return Changes(changes.rows, roles, changes.places), commits


@dataclass(frozen=True)
class Feed:
    """How the changes of a data frame are written."""

    kind: str
    schema: pa.Schema
    """Columns and types of the table that the changes are for."""
    names: tuple[str, ...]
    op_column: str | None = None

    @property
    def only_inserts(self) -> bool:
        """Whether nothing is updated or deleted."""
        return self.kind == "append"

    def columns(self, needed: Sequence[str]) -> list[str]:
        """What is read of the data frame for these columns of the table."""
        if self.kind in ("debezium", "files", KAFKA):
            return list(self.names)
        about = (*log_columns(self.kind), *((self.op_column,) if self.op_column else ()))
        return [name for name in self.names if name in needed or name in about]


def feed_of(
    frame: pa.Schema,
    key: Sequence[str],
    seen: pa.Schema | None,
    feed: str,
    op_column: str | None,
    sample: pa.Table | None,
    units: Mapping[str, str] | None = None,
    notes: Notes | None = None,
    sequence: str | None = None,
    *,
    widen: bool = False,
) -> Feed:
    """The feed of a data frame with these columns; a table not seen before takes its types from it.

    What Debezium's events hold shows in the first of them only, the `sample`.
    For `files`, `frame` is what the files hold, as far as some column of the table was never seen with a value.
    """
    names = tuple(frame.names)
    if feed == "files":
        if seen is None:
            raise ChangeError(
                "the columns of the table are not known yet", hint="load its rows first, or apply a data frame"
            )
        return Feed("files", typed(seen, frame), (PATH,))
    if feed == KAFKA:
        return _records_feed(names, seen, sequence)
    target = Target(tuple(key), seen, "error" if seen is not None else "ignore", units=dict(units or {}))
    target.check_units()
    table = sample if sample is not None else pa.Table.from_batches([], schema=frame)
    if feed == "auto":
        feed = recognise(table, target, op_column)
    if feed == "ops" and op_column is None:
        op_column = find_op_column(table, target)
    if feed == "debezium":
        return Feed(feed, seen if seen is not None else _first_types(table, target), names)
    if target.units:
        raise not_for_units(feed)
    about = {*log_columns(feed), op_column}
    own = [field for field in frame if field.name not in about or field.name in target.names]
    if seen is None:
        return Feed(feed, pa.schema([plain_field(field) for field in own]), names, op_column)
    new = [field.name for field in own if field.name not in seen.names]
    if new and notes is not None:
        shown = ", ".join(map(repr, new))
        notes.add(f"the changes have columns that the table did not have: {shown}; left out, since no rule reads them")
    return Feed(feed, typed(seen, frame, widen=widen), names, op_column)


def _records_feed(names: Sequence[str], seen: pa.Schema | None, sequence: str | None) -> Feed:
    """The feed of records, whose values must be read with types that are known."""
    if VALUE not in names:
        raise ChangeError(
            f"the records have no column {VALUE!r}",
            hint=f"read them with format('kafka'); they have {', '.join(names)}",
        )
    if seen is None:
        raise ChangeError(
            "the columns of the table are not known yet",
            hint='give schema= ("id long, zip string"), or load its rows first (data=, backfill=)',
        )
    if sequence is not None and sequence not in seen.names:
        # it stands in the event around the row, or beside it
        seen = seen.append(pa.field(sequence, pa.int64()))
    return Feed(KAFKA, seen, tuple(name for name in RECORD if name in names))


def _first_types(sample: pa.Table, target: Target) -> pa.Schema:
    """The columns of the rows inside Debezium's events, as the first of them tell."""
    places = Places((Origin("the changes", sample.num_rows),))
    return pa.schema([plain_field(field) for field in debezium_table(sample, places, target).rows.schema])


@dataclass(frozen=True)
class FirstSeen:
    """Values of columns that a batch is the first to hold, as many as tell what they look like."""

    runner: Any
    frames: Mapping[str, Any]
    feeds: Mapping[str, Feed]
    keys: Mapping[str, tuple[str, ...]]
    read: Mapping[str, Any]

    def values(self, table: str, column: str) -> Any:
        """The first values of a column."""
        frame, feed, key = self.frames[table], self.feeds[table], self.keys[table]
        if feed.kind == "files":
            target = Target(key, feed.schema, "ignore")
            paths = self.runner.sample(frame, 2**31 - 1, 0).column(PATH).to_pylist()
            parts = [open_file(path, target, self.read).changes().rows.column(column) for path in paths]
            return pa.chunked_array([chunk for part in parts for chunk in part.chunks], type=parts[0].type)
        if feed.kind == KAFKA:
            rows = self.runner.sample(self.runner.select(frame, feed.names), SAMPLE, 0)
            return read_records(rows, Target(key, feed.schema, "ignore"), self.read, None).rows.column(column)
        if feed.kind == "debezium":
            rows = self.runner.sample(frame, SAMPLE, 0)
            return read_changes(rows, key=key, schema=feed.schema, feed="debezium", extra="ignore").rows.column(column)
        return self.runner.sample(self.runner.select(frame, [column]), SAMPLE, 0).column(0)
