"""A monitor's state in shards, at one version: batches are planned, their stages run, and what came of it committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from holdstrue.detect.clock import wall
from holdstrue.detect.delta import Batched, Delta, RuleCounts, Violation
from holdstrue.detect.ordering import order_notes, ordered_text
from holdstrue.detect.resolve import OnConflict
from holdstrue.detect.sequence import is_gone
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.monitor.keeper import Request
from holdstrue.monitor.reading import writer_lock
from holdstrue.plan.compile import Plan
from holdstrue.progress import LOG
from holdstrue.shards.facts import (
    HISTORY,
    Facts,
    history_lines,
    history_of,
    history_table,
    late_notes,
    new_fields,
    now_text,
)
from holdstrue.shards.homes import Homes, OneTask
from holdstrue.shards.hot import SAMPLE, blocks_for, blocks_within, hot_places, placing_columns
from holdstrue.shards.layout import Job, Layout
from holdstrue.shards.ledger import Ledger, Settled, layout_of
from holdstrue.shards.lists import ADDED, REMOVED, by_table, delta_lists, kept_references, whole_tables
from holdstrue.shards.memory import rows_a_shard
from holdstrue.shards.passing import KIND as PASSING
from holdstrue.shards.reading import Reload
from holdstrue.shards.routes import MOST, Routes
from holdstrue.shards.runner import Frame, Runner, Sizing
from holdstrue.shards.scatter import KAFKA, PATH, Feed, FirstSeen, Scatter, feed_of, types_in
from holdstrue.shards.status import explain_layout, told_apart
from holdstrue.sources.feeds.batches import FEEDS
from holdstrue.sources.feeds.target import Target
from holdstrue.state.journal import COLLECT_EVERY, Journal
from holdstrue.state.manifest import RunFile

HISTORY_RUNS = 256
"""Batches whose lines of history are kept one by one: every version names them all."""


@dataclass(frozen=True)
class Version:
    """A laid-out state as some stage reads it."""

    facts: Facts
    ledger: Ledger
    job: Job


class InShards:
    """An open journal whose rows lie in shards, and who runs the stages over these."""

    def __init__(self, runner: Runner, journal: Journal, sizing: Sizing, path: str) -> None:
        self._runner = runner
        self._journal = journal
        self._sizing = sizing
        self._path = path
        self._first_rows: Mapping[str, int] = {}
        self.facts = journal.read(Facts.of)
        """What there is to know of the monitor beside its rows."""

    def now(self) -> Facts:
        """The facts with rows, counts and batches as they are."""
        return self.facts.judged(self.moment)

    @property
    def moment(self) -> int:
        """When rules are judged, in nanoseconds since 1970: now, or when an earlier version was made."""
        time = self._journal.moment.time if self._journal.past else None
        return wall() if time is None else int(time.timestamp() * 10**6) * 1000

    @property
    def batches(self) -> int:
        """How many batches were applied."""
        return self.facts.batches

    # --- changing ------------------------------------------------------------------------------

    def usable(self) -> None:
        """It is opened anew for every batch, so nothing stands in the way of this one."""

    def seen(self, batch: str) -> bool:
        """Whether a batch of this id was applied."""
        return self._journal.seen(batch)

    def apply(self, facts: Facts, request: Request) -> Delta:
        """Apply a batch, whole or not at all."""
        if request.extent != "changes":
            raise HoldstrueError(
                "a snapshot is compared with rows in one process",
                hint="use holdstrue.Monitor, or leave out --engine spark",
            )
        require_feed(request.feed)
        frames = dict(request.parts)
        for name, declared in request.declared.items():
            # change files are read so, one by one, in the tasks
            if name in frames and declared and request.feed not in ("files", KAFKA):
                frames[name] = self._runner.declared(frames[name], declared, facts.schemas.get(name))
        feeds = {name: self._feed(facts, name, frame, request) for name, frame in frames.items()}
        learned = dict(facts.schemas) | {name: found.schema for name, found in feeds.items()}
        first = not self._sharding and not facts.schemas
        layout = self._layout(replace(facts, schemas=learned), frames, feeds, first=first)
        told = {name: new_fields(found.schema, facts.schemas.get(name)) for name, found in feeds.items()}
        first_seen = FirstSeen(self._runner, frames, feeds, facts.keys, request.read)
        ordered = ordered_text(facts.rules, facts.main, told)
        request.notes.add(*order_notes(ordered, first_seen.values, request.declared.__getitem__))
        if not first:
            facts = self._suited(facts, layout)
        job = self._job(layout, min(request.limit, MOST), request.on_conflict)
        if first:
            job = self._divided(job, sum(self._first_rows.values()))
        elif not request.one_task:
            tasks = self._runner.tasks_for(list(frames.values()))
            job = replace(job, tasks=max(job.tasks, min(tasks, len(layout.spots))))
        return self._run(replace(facts, schemas=learned), request, job, frames, feeds, first=first)

    def _run(
        self,
        facts: Facts,
        request: Request,
        job: Job,
        frames: Mapping[str, Frame],
        feeds: Mapping[str, Feed],
        *,
        first: bool,
    ) -> Delta:
        # the first rows of a state change nothing that is there, so they need not go home first
        direct = first and job.on_conflict == "error" and all(found.only_inserts for found in feeds.values())
        laid = direct and not self._journal.files.store.shared
        sources = []
        for name, frame in frames.items():
            found, declared = feeds[name], request.declared[name]
            columns = found.columns(job.layout.plan.schemas[name].names)
            read = {option: value for option, value in request.read.items() if option not in ("schema", "widen")}
            stage = Scatter(job, name, found.kind, found.op_column, direct, read, found.schema, declared, laid)
            own = self._runner.select(frame, columns)
            if direct:
                sources.append(self._runner.own_reading(own, stage))
            else:
                unit = "files" if found.kind == "files" else "changes"
                sources.append((self._runner.observed(own, name, unit), stage))
        ledger = Ledger(job.layout, self._shards)
        heard = None
        if request.one_task and not direct and len(sources) == 1:
            [(frame, stage)] = sources
            gathered = [(self._runner.gathered(frame), OneTask(stage, Homes(job)))]
            heard = ledger.heard(list(self._runner.run(gathered, [Routes(job)], job.tasks)))
        if heard is None or heard.overflow:
            stages = [Routes(job)] if direct else [Homes(job), Routes(job)]
            try:
                heard = ledger.heard(list(self._runner.run(sources, stages, job.tasks)))
            finally:
                if laid:
                    self._journal.files.discard(PASSING, job.version + 1)
        request.notes.add(*heard.notes, *late_notes(heard.late, facts.sequence))
        return self._committed(facts, ledger, heard, request)

    def _committed(self, facts: Facts, ledger: Ledger, heard: Settled, request: Request) -> Delta:
        listed = list(heard.files)
        if heard.moved:
            kept = list(kept_references(self._lists(listed)))
            if kept:
                listed.append(self._journal.files.write_tables("delta", self._journal.version + 1, kept))
                heard = replace(heard, kept={**heard.kept, **_by_check(ledger.layout, kept)})
        after = ledger.after(heard)
        moment, before = wall(), ledger if facts.batches else None
        steps = after.steps(heard, before, moment)
        was, now = ([] if before is None else before.broken(moment)), after.broken(moment)
        changed = [
            *whole_tables(after.layout, [check for check in now if check not in was], ADDED),
            *whole_tables(after.layout, [check for check in was if check not in now], REMOVED),
        ]
        if changed and request.limit:
            listed.append(self._journal.files.write_tables("delta", self._journal.version + 1, by_table(changed)))
        lines = history_lines(request.batch, now_text(), steps)
        facts = replace(facts, batches=facts.batches + 1, last_batch=request.batch)
        lists = {"delta": [file.to_dict() for file in listed], "kept": bool(heard.kept)}
        self._commit(facts, after, lines, lists)
        for rule, step in steps.items():
            if step.added or step.removed:
                LOG.info("batch %s: %s: %d violations added, %d removed, %d open", request.batch, rule, step.added,
                         step.removed, step.open)  # fmt: skip
        added, removed = delta_lists(self._lists(listed), request.limit)
        measured = {
            rule: words for rule, words in after.measured(moment).items() if steps[rule].added or steps[rule].removed
        }
        return Delta(request.batch, added, removed, steps, measured=measured)

    def _commit(self, facts: Facts, ledger: Ledger, lines: list[Batched], lists: Mapping[str, Any]) -> None:
        """Name the files that tasks wrote, and lines of history, in one commit."""
        journal, table = self._journal, history_table(lines)
        moment = wall()
        counts = {rule.name: ledger.counts(i, moment) for i, rule in enumerate(facts.rules)}
        self.facts = replace(facts, rows=ledger.rows(), counts=counts, measures=ledger.measures())
        more = {**self.facts.to_dict(), "sharding": ledger.layout.to_dict(), "shards": ledger.shards, **lists}
        if not self._sharding or len(journal.runs.log) >= HISTORY_RUNS:
            # also where the state was in one piece, whose runs hold rows beside history
            written = journal.write_checkpoint({}, table, more)
        elif lines:
            written = journal.write_batch([], 0, table, more, whole=True)
        else:
            written = journal.written(journal.runs, more)
        # a look for files that nobody names costs a listing of the directory
        journal.commit(replace(written, frees=written.version % COLLECT_EVERY == 0))

    def _feed(self, facts: Facts, table: str, frame: Frame, request: Request) -> Feed:
        schema, feed = self._runner.schema(frame), request.feed
        seen, key = facts.schemas.get(table, request.read.get("schema")), facts.keys[table]
        sample = None
        if feed in ("auto", "debezium") and seen is None:
            sample = self._runner.sample(frame, 1000, 0)
        if feed == "files" and seen is not None and any(pa.types.is_null(field.type) for field in seen):
            # which type a column gets at last, all tasks must know before they read
            paths = self._runner.sample(frame, 2**31 - 1, 0).column(PATH).to_pylist()
            read = {**request.read, "types": request.declared[table]}
            schema = types_in(paths, Target(key, seen), read)
        units = request.read.get("units")
        sequence = facts.sequence.get(table)
        return feed_of(schema, key, seen, feed, request.op_column, sample, units, request.notes, sequence,
                       widen=request.read.get("widen", False))  # fmt: skip

    # --- layout --------------------------------------------------------------------------------

    @property
    def _sharding(self) -> Mapping[str, Any]:
        """How the state is laid out; nothing where it is in one piece."""
        return self._journal.facts.get("sharding", {})

    @property
    def _shards(self) -> Mapping[str, Any]:
        """By number the files, rows and counts of every shard."""
        return self._journal.facts.get("shards", {})

    def _layout(self, facts: Facts, frames: Mapping[str, Frame], feeds: Mapping[str, Feed], *, first: bool) -> Layout:
        """The layout there is, or one for the rows there are, or for the first ones that come."""
        if self._sharding:
            return self._known_layout(facts)
        plan = facts.plan()
        rows = sum(facts.rows.values())
        samples: dict[str, pa.Table] = {}
        if first:
            counts = {name: 0 if feeds[name].kind == "files" else self._count(f) for name, f in frames.items()}
            self._first_rows = counts
            rows = sum(counts.values())
            hot_from = min(self._sizing.hot_from, rows_a_shard(self._runner.worker_bytes()))
            for name, frame in frames.items():
                if feeds[name].kind not in ("debezium", KAFKA) and counts[name] and counts[name] >= hot_from:
                    placing = placing_columns(plan, name)
                    if placing:
                        found = self._runner.sample(self._runner.select(frame, placing), SAMPLE, counts[name])
                        samples[name] = found.cast(pa.schema([plan.schemas[name].field(own) for own in placing]))
        return self._new_layout(plan, facts, rows, samples)

    def _count(self, frame: Frame) -> int:
        known = self._runner.known_rows(frame)
        return self._runner.count(frame) if known is None else known

    def _known_layout(self, facts: Facts) -> Layout:
        return self._journal.read(lambda data: layout_of(data, facts))

    def _new_layout(self, plan: Plan, facts: Facts, rows: int, samples: Mapping[str, pa.Table]) -> Layout:
        tasks, worker = self._tasks(), self._runner.worker_bytes()
        most = rows_a_shard(worker)
        shards = self._sizing.shards or max(tasks, -(-rows // most))
        blocks = self._sizing.blocks or blocks_for(tasks, rows)
        layout = Layout.of(plan, facts.all_keys, shards, blocks)
        if worker is not None:
            # places must fit a worker, however many tasks there are to share the work
            tasks = max(tasks, shards)
            blocks = self._sizing.blocks or max(blocks, blocks_within(layout, samples, rows, most))
            layout = Layout.of(plan, facts.all_keys, shards, blocks)
        return layout.with_hot(hot_places(layout, tasks, samples)) if blocks > 1 else layout

    def _suited(self, facts: Facts, layout: Layout) -> Facts:
        """The state laid out as wanted: made by one process, or for other types of columns, it is read anew."""
        fits = self._sharding == layout.to_dict() and facts.schemas.keys() == {
            name for name in layout.plan.schemas if not is_gone(name)
        }
        if fits and self.facts.plan().schemas == layout.plan.schemas:
            return facts
        return self._relaid(facts, layout)

    def _relaid(self, facts: Facts, layout: Layout) -> Facts:
        job = self._divided(self._job(layout), sum(facts.rows.values()))
        before = self._job(self._known_layout(self.facts)) if self._sharding else None
        target = replace(job, version=-1)
        ledger = Ledger(layout)
        sources = [(None, Reload(target, before, self._path))]
        heard = ledger.heard(list(self._runner.run(sources, [Routes(target)], job.tasks)))
        self._commit(facts, ledger.after(heard), [], {})
        return self.facts

    def rebalance(self) -> None:
        """Lay the state out anew for the rows it has now, with hot keys found afresh. Complexity: O(table)."""
        facts, samples = self.facts, {}
        if self._sharding:
            # rows of the first home: places by key are as good as chance
            job = self._job(self._known_layout(facts))
            found = Reload(job, job, self._path).rows([0], homes=1)
            samples = {name: rows.slice(0, SAMPLE) for name, rows in found}
        self._relaid(facts, self._new_layout(facts.plan(), facts, sum(facts.rows.values()), samples))

    def _job(self, layout: Layout, limit: int = 0, on_conflict: OnConflict = "error") -> Job:
        tasks = min(self._tasks(), len(layout.spots))
        journal = self._journal
        return Job(layout, tasks, limit, self._path, journal.version, journal.facts.get("writer"), on_conflict)

    def _divided(self, job: Job, rows: int) -> Job:
        """A job in which so many rows come into the state, cut so that no task holds more of them than a shard may.

        What does not fit lies in Spark's shuffle, on disk: each task reads its part alone.
        """
        entries = rows * sum(job.layout.copies)
        wanted = -(-entries // rows_a_shard(self._runner.worker_bytes()))
        return replace(job, tasks=max(job.tasks, min(wanted, len(job.layout.spots))))

    def _tasks(self) -> int:
        return self._sizing.tasks or self._runner.tasks()

    # --- reading -------------------------------------------------------------------------------

    def current(self) -> Version | None:
        """The state for a stage that reads it, laid out first where it was in one piece; None before any data."""
        if not self.facts.schemas:
            return None
        if not self._sharding and self._journal.past:
            raise StateError(
                f"version {self._journal.version} of {self._path} was written by one process, not in shards",
                hint=f"read it in one process: holdstrue.Monitor.open({self._path!r}, at={self._journal.version})",
            )
        if not self._sharding and self._journal.read_only:
            # it is written anew in shards, for which it must be locked
            with writer_lock(self._path), Journal.open(self._path, "monitor", HISTORY) as journal:
                return InShards(self._runner, journal, self._sizing, self._path).current()
        if not self._sharding:
            facts = self.facts
            self._relaid(facts, self._new_layout(facts.plan(), facts, sum(facts.rows.values()), {}))
        layout = self._known_layout(self.facts)
        return Version(self.facts, Ledger(layout, self._shards), self._job(layout))

    def rows(self) -> dict[str, int]:
        """How many rows each table has."""
        return {name: self.facts.rows.get(name, 0) for name in self.facts.keys}

    def open(self) -> dict[str, int]:
        """How many violations each rule has. Complexity: O(rules)."""
        return {rule: counts.open for rule, counts in self.facts.judged(self.moment).counts.items()}

    def counts(self) -> dict[str, RuleCounts]:
        """How each rule stands.

        Complexity: O(shards); a job over the violating rows for rules whose rows are scattered.
        """
        now = self.current()
        if now is None:
            return {rule.name: RuleCounts(0, 0, 0, 0) for rule in self.facts.rules}
        distinct = told_apart(self._runner.distinct, now.ledger, now.job)
        moment = self.moment
        return {rule.name: now.ledger.counts(i, moment, distinct) for i, rule in enumerate(self.facts.rules)}

    def history(self) -> list[Batched]:
        """What each batch did to each rule, oldest first."""
        return history_of(self._journal.history())

    def explain(self) -> str:
        """The routes of the rule set, their shards and hot places."""
        now = self.current()
        if now is None:
            return "no data yet: routes are chosen when the columns' types are known"
        return explain_layout(now.ledger)

    @property
    def list_files(self) -> list[RunFile] | None:
        """The files that list the last batch's violations; None where it was not applied in shards."""
        known = self._journal.facts.get("delta")
        return None if known is None else [RunFile.of(data) for data in known]

    def listed(self, limit: int) -> tuple[tuple[Violation, ...], tuple[Violation, ...]]:
        """What the last batch added and removed, each up to the limit."""
        return delta_lists(self._lists(self.list_files or []), limit)

    @property
    def some_moved(self) -> bool:
        """Whether the last batch's lists hold violations that only moved."""
        return bool(self._journal.facts.get("kept", False))

    def _lists(self, files: Iterable[RunFile]) -> list[pa.Table]:
        return [table for tables in self._journal.files.read_each(list(files)) for table in tables]


def _by_check(layout: Layout, kept: Iterable[pa.Table]) -> dict[int, int]:
    """How many kept violations each inclusion has."""
    rules = [rule.name for rule in layout.plan.rules]
    checks = {rules[check.rule]: n for n, check in enumerate(layout.plan.checks)}
    found: dict[int, int] = {}
    for table in kept:
        for rule in table.column("rule").to_pylist():
            found[checks[rule]] = found.get(checks[rule], 0) + 1
    return found


def require_feed(feed: str) -> None:
    """Refuse feeds that nobody reads."""
    if feed not in (*FEEDS, "files", KAFKA):
        raise HoldstrueError(f"unknown feed {feed!r}", hint=f"one of {', '.join(FEEDS)}, files, {KAFKA}")
