"""The monitor: rules, rows and durable state; `apply(changes)` says what each batch broke and mended."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa

from holdstrue.closing import Closing
from holdstrue.detect.delta import Batched, Delta, Key, Offender, RuleCounts, Step, Violation
from holdstrue.detect.resolve import OnConflict
from holdstrue.errors import HoldstrueError
from holdstrue.index.protocol import IndexKind
from holdstrue.monitor.keeper import Keeper, Request
from holdstrue.monitor.one_piece import OnePiece
from holdstrue.monitor.report import Report, known_rule, numbers_of
from holdstrue.monitor.views import Group, Views
from holdstrue.rules.file import load_rules
from holdstrue.rules.model import RuleSet
from holdstrue.rules.types import with_types
from holdstrue.shards.facts import Facts, batch_name, types_for_batch
from holdstrue.shards.shard import Shard
from holdstrue.state.files import StateFiles
from holdstrue.state.moment import Given, Moment, at_of

LIMIT = 100_000
"""Violations a delta lists at most unless told otherwise: 10 MB of Python objects. Counts are never cut."""

Keys = str | Sequence[str] | Mapping[str, str | Sequence[str]] | None


class Monitor(Closing):
    """Keeps the violations of a rule set current while tables change.

    Parameters
    ----------
    rules
        Anything `load_rules` takes: a file, rule texts, rules.
    key
        The column or columns that tell the rows of the main table apart. For several tables a
        mapping from table name to key.
    data
        Rows to start with; for several tables a mapping from table name to rows.
    index
        How pairs of rows are found: `blocks`, `lt_tree` (paper 003) or `chains` (paper 001).
    types
        What columns hold, beside what the rule file declares (see `read_table`); remembered, so that
        every batch is read so. `{"orders.day": "date"}` for a further table.

    Several threads may use one monitor. Batches are applied one after the other, whoever calls `apply`; every answer is
    of one version, and who asks while a batch is applied waits for it. Lists that are made as they are read
    (`violations`, `groups`, those of a `report`) stay as they were when they were asked for, also when the thread that
    reads them applies batches in between: each batch first keeps in memory what is still to be read, up to a million
    violations, and beyond that the list ends with an error. `close` waits for the batch at hand.

    Examples
    --------
    >>> monitor = Monitor("zip -> city", key="id")
    >>> monitor.apply(pa.table({"id": [1, 2], "zip": ["1", "1"], "city": ["Bonn", "Ulm"]}))
    Delta(batch='#1': +1 new, -0 resolved, 1 open)
    >>> monitor.apply(pa.table({"id": [2], "op": ["delete"]}))
    Delta(batch='#2': +0 new, -1 resolved, 0 open)
    """

    _piece: OnePiece | None
    """The rows, where they are in this process."""

    def __init__(
        self,
        rules: Any,
        key: Keys = None,
        *,
        data: Any = None,
        index: IndexKind = "blocks",
        types: Mapping[str, str] | None = None,
        read: Mapping[str, Any] | None = None,
    ) -> None:
        self._piece = OnePiece(Facts.new(with_types(load_rules(rules), types), key, index))
        self.notes: tuple[str, ...] = ()
        """What there is to know about how the first rows were read."""
        if data is not None:
            self.notes = self.apply(data, limit=0, feed="append", **(read or {})).notes

    # --- opening and closing -------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        rules: Any,
        key: Keys = None,
        *,
        data: Any = None,
        index: IndexKind = "blocks",
        types: Mapping[str, str] | None = None,
        read: Mapping[str, Any] | None = None,
    ) -> Self:
        """A monitor whose state lives in a new directory. Complexity: O(data)."""
        with StateFiles(path) as files:
            files.vacant()
        monitor = cls(rules, key, data=data, index=index, types=types, read=read)
        monitor._here().save(path)
        return monitor

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False, at: Given | None = None) -> Self:
        """The monitor of a state directory. Complexity: O(batches since the last checkpoint), not O(table).

        Parameters
        ----------
        at
            An earlier version, as far as it is kept, which can only be read: its number, a time at which it was the
            newest, or either as text (`"2026-03-01T14:30"`; local time unless it says its zone).
        """
        monitor = cls.__new__(cls)
        monitor._piece = OnePiece.opened(path, read_only=read_only, at=None if at is None else at_of(at))
        monitor.notes = ()
        return monitor

    def close(self) -> None:
        """Let go of the state directory; the monitor can still be read, but no longer be changed."""
        piece = self._here()
        with piece.guard.lock:
            piece.close()

    def _kept(self, *, read_only: bool) -> AbstractContextManager[Keeper]:
        """The rows as they are now, which no other thread changes meanwhile."""
        return self._here()

    def _here(self) -> OnePiece:
        if self._piece is None:
            raise HoldstrueError(
                "this monitor's rows are in shards", hint="read them in one process with holdstrue.Monitor.open(path)"
            )
        return self._piece

    # --- changing ------------------------------------------------------------------------------

    def apply(
        self,
        changes: Any,
        batch_id: str | int | None = None,
        *,
        limit: int | None = LIMIT,
        on_conflict: OnConflict = "error",
        feed: str = "auto",
        op_column: str | None = None,
        types: Mapping[str, str] | None = None,
        **read: Any,
    ) -> Delta:
        """Apply one batch, whole or not at all, and say which violations it added and removed.

        Parameters
        ----------
        changes
            Rows, a file, or a change feed (see `read_changes`); a mapping from table name to such
            for one batch over several tables.
        batch_id
            Names the batch. A batch whose id was applied before changes nothing.
        limit
            How many added and how many removed violations are listed; None for all of them.
        on_conflict
            What to do about inserts of existing keys and updates or deletes of missing ones.
        types
            What columns hold, where the monitor does not know it yet, or how this batch writes them.

        Complexity: O(changes and violations they add or remove), times log of the rows in a group.
        """
        return self._apply(changes, batch_id, limit, on_conflict, feed, op_column, types, read)

    def _apply(
        self,
        changes: Any,
        batch_id: str | int | None,
        limit: int | None,
        on_conflict: OnConflict,
        feed: str,
        op_column: str | None,
        types: Mapping[str, str] | None,
        read: Mapping[str, Any],
        *,
        one_task: bool = False,
    ) -> Delta:
        if on_conflict not in ("error", "upsert", "ignore"):
            raise HoldstrueError(f"on_conflict is {on_conflict!r}", hint="one of error, upsert, ignore")
        with self._kept(read_only=False) as kept:
            kept.usable()
            facts = kept.facts
            batch = batch_name(batch_id, kept.batches)
            if batch_id is not None and kept.seen(batch):
                still = {rule: Step(0, 0, count) for rule, count in kept.open().items()}
                return Delta(batch, (), (), still, duplicate=True)
            several = isinstance(changes, Mapping) and not hasattr(changes, "__arrow_c_stream__")
            parts = changes if several else {facts.main: changes}
            for name in parts:
                facts.known_table(name)
            rules, declared = types_for_batch(facts.rules, facts.main, facts.keys, facts.schemas, types)
            listed = 2**62 if limit is None else limit
            request = Request(batch, parts, declared, listed, on_conflict, feed, op_column, read, one_task)
            delta = kept.apply(facts if rules is facts.rules else replace(facts, rules=rules), request)
            return replace(delta, notes=tuple(request.notes)) if request.notes else delta

    # --- reading -------------------------------------------------------------------------------

    @property
    def rules(self) -> RuleSet:
        """The rules, with the types that are declared of columns."""
        with self._kept(read_only=True) as kept:
            return kept.facts.rules

    @property
    def facts(self) -> Facts:
        """What the monitor says of itself: rules, keys, types of the tables, rows, counts and batches."""
        with self._kept(read_only=True) as kept:
            return kept.now()

    @property
    def moment(self) -> Moment | None:
        """Which version of its state a monitor shows that was opened to be read, and of when; None without a state."""
        journal = self._here().journal
        return None if journal is None else journal.moment

    @property
    def batches(self) -> int:
        """How many batches were applied."""
        with self._kept(read_only=True) as kept:
            return kept.batches

    @property
    def rows(self) -> dict[str, int]:
        """How many rows each table has."""
        with self._kept(read_only=True) as kept:
            return kept.rows()

    def counts(self) -> dict[str, RuleCounts]:
        """How each rule stands: rows, pairs and groups in violation. Complexity: O(rules)."""
        with self._kept(read_only=True) as kept:
            return kept.counts()

    def history(self) -> list[Batched]:
        """What each batch did to each rule, oldest first."""
        with self._kept(read_only=True) as kept:
            return kept.history()

    def explain(self) -> str:
        """How the rules are kept current: checks, indexes and orders of predicates, or routes and shards."""
        with self._kept(read_only=True) as kept:
            return kept.explain()

    def violations(self, rule: str | None = None, *, limit: int | None = None) -> Iterator[Violation]:
        """The violations there are now, made as they are read, whatever is applied meanwhile.

        Complexity: O(what is read). A batch keeps in memory what is still to be read, up to a million violations;
        beyond that the list ends with an error.
        """
        with self._here() as piece:
            rules, views = piece.facts.rules, piece.views
            known_rule(rules, rule)
            return iter(()) if views is None else views.violations(numbers_of(rules, rule), limit)

    def groups(self, rule: str, *, limit: int | None = None) -> Iterator[Group]:
        """Violating groups of a key, FD or CFD: equal left sides with the rows of each right side.

        As that of `violations` the list stays as it is while batches are applied, of which each keeps some twenty
        thousand groups that are still to be read.
        """
        with self._here() as piece:
            rules, views = piece.facts.rules, piece.views
            known_rule(rules, rule)
            return iter(()) if views is None else views.groups(numbers_of(rules, rule)[0], limit)

    def row(self, key: Key, *, table: str | None = None) -> dict[str, int]:
        """How many violations a row is in, by rule. Complexity: O(rules)."""
        with self._here() as piece:
            name, shard = piece.facts.known_table(table or piece.facts.main), self._shard()
            rows = shard.engine.tables[name].rows
            parts = key if isinstance(key, tuple | list) else (key,)
            fields = [rows.schema.field(column) for column in shard.keys[name]]
            try:
                arrays = [pa.array([part], type=field.type) for part, field in zip(parts, fields, strict=True)]
            except (ValueError, pa.ArrowException) as error:
                wanted = ", ".join(f"{field.name} ({field.type})" for field in fields)
                raise HoldstrueError(f"{key!r} is no key of {name!r}", hint=f"its key is {wanted}") from error
            values = pa.table(arrays, names=[field.name for field in fields])
            slot = int(rows.find(*shard.engine.key_digest(name, values, shard.keys[name]))[0])
            if slot < 0:
                raise HoldstrueError(f"no row with key {key!r} in {name!r}")
            return Views(shard.engine, shard.keys, piece.guard).by_rule(name, slot)

    def offenders(self, limit: int = 10, *, table: str | None = None) -> list[Offender]:
        """The rows in most violations, worst first. Complexity: O(violating rows)."""
        if limit < 0:
            raise HoldstrueError(f"limit is {limit}", hint="give how many rows to list")
        with self._here() as piece:
            name = piece.facts.known_table(table or piece.facts.main)
            return [] if piece.views is None else piece.views.offenders(name, limit)

    def report(self, *, limit: int | None = 1000) -> Report:
        """The state of every rule, with the first violations."""
        with self._here() as piece:
            shard = self._shard()
            return Report.of(shard.engine, shard.keys, limit, guard=piece.guard)

    def size_bytes(self) -> dict[str, int]:
        """Memory held by each part."""
        with self._here() as piece:
            return {} if piece.shard is None else piece.shard.engine.size_bytes()

    def _shard(self) -> Shard:
        shard = self._here().shard
        if shard is None:
            raise HoldstrueError("the monitor has seen no data yet", hint="apply a first batch")
        return shard

    def __repr__(self) -> str:
        if self._piece is not None and self._piece.stopped:
            return "Monitor(a batch stopped half-way)"
        with self._kept(read_only=True) as kept:
            rows = ", ".join(f"{count:,} rows of {name}" for name, count in kept.rows().items())
            total = sum(kept.open().values())
            return f"Monitor({len(kept.facts.rules)} rules, {rows}, {total:,} violations)"
