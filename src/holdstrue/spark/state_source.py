"""States as a data source of Spark: `spark.read.format("holdstrue").load(STATE)`, and `readStream` for what changes.

Tasks read the state themselves, where it lies. One reader is of one version, whatever is applied meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType

from holdstrue.detect.delta import RuleCounts, Violation
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.monitor import Monitor
from holdstrue.monitor.report import known_rule
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards.facts import HISTORY, Facts
from holdstrue.shards.layout import Layout
from holdstrue.shards.runner import Sizing
from holdstrue.spark.tables import in_frame, key_type, violations_type
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import Journal
from holdstrue.state.moment import At, at_of
from holdstrue.state.store import fixed_place

NAME = "holdstrue"
WHAT = ("violations", "deltas", "history", "counts")
OPTIONS = ("path", "what", "at", "since", "rule", "tasks")

COUNTS = ("rows", "pairs", "groups", "open")

TASKS = 4
"""Tasks that list the violations of a state in shards, unless told: each opens its share of them."""

LISTED_AT_ONCE = 10_000
"""Violations in a record batch of a state in one piece."""

_VERSION = StructField("version", LongType())


def register(spark: SparkSession) -> None:
    """Make `format("holdstrue")` known to a session; `holdstrue.spark.start` does."""
    spark.dataSource.register(StateSource)


@dataclass(frozen=True)
class StateVersion:
    """One version of a state, as tasks read it."""

    path: str
    version: int

    @staticmethod
    def of(path: str, at: At | None) -> StateVersion:
        """The version that is meant, the newest for None."""
        with StateFiles(path) as files:
            return StateVersion(path, files.version_at(at))

    @cached_property
    def _manifest(self) -> tuple[Facts, bool]:
        with Journal.open(self.path, "monitor", HISTORY, read_only=True, at=self.version) as journal:
            return journal.read(Facts.of), bool(journal.facts.get("sharding"))

    @property
    def facts(self) -> Facts:
        """What it says of itself."""
        return self._manifest[0]

    @property
    def in_shards(self) -> bool:
        """Whether several tasks can read it."""
        return self._manifest[1]

    def layout(self) -> Layout:
        """Which keys name its rows."""
        return Layout.of(self.facts.plan(), self.facts.all_keys, 1, 1)

    def key(self, rule: str | None) -> pa.DataType | None:
        """The type that names the rows of a rule, or of all; None for text."""
        if not self.facts.schemas:
            return pa.string()
        plan = self.facts.plan()
        named = [number for number, own in enumerate(plan.rules) if rule in (None, own.name)]
        return key_type(self.layout(), [i for i, check in enumerate(plan.checks) if check.rule in named])

    def violations(self, rule: str | None, own: int, tasks: int) -> Iterator[pa.Table]:
        """Task `own`'s share of the violations, as tables of rule, change, pair, t and s."""
        if self.in_shards:
            listing = Sharded(None, self.path, sizing=Sizing(tasks=tasks), at=self.version).listing(rule)  # type: ignore[arg-type]
            if listing is not None:
                share = [own] if own < listing.job.tasks else []
                yield from listing.tables([*share, *range(own + tasks, listing.job.tasks, tasks)])
            return
        with Monitor.open(self.path, read_only=True, at=self.version) as monitor:
            keys = {own_rule.name: self.facts.keys[own_rule.own_table or self.facts.main] for own_rule in monitor.rules}
            some: list[Violation] = []
            for violation in monitor.violations(rule):
                if some and (len(some) >= LISTED_AT_ONCE or some[0].rule != violation.rule):
                    yield self._table(some, keys)
                    some = []
                some.append(violation)
            if some:
                yield self._table(some, keys)

    def _table(self, some: list[Violation], keys: Mapping[str, tuple[str, ...]]) -> pa.Table:
        rule = some[0].rule
        key, type_ = keys[rule], self.key(rule)

        def named(values: list[Any]) -> pa.Array:
            if len(key) > 1:
                values = [None if value is None else dict(zip(key, value, strict=True)) for value in values]
            return pa.array(values, type_)

        return pa.table(
            {
                "rule": pa.repeat(pa.scalar(rule), len(some)),
                "change": pa.repeat(pa.scalar(1, pa.int8()), len(some)),
                "pair": [violation.pair for violation in some],
                "t": named([violation.t for violation in some]),
                "s": named([violation.s for violation in some]),
            }
        )


