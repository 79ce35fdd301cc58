"""Relations split over sites, on Spark: a batch is one job, in which parts of sites are partitions.

Ids go from part to part through Spark's shuffle; what crosses from a part of one site to a part of another counts as
shipped. The driver sees counts and names of files.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.fragments.fragment_layout import Site
from holdstrue.fragments.part_host import PartQuestion
from holdstrue.fragments.part_pool import POOL
from holdstrue.fragments.part_scatter import FILES, ChangedRows, Spread, Starting
from holdstrue.fragments.part_stages import APPLIES
from holdstrue.fragments.parted_relation import PartedRelation
from holdstrue.fragments.relation import LOAD
from holdstrue.fragments.relation_delta import RelationDelta
from holdstrue.rules.file import RuleSource
from holdstrue.shards.memory import rows_a_shard
from holdstrue.shards.runner import Frame, Sources
from holdstrue.shards.scatter import PATH, feed_of
from holdstrue.shards.wire import Message, send
from holdstrue.spark.estimates import estimated_bytes
from holdstrue.spark.runner import MESSAGES, SparkRunner, sendable

PART_BYTES = 64 << 20
"""Of what Spark thinks that the source of a site gives, for each of its parts: indexes take some three times that."""
PART_TIMES = 2
"""A part has so many times fewer rows than a shard of a monitor where workers are limited: it puts its rows in the
order of their ids, which copies them. Of 512 MB a worker 153,000 rows of six columns did not fit, and 67,000 do."""
LEAST_ROW_BYTES = 16
"""A changed row takes at least so many in a file or by Spark's estimate, even where they are compressed. Chosen."""
_UNKNOWN_BYTES = 2.0**50
"""Spark says 2^63 where it does not know."""
_MOST_PARTS = 1000

RULE = "rule"


def relation(
    spark: SparkSession,
    sites: Sequence[Site],
    rules: RuleSource,
    key: str | Sequence[str] | None = None,
    *,
    parts: int | None = None,
    tasks: int | None = None,
    **options: Any,
) -> SparkRelation:
    """A relation whose sites' sources are data frames (of files, of JDBC tables, of anything Spark reads).

    Parameters
    ----------
    sites
        Each with a data frame as its source, and with a state directory or URL that all workers reach.
    parts
        Into how many parts each site is cut by the keys of its rows; by default so many that none is large.
    tasks
        How many tasks share the parts of all sites in every stage; by default as many as run at a time.
    options
        Those of `holdstrue.fragments.Relation`.
    """
    runner = SparkRunner(spark)
    schemas = {}
    for site in sites:
        if site.state is None or not isinstance(site.source, _frames()):
            raise HoldstrueError(
                f"site {site.name!r} has no {'state directory' if site.state is None else 'data frame'}",
                hint="on Spark a site is Site(name, source=DATA_FRAME, state=DIRECTORY)",
            )
        schemas[site.name] = runner.schema(site.source)
    named = [s if s.columns is not None else replace(s, columns=tuple(schemas[s.name].names)) for s in sites]
    return SparkRelation(runner, named, rules, key, parts=parts, tasks=tasks, schema=schemas, **options)


def _rows_in(frame: DataFrame) -> float | None:
    """About how many rows a data frame has at most, where Spark says before anything is run."""
    size = estimated_bytes(frame)
    return None if size is None or size >= _UNKNOWN_BYTES else size / LEAST_ROW_BYTES


def _rows_of_files(paths: Sequence[str]) -> float | None:
    """About how many changes files of this machine hold at most; None of those elsewhere."""
    own = [Path(path) for path in paths]
    return sum(path.stat().st_size for path in own) / LEAST_ROW_BYTES if all(path.is_file() for path in own) else None


def _frames() -> tuple[type[Any], ...]:
    """What counts as a data frame, through Connect too."""
    try:
        from pyspark.sql.connect.dataframe import DataFrame as Connected
    except ImportError:  # Connect's own requirements are not installed
        return (DataFrame,)
    return (DataFrame, Connected)


@contextmanager
def _in_one_job(spark: SparkSession) -> Iterator[None]:
    """Plan for fixed tasks: Spark would else run every shuffle as a job of its own, to see how to cut it."""
    name = "spark.sql.adaptive.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, "false")
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


