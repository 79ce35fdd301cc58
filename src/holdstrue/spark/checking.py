"""From scratch on Spark: how data frames stand to their rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, MapType, StructType, TimeType

from holdstrue.detect.clock import wall
from holdstrue.detect.delta import RuleCounts, RuleResult, Violation, require_limit
from holdstrue.errors import DataError
from holdstrue.index.protocol import IndexKind
from holdstrue.monitor.check import check as check_here
from holdstrue.monitor.check import shared_key_note
from holdstrue.monitor.known import KnownViolations, is_known
from holdstrue.monitor.report import Findings, Report, known_rule
from holdstrue.monitor.sharded_check import (
    ROW,
    CheckedFrames,
    FreshListing,
    Prepared,
    ShardedFindings,
    checked,
    prepared,
    unread,
)
from holdstrue.monitor.views import status_of
from holdstrue.plan.checks import MeasureCheck
from holdstrue.plan.compile import Plan, main_table
from holdstrue.plan.explain import explain
from holdstrue.rules.accepted import Acceptance
from holdstrue.rules.file import load_rules
from holdstrue.rules.model import Inclusion, Rule, RuleSet
from holdstrue.rules.types import with_types
from holdstrue.shards.ledger import Ledger
from holdstrue.shards.lists import by_table, violation_of
from holdstrue.shards.reading import Listing
from holdstrue.shards.routes import MOST
from holdstrue.shards.runner import HOT_FROM, Sizing
from holdstrue.shards.status import explain_layout
from holdstrue.sources.fit import is_text
from holdstrue.spark.accepted import accepting
from holdstrue.spark.catalyst.detecting import Tables
from holdstrue.spark.catalyst.native import Native
from holdstrue.spark.named import named_frames
from holdstrue.spark.runner import SparkRunner
from holdstrue.spark.small import check_small
from holdstrue.spark.tables import by_key, rows_with_keys, violations_frame

_UNGROUPED = (ArrayType, MapType, StructType, TimeType)
"""Types of which it is not said whether a key is unique: of the first three nobody can tell, and Spark 4.3 does not
group by times of day unless it is set up to."""


def check(
    data: DataFrame | str | Mapping[str, DataFrame | str],
    rules: Any,
    *,
    key: str | Sequence[str] | None = None,
    limit: int | None = 1000,
    index: IndexKind = "blocks",
    types: Mapping[str, str] | None = None,
    shards: int | None = None,
    blocks: int | None = None,
    tasks: int | None = None,
    hot_from: int = HOT_FROM,
    accepted: str | Sequence[Acceptance] | None = None,
) -> SparkReport:
    """Find every violation of the rules in a data frame, or in several by their names.

    Parameters
    ----------
    data
        A data frame, the name of a table of Spark's catalog or a query (`"select ..."`); for
        inclusion dependencies a mapping from table name to such.
    rules
        Anything `load_rules` takes: a file, rule texts, rules.
    key
        Columns that name a row of the main table in the result. Without it rows are named by a
        number that says where Spark read them: partition times 2^33 plus the place in it.
    limit
        How many violations the report lists; counts are always exact.
    types
        What columns hold, beside what the rule file declares: text is parsed so (see `holdstrue.check`).
    shards, blocks, tasks
        How the work of Arrow kernels is cut; chosen by the number of rows and cores unless given. Rules that Catalyst
        can check are checked by it, unless `shards` or `blocks` is given. Small tables (256 KiB by Spark's estimate, at
        most 10,000 rows; 4 MiB and 200,000 where a rule compares pairs by order) are fetched and checked in this
        process, unless one of these is given.
    hot_from
        From so many rows on, where blocks are made, a sample is searched for hot keys.
    accepted
        A file as `holdstrue accept` writes it, or its entries: such violations are counted, and neither listed nor
        held against the data.

    Complexity: as in one process, divided over the tasks.
    """
    require_limit(limit)
    ruleset = with_types(load_rules(rules), types)
    frames: dict[str, DataFrame] = dict(named_frames(data)) if isinstance(data, Mapping) else {}
    main = main_table(ruleset, tuple(frames))
    if not frames:
        if isinstance(data, Mapping):
            raise DataError("no data frames were given", hint="one by its table, or one alone")
        frames = {main: named_frames(data)}
    own = (key,) if isinstance(key, str) else tuple(key or ruleset.key)
    runner = SparkRunner(next(iter(frames.values())).sparkSession)
    sizing = Sizing(shards, blocks, tasks, hot_from)
    report = _checked(runner, frames, ruleset, main, own, limit, index, sizing)
    if accepted is None:
        return report
    known = accepting(report, accepted)
    new = sum(entry.violations for entry in known.accepted if not entry.lapsed)
    if limit is None or report.small is not None or not new or report.total <= limit:
        return known
    # the list is of the first violations, of which some are accepted: as many more are named
    longer = _checked(runner, frames, ruleset, main, own, limit + new, index, sizing)
    return replace(known, lists=longer.lists, named=longer.named)


def _checked(
    runner: SparkRunner,
    frames: Mapping[str, DataFrame],
    ruleset: RuleSet,
    main: str,
    own: tuple[str, ...],
    limit: int | None,
    index: IndexKind,
    sizing: Sizing,
) -> SparkReport:
    """The report, by whatever way suits the tables."""
    most = MOST if limit is None else limit
    given = prepared(runner, frames, ruleset, main, own, index)
    # how the work is cut was asked for, so that it is to be cut
    small = check_small(given, limit) if sizing == Sizing() else None
    if small is not None:
        return _in_this_process(runner, given, small)
    native = Native.of(given.plan, given.frames, given.keys)
    if sizing.shards is not None or sizing.blocks is not None:
        # how shards are cut was asked for, so that there are to be shards
        native.rules = []
    if native.rules:
        native.run(most, {main: own} if own and main in given.frames else {})
    left = [number for number in range(len(ruleset)) if number not in native.rules]
    found = checked(given.part(left) if native.rules else given, most, sizing) if left else None
    ranges = None if found is None else found.ranges
    all_in_shards = found if found is not None and not native.rules and ranges is None else None
    rows = {**native.rows, **({} if found is None else found.rows)}
    results = _results(given.plan, native, {} if found is None else {r.rule.name: r for r in found.results}, rows)
    lists = () if found is None else found.lists
    broken = [v for number in native.rules for v in _named(native, number, results[number])] if most else []
    notes = given.notes
    if own and main in given.frames and native.shares_key is not False:
        notes = (*notes, *_shared_keys(given.frames[main], own))
    how = None
    if found is not None and (native.rules or ranges is not None):
        how = "\n".join((*(ranges.explain() if ranges is not None else ()), explain_layout(found.ledger)))
    return SparkReport(
        results, {name: rows.get(name, 0) for name in given.plan.schemas}, limit, lists, given, sizing, runner,
        tuple(broken), native, how, all_in_shards, notes=notes,
    )  # fmt: skip


def _in_this_process(runner: SparkRunner, given: Prepared, found: Report) -> SparkReport:
    """The report on tables that are so small that they were fetched."""
    rows = {name: found.rows[name] for name in given.plan.schemas}
    said = f"in this process: {sum(rows.values()):,} rows, as few as a job of tasks would mostly wait for"
    return SparkReport(
        found.results, rows, found.limit, (), given, Sizing(), runner, tuple(found.listed()),
        Native(Tables(given.plan, {}), given.keys), said, small=found, notes=(*given.notes, *found.notes),
    )  # fmt: skip


def _results(
    plan: Plan, native: Native, others: Mapping[str, RuleResult], rows: Mapping[str, int]
) -> tuple[RuleResult, ...]:
    """How each rule stands, whoever checked it."""
    moment = wall()
    results = []
    for number, rule in enumerate(plan.rules):
        if number not in native.rules:
            results.append(others[rule.name])
            continue
        told = None
        if number in native.parts:
            [check] = [check for check in plan.checks if check.rule == number]
            assert isinstance(check, MeasureCheck)
            parts = native.parts[number]
            counts, told = RuleCounts(0, 0, 0, int(check.broken(parts, moment))), check.said(parts, moment)
        else:
            counts = native.counts[number]
        status = status_of(rule, counts, rows[rule.own_table or plan.main])
        results.append(RuleResult(rule, rule.text, counts, status, measured=told))
    return tuple(results)


def _named(native: Native, number: int, result: RuleResult) -> tuple[Violation, ...]:
    """The violations of a rule that are listed; one about a whole table names no rows."""
    if result.measured is not None:
        return (Violation(result.rule.name, None),) * result.counts.open
    return native.named.get(number, ())


def _shared_keys(frame: DataFrame, key: Sequence[str]) -> Iterator[str]:
    """What there is to say of a key that several rows have: an aggregation that only one row of leaves the cluster."""
    names = list(dict.fromkeys(key))
    keys = frame.select(*names)
    if any(isinstance(field.dataType, _UNGROUPED) for field in keys.schema):
        return
    rows = keys.groupBy(*names).agg(F.count(F.lit(1)).alias(ROW))
    again = rows.filter(F.col(ROW) > 1)
    [found] = again.agg(F.sum(F.col(ROW) - 1), *map(F.first, names)).collect()
    if found[0]:
        yield shared_key_note(dict(zip(names, found[1:], strict=True)), found[0])


@dataclass(frozen=True, repr=False)
class SparkReport(Findings):
    """How data frames stand to their rules: counts and first violations here, all violations as a data frame."""

    lists: tuple[pa.Table, ...]
    given: Prepared
    sizing: Sizing
    runner: SparkRunner
    named: tuple[Violation, ...]
    """The violations of rules that Catalyst checked, as far as they are listed."""
    native: Native
    rest: str | None
    """How rules were checked where Catalyst did not check them all, and not as a report's layout says."""
    sharded: ShardedFindings | None = None
    """What shards found, where they checked all rules as the layout says."""
    small: Report | None = None
    """What was found in this process, of small tables."""
    known: Mapping[str, KnownViolations] = field(default_factory=dict)
    """By rule which violations are accepted."""

    @cached_property
    def _shards(self) -> tuple[Ledger, CheckedFrames]:
        """What violations are found with when they are asked for: planned only then, which takes Spark some time."""
        if self.sharded is not None:
            return self.sharded.ledger, self.sharded.source
        return unread(self.given, MOST if self.limit is None else self.limit, self.sizing)

    def listed(self) -> Iterator[Violation]:
        """The violations that are written out: the first ones, up to the report's limit."""
        return islice(self.found(), self.limit)

    def found(self) -> Iterator[Violation]:
        """The first violations of every rule that are not accepted, of each up to the report's limit."""
        every = chain(self.named, (violation_of(row) for table in by_table(self.lists) for row in table.to_pylist()))
        yield from (violation for violation in every if not is_known(violation, self.known))

    def violations(self, rule: str | None = None) -> DataFrame:
        """All violations that are not accepted as a data frame of rule, t and s; it is a check anew when it is read."""
        names = [result.rule.name for result in self.results]
        known_rule([result.rule for result in self.results], rule)
        wanted = [i for i, name in enumerate(names) if rule in (None, name)]
        ledger, source = self._shards
        listing = Listing(source.job, tuple(c for i in wanted for c in ledger.checks_of(i)))
        messages = self.runner.messages(source.work, source.job.tasks)
        found = violations_frame(messages, FreshListing(listing), source.job.layout, listing.checks, known=self.known)
        whole = [result.rule.name for result in self.results if result.measured is not None and result.counts.open]
        own = [(name, False, None, None) for name in whole if rule in (None, name)]
        return found.unionAll(found.sparkSession.createDataFrame(own, found.schema)) if own else found

    def key_columns(self, rule: Rule) -> tuple[str, ...]:
        """The columns that name the rows of a rule's table; none where rows are numbered."""
        own = self.given.keys[rule.own_table or self.given.plan.main]
        return () if own == (ROW,) else own

    def examples(self, result: RuleResult, limit: int) -> list[tuple[Violation, list[dict[str, Any]]]]:
        """The first violations of a rule, each with its rows; these are looked up in the data frame by key."""
        # not of `listed`, which the rules before may fill
        if result.measured is not None:
            return []
        if self.small is not None:
            named = self.small.examples(result, limit)
            return [(v, [{n: x for n, x in row.items() if n != ROW} for row in rows]) for v, rows in named]
        own = list(islice((v for v in self.found() if v.rule == result.rule.name), limit))
        table = result.rule.own_table or self.given.plan.main
        columns = list(dict.fromkeys((*self.key_columns(result.rule), *result.rule.columns)))
        keys = {key for v in own for key in ((v.t, v.s) if v.pair else (v.t,))}
        if not keys:
            return []
        found = rows_with_keys(self.given.sources[table], self.given.keys[table], columns, keys)
        if found.num_rows > len(keys) and not isinstance(result.rule.body, Inclusion):
            # rows share a key, so that only the rule itself can tell which of them break it
            # some rows say nothing about what all of them look like: text that was ordered is ordered here too
            text = {field.name: "text" for field in found.schema if is_text(field.type)}
            alone = replace(self.given.plan.rules, rules=(result.rule,), types=())
            here = check_here(found, alone, key=self.given.keys[table], types=text)
            return here.examples(here.results[0], limit)
        rows = by_key(found, self.given.keys[table], columns)
        return [(v, [rows[key] for key in ((v.t, v.s) if v.pair else (v.t,))]) for v in own]

    def explain(self) -> str:
        """Which scans, shuffles, routes and checks served the rules."""
        said = [self.native.explain()] if self.native.rules else []
        if not said and self.rest is None:
            said = [explain_layout(self._shards[0])]
        return "\n".join((*said, *([self.rest] if self.rest else ()), explain(self.given.plan, {})))
