"""Everything a report page shows, as plain data: how each rule stands, over time, and the rows behind it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdstrue.detect.delta import Batched, Offender, RuleResult, Violation
from holdstrue.discovery.suspects.answer import Suspects
from holdstrue.monitor.report import Report
from holdstrue.report.answers import offender_dict
from holdstrue.report.lookup import ConflictingGroup, groups_of
from holdstrue.report.typeset import key_word, shorten, word
from holdstrue.rules.model import DC, Rule
from holdstrue.state.moment import Moment

if TYPE_CHECKING:
    from holdstrue.monitor.monitor import Monitor

LISTED = 200
"""Violations or groups of each rule that a page lists unless told."""
MOST_CHARACTERS = 2_000_000
"""Of the lists of all rules together: what people look at, and a file that can be mailed. Counts are never cut."""
LONGEST_VALUE = 300
"""Characters of a value that are shown."""
WORST = 25
"""Rows in most violations that a page names."""
KEYS = 12
"""Rows of each side of a group that are named."""
SUSPECTED = 200
"""Suspects that a page names, the surest first."""
POINTS = 240
"""Points of a line over time; of more batches several are drawn as one. About two to a pixel's width on a phone."""


@dataclass(frozen=True)
class Overview:
    """How data stands to its rules, in one page."""

    title: str
    report: Report | None
    """None before any data."""
    history: Sequence[Batched] = ()
    worst: Sequence[tuple[str, Offender]] = ()
    """Rows in most violations, each with its table."""
    plan: Sequence[str] = ()
    moment: Moment | None = None
    """Which version of a state it is, if it is of a state."""
    limit: int = LISTED
    discovered: Mapping[str, Any] | None = None
    """What a discovery says of the data, if one was asked (see `discovered_dict`)."""
    suspects: Mapping[str, Suspects] | None = None
    """By table the cells that are probably wrong, if somebody asked for them."""
    made: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))

    @staticmethod
    def of_state(monitor: Monitor, history: Sequence[Batched], title: str, limit: int = LISTED) -> Overview:
        """That of a monitor that was opened to be read, with the history that its state has."""
        found = monitor.report(limit=limit) if any(monitor.rows.values()) else None
        plan = () if found is None else found.explain().splitlines()
        return Overview(title, found, tuple(history), worst_of(found), plan, monitor.moment, limit)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        results = () if self.report is None else self.report.results
        room = [MOST_CHARACTERS]
        rules = [self._rule(result, room) for result in results]
        return {
            "title": self.title,
            "made": self.made.isoformat(timespec="seconds"),
            **({} if self.moment is None else self.moment.to_dict()),
            "tables": {} if self.report is None else dict(self.report.rows),
            "open": sum(rule["open"] for rule in rules),
            "rules": rules,
            "columns": columns_of(results, "" if self.report is None else self.report._engine.plan.main),
            "worst": [
                {**offender_dict(offender), "table": table, "key": short_key(offender.key)}
                for table, offender in self.worst
            ],
            "history": over_time(self.history),
            "plan": list(self.plan),
            "memory": memory_of(self.report),
            "accepted": [] if self.report is None else [entry.to_dict() for entry in self.report.accepted],
            "discovered": self.discovered,
            "suspects": None if self.suspects is None else suspected(self.suspects),
            "notes": [] if self.report is None else list(self.report.notes),
        }

    def _rule(self, result: RuleResult, room: list[int]) -> dict[str, Any]:
        """A rule: counts, and its list as far as there is room."""
        if self.report is None:
            raise RuntimeError("there is nothing to show")
        counts, rule = result.counts, result.rule
        grouped = bool(counts.groups)
        table = rule.own_table or self.report._engine.plan.main
        listed = []
        for entry in self._listed(result, grouped):
            room[0] -= _length(entry)
            if room[0] < 0:
                break
            listed.append(entry)
        return {
            **result.to_dict(),
            "description": rule.description or "",
            "table": table,
            "of": self.report.rows.get(table, 0),
            "open": counts.open,
            "rows": counts.rows,
            "groups": counts.groups,
            "denial": isinstance(rule.body, DC),
            "keys": list(self.report.key_columns(rule)),
            "columns": list(rule.columns),
            "list": "groups" if grouped else "violations",
            "new": result.new,
            # of groups that are accepted as a whole nobody counts how many there are
            "of_list": None
            if grouped and result.accepted
            else counts.groups
            if grouped
            else 0
            if result.measured
            else result.new,
            "listed": listed,
        }

    def _listed(self, result: RuleResult, grouped: bool) -> Iterator[dict[str, Any]]:
        if self.report is None or not result.new or not self.limit or result.measured is not None:
            return
        if grouped:
            for group in groups_of(self.report, result, limit=self.limit, keys=KEYS):
                yield _group(group)
            return
        for violation, rows, degrees in self.report.weighed(result, self.limit):
            yield {**shown_violation(result.rule, violation, rows), "likely": likely(degrees)}


