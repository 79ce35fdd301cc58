"""Inclusions between data frames, kept current on Spark: values are counted in shards, only counters reach the driver.

A value lives in the shard of its digest, with how often each column holds it (paper 004's generator). A batch
sends net counts to the shards; a task applies them, writes them as a run, and says which pairs of columns now
share more or fewer values. The state directory is that of `DurableInclusions`, which opens it in one process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from holdstrue.discovery.inclusions.attributes import Contents, columns_of, comparisons, fitting, inclusion
from holdstrue.discovery.inclusions.counters import shifted
from holdstrue.discovery.inclusions.durable import about, tallies_in, told
from holdstrue.discovery.inclusions.tally import Tally, net, shard_of, tally
from holdstrue.discovery.inclusions.unary import FoundInclusion, Options
from holdstrue.discovery.inclusions.values import LackingError, Values
from holdstrue.discovery.shares import Proportion, most_of
from holdstrue.discovery.turnover import Died, Turnover
from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.index.numbering import Snapshot
from holdstrue.location import local_path
from holdstrue.rules.model import Inclusion
from holdstrue.shards.wire import ROWS, SUMMARY, Message, failure, pack, raised, receive, say, send, to_tasks
from holdstrue.sources.feeds.target import match_words
from holdstrue.state.journal import BATCHES, Journal, Runs, manifest_of
from holdstrue.state.store import RunFile, Store
from holdstrue.typing import I64, Mask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdstrue.spark.runner import SparkRunner

SHARDS = 64
"""Shards of a new state, a power of two: as many tasks as this may work at a time. Chosen, not tuned."""

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
    options: Options
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

    def _tally(self, rows: pa.Table) -> Tally:
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
            with Store(self.census.path) as store:
                yield from self._shifted(store, owned, rows)
        except HoldstrueError as error:
            yield failure(error, 1)

    def _shifted(self, store: Store, owned: list[int], rows: list[pa.Table]) -> Iterator[Message]:
        census, manifest = self.census, store.manifest(self.census.version)
        log, touched = [], []
        for number, part in enumerate(_net(rows, census).split(census.options.shards)):
            if number % census.tasks not in owned or not (part.changes or census.checkpoint):
                continue
            values, names = _taken(store, manifest, number, census)
            try:
                left, right, by = shifted(values, part, census.attributes)
            except LackingError as error:
                raise _lacking(error, census) from error
            if left.size:
                told = pa.table({"left": left, "right": right, "by": by})
                yield Message(0, SUMMARY, 0, "shared", pack(told))
            if census.checkpoint:
                file = store.write_arrays("values", census.version + 1, values.snapshot())
                _open[census.path, number] = ((file.name,), values)
                yield say(SUMMARY, {"shard": number, "file": file.to_dict(), "values": values.living})
            else:
                log.append(part.to_table())
                touched.append((number, names, values))
        if log:
            # the driver writes the batch's line of history
            run = store.write_tables("batch", census.version + 1, [BATCHES.empty_table(), pa.concat_tables(log)])
            for number, names, values in touched:
                _open[census.path, number] = ((*names, run.name), values)
            yield say(SUMMARY, {"run": run.to_dict(), "changes": sum(len(table) for table in log)})


class Inclusions:
    """The inclusions between the columns of some data frames, in a state directory that tasks and driver share.

    Only net counts travel to the shards and only counters of pairs of columns to the driver, 24 bytes for each
    that changes; values may outgrow any one machine.
    """

    def __init__(self, spark: SparkSession, path: str | os.PathLike[str], *, tasks: int | None = None) -> None:
        from holdstrue.spark.runner import SparkRunner

        self.path = os.path.abspath(local_path(path, "state"))  # noqa: PTH100
        self._runner: SparkRunner = SparkRunner(spark)
        self._tasks = tasks
        self._options, self._schemas = told(manifest_of(self.path, "inclusions"))
        self._attributes = columns_of(self._schemas)
        self._comparable = comparisons(self._schemas, self._attributes, self._options.compare)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        frames: Mapping[str, DataFrame],
        *,
        as_text: bool = False,
        shards: int = SHARDS,
        tasks: int | None = None,
    ) -> Inclusions:
        """Count the values of all columns, and keep them. Complexity: O(rows x columns), over the tasks."""
        from holdstrue.spark.runner import SparkRunner

        spark = next(iter(frames.values())).sparkSession
        runner = SparkRunner(spark)
        schemas = {name: runner.schema(frame) for name, frame in frames.items()}
        options = Options(compare="text" if as_text else "types", shards=shards)
        count = len(columns_of(schemas))
        with Journal.create(path, "inclusions") as journal:
            base = {"summary": journal.store.write_arrays("summary", 0, _summary(np.zeros((count, count), np.int64)))}
            facts = {**about(options, schemas), "shards": {}, "values": 0}
            journal.commit(journal.write_checkpoint(base, BATCHES.empty_table(), facts))
        made = cls(spark, path, tasks=tasks)
        made._run(frames, None, op_column=None, checkpoint=True)
        return made

    def apply(
        self, changes: Mapping[str, DataFrame], batch_id: str | None = None, *, op_column: str | None = None
    ) -> Turnover:
        """Apply rows that come and go, of any tables together; says which inclusions ended and began.

        Rows are whole. `op_column` says `insert` or `delete` of each; without it all are inserts. Removing a
        row that is not there is refused, and nothing is changed. Complexity: O(cells of the batch), over the tasks.
        """
        for name in changes:
            if name not in self._schemas:
                raise ChangeError(f"no table {name!r} is looked at", hint=f"the tables are: {', '.join(self._schemas)}")
        return self._run(changes, batch_id, op_column=op_column, checkpoint=None)

    def rules(self, error: Proportion = 0.0) -> tuple[FoundInclusion, ...]:
        """The inclusions that miss no more than this share of the left side's distinct values."""
        with Journal.open(self.path, "inclusions", read_only=True) as journal:
            shared = _shared(journal)
        values = np.diagonal(shared)
        missing = values[:, None] - shared
        found = np.argwhere(self._comparable & (missing <= most_of(error, values)[:, None]))
        return tuple(FoundInclusion(self._body(a, b), int(values[a]), int(missing[a, b])) for a, b in found)

    def _body(self, left: int, right: int) -> Inclusion:
        return inclusion(self._attributes[left], self._attributes[right])

    def _run(
        self, frames: Mapping[str, DataFrame], batch: str | None, *, op_column: str | None, checkpoint: bool | None
    ) -> Turnover:
        with Journal.open(self.path, "inclusions") as journal:
            if batch is not None and journal.seen(batch):
                return Turnover()
            if checkpoint is None:
                checkpoint = journal.runs.due(0, journal.facts["values"])
            tasks = min(self._tasks or self._runner.tasks(), self._options.shards)
            census = Census(self.path, journal.version, tasks, self._schemas, self._options, checkpoint)
            sources: list[tuple[Any, Any]] = [
                (frame, CountRows(census, name, op_column)) for name, frame in frames.items()
            ]
            # a checkpoint writes shards that the batch does not touch too
            sources += [(None, Wake())] if checkpoint else []
            messages = list(self._runner.run(sources, [ShiftCounts(census)], tasks))
            raised(messages)
            return self._committed(journal, messages, batch or f"#{journal.version + 1}")

    def _committed(self, journal: Journal, messages: Sequence[Message], batch: str) -> Turnover:
        shared = _shared(journal)
        before = _included(shared) & self._comparable
        shards, runs, values = dict(journal.facts["shards"]), journal.runs, 0
        fresh = False
        for message in messages:
            if message.name == "shared":
                told = message.table()
                left, right, by = (told.column(name).to_numpy() for name in ("left", "right", "by"))
                np.add.at(shared, (left, right), by)
            elif message.kind == SUMMARY:
                said = message.data()
                if "run" in said:
                    runs = runs.appended(RunFile.of(said["run"]), said["changes"])
                else:
                    fresh = True
                    shards[str(said["shard"])] = {"base": {"values": said["file"]}, "log": []}
                    values += said["values"]
        line, store, version = journal.line(batch), journal.store, journal.version + 1
        file = store.write_arrays("summary", version, _summary(shared))
        if fresh:
            written = journal.write_checkpoint({"summary": file}, line, {"shards": shards, "values": values})
        else:
            runs = Runs({**runs.base, "now": file}, runs.log, runs.log_rows)
            runs = runs.appended(store.write_tables("batch", version, [line]), 0)
            written = journal.written(runs, line, {"shards": shards})
        journal.commit(written)
        after = _included(shared) & self._comparable
        return Turnover(
            tuple(Died(self._body(a, b)) for a, b in np.argwhere(before & ~after)),
            tuple(self._body(a, b) for a, b in np.argwhere(after & ~before)),
        )


