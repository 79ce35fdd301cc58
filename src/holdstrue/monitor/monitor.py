"""The monitor: rules, indexes, counters and durable state; `apply(changes)` says what each batch broke and mended."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa

from holdstrue.data.changes import Changes
from holdstrue.data.notes import Notes
from holdstrue.data.seed import Seed
from holdstrue.detect.batch import NewRows
from holdstrue.detect.delta import Batched, Delta, Key, Offender, RuleCounts, Step, Violation
from holdstrue.detect.engine import Engine, Incoming
from holdstrue.detect.ordering import order_notes, ordered_text, text_note
from holdstrue.detect.resolve import OnConflict, resolve
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.monitor.report import Report
from holdstrue.monitor.views import Group, Views, known_rule, numbers_of
from holdstrue.plan.compile import IndexKind, main_table
from holdstrue.plan.explain import explain
from holdstrue.rules.file import load_rules
from holdstrue.rules.model import Rule, RuleSet
from holdstrue.rules.types import Declared, with_types
from holdstrue.shards.durable import Durable, State
from holdstrue.shards.shard import COMPACT_FROM
from holdstrue.shards.tables import batch_name, kept_names, kept_of, keys_of, plain_field, plan_of, types_for_batch
from holdstrue.sources.feeds import read_changes
from holdstrue.sources.validity import validated
from holdstrue.state.store import Store

LIMIT = 100_000
"""Violations a delta lists at most unless told otherwise: 10 MB of Python objects. Counts are never cut."""


class Monitor:
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

    Examples
    --------
    >>> monitor = Monitor("zip -> city", key="id")
    >>> monitor.apply(pa.table({"id": [1, 2], "zip": ["1", "1"], "city": ["Bonn", "Ulm"]}))
    Delta(batch='#1': +1 new, -0 resolved, 1 open)
    >>> monitor.apply(pa.table({"id": [2], "op": ["delete"]}))
    Delta(batch='#2': +0 new, -1 resolved, 0 open)
    """

    def __init__(
        self,
        rules: Any,
        key: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        *,
        data: Any = None,
        index: IndexKind = "blocks",
        types: Mapping[str, str] | None = None,
        read: Mapping[str, Any] | None = None,
    ) -> None:
        self.rules: RuleSet = with_types(load_rules(rules), types)
        others = tuple(name for name in (key if isinstance(key, Mapping) else ()) if name != self.rules.table)
        self._main = main_table(self.rules, others)
        self._keys = keys_of(self.rules, key, self._main)
        self._index: IndexKind = index
        self._seed = Seed.new()
        self._text_order: tuple[dict[str, pa.Schema], dict[tuple[str, str], Rule]] | None = None
        self._engine: Engine | None = None
        self._seen: dict[str, pa.Schema] = {}
        self._durable: Durable | None = None
        self._batches = 0
        self._history: list[Batched] = []
        self._ids: set[str] = set()
        self._broken = False
        self._closed = False
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
        key: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        *,
        data: Any = None,
        index: IndexKind = "blocks",
        types: Mapping[str, str] | None = None,
        read: Mapping[str, Any] | None = None,
    ) -> Self:
        """A monitor whose state lives in a new directory. Complexity: O(data)."""
        Store(path).vacant()
        monitor = cls(rules, key, data=data, index=index, types=types, read=read)
        last = monitor._history[-1].batch if monitor._history else None
        monitor._durable = Durable.create(path, monitor._state(last), monitor._engine, monitor._history)
        monitor._history = []
        return monitor

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> Self:
        """The monitor of a state directory. Complexity: O(batches since the last checkpoint), not O(table)."""
        durable, state = Durable.open(path, read_only=read_only)
        try:
            monitor = cls(state.rules, state.keys, index=state.index)
            monitor._main = state.main
            monitor._seed = state.seed
            monitor._durable = durable
            monitor._batches = state.batches
            monitor._seen = dict(state.schemas)
            if state.schemas:
                kept = {name: monitor._kept(name, schema) for name, schema in state.schemas.items()}
                monitor._engine = monitor._new_engine(kept)
                durable.restore(monitor._engine, monitor._keys)
        except BaseException:
            durable.close()
            raise
        return monitor

    def close(self) -> None:
        """Let go of the state directory; the monitor can still be read, but no longer be changed."""
        if self._durable is not None:
            self._durable.close()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- changing ------------------------------------------------------------------------------

    def apply(
        self,
        changes: Any,
        *,
        batch_id: str | int | None = None,
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
        self._usable()
        if on_conflict not in ("error", "upsert", "ignore"):
            raise HoldstrueError(f"on_conflict is {on_conflict!r}", hint="one of error, upsert, ignore")
        batch = batch_name(batch_id, self._batches)
        if batch_id is not None and self._applied(batch):
            standing = {name: Step(0, 0, counts.open) for name, counts in self.counts().items()}
            return Delta(batch, (), (), standing, duplicate=True)
        parts = (
            changes
            if isinstance(changes, Mapping) and not hasattr(changes, "__arrow_c_stream__")
            else {self._main: changes}
        )
        rules, declared = types_for_batch(self.rules, self._main, self._keys, self._seen, types)
        notes = Notes()
        read_parts = {}
        for name, part in parts.items():
            more = {**read, "types": declared.get(self._table_name(name)), "notes": notes}
            read_parts[name] = self._read(name, part, feed, op_column, more)
        before = self._engine, self._seen, self.rules
        try:
            self.rules = rules
            self._know(read_parts, declared, notes)
            engine = self._working_engine()
            incoming = {}
            for name, part in read_parts.items():
                if name not in self._seen:
                    continue
                digest = partial(engine.key_digest, name, key=self._keys[name])
                incoming[name] = resolve(part, engine.tables[name].rows, self._keys[name], digest, on_conflict)
            prepared = engine.prepare(incoming)
        except HoldstrueError:
            # a batch that is refused teaches nothing about the types of columns either
            self._engine, self._seen, self.rules = before
            raise
        delta = self._run(engine, batch, incoming, prepared, 2**62 if limit is None else limit)
        return replace(delta, notes=tuple(notes)) if notes else delta

    def _run(
        self, engine: Engine, batch: str, incoming: dict[str, Incoming], prepared: dict[str, NewRows], limit: int
    ) -> Delta:
        self._broken = True
        outcomes = engine.apply(incoming, min(limit, 2**31 - 1), prepared)
        engine.settle()
        views = Views(engine, self._keys)
        steps = views.steps(outcomes)
        added, removed = views.listed(outcomes, limit)
        time = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        lines = [Batched(batch, time, rule, step.added, step.removed, step.open) for rule, step in steps.items()]
        self._batches += 1
        self._keep(engine, batch, incoming, lines)
        self._broken = False
        return Delta(batch, added, removed, steps)

    def _keep(self, engine: Engine, batch: str, incoming: dict[str, Incoming], lines: list[Batched]) -> None:
        """Make the batch durable, and drop removed row versions when they outnumber the living."""
        rows = [table.rows for table in engine.tables.values()]
        if sum(part.size for part in rows) > 2 * sum(part.living for part in rows) + COMPACT_FROM:
            self._replan({name: table.rows.schema for name, table in engine.tables.items()})
        if self._durable is None:
            self._history.extend(lines)
            self._ids.add(batch)
        else:
            self._durable.append(self._state(batch), self._working_engine(), incoming, lines)

    def _read(self, table: str, part: Any, feed: str, op_column: str | None, read: Mapping[str, Any]) -> Changes:
        if isinstance(part, Changes):
            return part
        seen = self._seen.get(table)
        if seen is not None and feed in ("auto", "append") and isinstance(part, pa.Table) and part.schema.equals(seen):
            # columns that no rule reads are not looked at
            kept = self._working_engine().tables[table].rows.schema.names
            return Changes.append(validated(part, "the table", kept))
        needed = kept_names(self.rules, self._main, self._keys, table)
        extra: Literal["ignore", "error"] = "ignore" if seen is None else "error"
        return read_changes(
            part, key=self._keys[table], schema=seen, feed=feed, op_column=op_column, extra=extra, needed=needed, **read
        )

    def _know(self, parts: Mapping[str, Changes], declared: Mapping[str, Mapping[str, Declared]], notes: Notes) -> None:
        """Plan for the tables' types when they are first seen, or when a column that was all NULL gets a type."""
        learned = dict(self._seen)
        for name, part in parts.items():
            schema, known = part.rows.schema, self._seen.get(name)
            if known is None and not len(part) and all(pa.types.is_null(field.type) for field in schema):
                # the header of a file without rows, or less: which columns there are, the first rows will say
                continue
            if known is None:
                learned[name] = pa.schema([plain_field(field) for field in schema])
            elif not schema.equals(known):
                learned[name] = pa.schema([_typed(field, schema) for field in known])
        if learned != self._seen:
            told = {
                name: pa.schema([field for field in schema if self._is_new(name, field.name)])
                for name, schema in learned.items()
                if name in parts
            }
            kept = {name: self._kept(name, schema) for name, schema in learned.items()}
            if self._engine is None or kept != {name: self._engine.tables[name].rows.schema for name in kept}:
                self._replan(kept)
            ordered = ordered_text(self.rules, self._main, told)
            notes.add(*order_notes(ordered, lambda name, column: parts[name].rows.column(column), declared.__getitem__))
            self._seen = learned
            if self._durable is not None:
                self._durable.stale = True
        elif self._orders_text():
            notes.add(*(text_note(place, rule) for place, rule in self._orders_text().items() if place[0] in parts))
        if self._engine is None:
            self._engine = self._new_engine({})

    def _orders_text(self) -> dict[tuple[str, str], Rule]:
        """The text columns that rules order; found once for the tables as they were seen."""
        if self._text_order is None or self._text_order[0] is not self._seen:
            self._text_order = self._seen, ordered_text(self.rules, self._main, self._seen)
        return self._text_order[1]

    def _is_new(self, table: str, column: str) -> bool:
        """Whether nothing was known of a column so far."""
        known = self._seen.get(table)
        return known is None or column not in known.names or pa.types.is_null(known.field(column).type)

    def _kept(self, table: str, seen: pa.Schema) -> pa.Schema:
        return kept_of(self.rules, self._main, self._keys, table, seen)

    def _new_engine(self, schemas: Mapping[str, pa.Schema]) -> Engine:
        """An engine for tables of which these columns are kept."""
        plan = plan_of(self.rules, self._main, self._keys, self._index, schemas, self._seed)
        return Engine(plan, plan.schemas, keyed=True)

    def _replan(self, schemas: Mapping[str, pa.Schema]) -> None:
        before = self._engine
        engine = self._new_engine(schemas)
        if before is not None:
            for name, table in before.tables.items():
                slots = table.rows.living_slots()
                if slots.size:
                    values = table.rows.take(slots).cast(engine.tables[name].rows.schema)
                    engine.load(name, values, engine.key_digest(name, values, self._keys[name]))
        self._engine = engine
        if self._durable is not None:
            self._durable.stale = True

    def _table_name(self, name: str) -> str:
        if name not in self._keys:
            raise HoldstrueError(f"no table {name!r} in this monitor", hint=f"it watches {', '.join(self._keys)}")
        return name

    def _usable(self) -> None:
        if self._closed:
            raise StateError("the monitor is closed", hint="open its state again with Monitor.open(path)")
        if self._broken:
            raise StateError(
                "an earlier batch stopped half-way in memory",
                hint="open the state again; nothing of the batch was committed",
            )
        if self._durable is not None and self._durable.read_only:
            raise StateError("the monitor was opened read-only", hint="open it without read_only=True to apply changes")

    def _working_engine(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("no table is known yet")
        return self._engine

    # --- reading -------------------------------------------------------------------------------

    def counts(self) -> dict[str, RuleCounts]:
        """How each rule stands: rows, pairs and groups in violation. Complexity: O(rules)."""
        if self._engine is None:
            return {rule.name: RuleCounts(0, 0, 0, 0) for rule in self.rules}
        views = Views(self._engine, self._keys)
        return {rule.name: views.counts(i) for i, rule in enumerate(self.rules)}

    def violations(self, rule: str | None = None, *, limit: int | None = None) -> Iterator[Violation]:
        """The violations there are now, made as they are read. Complexity: O(what is read)."""
        self._known(rule)
        if self._engine is not None:
            yield from Views(self._engine, self._keys).violations(numbers_of(self.rules, rule), limit)

    def groups(self, rule: str, *, limit: int | None = None) -> Iterator[Group]:
        """Violating groups of a key, FD or CFD: equal left sides with the rows of each right side."""
        self._known(rule)
        if self._engine is not None:
            yield from Views(self._engine, self._keys).groups(numbers_of(self.rules, rule)[0], limit)

    def row(self, key: Key, *, table: str | None = None) -> dict[str, int]:
        """How many violations a row is in, by rule. Complexity: O(rules)."""
        name = self._table_name(table or self._main)
        engine = self._working_engine()
        rows = engine.tables[name].rows
        parts = key if isinstance(key, tuple | list) else (key,)
        fields = [rows.schema.field(column) for column in self._keys[name]]
        try:
            arrays = [pa.array([part], type=field.type) for part, field in zip(parts, fields, strict=True)]
        except (ValueError, pa.ArrowException) as error:
            wanted = ", ".join(f"{field.name} ({field.type})" for field in fields)
            raise HoldstrueError(f"{key!r} is no key of {name!r}", hint=f"its key is {wanted}") from error
        values = pa.table(arrays, names=[field.name for field in fields])
        slot = int(rows.find(*engine.key_digest(name, values, self._keys[name]))[0])
        if slot < 0:
            raise HoldstrueError(f"no row with key {key!r} in {name!r}")
        return Views(engine, self._keys).by_rule(name, slot)

    def offenders(self, limit: int = 10, *, table: str | None = None) -> list[Offender]:
        """The rows in most violations, worst first. Complexity: O(violating rows)."""
        if limit < 0:
            raise HoldstrueError(f"limit is {limit}", hint="give how many rows to list")
        if self._engine is None:
            return []
        return Views(self._engine, self._keys).offenders(self._table_name(table or self._main), limit)

    def report(self, *, limit: int | None = 1000) -> Report:
        """The state of every rule, with the first violations."""
        if self._engine is None:
            raise HoldstrueError("the monitor has seen no data yet", hint="apply a first batch")
        return Report.of(self._engine, self._keys, limit)

    def history(self) -> list[Batched]:
        """What each batch did to each rule, oldest first."""
        return list(self._history) if self._durable is None else self._durable.history()

    def explain(self) -> str:
        """Which checks, indexes and orders of predicates serve the rules, and why."""
        if self._engine is None:
            return "no data yet: the plan is made when the columns' types are known"
        return explain(self._engine.plan, self._engine.explain())

    def size_bytes(self) -> dict[str, int]:
        """Memory held by each part."""
        return {} if self._engine is None else self._engine.size_bytes()

    @property
    def batches(self) -> int:
        """How many batches were applied."""
        return self._batches

    @property
    def rows(self) -> dict[str, int]:
        """How many rows each table has."""
        if self._engine is None:
            return dict.fromkeys(self._keys, 0)
        return {name: table.rows.living for name, table in self._engine.tables.items()}

    def _applied(self, batch: str) -> bool:
        if self._durable is not None:
            return self._durable.seen(batch)
        return batch in self._ids

    def __repr__(self) -> str:
        rows = ", ".join(f"{count:,} rows of {name}" for name, count in self.rows.items())
        return f"Monitor({len(self.rules)} rules, {rows}, {sum(c.open for c in self.counts().values()):,} violations)"

    def _known(self, rule: str | None) -> None:
        known_rule(self.rules, rule)

    def _state(self, batch: str | None) -> State:
        return State(
            rules=self.rules,
            main=self._main,
            keys=self._keys,
            index=self._index,
            seed=self._seed,
            batches=self._batches,
            last_batch=batch,
            schemas=self._seen,
            rows=self.rows,
            counts=self.counts(),
        )


def _typed(field: pa.Field, seen: pa.Schema) -> pa.Field:
    """A column that was all NULL takes the type it is now seen with."""
    if pa.types.is_null(field.type) and field.name in seen.names:
        return plain_field(seen.field(field.name))
    return field
