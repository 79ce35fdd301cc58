"""Conditional FDs of a data frame: frequent values of columns with few of them are conditions, counted all together.

The search, and what makes a pattern worth telling, are those of one process (`dependencies/cfd_core.py`). What a
sample does not refute under some value is counted on Spark for all values of its column at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.discovery.bitsets import members, set_of
from holdstrue.discovery.dependencies.cfd_core import MOST_CONDITIONS, MOST_VALUES, CfdCore
from holdstrue.discovery.dependencies.limited_search import NO_LIMIT, within
from holdstrue.discovery.dependencies.patterns import Conditional
from holdstrue.discovery.dependencies.ranking import Profile, surprise
from holdstrue.discovery.dependencies.validation import Partitions, Validator
from holdstrue.discovery.options import DiscoveryOptions, allowed, exact
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.kernels.partitions import GATHERED, OFFENDING, SUPPORT, SURPLUS
from holdstrue.spark.discovering.bounded_jobs import collected
from holdstrue.spark.discovering.frame_dependencies import CASES, SideWeigher, profiles_of
from holdstrue.spark.discovering.lane_table import LaneTable
from holdstrue.spark.discovering.left_side_jobs import COUNTED, written_sides
from holdstrue.typing import I32, I64, U64, Mask

Lanes = tuple[int, int]
"""Both lanes of a value."""
Case = tuple[int, tuple[int, ...], int]
"""The column of a condition, other columns on the left, and the target."""


@dataclass(frozen=True)
class Frequent:
    """A value of a column with few values: its lanes, what it is, its rows, and a digest of which rows these are."""

    lanes: Lanes
    value: Any
    rows: int
    selection: tuple[int, int, int]


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
        conditions = [
            (number, at)
            for number, own in sorted(self._frequent.items())
            for at, one in enumerate(own)
            if one.value is not None and one.rows >= max(2, self.options.support)
        ]
        if len(conditions) > MOST_CONDITIONS:
            conditions.sort(key=lambda c: -self._frequent[c[0]][c[1]].rows)
        counter = CaseCounter(self._table, self._frequent, work)
        found, complete = self._conditional(conditions[:MOST_CONDITIONS], counter, work)
        self.jobs += counter.jobs
        self.complete = complete and len(conditions) <= MOST_CONDITIONS
        kept = [one for one in found if self._chance(one, self._columns) >= self.options.support]
        self._rules = self._together(self._not_luck(kept), self._columns, self._table.rows)

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
        rows = table.with_values(self._frame, few).withColumn("place", F.monotonically_increasing_id())
        parts = []
        for number in few:
            a, b = table.group([number])
            own = [f"'v{k}', {f'v{k}' if k == number else f'if(true, null, v{k})'}" for k in few]
            fields = f"'side', {number}, 'a', {a}, 'b', {b}, {', '.join(own)}"
            parts.append(f"if({table.known([number])}, named_struct({fields}), null)")
        values = rows.selectExpr("place", f"inline(array({', '.join(parts)}))").where("side is not null")
        digest = "bit_xor(xxhash64(1, place)) as s0", "bit_xor(xxhash64(2, place)) as s1"
        groups = values.groupBy("side", "a", "b", *(f"v{number}" for number in few))
        told = groups.agg(F.count(F.lit(1)).alias("n"), *map(F.expr, digest))
        found: dict[int, list[Frequent]] = {number: [] for number in few}
        for row in collected(table.runner, told, "values of columns with few", work).to_pylist():
            value, selection = row[f"v{row['side']}"], (row["n"], row["s0"], row["s1"])
            found[row["side"]].append(Frequent((row["a"], row["b"]), value, row["n"], selection))
        self.jobs += 1
        return found

    def _conditional(
        self, conditions: list[tuple[int, int]], counter: CaseCounter, work: Work
    ) -> tuple[list[Conditional], bool]:
        """As `patterns.conditional`: minimal dependencies under each condition that do not hold without."""
        many, longest = len(self.names), self.options.max_conditional_lhs - 1
        exceptions = 1 - exact(self.options.confidence)
        counter.prefetch(conditions, longest, exceptions)
        found: list[Conditional] = []
        numbers: dict[tuple[int, int, int], int] = {}
        complete = True
        for column, value in conditions:
            if not complete or work.over:
                complete = False
                break
            own = self._frequent[column][value]
            limits = np.array([NO_LIMIT, allowed(exceptions, own.rows)], dtype=np.int64)
            targets = [target for target in range(many) if target != column]
            weigher = ConditionWeigher(counter, column, value)
            local, complete = within(weigher, many, targets, limits, longest, without=column)
            selection = numbers.setdefault(own.selection, len(numbers))
            found += [
                Conditional(column, value, one.line, one.target, one.counts, own.rows, selection, -1, 1.0)
                for one in local
                if int(one.counts[SUPPORT]) >= self.options.support
            ]
        return self._only_there(self._with_commonest(found, counter), allowed(exceptions, self._table.rows)), complete

    def _with_commonest(self, found: list[Conditional], counter: CaseCounter) -> list[Conditional]:
        """With the value that most rows have in the target. Whatever the time."""
        told = counter.commonest({(one.column, one.target) for one in found})
        made = []
        for one in found:
            known, most, lanes = told.get((one.column, one.value, one.target), (0, 0, None))
            places = {own.lanes: at for at, own in enumerate(self._frequent.get(one.target, []))}
            share = most / known if known else 1.0
            made.append(replace(one, commonest=-1 if lanes is None else places.get(lanes, -1), share=share))
        return made

    def _only_there(self, found: list[Conditional], most: int) -> list[Conditional]:
        """Those that do not hold on the whole table. Whatever the time."""
        if not found:
            return []
        weigher = SideWeigher(self._table, Work())
        targets = np.array([one.target for one in found], dtype=np.int64)
        lines = np.array([one.whole for one in found])
        counts, _ = weigher.weigh(lines, targets, np.full(2, NO_LIMIT, dtype=np.int64))
        self.jobs += weigher.jobs
        pairs = zip(found, counts, strict=True)
        return [replace(one, everywhere=count) for one, count in pairs if count[SURPLUS] > most]

    def _chance(self, one: Conditional, columns: list[Profile]) -> float:
        """Rows that would break the pattern if the right side were drawn at random."""
        target = columns[one.target]
        if one.line.any():
            inside = Profile(target.name, target.quality, target.distinct, one.rows, one.share)
            return surprise(int(one.counts[SUPPORT]), int(one.counts[GATHERED]), inside)
        if one.commonest < 0 or self._constant(one.target, one.commonest) is None:
            return 0.0
        everywhere = self._frequent[one.target][one.commonest].rows / target.known
        return int(one.counts[SUPPORT]) * (1 - everywhere)


class CaseCounter:
    """Counts what breaks dependencies under every value of a column with few; each case once."""

    def __init__(self, table: LaneTable, frequent: dict[int, list[Frequent]], work: Work) -> None:
        self.table, self.work = table, work
        self._places = {c: {one.lanes: at for at, one in enumerate(own)} for c, own in frequent.items()}
        self._rows = {c: [one.rows for one in own] for c, own in frequent.items()}
        self._known: dict[Case, I64] = {}
        self.order: I32 = np.argsort([-one.distinct for one in table.profiled], kind="stable").astype(np.int32)
        self.jobs = 0

    def here(self, column: int, value: int) -> Validator:
        """A validator of the sample's rows under a condition."""
        codes, own = self.table.codes, self.table.members
        lanes = next(lanes for lanes, at in self._places[column].items() if at == value)
        hi, lo = (np.array([lane], dtype=np.int64).view(np.uint64) for lane in lanes)
        code = codes.numberings[column].find(hi, lo, np.ones(1, dtype=np.bool_))[0]
        chosen = own[codes.matrix[column][own] == code] if code >= 0 else own[:0]
        return Validator(Partitions(codes, members=chosen), self.work)

    def prefetch(self, conditions: Iterable[tuple[int, int]], longest: int, exceptions: Any) -> None:
        """Count what the sample does not refute under some value: left sides of no column, and of one."""
        many, words = len(self.table.names), len(self.table.names) // 64 + 1
        if self.table.all_here or not many:
            return
        wanted: dict[Case, None] = {}
        for column, value in conditions:
            if self.work.over:
                return
            others = [i for i in range(many) if i != column]
            asked: list[tuple[tuple[int, ...], int]] = [((), target) for target in others]
            if longest:
                asked += [((one,), target) for target in others for one in others if one != target]
            sets = np.array([set_of(line, words) for line, _ in asked], dtype=np.uint64).reshape(-1, words)
            targets = np.array([target for _, target in asked], dtype=np.int64)
            limits = np.array([NO_LIMIT, allowed(exceptions, self._rows[column][value])], dtype=np.int64)
            counts, done = self.here(column, value).weigh(sets, targets, limits)
            good = done & (counts[:, SURPLUS] <= limits[SURPLUS])
            # a left side of one column is asked for only where that of none fails
            empty = {target for (line, target), is_good in zip(asked, good, strict=True) if not line and is_good}
            for (line, target), is_good in zip(asked, good, strict=True):
                if is_good and (not line or target not in empty):
                    wanted[column, line, target] = None
        self._count(list(wanted))

    def counts(self, column: int, value: int, asked: list[tuple[tuple[int, ...], int]]) -> I64:
        """What breaks each (left side, target) under a condition."""
        self._count([case for line, t in asked if (case := (column, line, t)) not in self._known])
        return np.array([self._known[column, line, t][value] for line, t in asked], dtype=np.int64).reshape(-1, 4)

    def _count(self, cases: list[Case]) -> None:
        for start in range(0, len(cases), CASES):
            self._count_part(cases[start : start + CASES])

    def _count_part(self, cases: list[Case]) -> None:
        table, sides = self.table, []
        for column, line, target in cases:
            (a, b), (v, w) = table.lanes[column], table.lanes[target]
            sides.append(((column, *line), [("ca", a), ("cb", b or "0L"), ("v", v), ("w", w or "0L")]))
        rows = table.frame.selectExpr(written_sides(table, sides)).where("side is not null and v is not null")
        values = rows.groupBy("side", "ca", "cb", "a", "b", "v", "w").agg(F.count(F.lit(1)).alias("c"))
        groups = values.groupBy("side", "ca", "cb", "a", "b").agg(*map(F.expr, COUNTED)).where("n > 1")
        asked = (
            "sum(n * (n - 1) div 2 - equal) as pairs", "sum(n - most) as rows",
            "sum(n) as support", "count(1) as groups",
        )  # fmt: skip
        told = groups.groupBy("side", "ca", "cb").agg(*map(F.expr, asked))
        found = [np.zeros((len(self._places[column]), 4), dtype=np.int64) for column, _, _ in cases]
        for row in collected(table.runner, told, f"{len(cases)} FDs counted by condition", self.work).to_pylist():
            place = self._places[cases[row["side"]][0]].get((row["ca"], row["cb"]))
            if place is not None:
                line = found[row["side"]][place]
                line[OFFENDING], line[SURPLUS] = row["pairs"], row["rows"]
                line[SUPPORT], line[GATHERED] = row["support"], row["groups"]
        self._known |= dict(zip(cases, found, strict=True))
        self.jobs += 1

    def commonest(self, pairs: Iterable[tuple[int, int]]) -> dict[tuple[int, int, int], tuple[int, int, Lanes]]:
        """By column, value and target: rows with a known target, those with its commonest value, and its lanes."""
        table, asked = self.table, sorted(pairs)
        if not asked:
            return {}
        sides = []
        for column, target in asked:
            v, w = table.lanes[target]
            sides.append(((column,), [("v", v), ("w", w or "0L")]))
        rows = table.frame.selectExpr(written_sides(table, sides)).where("side is not null and v is not null")
        values = rows.groupBy("side", "a", "b", "v", "w").agg(F.count(F.lit(1)).alias("c"))
        most = "sum(c) as n", "max(c) as most", "max_by(v, c) as v", "max_by(w, c) as w"
        told = values.groupBy("side", "a", "b").agg(*map(F.expr, most))
        found = {}
        for row in collected(table.runner, told, "commonest values by condition", Work()).to_pylist():
            column, target = asked[row["side"]]
            place = self._places[column].get((row["a"], row["b"]))
            if place is not None:
                found[column, place, target] = row["n"], row["most"], (row["v"], row["w"])
        self.jobs += 1
        return found


@dataclass(frozen=True)
class ConditionWeigher:
    """Counts under one condition, behind the verbs of a `Validator`."""

    counter: CaseCounter
    column: int
    value: int

    @property
    def work(self) -> Work:
        """Time and threads."""
        return self.counter.work

    @property
    def order(self) -> I32:
        """Columns, the most selective first."""
        return self.counter.order

    def weigh(self, sets: U64, targets: I64, limits: I64) -> tuple[I64, Mask]:
        """Counts, and which were counted in time."""
        if self.counter.table.all_here:
            return self.counter.here(self.column, self.value).weigh(sets, targets, limits)
        asked = [(tuple(members(line)), int(target)) for line, target in zip(sets, targets, strict=True)]
        try:
            return self.counter.counts(self.column, self.value, asked), np.ones(len(sets), dtype=np.bool_)
        except OutOfTimeError:
            return np.zeros((len(sets), 4), dtype=np.int64), np.zeros(len(sets), dtype=np.bool_)

    def scout(self, rows: int) -> Validator | None:
        """A validator of the sample under the condition."""
        return None if self.counter.table.all_here else self.counter.here(self.column, self.value)