@dataclass(frozen=True)
class Wake:
    """The stage that makes sure that every task runs, also one that gets no rows."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers of tasks in, a word to each out."""
        tasks = [int(task) for batch in batches for task in batch.column(0).to_pylist()]
        return send(Message(task, -1, 0, "", pa.py_buffer(b"")) for task in tasks)


def _net(rows: list[pa.Table], census: Census) -> Tally:
    """Counts of several batches and tables as one."""
    table = pa.concat_tables(rows).combine_chunks() if rows else None
    empty = np.empty(0, dtype=np.uint64)
    if table is None or not table.num_rows:
        return net(empty, empty, np.empty(0, np.bool_), np.empty(0, np.int32), np.empty(0, np.int32), census.attributes)
    hi, lo, owner, steps = (table.column(name).to_numpy().copy() for name in ("hi", "lo", "attribute", "net"))
    return net(hi, lo, np.ones(hi.size, dtype=np.bool_), owner, steps, census.attributes)


def _taken(store: Store, manifest: Mapping[str, Any], number: int, census: Census) -> tuple[Values, tuple[str, ...]]:
    """A shard as the manifest has it, out of the pool if it is there."""
    known, log = manifest["shards"].get(str(number)), Runs.of(manifest).log
    base = [known["base"]["values"]["name"]] if known else []
    names = (*base, *(file.name for file in log))
    held, values = _open.pop((census.path, number), ((), None))
    # a shard that took in a batch which was never committed is made of files that nobody names
    if values is None or not set(base) <= set(held) <= set(names):
        held, values = (), Values(census.attributes)
        if known:
            values.restore(dict(store.map_arrays(RunFile.of(known["base"]["values"]))))
    change = np.zeros((census.attributes, census.attributes), dtype=np.int64)
    for file in log:
        if file.name not in held:
            for counted in tallies_in(store, file):
                part = counted.split(census.options.shards)[number]
                values.shift(values.number(part), part, change)
    return values, names


def _included(shared: I64) -> Mask:
    found: Mask = shared == np.diagonal(shared)[:, None]
    return found


def _summary(shared: I64) -> Snapshot:
    return {"loaded": np.ones(shared.shape[0], dtype=np.uint8), "shared": shared}


def _shared(journal: Journal) -> I64:
    base = journal.runs.base
    arrays = journal.store.map_arrays(base.get("now", base["summary"]))
    journal.store.verified()
    return np.array(arrays["shared"])


def _lacking(error: LackingError, census: Census) -> ChangeError:
    attribute = columns_of(census.schemas)[error.attribute]
    return ChangeError(
        f"the batch removes rows with a value {error.times} times more often than it is in "
        f"{attribute.table}.{attribute.columns[0]}",
        hint="remove only rows that are in the table, with the values they have there",
    )
