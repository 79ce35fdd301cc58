"""How each rule stands, and the violations themselves as far as they are asked for: an engine read for people."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from holdstrue.data.buffers import python_rows
from holdstrue.detect.clock import Clock
from holdstrue.detect.delta import RuleResult, Violation
from holdstrue.detect.engine import Engine
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.known import AcceptedEntry, KnownViolations, is_known
from holdstrue.monitor.reading import MOST_DRAWN, Guard
from holdstrue.monitor.views import Group, SlotList, Views
from holdstrue.plan.explain import explain
from holdstrue.rules.model import Rule
from holdstrue.tabular import PlanText, Tabular, key_array


def _upto(parts: Iterable[SlotList], limit: int | None) -> Iterator[SlotList]:
    """The first violations of some parts."""
    left = 2**62 if limit is None else limit
    for detector, slots in parts:
        if left <= 0:
            return
        yield detector, slots[:left]
        left -= slots.shape[0]


def known_rule(rules: Iterable[Rule], name: str | None) -> None:
    """Raise when a rule is asked for that there is not."""
    names = [rule.name for rule in rules]
    if name is not None and name not in names:
        raise HoldstrueError(f"no rule called {name!r}", hint=f"the rules are {', '.join(names)}")


def numbers_of(rules: Iterable[Rule], name: str | None) -> list[int]:
    """Positions of all rules, or of the one with this name."""
    return [i for i, rule in enumerate(rules) if name is None or rule.name == name]


@dataclass(frozen=True)
class Findings(Tabular):
    """How data stands to its rules, wherever it was checked: exact counts, and as many violations as are listed."""

    results: tuple[RuleResult, ...]
    rows: Mapping[str, int]
    limit: int | None
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    """What there is to know about how the data was read."""
    accepted: tuple[AcceptedEntry, ...] = field(default=(), kw_only=True)
    """What is accepted: such violations are counted, and not listed."""

    @property
    def ok(self) -> bool:
        """Whether no rule of severity error is violated beyond its tolerance."""
        return not any(r.status == "violated" and r.rule.severity == "error" for r in self.results)

    @property
    def total(self) -> int:
        """Violations in all."""
        return sum(result.counts.open for result in self.results)

    @property
    def new(self) -> int:
        """Violations that are not accepted."""
        return sum(result.new for result in self.results)

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
            "rules": [{**result.to_dict(), "key": list(self.key_columns(result.rule))} for result in self.results],
            "violations": listed,
            "truncated": len(listed) < self.new,
            **({"accepted": [entry.to_dict() for entry in self.accepted]} if self.accepted else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    def to_arrow(self) -> pa.Table:
        """The listed violations as a table of rule, t and s (keys as text where they have several columns)."""
        violations = list(self.listed())
        return pa.table(
            {
                "rule": pa.array([v.rule for v in violations], pa.string()),
                "t": key_array([v.t for v in violations]),
                "s": key_array([v.s for v in violations]),
            }
        )

    def raise_if_violated(self) -> None:
        """Raise when a rule of severity error is violated, for use in pipelines."""
        broken = [r for r in self.results if r.status == "violated" and r.rule.severity == "error"]
        if broken:
            said = "; ".join(f"{r.rule.name}: {r.measured or f'{r.new} violations'}" for r in broken)
            raise HoldstrueError(f"{len(broken)} rules are violated: {said}")

    def __repr__(self) -> str:
        broken = sum(result.status == "violated" for result in self.results)
        return f"Report(rules: {len(self.results)}, violated: {broken}, violations: {self.total:,})"


class FirstViolations:
    """The violations that a report lists, by slot, once a batch has changed the engine that they were read from."""

    def __init__(self, views: Views, rules: int, limit: int | None) -> None:
        self._views = views
        self._rules = rules
        self._limit = limit
        self.drawn: list[SlotList] | None = None
        """None as long as the engine is as it was."""

    def draw(self) -> None:
        """Take them into memory."""
        self.drawn = []  # nothing, should this end half-way
        self.drawn = list(self._views.listed(range(self._rules), MOST_DRAWN if self._limit is None else self._limit))

    def of(self, rules: Sequence[int]) -> list[SlotList]:
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
    _clock: Clock = field(repr=False, compare=False)
    """Shows the moment of the report, whenever it is read."""
    _known: Mapping[str, KnownViolations] = field(default_factory=dict, kw_only=True)
    """By rule what is accepted."""

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
        with guard.lock:
            moment = engine.clock.moment
            clock = Clock(lambda: moment)
            views = Views(engine, dict(keys), guard, clock)
            results = tuple(views.result(i, rule) for i, rule in enumerate(engine.plan.rules))
            rows = {name: table.rows.there for name, table in engine.tables.items()}
            first = FirstViolations(views, len(results), limit)
            guard.add(first)
        return Report(results, rows, limit, engine, dict(keys), guard, first, clock, notes=tuple(notes))

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
        with self._guard.lock:
            if not self._known:
                return self._views.named(self._listed(numbers_of(rules, rule), limit))
            every = self._views.named(self._listed(numbers_of(rules, rule), None))
        return islice((violation for violation in every if not self.known(violation)), limit)

    def known(self, violation: Violation) -> bool:
        """Whether a violation is accepted."""
        return is_known(violation, self._known)

    def _listed(self, rules: Sequence[int], limit: int | None) -> Iterator[SlotList]:
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
        return Views(self._engine, self._keys, self._guard, self._clock)

    @contextmanager
    def reading(self) -> Iterator[Views]:
        """What can be asked of the report's rows, which nobody changes meanwhile.

        Raises where the monitor that made the report went on since.
        """
        with self._guard.lock:
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

    def examples(self, result: RuleResult, limit: int, skip: int = 0) -> list[tuple[Violation, list[dict[str, Any]]]]:
        """Violations of a rule after some others, each with its rows' key and the columns the rule reads.

        Complexity: O(those skipped, which are not named, and those listed).
        """
        return [(violation, rows) for violation, rows, _ in self.weighed(result, limit, skip)]

    def weighed(
        self, result: RuleResult, limit: int, skip: int = 0
    ) -> list[tuple[Violation, list[dict[str, Any]], list[int]]]:
        """As `examples`, and of each row in how many violations of the rule it is."""
        table = result.rule.own_table or self._engine.plan.main
        columns = list(dict.fromkeys((*self._keys.get(table, ()), *result.rule.columns)))
        rows = self._engine.tables[table].rows
        found: list[tuple[Violation, list[dict[str, Any]], list[int]]] = []
        number = [r.rule.name for r in self.results].index(result.rule.name)
        with self._guard.lock:
            for detector, part in self._listed([number], None if self._known else skip + limit):
                # accepted ones are told by their keys, so that there all must be named that are skipped
                slots = part if self._known else part[skip:]
                skip = skip if self._known else max(0, skip - part.shape[0])
                if not slots.shape[0]:
                    continue
                ordered, violations = self._views.name(detector, slots)
                new = [i for i, v in enumerate(violations) if not self.known(v)]
                new, skip = new[skip:][: limit - len(found)], max(0, skip - len(new))
                own = ordered[new].reshape(-1)
                values, width = python_rows(rows.take(own, columns)), detector.check.width
                degrees = detector.degrees(own).tolist()
                parts = [slice(at * width, (at + 1) * width) for at in range(len(new))]
                found.extend((violations[i], values[at], degrees[at]) for at, i in zip(parts, new, strict=True))
                if len(found) >= limit:
                    break
        return found

    def explain(self) -> PlanText:
        """Which checks and indexes served the rules, and why."""
        with self.reading():
            return PlanText(explain(self._engine.plan, self._engine.explain()))
