"""The monitor on Spark: data frames of changes in, violations as data frames out, state where all workers see it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdstrue.detect.delta import Delta, RuleCounts
from holdstrue.detect.resolve import OnConflict
from holdstrue.discovery.suspects.held import BUDGET
from holdstrue.errors import DataError, HoldstrueError
from holdstrue.index.protocol import IndexKind
from holdstrue.monitor.monitor import LIMIT
from holdstrue.monitor.sharded import Sharded
from holdstrue.rules.types import types_of_table
from holdstrue.shards.facts import Facts
from holdstrue.shards.lists import settled
from holdstrue.shards.reading import Listing, tasks_in
from holdstrue.shards.runner import HOT_FROM, Sizing
from holdstrue.spark.named import named_frames
from holdstrue.spark.runner import SparkRunner, column
from holdstrue.spark.suspecting.searching import suspects_of_frame
from holdstrue.spark.suspecting.stages import SuspectQuestion
from holdstrue.spark.tables import key_type, violations_frame, violations_type
from holdstrue.state.files import StateFiles
from holdstrue.state.manifest import RunFile
from holdstrue.state.moment import Given

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from holdstrue.spark.letters import Letters, OnBadBatch
    from holdstrue.spark.sinks import Sink
    from holdstrue.spark.stream import Streams

VIOLATIONS = "_violations"
PATHS = "path string"
BY_TABLE = ("sequence_by", "backfill", "feed", "schema", "checkpoint")
"""Options of a stream that several streams may have each their own of."""


class SparkMonitor(Sharded):
    """Keeps the violations of a rule set current while data frames of changes arrive.

    Parameters
    ----------
    spark
        The session; `holdstrue.spark.start` makes one that suits. Spark Connect will do.
    path
        Where the state is: a URL such as `s3://bucket/state`, for which driver and workers have
        credentials in their own environments and caches on their own disks, or a directory of a
        file system that all of them share. It is opened if it is there, also when one process
        made it, and made with these rules otherwise.
    rules, key
        As for `holdstrue.Monitor`; not needed for a state that is there.
    data
        Rows to start with, if the state is new: a data frame, a table of the catalog by its name,
        a query, or a mapping from table name.
    types
        What columns hold, as for `holdstrue.Monitor`: text is parsed so, in every batch.
    shards, blocks, tasks
        How rows are spread: shards of each route, blocks of the grid of a hot place, tasks of a
        batch. Chosen by the number of rows and cores unless given.
    hot_from
        From so many first rows on, a sample is searched for hot keys.
    at
        An earlier version of a state that is there, to be read only: as for `holdstrue.Monitor.open`.
    sequence_by
        As for `holdstrue.Monitor`: the column that says which change of a row is newer, for changes that come late.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str | os.PathLike[str],
        rules: Any = None,
        key: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        *,
        data: DataFrame | str | Mapping[str, DataFrame | str] | None = None,
        index: IndexKind = "blocks",
        types: Mapping[str, str] | None = None,
        shards: int | None = None,
        blocks: int | None = None,
        tasks: int | None = None,
        hot_from: int = HOT_FROM,
        at: Given | None = None,
        sequence_by: str | Mapping[str, str] | None = None,
    ) -> None:
        self.spark = spark
        self._spark_runner = SparkRunner(spark)
        sizing = Sizing(shards, blocks, tasks, hot_from)
        super().__init__(
            self._spark_runner, path, rules, key,
            index=index, types=types, sizing=sizing, at=at, sequence_by=sequence_by,
        )  # fmt: skip
        if data is not None:
            if self.batches:
                raise HoldstrueError(
                    f"{self.path} holds {self.batches} batches already", hint="leave data out to go on with it"
                )
            self.notes = self.apply(data, limit=0, feed="append").notes

    def _apply(self, changes: Any, batch_id: str | int | None, *how: Any, **options: Any) -> Delta:
        name = "the next batch" if batch_id is None else f"batch {batch_id}"
        with self._spark_runner.about(f"{name} into {self.path}"):
            return super()._apply(named_frames(changes, self.spark), batch_id, *how, **options)

    def counts(self) -> dict[str, RuleCounts]:
        """How each rule stands; a job where rows are in several shards."""
        with self._spark_runner.about(f"counts of {self.path}"):
            return super().counts()

    def violations(self, rule: str | None = None) -> DataFrame:  # type: ignore[override]  # as Spark has lists
        """All violations there are now: rule, pair, t and s, read from the shards when the data frame is read."""
        return self._frame(self.listing(rule))

    def delta(self) -> DataFrame:
        """What the last batch added (change 1) and removed (-1), as far as it was listed."""
        with self._kept(read_only=True) as kept:
            now = kept.current()
            one_list = kept.some_moved
        if now is None:
            return self.spark.createDataFrame([], violations_type(pa.string(), change=True))
        job, layout = now.job, now.job.layout
        stage = Lists(self.path, job.version, 1 if one_list else job.tasks)
        source = self._spark_runner.numbers(job.tasks)
        return violations_frame(source, stage, layout, range(len(layout.plan.checks)), change=True)

    def _frame(self, listing: Listing | None) -> DataFrame:
        if listing is None:
            return self.spark.createDataFrame([], violations_type(pa.string()))
        source = self._spark_runner.numbers(listing.job.tasks)
        return violations_frame(source, ListingTask(listing), listing.job.layout, listing.checks)

    # --- rows with what is wrong with them -------------------------------------------------------

    def annotated(self, rows: DataFrame, *, table: str | None = None) -> DataFrame:
        """The rows of a table with a column `_violations`: an array of rule, partner (a key, as text) and message.

        It tells what the monitor knows: rows are told by their key, and of a key that it does not have it knows none.
        """
        facts, name, rows = self._declared(rows, table)
        key = facts.keys[name]
        if VIOLATIONS in rows.columns:
            raise DataError(f"the rows have a column {VIOLATIONS!r} already", hint="drop it: frame.drop('_violations')")
        listing = self.listing(table=name)
        found = self._frame(listing)
        several = len(key) > 1
        typed = listing is not None and key_type(listing.job.layout, listing.checks) is not None
        messages = self.spark.createDataFrame(
            [(rule.name, rule.description or rule.text) for rule in facts.rules], "rule string, message string"
        )
        pairs = found.filter("pair").select("rule", F.col("s").alias("t"), F.col("t").alias("s"))
        sides = found.select("rule", "t", "s").unionAll(pairs).join(F.broadcast(messages), "rule")
        partner = F.to_json("s") if several and typed else F.col("s").cast("string")
        entry = F.struct("rule", partner.alias("partner"), "message")
        by_row = sides.groupBy("t").agg(F.sort_array(F.collect_list(entry)).alias(VIOLATIONS))
        names = [f":key {i}" for i in range(len(key))]
        for i, part in enumerate(key):
            by_row = by_row.withColumn(names[i], column("t").getField(part) if several and typed else column("t"))
        by_row = by_row.drop("t")
        match = [column(part).eqNullSafe(column(alias)) for part, alias in zip(key, names, strict=True)]
        joined = rows.join(by_row, match, "left").drop(*names)
        nothing = F.array().cast("array<struct<rule: string, partner: string, message: string>>")
        return joined.withColumn(VIOLATIONS, F.coalesce(F.col(VIOLATIONS), nothing))

    def _declared(self, rows: DataFrame, table: str | None) -> tuple[Facts, str, DataFrame]:
        """What the state says, which of its tables the rows are of, and the rows with their declared types."""
        with self._kept(read_only=True) as kept:
            facts = kept.facts
        name = facts.known_table(table or facts.main)
        declared = types_of_table(facts.rules.types, name, facts.main, facts.keys)
        if declared and name in facts.schemas:
            rows = self._spark_runner.declared(rows, declared, facts.schemas[name])
        for part in facts.keys[name]:
            if part not in rows.columns:
                raise DataError(f"the rows have no key column {part!r}", hint=f"they have {', '.join(rows.columns)}")
        return facts, name, rows

    def suspects(self, rows: DataFrame | None = None, *, table: str | None = None, discover: bool = True) -> Any:
        """Cells of a table's rows that are probably wrong, by the monitor's rules, which are believed.

        With `discover` also by rules that the rows themselves speak for (see `holdstrue.spark.suspects`). Nothing of it
        is kept current: every call looks at all rows that it is given. Without rows it is refused, as these lie in
        shards: `holdstrue.Monitor.open(path).suspects()` reads them in one process.
        """
        if rows is None:
            return super().suspects(table=table, discover=discover)
        facts, name, rows = self._declared(rows, table)
        own = tuple(rule for rule in facts.rules if (rule.own_table or facts.main) == name)
        asked = SuspectQuestion(name, (), replace(facts.rules, rules=own), discover, BUDGET)
        return suspects_of_frame(self._spark_runner, rows, asked, tuple(facts.keys[name]))

    def quarantine(self, rows: DataFrame, *, table: str | None = None) -> tuple[DataFrame, DataFrame]:
        """The rows of a table without violations, and those with some, annotated."""
        annotated = self.annotated(rows, table=table)
        clean = annotated.filter(F.size(VIOLATIONS) == 0).drop(VIOLATIONS)
        return clean, annotated.filter(F.size(VIOLATIONS) > 0)

    # --- streams ---------------------------------------------------------------------------------

    def stream(
        self,
        changes: DataFrame,
        sinks: Sequence[Sink] = (),
        *,
        table: str | None = None,
        name: str = "stream",
        checkpoint: str | os.PathLike[str] | None = None,
        trigger: Mapping[str, Any] | None = None,
        limit: int | None = LIMIT,
        on_conflict: OnConflict = "error",
        feed: str = "auto",
        op_column: str | None = None,
        read: Mapping[str, Any] | None = None,
        one_task: bool = False,
        schema: str | StructType | None = None,
        sequence_by: str | None = None,
        on_bad_batch: OnBadBatch = "stop",
        dead_letters: str | os.PathLike[str] | Letters | None = None,
        backfill: DataFrame | None = None,
    ) -> StreamingQuery:
        """Apply every batch of a streaming data frame, once each, and hand what it did to the sinks.

        Parameters
        ----------
        changes
            A streaming data frame of changes of one table.
        sinks
            What is called with every applied batch (see `holdstrue.spark.sinks`).
        name, checkpoint
            Where the stream stands is kept under `checkpoint`, by default `streams/NAME` in the
            state directory: the same place goes on where it stopped. A stream into a state at a
            URL must be given one: a folder of the driver's machine, or a URL that Spark writes to.
        trigger
            As for Spark's `trigger`: `{"processingTime": "5 seconds"}`, `{"availableNow": True}`.
        feed, op_column, read
            As for `apply`. `feed="kafka"` takes what Spark's source of that name gives: JSON in `value`, which is
            Debezium's events, rows with an operation or rows alone (`read={"feed": "debezium"}` says which).
        schema
            The columns of the table, where it has had no rows: `"id long, zip string"`. Values of Kafka are read so.
        sequence_by
            The column that says which change of a row is newer: late changes that are older lose (see `apply`). For
            Kafka also what stands around the row: `source.lsn`, `ts_ms`, `offset`.
        on_bad_batch, dead_letters
            What becomes of a batch that does not fit. `stop` ends the stream with the error; `skip` passes over the
            batch, `quarantine` also keeps its rows and the reason: in a parquet table at `dead_letters`, by default
            beside the checkpoint, or by calling it with a `BadBatch`. Either is committed under the batch's id.
        backfill
            Rows to start with, applied once before the stream is first followed. Where it overlaps with the stream,
            `sequence_by` or `on_conflict="upsert"` settles that.
        """
        from holdstrue.spark.stream import start_stream

        if schema is not None:
            read = {**(read or {}), "schema": to_arrow_schema(_struct(schema), timezone="UTC")}
        read = {**(read or {}), "widen": True}
        if backfill is not None:
            first: Any = {table: backfill} if table else backfill
            # what stands around Kafka's rows, others do not have: any change is newer than they are
            by: Any = {table or self.facts.main: sequence_by} if sequence_by in backfill.columns else None
            self.apply(first, f"{name}: backfill", limit=0, feed="append", sequence_by=by)
        options = {
            "limit": limit,
            "on_conflict": on_conflict,
            "feed": feed,
            "op_column": op_column,
            "read": read,
            "one_task": one_task,
            "sequence_by": sequence_by,
        }
        return start_stream(self, changes, sinks, table, name, checkpoint, trigger, options, on_bad_batch, dead_letters)

    def streams(
        self, changes: Mapping[str, DataFrame], sinks: Sequence[Sink] = (), *, name: str = "stream", **options: Any
    ) -> Streams:
        """Follow several streams at once, by the table that each is of; options are those of `stream`.

        Options whose value is a mapping by table (`sequence_by`, `backfill`, `feed`, `schema`, `checkpoint`) are each
        stream's own.
        """
        from holdstrue.spark.stream import Streams

        for table in changes:
            self.facts.known_table(table)
        started: dict[str, StreamingQuery] = {}
        try:
            for table, frame in changes.items():
                own: dict[str, Any] = {
                    option: value.get(table) if option in BY_TABLE and isinstance(value, Mapping) else value
                    for option, value in options.items()
                }
                own = {option: value for option, value in own.items() if value is not None}
                started[table] = self.stream(frame, sinks, table=table, name=f"{name}-{table}", **own)
        except BaseException:
            for query in started.values():
                query.stop()
            raise
        return Streams(started)

    def files(self, paths: Iterable[str | os.PathLike[str]]) -> DataFrame:
        """A data frame of change files for `apply(..., feed="files")`: each is read whole, as one process reads it."""
        return self.spark.createDataFrame([(os.fspath(path),) for path in paths], PATHS)


def _struct(schema: str | StructType) -> StructType:
    """Columns as Spark's users write them."""
    return cast("StructType", StructType.fromDDL(schema)) if isinstance(schema, str) else schema


@dataclass(frozen=True)
class ListingTask:
    """The stage that lists violations of the shards of its tasks."""

    listing: Listing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Numbers of tasks in, lists out."""
        return self.listing.tables(tasks_in(batches))


@dataclass(frozen=True)
class Lists:
    """The stage that reads the lists of a batch."""

    path: str
    version: int
    tasks: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Numbers of tasks in, lists out."""
        own = tasks_in(batches)
        with StateFiles(self.path) as files:
            listed = [RunFile.of(data) for data in files.manifest(self.version).get("delta", ())]
            wanted = [file for at, file in enumerate(listed) if at % self.tasks in own]
            yield from settled(table for file in wanted for table in files.read_tables(file))
