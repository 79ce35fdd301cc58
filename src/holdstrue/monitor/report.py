"""How each rule stands, and the violations themselves as far as they are asked for: an engine read for people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import python_rows
from holdstrue.detect.delta import Key, Offender, RuleCounts, RuleResult, Step, Violation
from holdstrue.detect.detector import Detector, Outcome
from holdstrue.detect.engine import Engine
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.reading import MOST_DRAWN, Guard, Item
from holdstrue.plan.checks import GroupCheck, PairCheck
from holdstrue.plan.explain import explain
from holdstrue.rules.model import Rule
from holdstrue.typing import I32

NAMED_AT_ONCE = 8192
"""Violations that are named at a time, while nobody changes the rows: some 15 ms."""

Listed: TypeAlias = tuple[Detector, I32]
"""Some violations of a check by slot."""

Conflict: TypeAlias = tuple[GroupCheck | PairCheck, list[I32]]
"""A violating group: the slots of each right side."""


@dataclass(frozen=True)
class Group:
    """Rows that agree on a rule's left side and differ on its right: one set of keys a right-hand value."""

    rule: str
    values: dict[str, Any]
    sides: tuple[tuple[Key, ...], ...]
    right: tuple[dict[str, Any], ...] = ()
    """The right-hand values of each side."""


