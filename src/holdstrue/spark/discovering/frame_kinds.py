"""A discovery whose rows stay on Spark: what is known of its tables, and its kinds of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn, cast

import pyarrow as pa
from pyspark.sql import DataFrame

from holdstrue.data.seed import Seed
from holdstrue.data.values import family_of
from holdstrue.discovery.answers import alone
from holdstrue.discovery.column_kind import ColumnKind
from holdstrue.discovery.columns.profile import ColumnProfile
from holdstrue.discovery.discovery import Discovery
from holdstrue.discovery.found import BROKEN, FEW_ROWS, SEARCHED_AGAIN, SMALLER, STOPPED, Died, FoundRule, RuleChanges
from holdstrue.discovery.held import Held, Keys
from holdstrue.discovery.inclusions.contents import Compare
from holdstrue.discovery.kinds import Kind
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.per_table import ConditionKind, DependencyKind
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.errors import DataError, HoldstrueError
from holdstrue.rules.model import Body, Rule, Tolerance
from holdstrue.shards.facts import batch_name
from holdstrue.spark.checking import check
from holdstrue.spark.discovering.frame_batches import FrameBatch, resolved
from holdstrue.spark.discovering.frame_columns import column_profiles
from holdstrue.spark.discovering.frame_conditions import FrameConditions
from holdstrue.spark.discovering.frame_denials import FrameDenialKind, FrameDenials
from holdstrue.spark.discovering.frame_dependencies import FrameDependencies
from holdstrue.spark.discovering.frame_inclusions import FrameInclusionKind, FrameInclusions, ValueJobs
from holdstrue.spark.discovering.lane_table import LaneTable
from holdstrue.spark.discovering.side_jobs import profile
from holdstrue.spark.runner import SparkRunner
from holdstrue.spark.suspecting.frame_suspects import FrameSuspects
from holdstrue.spark.suspecting.searching import suspects_of_frame
from holdstrue.spark.suspecting.stages import SuspectQuestion
from holdstrue.typing import I64

FOLDED = 16
"""Batches after which a table is written once to the executors, instead of being a longer plan. Chosen, not tuned."""

NOT_HERE = "the rows stay on Spark, where exceptions are counted only with an error: error=0.01, measure='rows'"


class FrameTables(Held):
    """What the driver knows of tables whose rows it does not hold."""

    def __init__(self, schemas: Mapping[str, pa.Schema], keys: Keys, seed: Seed, rows: Mapping[str, int]) -> None:
        super().__init__(schemas, keys, seed)
        self._rows = dict(rows)
        self.tables: dict[str, LaneTable] = {}
        """By name the columns that are searched."""

    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        return dict(self._rows)

    def follow(self, table: str, batch: FrameBatch) -> None:
        """Count a batch."""
        self._rows[table] += batch.come - batch.gone

    def speaks_of_values(self, table: str, body: Body) -> bool:
        """Whether every column of a rule has a value."""
        return {*Rule(body, "").columns} <= self.tables[table].valued

    def named(self, table: str, slots: Sequence[int]) -> tuple[Any, ...]:
        """Rows by the numbers that they have in a sample: nobody knows them by it."""
        return ()

    def table(self, name: str) -> tuple[pa.Table, I64]:
        """Refused: the rows are not here."""
        raise _elsewhere("its rows are asked for")


def _elsewhere(what: str) -> HoldstrueError:
    return HoldstrueError(
        f"{what}, and the table is larger than the driver takes, so that its rows stay on Spark",
        hint="give discover(..., whole=BYTES) as many bytes as the driver can hold, or discover in a part of the rows",
    )


class FrameDependencyKind(DependencyKind):
    """Minimal keys and FDs of data frames."""

    @staticmethod
    def of(held: Held, options: DiscoveryOptions, cores: Mapping[str, FrameDependencies]) -> FrameDependencyKind:
        """The kind of cores that are as those of one process, but for changes."""
        return FrameDependencyKind(held, options, cast("Any", dict(cores)))

    def unlooked(self, core: Any) -> str | None:
        """Near misses are rows."""
        return NOT_HERE

    def explain(self) -> str:
        """How the rules were found."""
        size = sum(core.size_bytes() for core in self.cores.values())
        jobs = sum(cast("Any", core).jobs for core in self.cores.values())
        return f"candidates of a sample, tested on Spark in {jobs} jobs ({size:,} bytes on the driver)"


class FrameConditionKind(ConditionKind):
    """Conditional FDs of data frames."""

    def explain(self) -> str:
        """How the rules were found."""
        jobs = sum(cast("Any", core).jobs for core in self.cores.values())
        return f"candidates of a sample, counted on Spark in {jobs} jobs"


class FrameDiscovery(Discovery):
    """Rules found in data frames that the driver does not hold, kept current by `apply` while the session lasts."""

    def __init__(
        self, held: FrameTables, kinds: Mapping[str, Kind], options: DiscoveryOptions, frames: Mapping[str, DataFrame]
    ) -> None:
        super().__init__(held, kinds, options)
        self._frames = dict(frames)
        self._runner = SparkRunner(next(iter(frames.values())).sparkSession)

    def nearly(self) -> list[FoundRule]:
        """What few cells of a column break; of FDs and orders none (see `notes`)."""
        columns = self._kinds.get("columns")
        return columns.nearly() if isinstance(columns, ColumnKind) else []

    def _tolerant(self, found: Sequence[FoundRule]) -> list[Rule]:
        """Rules with the tolerance that the rows there are need."""
        rules = [one.rule for one in found]
        for name, frame in self._frames.items():
            broken = [
                at for at, one in enumerate(found)
                if one.measures.get("error") and one.kind != "inclusion" and (rules[at].table or name) == name
            ]  # fmt: skip
            if broken:
                asked = [replace(rules[at], table=None, name=f"{at}") for at in broken]
                for at, result in zip(broken, check(frame, asked, limit=0).results, strict=True):
                    if result.counts.rows:
                        rules[at] = replace(rules[at], tolerance=Tolerance(count=result.counts.rows))
        return rules

    @alone
    def apply(  # type: ignore[override]  # options of reading are those of the data frame
        self, changes: Any, *, batch_id: str | int | None = None, op_column: str | None = None
    ) -> RuleChanges:
        """Apply one batch, whole or not at all, and say which rules died and which were born.

        Keys and FDs are tested in the groups that the batch touches, and looked for where the rows went that showed
        the contrary; other kinds, and those within an error, are searched anew on Spark. Rows stay there: those of the
        batch on the executors, the table as a plan over the data frame that was given, which must not change.

        Parameters
        ----------
        changes
            A data frame, the name of a table, a query or an Arrow table of whole rows; a mapping from table name to
            such for several tables.
        batch_id
            Names the batch. A batch whose id was applied before changes nothing.
        op_column
            The column that says insert, update, delete or upsert of each row; without it all are inserts.
        """
        self._require_current()
        batch = batch_name(batch_id, self._batches)
        if batch_id is not None and self._seen(batch):
            return RuleChanges(batch, rules=len(self.rules), duplicate=True)
        parts = changes if isinstance(changes, Mapping) else {next(iter(self._frames)): changes}
        batches = {}
        for name, part in parts.items():
            if name not in self._frames:
                raise HoldstrueError(f"no table {name!r} in this discovery", hint=f"it has {', '.join(self._frames)}")
            frame = self._runner.select(self._frames[name], self._held.schemas[name].names)
            batches[name] = resolved(self._runner, name, frame, self._held.keys[name], part, op_column)
        before = {(found.table, found.body): found for found in self.rules}
        self._broken = True
        try:
            ends = self._follow_frames(batches)
        finally:
            for table in cast("FrameTables", self._held).tables.values():
                table.release()
        return self._changed(batch, before, ends, {}, SEARCHED_AGAIN)

    def _follow_frames(self, batches: Mapping[str, FrameBatch]) -> dict[tuple[str | None, Body], Died]:
        self._found = self._nearly = self.until = None
        work = Work.lasting(self.options.budget, threads=self.options.threads)
        held = cast("FrameTables", self._held)
        ends: dict[tuple[str | None, Body], Died] = {}
        kind = self._kinds.get("dependencies")
        cores = cast("Any", kind.cores) if isinstance(kind, FrameDependencyKind) else {}
        for name, batch in batches.items():
            # plans grow with every batch, and with them the time that Spark thinks about them
            whole = (self._batches + 1) % FOLDED == 0
            self._frames[name] = batch.after.localCheckpoint() if whole else batch.after
            held.follow(name, batch)
            core: FrameDependencies | None = cores.get(name)
            if core is not None and core.kept:
                where = held.shown(name)
                why = FEW_ROWS if held.counts()[name] < 2 else SMALLER
                turnover = core.apply(batch, work)
                why = why if core.complete else STOPPED
                for one in turnover.died:
                    ends[where, one.body] = replace(one, table=where, why=BROKEN if one.rows else why)
            elif name in held.tables:
                frame = self._runner.select(self._frames[name], held.tables[name].schema.names)
                table = held.tables[name] = LaneTable(self._runner, frame, self.options, held.counts()[name])
                if {*self.options.kinds} - {"ind", "column"}:
                    with suppress(OutOfTimeError):
                        profile(table, work)
                if core is not None:
                    cores[name] = FrameDependencies(table, self.options, work)
        search = _Search(self._runner, self._frames, held, self.options)
        for name in self._kinds:
            if name != "dependencies":
                self._kinds[name] = getattr(search, name)(work)
        return ends

    def save(self, path: Any) -> NoReturn:
        """Refused: a state holds the rows."""
        raise _elsewhere(f"a state is to be kept at {str(path)!r}")

    @alone
    def suspects(self, *, table: str | None = None) -> FrameSuspects:  # type: ignore[override]  # they stay on Spark
        """Cells of a table that are probably wrong, by the rules that its rows speak for (see `suspects` of Spark)."""
        name = next(iter(self._frames)) if table is None else table
        if name not in self._frames:
            raise HoldstrueError(f"no table {table!r}", hint=f"the tables are {', '.join(self._frames)}")
        frame, searched = self._frames[name], self.options.columns
        columns = tuple(column for column in searched if column in frame.columns)
        asked = SuspectQuestion(name, columns, None, discover=True, budget=self.options.budget)
        return suspects_of_frame(self._runner, frame, asked, self._held.keys[name])


def found_in_frames(
    runner: SparkRunner,
    frames: Mapping[str, DataFrame],
    rows: Mapping[str, int],
    keys: Keys,
    options: DiscoveryOptions,
    work: Work,
) -> FrameDiscovery:
    """Search data frames for every kind that is asked for; what one leaves of the time, others may use."""
    every = {name: runner.schema(frame) for name, frame in frames.items()}
    schemas = {name: pa.schema([field for field in own if family_of(field.type)]) for name, own in every.items()}
    for name, schema in schemas.items():
        if not len(schema):
            raise DataError(f"table {name!r} has no column whose values compare", hint="lists and structs do not")
    held = FrameTables(schemas, keys, options.seed, rows)
    for name, schema in held.searched(options.columns).items():
        if len(schema):
            held.tables[name] = LaneTable(runner, runner.select(frames[name], schema.names), options, rows[name])
    search = _Search(runner, frames, held, options)
    wanted = [name for name, kinds in _FAMILIES.items() if {*kinds} & {*options.kinds}]
    found: dict[str, Kind] = {}
    try:
        if {*options.kinds} - {"ind", "column"}:
            with suppress(OutOfTimeError):
                for table in held.tables.values():
                    profile(table, work)
        for at, name in enumerate(wanted):
            share = work.first(1 / (len(wanted) - at)).part(at / len(wanted), 1 / len(wanted))
            found[name] = getattr(search, name)(share)
    finally:
        for table in held.tables.values():
            table.release()
    return FrameDiscovery(held, found, options, frames)


_FAMILIES = {
    "columns": ("column",),
    "dependencies": ("fd", "key"),
    "conditions": ("cfd",),
    "inclusions": ("ind",),
    "denials": ("dc",),
}
"""By who finds them the kinds of rules; the quickest come first."""


@dataclass(frozen=True)
class _Search:
    """Who finds which kinds."""

    runner: SparkRunner
    frames: Mapping[str, DataFrame]
    held: FrameTables
    options: DiscoveryOptions

    def columns(self, work: Work) -> Kind:
        profiles: dict[str, dict[str, ColumnProfile]] = {}
        complete = True
        for name, schema in self.held.searched(self.options.columns).items():
            try:
                profiles[name] = column_profiles(self.runner, self.frames[name], schema, work)
            except OutOfTimeError:
                complete = False
        return ColumnKind(self.held, self.options, profiles, complete)

    def dependencies(self, work: Work) -> Kind:
        cores = {name: FrameDependencies(table, self.options, work) for name, table in self.held.tables.items()}
        return FrameDependencyKind.of(self.held, self.options, cores)

    def conditions(self, work: Work) -> Kind:
        cores = {
            name: FrameConditions(table, self.frames[name], self.options, work)
            for name, table in self.held.tables.items()
        }
        return FrameConditionKind(self.held, self.options, cast("Any", cores))

    def inclusions(self, work: Work) -> Kind:
        options, searched = self.options, self.held.searched(self.options.columns)
        compare: Compare = "text" if options.as_text else "types"
        jobs = ValueJobs(self.runner, self.frames, self.held.counts(), compare, options.seed)
        core = FrameInclusions(jobs, searched, options, work)
        return FrameInclusionKind(self.held, options, core, jobs, self.runner)

    def denials(self, work: Work) -> Kind:
        cores, rows = {}, self.held.counts()
        for name, schema in self.held.searched(self.options.columns).items():
            if len(schema):
                frame = self.runner.select(self.frames[name], schema.names)
                cores[name] = FrameDenials(self.runner, frame, rows[name], self.options, work)
        return FrameDenialKind(self.held, self.options, cast("Any", cores))