def suspected(found: Mapping[str, Suspects]) -> dict[str, Any]:
    """The surest suspects of all tables, values as they are shown."""
    every = [(table, suspect) for table, own in found.items() for suspect in own]
    every.sort(key=lambda pair: -pair[1].confidence)
    return {
        "of": len(every),
        "cells": [
            {
                "table": table,
                "row": short_key(suspect.key),
                "column": suspect.column,
                "value": shorten(word(suspect.value), LONGEST_VALUE),
                "proposed": None if suspect.proposed is None else shorten(word(suspect.proposed), LONGEST_VALUE),
                "confidence": round(suspect.confidence, 2),
                "why": list(suspect.why),
            }
            for table, suspect in every[:SUSPECTED]
        ],
        "notes": [note for own in found.values() for note in own.notes],
    }


def worst_of(report: Report | None) -> tuple[tuple[str, Offender], ...]:
    """The rows in most violations, of whatever table, worst first. Complexity: O(violating rows)."""
    if report is None:
        return ()
    with report.reading() as views:
        found = [(table, one) for table in report.rows for one in views.offenders(table, WORST)]
    return tuple(sorted(found, key=lambda one: -one[1].total)[:WORST])


def memory_of(report: Report | None) -> list[dict[str, Any]]:
    """What is held in memory for the rules, the largest part first: rows and groups, which rules share, and checks."""
    if report is None:
        return []
    with report.reading():
        engine = report._engine
        sizes = engine.size_bytes()
    names = {f"check {at}": check.rule for at, check in enumerate(engine.plan.checks)}
    found: dict[str, int] = {}
    for part, size in sizes.items():
        what = part if part not in names else f"check of {engine.plan.rules.rules[names[part]].name}"
        found[what] = found.get(what, 0) + size
    return [{"what": what, "bytes": size} for what, size in sorted(found.items(), key=lambda one: -one[1])]


CLEARLY = 2
"""How many times as many violations of a rule one row of a pair must be in as the other to be called likely wrong."""


def likely(degrees: Sequence[int]) -> int | None:
    """Which row of a pair is likely the wrong one: the one that conflicts with far more rows than the other.

    >>> likely([1, 40]), likely([3, 2]), likely([1])
    (1, None, None)
    """
    if len(degrees) != 2 or max(degrees) < CLEARLY * min(degrees):
        return None
    return int(degrees[1] > degrees[0])


