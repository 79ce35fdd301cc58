"""The monitor: rules, rows and durable state; `apply(changes)` says what each batch broke and mended."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa

from holdstrue.closing import Closing
from holdstrue.detect.delta import Delta, Step, require_limit
from holdstrue.detect.resolve import OnConflict
from holdstrue.errors import HoldstrueError, brief
from holdstrue.index.protocol import IndexKind
from holdstrue.monitor.answers import Answers
from holdstrue.monitor.keeper import Extent, Keeper, Request
from holdstrue.monitor.one_piece import OnePiece
from holdstrue.monitor.one_row import is_no_value, records_of
from holdstrue.progress import LOG
from holdstrue.rules.file import load_rules
from holdstrue.rules.types import with_types
from holdstrue.shards.facts import Facts, batch_name, types_for_batch
from holdstrue.sources.following.polling import position
from holdstrue.sources.following.versions import with_version
from holdstrue.state.files import StateFiles
from holdstrue.state.moment import Given, at_of

LIMIT = 100_000
"""Violations a delta lists at most unless told otherwise: 10 MB of Python objects. Counts are never cut."""

Keys = str | Sequence[str] | Mapping[str, str | Sequence[str]] | None


class Monitor(Closing, Answers):
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
    sequence_by
        The column of the main table, or by table a column, that grows with every change of a row: where changes come
        late, an older one loses. Remembered; see `apply`.

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
        sequence_by: str | Mapping[str, str] | None = None,
    ) -> None:
        self._piece = OnePiece(Facts.new(with_types(load_rules(rules), types), key, index, sequence_by))
        self.notes: tuple[str, ...] = ()
        """What there is to know about how the first rows were read."""
        if data is not None:
            rows, version = with_version(data, read or {})
            self.notes = self.apply(rows, version, limit=0, feed="append", **(read or {})).notes

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
        sequence_by: str | Mapping[str, str] | None = None,
    ) -> Self:
        """A monitor whose state lives in a new directory. Complexity: O(data)."""
        with StateFiles(path) as files:
            files.vacant()
        monitor = cls(rules, key, data=data, index=index, types=types, read=read, sequence_by=sequence_by)
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
        snapshot: bool = False,
        sequence_by: str | Mapping[str, str] | None = None,
        **read: Any,
    ) -> Delta:
        """Apply one batch, whole or not at all, and say which violations it added and removed.

        Parameters
        ----------
        changes
            Rows, a file, or a change feed (see `read_changes`); a mapping from table name to such
            for one batch over several tables. One row may be a dict of its columns (with an `op` beside them, if it is
            not an insert) or a tuple of their values, not all of them text. Batches of one row are taken in by a way
            of their own, in some microseconds.
        batch_id
            Names the batch. A batch whose id was applied before changes nothing.
        limit
            How many added and how many removed violations are listed; None for all of them.
        on_conflict
            What to do about inserts of existing keys and updates or deletes of missing ones.
        types
            What columns hold, where the monitor does not know it yet, or how this batch writes them.
        snapshot
            Whether `changes` are all rows of the table as it is now: rows that are not among them are deleted, others
            inserted or updated as they differ by key, and `Delta.changed` counts them. A snapshot in which nothing
            differs makes no version, unless it has a batch id.
        sequence_by
            A column that grows with every change of a row (a number, date or time; with several tables a mapping).
            A change that is older than what the state has of its key, living or deleted, is left out, and a note
            counts them; of equal ones the later to come counts. Inserts and updates are upserts then. The state
            remembers the column and goes by it from then on; rows that were there before are older than any change.

        Complexity: O(changes and violations they add or remove), times log of the rows in a group; with `snapshot`
        also O(rows x columns).

        Examples
        --------
        >>> rows = pa.table({"id": [1, 2], "zip": ["a", "b"], "city": ["x", "y"]})
        >>> monitor = Monitor("zip -> city", key="id", data=rows)
        >>> monitor.apply(pa.table({"id": [2, 3], "zip": ["b", "b"], "city": ["y", "z"]}), snapshot=True).changed
        {'insert': 1, 'update': 0, 'delete': 1}
        """
        require_limit(limit)
        _require_known(read)
        if not (snapshot or read or types or op_column or sequence_by) and feed == "auto" and self._piece is not None:
            delta = self._apply_row(self._piece, changes, batch_id, limit, on_conflict)
            if delta is not None:
                return delta
        extent: Extent = "whole" if snapshot else "changes"
        if snapshot and batch_id is None:
            changes, batch_id = self._of_version(*with_version(changes, read))
        how = on_conflict, feed, op_column, types, read
        return self._apply(changes, batch_id, limit, *how, extent=extent, sequence_by=sequence_by)

    @staticmethod
    def _apply_row(
        piece: OnePiece, changes: Any, batch_id: str | int | None, limit: int | None, on_conflict: OnConflict
    ) -> Delta | None:
        """The batch, where it is one row that plainly fits; None where it must be read first."""
        if not _may_be_row(changes):
            return None
        with piece:
            delta = piece.apply_row(changes, batch_id, 2**62 if limit is None else limit, on_conflict)
            if delta is not None and LOG.isEnabledFor(logging.INFO):
                _log(delta)
        return delta

    def _of_version(self, rows: Any, version: str | None) -> tuple[Any, str | None]:
        """The rows of a snapshot, and the id that says which version of a lakehouse table they are.

        None where that version was the last of its table, so that following goes on from it as it is; a version that
        the table was taken back to gets another id than the first time.
        """
        if version is None or not self.seen(version):
            return rows, version
        table, _, named = version.rpartition(":")
        last = self.last_of(table)
        back = last is not None and last.split(":")[0] != named
        return rows, f"{version}:again-{self.batches + 1}" if back else None

    def last_of(self, identity: str) -> str | None:
        """What the id of the last batch of a table says after the table's identity; None where there was none.

        Complexity: O(1) where that was the last batch of all, else O(history).
        """
        found = position(f"{identity}:", [self.facts.last_batch or ""])
        return found if found is not None else position(f"{identity}:", (line.batch for line in self.history()))

    def refresh(
        self,
        rows: Any,
        batch_id: str | int | None = None,
        *,
        limit: int | None = LIMIT,
        types: Mapping[str, str] | None = None,
        **read: Any,
    ) -> Delta:
        """Bring some rows to how they are now: those that are new or differ are inserted or updated, none is deleted.

        Where nothing differs no version is made, unless there is a batch id. Complexity: as that of `apply`.
        """
        return self._apply(rows, batch_id, limit, "error", "auto", None, types, read, extent="part")

    def seen(self, batch_id: str) -> bool:
        """Whether a batch of this id was applied. Complexity: O(log batches)."""
        with self._kept(read_only=True) as kept:
            return kept.seen(batch_id)

    def preview(
        self,
        changes: Any,
        *,
        limit: int | None = LIMIT,
        on_conflict: OnConflict = "error",
        feed: str = "auto",
        op_column: str | None = None,
        types: Mapping[str, str] | None = None,
        **read: Any,
    ) -> Delta:
        """What `apply` would say of a batch; nothing is changed, here or in the state.

        Complexity: that of one new row in `apply`, where rules are about rows and pairs of one table; of all else that
        of opening the state (of loading the rows, without one), and of `apply`.

        Examples
        --------
        >>> monitor = Monitor("zip -> city", key="id", data=pa.table({"id": [1], "zip": ["1"], "city": ["Bonn"]}))
        >>> monitor.preview(pa.table({"id": [2], "zip": ["1"], "city": ["Ulm"]})), monitor.rows
        (Delta(batch='#2': +1 new, -0 resolved, 1 open), {'data': 1})
        """
        require_limit(limit)
        _require_known(read)
        if not (read or types or op_column) and feed == "auto" and _may_be_row(changes):
            with self._here() as piece:
                delta = piece.preview_row(changes, 2**62 if limit is None else limit, on_conflict)
            if delta is not None:
                return delta
        trial = type(self).__new__(type(self))
        with self._here() as piece:
            trial._piece = piece.copied()
        trial.notes = ()
        return trial._apply(changes, None, limit, on_conflict, feed, op_column, types, read)

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
        extent: Extent = "changes",
        sequence_by: str | Mapping[str, str] | None = None,
    ) -> Delta:
        if extent != "changes" and (feed not in ("auto", "append") or op_column is not None or on_conflict != "error"):
            raise HoldstrueError(
                "a snapshot is compared with the rows there are", hint="leave out feed, op_column and on_conflict"
            )
        if on_conflict not in ("error", "upsert", "ignore"):
            raise HoldstrueError(f"on_conflict is {on_conflict!r}", hint="one of error, upsert, ignore")
        require_limit(limit)
        with self._kept(read_only=False) as kept:
            kept.usable()
            facts = kept.facts
            batch = batch_name(batch_id, kept.batches)
            if batch_id is not None and kept.seen(batch):
                still = {rule: Step(0, 0, count) for rule, count in kept.open().items()}
                return Delta(batch, (), (), still, duplicate=True)
            changes = records_of(changes, tuple(facts.keys), facts.schemas.get(facts.main))
            several = isinstance(changes, Mapping) and not hasattr(changes, "__arrow_c_stream__")
            parts = changes if several else {facts.main: changes}
            if several and parts:
                _require_tables(parts, facts.keys)
            for name in parts:
                facts.known_table(name)
            if several:
                parts = {name: records_of(part, (), facts.schemas.get(name)) for name, part in parts.items()}
            own = next(iter(parts)) if len(parts) == 1 else facts.main
            facts = facts.sequenced(sequence_by, own)
            if facts.sequence and on_conflict == "ignore":
                raise HoldstrueError(
                    "on conflict ignore is not for tables whose changes have a sequence",
                    hint="leave it out: what conflicts is settled by the sequence",
                )
            rules, declared = types_for_batch(facts.rules, facts.main, facts.keys, facts.schemas, types)
            listed = 2**62 if limit is None else limit
            request = Request(batch, parts, declared, listed, on_conflict, feed, op_column, read, one_task, extent)
            delta = kept.apply(facts if rules is facts.rules else replace(facts, rules=rules), request)
            if LOG.isEnabledFor(logging.INFO):
                _log(delta)
            if extent == "whole" and delta.changed is not None:
                gone, left = delta.changed["delete"], sum(kept.rows().values())
                if gone > left:
                    request.notes.add(f"the snapshot lacked {gone:,} rows, which were deleted; {left:,} are left")
            return replace(delta, notes=tuple(request.notes)) if request.notes else delta

    def __repr__(self) -> str:
        if self._piece is not None and self._piece.stopped:
            return "Monitor(a batch stopped half-way)"
        with self._kept(read_only=True) as kept:
            rows = ", ".join(f"{count:,} rows of {name}" for name, count in kept.rows().items())
            total = sum(kept.open().values())
            return f"Monitor({len(kept.facts.rules)} rules, {rows}, {total:,} violations)"


READ_OPTIONS = ("encoding", "format", "delimiter", "null_values", "units")
"""How files of changes are read, beside what is asked for by name."""


def _require_known(read: Mapping[str, Any]) -> None:
    for name in read:
        if name not in READ_OPTIONS:
            raise HoldstrueError(f"unknown option {name!r}", hint=", ".join(READ_OPTIONS))


def _require_tables(changes: Mapping[str, Any], tables: Mapping[str, Any]) -> None:
    """Refuse a row that holds something else than values, and is no mapping of tables to their changes either."""
    plain = [value for value in changes.values() if not is_no_value(value) and not isinstance(value, str)]
    if not plain or any(name in tables for name in changes):
        return
    name, value = next((name, value) for name, value in changes.items() if is_no_value(value))
    raise HoldstrueError(
        f"column {name!r} holds {brief(value)}, which is no value, and none of {', '.join(changes)} is a table",
        hint=f"a row is a dict of columns to values; changes of tables are a dict of {', '.join(tables)} to their rows",
    )


def _may_be_row(changes: Any) -> bool:
    """Whether changes look like one row at first sight."""
    kind = type(changes)
    if kind is pa.Table or kind is pa.RecordBatch:
        return bool(changes.num_rows == 1)
    return kind is dict or kind is tuple or (kind is list and len(changes) == 1)


def _log(delta: Delta) -> None:
    steps = delta.counts.values()
    LOG.info("batch %s: +%d, -%d", delta.batch, sum(s.added for s in steps), sum(s.removed for s in steps))
