"""A discovery: the rules found in some tables, kept current for every batch of changes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import Any

import pyarrow as pa

from holdstrue.closing import Closing
from holdstrue.data.notes import Notes
from holdstrue.detect.engine import Incoming
from holdstrue.detect.resolve import OnConflict
from holdstrue.discovery.answers import DiscoveryAnswers, alone
from holdstrue.discovery.found import NO_VALUES, Died, FoundRule, RuleChanges
from holdstrue.discovery.held import Held
from holdstrue.discovery.kinds import Kind, families_of, load_kinds, restore_kinds
from holdstrue.discovery.manifest import ending, told
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.state import HISTORY, batches_of, cores_of, restore_rows, write_all, write_line
from holdstrue.discovery.work import Work
from holdstrue.errors import DataError, HoldstrueError, StateError
from holdstrue.monitor.format_1 import is_format_1, living_rows
from holdstrue.rules.model import Body, Inclusion, RuleSet
from holdstrue.rules.types import Types
from holdstrue.shards.facts import batch_name, types_for_batch
from holdstrue.sources.feeds import read_changes
from holdstrue.state.journal import Journal
from holdstrue.state.moment import Given, Moment, at_of
from holdstrue.state.schema_text import schema_text

ENDED = 20
"""Rules that died last and are remembered by name, with what broke them; how many each batch ended is always known."""


class Discovery(Closing, DiscoveryAnswers):
    """Rules found by `discover`, ranked, and kept current by `apply`.

    Several threads may use one discovery: batches are applied one after the other, and every answer is of one version.

    Examples
    --------
    >>> import holdstrue, pyarrow as pa
    >>> zips = pa.table({"id": [1, 2, 3], "zip": ["1", "1", "2"], "city": ["Bonn", "Bonn", "Ulm"]})
    >>> found = holdstrue.discover(zips, kinds=("fd",), key="id")
    >>> "zip -> city" in [rule.text for rule in found]
    True
    >>> changes = found.apply(pa.table({"id": [4], "zip": ["1"], "city": ["Köln"]}))
    >>> [(died.text, died.rows) for died in changes.died if died.text == "zip -> city"]
    [('zip -> city', (2, 4))]
    """

    def __init__(self, held: Held, kinds: Mapping[str, Kind], options: DiscoveryOptions) -> None:
        self._lock = RLock()
        self._held = held
        self._kinds = dict(kinds)
        self.options = options
        self._journal: Journal | None = None
        self._ids: set[str] = set()
        self._batches = 0
        self._past: list[dict[str, Any]] = []
        """The history of a state that was only read."""
        self._ended: list[dict[str, Any]] = []
        self._found: list[FoundRule] | None = None
        self._nearly: list[FoundRule] | None = None
        self._broken = False
        self.types: Types = ()
        """The declared types of columns, which batches are read with too."""
        self.moment: Moment | None = None
        """Which earlier version of its state was asked for, and of when it is."""
        self._read_only = False
        self._stale = False
        """It is kept in a format that only rows could be read of, so that the next batch must write everything."""
        self.until: Work | None = None
        """The search, which says how much of its time is left; None once a batch was applied."""
        self.notes: tuple[str, ...] = ()
        """What there is to know about how the data was read."""

    # --- changing ------------------------------------------------------------------------------

    @alone
    def apply(
        self,
        changes: Any,
        *,
        batch_id: str | int | None = None,
        on_conflict: OnConflict = "error",
        feed: str = "auto",
        op_column: str | None = None,
        types: Mapping[str, str] | None = None,
        **read: Any,
    ) -> RuleChanges:
        """Apply one batch, whole or not at all, and say which rules died and which were born.

        Parameters
        ----------
        changes
            Rows, a file, or a change feed (see `read_changes`); a mapping from table name to such for
            several tables. Rows of a table without a key are deleted by giving all their values.
        batch_id
            Names the batch. A batch whose id was applied before changes nothing.
        types
            How this batch writes columns whose types are known.
        """
        self._require_current()
        batch = batch_name(batch_id, self._batches)
        if batch_id is not None and self._seen(batch):
            return RuleChanges(batch, rules=len(self.rules), duplicate=True)
        tables = list(self._held.keys)
        named = isinstance(changes, Mapping) and not hasattr(changes, "__arrow_c_stream__")
        parts = changes if named else {tables[0]: changes}
        held, notes = self._held, Notes()
        _, declared = types_for_batch(RuleSet((), types=self.types), tables[0], held.keys, held.schemas, types)
        incoming = {}
        for name, part in parts.items():
            if name not in self._held.keys:
                raise HoldstrueError(f"no table {name!r} in this discovery", hint=f"it has {', '.join(tables)}")
            key, schema = self._held.keys[name], self._held.schemas[name]
            if not key and feed not in ("auto", "append", "ops"):
                raise HoldstrueError(f"a feed of {feed} for a table without a key", hint="discover with key=...")
            how: dict[str, Any] = {**read, "types": declared[name], "notes": notes}
            known = read_changes(part, key=key, schema=schema, feed=feed, op_column=op_column, extra="ignore", **how)
            incoming[name] = self._held.resolve(name, known, on_conflict)
        return replace(self._run(batch, incoming), notes=tuple(notes))

    def _require_current(self) -> None:
        """Refuse a batch where the next version would not be of this one."""
        if self._read_only:
            raise StateError(
                "the discovery was opened read-only", hint="open it without read_only=True and at= to apply changes"
            )
        if self._broken:
            raise StateError(
                "an earlier batch stopped half-way in memory",
                hint="discover anew"
                if self._journal is None
                else "open the state again: its history says whether that batch is in",
            )

    def _run(self, batch: str, incoming: Mapping[str, Incoming]) -> RuleChanges:
        before = {(found.table, found.body): found for found in self.rules}
        self._broken = True
        ends = self._follow(self._held.apply(incoming))
        return self._changed(batch, before, ends, incoming, NO_VALUES)

    def _changed(
        self,
        batch: str,
        before: Mapping[tuple[str | None, Body], FoundRule],
        ends: Mapping[tuple[str | None, Body], Died],
        incoming: Mapping[str, Incoming],
        otherwise: str,
    ) -> RuleChanges:
        """Name a batch that was followed, and make it durable; rules that no core says died did for another reason."""
        after = {(found.table, found.body): found for found in self.rules}
        died = tuple(
            # its core still has a rule that it does not say died: those on a column without any value are not shown
            self._named(ends.get((table, body), Died(body, (), table, why=otherwise)))
            for table, body in before
            if (table, body) not in after
        )
        born = tuple(found for place, found in after.items() if place not in before)
        self._batches += 1
        self._ended = [*self._ended, *map(partial(ending, batch), died)][-ENDED:]
        if self._journal is None:
            self._ids.add(batch)
        else:
            line = {"batch": batch, "died": len(died), "born": len(born), "rules": len(after)}
            if self._stale:
                self._write_all(self._journal, [line])
            else:
                facts = {"ended": self._ended} if died else {}
                write_line(self._journal, self._held, incoming, line, self._snapshots, facts)
        self._broken = False
        exact = not self.options.error and self.options.confidence == 1
        how = self.explain()
        return RuleChanges(batch, died, born, len(after), how=how, nulls=self.options.nulls, exact=exact)

    def _follow(self, batches: Any) -> dict[tuple[str | None, Body], Died]:
        self._found = self._nearly = self.until = None
        return {(died.table, died.body): died for kind in self._kinds.values() for died in kind.apply(batches)}

    def _named(self, died: Died) -> Died:
        """With the rows that break it as people know them."""
        table = died.body.table if isinstance(died.body, Inclusion) else died.table
        return replace(
            died, rows=self._held.named(table or next(iter(self._held.keys)), died.rows) if died.rows else ()
        )

    # --- keeping -------------------------------------------------------------------------------

    @alone
    def save(self, path: str | os.PathLike[str]) -> None:
        """Keep the discovery in a state directory, where every batch from now on is durable."""
        journal = Journal.create(path, "discovery", HISTORY)
        try:
            self._write_all(journal, [])
        except BaseException:
            journal.close()
            raise
        self._journal = journal

    @alone
    def renew(self) -> None:
        """Write everything anew, where it is kept in an earlier format."""
        if self._journal is not None and self._stale:
            self._write_all(self._journal, [])

    def _write_all(self, journal: Journal, lines: Sequence[Mapping[str, Any]]) -> None:
        about = {
            "options": self.options.to_dict(),
            "schemas": {name: schema_text(schema) for name, schema in self._held.schemas.items()},
            "keys": {name: list(key) for name, key in self._held.keys.items()},
            "types": dict(self.types),
        }
        table = pa.Table.from_pylist([dict(line) for line in lines], schema=HISTORY.schema)
        write_all(journal, self._held, self._snapshots(), table, {"discovery": about, "ended": self._ended})
        self._stale = False

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False, at: Given | None = None) -> Discovery:
        """Go on with a discovery that was kept. Complexity: O(batches since the last checkpoint).

        Parameters
        ----------
        at
            An earlier version, as far as it is kept, which can only be read: as for `Monitor.open`.
        """
        read_only = read_only or at is not None
        journal = Journal.open(path, "discovery", HISTORY, read_only=read_only, at=None if at is None else at_of(at))
        try:
            held, options = journal.read(told)
            about = journal.facts["discovery"]
            if is_format_1(journal.facts):
                # nothing but its rows can be read: the rules are searched anew
                held.load(living_rows(journal.files, journal.runs, held.engine))
                work = Work.lasting(options.budget, threads=options.threads)
                found = cls(held, load_kinds(held, options, work), options)
                found._stale = True
            else:
                found = cls._restored(journal, held, options)
            found.types = tuple(about.get("types", {}).items())
            found._batches = journal.committed
            found.moment = None if at is None else journal.moment
            found._read_only = read_only
            found._journal = None if read_only else journal
            found._past = journal.history().to_pylist() if read_only else []
            found._ended = list(journal.facts.get("ended", []))
        except BaseException:
            journal.close()
            raise
        if read_only:
            journal.close()
        return found

    @classmethod
    def _restored(cls, journal: Journal, held: Held, options: DiscoveryOptions) -> Discovery:
        restore_rows(journal, held)
        cores = cores_of(journal, families_of(options))
        found = cls(held, restore_kinds(held, options, cores), options)
        journal.files.verified()
        for file, incoming in batches_of(journal, held):
            try:
                found._follow(held.again(incoming))
            except (DataError, StateError) as error:
                raise journal.files.damaged(file, error.message) from error
        return found

    def _seen(self, batch: str) -> bool:
        return batch in self._ids if self._journal is None else self._journal.seen(batch)

    @alone
    def history(self) -> list[dict[str, Any]]:
        """What each batch did to the rules, oldest first; of a discovery that is kept in a directory."""
        lines: list[dict[str, Any]] = self._past if self._journal is None else self._journal.history().to_pylist()
        return lines

    @property
    def batches(self) -> int:
        """How many batches there were."""
        return self._batches

    @alone
    def ended(self) -> list[dict[str, Any]]:
        """The rules that died last, oldest first, up to `ENDED`: batch, table, rule, why, and some of what broke it."""
        return list(self._ended)

    @alone
    def close(self) -> None:
        """Let go of the state directory."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _snapshots(self) -> dict[str, Any]:
        return {name: kind.snapshot() for name, kind in self._kinds.items()}