class SparkRelation(PartedRelation):
    """CFDs over a relation whose sites are data frames; made by `holdstrue.spark.relation`."""

    _runner: SparkRunner

    def _fresh_parts(self, sites: Sequence[Site]) -> int:
        worker = self._runner.worker_bytes()
        if worker is None:
            sizes = [estimated_bytes(site.source) for site in sites]
            known = [size for size in sizes if size is not None and size < _UNKNOWN_BYTES]
            return max(1, min(_MOST_PARTS, math.ceil(max(known, default=0) / PART_BYTES)))
        # how many bytes a source gives says little of what its rows take: these are counted, if no footers tell
        rows = max(self._rows_of(site.source) for site in sites)
        return max(1, min(_MOST_PARTS, math.ceil(rows * PART_TIMES / rows_a_shard(worker))))

    def _rows_of(self, frame: DataFrame) -> int:
        known = self._runner.known_rows(frame)
        return self._runner.count(frame) if known is None else known

    def load(self) -> RelationDelta:
        """Load every site from its own data frame; the first batch. One job."""
        with self._runner.about(f"{len(self._sources)} sites, {LOAD}"):
            return super().load()

    def apply(self, changes: Any, batch_id: str | None = None, **read: Any) -> RelationDelta:
        """Apply one batch of changes, whole or not at all, by one job.

        Parameters
        ----------
        changes
            A data frame with an operation column, or of new rows; or what `holdstrue.fragments.Relation.apply` takes.
        batch_id
            Names the batch: applied a second time, it does nothing.
        read
            Options of `read_changes`; of a data frame `feed` (ops, append) and `op_column`.
        """
        with self._runner.about(f"batch {batch_id or ''} at {len(self._sources)} sites".replace("  ", " ")):
            if not isinstance(changes, _frames()):
                return super().apply(changes, batch_id, **read)
            spread = self._spread_for(_rows_in(changes))
            sources = partial(self._changed_rows, spread, changes, **read)
            return self._apply(self._batch_name(batch_id), APPLIES, sources, spread)

    def apply_files(
        self, paths: Iterable[str | os.PathLike[str]], batch_id: str | None = None, **read: Any
    ) -> RelationDelta:
        """Apply change files as one batch; tasks read them."""
        names = [(str(Path(path).absolute()) if "://" not in str(path) else str(path),) for path in paths]
        with self._runner.about(f"batch {batch_id or ''} at {len(self._sources)} sites".replace("  ", " ")):
            frame = self._runner.spark.createDataFrame(names, f"{PATH} string").coalesce(1)
            seen = pa.schema([(name, self._design.types[name][0]) for name in self.layout.columns])
            spread = self._spread_for(_rows_of_files([path for (path,) in names]))
            sources: Sources = [(None, Starting(spread)), (frame, ChangedRows(spread, FILES, read=read, seen=seen))]
            return self._apply(self._batch_name(batch_id), APPLIES, lambda: sources, spread)

    def _changed_rows(
        self, spread: Spread, frame: DataFrame, feed: str = "auto", op_column: str | None = None
    ) -> Sources:
        """The changes of a data frame, in the order of its rows."""
        told = feed_of(self._runner.schema(frame), self.layout.key, self.schema, feed, op_column, None)
        if told.kind not in ("ops", "append"):
            raise ChangeError(
                f"changes of a data frame cannot be {told.kind} here", hint="give rows with an operation column"
            )
        own = self._runner.select(frame, told.columns(self.schema.names))
        stage = ChangedRows(spread, told.kind, told.op_column)
        return [(None, Starting(spread)), (own, stage)]

    def _run(
        self, batch: str, does: str, sources: Sources, spread: Spread
    ) -> tuple[dict[int, dict[str, Any]], list[Message]]:
        with _in_one_job(self._runner.spark):
            return super()._run(batch, does, sources, spread)

    def _frame_of(self, messages: Sequence[Message]) -> Frame:
        table = pa.Table.from_batches(send(messages))
        return self._runner.spark.createDataFrame(table, MESSAGES)

    def check(self) -> RelationDelta:
        """Everything from scratch; nothing of it is kept. One job."""
        with self._runner.about(f"check of {len(self._sources)} sites"):
            return super().check()

    def violating(self) -> DataFrame:
        """The rows that violate rules, as a data frame of the rule and the columns of the key. One job."""
        self._refuse_between()
        work = self._work
        key = [self.schema.field(name) for name in self.layout.key]
        schema = pa.schema([pa.field(RULE, pa.string()), *key])
        rules = tuple(self.rules.rules[cfd.rule].name for cfd in self._design.cfds)
        question = PartQuestion(work.parts, work.standing(), work.tasks, "violations", {})
        rows = self._runner.numbers(work.tasks).mapInArrow(
            sendable(ViolatingRows(question, rules, schema)), from_arrow_schema(schema)
        )
        # a row may violate several CFDs of one rule, found at different sites
        return rows.distinct() if len(set(rules)) < len(rules) else rows

    def counts(self) -> dict[str, int]:
        """By rule how many rows violate it, counted where they are."""
        with self._runner.about(f"counts of {len(self._sources)} sites"):
            told = self.violating().groupBy(RULE).agg(F.count("*").alias("rows")).toArrow().to_pylist()
        found = {row[RULE]: int(row["rows"]) for row in told}
        return {rule.name: found.get(rule.name, 0) for rule in self.rules}


@dataclass(frozen=True)
class ViolatingRows:
    """The stage that lists what parts know to violate."""

    question: PartQuestion
    rules: Sequence[str]
    """By CFD."""
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers of tasks in, rules and keys out."""
        numbers = {task for batch in batches for task in batch.column(0).to_pylist()}
        for part in self.question.parts:
            if part.number % self.question.tasks in numbers:
                held = POOL.take(part, self.question.standing[part.number])
                found: Mapping[int, pa.Table] = held.work.ask("violations")
                for cfd, keys in found.items():
                    rule = pa.array([self.rules[cfd]], pa.string())
                    named = keys.add_column(0, RULE, rule.take(pa.array([0] * keys.num_rows, pa.int32())))
                    yield from named.cast(self.schema).to_batches()
                POOL.put(part, held)