class StateSource(DataSource):
    """What a state has: open violations, what changed between two versions, its history, its counts.

    Options: `path` (or `load(path)`), `what` (violations, deltas, history, counts), `at` (a version or a time), `since`
    (of deltas: the version before), `rule`, `tasks`.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        given = {name.lower(): value for name, value in options.items()}
        unknown = [name for name in given if name not in OPTIONS]
        if unknown:
            raise HoldstrueError(f"format({NAME!r}) has no option {unknown[0]!r}", hint=f"one of {', '.join(OPTIONS)}")
        if "path" not in given:
            raise HoldstrueError("no state was named", hint=f'spark.read.format("{NAME}").load(STATE)')
        self.path = fixed_place(given["path"])
        self.what = given.get("what", "violations")
        if self.what not in WHAT:
            raise HoldstrueError(f"what is {self.what!r}", hint=f"one of {', '.join(WHAT)}")
        self.rule = given.get("rule")
        self.at, self.since = (None if name not in given else at_of(given[name], name) for name in ("at", "since"))
        if self.since is not None and self.what != "deltas":
            raise HoldstrueError("since is about deltas", hint='add option("what", "deltas"), or leave it out')
        told = str(given.get("tasks", TASKS))
        if not told.isdecimal() or not int(told):
            raise HoldstrueError(f"tasks is {told!r}", hint='a number of at least 1, as in option("tasks", "4")')
        self.tasks = int(told)

    @classmethod
    def name(cls) -> str:
        """How it is called in `format`."""
        return NAME

    @cached_property
    def version(self) -> StateVersion:
        """The version that is read."""
        found = StateVersion.of(self.path, self.at)
        known_rule(found.facts.rules, self.rule)
        return found

    def schema(self) -> StructType:
        """Its columns; rows are named by their key, as text where the tables of several rules have different ones."""
        if self.what in ("history", "counts"):
            names = list(HISTORY.schema.names) if self.what == "history" else ["rule", "severity", *COUNTS]
            text = ("batch", "time", "rule", "severity")
            return StructType([StructField(name, StringType() if name in text else LongType()) for name in names])
        own = violations_type(self.version.key(self.rule), change=self.what == "deltas")
        return StructType([_VERSION, *own.fields]) if self.what == "deltas" else own

    def reader(self, schema: StructType) -> DataSourceReader:
        """Who reads it once."""
        if self.what in ("history", "counts"):
            return TableReader(self.path, self.version.version, self.what, self.rule)
        if self.what == "violations":
            return ViolationsReader(self.version, self.rule, self.tasks)
        if self.since is None:
            raise HoldstrueError(
                "deltas are between two versions, and since= is missing", hint='option("since", VERSION), at= the later'
            )
        before = StateVersion.of(self.path, self.since)
        if before.version > self.version.version:
            raise HoldstrueError(
                f"since is version {before.version}, at is {self.version.version}", hint="since is the earlier one"
            )
        return DeltaReader(self.path, self.rule, before.version, self.version.version)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Who follows it."""
        if self.what != "deltas" or self.at is not None:
            raise HoldstrueError(
                "a stream of a state has its deltas", hint='option("what", "deltas"), and since= rather than at='
            )
        start = self.version if self.since is None else StateVersion.of(self.path, self.since)
        return DeltaStreamReader(self.path, self.rule, start.version)


