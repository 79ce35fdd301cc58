"""Which violations are asked for: by rule, severity, column, key and time; listed page by page, or written whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from holdstrue.detect.delta import Key, RuleResult, Violation
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.answers import NoRowError
from holdstrue.report.overview import judged, shown_violation
from holdstrue.rules.model import Rule
from holdstrue.serve.watched import OpenVersion

FURTHEST = 1_000_000
"""Violations that are skipped at most to get to a page: half a second. Downloads have what lies further."""
MOST_COMPARED = 200_000
"""Violations of a rule that are held at once to tell which are new: 60 MB. Beyond that only counts are compared."""


@dataclass(frozen=True)
class Wanted:
    """What is asked of the violations of a version; None asks nothing."""

    rule: str | None = None
    severity: str | None = None
    column: str | None = None
    key: str | None = None
    table: str | None = None
    """The table of the key, the main one unless told."""

    def results(self, opened: OpenVersion) -> list[RuleResult]:
        """The rules that are asked for, with their counts."""
        known = opened.results
        names = [result.rule.name for result in known]
        if self.rule is not None and self.rule not in names:
            raise HoldstrueError(f"no rule called {self.rule!r}", hint=f"the rules are {', '.join(names)}")
        if self.severity not in (None, "error", "warn"):
            raise HoldstrueError(f"severity is {self.severity!r}", hint="one of error, warn")
        columns = sorted({column for result in known for column in (*result.rule.columns, *judged(result))})
        if self.column is not None and self.column not in columns:
            raise HoldstrueError(f"no rule reads a column {self.column!r}", hint=f"they read {', '.join(columns)}")
        return [
            result
            for result in known
            if self.rule in (None, result.rule.name)
            and self.severity in (None, result.rule.severity)
            and (self.column is None or self.column in result.rule.columns)
        ]

    def total(self, opened: OpenVersion) -> int:
        """How many violations are asked for. Complexity: O(rules), with a key O(the violations of its row)."""
        results = self.results(opened)
        if self.key is None:
            return sum(result.new for result in results)
        table, key = key_of(opened, self.key, self.table)
        names = {result.rule.name for result in results}
        total = sum(count for rule, count in opened.monitor.row(key, table=table).items() if rule in names)
        if opened.accepted:
            every = opened.monitor.violations_of(key, table=table, limit=MOST_COMPARED)
            total -= sum(rule.name in names and opened.known(violation) for rule, violation, _ in every)
        return total

    def page(self, opened: OpenVersion, skip: int, limit: int) -> list[dict[str, Any]]:
        """Some of the violations with their rows. Complexity: O(skip + limit)."""
        if skip > FURTHEST:
            raise HoldstrueError(
                f"offset is {skip:,}", hint=f"up to {FURTHEST:,}; download the list, or ask for a rule"
            )
        return [
            {**violation.to_dict(), **shown_violation(rule, violation, rows), "severity": rule.severity}
            for rule, violation, rows in self._listed(opened, skip, limit)
        ]

    def _listed(
        self, opened: OpenVersion, skip: int, limit: int
    ) -> Iterator[tuple[Rule, Violation, list[dict[str, Any]]]]:
        results = self.results(opened)
        if self.key is not None:
            table, key = key_of(opened, self.key, self.table)
            names = {result.rule.name for result in results}
            most = MOST_COMPARED if opened.accepted else skip + limit
            found = opened.monitor.violations_of(key, table=table, limit=most)
            new = (one for one in found if one[0].name in names and not opened.known(one[1]))
            yield from islice(new, skip, skip + limit)
            return
        for result in results:
            if opened.report is None or limit <= 0:
                return
            if skip >= result.new:
                skip -= result.new
                continue
            for violation, rows in opened.report.examples(result, limit, skip):
                yield result.rule, violation, rows
                limit -= 1
            skip = 0

    def violations(self, opened: OpenVersion, limit: int) -> Iterator[Violation]:
        """The violations alone, made as they are read."""
        if self.key is not None:
            yield from (violation for _, violation, _ in self._listed(opened, 0, limit))
            return
        for result in self.results(opened):
            if opened.report is not None and limit > 0:
                yield from opened.report.violations(result.rule.name, limit=limit)
                limit -= result.new


@dataclass(frozen=True)
class NewSince:
    """The violations of a version that an earlier one did not have."""

    selection: Wanted
    earlier: OpenVersion

    def violations(self, opened: OpenVersion, limit: int) -> Iterator[Violation]:
        """Rule by rule, as far as both versions have no more than can be held."""
        for result in self.selection.results(opened):
            own = Wanted(result.rule.name, key=self.selection.key, table=self.selection.table)
            if own.key is None:
                held(result, self.earlier)
            before: set[Violation] = set()
            with suppress(NoRowError):  # a row that was not there had no violations
                before = set(own.violations(self.earlier, MOST_COMPARED))
            for violation in own.violations(opened, MOST_COMPARED):
                if violation not in before and limit > 0:
                    limit -= 1
                    yield violation


def held(result: RuleResult, other: OpenVersion) -> None:
    """Refuse a rule with more violations than can be held to be compared."""
    name = result.rule.name
    before = other.facts.counts.get(name)
    most = max(result.counts.open, 0 if before is None else before.open)  # accepted ones are looked at, too
    if most > MOST_COMPARED:
        raise HoldstrueError(
            f"rule {name!r} has {most:,} violations, too many to tell one by one which are new",
            hint=f"ask for rules with up to {MOST_COMPARED:,}; counts are compared for all",
        )


def key_of(opened: OpenVersion, text: str, table: str | None = None) -> tuple[str, Key]:
    """The key that a text means: a value, or for several columns a JSON list of them.

    Values are read as what the key columns hold.
    """
    facts = opened.facts
    name = facts.known_table(table or facts.main)
    fields = [facts.schemas[name].field(column) for column in facts.keys[name]] if name in facts.schemas else []
    if not fields:
        raise HoldstrueError(f"table {name!r} has no rows yet", hint="apply a first batch")
    wanted = ", ".join(f"{field.name} ({field.type})" for field in fields)
    if len(fields) == 1:
        return name, _typed(text, fields[0].type, name, wanted)
    try:
        parts = json.loads(text)
    except ValueError as error:
        raise HoldstrueError(
            f"{text!r} is no key of {name!r}, which is {wanted}", hint='write the values as a JSON list: ["a", 1]'
        ) from error
    if not isinstance(parts, list) or len(parts) != len(fields):
        raise HoldstrueError(f"{text!r} is no key of {name!r}", hint=f"write a JSON list of {wanted}")
    return name, tuple(_typed(part, field.type, name, wanted) for part, field in zip(parts, fields, strict=True))


def _typed(value: Any, type_: pa.DataType, table: str, wanted: str) -> Key:
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        return pa.array([text], pa.string()).cast(type_)[0].as_py()
    except (pa.ArrowException, ValueError) as error:
        raise HoldstrueError(f"{text!r} is no key of {table!r}", hint=f"its key is {wanted}") from error


def rules_of(results: Sequence[RuleResult]) -> list[dict[str, Any]]:
    """Rules with their counts as plain JSON data."""
    return [result.to_dict() | {"open": result.new, "columns": list(result.rule.columns)} for result in results]