def shown_violation(rule: Rule, violation: Violation, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A violation with its rows, in which the cells are marked that the rule compares and that differ."""
    names = [short_key(violation.t), *([short_key(violation.s)] if violation.pair else [])] if rows else []
    pair = rows if len(rows) == 2 else None
    compared = rule.body.compared
    marked = [] if pair is None else [name for name in compared if pair[0].get(name) != pair[1].get(name)]
    cells = [{name: shown(value) for name, value in row.items()} for row in rows]
    return {"names": names, "rows": cells, "marked": marked}


def _group(group: ConflictingGroup) -> dict[str, Any]:
    """A group; sides that fewer rows say than one other are likely to be the wrong ones."""
    sides = group.sides
    clear = len(sides) > 1 and sides[0].rows > sides[1].rows
    return {
        "values": {name: shown(value) for name, value in group.values.items()},
        "rows": group.rows,
        "sides": [
            {
                "values": {name: shown(value) for name, value in side.values.items()},
                "rows": side.rows,
                "keys": [short_key(key) for key in side.keys],
                "likely": clear and at > 0,
            }
            for at, side in enumerate(sides[:KEYS])
        ],
        "more": max(0, len(sides) - KEYS),
    }


def short_key(key: Any) -> str:
    """A row's key as a page names it: keys of thousands of characters would fill it."""
    return shorten(key_word(key))


def shown(value: Any) -> str | None:
    """A value as a page shows it; None for NULL.

    >>> shown("x" * 1000)[-3:], shown(None), shown(1.5)
    ('xx…', None, '1.5')
    """
    if value is None:
        return None
    text = value if isinstance(value, str) else word(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def columns_of(results: Iterable[RuleResult], main: str = "") -> list[dict[str, Any]]:
    """How many rows are in violations of the rules that judge each column, most first.

    The columns that a rule judges are those it compares, not those by which it only groups; all of a key's.
    """
    found: dict[tuple[str, str], dict[str, int]] = {}
    for result in results:
        if result.counts.rows:
            for column in judged(result):
                found.setdefault((result.rule.own_table or main, column), {})[result.rule.name] = result.counts.rows
    rows = [
        {"table": table, "column": column, "rows": sum(by_rule.values()), "by_rule": by_rule}
        for (table, column), by_rule in found.items()
    ]
    return sorted(rows, key=lambda row: -int(str(row["rows"])))


def judged(result: RuleResult) -> tuple[str, ...]:
    """The columns that a rule compares, or all that it reads where it compares none."""
    compared = tuple(result.rule.body.compared)
    return compared or tuple(result.rule.columns)


def over_time(history: Sequence[Batched]) -> dict[str, Any] | None:
    """What batches did, rule by rule, as lines of at most `POINTS` points; None where there are none.

    >>> lines = [Batched(f"b{i}", f"2026-01-0{i}", "key(a)", added=i, removed=0, open=i) for i in (1, 2)]
    >>> over_time(lines)["rules"]
    {'key(a)': {'added': [1, 2], 'removed': [0, 0], 'open': [1, 2]}}
    """
    if not history:
        return None
    batches: dict[str, str] = {}
    for line in history:
        batches.setdefault(line.batch, line.time)
    step = -(-len(batches) // POINTS)
    place = {batch: at // step for at, batch in enumerate(batches)}
    points = place[next(reversed(batches))] + 1
    rules: dict[str, dict[str, list[int]]] = {}
    for line in history:
        at = place[line.batch]
        own = rules.setdefault(line.rule, {"added": [0] * points, "removed": [0] * points, "open": [-1] * points})
        own["added"][at] += line.added
        own["removed"][at] += line.removed
        own["open"][at] = line.open
    for own in rules.values():
        for at, count in enumerate(own["open"]):
            if count < 0:  # a rule that a batch said nothing of stands as before
                own["open"][at] = own["open"][at - 1] if at else 0
    named = list(batches.items())
    ends = [named[min((at + 1) * step, len(named)) - 1] for at in range(points)]
    return {"batches": len(batches), "each": step, "names": [n for n, _ in ends], "times": [t for _, t in ends]} | {
        "rules": rules
    }


def _length(entry: Any) -> int:
    """About how many characters plain data takes."""
    if isinstance(entry, Mapping):
        return 2 + sum(len(str(name)) + 4 + _length(value) for name, value in entry.items())
    if isinstance(entry, list):
        return 2 + sum(1 + _length(value) for value in entry)
    return 2 + len(str(entry))
