"""A check from scratch: rows go to the shards of the routes, each is checked by the same engine, nothing is kept.

How the stages are run is left to a `Runner`: Spark in earnest, plain loops in tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.detect.clock import wall
from holdstrue.detect.delta import RuleResult
from holdstrue.detect.measure import PassingMeasures
from holdstrue.detect.ordering import SAMPLE as ORDER_SAMPLE
from holdstrue.detect.ordering import order_notes, ordered_text
from holdstrue.errors import DataError, HoldstrueError
from holdstrue.index.protocol import IndexKind
from holdstrue.monitor.order_ranges import ApartRows, OrderRanges
from holdstrue.monitor.views import status_of
from holdstrue.plan.bind import require_columns
from holdstrue.plan.compile import Plan, compile_rules, needed_columns
from holdstrue.plan.measures import written
from holdstrue.rules.model import RuleSet
from holdstrue.rules.types import Declared, types_of_table
from holdstrue.shards.dispatch import first_rows
from holdstrue.shards.facts import plain_field
from holdstrue.shards.hot import SAMPLE, blocks_for, hot_places
from holdstrue.shards.layout import HOME, Columns, Job, Layout
from holdstrue.shards.ledger import Distinct, Ledger
from holdstrue.shards.lists import ADDED, whole_tables
from holdstrue.shards.memory import rows_a_shard
from holdstrue.shards.ranged_rows import CellCounts, RangedRows
from holdstrue.shards.reading import Listing, Violating, digests
from holdstrue.shards.routes import MOST, Routes, loaded
from holdstrue.shards.runner import Frame, Runner, Sizing
from holdstrue.shards.wire import FOUND, OP, ROWS, SHARD, SUMMARY, Message, failure, receive, say, send, to_tasks
from holdstrue.typing import Mask

ROW = ":row"
"""Names the rows of a table that has no key: their partition and their place in it."""


@dataclass(frozen=True)
class ShardedFindings:
    """What a check found, and where from."""

    results: tuple[RuleResult, ...]
    rows: Mapping[str, int]
    lists: tuple[pa.Table, ...]
    ledger: Ledger
    source: CheckedFrames
    notes: tuple[str, ...]
    ranges: OrderRanges | None = None
    """The rules that went by ranges: the ledger and the source have others in their places."""


@dataclass(frozen=True)
class Prepared:
    """Tables that can be checked: what is read of each, and how rules meet their types."""

    runner: Runner
    plan: Plan
    keys: Mapping[str, tuple[str, ...]]
    frames: Mapping[str, Frame]
    """The columns that are read."""
    notes: tuple[str, ...]

    @cached_property
    def sources(self) -> Mapping[str, Frame]:
        """The same with numbers for the rows that have no key."""
        own = self.frames.items()
        return {name: self.runner.numbered(f, ROW) if self.keys[name] == (ROW,) else f for name, f in own}

    def part(self, rules: Sequence[int]) -> Prepared:
        """The same for some of the rules, with what these read."""
        plan = self.plan
        chosen = replace(plan.rules, rules=tuple(plan.rules.rules[number] for number in rules))
        needed = needed_columns(chosen, plan.main)
        schemas, frames = {}, {}
        for name, columns in needed.items():
            own = plan.schemas[name]
            wanted = [n for n in own.names if n in columns or n in self.keys[name]]
            schemas[name] = pa.schema([own.field(n) for n in wanted])
            frames[name] = self.runner.select(self.frames[name], [n for n in wanted if n != ROW])
        return Prepared(self.runner, compile_rules(chosen, plan.main, schemas, plan.index), self.keys, frames, ())


def prepared(
    runner: Runner, frames: Mapping[str, Frame], rules: RuleSet, main: str, key: Sequence[str], index: IndexKind
) -> Prepared:
    """Bind the rules to the tables of a data base; rows of `main` are named by `key`, all others by their numbers."""
    declared = {name: types_of_table(rules.types, name, main, frames) for name in frames}
    keys, kept, read = _tables(runner, frames, rules, main, key, declared)
    plan = compile_rules(rules, main, kept, index)
    return Prepared(runner, plan, keys, read, _order_notes(runner, plan, read, declared))


def from_scratch(
    runner: Runner,
    frames: Mapping[str, Frame],
    rules: RuleSet,
    main: str,
    key: Sequence[str],
    most: int,
    index: IndexKind,
    sizing: Sizing,
) -> ShardedFindings:
    """Check the tables of a data base; the rows of `main` are named by `key`, all others by their numbers."""
    return checked(prepared(runner, frames, rules, main, key, index), most, sizing)


def unread(given: Prepared, most: int, sizing: Sizing) -> tuple[Ledger, CheckedFrames]:
    """A layout of which nothing is known yet, for what is asked of rows later."""
    layout, width = _layout(given.runner, given.plan, given.keys, given.frames, sizing, {}, {})
    job = Job(layout, width, most)
    return Ledger(layout), CheckedFrames(given.runner, job, tuple((f, Fresh(job, n)) for n, f in given.sources.items()))


def checked(given: Prepared, most: int, sizing: Sizing) -> ShardedFindings:
    """Check tables in shards, by one engine each."""
    runner, sources = given.runner, given.sources
    told = {name: runner.known_rows(frame) for name, frame in sources.items()}
    known = {name: rows for name, rows in told.items() if rows is not None}
    probe = sizing.blocks is None and len(known) < len(sources)
    while True:
        counts = known if probe else _counted(runner, sources, known)
        ranges = _ranges(given, counts, most, sizing)
        plan = given.plan if ranges is None else ranges.plan
        ranged = {} if ranges is None else ranges.tables
        layout, width = _layout(runner, plan, given.keys, sources, sizing, {} if probe else counts, ranged)
        job = Job(layout, width, most, probing=probe)
        work = tuple((sources[name], Fresh(job, name, ranged.get(name))) for name in sources)
        source, ledger = CheckedFrames(runner, job, work), Ledger(layout)
        heard = ledger.heard(list(runner.run(source.work, [Routes(job)], width)))
        if not heard.crowded:
            break
        # counting and sampling first would cost every small check more than the work it saves
        probe = False
    ledger = ledger.after(heard)
    rows = {name: heard.counted.get(name, 0) for name in plan.schemas}
    apart = {} if ranges is None else ranges.apart(heard)
    pairs = {rule: own.pairs for rule, own in apart.items()}
    distinct = source.told_apart(ledger, {rule: own for rule, own in apart.items() if pairs[rule]})
    results, moment = [], wall()
    measured = ledger.measured(moment)
    for number, rule in enumerate(plan.rules):
        counts_now = ledger.counts(number, moment, distinct)
        more = pairs.get(number, 0)
        counts_now = replace(counts_now, pairs=counts_now.pairs + more, open=counts_now.open + more)
        status = status_of(rule, counts_now, rows[rule.own_table or plan.main])
        results.append(RuleResult(rule, rule.text, counts_now, status, measured=measured.get(rule.name)))
    lists = (*heard.lists, *(whole_tables(layout, ledger.broken(moment), ADDED) if most else ()))
    if ranges is not None:
        lists = (*lists, *ranges.listed(runner, sources, layout, apart, lists, most))
    return ShardedFindings(tuple(results), rows, lists, ledger, source, given.notes, ranges)


def _counted(runner: Runner, sources: Mapping[str, Frame], known: Mapping[str, int]) -> dict[str, int]:
    """By table its rows, counted where they are not known."""
    return {name: known[name] if name in known else runner.count(frame) for name, frame in sources.items()}


def _ranges(given: Prepared, counts: Mapping[str, int], most: int, sizing: Sizing) -> OrderRanges | None:
    """The order rules that go by ranges, where nobody said how the work is to be cut, or wants a list of all pairs."""
    tasks = sizing.tasks or given.runner.tasks()
    if tasks < 2 or most == MOST or sizing.shards is not None or sizing.blocks is not None:
        return None
    return OrderRanges.of(given.runner, given.plan, given.frames, counts, tasks)


def _order_notes(
    runner: Runner, plan: Plan, sources: Mapping[str, Frame], declared: Mapping[str, Mapping[str, Declared]]
) -> tuple[str, ...]:
    """What there is to say about text that rules order, by its first rows."""

    def values(table: str, name: str) -> Any:
        return runner.sample(runner.select(sources[table], [name]), ORDER_SAMPLE, 0).column(0)

    ordered = ordered_text(plan.rules, plan.main, plan.schemas)
    return tuple(order_notes(ordered, values, declared.__getitem__))


def _tables(
    runner: Runner,
    frames: Mapping[str, Frame],
    rules: RuleSet,
    main: str,
    key: Sequence[str],
    declared: Mapping[str, Mapping[str, Declared]],
) -> tuple[dict[str, tuple[str, ...]], dict[str, pa.Schema], dict[str, Frame]]:
    """By table the key, the columns that are read and the frame that holds them."""
    needed = needed_columns(rules, main)
    frames = {n: runner.declared(frame, declared[n], None) for n, frame in frames.items() if n in needed}
    schemas = {name: runner.schema(frame) for name, frame in frames.items()}
    require_columns(rules, main, schemas)
    for name in key:
        if main in schemas and name not in schemas[main].names:
            raise DataError(f"no key column {name!r}", hint=f"the columns are {', '.join(schemas[main].names)}")
    keys = {name: tuple(key) if name == main and key else (ROW,) for name in frames}
    kept, read = {}, {}
    for name, frame in frames.items():
        wanted = [n for n in dict.fromkeys((*keys[name], *needed[name])) if n in schemas[name].names]
        kept[name] = pa.schema([plain_field(schemas[name].field(n)) for n in wanted])
        read[name] = runner.select(frame, wanted)
        if keys[name] == (ROW,):
            kept[name] = kept[name].append(pa.field(ROW, pa.int64()))
    return keys, kept, read


def _layout(
    runner: Runner,
    plan: Plan,
    keys: Mapping[str, tuple[str, ...]],
    sources: Mapping[str, Frame],
    sizing: Sizing,
    counts: Mapping[str, int],
    ranged: Mapping[str, RangedRows],
) -> tuple[Layout, int]:
    """Shards, blocks and hot places for tables of this size, as far as they were counted, and the number of tasks."""
    tasks = sizing.tasks or runner.tasks()
    # more of them than run at a time where each would hold too much; a hot key is spread over those that run
    width = sizing.tasks or runner.tasks_for(list(sources.values()))
    rows = sum(counts.values())
    # half of what a worker can load, since keys do not fall evenly on tasks; what waits is in the shuffle's files
    width = max(width, sizing.tasks or -(-rows // (rows_a_shard(runner.worker_bytes()) // 2)))
    # shards are not kept, so one a task will do
    layout = Layout.of(plan, keys, sizing.shards or width, sizing.blocks or blocks_for(tasks, rows))
    samples: dict[str, pa.Table] = {}
    for name, frame in sources.items():
        if counts.get(name, 0) >= max(1, sizing.hot_from) and layout.blocks > 1:
            made = ranged[name].columns if name in ranged else ()
            own = pa.schema([field for field in plan.schemas[name] if field.name not in made])
            sample = runner.sample(frame, SAMPLE, counts[name]).cast(own)
            samples[name] = ranged[name].with_columns(sample, ranged[name].numbers(sample)) if made else sample
    return layout.with_hot(hot_places(layout, tasks, samples)), min(width, len(layout.spots))


SENT_ROWS = 4096
"""Rows that a task is sent at a time, about: small messages cost more than their rows. Chosen, not tuned."""
BATCH_ROWS = 10_000
"""Spark hands over so many at a time."""
_MOST_GATHERED = 1 << 18


def gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of about so many, or of a bounded number.

    >>> batch = pa.record_batch({"a": [1, 2]})
    >>> [table.num_rows for table in gathered([batch] * 5, 4)]
    [4, 4, 2]
    """
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.num_rows
        if size >= min(rows, _MOST_GATHERED):
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


