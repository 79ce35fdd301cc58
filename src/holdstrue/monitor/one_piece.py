"""A monitor's state in one piece: one shard that is home and route at once, called directly."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, Self

import pyarrow as pa

from holdstrue.data.changes import INSERT, Changes
from holdstrue.data.notes import Notes
from holdstrue.detect.clock import Clock
from holdstrue.detect.delta import Batched, Delta, RuleCounts, Step
from holdstrue.detect.ordering import order_notes, ordered_text, text_note
from holdstrue.detect.resolve import OnConflict
from holdstrue.detect.sequence import is_gone
from holdstrue.detect.snapshot import changed_rows
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.monitor.checkpoint import BESIDE_FROM, LAST_PATIENCE, Checkpointer
from holdstrue.monitor.keeper import Request
from holdstrue.monitor.opening import clock_of, require_same, shard_of
from holdstrue.monitor.reading import Guard
from holdstrue.monitor.single_rows import SingleRows
from holdstrue.monitor.views import Views
from holdstrue.plan.explain import explain
from holdstrue.plan.measures import Part
from holdstrue.rules.model import Rule
from holdstrue.rules.types import Declared
from holdstrue.shards.facts import (
    HISTORY,
    Facts,
    batch_name,
    changing,
    history_lines,
    history_of,
    history_rows,
    history_table,
    late_notes,
    new_fields,
    now_text,
    plain_field,
    typed,
)
from holdstrue.shards.logged import size_of, tables_of
from holdstrue.shards.shard import Shard, write_checkpoint
from holdstrue.sources.feeds import read_changes
from holdstrue.sources.validity import validated
from holdstrue.state.files import GoneError, LogTable
from holdstrue.state.journal import Journal
from holdstrue.state.moment import At

SHARDED_FACTS = ("sharding", "shards", "delta", "kept")
"""What only the manifest of a state in shards says."""


LAST_RESORT = 4
"""So many times as many removed row versions as living ones are not kept in memory, whatever it takes."""
LARGE_BATCH = 0.5
"""A batch that brings and removes so many times as many rows as there are is followed by a checkpoint in this process.
One beside the work opens the state and applies the batch again: a million updates of a million rows took 3 to 4 s of
CPU there and 0.4 s here, after 1.5 s for the batch."""
OPENINGS = 5
"""Times that opening begins anew because a writer removed files meanwhile."""


class OnePiece:
    """Holds all rows in this process, and where there is a journal makes every batch durable."""

    def __init__(self, facts: Facts) -> None:
        self.guard = Guard()
        """Held by whoever reads or changes anything here: entering the piece takes it."""
        self.facts = facts
        """The monitor as it is now, but for what every batch changes."""
        self.batches = facts.batches
        self._last_batch = facts.last_batch
        self.shard: Shard | None = None
        """None before any table is known."""
        self.journal: Journal | None = None
        self._beside: Checkpointer | None = None
        self._stale = False
        """The checkpoint no longer fits the plan, so that the next batch must write a new one."""
        self.stopped = False
        """A batch stopped half-way, so that nothing here can be relied on."""
        self._closed = False
        self._lines: list[tuple[str, str, Mapping[str, Step]]] = []
        """Of each batch its id, when it came and what it did, where there is no journal."""
        self._ids: set[str] = set()
        self._single: SingleRows | None = None
        self._text_order: tuple[Mapping[str, pa.Schema], dict[tuple[str, str], Rule]] | None = None

    @staticmethod
    def opened(
        path: str | os.PathLike[str], *, read_only: bool, at: At | None = None, clock: Clock | None = None
    ) -> OnePiece:
        """What a state directory holds. Complexity: O(batches since the last checkpoint), not O(table).

        Rules are judged by `clock`; unless one is given now, or when an earlier version was made.
        """
        for _ in range(OPENINGS):
            try:
                return OnePiece._opened(path, read_only, at, clock)
            except GoneError:
                if at is not None:
                    raise
        return OnePiece._opened(path, read_only, at, clock)

    @staticmethod
    def _opened(path: str | os.PathLike[str], read_only: bool, at: At | None, clock: Clock | None) -> OnePiece:
        journal = Journal.open(path, "monitor", HISTORY, read_only=read_only, at=at)
        try:
            facts, files = journal.read(Facts.of), journal.files
            files.verify(*journal.runs.base.values())
            piece = OnePiece(facts)
            piece._attach(journal)
            clock = clock or (None if at is None else clock_of(journal))
            piece.shard, piece._stale = shard_of(journal, facts, clock)
            files.verified()
            if facts.schemas:
                require_same(journal, "rows", facts.rows, piece.rows())
            if facts.schemas and not piece._stale:
                # in shards a row that is in several of them may be counted more than once
                by_time = {rule for rule, check in facts.measure_checks().items() if check.timed}
                told, found = (
                    {rule: counts for rule, counts in known.items() if rule not in by_time}
                    for known in (facts.counts, piece.counts())
                )
                require_same(journal, "violations", told, found)
                require_same(journal, "measures", facts.measures, piece.measures())
        except BaseException:
            journal.close()
            raise
        return piece

    def save(self, path: str | os.PathLike[str]) -> None:
        """Keep everything in a new directory from now on. Complexity: O(table)."""
        journal = Journal.create(path, "monitor", HISTORY)
        try:
            self._checkpoint(journal, self._told())
        except BaseException:
            journal.close()
            raise
        self._attach(journal)
        self._lines, self._ids = [], set()

    def copied(self) -> OnePiece:
        """The same rows in memory, which nothing keeps. Complexity: that of opening the state, or of loading them."""
        if self.journal is not None:
            # a version that is kept no longer still has its rows here
            with suppress(GoneError):
                clock = None if self.shard is None else self.shard.engine.clock.twin()
                copy = OnePiece.opened(self.journal.files.place, read_only=True, at=self.journal.version, clock=clock)
                if copy.journal is not None:
                    copy.journal.close()
                    copy.journal = None
                return copy
        copy = OnePiece(self.facts)
        copy.batches, copy._last_batch = self.batches, self._last_batch
        if self.shard is not None:
            copy.shard = self.shard.replanned(self.shard.plan, self.shard.engine.clock.twin())
        return copy

    def __enter__(self) -> Self:
        self.guard.lock.acquire()
        if self.stopped:
            self.guard.lock.release()
            raise StateError(
                "an earlier batch stopped half-way in memory",
                hint="make the monitor anew from its data"
                if self.journal is None
                else "open the state again: its history says whether that batch is in",
            )
        if self.shard is not None:
            self.shard.engine.clock.read()
        return self

    def __exit__(self, *_: object) -> None:
        """Let others at it; it stays open from batch to batch."""
        self.guard.lock.release()

    def _attach(self, journal: Journal) -> None:
        self.journal = journal
        self._beside = Checkpointer(journal, lambda: self.now().to_dict())

    def close(self) -> None:
        """Let go of the state directory, when a checkpoint that is being written is done."""
        if self.journal is not None:
            try:
                if self._beside is not None:
                    self._beside.discard() if self.stopped else self._beside.finish()
            except (OSError, RuntimeError, StateError) as error:
                # every batch is committed: whoever applied the last one must not take this for an error of its
                warnings.warn(str(error), RuntimeWarning, stacklevel=2)
            finally:
                self._closed = True
                self._beside = None  # which refers to this, so that memory would wait for the garbage collector
                self.journal.close()

    # --- changing ------------------------------------------------------------------------------

    def seen(self, batch: str) -> bool:
        """Whether a batch of this id was applied."""
        return batch in self._ids if self.journal is None else self.journal.seen(batch)

    def usable(self) -> None:
        """Raise where no batch can be applied."""
        if self._closed:
            raise StateError("the monitor is closed", hint="open its state again with Monitor.open(path)")
        if self.journal is not None and self.journal.read_only:
            raise StateError("the monitor was opened read-only", hint="open it without read_only=True to apply changes")

    def apply(self, facts: Facts, request: Request) -> Delta:
        """Apply a batch, whole or not at all."""
        parts = {name: self._read(facts, name, part, request) for name, part in request.parts.items()}
        before, changed = (self.facts, self.shard), None
        self.stopped = True  # by whatever may stop this half-way
        try:
            self.facts = facts
            anew = facts.sequence != before[0].sequence
            shard = self._learn(parts, request.declared, request.notes, anew=anew)
            known = {name: part for name, part in parts.items() if name in self.facts.schemas}
            if request.extent != "changes":
                incoming = shard.differences(known, whole=request.extent == "whole")
                changed = changed_rows(incoming.values())
                if request.batch.startswith("#") and self.facts is before[0] and not any(changed.values()):
                    # a look that finds nothing new leaves nothing behind
                    self.stopped = False
                    still = {rule: Step(0, 0, count) for rule, count in self.open().items()}
                    return Delta(request.batch, (), (), still, changed=changed)
            else:
                if self.facts.sequence:
                    known, late = shard.sequenced(known)
                    request.notes.add(*late_notes(late, self.facts.sequence))
                incoming = shard.resolve(known, request.on_conflict)
            prepared = shard.engine.prepare(incoming)
        except HoldstrueError:
            # a batch that is refused teaches nothing about the types of columns either
            self.facts, self.shard = before
            self.stopped = False
            raise
        self.guard.change()
        outcomes = shard.apply(incoming, min(request.limit, 2**31 - 1), prepared)
        views = Views(shard.engine, shard.keys, self.guard)
        steps = views.steps(outcomes)
        added, removed = views.changed(outcomes, request.limit)
        measured = views.measured(steps)
        self.batches += 1
        self._last_batch = request.batch
        self._keep(shard, request.batch, steps, size_of(incoming), lambda: tables_of(incoming), self.counts)
        self.stopped = False
        if self.journal is not None and self.journal.trouble:
            request.notes.add(*self.journal.trouble)
            self.journal.trouble.clear()
        return Delta(request.batch, added, removed, steps, changed=changed, measured=measured)

    def apply_row(self, changes: Any, batch_id: str | int | None, limit: int, on_conflict: OnConflict) -> Delta | None:
        """Apply a batch of one row that plainly fits its table; None for all else, and nothing is changed.

        Complexity: O(rules), and what finding the row's partners costs.
        """
        shard = self.shard
        if shard is None or self._closed or (self.journal is not None and self.journal.read_only):
            return None
        single = self._single_rows(shard)
        row = single.code(changes, on_conflict)
        if row is None:
            return None
        batch = batch_name(batch_id, self.batches)
        if batch_id is not None and self.seen(batch):
            return None
        self.guard.change()
        self.stopped = True  # by whatever may stop this half-way
        change = row.program.apply(row.values, row.op, min(limit, 2**31 - 1))
        if change is None:
            self.stopped = False
            return None
        delta = single.told(row, change, batch, limit)
        self.batches += 1
        self._last_batch = batch
        size = (change.old >= 0) + (change.new >= 0)
        self._keep(shard, batch, delta.counts, size, lambda: row.logged(change), lambda: single.counts)
        self.stopped = False
        if self.journal is not None and self.journal.trouble:
            delta = replace(delta, notes=(*delta.notes, *self.journal.trouble))
            self.journal.trouble.clear()
        return delta

    def preview_row(self, changes: Any, limit: int, on_conflict: OnConflict) -> Delta | None:
        """What a batch of one new row would do; None for all else. Nothing is changed.

        The row comes in and goes again, and its slot is free as if it had never been. Complexity: as `apply_row`.
        """
        shard = self.shard
        if shard is None:
            return None
        single = self._single_rows(shard)
        row = single.code(changes, on_conflict)
        if row is None or not row.previewable:
            return None
        self.guard.change()
        self.stopped = True
        change = row.program.apply(row.values, INSERT, min(limit, 2**31 - 1))
        if change is None:
            raise RuntimeError("a key is there that was not found")
        delta = single.told(row, change, batch_name(None, self.batches), limit)
        single.retract(row, change)
        self.stopped = False
        return delta

    def _single_rows(self, shard: Shard) -> SingleRows:
        if self._single is None or not self._single.serves(shard.engine, self.facts):
            self._single = SingleRows(shard.engine, self.facts, Views(shard.engine, shard.keys, self.guard))
        return self._single

    def _read(self, facts: Facts, table: str, part: Any, request: Request) -> Changes:
        if isinstance(part, Changes):
            return part
        seen = facts.schemas.get(table)
        feed = request.feed if request.extent == "changes" else "append"
        if seen is not None and feed in ("auto", "append") and isinstance(part, pa.Table) and part.schema.equals(seen):
            # columns that no rule reads are not looked at
            kept = self._known_shard().engine.tables[table].rows.schema.names
            return Changes.append(validated(part, "the table", kept))
        extra: Literal["ignore", "error"] = "ignore" if seen is None else "error"
        return read_changes(
            part,
            key=facts.keys[table],
            schema=seen,
            feed=feed,
            op_column=request.op_column,
            extra=extra,
            needed=facts.kept_names(table),
            types=request.declared[table],
            notes=request.notes,
            **request.read,
        )

    def _learn(
        self,
        parts: Mapping[str, Changes],
        declared: Mapping[str, Mapping[str, Declared]],
        notes: Notes,
        *,
        anew: bool = False,
    ) -> Shard:
        """Plan for the tables' types when they are first seen, or when a column that was all NULL gets a type."""
        facts, seen = self.facts, self.facts.schemas
        learned = dict(seen)
        for name, part in parts.items():
            schema, known = part.rows.schema, seen.get(name)
            if known is None and not len(part) and all(pa.types.is_null(field.type) for field in schema):
                # the header of a file without rows, or less: which columns there are, the first rows will say
                continue
            if known is None:
                learned[name] = pa.schema([plain_field(field) for field in schema])
            elif not schema.equals(known):
                learned[name] = typed(known, schema)
        if learned != seen or anew:
            self.facts = facts = replace(facts, schemas=learned)
            plan = facts.plan()
            if self.shard is None or plan.schemas != self.shard.plan.schemas:
                keys, known = facts.all_keys, self.shard
                self.shard = Shard(plan, keys) if known is None else known.replanned(plan, keys=keys)
            self._stale = True
            told = {name: new_fields(learned[name], seen.get(name)) for name in parts if name in learned}
            ordered = ordered_text(facts.rules, facts.main, told)
            notes.add(*order_notes(ordered, lambda name, column: parts[name].rows.column(column), declared.__getitem__))
        elif self._orders_text():
            notes.add(*(text_note(place, rule) for place, rule in self._orders_text().items() if place[0] in parts))
        if self.shard is None:
            self.shard = Shard(facts.plan(), facts.all_keys)
        return self.shard

    def _orders_text(self) -> dict[tuple[str, str], Rule]:
        """The text columns that rules order; found once for the tables as they were seen."""
        seen = self.facts.schemas
        if self._text_order is None or self._text_order[0] is not seen:
            self._text_order = seen, ordered_text(self.facts.rules, self.facts.main, seen)
        return self._text_order[1]

    # --- keeping -------------------------------------------------------------------------------

    def _keep(
        self,
        shard: Shard,
        batch: str,
        steps: Mapping[str, Step],
        size: int,
        tables: Callable[[], list[LogTable]],
        counts: Callable[[], Mapping[str, RuleCounts]],
    ) -> None:
        """Make the batch durable: one run, or a checkpoint when it is due, and one commit.

        Parameters
        ----------
        size
            How many row versions it brings and removes.
        tables
            What the log is to hold of it, where that is asked for.
        counts
            How every rule stands now, likewise.
        """
        journal, time = self.journal, now_text()
        rows = sum(shard.living().values())
        # a large table that is kept is compacted beside the work, unless that fails again and again
        if shard.wasteful(1 if journal is None or rows < BESIDE_FROM else LAST_RESORT):
            shard.compact()
            self._stale = True
        if journal is not None and journal.runs.renumbering and journal.runs.due(0, rows, patience=LAST_PATIENCE):
            self._stale = True
        if journal is None:
            self._lines.append((batch, time, steps))
            self._ids.add(batch)
            return
        here = (rows < BESIDE_FROM and journal.runs.due(size, rows)) or size > max(BESIDE_FROM, LARGE_BATCH * rows)
        if self._stale or here:
            self._checkpoint(journal, history_lines(batch, time, steps))
        else:
            facts = changing(self.batches, self._last_batch, self.rows(), counts(), self.measures())
            journal.commit(journal.write_batch(tables(), size, history_rows(batch, time, steps), facts))
        self.stopped = False
        if self._beside is not None:
            self._beside.tend(shard, begin=rows >= BESIDE_FROM)

    def _checkpoint(self, journal: Journal, lines: list[Batched]) -> None:
        """Write everything anew and commit it. Complexity: O(table)."""
        if self._beside is not None:
            self._beside.discard()
        base = {} if self.shard is None else write_checkpoint(journal.files, journal.version + 1, self.shard.engine)
        facts = {**dict.fromkeys(SHARDED_FACTS), **self.now().to_dict()}
        journal.commit(journal.write_checkpoint(base, history_table(lines), facts))
        self._stale = False

    def renew(self) -> None:
        """Write everything anew, where it is kept in another form than this."""
        if self.journal is not None and self._stale:
            self._checkpoint(self.journal, [])

    def now(self) -> Facts:
        """The facts with what every batch changes, as it is now."""
        return replace(
            self.facts,
            batches=self.batches,
            last_batch=self._last_batch,
            rows=self.rows(),
            counts=self.counts(),
            measures=self.measures(),
        )

    # --- reading -------------------------------------------------------------------------------

    @property
    def views(self) -> Views | None:
        """What can be asked of the rows; None before there are any."""
        return None if self.shard is None else Views(self.shard.engine, self.shard.keys, self.guard)

    def rows(self) -> dict[str, int]:
        """How many rows each table has."""
        if self.shard is None:
            return dict.fromkeys(self.facts.keys, 0)
        return {table: count for table, count in self.shard.living().items() if not is_gone(table)}

    def counts(self) -> dict[str, RuleCounts]:
        """How each rule stands. Complexity: O(rules)."""
        views = self.views
        nothing = RuleCounts(0, 0, 0, 0)
        return {rule.name: nothing if views is None else views.counts(i) for i, rule in enumerate(self.facts.rules)}

    def measures(self) -> dict[str, tuple[Part, ...]]:
        """What is kept of rules about whole tables. Complexity: O(rules)."""
        return {} if self.shard is None else self.shard.engine.measures()

    def open(self) -> dict[str, int]:
        """How many violations each rule has. Complexity: O(rules)."""
        return {rule: counts.open for rule, counts in self.counts().items()}

    def history(self) -> list[Batched]:
        """What each batch did to each rule, oldest first."""
        return self._told() if self.journal is None else history_of(self.journal.history())

    def _told(self) -> list[Batched]:
        """The history that is in memory alone."""
        return [line for known in self._lines for line in history_lines(*known)]

    def explain(self) -> str:
        """Which checks, indexes and orders of predicates serve the rules, and why."""
        if self.shard is None:
            return "no data yet: the plan is made when the columns' types are known"
        return explain(self.shard.plan, self.shard.engine.explain())

    def _known_shard(self) -> Shard:
        if self.shard is None:
            raise RuntimeError("no table is known yet")
        return self.shard
