"""A monitor whose rows lie in shards, opened anew for every batch; a `Runner` says where its stages run.

Spark runs them in earnest, plain loops in tests. Threads wait for each other: those that use one monitor, and those
that write one state by several.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import Any

from holdstrue.detect.delta import Delta, Step
from holdstrue.detect.resolve import OnConflict
from holdstrue.errors import StateError
from holdstrue.index.protocol import IndexKind
from holdstrue.monitor.format_1 import is_format_1
from holdstrue.monitor.in_shards import InShards, Version
from holdstrue.monitor.monitor import LIMIT, Keys, Monitor
from holdstrue.monitor.one_piece import OnePiece
from holdstrue.monitor.reading import writer_lock
from holdstrue.monitor.report import known_rule, numbers_of
from holdstrue.rules.file import dump_rules, load_rules
from holdstrue.rules.types import with_types
from holdstrue.shards.facts import HISTORY, Facts, keys_of, types_for_batch
from holdstrue.shards.reading import Listing
from holdstrue.shards.runner import Runner, Sizing
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import Journal, has_state
from holdstrue.state.moment import Given, Moment, at_of
from holdstrue.state.store import fixed_place

LOOKED_BACK = 64
"""Versions among which one of a certain batch is looked for: some more than are kept unless somebody asks for it."""


class Sharded(Monitor):
    """A monitor over a state directory that is made with these rules, or opened if it is there."""

    def __init__(
        self,
        runner: Runner,
        path: str | os.PathLike[str],
        rules: Any = None,
        key: Keys = None,
        *,
        index: IndexKind = "blocks",
        types: Mapping[str, str] | None = None,
        sizing: Sizing | None = None,
        at: Given | None = None,
        sequence_by: str | Mapping[str, str] | None = None,
    ) -> None:
        self._piece = None
        self._runner = runner
        self._lock = RLock()
        self.notes = ()
        # tasks run in other directories than the driver
        self.path = fixed_place(path)
        self._sizing = sizing or Sizing()
        self._at = None if at is None else self._version(at)
        with writer_lock(self.path):
            if rules is not None and not has_state(self.path):
                made = OnePiece(Facts.new(with_types(load_rules(rules), types), key, index, sequence_by))
                made.save(self.path)
                made.close()
        self._check_rules(rules, types, key)
        self._sequence_by = sequence_by

    def _check_rules(self, rules: Any, types: Mapping[str, str] | None, key: Keys) -> None:
        with self._kept(read_only=True) as kept:
            facts = kept.facts
        given = None if rules is None else load_rules(rules)
        declared = {**dict(() if given is None else given.types), **(types or {})}
        types_for_batch(facts.rules, facts.main, facts.keys, facts.schemas, declared)
        if given is not None and dump_rules(replace(given, types=())) != dump_rules(replace(facts.rules, types=())):
            raise StateError(
                f"{self.path} watches other rules than those given",
                hint="leave the rules out to go on with its own, or choose another directory",
            )
        other = {} if key is None else keys_of(facts.rules, key, facts.main)
        differ = [name for name, own in facts.keys.items() if name in other and other[name] != own]
        if differ:
            raise StateError(
                f"rows of {differ[0]!r} in {self.path} are named by {', '.join(facts.keys[differ[0]])}, "
                f"not by {', '.join(other[differ[0]])}",
                hint="leave the key out to go on with its own, or choose another directory",
            )

    def _version(self, at: Given) -> int:
        """The number of an earlier version, which stays the same whatever is applied."""
        with StateFiles(self.path) as files:
            return files.version_at(at_of(at))

    @property
    def moment(self) -> Moment:
        """Which version of its state is read now, and of when."""
        with self._opened(read_only=True) as journal:
            return journal.moment

    def _opened(self, *, read_only: bool) -> Journal:
        if self._at is not None and not read_only:
            raise StateError(
                f"version {self._at} of {self.path} can only be read", hint="leave out at= to apply changes"
            )
        journal = Journal.open(self.path, "monitor", HISTORY, read_only=read_only, at=self._at)
        if not is_format_1(journal.facts):
            return journal
        journal.close()
        # its shards cannot be read one by one
        with writer_lock(self.path):
            piece = OnePiece.opened(self.path, read_only=False)
            try:
                piece.renew()
            finally:
                piece.close()
        return Journal.open(self.path, "monitor", HISTORY, read_only=read_only, at=self._at)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other thread of this process applies a batch to the state meanwhile, by whatever monitor."""
        with self._lock, writer_lock(self.path):
            yield

    @contextmanager
    def _kept(self, *, read_only: bool) -> Iterator[InShards]:
        with (
            self._lock if read_only else self.alone(),
            self._opened(read_only=read_only) as journal,
        ):
            yield InShards(self._runner, journal, self._sizing, self.path)

    def close(self) -> None:
        """Nothing is held open between batches."""

    def apply(  # type: ignore[override]  # options of change files are apart from those of the batch
        self,
        changes: Any,
        batch_id: str | int | None = None,
        *,
        limit: int | None = LIMIT,
        on_conflict: OnConflict = "error",
        feed: str = "auto",
        op_column: str | None = None,
        types: Mapping[str, str] | None = None,
        read: Mapping[str, Any] | None = None,
        one_task: bool = False,
        sequence_by: str | Mapping[str, str] | None = None,
    ) -> Delta:
        """Apply one batch, whole or not at all, and say which violations it added and removed.

        Parameters
        ----------
        changes
            A data frame of rows or of a change feed; a mapping from table name to such for one
            batch over several tables.
        batch_id
            Names the batch. A batch whose id was applied before changes nothing.
        limit
            How many added and removed violations are listed, by check and shard; None for all.
        on_conflict
            What to do about inserts of existing keys and updates or deletes of missing ones.
        feed, op_column
            How the changes are written: append, ops, debezium, delta, iceberg, files (paths of
            change files), or auto: told by the names of the columns.
        types
            What columns hold, where the monitor does not know it yet, or how this batch writes them.
        read
            Options of `read_changes` for change files.
        one_task
            The changes are few and cheap to read: one task reads them and looks up their keys, which
            saves one of two shuffles. Right for the batches of a change feed, wrong for changes that
            must first be searched for in a large table. A batch that turns out large goes the long way.
        sequence_by
            As for `holdstrue.Monitor.apply`: late changes that are older lose.

        Complexity: O(changes and violations they add or remove), times log of the rows in a group,
        and what it takes to run one job of two shuffles.
        """
        how = on_conflict, feed, op_column, types, read or {}
        by = sequence_by if sequence_by is not None else self._sequence_by
        return self._apply(changes, batch_id, limit, *how, one_task=one_task, sequence_by=by)

    def last(self, limit: int | None = LIMIT) -> Delta | None:
        """What the last batch did, read back from the state; None where the last batch was not applied in shards."""
        with self._kept(read_only=True) as kept:
            batch = kept.facts.last_batch
            if kept.list_files is None or batch is None:
                return None
            added, removed = kept.listed(2**62 if limit is None else limit)
            lines = [line for line in kept.history() if line.batch == batch]
            return Delta(
                batch, added, removed, {line.rule: Step(line.added, line.removed, line.open) for line in lines}
            )

    def seen(self, batch_id: str) -> bool:
        """Whether a batch of this id was applied. Complexity: O(log batches)."""
        with self._kept(read_only=True) as kept:
            return kept.seen(batch_id)

    def made_by(self, batch: str) -> int | None:
        """The version that a batch made, where it was in shards and is among the last that are kept.

        Complexity: O(versions since, at most `LOOKED_BACK`).
        """
        with StateFiles(self.path) as files:
            for version in reversed(files.versions()[-LOOKED_BACK:]):
                try:
                    manifest = files.manifest(version)
                except StateError:
                    return None  # it was removed meanwhile, and so were those before it
                # versions that only lay the state out anew have no lists
                if manifest.get("last_batch") == batch and "delta" in manifest:
                    return version
        return None

    def rebalance(self, *, shards: int | None = None, blocks: int | None = None) -> None:
        """Lay the state out anew for the rows it has now, with hot keys found afresh. Complexity: O(table)."""
        with self._lock:
            self._sizing = replace(self._sizing, shards=shards, blocks=blocks)
            with self._kept(read_only=False) as kept:
                kept.rebalance()

    def current(self) -> Version | None:
        """The state as stages read it now; None before any data."""
        with self._kept(read_only=True) as kept:
            return kept.current()

    def listing(self, rule: str | None = None, *, table: str | None = None) -> Listing | None:
        """The stage that lists the violations of a rule, of a table's rules or of all; None before the first batch."""
        with self._kept(read_only=True) as kept:
            rules = kept.facts.rules
            known_rule(rules, rule)
            now, moment = kept.current(), kept.moment
        if now is None:
            return None
        checks = [check for i in numbers_of(rules, rule) for check in now.ledger.checks_of(i)]
        own = [check for check in checks if table in (None, now.ledger.layout.plan.checks[check].table)]
        return Listing(now.job, tuple(own), tuple(check for check in now.ledger.broken(moment) if check in own))
