"""Inclusions in shards of values: the stages of a batch, which any runner runs.

A value lives in the shard of its digest, with how often each column holds it (paper 004's generator). Rows become
net counts, a task applies them to its shards, writes them as a run, and says which pairs of columns now share more or
fewer values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.discovery.inclusions.attributes import Contents, columns_of, fitting
from holdstrue.discovery.inclusions.counted_values import LackingError, Values
from holdstrue.discovery.inclusions.counters import shifted
from holdstrue.discovery.inclusions.durable import checked_arrays, tallies_in
from holdstrue.discovery.inclusions.net_changes import NetChanges, net, shard_of, tally
from holdstrue.discovery.inclusions.unary import ValueLayout
from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.shards.wire import ROWS, SUMMARY, Message, failure, pack, receive, say, send, to_tasks
from holdstrue.sources.feeds.target import match_words
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import BATCHES
from holdstrue.state.manifest import RunFile
from holdstrue.state.runs import Runs

_STEPS = {"insert": 1, "i": 1, "c": 1, "r": 1, "+": 1, "delete": -1, "d": -1, "-": -1}
_open: dict[tuple[str, int], tuple[tuple[str, ...], Values]] = {}
"""Shards that this worker keeps between batches, with the names of the files that they are made of."""


@dataclass(frozen=True)
class Census:
    """What every task of a batch is told."""

    path: str
    version: int
    tasks: int
    schemas: Mapping[str, pa.Schema]
    options: ValueLayout
    checkpoint: bool

    @property
    def attributes(self) -> int:
        """How many columns are looked at."""
        return len(columns_of(self.schemas))


@dataclass(frozen=True)
class CountRows:
    """The stage that turns rows of one table into net counts of values."""

    census: Census
    table: str
    op_column: str | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, counts for the shards out."""
        return send(self._messages(batches))

    def _messages(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
        census = self.census
        try:
            for batch in batches:
                counted = self._tally(pa.Table.from_batches([batch]))
                shards = shard_of(np.repeat(counted.hi, np.diff(counted.offsets)), census.options.shards)
                tasks = (shards % census.tasks).astype(np.int32)
                yield from to_tasks(counted.to_table(), tasks, ROWS, 0, self.table)
        except HoldstrueError as error:
            yield failure(error, 0)

    def _tally(self, rows: pa.Table) -> NetChanges:
        census = self.census
        steps = np.ones(rows.num_rows, dtype=np.int16)
        if self.op_column is not None:
            found = match_words(rows.column(self.op_column), _STEPS)
            if found is None or not np.isin(found, (1, -1)).all() or rows.column(self.op_column).null_count:
                raise ChangeError(
                    f"column {self.op_column!r} of the changes of {self.table!r} holds other words than operations",
                    hint="insert or delete; an update is the delete of the old row and the insert of the new one",
                )
            steps = found
        parts = []
        for step in (1, -1):
            own = np.flatnonzero(steps == step)
            if own.size:
                taken = rows if own.size == rows.num_rows else rows.take(pa.array(own))
                options = census.options
                contents = Contents(fitting(self.table, census.schemas, taken), options.compare, options.seed)
                parts += [
                    (number, contents.of(attribute.columns), step)
                    for number, attribute in enumerate(columns_of(census.schemas))
                    if attribute.table == self.table
                ]
        return tally(parts, census.attributes)


@dataclass(frozen=True)
class ShiftCounts:
    """The stage in which each task owns some shards of values."""

    census: Census

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Counts in; runs, and pairs of columns with what changed between them, out."""
        return send(self._messages(list(receive(batches))))

    def _messages(self, messages: list[Message]) -> Iterator[Message]:
        yield from (message for message in messages if message.kind not in (ROWS, -1))
        rows = [message.table() for message in messages if message.kind == ROWS]
        owned = sorted({message.task for message in messages if message.kind in (ROWS, -1)})
        try:
            with StateFiles(self.census.path) as files:
                yield from self._shifted(files, owned, rows)
        except HoldstrueError as error:
            yield failure(error, 1)

    def _shifted(self, files: StateFiles, owned: list[int], rows: list[pa.Table]) -> Iterator[Message]:
        census, manifest = self.census, files.manifest(self.census.version)
        log, touched, logged = [], [], Logged(files, Runs.of(manifest).log, census)
        for number, part in enumerate(_net(rows, census).split(census.options.shards)):
            if number % census.tasks not in owned or not (part.changes or census.checkpoint):
                continue
            values, names = _taken(files, manifest, logged, number, census)
            try:
                left, right, by = shifted(values, part, census.attributes)
            except LackingError as error:
                raise error.told(columns_of(census.schemas)) from error
            if left.size:
                told = pa.table({"left": left, "right": right, "by": by})
                yield Message(0, SUMMARY, 0, "shared", pack(told))
            if census.checkpoint:
                file = files.write_arrays("values", census.version + 1, values.snapshot())
                _open[census.path, number] = ((file.name,), values)
                yield say(SUMMARY, {"shard": number, "file": file.to_dict(), "values": values.living})
            else:
                log.append(part.to_table())
                touched.append((number, names, values))
        if log:
            # the driver writes the batch's line of history
            run = files.write_tables("batch", census.version + 1, [BATCHES.schema.empty_table(), pa.concat_tables(log)])
            for number, names, values in touched:
                _open[census.path, number] = ((*names, run.name), values)
            yield say(SUMMARY, {"run": run.to_dict(), "changes": sum(len(table) for table in log)})


@dataclass(frozen=True)
class Wake:
    """The stage that makes sure that every task runs, also one that gets no rows."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers of tasks in, a word to each out."""
        tasks = [int(task) for batch in batches for task in batch.column(0).to_pylist()]
        return send(Message(task, -1, 0, "", pa.py_buffer(b"")) for task in tasks)


def _net(rows: list[pa.Table], census: Census) -> NetChanges:
    """Counts of several batches and tables as one."""
    table = pa.concat_tables(rows).combine_chunks() if rows else None
    empty = np.empty(0, dtype=np.uint64)
    if table is None or not table.num_rows:
        return net(empty, empty, np.empty(0, np.bool_), np.empty(0, np.int32), np.empty(0, np.int32), census.attributes)
    hi, lo, owner, steps = (table.column(name).to_numpy().copy() for name in ("hi", "lo", "attribute", "net"))
    return net(hi, lo, np.ones(hi.size, dtype=np.bool_), owner, steps, census.attributes)


class Logged:
    """The runs since the checkpoint, each read once for all shards of a task."""

    def __init__(self, files: StateFiles, runs: Sequence[RunFile], census: Census) -> None:
        self.runs = runs
        self._files = files
        self._census = census
        self._read: dict[str, list[list[NetChanges]]] = {}

    def parts(self, number: int, held: Collection[str]) -> Iterator[NetChanges]:
        """What the runs that a shard does not hold yet change in it, oldest first."""
        new = [file for file in self.runs if file.name not in held]
        self._files.bring(file for file in new if file.name not in self._read)
        for file in new:
            if file.name not in self._read:
                counted = tallies_in(self._files, file, self._census.attributes)
                self._read[file.name] = [one.split(self._census.options.shards) for one in counted]
            yield from (parts[number] for parts in self._read[file.name])


def _taken(
    files: StateFiles, manifest: Mapping[str, Any], logged: Logged, number: int, census: Census
) -> tuple[Values, tuple[str, ...]]:
    """A shard as the manifest has it, out of the pool if it is there."""
    known, log = manifest["shards"].get(str(number)), logged.runs
    base = [known["base"]["values"]["name"]] if known else []
    names = (*base, *(file.name for file in log))
    held, values = _open.pop((census.path, number), ((), None))
    # a shard that took in a batch which was never committed is made of files that nobody names
    if values is None or not set(base) <= set(held) <= set(names):
        held, values = (), Values(census.attributes)
        if known:
            values.restore(checked_arrays(files, RunFile.of(known["base"]["values"])))
    change = np.zeros((census.attributes, census.attributes), dtype=np.int64)
    for part in logged.parts(number, held):
        values.shift(values.number(part), part, change)
    return values, names
