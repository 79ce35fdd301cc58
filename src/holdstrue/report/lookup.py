"""The values behind counts: groups with what their rows say, and rows by their key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import python_rows
from holdstrue.detect.delta import Key, RuleResult, plain
from holdstrue.detect.engine import Engine
from holdstrue.monitor.report import Report
from holdstrue.plan.checks import GroupCheck, PairCheck
from holdstrue.rules.model import Rule
from holdstrue.typing import I32


@dataclass(frozen=True)
class Variant:
    """The rows of a group that say the same on the right: their values, their number and the first keys."""

    values: dict[str, Any]
    rows: int
    keys: tuple[Key, ...]


@dataclass(frozen=True)
class ConflictingGroup:
    """Rows that agree on a rule's left side and do not agree on its right (for a key: more than one row)."""

    rule: str
    values: dict[str, Any]
    rows: int
    sides: tuple[Variant, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "rule": self.rule,
            "values": _plain_values(self.values),
            "rows": self.rows,
            "sides": [
                {"values": _plain_values(side.values), "rows": side.rows, "keys": [plain(key) for key in side.keys]}
                for side in self.sides
            ],
        }


def groups_of(report: Report, result: RuleResult, *, limit: int | None, keys: int | None) -> Iterator[ConflictingGroup]:
    """Violating groups of a key, FD or CFD, the most frequent right side first, each with its first keys.

    Groups that are wholly accepted are left out.
    Complexity: O(rows of the groups read); only the keys asked for are looked up.
    """
    accepted = report._known.get(result.rule.name)
    number = [other.rule.name for other in report.results].index(result.rule.name)

    def made(check: GroupCheck | PairCheck, conflicting: list[I32]) -> ConflictingGroup | None:
        if accepted is not None and accepted.together(views.keys(check.table, np.concatenate(conflicting))):
            return None
        slots = conflicting if check.rhs else [np.concatenate(conflicting)]
        slots.sort(key=lambda side: -side.size)
        rows = report._engine.tables[check.table].rows
        first = python_rows(rows.take(np.array([side[0] for side in slots]), (*check.lhs, *check.rhs)))
        sides = tuple(
            Variant({name: row[name] for name in check.rhs}, side.size, tuple(views.keys(check.table, side[:keys])))
            for row, side in zip(first, slots, strict=True)
        )
        values = {name: first[0][name] for name in check.lhs}
        return ConflictingGroup(result.rule.name, values, sum(side.rows for side in sides), sides)

    with report.reading() as views:
        groups = views.grouped(number, None if accepted is not None else limit, made)
    return islice((group for group in groups if group is not None), limit)


class Lookup(Protocol):
    """Where rules, and the rows behind their violations, are found."""

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules."""

    def key_columns(self, rule: Rule) -> tuple[str, ...]:
        """The columns that name the rows a rule speaks of; none where rows are numbered."""

    def rows_of(self, rule: Rule, keys: Sequence[Key]) -> list[dict[str, Any] | None]:
        """The rows with these keys: key and the columns the rule reads; None where a row is gone."""


@dataclass(frozen=True)
class ReportLookup:
    """The rows that the engine of a report holds."""

    report: Report

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules."""
        return [result.rule for result in self.report.results]

    def key_columns(self, rule: Rule) -> tuple[str, ...]:
        """The columns that name the rows a rule speaks of; none where rows are numbered."""
        return self.report.key_columns(rule)

    def rows_of(self, rule: Rule, keys: Sequence[Key]) -> list[dict[str, Any] | None]:
        """The living rows with these keys: key and the columns the rule reads; None where a row is gone.

        Complexity: O(keys).
        """
        engine = self.report._engine
        with self.report.reading():
            return living_rows(engine, rule.own_table or engine.plan.main, self.key_columns(rule), keys, rule)


def living_rows(
    engine: Engine, table: str, names: Sequence[str], keys: Sequence[Key], rule: Rule
) -> list[dict[str, Any] | None]:
    """The rows of an engine with these keys. Complexity: O(keys)."""
    if not names or not keys:
        return [None] * len(keys)
    rows = engine.tables[table].rows
    slots = rows.find(*engine.key_digest(table, key_table(rows.schema, names, keys), names))
    found = iter(python_rows(rows.take(slots[slots >= 0], list(dict.fromkeys((*names, *rule.columns))))))
    return [next(found) if slot >= 0 else None for slot in slots]


def key_table(schema: pa.Schema, names: Sequence[str], keys: Sequence[Key]) -> pa.Table:
    """Keys as a table of their columns."""
    parts = [key if isinstance(key, tuple) else (key,) for key in keys]
    columns = [pa.array([part[at] for part in parts], schema.field(name).type) for at, name in enumerate(names)]
    return pa.table(columns, names=list(names))


def _plain_values(values: dict[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in values.items()}
