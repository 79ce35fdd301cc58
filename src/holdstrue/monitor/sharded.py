"""A monitor over a sharded state: plans each batch, has it run somewhere, and commits what came of it.

How the stages of a batch are run is left to a `Runner`: Spark in earnest, plain loops in tests.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from holdstrue.data.notes import Notes
from holdstrue.data.seed import Seed
from holdstrue.detect.delta import Batched, Delta, RuleCounts, Step, Violation
from holdstrue.detect.ordering import order_notes, ordered_text
from holdstrue.detect.resolve import OnConflict
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.location import local_path
from holdstrue.plan.compile import IndexKind, main_table
from holdstrue.rules.file import dump_rules, load_rules
from holdstrue.rules.model import RuleSet
from holdstrue.rules.types import Declared, with_types
from holdstrue.shards.durable import Durable, State
from holdstrue.shards.feeds import Feed, FirstSeen, feed_of, new_fields
from holdstrue.shards.homes import Few, Homes
from holdstrue.shards.hot import SAMPLE, blocks_for, hot_places
from holdstrue.shards.job import Job
from holdstrue.shards.layout import Layout
from holdstrue.shards.ledger import Ledger, Settled
from holdstrue.shards.lists import ADDED, kept_references, settled
from holdstrue.shards.reading import Listing, Reload
from holdstrue.shards.routes import MOST, Routes
from holdstrue.shards.runner import Frame, Runner, Shape
from holdstrue.shards.scatter import PATH, Scatter, types_in
from holdstrue.shards.standing import explain_layout, layout_of, sharding, told_apart
from holdstrue.shards.tables import batch_name, keys_of, types_for_batch
from holdstrue.sources.feeds.batches import FEEDS
from holdstrue.sources.feeds.target import Target
from holdstrue.state.store import Store

LIMIT = 100_000
"""Violations a batch lists at most unless told otherwise, in each shard and check. Counts are never cut."""

ROWS_A_SHARD = 2_000_000
"""Rows that a shard should hold: a few hundred megabytes of arrays, opened by mapping. Chosen, not tuned."""


class Sharded:
    """Rules, a state directory and a runner; `apply` takes one batch whole or not at all."""

    def __init__(
        self,
        runner: Runner,
        path: str | os.PathLike[str],
        rules: Any = None,
        key: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        *,
        index: IndexKind = "blocks",
        types: Mapping[str, str] | None = None,
        shape: Shape | None = None,
    ) -> None:
        self._runner = runner
        # tasks run in other directories than the driver
        self.path = os.path.abspath(local_path(path, "state"))  # noqa: PTH100
        self._shape = shape or Shape()
        if not os.path.isdir(self.path) or not os.listdir(self.path):  # noqa: PTH112, PTH208
            if rules is None:
                Store(self.path).manifest()
            self._create(with_types(load_rules(rules), types), key, index)
        self._check_rules(rules, types)

    def _create(self, rules: RuleSet, key: Any, index: IndexKind) -> None:
        others = tuple(name for name in (key if isinstance(key, Mapping) else ()) if name != rules.table)
        main = main_table(rules, others)
        state = State(rules, main, keys_of(rules, key, main), index, Seed.new(), batches=0)
        Durable.create(self.path, state, None, []).close()

    def _check_rules(self, rules: Any, types: Mapping[str, str] | None) -> None:
        durable, state = self._opened(read_only=True)
        durable.close()
        self.rules = state.rules
        given = None if rules is None else load_rules(rules)
        declared = {**dict(() if given is None else given.types), **(types or {})}
        types_for_batch(state.rules, state.main, state.keys, state.schemas, declared)
        if given is not None and dump_rules(replace(given, types=())) != dump_rules(replace(state.rules, types=())):
            raise StateError(
                f"{self.path} watches other rules than those given",
                hint="leave the rules out to go on with its own, or choose another directory",
            )

    def _opened(self, *, read_only: bool) -> tuple[Durable, State]:
        return Durable.open(self.path, read_only=read_only)

    # --- changing ------------------------------------------------------------------------------

    def apply(
        self,
        changes: Frame | Mapping[str, Frame],
        batch_id: str | int | None = None,
        *,
        limit: int | None = LIMIT,
        on_conflict: OnConflict = "error",
        feed: str = "auto",
        op_column: str | None = None,
        types: Mapping[str, str] | None = None,
        read: Mapping[str, Any] | None = None,
        few: bool = False,
    ) -> Delta:
        """Apply one batch, whole or not at all, and say which violations it added and removed."""
        if on_conflict not in ("error", "upsert", "ignore"):
            raise HoldstrueError(f"on_conflict is {on_conflict!r}", hint="one of error, upsert, ignore")
        if feed not in (*FEEDS, "files"):
            raise HoldstrueError(f"unknown feed {feed!r}", hint=f"one of {', '.join(FEEDS)}, files")
        durable, state = self._opened(read_only=False)
        try:
            batch = batch_name(batch_id, state.batches)
            if batch_id is not None and durable.seen(batch):
                return self._again(durable, state, batch)
            frames = changes if isinstance(changes, Mapping) else {state.main: changes}
            rules, declared = types_for_batch(state.rules, state.main, state.keys, state.schemas, types)
            state = replace(state, rules=rules)
            frames = {name: self._typed(state, name, frame, feed, declared) for name, frame in frames.items()}
            notes = Notes()
            feeds = {}
            for name, frame in frames.items():
                own_read = {**(read or {}), "types": declared[name]}
                feeds[name] = self._feed(state, name, frame, feed, op_column, own_read, notes)
            learned = dict(state.schemas) | {name: found.schema for name, found in feeds.items()}
            first = durable.sharding is None and not state.schemas
            layout = self._layout(durable, replace(state, schemas=learned), frames, feeds, first=first)
            told = {name: new_fields(found.schema, state.schemas.get(name)) for name, found in feeds.items()}
            first_seen = FirstSeen(self._runner, frames, feeds, state.keys, read or {})
            notes.add(*order_notes(ordered_text(rules, state.main, told), first_seen.values, declared.__getitem__))
            if not first:
                durable, state = self._suited(durable, state, layout)
            state = replace(state, schemas=learned)
            job = self._job(durable, layout, MOST if limit is None else limit, on_conflict)
            delta = self._run(durable, state, job, batch, frames, feeds, declared, read or {}, first=first, few=few)
            notes.add(*delta.notes)
            return replace(delta, notes=tuple(notes))
        finally:
            durable.close()

    def _run(
        self,
        durable: Durable,
        state: State,
        job: Job,
        batch: str,
        frames: Mapping[str, Frame],
        feeds: Mapping[str, Feed],
        declared: Mapping[str, Mapping[str, Declared]],
        read: Mapping[str, Any],
        *,
        first: bool,
        few: bool,
    ) -> Delta:
        # the first rows of a state change nothing that is there, so they need not go home first
        direct = first and job.on_conflict == "error" and all(found.only_inserts for found in feeds.values())
        sources = []
        for name, frame in frames.items():
            found = feeds[name]
            columns = found.columns(job.layout.plan.schemas[name].names)
            stage = Scatter(job, name, found.kind, found.op_column, direct, dict(read), found.schema, declared[name])
            sources.append((self._runner.select(frame, columns), stage))
        ledger = Ledger(job.layout, durable.shards)
        heard = None
        if few and not direct and len(sources) == 1:
            [(frame, stage)] = sources
            gathered = [(self._runner.gathered(frame), Few(stage, Homes(job)))]
            heard = ledger.heard(list(self._runner.run(gathered, [Routes(job)], job.tasks)))
        if heard is None or heard.overflow:
            stages = [Routes(job)] if direct else [Homes(job), Routes(job)]
            heard = ledger.heard(list(self._runner.run(sources, stages, job.tasks)))
        return self._commit(durable, state, ledger, heard, batch, job.limit)

    def _commit(self, durable: Durable, state: State, ledger: Ledger, heard: Settled, batch: str, limit: int) -> Delta:
        files = list(heard.files)
        if heard.moved:
            kept = list(kept_references(durable.lists(files)))
            if kept:
                files.append(durable.write_list(kept))
                heard = replace(heard, kept={**heard.kept, **_by_check(ledger.layout, kept)})
        after = ledger.after(heard)
        steps = after.steps(heard)
        time = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        lines = [Batched(batch, time, rule, step.added, step.removed, step.open) for rule, step in steps.items()]
        counts = {rule.name: after.counts(i) for i, rule in enumerate(state.rules)}
        state = replace(state, batches=state.batches + 1, last_batch=batch, rows=after.rows(), counts=counts)
        durable.commit_shards(state, sharding(after.layout), after.shards, files, lines, kept=bool(heard.kept))
        added, removed = delta_lists(durable.lists(files), limit)
        return Delta(batch, added, removed, steps, notes=heard.notes)

    def _again(self, durable: Durable, state: State, batch: str) -> Delta:
        standing = {name: Step(0, 0, counts.open) for name, counts in state.counts.items()}
        return Delta(batch, (), (), standing, duplicate=True)

    def last(self, limit: int | None = LIMIT) -> Delta | None:
        """What the last batch did, read back from the state; None where the last batch was not applied in shards."""
        durable, state = self._opened(read_only=True)
        try:
            if durable.list_files is None or state.last_batch is None:
                return None
            lines = [line for line in durable.history() if line.batch == state.last_batch]
            added, removed = delta_lists(durable.lists(), 2**62 if limit is None else limit)
            steps = {line.rule: Step(line.added, line.removed, line.open) for line in lines}
            return Delta(state.last_batch, added, removed, steps)
        finally:
            durable.close()

    def _typed(
        self, state: State, table: str, frame: Frame, feed: str, declared: Mapping[str, Mapping[str, Declared]]
    ) -> Frame:
        """The frame with its columns as declared; change files are read so, one by one, in the tasks."""
        if table not in state.keys:
            raise HoldstrueError(f"no table {table!r} in this monitor", hint=f"it watches {', '.join(state.keys)}")
        if feed == "files" or not declared[table]:
            return frame
        return self._runner.declared(frame, declared[table], state.schemas.get(table))

    def _feed(
        self,
        state: State,
        table: str,
        frame: Frame,
        feed: str,
        op_column: str | None,
        read: Mapping[str, Any],
        notes: Notes,
    ) -> Feed:
        schema = self._runner.schema(frame)
        seen = state.schemas.get(table)
        sample = None
        if feed in ("auto", "debezium") and seen is None:
            sample = self._runner.sample(frame, 1000, 0)
        if feed == "files" and seen is not None and any(pa.types.is_null(field.type) for field in seen):
            # which type a column gets at last, all tasks must know before they read
            paths = self._runner.sample(frame, 2**31 - 1, 0).column(PATH).to_pylist()
            schema = types_in(paths, Target(state.keys[table], seen), read)
        return feed_of(schema, state.keys[table], seen, feed, op_column, sample, read.get("units"), notes)

    # --- layout --------------------------------------------------------------------------------

    def _layout(
        self,
        durable: Durable,
        state: State,
        frames: Mapping[str, Frame],
        feeds: Mapping[str, Feed],
        *,
        first: bool,
    ) -> Layout:
        plan = state.plan()
        if durable.sharding is not None:
            return layout_of(durable.sharding, plan, state.keys)
        rows = sum(state.rows.values())
        samples: dict[str, pa.Table] = {}
        if first:
            counts = {name: 0 if feeds[name].kind == "files" else self._runner.count(f) for name, f in frames.items()}
            rows = sum(counts.values())
            for name, frame in frames.items():
                if feeds[name].kind != "debezium" and counts[name] and counts[name] >= self._shape.hot_from:
                    own = self._runner.select(frame, plan.schemas[name].names)
                    samples[name] = self._runner.sample(own, SAMPLE, counts[name]).cast(plan.schemas[name])
        return self._new_layout(plan, state, rows, samples)

    def _new_layout(self, plan: Any, state: State, rows: int, samples: Mapping[str, pa.Table]) -> Layout:
        tasks = self._tasks()
        shards = self._shape.shards or max(tasks, -(-rows // ROWS_A_SHARD))
        blocks = self._shape.blocks or blocks_for(tasks, rows)
        layout = Layout.of(plan, state.keys, shards, blocks)
        return layout.with_hot(hot_places(layout, tasks, samples)) if blocks > 1 else layout

    def _suited(self, durable: Durable, state: State, layout: Layout) -> tuple[Durable, State]:
        """The state laid out as wanted: made by one process, or for other types of columns, it is read anew."""
        known = durable.sharding
        fits = known is not None and known == sharding(layout) and state.schemas.keys() == layout.plan.schemas.keys()
        types = state.plan().schemas
        if fits and types == layout.plan.schemas:
            return durable, state
        return self._relaid(durable, state, layout)

    def _relaid(self, durable: Durable, state: State, layout: Layout) -> tuple[Durable, State]:
        job = self._job(durable, layout, 0, "error")
        before = None
        if durable.sharding is not None:
            old = self._layout(durable, state, {}, {}, first=False)
            before = self._job(durable, old, 0, "error")
        target = replace(job, version=-1)
        stages = [Routes(replace(target, path=self.path))]
        sources = [(None, Reload(target, before, self.path))]
        ledger = Ledger(layout)
        heard = ledger.heard(list(self._runner.run(sources, stages, job.tasks)))
        after = ledger.after(heard)
        counts = {rule.name: after.counts(i) for i, rule in enumerate(state.rules)}
        state = replace(state, rows=after.rows(), counts=counts)
        lists, kept = durable.list_files, durable.some_moved
        durable.commit_shards(state, sharding(layout), after.shards, lists, [], kept=kept)
        return durable, state

    def rebalance(self, *, shards: int | None = None, blocks: int | None = None) -> None:
        """Lay the state out anew for the rows it has now, with hot keys found afresh. Complexity: O(table)."""
        durable, state = self._opened(read_only=False)
        try:
            plan = state.plan()
            self._shape = replace(self._shape, shards=shards, blocks=blocks)
            rows = sum(state.rows.values())
            samples = self._home_samples(durable, state)
            self._relaid(durable, state, self._new_layout(plan, state, rows, samples))
        finally:
            durable.close()

    def _home_samples(self, durable: Durable, state: State) -> dict[str, pa.Table]:
        """Rows of the first home: places by key are as good as chance."""
        if durable.sharding is None:
            return {}
        layout = self._layout(durable, state, {}, {}, first=False)
        reload = Reload(self._job(durable, layout, 0, "error"), self._job(durable, layout, 0, "error"), self.path)
        return {name: rows.slice(0, SAMPLE) for name, rows in reload.rows([0], homes=1)}

    def _job(self, durable: Durable, layout: Layout, limit: int, on_conflict: OnConflict) -> Job:
        tasks = min(self._tasks(), len(layout.spots))
        return Job(layout, tasks, limit, self.path, durable.version, on_conflict)

    def _tasks(self) -> int:
        return self._shape.tasks or self._runner.tasks()

    # --- reading -------------------------------------------------------------------------------

    def _reading(self) -> tuple[State, Ledger, Job] | None:
        """The state as it is now; only one that was made in one piece must be written anew, and so locked."""
        for read_only in (True, False):
            durable, state = self._opened(read_only=read_only)
            try:
                if not state.schemas:
                    return None
                if durable.sharding is not None:
                    layout = self._layout(durable, state, {}, {}, first=False)
                elif read_only:
                    continue
                else:
                    plan = state.plan()
                    layout = self._new_layout(plan, state, sum(state.rows.values()), {})
                    durable, state = self._relaid(durable, state, layout)
                return state, Ledger(layout, durable.shards), self._job(durable, layout, 0, "error")
            finally:
                durable.close()
        raise RuntimeError("unreachable")

    def counts(self) -> dict[str, RuleCounts]:
        """How each rule stands: rows, pairs and groups in violation.

        Complexity: O(shards); a job over the violating rows for rules whose rows are scattered.
        """
        found = self._reading()
        if found is None:
            return {rule.name: RuleCounts(0, 0, 0, 0) for rule in self.rules}
        _, ledger, job = found
        distinct = told_apart(self._runner.distinct, ledger, job)
        return {rule.name: ledger.counts(i, distinct) for i, rule in enumerate(self.rules)}

    def history(self) -> list[Batched]:
        """What each batch did to each rule, oldest first."""
        durable, _ = self._opened(read_only=True)
        try:
            return durable.history()
        finally:
            durable.close()

    @property
    def batches(self) -> int:
        """How many batches were applied."""
        durable, state = self._opened(read_only=True)
        durable.close()
        return state.batches

    @property
    def rows(self) -> dict[str, int]:
        """How many rows each table has."""
        durable, state = self._opened(read_only=True)
        durable.close()
        return {name: state.rows.get(name, 0) for name in state.keys}

    def listing(self, rule: str | None = None, *, table: str | None = None) -> Listing | None:
        """The stage that lists the violations of a rule, of a table's rules or of all; None before the first batch."""
        names = [r.name for r in self.rules]
        if rule is not None and rule not in names:
            raise HoldstrueError(f"no rule called {rule!r}", hint=f"the rules are {', '.join(names)}")
        found = self._reading()
        if found is None:
            return None
        _, ledger, job = found
        wanted = [i for i, name in enumerate(names) if rule is None or name == rule]
        checks = [check for i in wanted for check in ledger.checks_of(i)]
        own = (check for check in checks if table in (None, ledger.layout.plan.checks[check].table))
        return Listing(job, tuple(own))

    def explain(self) -> str:
        """The routes of the rule set, their shards and hot places."""
        found = self._reading()
        if found is None:
            return "no data yet: routes are chosen when the columns' types are known"
        _, ledger, _ = found
        return explain_layout(ledger)


def delta_lists(tables: Iterable[pa.Table], limit: int) -> tuple[tuple[Violation, ...], tuple[Violation, ...]]:
    """Added and removed violations, each up to the limit."""
    added: list[Violation] = []
    removed: list[Violation] = []
    for table in settled(tables):
        for row in table.to_pylist():
            into = added if row["change"] == ADDED else removed
            if len(into) < limit:
                into.append(violation_of(row))
    return tuple(added), tuple(removed)


def violation_of(row: Mapping[str, Any]) -> Violation:
    """A row of a list as a violation."""
    t, s = (tuple(v.values()) if isinstance(v := row[side], dict) else v for side in ("t", "s"))
    return Violation(row["rule"], t, s, pair=row["pair"])


def _by_check(layout: Layout, kept: Iterable[pa.Table]) -> dict[int, int]:
    """How many kept violations each inclusion has."""
    rules = [rule.name for rule in layout.plan.rules]
    checks = {rules[check.rule]: n for n, check in enumerate(layout.plan.checks)}
    found: dict[int, int] = {}
    for table in kept:
        for rule in table.column("rule").to_pylist():
            found[checks[rule]] = found.get(checks[rule], 0) + 1
    return found
