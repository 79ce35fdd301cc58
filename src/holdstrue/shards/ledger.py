"""What the shards of a state say, put together: counts by rule, and what a batch did to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from holdstrue.detect.delta import RuleCounts, Step
from holdstrue.detect.sequence import is_gone
from holdstrue.plan.checks import MeasureCheck
from holdstrue.plan.measures import Part, parts_of
from holdstrue.shards.facts import Facts, measure_checks
from holdstrue.shards.layout import HOME, Layout
from holdstrue.shards.routing import Route
from holdstrue.shards.wire import SUMMARY, Message, raised
from holdstrue.state.manifest import RunFile

ROWS, PAIRS, GROUPS = range(3)


def layout_of(manifest: Mapping[str, Any], facts: Facts) -> Layout:
    """How a state in shards is laid out; a ValueError where its shards are others."""
    layout = Layout.restored(manifest["sharding"], facts.plan(), facts.all_keys)
    numbers, checks = {*map(str, range(len(layout.spots)))}, {*map(str, range(len(layout.plan.checks)))}
    for number, shard in manifest.get("shards", {}).items():
        tallies = shard["tallies"]
        told = tallies.keys() <= checks and all(len(counts) == 3 for counts in tallies.values())
        for check, parts in shard.get("measures", {}).items():
            own = layout.plan.checks[int(check)] if check in checks else None
            told &= isinstance(own, MeasureCheck) and bool(parts_of(own.measures, parts))
        if number not in numbers or not told or not shard["rows"].keys() <= layout.plan.schemas.keys():
            raise ValueError(f"there is no shard {number} of such rows and rules")
    return layout


@dataclass(frozen=True)
class Settled:
    """What all tasks of a batch said."""

    shards: Mapping[str, Any]
    """By number the shards that changed."""
    steps: Mapping[int, tuple[int, int]]
    """By check the violations added and removed, before those that moved are taken off."""
    kept: Mapping[int, int]
    """By check the violations that only moved."""
    files: tuple[RunFile, ...]
    lists: tuple[pa.Table, ...]
    counted: Mapping[str, int]
    """By table the rows that were read, where a check keeps nothing."""
    crowded: bool
    """Whether a shard got too many rows to check them alone."""
    overflow: bool
    """Whether a batch that was said to be small was not."""
    moved: bool
    """Whether rows with missing references went from shard to shard, so that some of these may only have moved."""
    notes: tuple[str, ...] = ()
    """What there is to know about how the changes were read."""
    passed: tuple[tuple[int, int, list[str]], ...] = ()
    """What measures keep of rows that are kept nowhere: check, number of the measure, numbers."""
    late: Mapping[str, int] = field(default_factory=dict)
    """By table the changes that lost to newer ones."""
    cells: Mapping[int, Sequence[pa.Table]] = field(default_factory=dict)
    """By rule that goes by ranges the rows of each combination of them, in parts."""


@dataclass(frozen=True)
class Distinct:
    """What is counted by telling rows and groups apart, where several shards hold the same ones."""

    rows: Mapping[int, int] = field(default_factory=dict)
    """By rule its violating rows."""
    groups: Mapping[int, int] = field(default_factory=dict)
    """By check its violating groups in hot places."""


@dataclass(frozen=True)
class Ledger:
    """Every shard with its files, rows and counts."""

    layout: Layout
    shards: Mapping[str, Any] = field(default_factory=dict)
    passed: tuple[tuple[int, int, list[str]], ...] = ()
    """What measures keep of rows that no shard has, in a check that keeps nothing."""

    def heard(self, messages: list[Message]) -> Settled:
        """Read what the tasks said; raises what went wrong in them."""
        raised(messages)
        shards: dict[str, Any] = {}
        steps: dict[int, tuple[int, int]] = {}
        kept: dict[int, int] = {}
        counted: dict[str, int] = {}
        files, lists, left, entered, crowded, overflow = [], [], 0, 0, False, False
        passed: list[tuple[int, int, list[str]]] = []
        notes: dict[str, None] = {}
        late: dict[str, int] = {}
        cells: dict[int, list[pa.Table]] = {}
        for message in messages:
            if message.kind != SUMMARY:
                continue
            if message.name == "cells":
                cells.setdefault(message.route, []).append(message.table())
                continue
            if message.name == "list":
                lists.append(message.table())
                continue
            said = message.data()
            for check, count in said.get("kept", {}).items():
                kept[int(check)] = kept.get(int(check), 0) + count
            for table, count in said.get("counted", {}).items():
                counted[table] = counted.get(table, 0) + count
            for table, count in said.get("late", {}).items():
                late[table] = late.get(table, 0) + count
            notes |= dict.fromkeys(said.get("notes", ()))
            passed += [(check, at, part) for check, at, part in said.get("passed", ())]
            crowded |= "crowded" in said
            overflow |= "overflow" in said
            if "moved" in said:
                left, entered = left + said["moved"][0], entered + said["moved"][1]
            if "list" in said:
                files.append(RunFile.of(said["list"]))
            if "shard" in said:
                runs = said.get("runs", {})
                told = {name: said[name] for name in ("rows", "tallies", "measures") if name in said}
                shards[str(said["shard"])] = runs | told
                weight = self.layout.spots[said["shard"]].weight
                for check, (added, removed) in said["steps"].items():
                    before = steps.get(int(check), (0, 0))
                    steps[int(check)] = before[0] + weight * added, before[1] + weight * removed
        return Settled(
            shards, steps, kept, tuple(files), tuple(lists), counted, crowded, overflow, bool(left and entered),
            tuple(notes), tuple(passed), late, cells,
        )  # fmt: skip

    def after(self, settled: Settled) -> Ledger:
        """The ledger when the batch is in."""
        return replace(self, shards={**self.shards, **settled.shards}, passed=(*self.passed, *settled.passed))

    def rows(self) -> dict[str, int]:
        """How many rows each table has."""
        found = dict.fromkeys(self.layout.plan.schemas, 0)
        for number, shard in self.shards.items():
            if self.layout.spots[int(number)].route == HOME:
                for table, count in shard["rows"].items():
                    found[table] += count
        return {table: count for table, count in found.items() if not is_gone(table)}

    def tally(self, check: int) -> tuple[int, int, int]:
        """Rows, pairs and groups of a check; rows count more than once where they are in several shards.

        The groups of a hot place are counted where it is one group, and left out where it is divided.
        """
        total = [0, 0, 0]
        hot: dict[int, int] = {}
        for number, shard in self.shards.items():
            counts = shard["tallies"].get(str(check))
            if counts is None:
                continue
            spot = self.layout.spots[int(number)]
            total[ROWS] += counts[ROWS]
            total[PAIRS] += spot.weight * counts[PAIRS]
            if spot.hot < 0:
                total[GROUPS] += counts[GROUPS]
            elif counts[GROUPS] and not self._finer(check):
                hot[spot.hot] = hot.get(spot.hot, 0) + spot.weight * counts[PAIRS]
        # a place is in several cells
        total[GROUPS] += sum(pairs > 0 for pairs in hot.values())
        return total[ROWS], total[PAIRS], total[GROUPS]

    def measures(self) -> dict[str, tuple[Part, ...]]:
        """What is kept of rules about whole tables, by all homes together."""
        return {rule: self._parts(check) for rule, check in measure_checks(self.layout.plan).items()}

    def _parts(self, check: MeasureCheck) -> tuple[Part, ...]:
        number = self.layout.plan.checks.index(check)
        told = [shard.get("measures", {}).get(str(number)) for shard in self.shards.values()]
        homes = [parts_of(check.measures, parts) for parts in told if parts is not None]
        merged = []
        for at, measure in enumerate(check.measures):
            passed = [
                parts_of([measure], [part])[0] for own, place, part in self.passed if (own, place) == (number, at)
            ]
            merged.append(measure.merged([*(parts[at] for parts in homes), *passed]))
        return tuple(merged)

    def broken(self, moment: int) -> list[int]:
        """The checks of whole tables that are violated at a moment, in nanoseconds since 1970."""
        own = ((n, check) for n, check in enumerate(self.layout.plan.checks) if isinstance(check, MeasureCheck))
        return [n for n, check in own if check.broken(self._parts(check), moment)]

    def measured(self, moment: int) -> dict[str, str]:
        """By rule about a whole table what is measured, in words."""
        checks = measure_checks(self.layout.plan)
        return {rule: checks[rule].said(parts, moment) for rule, parts in self.measures().items()}

    def counts(self, rule: int, moment: int, distinct: Distinct | None = None) -> RuleCounts:
        """How a rule stands at a moment, in nanoseconds since 1970.

        Rows and groups are right where `distinct` has those that are scattered and divided.
        """
        [first, *_] = self.checks_of(rule)
        own = self.layout.plan.checks[first]
        if isinstance(own, MeasureCheck):
            return RuleCounts(0, 0, 0, int(own.broken(self._parts(own), moment)))
        known = distinct or Distinct()
        tallies = {check: self.tally(check) for check in self.checks_of(rule)}
        rows = known.rows.get(rule, sum(tally[ROWS] for tally in tallies.values()))
        single = {check for check in tallies if self.layout.plan.checks[check].width == 1}
        pairs = sum(tally[PAIRS] for check, tally in tallies.items() if check not in single)
        alone = sum(tallies[check][ROWS] for check in single)
        groups = sum(tally[GROUPS] + known.groups.get(check, 0) for check, tally in tallies.items())
        return RuleCounts(rows, pairs, groups, pairs + alone)

    def steps(self, settled: Settled, before: Ledger | None, moment: int) -> dict[str, Step]:
        """What the batch did to each rule; `before` is the ledger that it started from, None for the first batch."""
        found = {}
        was = set() if before is None else set(before.broken(moment))
        now = set(self.broken(moment))
        for number, rule in enumerate(self.layout.plan.rules):
            own = self.checks_of(number)
            if isinstance(self.layout.plan.checks[own[0]], MeasureCheck):
                found[rule.name] = Step(len(now & {*own} - was), len(was & {*own} - now), len(now & {*own}))
                continue
            kept = sum(settled.kept.get(check, 0) for check in own)
            added, removed = (sum(settled.steps.get(check, (0, 0))[side] for check in own) - kept for side in (0, 1))
            found[rule.name] = Step(added, removed, self.counts(number, moment).open)
        return found

    def checks_of(self, rule: int) -> list[int]:
        """Numbers of the checks of a rule."""
        return [n for n, check in enumerate(self.layout.plan.checks) if check.rule == rule]

    def scattered(self, rule: int) -> bool:
        """Whether a violating row of the rule may be counted in several shards."""
        checks = [check for check in self.checks_of(rule) if any(self.tally(check))]
        return len(checks) > 1 or any(
            self.layout.plan.checks[check].width > 1 and (self._route(check).kind == "cross" or self._hot(check))
            for check in checks
        )

    def divided(self, check: int) -> bool:
        """Whether a hot place holds several violating groups of the check, each of them in several cells."""
        return self._finer(check) and self._hot(check)

    def _finer(self, check: int) -> bool:
        """Whether rows that agree on the check's columns agree on more than those that its route places them by."""
        own = self.layout.plan.checks[check]
        return own.grouped and set(own.lhs) != set(self._route(check).t.columns)

    def _hot(self, check: int) -> bool:
        return any(
            str(check) in shard["tallies"]
            for number, shard in self.shards.items()
            if self.layout.spots[int(number)].hot >= 0
        )

    def _route(self, check: int) -> Route:
        return next(route for route in self.layout.routes if check in route.checks)
