"""Conditional FDs of a data frame: left sides looked at under all values of their columns at once.

What is minimal, and what makes a pattern worth telling, are as in one process (`dependencies/patterns.py`,
`cfd_core.py`). A job tests many left sides for all their targets (`pattern_sides.py`), of which neither a sample nor a
part of the groups refutes every condition that enough rows satisfy. Where rows may be exceptions, left sides are
counted with a target each (`pattern_jobs.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.discovery.bitsets import set_of
from holdstrue.discovery.dependencies.cfd_core import MOST_VALUES, CfdCore, not_luck
from holdstrue.discovery.dependencies.patterns import Columns, Conditional, more_general
from holdstrue.discovery.dependencies.ranking import Profile
from holdstrue.discovery.options import DiscoveryOptions, allowed, exact
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.spark.discovering.bounded_jobs import collected
from holdstrue.spark.discovering.frame_dependencies import profiles_of
from holdstrue.spark.discovering.lane_table import LaneTable
from holdstrue.spark.discovering.left_side_jobs import SCOUTED, SideQuestion
from holdstrue.spark.discovering.pattern_jobs import Condition, PatternCounts, PatternJobs
from holdstrue.spark.discovering.pattern_sides import holding, scouted
from holdstrue.spark.discovering.refutations import Refutations
from holdstrue.typing import I32

WIDEST = 24
"""Targets of a left side in one job: each takes up to five aggregates. Chosen, not tuned."""

LOOKING = 0.7
"""The share of the time in which patterns are looked for; in the rest those that were found are weighed. Chosen."""

Lanes = tuple[int, int]
"""Both lanes of a value."""
Places = Mapping[int, Mapping[Lanes | None, int]]


@dataclass(frozen=True)
class Frequent:
    """A value of a column with few values: its lanes, what it is, and its rows."""

    lanes: Lanes
    value: Any
    rows: int


class FrameConditions(CfdCore):
    """The conditional FDs of a data frame."""

    def __init__(self, table: LaneTable, frame: DataFrame, options: DiscoveryOptions, work: Work) -> None:
        super().__init__(table.schema, options)
        self._table, self._frame = table, frame
        self._columns: list[Profile] = []
        self._frequent: dict[int, list[Frequent]] = {}
        self.jobs = 0
        if table.profiled:
            try:
                self._columns = profiles_of(table)
                if not table.members.size:
                    table.sample(work)
                self._find(work)
            except OutOfTimeError:
                self.complete = False

    def _find(self, work: Work) -> None:
        self._frequent = self._histograms(work)
        for number, own in self._frequent.items():
            self._values[number] = [one.value for one in own]
        least = max(2, self.options.support)
        named = {
            number: {at: one.lanes for at, one in enumerate(own) if one.value is not None and one.rows >= least}
            for number, own in self._frequent.items()
        }
        values = {number: [one.lanes for one in own] for number, own in self._frequent.items()}
        named = {number: own for number, own in named.items() if own}
        looking = work.first(LOOKING)
        jobs = PatternJobs(self._table, named, values, self.options, looking)
        places: Places = {c: {one.lanes: at for at, one in enumerate(own)} for c, own in self._frequent.items()}
        search = FramePatterns(self._table, jobs, places, self.options, looking)
        longest = min(self.options.max_conditional_lhs, len(self.names))
        self.complete = True
        try:
            for length in search.look(longest):
                self._reached = length
        except OutOfTimeError:
            self.complete = False
        jobs = replace(jobs, work=work)
        try:
            found = search.told(jobs, self._may_be_told)
            kept = [one for one in found if not_luck(one)]
            shares, selections = jobs.shares(kept), jobs.selections(kept)
        except OutOfTimeError:
            # what is not weighed is not told
            self._reached = 0
            raise
        self.jobs += jobs.asked

        def share(one: Conditional) -> float:
            return shares[one.columns, one.values, one.target]

        def selection(one: Conditional) -> int:
            return selections[one.columns, one.values]

        kept = [one for one in kept if self._chance(one, self._columns, share) >= self.options.support]
        self._rules = self._together(kept, self._columns, self._table.rows, share, selection)

    def _may_be_told(self, one: Conditional) -> bool:
        """Whether enough rows could have broken a pattern, whatever the jobs that weigh it say."""
        if one.line.any():
            return one.support - one.groups >= self.options.support
        return self._chance(one, self._columns, lambda _: 1.0) >= self.options.support

    def _histograms(self, work: Work) -> dict[int, list[Frequent]]:
        """The values of all columns that have few. One job."""
        few = [
            number
            for number, (name, one) in enumerate(zip(self.names, self._table.profiled, strict=True))
            if 0 < one.distinct <= MOST_VALUES and self._may_be_constant(name)
        ]
        if not few:
            return {}
        table = self._table
        rows = table.with_values(self._frame, few)
        parts = []
        for number in few:
            a, b = table.group([number])
            own = [f"'v{k}', {f'v{k}' if k == number else f'if(true, null, v{k})'}" for k in few]
            fields = f"'side', {number}, 'a', {a}, 'b', {b}, {', '.join(own)}"
            parts.append(f"if({table.known([number])}, named_struct({fields}), null)")
        values = rows.selectExpr(f"inline(array({', '.join(parts)}))").where("side is not null")
        told = values.groupBy("side", "a", "b", *(f"v{number}" for number in few)).agg(F.count(F.lit(1)).alias("n"))
        found: dict[int, list[Frequent]] = {number: [] for number in few}
        for row in collected(table.runner, told, "values of columns with few", work).to_pylist():
            found[row["side"]].append(Frequent((row["a"], row["b"]), row[f"v{row['side']}"], row["n"]))
        self.jobs += 1
        return found

    def _everywhere(self, one: Conditional) -> float:
        return self._frequent[one.target][one.commonest].rows / self._columns[one.target].known


class FramePatterns:
    """Goes over left sides by their length and tells which patterns are minimal, as `PatternSearch` does on rows."""

    def __init__(
        self, table: LaneTable, jobs: PatternJobs, places: Places, options: DiscoveryOptions, work: Work
    ) -> None:
        self._table, self._jobs, self._work = table, jobs, work
        self._support = max(2, options.support)
        self._exceptions = 1 - exact(options.confidence)
        self._everywhere: list[list[frozenset[int]]] = [[] for _ in table.names]
        self._held: dict[tuple[Columns, Columns, int], set[tuple[int, ...]]] = {}
        self._places = places
        """By column with few values, by their lanes, which of them it is."""
        self._refutations: Refutations | None = None
        self._found: list[tuple[Columns, Columns, int, tuple[int, ...], PatternCounts]] = []

    def look(self, longest: int) -> Iterator[int]:
        """All left sides of up to so many columns, by length, which are told when done; OutOfTimeError at the deadline.

        Where no row may be an exception, a pair of rows refutes a condition, and left sides are asked about on Spark of
        which the sample, and then a part of the groups, leave some condition. Else all are counted.
        """
        if not self._exceptions:
            codes = {column: _codes_of(self._table, column, own) for column, own in self._jobs.named.items()}
            self._refutations = Refutations(self._table, self._jobs.conditions(longest), codes)
        for length in range(longest + 1):
            self._work.tell(length / (longest + 1), f"patterns of {length} columns on the left")
            self._level(length, last=length == longest)
            yield length

    def _level(self, length: int, *, last: bool) -> None:
        many, usable = len(self._table.names), self._jobs.named
        asked = []
        for left in combinations(range(many), length):
            if last and not any(column in usable for column in left):
                continue
            whole = frozenset(left)
            targets = [
                target
                for target in range(many)
                if target not in whole and not any(part <= whole for part in self._everywhere[target])
            ]
            asked += [SideQuestion(left, tuple(targets))] if targets else []
        if self._refutations is not None:
            self._hold(asked, self._refutations)
            return
        rows = self._jobs.rows_of(length)
        cases = [(one.columns, target) for one in asked for target in one.targets]
        for (left, target), counted in self._jobs.counted(cases):
            self._take(left, target, counted, rows)

    def _hold(self, asked: list[SideQuestion], refutations: Refutations) -> None:
        """What holds without exception."""
        table = self._table
        for one in asked:
            self._work.require_time()
            if one.columns:
                refutations.sift(one.columns, one.targets)
                continue
            for target in one.targets:
                if table.profiled[target].distinct > 1:
                    refutations.note((), target, (), [])
        for one in asked:
            for fixed in refutations.conditions(one.columns):
                for left, parts in more_general(one.columns, fixed):
                    for target in one.targets:
                        implied = self._held.get((left, parts, target))
                        if implied:
                            refutations.imply(one.columns, target, fixed, parts, implied)
        asked = _narrow(asked, refutations)
        part = table.rows // SCOUTED
        if part > 1 and not table.all_here:
            for told in scouted(self._jobs, refutations, asked, part):
                refutations.note(told.left, told.target, told.fixed, told.places)
            asked = _narrow(asked, refutations)
        for question, held in holding(self._jobs, refutations, asked):
            for target, counted in held.items():
                self._take(question.columns, target, counted, {})
        refutations.forget()

    def _take(
        self, left: Columns, target: int, counted: dict[Condition, PatternCounts], rows: dict[Condition, int]
    ) -> None:
        whole = counted.get(((), ()), PatternCounts(0, 0, 0, None))
        if whole.broken <= allowed(self._exceptions, self._table.rows):
            self._everywhere[target].append(frozenset(left))
            return
        # what has fewer constants says more, and comes first
        for (fixed, values), one in sorted(counted.items(), key=lambda item: len(item[0][0])):
            most = allowed(self._exceptions, rows.get((fixed, values), 0)) if self._exceptions else 0
            if not fixed or one.speaking < self._support or one.broken > most:
                continue
            if not any(self._projected(fixed, values, parts, target) for parts in more_general(left, fixed)):
                self._held.setdefault((left, fixed, target), set()).add(values)
                self._found.append((left, fixed, target, values, one))

    def _projected(self, fixed: Columns, values: tuple[int, ...], parts: tuple[Columns, Columns], target: int) -> bool:
        held = self._held.get((*parts, target))
        return held is not None and tuple(values[fixed.index(column)] for column in parts[1]) in held

    def told(self, jobs: PatternJobs, worth: Callable[[Conditional], bool]) -> list[Conditional]:
        """The patterns found that may be worth telling, weighed beside those with one constant less."""
        words, made = len(self._table.names) // 64 + 1, []
        for left, fixed, target, values, one in self._found:
            line = set_of((column for column in left if column not in fixed), words)
            best = self._places.get(target, {}).get(one.commonest, -1)
            counts = one.broken, one.speaking, one.groups
            # what is expected is as yet unknown, and how many rows there are
            pattern = Conditional(fixed, values, line, target, 0, *counts, best, float("inf"))
            if worth(pattern):
                made.append((left, pattern))
        parents = {((left, one.target), rest) for left, one in made for rest in _with_one_less(one.columns, one.values)}
        wider = jobs.asked_for(parents)
        rows = jobs.rows_under({(one.columns, one.values) for _, one in made})
        return [
            replace(
                one,
                rows=rows[one.columns, one.values],
                expected=min(
                    one.support / max(1, other.speaking) * other.broken
                    for rest in _with_one_less(one.columns, one.values)
                    for other in [wider[(left, one.target), rest]]
                ),
            )
            for left, one in made
        ]


def _codes_of(table: LaneTable, column: int, named: Mapping[int, Lanes]) -> I32:
    """By code of the sample the place of its value among those that conditions may name; -1 for others, and NULL."""
    both = np.array(list(named.values()), dtype=np.int64).reshape(-1, 2).view(np.uint64)
    hi, lo = (np.ascontiguousarray(both[:, at]) for at in (0, 1))
    numbering = table.codes.numberings[column]
    found = numbering.find(hi, lo, np.ones(hi.size, dtype=np.bool_))
    # a value that the sample lacks has no code; the last place is for NULL
    places = np.full(len(numbering) + 1, -1, dtype=np.int32)
    places[found[found >= 0]] = np.array(list(named), dtype=np.int32)[found >= 0]
    return places


def _narrow(asked: Iterable[SideQuestion], refutations: Refutations) -> list[SideQuestion]:
    """Left sides with the targets that may depend on them, no more than `WIDEST` at a time."""
    found = []
    for one in asked:
        targets = [target for target in one.targets if refutations.open(one.columns, target)]
        found += [
            SideQuestion(one.columns, tuple(targets[start : start + WIDEST]))
            for start in range(0, len(targets), WIDEST)
        ]
    return found


def _with_one_less(fixed: Columns, values: tuple[int, ...]) -> Iterator[Condition]:
    for at in range(len(fixed)):
        yield fixed[:at] + fixed[at + 1 :], values[:at] + values[at + 1 :]
