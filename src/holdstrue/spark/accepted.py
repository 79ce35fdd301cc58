"""Accepted violations held against a report from Spark: only rows that a file names are fetched, and these are few."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdstrue.detect.delta import RuleResult
from holdstrue.monitor.accepting import SET, conflicts_in, entries_for, key_table, weighed
from holdstrue.monitor.accepting import accepting as accepting_here
from holdstrue.monitor.check import check as check_here
from holdstrue.monitor.sharded_check import ROW
from holdstrue.rules.accepted import Acceptance, RowName
from holdstrue.rules.model import Inclusion, Rule
from holdstrue.sources.fit import is_text
from holdstrue.spark.tables import rows_with_keys, with_keys

if TYPE_CHECKING:
    from holdstrue.spark.checking import SparkReport


def accepting(report: SparkReport, source: str | Sequence[Acceptance], today: dt.date | None = None) -> SparkReport:
    """The report with accepted violations counted, and left out of its lists; they do not fail it.

    `source` is a file as `holdstrue accept` writes it, or its entries.

    Complexity: one or two jobs a rule with entries, of which only rows that these name leave the cluster.
    """
    entries = entries_for(report, source)
    if report.small is not None:
        small = accepting_here(report.small, entries, today=today)
        named = tuple(small.listed())
        return replace(
            report, results=small.results, accepted=small.accepted, small=small, named=named, known=small._known
        )
    fetched = _Fetched(report, entries)
    results, counted, known = weighed(report.results, entries, fetched.violations, today)
    return replace(report, results=results, accepted=counted, known=known)


@dataclass
class _Fetched:
    """The rows that entries name, rule by rule."""

    report: SparkReport
    entries: Sequence[Acceptance]
    _rows: dict[str, pa.Table] = field(default_factory=dict)
    _alone: dict[str, list[Any]] = field(default_factory=dict)

    def violations(self, result: RuleResult, entry: Acceptance) -> int:
        """How many violations there are that an entry accepts."""
        rule = result.rule
        count = 0
        if entry.rows:
            wanted = {*self._keys(rule, entry.rows)}
            count += sum(key in wanted for key in self._violating(rule))
        if entry.conflicts:
            names = self._keys(rule, [name for conflict in entry.conflicts for name in conflict])
            sets = [at for at, conflict in enumerate(entry.conflicts) for _ in conflict]
            rows = self._named(rule)
            places: dict[Any, list[int]] = {}
            for place, key in enumerate(self._keys_in(rule, rows)):
                places.setdefault(key, []).append(place)
            taken = [(place, own) for key, own in zip(names, sets, strict=True) for place in places.get(key, ())]
            own_rows = rows.take(pa.array([place for place, _ in taken], pa.int64()))
            own_rows = own_rows.append_column(SET, pa.array([own for _, own in taken], pa.int64()))
            count += conflicts_in(rule, own_rows, self.report.given.plan.rules.nulls)
        return count

    def _key(self, rule: Rule) -> tuple[str, ...]:
        return self.report.key_columns(rule)

    def _table(self, rule: Rule) -> str:
        return rule.own_table or self.report.given.plan.main

    def _keys(self, rule: Rule, names: Sequence[RowName]) -> list[tuple[Any, ...]]:
        """Names of a file as values of the key's columns."""
        schema = self.report.given.plan.schemas[self._table(rule)]
        return self._keys_in(rule, key_table(schema, self._key(rule), names))

    def _keys_in(self, rule: Rule, rows: pa.Table) -> list[tuple[Any, ...]]:
        return list(zip(*(rows.column(name).to_pylist() for name in self._key(rule)), strict=True))

    def _asked(self, rule: Rule) -> list[tuple[Any, ...]]:
        """The keys of all rows that entries of the rule name."""
        names = [
            name
            for entry in self.entries
            if entry.rule == rule.name
            for name in (*entry.rows, *(name for conflict in entry.conflicts for name in conflict))
        ]
        return list(dict.fromkeys(self._keys(rule, names)))

    def _named(self, rule: Rule) -> pa.Table:
        """The rows that entries of the rule name. One job."""
        if rule.name not in self._rows:
            schema = self.report.given.plan.schemas[self._table(rule)]
            columns = list(dict.fromkeys((*self._key(rule), *rule.columns)))
            found = rows_with_keys(self._frame(rule), self._key(rule), columns, self._asked(rule))
            self._rows[rule.name] = found.cast(pa.schema([schema.field(name) for name in columns]))
        return self._rows[rule.name]

    def _frame(self, rule: Rule) -> Any:
        return self.report.given.sources[self._table(rule)]

    def _violating(self, rule: Rule) -> list[Any]:
        """The keys of rows that violate the rule alone, among those that entries name."""
        if rule.name in self._alone:
            return self._alone[rule.name]
        key = self._key(rule)
        plan = self.report.given.plan
        alone = replace(plan.rules, rules=(rule,), types=(), key=())
        if isinstance(rule.body, Inclusion):
            from holdstrue.spark.checking import check

            frames = dict(self.report.given.frames)
            frames[self._table(rule)] = with_keys(self._frame(rule).drop(ROW), key, self._asked(rule))
            found = check(frames, replace(alone, table=plan.main), key=key, limit=None).listed()
        else:
            rows = self._named(rule)
            text = {f.name: "text" for f in rows.schema if is_text(f.type)}
            found = check_here(rows, replace(alone, table=None), key=key, types=text, limit=None).listed()
        own = [v.t for v in found if not v.pair]
        self._alone[rule.name] = [name if isinstance(name, tuple) else (name,) for name in own]
        return self._alone[rule.name]
