"""The result of a check: how each rule stands, and the violations themselves as far as they were asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pyarrow as pa

from holdstrue.data.buffers import python_rows
from holdstrue.detect.delta import RuleResult, Violation
from holdstrue.detect.engine import Engine
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.views import Group, Views, gathered, known_rule, numbers_of
from holdstrue.plan.bind import own_columns
from holdstrue.plan.compile import table_of
from holdstrue.plan.explain import explain
from holdstrue.rules.model import Rule


@dataclass(frozen=True)
class Findings(ABC):
    """How data stands to its rules, wherever it was checked: exact counts, and as many violations as are listed."""

    results: tuple[RuleResult, ...]
    rows: Mapping[str, int]
    limit: int | None
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    """What there is to know about how the data was read."""

    @property
    def ok(self) -> bool:
        """Whether no rule of severity error is violated beyond its tolerance."""
        return not any(r.status == "violated" and r.rule.severity == "error" for r in self.results)

    @property
    def total(self) -> int:
        """Violations in all."""
        return sum(result.counts.open for result in self.results)

    @abstractmethod
    def listed(self) -> Iterator[Violation]:
        """The violations that are written out: the first ones, up to the report's limit."""

    @abstractmethod
    def key_columns(self, rule: Rule) -> tuple[str, ...]:
        """The columns that name the rows of a rule's table; none where rows are numbered."""

    @abstractmethod
    def examples(self, result: RuleResult, limit: int) -> list[tuple[Violation, list[dict[str, Any]]]]:
        """The first violations of a rule, each with its rows' key and the columns the rule reads."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data; `violations` stops at the limit, counts never do; `notes` is there if there are some."""
        listed = [violation.to_dict() for violation in self.listed()]
        return {
            "rules": [result.to_dict() for result in self.results],
            "violations": listed,
            "truncated": len(listed) < self.total,
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    def to_arrow(self) -> pa.Table:
        """The listed violations as a table of rule, t and s (keys as text where they have several columns)."""
        violations = list(self.listed())
        return pa.table(
            {
                "rule": pa.array([v.rule for v in violations], pa.string()),
                "t": _column([v.t for v in violations]),
                "s": _column([v.s for v in violations]),
            }
        )

    def raise_if_violated(self) -> None:
        """Raise when a rule of severity error is violated, for use in pipelines."""
        broken = [r for r in self.results if r.status == "violated" and r.rule.severity == "error"]
        if broken:
            said = "; ".join(f"{r.rule.name}: {r.counts.open} violations" for r in broken)
            raise HoldstrueError(f"{len(broken)} rules are violated: {said}")

    def _repr_html_(self) -> str:
        # rendering lives above detection, so it is looked up when a notebook asks for it
        html: str = import_module("holdstrue.report").html_of(self)
        return html

    def __repr__(self) -> str:
        broken = sum(result.status == "violated" for result in self.results)
        return f"Report(rules: {len(self.results)}, violated: {broken}, violations: {self.total:,})"


@dataclass(frozen=True, repr=False)
class Report(Findings):
    """How data stands to its rules.

    Examples
    --------
    >>> import holdstrue, pyarrow as pa
    >>> report = holdstrue.check(pa.table({"zip": ["1", "1", "2"], "city": ["Bonn", "Ulm", "Kiel"]}), "zip -> city")
    >>> report.ok, report.results[0].counts.pairs, list(report)
    (False, 1, [Violation(rule='zip -> city', t=0, s=1)])
    """

    _engine: Engine = field(repr=False)
    _keys: Mapping[str, tuple[str, ...]] = field(repr=False)

    @staticmethod
    def of(engine: Engine, keys: Mapping[str, tuple[str, ...]], limit: int | None, notes: Iterable[str] = ()) -> Report:
        """The report of an engine as it stands."""
        views = Views(engine, dict(keys))
        results = tuple(views.result(i, rule) for i, rule in enumerate(engine.plan.rules))
        rows = {name: table.rows.living for name, table in engine.tables.items()}
        return Report(results, rows, limit, engine, dict(keys), notes=tuple(notes))

    def __iter__(self) -> Iterator[Violation]:
        """All violations, made as they are read; `listed` stops at the report's limit."""
        return self.violations()

    def listed(self) -> Iterator[Violation]:
        """The violations that are written out: the first ones, up to the report's limit."""
        return self.violations(limit=self.limit)

    def key_columns(self, rule: Rule) -> tuple[str, ...]:
        """The columns that name the rows of a rule's table; none where rows are numbered."""
        return self._keys.get(table_of(rule, self._engine.plan.main), ())

    def violations(self, rule: str | None = None, *, limit: int | None = None) -> Iterator[Violation]:
        """Violations by key, of one rule or of all, made as they are read."""
        rules = [result.rule for result in self.results]
        known_rule(rules, rule)
        return self._views().violations(numbers_of(rules, rule), limit)

    def groups(self, rule: str, *, limit: int | None = None) -> Iterator[Group]:
        """Violating groups of a key, FD or CFD."""
        rules = [result.rule for result in self.results]
        known_rule(rules, rule)
        return self._views().groups(numbers_of(rules, rule)[0], limit)

    def examples(self, result: RuleResult, limit: int) -> list[tuple[Violation, list[dict[str, Any]]]]:
        """The first violations of a rule, each with its rows' key and the columns the rule reads."""
        table = table_of(result.rule, self._engine.plan.main)
        columns = list(dict.fromkeys((*self._keys.get(table, ()), *own_columns(result.rule))))
        rows = self._engine.tables[table].rows
        views = self._views()
        found: list[tuple[Violation, list[dict[str, Any]]]] = []
        number = [r.rule.name for r in self.results].index(result.rule.name)
        for detector in self._engine.detectors:
            if detector.check.rule != number or len(found) >= limit:
                continue
            for slots in gathered(detector.violations(), limit - len(found)):
                ordered, violations = views.name(detector, slots)
                values = python_rows(rows.take(ordered.reshape(-1), columns))
                width = detector.check.width
                found.extend((v, values[i * width : (i + 1) * width]) for i, v in enumerate(violations))
        return found

    def explain(self) -> str:
        """Which checks and indexes served the rules, and why."""
        return explain(self._engine.plan, self._engine.explain())

    def _views(self) -> Views:
        return Views(self._engine, dict(self._keys))


def _column(values: list[Any]) -> pa.Array:
    return pa.array([str(list(v)) for v in values] if any(isinstance(v, tuple) for v in values) else values)
