"""Changes as they come in a data frame, brought to the neutral form and sent to their homes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.changes import Changes, Places, Source
from holdstrue.detect.resolve import fitted
from holdstrue.errors import HoldstrueError
from holdstrue.io.feeds import read_changes
from holdstrue.io.feeds.changelog import read_log
from holdstrue.io.feeds.delta import DELTA
from holdstrue.io.feeds.iceberg import ICEBERG
from holdstrue.io.feeds.target import Target
from holdstrue.plan.layout import HOME, Columns
from holdstrue.spark.dispatch import first_rows
from holdstrue.spark.job import Job
from holdstrue.spark.wire import OP, ROWS, SEQ, SHARD, Message, failure, send, to_tasks

COMMIT = ":commit"
PATH = "path"
SOMEWHERE = "a partition of the changes"
"""What errors call the place of rows that came in a data frame."""

_PARTITION_ROWS = 1 << 40
"""Rows are in order inside a partition, and partitions in the order of their numbers."""

_LOGS = {"delta": DELTA, "iceberg": ICEBERG}


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

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of changes in, messages out."""
        return send(self.messages(batches))

    def messages(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
        """The messages themselves."""
        at = partition() * _PARTITION_ROWS
        try:
            for batch in batches:
                for part, commits in self._changes(pa.Table.from_batches([batch]), at):
                    yield from self.sent(part, commits, at)
                    at += len(part)
        except HoldstrueError as error:
            yield failure(error, HOME)

    def _target(self) -> Target:
        schema = self.job.layout.plan.schemas[self.table]
        return Target(self.job.layout.keys[self.table], schema, "ignore")

    def _changes(self, rows: pa.Table, at: int) -> Iterator[tuple[Changes, NDArray[np.int64] | None]]:
        target = self._target()
        if self.feed == "files":
            for path in rows.column(PATH).to_pylist():
                local = path.removeprefix("file:").replace("///", "/", 1) if path.startswith("file:") else path
                # a file has all columns of the table, and a column of the table is never an operation
                yield read_changes(local, key=target.key, schema=self.seen, extra="error", **self.read), None
            return
        if self.feed in _LOGS:
            position = np.arange(rows.num_rows, dtype=np.int64) + at % _PARTITION_ROWS
            places = Places((Source(SOMEWHERE, _PARTITION_ROWS),), position)
            changes, roles, commits = read_log(rows, places, target, _LOGS[self.feed])
            yield Changes(changes.rows, roles, changes.places), commits
            return
        options: dict[str, Any] = {"feed": self.feed, "op_column": self.op_column}
        yield read_changes(rows, key=target.key, schema=target.schema, extra="ignore", **options), None

    def sent(self, changes: Changes, commits: NDArray[np.int64] | None, at: int) -> Iterator[Message]:
        """Changes to their homes; first rows also to the routes."""
        rows = self._complete(changes)
        columns = Columns(rows)
        home, block, _ = self.job.layout.home(self.table, columns)
        sent = rows.append_column(OP, pa.array(changes.ops))
        sent = sent.append_column(SEQ, pa.array(np.arange(at, at + rows.num_rows, dtype=np.int64)))
        sent = sent.append_column(SHARD, pa.array(home))
        if commits is not None:
            sent = sent.append_column(COMMIT, pa.array(commits))
        yield from to_tasks(sent, self.job.task_of(home), ROWS, HOME, self.table)
        if self.first:
            yield from first_rows(self.job, self.table, columns, block)

    def _complete(self, changes: Changes) -> pa.Table:
        """All kept columns; those that a batch of deletes leaves out are NULL."""
        schema = self.job.layout.plan.schemas[self.table]
        return fitted(changes, schema, self.job.layout.keys[self.table])


def partition() -> int:
    """The number of the partition that this task reads."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
