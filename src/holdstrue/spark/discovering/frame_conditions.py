"""Conditional FDs of a data frame: left sides counted under all values of their columns at once.

What is minimal, and what makes a pattern worth telling, are as in one process (`dependencies/patterns.py`,
`cfd_core.py`). A job counts many left sides with a target each (`pattern_jobs.py`); those that a sample refutes under
every value are not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.discovery.bitsets import set_of
from holdstrue.discovery.dependencies.cfd_core import MOST_VALUES, CfdCore, not_luck
from holdstrue.discovery.dependencies.patterns import Columns, Conditional, more_general
from holdstrue.discovery.dependencies.ranking import Profile
from holdstrue.discovery.dependencies.validation import Partitions, Validator
from holdstrue.discovery.options import DiscoveryOptions, allowed, exact
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.kernels import patterns as kernels
from holdstrue.spark.discovering.bounded_jobs import collected
from holdstrue.spark.discovering.frame_dependencies import profiles_of
from holdstrue.spark.discovering.lane_table import LaneTable
from holdstrue.spark.discovering.pattern_jobs import Case, Condition, PatternCounts, PatternJobs
from holdstrue.typing import I32

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
        jobs = PatternJobs(self._table, {number: own for number, own in named.items() if own}, self.options, work)
        places: Places = {c: {one.lanes: at for at, one in enumerate(own)} for c, own in self._frequent.items()}
        search = FramePatterns(self._table, jobs, places, self.options, work)
        longest = min(self.options.max_conditional_lhs, len(self.names))
        self.complete = True
        try:
            for length in range(longest + 1):
                self._reached = max(0, length - 1)
                search.level(length, last=length == longest)
        except OutOfTimeError:
            self.complete = False
        # what was found in time is weighed whatever the time
        found = search.told(replace(jobs, work=Work()))
        kept = [one for one in found if not_luck(one)]
        shares, selections = jobs.shares(kept), jobs.selections(kept)
        self.jobs += jobs.asked

        def share(one: Conditional) -> float:
            return shares[one.columns, one.values, one.target]

        def selection(one: Conditional) -> int:
            return selections[one.columns, one.values]

        kept = [one for one in kept if self._chance(one, self._columns, share) >= self.options.support]
        self._rules = self._together(kept, self._columns, self._table.rows, share, selection)

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
        self._sampled = {column: _codes_of(table, column, own.values()) for column, own in jobs.named.items()}
        self._found: list[tuple[Columns, Columns, int, tuple[int, ...], PatternCounts]] = []

    def level(self, length: int, *, last: bool) -> None:
        """All left sides of so many columns; OutOfTimeError at the deadline."""
        many, usable = len(self._table.names), self._jobs.named
        cases: list[Case] = []
        for left in combinations(range(many), length):
            if last and not any(column in usable for column in left):
                continue
            whole = frozenset(left)
            asked = [
                target
                for target in range(many)
                if target not in whole and not any(part <= whole for part in self._everywhere[target])
            ]
            cases += [(left, target) for target in self._unrefuted(left, asked)]
        rows = self._jobs.rows_of(length) if self._exceptions else {}
        for (left, target), counted in self._jobs.counted(cases):
            self._take(left, target, counted, rows)

    def _unrefuted(self, left: Columns, targets: list[int]) -> list[int]:
        """Targets that may depend on a left side under some condition: the sample does not break it under each."""
        usable = [column for column in left if column in self._jobs.named]
        if not targets or self._exceptions or not left:
            return targets
        codes, own = self._table.codes, self._table.members
        line = set_of(left, len(codes.names) // 64 + 1)
        rows, starts = Validator(Partitions(codes, members=own), Work(threads=1)).rows_of(line)
        asked = np.array(targets, dtype=np.int64)
        surplus, known, commonest = (np.empty((asked.size, starts.size - 1), dtype=np.int32) for _ in range(3))
        most = max(len(numbering) for numbering in codes.numberings) + 1
        scratch = np.zeros((3, most), dtype=np.int32)
        kernels.weigh_groups(codes.matrix, asked, rows, starts, scratch, surplus, known, commonest)
        heads = rows[starts[:-1]]
        values = np.array([codes.matrix[column][heads] for column in usable]).reshape(len(usable), heads.size)
        named = np.ones(heads.size, dtype=np.bool_)
        for column, own in zip(usable, values, strict=True):
            named &= np.isin(own, self._sampled[column])
        every = prod(len(self._jobs.named[column]) for column in usable)
        kept = []
        for at, target in enumerate(targets):
            broken = surplus[at] > 0
            refuted = np.unique(values[:, broken & named], axis=1).shape[1] if usable else 1
            if not broken.any() or refuted < every:
                kept.append(target)
        return kept

    def _take(
        self, left: Columns, target: int, counted: dict[Condition, PatternCounts], rows: dict[Condition, int]
    ) -> None:
        whole = counted.get(((), ()), PatternCounts(0, 0, 0, None))
        if whole.broken <= allowed(self._exceptions, self._table.rows):
            self._everywhere[target].append(frozenset(left))
            return
        for (fixed, values), one in counted.items():
            most = allowed(self._exceptions, rows.get((fixed, values), 0)) if self._exceptions else 0
            if not fixed or one.speaking < self._support or one.broken > most:
                continue
            if not any(self._projected(fixed, values, parts, target) for parts in more_general(left, fixed)):
                self._held.setdefault((left, fixed, target), set()).add(values)
                self._found.append((left, fixed, target, values, one))

    def _projected(self, fixed: Columns, values: tuple[int, ...], parts: tuple[Columns, Columns], target: int) -> bool:
        held = self._held.get((*parts, target))
        return held is not None and tuple(values[fixed.index(column)] for column in parts[1]) in held

    def told(self, jobs: PatternJobs) -> list[Conditional]:
        """The patterns found, weighed beside those with one constant less."""
        parents = {
            ((left, target), (rest, at))
            for left, fixed, target, values, _ in self._found
            for rest, at in _with_one_less(fixed, values)
        }
        wider = jobs.asked_for(parents)
        rows = jobs.rows_under({(fixed, values) for _, fixed, _, values, _ in self._found})
        words, made = len(self._table.names) // 64 + 1, []
        for left, fixed, target, values, one in self._found:
            expected = min(
                one.speaking / max(1, other.speaking) * other.broken
                for rest in _with_one_less(fixed, values)
                for other in [wider[(left, target), rest]]
            )
            line = set_of((column for column in left if column not in fixed), words)
            best = self._places.get(target, {}).get(one.commonest, -1)
            counts = rows[fixed, values], one.broken, one.speaking, one.groups
            made.append(Conditional(fixed, values, line, target, *counts, best, expected))
        return made


def _codes_of(table: LaneTable, column: int, lanes: Iterable[Lanes]) -> I32:
    """The codes of values in the sample; of one that it lacks there is none, so that it is never refuted there."""
    both = np.array(list(lanes), dtype=np.int64).reshape(-1, 2).view(np.uint64)
    hi, lo = (np.ascontiguousarray(both[:, at]) for at in (0, 1))
    found = table.codes.numberings[column].find(hi, lo, np.ones(hi.size, dtype=np.bool_))
    return found[found >= 0].astype(np.int32)


def _with_one_less(fixed: Columns, values: tuple[int, ...]) -> Iterator[Condition]:
    for at in range(len(fixed)):
        yield fixed[:at] + fixed[at + 1 :], values[:at] + values[at + 1 :]