class Views:
    """What can be asked of an engine; every answer is exact and lists are made only as far as they are read.

    The lists hold the guard while they make a part; for all else the caller does.
    """

    def __init__(self, engine: Engine, keys: Mapping[str, tuple[str, ...]], guard: Guard) -> None:
        self._engine = engine
        self._keys = keys
        self._guard = guard

    def _of(self, rule: int) -> list[Detector]:
        return [self._engine.detectors[at] for at in self._engine.by_rule[rule]]

    def counts(self, rule: int) -> RuleCounts:
        """How a rule stands. Complexity: O(1); O(violating rows) for a CFD with violations of both kinds."""
        detectors = self._of(rule)
        if len(detectors) == 1:
            [only] = detectors
            return RuleCounts(only.rows, only.pairs, only.groups, only.open)
        rows = sum(detector.rows for detector in detectors)
        if sum(detector.rows > 0 for detector in detectors) > 1:
            rows = np.unique(np.concatenate([detector.violating() for detector in detectors])).size
        pairs = sum(detector.pairs for detector in detectors)
        groups = sum(detector.groups for detector in detectors)
        return RuleCounts(rows, pairs, groups, sum(detector.open for detector in detectors))

    def result(self, number: int, rule: Rule) -> RuleResult:
        """A rule with its counts and status."""
        counts = self.counts(number)
        table = self._engine.tables[rule.own_table or self._engine.plan.main]
        return RuleResult(rule, rule.text, counts, status_of(rule, counts, table.rows.living))

    def violations(self, rules: Sequence[int], limit: int | None) -> Iterator[Violation]:
        """Violations rule by rule, by key."""
        return self.named(self.listed(rules, limit))

    def named(self, parts: Iterator[Listed]) -> Iterator[Violation]:
        """Violations by key, as the parts are read."""
        return self._guard.listed(parts, lambda part: part[1].shape[0], lambda part: self.name(*part)[1])

    def listed(self, rules: Sequence[int], limit: int | None) -> Iterator[Listed]:
        """Violations rule by rule, by slot, some thousand at a time."""
        left = limit
        for number in rules if limit != 0 else ():
            for detector in self._of(number):
                for slots in gathered(detector.violations(), left):
                    yield detector, slots
                    if left is not None:
                        left -= slots.shape[0]
                if left is not None and left <= 0:
                    return

    def name(self, detector: Detector, slots: I32) -> tuple[I32, list[Violation]]:
        """Violations by slot into violations by key, and the slots in the order of their keys."""
        rule = self._engine.plan.rules.rules[detector.check.rule].name
        table = detector.check.table
        keys = self.keys(table, slots.reshape(-1))
        if detector.check.width == 1:
            return slots, [Violation(rule, key) for key in keys]
        t, s = keys[::2], keys[1::2]
        if detector.check.symmetric:
            swap = np.array([not in_order(a, b) for a, b in zip(t, s, strict=True)], dtype=np.bool_)
            slots = np.where(swap[:, None], slots[:, ::-1], slots)
            pairs = [(b, a) if turn else (a, b) for a, b, turn in zip(t, s, swap, strict=True)]
        else:
            pairs = list(zip(t, s, strict=True))
        return slots, [Violation(rule, a, b, pair=True) for a, b in pairs]

    def keys(self, table: str, slots: I32) -> list[Key]:
        """Keys of row versions; their numbers where the table has no key."""
        names = self._keys.get(table, ())
        if not names:
            return [int(slot) for slot in slots]
        columns = [self._engine.tables[table].rows.values_of(slots, name) for name in names]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def changed(self, outcomes: list[Outcome], limit: int) -> tuple[tuple[Violation, ...], tuple[Violation, ...]]:
        """Added and removed violations of a batch, each up to the limit."""
        both: list[tuple[Violation, ...]] = []
        for lists in ([o.added_list for o in outcomes], [o.removed_list for o in outcomes]):
            found: list[Violation] = []
            for detector, slots in zip(self._engine.detectors, lists, strict=True):
                if slots.shape[0] and len(found) < limit:
                    found.extend(self.name(detector, slots[: limit - len(found)])[1])
            both.append(tuple(found))
        return both[0], both[1]

    def steps(self, outcomes: list[Outcome]) -> dict[str, Step]:
        """Counts of a batch by rule."""
        steps = {}
        for number, rule in enumerate(self._engine.plan.rules):
            own = [outcomes[at] for at in self._engine.by_rule[number]]
            still = sum(detector.open for detector in self._of(number))
            steps[rule.name] = Step(sum(o.added for o in own), sum(o.removed for o in own), still)
        return steps

    def groups(self, rule: int, limit: int | None) -> Iterator[Group]:
        """Violating groups of a key, FD or CFD."""
        name = self._engine.plan.rules.rules[rule].name
        return self.grouped(rule, limit, lambda check, sides: self._group(name, check, sides))

    def _group(self, rule: str, check: GroupCheck | PairCheck, sides: list[I32]) -> Group:
        rows = self._engine.tables[check.table].rows
        firsts = python_rows(rows.take(np.array([side[0] for side in sides]), (*check.lhs, *check.rhs)))
        values = {column: firsts[0][column] for column in check.lhs}
        right = [{column: row[column] for column in check.rhs} for row in firsts] if check.rhs else []
        return Group(rule, values, tuple(tuple(self.keys(check.table, side)) for side in sides), tuple(right))

    def grouped(
        self, rule: int, limit: int | None, made: Callable[[GroupCheck | PairCheck, list[I32]], Item]
    ) -> Iterator[Item]:
        """What is made of each violating group of a key, FD or CFD, as the groups are read."""
        return self._guard.listed(
            self._conflicts(rule, limit),
            lambda conflict: sum(side.size for side in conflict[1]),
            lambda conflict: [made(*conflict)],
        )

    def _conflicts(self, rule: int, limit: int | None) -> Iterator[Conflict]:
        left = limit
        for detector in self._of(rule):
            if isinstance(detector.check, GroupCheck | PairCheck) and detector.check.grouped:
                groups = detector.violating_groups()[:left]
                yield from ((detector.check, detector.conflicting(int(group))) for group in groups)
                left = None if left is None else left - len(groups)

    def by_rule(self, table: str, slot: int) -> dict[str, int]:
        """Violations of one row, by rule; rules it does not violate are left out. Complexity: O(rules)."""
        found: dict[str, int] = {}
        for detector in self._engine.detectors:
            if detector.check.table == table:
                degree = int(detector.degrees(np.array([slot], dtype=np.int32))[0])
                if degree:
                    rule = self._engine.plan.rules.rules[detector.check.rule].name
                    found[rule] = found.get(rule, 0) + degree
        return found

    def offenders(self, table: str, limit: int) -> list[Offender]:
        """The rows in most violations, worst first. Complexity: O(violating rows)."""
        own = [detector for detector in self._engine.detectors if detector.check.table == table]
        found = [detector.violating() for detector in own]
        slots = np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int32)
        total = np.zeros(slots.size, dtype=np.int64)
        for detector in own:
            total += detector.degrees(slots)
        worst = np.lexsort((slots, -total))[:limit]
        keys = self.keys(table, slots[worst])
        return [
            Offender(key, int(total[at]), self.by_rule(table, int(slots[at])))
            for key, at in zip(keys, worst, strict=True)
        ]


