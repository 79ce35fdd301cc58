"""Inclusions between data frames: values are counted where they lie, counters of pairs of columns reach the driver.

Values are digested by a stage, as in one process and in the shards of `spark/inclusions.py`, so that all types compare
as they do there. Levels of several columns are counted one after the other, each in one job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.data.seed import Seed
from holdstrue.discovery.found import NearMiss, NearMisses
from holdstrue.discovery.held import Held
from holdstrue.discovery.inclusion_kind import LIKELY, LISTED, PARTLY, InclusionKind, measures_of
from holdstrue.discovery.inclusions.attributes import Attribute
from holdstrue.discovery.inclusions.candidates import Pair
from holdstrue.discovery.inclusions.contents import Compare
from holdstrue.discovery.inclusions.foreign_keys import NEARLY_A_KEY, ValueRanges, foreign_keys
from holdstrue.discovery.inclusions.inclusion_core import InclusionCore, layout_of
from holdstrue.discovery.inclusions.level import Level, Tables
from holdstrue.discovery.inclusions.unary import UnaryInclusions
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.kernels.side_rows import GAPS
from holdstrue.rules.model import Inclusion
from holdstrue.spark.catalyst.lanes import ColumnValues, Inexpressible, family
from holdstrue.spark.discovering.bounded_jobs import collected
from holdstrue.spark.discovering.shared_values import SHARED, SharedValues, WrittenValues
from holdstrue.spark.runner import SparkRunner, column, quoted, sendable
from holdstrue.typing import I64, Mask

PART_BYTES = 48 << 20
"""Bytes of values that a task counts, so that it fits a worker of 512 MB a few times. Chosen."""
MOST_PARTS = 2000
"""Tasks at most. Chosen, not tuned."""


@dataclass(frozen=True)
class SharedCounts:
    """What counters would say of values that were counted elsewhere."""

    values: I64
    rows: I64
    least: I64
    """For each two attributes the sum over their values of the smaller number of rows."""

    def shared(self) -> I64:
        """As `Counters.shared`."""
        return self.values

    def shared_rows(self) -> I64:
        """As `Counters.shared_rows`."""
        return self.rows

    def included(self) -> Mask:
        """As `Counters.included`."""
        found: Mask = self.values == np.diagonal(self.values)[:, None]
        return found

    def size_bytes(self) -> int:
        """Memory held."""
        return self.values.nbytes + self.rows.nbytes


class ValueJobs:
    """Counts the values that attributes of some data frames share."""

    def __init__(
        self,
        runner: SparkRunner,
        frames: Mapping[str, DataFrame],
        rows: Mapping[str, int],
        compare: Compare,
        seed: Seed,
    ) -> None:
        self._runner, self.frames, self._rows = runner, dict(frames), dict(rows)
        self._compare: Compare = compare
        self._seed = seed
        self.jobs = 0

    def shared(self, attributes: Sequence[Attribute], work: Work) -> SharedCounts:
        """Values and rows that each two attributes share. One job; a line for each two that share any reaches us."""
        many = len(attributes)
        size = 8 * GAPS * sum(self._rows[one.table] for one in attributes)
        parts = max(self._runner.tasks(), min(MOST_PARTS, size // PART_BYTES))
        sources = []
        for name, frame in self.frames.items():
            own = tuple((number, one.columns) for number, one in enumerate(attributes) if one.table == name)
            if own:
                wanted = list(dict.fromkeys(c for _, columns in own for c in columns))
                stage = WrittenValues(own, self._compare, self._seed, parts)
                sources.append((self._runner.select(frame, wanted), stage))
        values, rows, least = (np.zeros((many, many), dtype=np.int64) for _ in range(3))
        if sources:
            counted = self._runner.messages(sources, parts).mapInArrow(sendable(SharedValues(many)), SHARED)
            told = counted.groupBy("a", "b").agg(*(F.sum(name).alias(name) for name in "vrl"))
            found = collected(self._runner, told, f"values of {many} columns counted", work)
            a, b = (found.column(name).to_numpy() for name in ("a", "b"))
            values[a, b], rows[a, b], least[a, b] = (found.column(name).to_numpy() for name in "vrl")
            self.jobs += 1
        return SharedCounts(values, rows, least)


class FrameLevel(Level):
    """Candidates of one arity, whose tuples are counted on Spark."""

    def __init__(self, jobs: ValueJobs, compare: Compare, seed: Seed) -> None:
        super().__init__(compare, 1, seed)
        self._jobs = jobs

    def consider(self, pairs: Sequence[Pair], whole: bool, tables: Tables, work: Work) -> None:
        """Count the tuples of these candidates (`whole`: they are all)."""
        self.pairs, self.whole = list(pairs), whole
        self._holds = np.zeros(0, dtype=np.bool_)
        wanted = list(dict.fromkeys(attribute for pair in pairs for attribute in pair))
        self.attributes = {attribute: number for number, attribute in enumerate(wanted)}
        self._counters = cast("Any", self._jobs.shared(wanted, work))


class FrameInclusions(InclusionCore):
    """All inclusions between data frames, whole or partial."""

    def __init__(
        self, jobs: ValueJobs, schemas: Mapping[str, pa.Schema], options: DiscoveryOptions, work: Work
    ) -> None:
        unary = UnaryInclusions(schemas, layout_of(options))
        super().__init__(unary, options)
        self._jobs = jobs
        try:
            unary.structure = cast("Any", jobs.shared(unary.attributes, work))
            self._search(_not_here, work)
        except OutOfTimeError:
            self._in_time = False
            unary.loaded[:] = False

    def _level(self) -> Level:
        return FrameLevel(self._jobs, self.unary.layout.compare, self.unary.layout.seed)

    def rules(self) -> Any:
        """The inclusions, none where there was no time to count values."""
        return super().rules() if self.unary.complete else ()

    @property
    def jobs(self) -> int:
        """Jobs that were run."""
        return self._jobs.jobs


def _not_here(name: str) -> pa.Table:
    raise LookupError(f"table {name!r} is on Spark")


class FrameRanges:
    """How far columns of data frames reach: bounds meet the other column on Spark, shares of rows come back."""

    def __init__(self, runner: SparkRunner, frames: Mapping[str, DataFrame], found: Iterable[Inclusion]) -> None:
        self._shares: dict[tuple[str, str, str, str], float] = {}
        asked: defaultdict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
        for body in found:
            pairs = zip(body.columns, body.ref_columns, strict=True)
            asked[str(body.table), body.ref_table].update(pairs)
        for (table, other), columns in asked.items():
            self._look(runner, table, other, frames[table], frames[other], sorted(columns))

    def _look(
        self, runner: SparkRunner, table: str, other: str, left: DataFrame, right: DataFrame,
        columns: list[tuple[str, str]],
    ) -> None:  # fmt: skip
        places = {pair: at for at, pair in enumerate(columns) if _ordered(left, pair[0]) and _ordered(right, pair[1])}
        if not places:
            return
        ends, shares = [], []
        for (own, ref), at in places.items():
            kinds = left.schema[own].dataType, right.schema[ref].dataType
            as_text = "text" in map(family, kinds) or "bytes" in map(family, kinds)
            a, b = (f"cast({quoted(c)} as string)" if as_text else quoted(c) for c in (own, ref))
            ends += [f"min({a}) as lo{at}", f"max({a}) as hi{at}"]
            inside = f"{b} >= lo{at} and {b} <= hi{at}"
            if family(kinds[0]) == "float":
                inside += f" and not isnan(hi{at})"
            shares.append(f"avg(if({quoted(ref)} is null, null, if({inside}, 1.0D, 0.0D))) as s{at}")
        bounds = F.broadcast(left.selectExpr(*ends))
        told = collected(runner, right.crossJoin(bounds).selectExpr(*shares), "ranges of columns compared", Work())
        for (own, ref), at in places.items():
            self._shares[table, own, other, ref] = told.column(f"s{at}")[0].as_py() or 0.0

    def inside(self, table: str, column: str, ref_table: str, ref_column: str) -> float:
        """The share of the right column's rows in the left one's range; 0 for types that Spark orders otherwise."""
        return self._shares.get((table, column, ref_table, ref_column), 0.0)


def _ordered(frame: DataFrame, name: str) -> bool:
    try:
        family(frame.schema[name].dataType)
    except Inexpressible:
        return False
    return True


class FrameInclusionKind(InclusionKind):
    """All inclusions between data frames, ranked as foreign keys."""

    def __init__(
        self, held: Held, options: DiscoveryOptions, core: FrameInclusions, jobs: ValueJobs, runner: SparkRunner
    ) -> None:
        super().__init__(held, options, core)
        self._jobs, self._runner = jobs, runner

    def _tables(self) -> ValueRanges:
        return FrameRanges(self._runner, self._jobs.frames, [one.body for one in self.core.rules()])

    def near(self, most: int, work: Work) -> NearMisses:
        """Partial inclusions that look like foreign keys and lack few values, with these values."""
        if not self.core.complete:
            return NearMisses(unlooked=("inclusions: of columns that there was no time to count",))
        partly = _partial(self.core, self.options)
        ranges = FrameRanges(self._runner, self._jobs.frames, [one.body for one in partly.rules()])
        misses, unlooked = [], []
        for one in foreign_keys(partly, ranges):
            if 0 < one.found.missing <= most and one.key >= NEARLY_A_KEY and one.score >= LIKELY:
                body = one.found.body
                try:
                    values = self._missing(body, min(most, LISTED))
                except Inexpressible:
                    unlooked.append(f"values that break {body.text}: Spark compares their types otherwise")
                    values = ()
                misses.append(NearMiss(body, one.missing_rows, 1 - one.fit, (), values, body.table, measures_of(one)))
        return NearMisses(misses, tuple(unlooked))

    def _missing(self, body: Inclusion, most: int) -> tuple[Any, ...]:
        """Values of the left side that the right side lacks, the most frequent first. One job."""
        left, right = self._jobs.frames[str(body.table)], self._jobs.frames[body.ref_table]
        types = [right.schema[name].dataType for name in body.ref_columns]
        own = ColumnValues(left.schema).tuple_lanes(body.columns, beside=types)
        types = [left.schema[name].dataType for name in body.columns]
        other = ColumnValues(right.schema).tuple_lanes(body.ref_columns, beside=types)
        provided = right.selectExpr(f"{other[0]} as pa", f"{other[1] or '0L'} as pb").where("pa is not null")
        known = left.where(" and ".join(f"{quoted(name)} is not null" for name in body.columns))
        lanes = known.withColumn(":a", F.expr(own[0])).withColumn(":b", F.expr(own[1] or "0L"))
        match = (F.col(":a") == F.col("pa")) & (F.col(":b") == F.col("pb"))
        names = list(dict.fromkeys(body.columns))
        lost = lanes.join(provided, match, "left_anti")
        counts = lost.groupBy(*map(column, names)).agg(F.count(F.lit(1)).alias(":n"))
        chosen = counts.orderBy(F.col(":n").desc(), *map(column, names)).limit(most)
        told = collected(self._runner, chosen, f"values that break {body.text}", Work())
        found = [told.column(names.index(name)).to_pylist() for name in body.columns]
        return tuple(found[0]) if len(found) == 1 else tuple(zip(*found, strict=True))

    def explain(self) -> str:
        """How the inclusions were found."""
        return f"values counted on Spark in {self._jobs.jobs} jobs, counters of pairs of columns here"


def _partial(core: InclusionCore, options: DiscoveryOptions) -> InclusionCore:
    return InclusionCore(core.unary, replace(options, kinds=("ind",), error=PARTLY, measure="pairs"))
