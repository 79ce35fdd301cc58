"""From scratch on Spark: rows go to the shards of the routes, each shard is checked by the same engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.detect.check import check as check_here
from holdstrue.detect.delta import RuleResult, Violation
from holdstrue.detect.ordering import SAMPLE as ORDER_SAMPLE
from holdstrue.detect.ordering import order_notes, ordered_text
from holdstrue.detect.report import Findings
from holdstrue.detect.tables import plain_field
from holdstrue.detect.views import known_rule, status_of
from holdstrue.errors import DataError, HoldstrueError
from holdstrue.io.fit import is_text
from holdstrue.plan.bind import own_columns, require_columns
from holdstrue.plan.compile import IndexKind, Plan, compile_rules, main_table, needed_columns, table_of
from holdstrue.plan.explain import explain
from holdstrue.plan.layout import HOME, Columns, Layout
from holdstrue.rules.file import load_rules
from holdstrue.rules.model import Inclusion, Rule
from holdstrue.rules.types import Declared, types_of_table, with_types
from holdstrue.spark.dispatch import first_rows
from holdstrue.spark.hot import SAMPLE, blocks_for, hot_places
from holdstrue.spark.job import Job
from holdstrue.spark.ledger import Ledger
from holdstrue.spark.lists import by_table
from holdstrue.spark.reading import Listing, Violating
from holdstrue.spark.runner import SparkRunner
from holdstrue.spark.sharded import HOT_FROM, Shape, violation_of
from holdstrue.spark.standing import explain_layout
from holdstrue.spark.tables import by_key, rows_with_keys, violations_frame
from holdstrue.spark.typed import declared_frame
from holdstrue.spark.wire import OP, ROWS, SHARD, SUMMARY, Message, failure, say, send, to_tasks
from holdstrue.spark.work import Routes, loaded

ROW = ":row"
"""Names the rows of a table that has no key: their partition and their place in it."""


def check(
    data: DataFrame | Mapping[str, DataFrame],
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
) -> Report:
    """Find every violation of the rules in a data frame, or in several by their names.

    Parameters
    ----------
    data
        A data frame; for inclusion dependencies a mapping from table name to data frame.
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
        How the work is cut; chosen by the number of rows and cores unless given.
    hot_from
        From so many rows on, where blocks are made, a sample is searched for hot keys.

    Complexity: as in one process, divided over the tasks.
    """
    if limit is not None and limit < 0:
        raise HoldstrueError(f"limit is {limit}", hint="give how many violations to list, None for all")
    ruleset = with_types(load_rules(rules), types)
    frames = dict(data) if isinstance(data, Mapping) else {}
    main = main_table(ruleset, tuple(frames))
    frames = frames or {main: data}  # type: ignore[dict-item]
    spark = next(iter(frames.values())).sparkSession
    runner = SparkRunner(spark)
    needed = needed_columns(ruleset, main)
    declared = {name: types_of_table(ruleset.types, name, main, frames) for name in frames}
    frames = {name: declared_frame(frame, declared[name]) for name, frame in frames.items() if name in needed}
    schemas = {name: runner.schema(frame) for name, frame in frames.items()}
    require_columns(ruleset, main, schemas)
    own = (key,) if isinstance(key, str) else tuple(key or ruleset.key)
    for name in own:
        if main in schemas and name not in schemas[main].names:
            raise DataError(f"no key column {name!r}", hint=f"the columns are {', '.join(schemas[main].names)}")
    keys = {name: own if name == main and own else (ROW,) for name in frames}
    kept, sources = {}, {}
    for name, frame in frames.items():
        wanted = [n for n in dict.fromkeys((*keys[name], *needed[name])) if n in schemas[name].names]
        fields = [plain_field(schemas[name].field(n)) for n in wanted]
        sources[name] = runner.select(frame, wanted)
        if keys[name] == (ROW,):
            fields.insert(0, pa.field(ROW, pa.int64()))
            sources[name] = sources[name].withColumn(ROW, F.monotonically_increasing_id())
        kept[name] = pa.schema(fields)
    plan = compile_rules(ruleset, main, kept, index)
    notes = _order_notes(runner, plan, sources, declared)
    shape = Shape(shards, blocks, tasks, hot_from)
    most = 2**31 - 1 if limit is None else limit
    probe = shape.blocks is None
    layout, width = _layout(runner, plan, keys, sources, shape, counted=not probe)
    while True:
        job = Job(layout, width, most, probing=probe)
        work = [(sources[name], Fresh(job, name)) for name in sources]
        ledger = Ledger(layout)
        heard = ledger.heard(list(runner.run(work, [Routes(job)], width)))
        if not heard.crowded:
            break
        # counting and sampling first would cost every small check more than the work it saves
        probe = False
        layout, width = _layout(runner, plan, keys, sources, shape, counted=True)
    ledger = ledger.after(heard)
    rows = {name: heard.counted.get(name, 0) for name in kept}
    fresh = Source(runner, job, tuple(work), frames)
    distinct = fresh.distinct_rows(ledger)
    results = []
    for number, rule in enumerate(ruleset):
        counts = ledger.counts(number, distinct.get(number))
        results.append(RuleResult(rule, rule.text, counts, status_of(rule, counts, rows[table_of(rule, main)])))
    return Report(tuple(results), rows, limit, heard.lists, ledger, fresh, notes=notes)


def _order_notes(
    runner: SparkRunner,
    plan: Plan,
    sources: Mapping[str, DataFrame],
    declared: Mapping[str, Mapping[str, Declared]],
) -> tuple[str, ...]:
    """What there is to say about text that rules order, by its first rows."""

    def values(table: str, name: str) -> Any:
        return runner.sample(runner.select(sources[table], [name]), ORDER_SAMPLE, 0).column(0)

    ordered = ordered_text(plan.rules, plan.main, plan.schemas)
    return tuple(order_notes(ordered, values, declared.__getitem__))


def _layout(
    runner: SparkRunner,
    plan: Plan,
    keys: Mapping[str, tuple[str, ...]],
    sources: Mapping[str, DataFrame],
    shape: Shape,
    *,
    counted: bool,
) -> tuple[Layout, int]:
    """Shards, blocks and hot places for tables of this size, and the number of tasks."""
    tasks = shape.tasks or runner.tasks()
    counts = {name: runner.count(frame) if counted else 0 for name, frame in sources.items()}
    rows = sum(counts.values())
    # shards are not kept, so one a task will do
    layout = Layout.of(plan, keys, shape.shards or tasks, shape.blocks or blocks_for(tasks, rows))
    samples = {
        name: runner.sample(frame, SAMPLE, counts[name]).cast(plan.schemas[name])
        for name, frame in sources.items()
        if counts[name] and counts[name] >= shape.hot_from and layout.blocks > 1
    }
    return layout.with_hot(hot_places(layout, tasks, samples)), min(tasks, len(layout.spots))


@dataclass(frozen=True)
class Fresh:
    """The stage that sends the rows of a table to all shards that check them; nothing is kept."""

    job: Job
    table: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, messages out."""
        return send(self._messages(batches))

    def _messages(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
        layout, total = self.job.layout, 0
        try:
            for batch in batches:
                schema = layout.plan.schemas[self.table]
                rows = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
                total += rows.num_rows
                columns = Columns(rows)
                home, block, _ = layout.home(self.table, columns)
                if layout.home_checks:
                    sent = rows.append_column(OP, pa.array(np.zeros(rows.num_rows, dtype=np.uint8)))
                    sent = sent.append_column(SHARD, pa.array(home))
                    yield from to_tasks(sent, self.job.task_of(home), ROWS, HOME, self.table)
                yield from first_rows(self.job, self.table, columns, block)
            yield say(SUMMARY, {"counted": {self.table: total}})
        except HoldstrueError as error:
            yield failure(error, HOME)


@dataclass(frozen=True)
class Source:
    """The data frames of a check, from which everything can be found again."""

    runner: SparkRunner
    job: Job
    work: tuple[tuple[DataFrame, Fresh], ...]
    frames: Mapping[str, DataFrame]

    def messages(self) -> DataFrame:
        """The rows on their way to the shards, as a data frame."""
        return self.runner.messages(self.work, self.job.tasks)

    def distinct_rows(self, ledger: Ledger) -> dict[int, int]:
        """By rule the number of distinct violating rows, for rules whose rows several shards count."""
        wanted = [i for i in range(len(self.job.layout.plan.rules.rules)) if ledger.scattered(i)]
        rules = {check: i for i in wanted for check in ledger.checks_of(i)}
        if not rules:
            return {}
        numbered = self.numbered()
        stage = FreshViolating(numbered.job, Violating(Listing(numbered.job, tuple(rules)), rules))
        return self.runner.counted(numbered.messages(), stage)

    def numbered(self) -> Source:
        """The same with rows named by their numbers: several rows may share a key, and each of them counts."""
        layout = self.job.layout
        schemas = dict(layout.plan.schemas)
        frames = {stage.table: frame for frame, stage in self.work}
        for name in (name for name, key in layout.keys.items() if key != (ROW,)):
            schemas[name] = schemas[name].insert(0, pa.field(ROW, pa.int64()))
            frames[name] = frames[name].withColumn(ROW, F.monotonically_increasing_id())
        plan = replace(layout.plan, schemas=schemas)
        job = replace(self.job, layout=replace(layout, plan=plan, keys=dict.fromkeys(layout.keys, (ROW,))))
        work = [(frame, Fresh(job, name)) for name, frame in frames.items()]
        return replace(self, job=job, work=tuple(work))


@dataclass(frozen=True)
class FreshViolating:
    """Violating rows of shards that are made on the way."""

    job: Job
    violating: Violating

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Messages in, (rule, hi, lo) out."""
        for _, shard, own in loaded(self.job, batches):
            yield from self.violating.of_shard(shard, own)


@dataclass(frozen=True)
class FreshListing:
    """Violations of shards that are made on the way."""

    listing: Listing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Messages in, lists of violations out."""
        for number, shard, own in loaded(self.listing.job, batches):
            yield from self.listing.of_shard(number, shard, own)


@dataclass(frozen=True, repr=False)
class Report(Findings):
    """How data frames stand to their rules: counts and first violations here, all violations as a data frame."""

    lists: tuple[pa.Table, ...]
    ledger: Ledger
    source: Source

    def listed(self) -> Iterator[Violation]:
        """The violations that are written out: the first ones, up to the report's limit."""
        return islice(self._found(), self.limit)

    def _found(self) -> Iterator[Violation]:
        return (violation_of(row) for table in by_table(self.lists) for row in table.to_pylist())

    def violations(self, rule: str | None = None) -> DataFrame:
        """All violations as a data frame of rule, t and s; the check is run again when it is read."""
        names = [result.rule.name for result in self.results]
        known_rule([result.rule for result in self.results], rule)
        wanted = [i for i, name in enumerate(names) if rule in (None, name)]
        listing = Listing(self.source.job, tuple(c for i in wanted for c in self.ledger.checks_of(i)))
        return violations_frame(self.source.messages(), FreshListing(listing), self.source.job.layout, listing.checks)

    def key_columns(self, rule: Rule) -> tuple[str, ...]:
        """The columns that name the rows of a rule's table; none where rows are numbered."""
        layout = self.source.job.layout
        own = layout.keys[table_of(rule, layout.plan.main)]
        return () if own == (ROW,) else own

    def examples(self, result: RuleResult, limit: int) -> list[tuple[Violation, list[dict[str, Any]]]]:
        """The first violations of a rule, each with its rows; these are looked up in the data frame by key."""
        # not of `listed`, which the rules before may fill
        own = list(islice((v for v in self._found() if v.rule == result.rule.name), limit))
        layout = self.source.job.layout
        table = table_of(result.rule, layout.plan.main)
        columns = list(dict.fromkeys((*self.key_columns(result.rule), *own_columns(result.rule))))
        keys = {key for v in own for key in ((v.t, v.s) if v.pair else (v.t,))}
        frame = next(frame for frame, stage in self.source.work if stage.table == table)
        if not keys:
            return []
        found = rows_with_keys(frame, layout.keys[table], columns, keys)
        if found.num_rows > len(keys) and not isinstance(result.rule.body, Inclusion):
            # rows share a key, so that only the rule itself can tell which of them break it
            # some rows say nothing about what all of them look like: text that was ordered is ordered here too
            text = {field.name: "text" for field in found.schema if is_text(field.type)}
            alone = replace(layout.plan.rules, rules=(result.rule,), types=())
            here = check_here(found, alone, key=layout.keys[table], types=text)
            return here.examples(here.results[0], limit)
        rows = by_key(found, layout.keys[table], columns)
        return [(v, [rows[key] for key in ((v.t, v.s) if v.pair else (v.t,))]) for v in own]

    def explain(self) -> str:
        """Which routes and checks served the rules."""
        return explain_layout(self.ledger) + "\n" + explain(self.ledger.layout.plan, {})
