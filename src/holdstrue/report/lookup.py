"""The values behind a report's counts: groups with what their rows say, and rows by their key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.detect.delta import Key, RuleResult, plain
from holdstrue.detect.group import GroupDetector
from holdstrue.detect.report import Report
from holdstrue.detect.views import Views
from holdstrue.plan.bind import own_columns
from holdstrue.plan.compile import table_of
from holdstrue.plan.explain import explain
from holdstrue.rules.model import Rule


@dataclass(frozen=True)
class Side:
    """The rows of a group that say the same on the right: their values, their number and the first keys."""

    values: dict[str, Any]
    rows: int
    keys: tuple[Key, ...]


@dataclass(frozen=True)
class Group:
    """Rows that agree on a rule's left side and do not agree on its right (for a key: more than one row)."""

    rule: str
    values: dict[str, Any]
    rows: int
    sides: tuple[Side, ...]

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


def groups_of(report: Report, result: RuleResult, *, limit: int | None, keys: int | None) -> Iterator[Group]:
    """Violating groups of a key, FD or CFD, the most frequent right side first, each with its first keys.

    Complexity: O(rows of the groups read); only the keys asked for are looked up.
    """
    engine = report._engine
    views = Views(engine, dict(report._keys))
    number = [other.rule.name for other in report.results].index(result.rule.name)
    left = limit
    for detector in engine.detectors:
        if detector.check.rule != number or not isinstance(detector, GroupDetector):
            continue
        check = detector.check
        rows = engine.tables[check.table].rows
        for group in detector.violating_groups()[:left]:
            slots = detector.conflicting(int(group))
            if not check.rhs:
                slots = [np.concatenate(slots)]
            slots.sort(key=lambda side: -side.size)
            first = rows.take(np.array([side[0] for side in slots]), (*check.lhs, *check.rhs)).to_pylist()
            sides = tuple(
                Side({name: row[name] for name in check.rhs}, side.size, tuple(views.keys(check.table, side[:keys])))
                for row, side in zip(first, slots, strict=True)
            )
            values = {name: first[0][name] for name in check.lhs}
            yield Group(result.rule.name, values, sum(side.rows for side in sides), sides)
            if left is not None:
                left -= 1


def key_columns(report: Report, rule: Rule) -> tuple[str, ...]:
    """The columns that name the rows a rule speaks of; none where rows are numbered."""
    return report._keys.get(table_of(rule, report._engine.plan.main), ())


def rows_of(report: Report, rule: Rule, keys: Sequence[Key]) -> list[dict[str, Any] | None]:
    """The living rows with these keys: key and the columns the rule reads; None where a row is gone.

    Complexity: O(keys).
    """
    engine = report._engine
    table = table_of(rule, engine.plan.main)
    names = report._keys.get(table, ())
    if not names or not keys:
        return [None] * len(keys)
    rows = engine.tables[table].rows
    parts = [key if isinstance(key, tuple) else (key,) for key in keys]
    columns = [pa.array([part[at] for part in parts], rows.schema.field(name).type) for at, name in enumerate(names)]
    slots = rows.find(*engine.key_digest(table, pa.table(columns, names=list(names)), names))
    found = iter(rows.take(slots[slots >= 0], list(dict.fromkeys((*names, *own_columns(rule))))).to_pylist())
    return [next(found) if slot >= 0 else None for slot in slots]


def plan_text(report: Report) -> str:
    """How the rules were checked: the plan, and what the indexes say now that they hold the data."""
    engine = report._engine
    return explain(engine.plan, engine.explain())


def _plain_values(values: dict[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in values.items()}