@dataclass(frozen=True)
class Fresh:
    """The stage that sends the rows of a table to all shards that check them; nothing is kept."""

    job: Job
    table: str
    ranged: RangedRows | None = None
    """How rows are cut into ranges, where rules go by them."""
    apart: Mapping[int, tuple[Mask, Mask]] = field(default_factory=dict)
    """By rule the cells whose rows, as t and as s, violate it whoever they meet: digests of these are sent too."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, messages out."""
        return send(self._messages(batches))

    def _messages(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
        layout, total, ranged = self.job.layout, 0, self.ranged
        passing = PassingMeasures(layout.plan.checks, self.table)
        at_home = any(layout.plan.checks[check].width for check in layout.home_checks)
        cells = None if ranged is None or self.apart else CellCounts(ranged)
        try:
            made = () if ranged is None else ranged.columns
            schema = pa.schema([own for own in layout.plan.schemas[self.table] if own.name not in made])
            for part in gathered(batches, max(BATCH_ROWS, SENT_ROWS * self.job.tasks)):
                rows = part.select(schema.names).cast(schema)
                total += rows.num_rows
                passing.read(rows)
                numbers = {} if ranged is None else ranged.numbers(rows)
                if ranged is not None:
                    rows = ranged.with_columns(rows, numbers)
                if cells is not None:
                    cells.read(rows, numbers)
                columns = Columns(rows)
                home, block, (hi, lo) = layout.home(self.table, columns)
                for rule, masks in self.apart.items():
                    assert ranged is not None
                    own = np.flatnonzero(ranged.chosen(rule, rows, numbers, masks))
                    named = pa.Table.from_batches([digests(rule, hi[own], lo[own])])
                    yield from to_tasks(named, self.job.task_of(home[own]), FOUND, HOME, self.table)
                if at_home:
                    sent = rows.append_column(OP, pa.array(np.zeros(rows.num_rows, dtype=np.uint8)))
                    sent = sent.append_column(SHARD, pa.array(home))
                    yield from to_tasks(sent, self.job.task_of(home), ROWS, HOME, self.table)
                yield from first_rows(self.job, self.table, columns, block)
            if cells is not None:
                yield from cells.messages(self.table, self.job.tasks)
            passed = [(check, at, *written([part])) for check, at, part in passing.parts()]
            yield say(SUMMARY, {"counted": {self.table: total}, "passed": passed})
        except HoldstrueError as error:
            yield failure(error, HOME)


@dataclass(frozen=True)
class CheckedFrames:
    """The data frames of a check, from which everything can be found again."""

    runner: Runner
    job: Job
    work: tuple[tuple[Frame, Fresh], ...]

    def told_apart(self, ledger: Ledger, apart: Mapping[int, ApartRows]) -> Distinct:
        """What only telling rows and groups apart can count, for rules whose rows several shards hold."""
        numbered = self.numbered()
        violating = Violating.of(ledger, numbered.job, apart)
        if not violating.rules:
            return Distinct()
        work = []
        for frame, stage in numbered.work:
            own = {rule: rows.cells.partnered() for rule, rows in apart.items() if rows.table == stage.table}
            work.append((frame, replace(stage, apart=own)))
        found = FreshViolating(numbered.job, violating)
        return violating.counted(self.runner.distinct(found, self.job.tasks, work))

    def numbered(self) -> CheckedFrames:
        """The same with rows named by their numbers: several rows may share a key, and each of them counts."""
        layout = self.job.layout
        schemas = dict(layout.plan.schemas)
        frames = {stage.table: frame for frame, stage in self.work}
        for name in (name for name, key in layout.keys.items() if key != (ROW,)):
            schemas[name] = schemas[name].append(pa.field(ROW, pa.int64()))
            frames[name] = self.runner.numbered(frames[name], ROW)
        plan = replace(layout.plan, schemas=schemas)
        job = replace(self.job, layout=replace(layout, plan=plan, keys=dict.fromkeys(layout.keys, (ROW,))))
        ranged = {stage.table: stage.ranged for _, stage in self.work}
        work = tuple((frame, Fresh(job, name, ranged[name])) for name, frame in frames.items())
        return replace(self, job=job, work=work)


@dataclass(frozen=True)
class FreshViolating:
    """Violating rows of shards that are made on the way."""

    job: Job
    violating: Violating

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Messages in, (number, hi, lo) out."""
        messages = list(receive(batches))
        for message in messages:
            if message.kind == FOUND:
                yield from message.table().to_batches()
        for number, shard, own in loaded(self.job, messages):
            yield from self.violating.of_shard(number, shard, own)


@dataclass(frozen=True)
class FreshListing:
    """Violations of shards that are made on the way."""

    listing: Listing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Messages in, lists of violations out."""
        for number, shard, own in loaded(self.listing.job, receive(batches)):
            yield from self.listing.of_shard(number, shard, own)
