"""An engine read for people: counts, and violations and groups by key, as far as somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from holdstrue.data.buffers import python_rows
from holdstrue.detect.clock import Clock
from holdstrue.detect.delta import Key, Offender, RuleCounts, RuleResult, Step, Violation, pair_violations, shares
from holdstrue.detect.detector import Detector, Outcome
from holdstrue.detect.engine import Engine
from holdstrue.monitor.reading import Guard, Item
from holdstrue.plan.checks import GroupCheck, PairCheck
from holdstrue.rules.model import Rule
from holdstrue.typing import I32

NAMED_AT_ONCE = 8192
"""Violations that are named at a time, while nobody changes the rows: some 15 ms."""

GROUP_SIZE = 50
"""What a group counts beside its rows when it is drawn before a batch (see `MOST_DRAWN`): drawing one takes 12 us, so
that a batch waits for no more than a quarter of a second."""

SlotList: TypeAlias = tuple[Detector, I32]
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

    def __init__(
        self, engine: Engine, keys: Mapping[str, tuple[str, ...]], guard: Guard, clock: Clock | None = None
    ) -> None:
        self._engine = engine
        self._keys = keys
        self._guard = guard
        self._clock = clock
        """By which rules are judged; None for the engine's own."""

    def _of(self, rule: int) -> list[Detector]:
        own = [self._engine.detectors[at] for at in self._engine.by_rule[rule]]
        return own if self._clock is None else [detector.at(self._clock) for detector in own]

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
        status = status_of(rule, counts, table.rows.there)
        return RuleResult(rule, rule.text, counts, status, measured=self._of(number)[0].measured())

    def violations(self, rules: Sequence[int], limit: int | None) -> Iterator[Violation]:
        """Violations rule by rule, by key."""
        return self.named(self.listed(rules, limit))

    def named(self, parts: Iterator[SlotList]) -> Iterator[Violation]:
        """Violations by key, as the parts are read."""
        return self._guard.listed(parts, lambda part: part[1].shape[0], lambda part: self.name(*part)[1])

    def listed(self, rules: Sequence[int], limit: int | None) -> Iterator[SlotList]:
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
        if detector.check.width == 0:
            return slots, [Violation(rule, None)] * slots.shape[0]
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
        return slots, pair_violations(rule, pairs)

    def named_few(self, detector: Detector, slots: I32) -> list[Violation]:
        """As `name`, of a few violations whose slots nobody needs in another order."""
        check = detector.check
        if check.width != 2:
            return self.name(detector, slots)[1]
        rule, keys = self._engine.plan.rules.rules[check.rule].name, self.keys(check.table, slots.reshape(-1))
        pairs = list(zip(keys[::2], keys[1::2], strict=True))
        return pair_violations(rule, _smaller_first(pairs) if check.symmetric else pairs)

    def keys(self, table: str, slots: I32) -> list[Key]:
        """Keys of row versions; their numbers where the table has no key."""
        names = self._keys.get(table, ())
        if not names:
            origin = self._engine.tables[table].rows.origin
            return [int(number) for number in (slots if origin is None else origin[slots])]
        columns = [self._engine.tables[table].rows.values_of(slots, name) for name in names]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def changed(self, outcomes: list[Outcome], limit: int) -> tuple[tuple[Violation, ...], tuple[Violation, ...]]:
        """Added and removed violations of a batch, each up to the limit, of which every rule has its share."""
        both: list[tuple[Violation, ...]] = []
        for lists in ([o.added_list for o in outcomes], [o.removed_list for o in outcomes]):
            found: list[Violation] = []
            most = shares([slots.shape[0] for slots in lists], limit)
            for detector, slots, own in zip(self._engine.detectors, lists, most, strict=True):
                if own:
                    found.extend(self.name(detector, slots[:own])[1])
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

    def measured(self, steps: Mapping[str, Step]) -> dict[str, str]:
        """By rule about a whole table that a batch changed what is measured, in words. Complexity: O(rules)."""
        rules = enumerate(self._engine.plan.rules)
        changed = {rule.name: number for number, rule in rules if steps[rule.name].added or steps[rule.name].removed}
        told = {rule: self._of(number)[0].measured() for rule, number in changed.items()}
        return {rule: words for rule, words in told.items() if words is not None}

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
            lambda conflict: GROUP_SIZE + sum(side.size for side in conflict[1]),
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

    def of_row(self, table: str, slot: int, limit: int) -> Iterator[tuple[Rule, Violation, list[dict[str, Any]]]]:
        """The violations that one row is in, up to a limit of each rule, with the rows: key and what the rule reads.

        Complexity: O(rules and violations of the row).
        """
        rows = self._engine.tables[table].rows
        left = [limit] * len(self._engine.by_rule)
        for detector in self._engine.detectors:
            number, width = detector.check.rule, detector.check.width
            if detector.check.table == table and left[number]:
                slots, violations = self.name(detector, detector.violations_of(slot)[: left[number]])
                left[number] -= len(violations)
                rule = self._engine.plan.rules.rules[number]
                columns = list(dict.fromkeys((*self._keys.get(table, ()), *rule.columns)))
                values = python_rows(rows.take(slots.reshape(-1), columns))
                yield from ((rule, v, values[i * width : (i + 1) * width]) for i, v in enumerate(violations))

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


def _smaller_first(pairs: list[tuple[Key, Key]]) -> list[tuple[Key, Key]]:
    """Pairs of keys with the smaller one first."""
    try:
        return [(a, b) if a <= b else (b, a) for a, b in pairs]
    except TypeError:
        return [(a, b) if in_order(a, b) else (b, a) for a, b in pairs]


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