def gathered(chunks: Iterator[I32], limit: int | None) -> Iterator[I32]:
    """The same violations in chunks of some thousand, up to a limit: naming many at once is cheap."""
    left = 2**62 if limit is None else limit
    waiting: list[I32] = []
    size = 0
    for chunk in chunks:
        waiting.append(chunk[:left])
        size += waiting[-1].shape[0]
        left -= waiting[-1].shape[0]
        if size >= NAMED_AT_ONCE:
            together = np.concatenate(waiting)
            whole = size - size % NAMED_AT_ONCE
            yield from (together[at : at + NAMED_AT_ONCE] for at in range(0, whole, NAMED_AT_ONCE))
            waiting, size = [together[whole:]], size - whole
        if left <= 0:
            break
    if size:
        yield np.concatenate(waiting)


def _upto(parts: Iterable[Listed], limit: int | None) -> Iterator[Listed]:
    """The first violations of some parts."""
    left = 2**62 if limit is None else limit
    for detector, slots in parts:
        if left <= 0:
            return
        yield detector, slots[:left]
        left -= slots.shape[0]


def in_order(a: Key, b: Key) -> bool:
    """Whether a is the smaller key; keys that do not compare are ordered by their text."""
    try:
        return bool(a <= b)
    except TypeError:
        return str(a) <= str(b)


def status_of(rule: Rule, counts: RuleCounts, rows: int) -> str:
    """`ok`, `violated`, or `tolerated` when the violating rows stay within the rule's tolerance."""
    if counts.open == 0:
        return "ok"
    tolerance = rule.tolerance
    if tolerance is not None:
        allowed = tolerance.count if tolerance.count is not None else Fraction(tolerance.share or 0) * rows
        if counts.rows <= allowed:
            return "tolerated"
    return "violated"


def known_rule(rules: Iterable[Rule], name: str | None) -> None:
    """Raise when a rule is asked for that there is not."""
    names = [rule.name for rule in rules]
    if name is not None and name not in names:
        raise HoldstrueError(f"no rule called {name!r}", hint=f"the rules are {', '.join(names)}")


def numbers_of(rules: Iterable[Rule], name: str | None) -> list[int]:
    """Positions of all rules, or of the one with this name."""
    return [i for i, rule in enumerate(rules) if name is None or rule.name == name]


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


class FirstViolations:
    """The violations that a report lists, by slot, once a batch has changed the engine that they were read from."""

    def __init__(self, views: Views, rules: int, limit: int | None) -> None:
        self._views = views
        self._rules = rules
        self._limit = limit
        self.drawn: list[Listed] | None = None
        """None as long as the engine is as it was."""

    def draw(self) -> None:
        """Take them into memory."""
        self.drawn = []  # nothing, should this end half-way
        self.drawn = list(self._views.listed(range(self._rules), MOST_DRAWN if self._limit is None else self._limit))

    def of(self, rules: Sequence[int]) -> list[Listed]:
        """Those of some rules."""
        return [part for part in self.drawn or () if part[0].check.rule in rules]


