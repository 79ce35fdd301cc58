"""What a monitor answers about the rows as they are now."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import python_rows
from holdstrue.detect.delta import Batched, Key, Offender, RuleCounts, Violation
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.keeper import Keeper
from holdstrue.monitor.one_piece import OnePiece
from holdstrue.monitor.report import Report, known_rule, numbers_of
from holdstrue.monitor.views import Group, Views
from holdstrue.rules.model import Rule, RuleSet
from holdstrue.shards.facts import Facts
from holdstrue.shards.shard import Shard
from holdstrue.state.moment import Moment
from holdstrue.tabular import PlanText, Tabular


class NoRowError(HoldstrueError):
    """There is no row with a key."""


class Answers(Tabular):
    """How rules stand, which rows violate them and what batches did to them; nothing here changes anything."""

    @abstractmethod
    def _kept(self, *, read_only: bool) -> AbstractContextManager[Keeper]:
        """The rows as they are now, which no other thread changes meanwhile."""

    @abstractmethod
    def _here(self) -> OnePiece:
        """The rows, where they are in this process; raises where they are not."""

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
    def place(self) -> str | None:
        """The directory or URL of its state; None where it has none."""
        journal = self._here().journal
        return None if journal is None else str(journal.files.place)

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

    def explain(self) -> PlanText:
        """How the rules are kept current: checks, indexes and orders of predicates, or routes and shards."""
        with self._kept(read_only=True) as kept:
            return PlanText(kept.explain())

    def violations(self, rule: str | None = None, *, limit: int | None = None) -> Iterator[Violation]:
        """The violations there are now, made as they are read, whatever is applied meanwhile.

        Complexity: O(what is read). A batch keeps in memory what is still to be read, up to a million violations;
        beyond that the list ends with an error.
        """
        with self._here() as piece:
            rules, views = piece.facts.rules, piece.views
            known_rule(rules, rule)
            return iter(()) if views is None else views.violations(numbers_of(rules, rule), limit)

    def to_arrow(self) -> pa.Table:
        """The violations there are now as a table of rule, t and s. Complexity: O(violations)."""
        with self._here() as piece:
            return (
                pa.table({"rule": [], "t": [], "s": []}) if piece.shard is None else self.report(limit=None).to_arrow()
            )

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
            name, slot = self._place(key, table)
            shard = self._shard()
            return Views(shard.engine, shard.keys, piece.guard).by_rule(name, slot)

    def values(self, key: Key, *, table: str | None = None) -> dict[str, Any]:
        """A row as far as it is kept: its key and the columns that rules read."""
        with self._here():
            name, slot = self._place(key, table)
            taken = self._shard().engine.tables[name].rows.take(np.array([slot], dtype=np.int32))
            return python_rows(taken)[0]

    def violations_of(
        self, key: Key, *, table: str | None = None, limit: int = 100
    ) -> list[tuple[Rule, Violation, list[dict[str, Any]]]]:
        """The violations that a row is in, up to a limit of each rule, with their rows: key and what the rule reads.

        Complexity: O(rules and violations of the row).
        """
        with self._here() as piece:
            name, slot = self._place(key, table)
            shard = self._shard()
            return list(Views(shard.engine, shard.keys, piece.guard).of_row(name, slot, limit))

    def _place(self, key: Key, table: str | None) -> tuple[str, int]:
        """The table and the slot of the row with a key; raises where there is none."""
        facts, shard = self._here().facts, self._shard()
        name = facts.known_table(table or facts.main)
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
            wanted = ", ".join(field.name for field in fields)
            raise NoRowError(f"no row with key {key!r} in {name!r}", hint=f"its key is {wanted}; the row may be gone")
        return name, slot

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

    def suspects(self, *, table: str | None = None, discover: bool = True) -> Any:
        """Cells of a table that are probably wrong now, with what they should probably be (see `holdstrue.suspects`).

        By the monitor's rules, which are believed, and with `discover` by rules that the rows themselves speak for,
        over the columns that are kept: the key and what rules read. Nothing of it is kept current: every call looks at
        all rows.
        """
        # what looks for suspects lives above, so it is looked up when somebody asks for it
        of = import_module("holdstrue.discovery.suspects.held").suspects_of_monitor
        with self._here() as piece:
            name = piece.facts.known_table(table or piece.facts.main)
            rows = self._shard().engine.tables[name].rows
            held = rows.take(rows.living_slots())
            facts = piece.facts
        return of(held, facts.rules, facts.main, tuple(facts.keys.get(name, ())), name, discover=discover)

    def size_bytes(self) -> dict[str, int]:
        """Memory held by each part."""
        with self._here() as piece:
            return {} if piece.shard is None else piece.shard.engine.size_bytes()

    def _shard(self) -> Shard:
        shard = self._here().shard
        if shard is None:
            raise HoldstrueError("the monitor has seen no data yet", hint="apply a first batch")
        return shard
