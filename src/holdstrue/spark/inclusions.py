"""Inclusions between data frames, kept current on Spark: values are counted in shards, only counters reach the driver.

The state directory is that of `DurableInclusions`, which opens it in one process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from holdstrue.discovery.found import Died, RuleTurnover
from holdstrue.discovery.inclusions.attributes import columns_of, comparisons, inclusion
from holdstrue.discovery.inclusions.durable import about, checked_arrays, told
from holdstrue.discovery.inclusions.unary import FoundInclusion, ValueLayout
from holdstrue.discovery.inclusions.value_stages import Census, CountRows, ShiftCounts, Wake
from holdstrue.discovery.options import Proportion, most_of
from holdstrue.errors import ChangeError
from holdstrue.index.arrays import Snapshot
from holdstrue.rules.model import Inclusion
from holdstrue.shards.wire import SUMMARY, Message, raised
from holdstrue.spark.runner import SparkRunner
from holdstrue.state.journal import BATCHES, Journal, facts_of
from holdstrue.state.manifest import RunFile
from holdstrue.state.runs import Runs
from holdstrue.state.store import fixed_place
from holdstrue.typing import I64, Mask

SHARDS = 64
"""Shards of a new state, a power of two: as many tasks as this may work at a time. Chosen, not tuned."""


class Inclusions:
    """The inclusions between the columns of some data frames, in a state at a URL or where tasks and driver share it.

    Only net counts travel to the shards and only counters of pairs of columns to the driver, 24 bytes for each
    that changes; values may outgrow any one machine.
    """

    def __init__(self, spark: SparkSession, path: str | os.PathLike[str], *, tasks: int | None = None) -> None:
        self.path = fixed_place(path)
        self._runner: SparkRunner = SparkRunner(spark)
        self._tasks = tasks
        self._options, self._schemas = facts_of(self.path, "inclusions", told)
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
        spark = next(iter(frames.values())).sparkSession
        runner = SparkRunner(spark)
        schemas = {name: runner.schema(frame) for name, frame in frames.items()}
        options = ValueLayout(compare="text" if as_text else "types", shards=shards)
        count = len(columns_of(schemas))
        with Journal.create(path, "inclusions") as journal:
            base = {"summary": journal.files.write_arrays("summary", 0, _summary(np.zeros((count, count), np.int64)))}
            facts = {**about(options, schemas), "shards": {}, "values": 0}
            journal.commit(journal.write_checkpoint(base, BATCHES.schema.empty_table(), facts))
        made = cls(spark, path, tasks=tasks)
        made._run(frames, None, op_column=None, checkpoint=True)
        return made

    def apply(
        self, changes: Mapping[str, DataFrame], batch_id: str | None = None, *, op_column: str | None = None
    ) -> RuleTurnover:
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
            shared = _shared(journal, len(self._attributes))
        values = np.diagonal(shared)
        missing = values[:, None] - shared
        found = np.argwhere(self._comparable & (missing <= most_of(error, values)[:, None]))
        return tuple(FoundInclusion(self._body(a, b), int(values[a]), int(missing[a, b])) for a, b in found)

    def _body(self, left: int, right: int) -> Inclusion:
        return inclusion(self._attributes[left], self._attributes[right])

    def _run(
        self, frames: Mapping[str, DataFrame], batch: str | None, *, op_column: str | None, checkpoint: bool | None
    ) -> RuleTurnover:
        with Journal.open(self.path, "inclusions") as journal:
            if batch is not None and journal.seen(batch):
                return RuleTurnover()
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

    def _committed(self, journal: Journal, messages: Sequence[Message], batch: str) -> RuleTurnover:
        shared = _shared(journal, len(self._attributes))
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
        line, files, version = journal.line(batch), journal.files, journal.version + 1
        file = files.write_arrays("summary", version, _summary(shared))
        if fresh:
            written = journal.write_checkpoint({"summary": file}, line, {"shards": shards, "values": values})
        else:
            runs = Runs({**runs.base, "now": file}, runs.log, runs.log_rows)
            written = journal.write_batch([], 0, line, {"shards": shards}, runs=runs)
        journal.commit(written)
        after = _included(shared) & self._comparable
        return RuleTurnover(
            tuple(Died(self._body(a, b)) for a, b in np.argwhere(before & ~after)),
            tuple(self._body(a, b) for a, b in np.argwhere(after & ~before)),
        )


def _included(shared: I64) -> Mask:
    found: Mask = shared == np.diagonal(shared)[:, None]
    return found


def _summary(shared: I64) -> Snapshot:
    return {"loaded": np.ones(shared.shape[0], dtype=np.uint8), "shared": shared}


def _shared(journal: Journal, attributes: int) -> I64:
    base = journal.runs.base
    arrays = checked_arrays(journal.files, base.get("now", base["summary"]))
    shared: I64 = arrays.array("shared", np.int64, (attributes, attributes)).copy()
    journal.files.verified()
    return shared