@dataclass(frozen=True, repr=False)
class Report(Findings):
    """How data stands to its rules.

    Counts are of the time when it was made. Violations and groups are read when they are asked for: once the monitor
    that made the report has applied another batch, the report still has the violations up to its limit, and says so
    where more is asked of it.

    Examples
    --------
    >>> import holdstrue, pyarrow as pa
    >>> report = holdstrue.check(pa.table({"zip": ["1", "1", "2"], "city": ["Bonn", "Ulm", "Kiel"]}), "zip -> city")
    >>> report.ok, report.results[0].counts.pairs, list(report)
    (False, 1, [Violation(rule='zip -> city', t=0, s=1)])
    """

    _engine: Engine = field(repr=False)
    _keys: Mapping[str, tuple[str, ...]] = field(repr=False)
    _guard: Guard = field(repr=False, compare=False)
    _first: FirstViolations = field(repr=False, compare=False)

    @staticmethod
    def of(
        engine: Engine,
        keys: Mapping[str, tuple[str, ...]],
        limit: int | None,
        notes: Iterable[str] = (),
        guard: Guard | None = None,
    ) -> Report:
        """The report of an engine as it stands; `guard` is that of those who change it."""
        guard = guard or Guard()
        with guard:
            views = Views(engine, dict(keys), guard)
            results = tuple(views.result(i, rule) for i, rule in enumerate(engine.plan.rules))
            rows = {name: table.rows.living for name, table in engine.tables.items()}
            first = FirstViolations(views, len(results), limit)
            guard.add(first)
        return Report(results, rows, limit, engine, dict(keys), guard, first, notes=tuple(notes))

    def __iter__(self) -> Iterator[Violation]:
        """All violations, made as they are read; `listed` stops at the report's limit."""
        return self.violations()

    def listed(self) -> Iterator[Violation]:
        """The violations that are written out: the first ones, up to the report's limit."""
        return self.violations(limit=self.limit)

    def key_columns(self, rule: Rule) -> tuple[str, ...]:
        """The columns that name the rows of a rule's table; none where rows are numbered."""
        return self._keys.get(rule.own_table or self._engine.plan.main, ())

    def violations(self, rule: str | None = None, *, limit: int | None = None) -> Iterator[Violation]:
        """Violations by key, of one rule or of all, made as they are read."""
        rules = [result.rule for result in self.results]
        known_rule(rules, rule)
        with self._guard:
            return self._views.named(self._listed(numbers_of(rules, rule), limit))

    def _listed(self, rules: Sequence[int], limit: int | None) -> Iterator[Listed]:
        """Violations by slot: from the engine, or as they were drawn before the monitor went on."""
        if self._first.drawn is None:
            return self._views.listed(rules, limit)
        drawn = self._first.of(rules)
        there, known = sum(self.results[rule].counts.open for rule in rules), sum(len(slots) for _, slots in drawn)
        if known < (there if limit is None else min(limit, there)):
            raise self._outlived(f"of the {there:,} violations that it had, the first {known:,} were kept")
        return _upto(drawn, limit)

    @property
    def _views(self) -> Views:
        return Views(self._engine, self._keys, self._guard)

    @contextmanager
    def reading(self) -> Iterator[Views]:
        """What can be asked of the report's rows, which nobody changes meanwhile.

        Raises where the monitor that made the report went on since.
        """
        with self._guard:
            if self._first.drawn is not None:
                raise self._outlived("its rows are no longer there")
            yield self._views

    @staticmethod
    def _outlived(what: str) -> HoldstrueError:
        return HoldstrueError(
            f"the monitor applied a batch since this report was made: {what}",
            hint="make the report anew with monitor.report(), or read it before the next batch",
        )

    def groups(self, rule: str, *, limit: int | None = None) -> Iterator[Group]:
        """Violating groups of a key, FD or CFD."""
        rules = [result.rule for result in self.results]
        known_rule(rules, rule)
        with self.reading() as views:
            return views.groups(numbers_of(rules, rule)[0], limit)

    def examples(self, result: RuleResult, limit: int) -> list[tuple[Violation, list[dict[str, Any]]]]:
        """The first violations of a rule, each with its rows' key and the columns the rule reads."""
        table = result.rule.own_table or self._engine.plan.main
        columns = list(dict.fromkeys((*self._keys.get(table, ()), *result.rule.columns)))
        rows = self._engine.tables[table].rows
        found: list[tuple[Violation, list[dict[str, Any]]]] = []
        number = [r.rule.name for r in self.results].index(result.rule.name)
        with self._guard:
            for detector, slots in self._listed([number], limit):
                ordered, violations = self._views.name(detector, slots)
                values = python_rows(rows.take(ordered.reshape(-1), columns))
                width = detector.check.width
                found.extend((v, values[i * width : (i + 1) * width]) for i, v in enumerate(violations))
        return found

    def explain(self) -> str:
        """Which checks and indexes served the rules, and why."""
        with self.reading():
            return explain(self._engine.plan, self._engine.explain())


def _column(values: list[Any]) -> pa.Array:
    return pa.array([str(list(v)) for v in values] if any(isinstance(v, tuple) for v in values) else values)
