"""Relations split over sites, on Spark: a site is a data frame and a state directory, its work Spark jobs of its own.

Site work runs as `mapInArrow` over a data frame that holds the messages for the site (and, at a first load, its
own rows): what the channel hands over is an explicit data frame. What Spark moves to bring a site's own rows to
its task never leaves the site, and is reported apart (`SparkHost.inside`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.channel import SiteMessage
from holdstrue.fragments.fragment_layout import Site
from holdstrue.fragments.relation import Relation
from holdstrue.fragments.site_host import SiteHost
from holdstrue.fragments.site_job import (
    OWN_ROWS,
    START,
    WIRE,
    SiteCall,
    SiteJob,
    decoded,
    pack_batches,
    packed_rows,
    sent_rows,
    wire_row,
)
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.fragments.site_state import SiteState
from holdstrue.rules.file import RuleSource
from holdstrue.spark.runner import SparkRunner, column, sendable

_TYPES = {pa.int64(): LongType(), pa.string(): StringType(), pa.binary(): BinaryType()}
SENT = StructType([StructField(field.name, _TYPES[field.type]) for field in WIRE])

_LATER = frozenset({"receive", "settle", "open_check", "take_verdicts", "compare"})
"""Verbs that answer nothing: they are done with the next one that does, `prepare` and `finish` at the latest."""

_AHEAD: Mapping[str, SiteCall] = {"done": ("last", ()), "finish": ("sent", ())}
"""What is asked next anyway, and is answered by the same job."""

_READING = frozenset({"count", "done", "last", "presence", "violations", "violates", "size", "classes"})
"""Verbs that belong to no batch."""

MOST_JOBS = 8
"""Sites whose jobs run at the same time. Chosen, not tuned."""


def relation(
    spark: SparkSession,
    sites: Sequence[Site],
    rules: RuleSource,
    key: str | Sequence[str] | None = None,
    **options: Any,
) -> Relation:
    """A relation whose sites' sources are data frames (of files, of JDBC tables, of anything Spark reads).

    Every site needs a state directory that all workers reach. Options are those of `holdstrue.fragments.Relation`.
    """
    runner = SparkRunner(spark)
    schemas = {}
    for site in sites:
        if site.state is None or not isinstance(site.source, DataFrame):
            raise HoldstrueError(
                f"site {site.name!r} has no {'state directory' if site.state is None else 'data frame'}",
                hint="on Spark a site is Site(name, source=DATA_FRAME, state=DIRECTORY)",
            )
        schemas[site.name] = runner.schema(site.source)
    named = [s if s.columns is not None else replace(s, columns=tuple(schemas[s.name].names)) for s in sites]
    return Relation(named, rules, key, schema=schemas, host=partial(SparkHost, spark), **options)


class SparkHost(SiteHost):
    """Sites as Spark jobs. Nothing of a batch stays in a worker: a job is told all that was said since its start."""

    def __init__(self, spark: SparkSession, specs: Mapping[str, SiteSpec], sites: Mapping[str, Site]) -> None:
        super().__init__({})
        self._spark = spark
        self._specs, self._placed = dict(specs), dict(sites)
        self._scripts: dict[str, list[SiteCall]] = {name: [] for name in specs}
        self._arrived: dict[str, list[dict[str, Any]]] = {name: [] for name in specs}
        self._rows: dict[str, pa.Table | None] = dict.fromkeys(specs)
        # by site, because jobs of several sites run at the same time
        self._known: dict[str, dict[str, Any]] = {name: {} for name in specs}
        self._packed: dict[str, DataFrame] = {}
        self.inside: dict[str, int] = dict.fromkeys(specs, 0)
        """By site the bytes of its own rows that Spark brought to its task."""

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites."""
        return tuple(self._specs)

    def each(self, verb: str, args: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        """Let sites do the same thing, their jobs at the same time."""
        with ThreadPoolExecutor(max_workers=min(MOST_JOBS, len(args)) or 1) as pool:
            running = {site: pool.submit(self.ask, site, verb, *own) for site, own in args.items()}
            return {site: job.result() for site, job in running.items()}

    def ask(self, site: str, verb: str, *args: Any) -> Any:
        """Let a site do something, by a job unless the answer is known or can wait."""
        if verb in ("abort", "close_check", "close", "release"):
            self._forget(site)
            return None
        if verb in self._known[site] and args in ((), (0,)):
            return self._known[site].pop(verb)
        if verb in _READING:
            return self._run(site, [(verb, args)], [], verb)
        if verb in ("begin", "open_check"):
            self._forget(site)
            self._rows[site] = args[1] if len(args) > 1 else None
            args = (args[0], OWN_ROWS, *args[2:]) if len(args) > 1 else args
        script = self._scripts[site]
        if verb == "receive":
            message: SiteMessage = args[0]
            self._arrived[site].append(sent_rows(len(script), message))
            args = ()
        script.append((verb, args))
        if verb in _LATER:
            return None
        answer = self._run(site, script, self._arrived[site], verb)
        if verb == "commit":
            self._forget(site)
        return answer

    def _forget(self, site: str) -> None:
        self._scripts[site], self._arrived[site], self._rows[site] = [], [], None
        if site in self._packed:
            self._packed.pop(site).unpersist()
        self._known[site] = {}

    def _run(self, site: str, script: Sequence[SiteCall], arrived: Sequence[dict[str, Any]], verb: str) -> Any:
        ahead = _AHEAD.get(verb)
        calls = [*script, ahead] if ahead is not None else [*script]
        job = SiteJob(self._specs[site], str(self._placed[site].state), tuple(calls), 1 if ahead is None else 2)
        try:
            answers = decoded(self._frame(site, script, arrived).mapInArrow(sendable(job), SENT).toArrow())
        except PySparkException as error:
            said = next(iter(str(error).splitlines()), type(error).__name__)
            raise HoldstrueError(
                f"the job of site {site!r} failed in Spark: {said}", hint="the batch can be applied again"
            ) from error
        size = len(script)
        if ahead is not None:
            self._known[site][ahead[0]] = answers[size]
            if verb not in _READING:
                self._scripts[site].append(ahead)
        return answers[size - 1]

    def _frame(self, site: str, script: Sequence[SiteCall], arrived: Sequence[dict[str, Any]]) -> DataFrame:
        """What the channel hands over, and the site's own rows, in one partition."""
        own = self._rows[site]
        told = [wire_row(START), *arrived, *([] if own is None else [packed_rows(own)])]
        frame = self._spark.createDataFrame(pa.Table.from_pylist(told, schema=WIRE), SENT)
        starts = {verb for verb, _ in script} & {"begin", "open_check"}
        if starts and own is None and not SiteState.exists(str(self._placed[site].state)):
            frame = frame.unionAll(self._source(site))
        return frame.coalesce(1)

    def _source(self, site: str) -> DataFrame:
        """The site's own rows, packed, and kept by Spark while its batch lasts."""
        if site not in self._packed:
            source = self._placed[site].source.select(*(column(name) for name in self._specs[site].schema.names))
            rows = source.mapInArrow(sendable(pack_batches), SENT).persist()
            self._packed[site] = rows
            self.inside[site] += int(rows.agg(F.sum(F.length("body"))).toArrow().column(0)[0].as_py() or 0)
        return self._packed[site]
