"""The first half of a batch: at their homes changes meet the rows they change, and go on to the routes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdstrue.data.changes import Changes, Origin, Places
from holdstrue.detect.sequence import is_gone
from holdstrue.errors import HoldstrueError
from holdstrue.shards.dispatch import RowVersions, dispatch
from holdstrue.shards.layout import HOME, Job
from holdstrue.shards.routes import Worker, split
from holdstrue.shards.scatter import COMMIT, SOMEWHERE, Scatter
from holdstrue.shards.wire import OP, ROWS, SEQ, SHARD, SUMMARY, Message, failure, receive, say, send
from holdstrue.sources.feeds.changelog import settled

MOST_BYTES = 16 << 20
"""A batch said to be small that holds more is taken the long way: some 150,000 rows of a hundred bytes."""


@dataclass(frozen=True)
class Homes:
    """The stage in which each task owns some homes."""

    job: Job

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Changes in, rows for the routes and what the driver must know out."""
        return send(self.messages(list(receive(batches))))

    def messages(self, messages: list[Message]) -> Iterator[Message]:
        """The same for messages."""
        yield from (message for message in messages if message.kind != ROWS)
        try:
            yield from self._applied([message for message in messages if message.kind == ROWS])
        except HoldstrueError as error:
            yield failure(error, HOME)

    def _applied(self, messages: list[Message]) -> Iterator[Message]:
        layout = self.job.layout
        versions: dict[str, list[RowVersions]] = {}
        with Worker(self.job) as worker:
            for number, tables in split(messages).items():
                changes = {table: self._changes(table, rows) for table, rows in tables.items()}
                shard = worker.take(number)
                changes, late = shard.sequenced(changes)
                if any(late.values()):
                    yield say(SUMMARY, {"late": late})
                incoming = shard.resolve(changes, self.job.on_conflict)
                for table, part in incoming.items():
                    if is_gone(table):
                        continue  # no rule reads it, so that it stays at home
                    old = shard.engine.tables[table].rows.take(part.old)
                    versions.setdefault(table, []).append(RowVersions.of(part, old))
                if any(part.values.num_rows or part.old.size for part in incoming.values()):
                    yield worker.applied(number, shard, incoming, layout.home_checks)
            for table, parts in versions.items():
                yield from dispatch(self.job, table, RowVersions.join(parts))
            yield from worker.listed()

    def _changes(self, table: str, rows: pa.Table) -> Changes:
        """Rows of one table in the order in which they happened."""
        order = np.argsort(rows.column(SEQ).to_numpy(), kind="stable")
        if COMMIT in rows.column_names:
            order = order[np.argsort(rows.column(COMMIT).to_numpy()[order], kind="stable")]
        rows = rows.take(pa.array(order))
        ops = rows.column(OP).to_numpy().astype(np.uint8)
        values = rows.drop_columns([name for name in (OP, SEQ, SHARD, COMMIT) if name in rows.column_names])
        position = rows.column(SEQ).to_numpy() & ((1 << 40) - 1)
        places = Places((Origin(SOMEWHERE, 1 << 40),), position)
        changes = Changes(values, ops, places)
        if COMMIT not in rows.column_names:
            return changes
        return settled(changes, ops, rows.column(COMMIT).to_numpy(), self.job.layout.keys[table], partial=True)


@dataclass(frozen=True)
class OneTask:
    """Reading changes and all homes in one task, for batches so small that a shuffle costs more than it spreads."""

    scatter: Scatter
    homes: Homes

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of changes in, rows for the routes and what the driver must know out."""
        messages, size = [], 0
        for message in self.scatter.messages(batches):
            messages.append(message)
            size += message.payload.size
            if size > MOST_BYTES:
                yield from send([say(SUMMARY, {"overflow": True})])
                return
        yield from send(self.homes.messages(messages))