@dataclass(frozen=True)
class ViolationsReader(DataSourceReader):
    """Reads the violations of a version."""

    state: StateVersion
    rule: str | None
    tasks: int

    def partitions(self) -> Sequence[InputPartition]:
        """One a task where the state is in shards, else one."""
        return [InputPartition(task) for task in range(self.tasks if self.state.in_shards else 1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The violations of a task's shards."""
        key = self.state.key(self.rule)
        for table in self.state.violations(self.rule, partition.value, self.tasks):
            yield from in_frame(table, key, change=False).to_batches()


@dataclass(frozen=True)
class TableReader(DataSourceReader):
    """Reads what is small: the history or the counts of a version."""

    path: str
    version: int
    what: str
    rule: str | None

    def partitions(self) -> Sequence[InputPartition]:
        """One."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """All of it."""
        with Journal.open(self.path, "monitor", HISTORY, read_only=True, at=self.version) as journal:
            if self.what == "history":
                table = journal.history()
            else:
                facts, nothing = journal.read(Facts.of), RuleCounts(0, 0, 0, 0)
                stands = [(rule, facts.counts.get(rule.name, nothing)) for rule in facts.rules]
                table = pa.table(
                    {
                        "rule": pa.array([rule.name for rule, _ in stands], pa.string()),
                        "severity": pa.array([rule.severity for rule, _ in stands], pa.string()),
                        **{
                            name: pa.array([getattr(counts, name) for _, counts in stands], pa.int64())
                            for name in COUNTS
                        },
                    }
                )
        if self.rule is not None:
            table = table.filter(pc.equal(table.column("rule"), self.rule))
        yield from table.to_batches()


@dataclass(frozen=True)
class DeltaReader(DataSourceReader):
    """Reads which violations two versions do not have in common, a task a rule."""

    path: str
    rule: str | None
    before: int
    after: int

    def partitions(self) -> Sequence[InputPartition]:
        """The rules that may differ."""
        return [InputPartition((self.before, self.after, rule)) for rule in rules_of(self.path, self.after, self.rule)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """What one rule lost and gained."""
        return changed(self.path, *partition.value, all_rules=self.rule is None)


class DeltaStreamReader(DataSourceStreamReader):
    """Follows a state: every new version is one step, whose added and removed violations are its rows."""

    def __init__(self, path: str, rule: str | None, start: int) -> None:
        self.path = path
        self.rule = rule
        self.start = start

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's names
        """Where a stream starts that has no checkpoint."""
        return {"version": self.start}

    def latestOffset(self, *_: Any) -> dict[str, int]:  # noqa: N802
        """The newest version there is now."""
        return {"version": StateVersion.of(self.path, None).version}

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        """One for every version and rule."""
        return [
            InputPartition((version, version + 1, rule))
            for version in range(start["version"], end["version"])
            for rule in rules_of(self.path, version + 1, self.rule)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """What one version did to one rule."""
        return changed(self.path, *partition.value, all_rules=self.rule is None)


def rules_of(path: str, version: int, rule: str | None) -> list[str]:
    """The rules that are asked for."""
    names = [own.name for own in StateVersion(path, version).facts.rules]
    return [name for name in names if rule in (None, name)]


def changed(path: str, before: int, after: int, rule: str, *, all_rules: bool) -> Iterator[pa.RecordBatch]:
    """The violations of a rule that came (change 1) and went (-1) between two versions that are kept.

    Complexity: O(violations of the rule in both); nothing where the rule has none in either.
    """
    was, now = (StateVersion(path, version) for version in (before, after))
    key = now.key(None if all_rules else rule)
    sides = []
    for state in (was, now):
        count = state.facts.counts.get(rule)
        tables = state.violations(rule, 0, 1) if count is not None and count.open else ()
        rows = [in_frame(table, key, change=True) for table in tables]
        listed = (row for part in rows for row in part.to_pylist())
        sides.append({tuple(_hashable(value) for value in row.values()): row for row in listed})
    for change, own, other in ((-1, sides[0], sides[1]), (1, sides[1], sides[0])):
        rows_ = [{"version": after, **row, "change": change} for at, row in own.items() if at not in other]
        if rows_:
            kind = pa.string() if key is None else key
            columns = {"rule": pa.string(), "change": pa.int8(), "pair": pa.bool_(), "t": kind, "s": kind}
            yield from pa.Table.from_pylist(rows_, pa.schema({"version": pa.int64(), **columns})).to_batches()


def _hashable(value: Any) -> Any:
    return tuple(value.items()) if isinstance(value, dict) else value
