"""Jobs that count what breaks dependencies under conditions, each bounded in what it brings to the driver.

Rows carry the places of their values among those that conditions may name; the groups of a left side are counted, and
their sums taken for every choice of columns with constants (`condition_stages.py`). The driver sees whole left sides,
single constants, and what holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, StructField, StructType

from holdstrue.discovery.dependencies.patterns import Columns, Conditional
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.kernels import side_rows
from holdstrue.kernels.side_rows import TOGETHER
from holdstrue.spark.catalyst.lanes import Sql
from holdstrue.spark.discovering.bounded_jobs import ANSWER, collected, most_bytes
from holdstrue.spark.discovering.condition_stages import (
    ConditionedSides,
    ConditionSums,
    JointValues,
    Lanes,
    NamedValues,
    OpenRows,
)
from holdstrue.spark.discovering.frame_dependencies import CASES
from holdstrue.spark.discovering.lane_table import LaneTable
from holdstrue.spark.discovering.refutations import MOST_OPEN, FrequentConditions
from holdstrue.spark.discovering.side_jobs import Shaped, parts_for, shaped_for, values_of_groups
from holdstrue.spark.discovering.side_stages import SideShape
from holdstrue.spark.runner import sendable
from holdstrue.typing import I64

MOST_CONDITIONS = 1 << 20
"""Conditions on the same columns that the driver holds at most, to know which are refuted. Chosen, not tuned."""

CONDITION = 48
"""Bytes of a condition on its way to the driver. Chosen, not tuned."""

Case = tuple[Columns, int]
"""A left side and a target."""
Condition = tuple[Columns, tuple[int, ...]]
"""Columns with constants, and the places of their values."""
Question = tuple[Case, Condition]


class PatternCounts(NamedTuple):
    """Rows to remove, rows with a partner, their groups; the lanes of the target's commonest value under constants."""

    broken: int
    speaking: int
    groups: int
    commonest: tuple[int, int] | None


@dataclass
class PatternJobs:
    """Counts under conditions, each job bounded in what it brings to the driver."""

    table: LaneTable
    named: Mapping[int, Mapping[int, tuple[int, int]]]
    """By column the places of frequent values, with their lanes."""
    values: Mapping[int, Sequence[Lanes]]
    """By column with few values all of them."""
    options: DiscoveryOptions
    work: Work
    asked: int = field(default=0)
    """Jobs so far."""

    def counted(self, cases: list[Case]) -> Iterator[tuple[Case, dict[Condition, PatternCounts]]]:
        """For each case what is broken on all rows, and under conditions."""
        # exceptions are judged on the driver, which knows how many rows a condition has
        wanted = f"mask = 0 or speaking >= {max(2, self.options.support)}"
        for start in range(0, len(cases), CASES):
            part = cases[start : start + CASES]
            found: list[dict[Condition, PatternCounts]] = [{} for _ in part]
            for side, condition, one in self._answers(part, self._summed(part).where(wanted)):
                found[side][condition] = one
            yield from zip(part, found, strict=True)

    def asked_for(self, questions: Iterable[Question]) -> dict[Question, PatternCounts]:
        """What is broken in cases under certain conditions."""
        by_case: dict[Case, list[Condition]] = {}
        for case, condition in sorted(questions):
            by_case.setdefault(case, []).append(condition)
        found: dict[Question, PatternCounts] = {}
        cases = list(by_case)
        for start in range(0, len(cases), CASES):
            part = cases[start : start + CASES]
            lines = [(side, case[0], condition) for side, case in enumerate(part) for condition in by_case[case]]
            summed = self._summed(part, [self._rows_under(case[0], by_case[case]) for case in part])
            wanted = self._only(summed, lines, max(len(left) for left, _ in part))
            for side, condition, one in self._answers(part, wanted):
                found[part[side], condition] = one
        return found

    def shares(self, patterns: list[Conditional]) -> dict[tuple[Columns, tuple[int, ...], int], float]:
        """Of the rows under a pattern's condition that know the target, the share of its commonest value."""
        asked = {((one.columns, one.target), (one.columns, one.values)) for one in patterns}
        told = self.asked_for(asked)
        none = PatternCounts(0, 0, 0, None)
        found = {}
        for (columns, target), (_, values) in asked:
            one = told.get(((columns, target), (columns, values)), none)
            found[columns, values, target] = 1 - one.broken / one.speaking if one.speaking else 1.0
        return found

    def rows_of(self, length: int) -> dict[Condition, int]:
        """How many rows satisfy each frequent condition on up to so many columns. One job."""
        found: dict[Condition, int] = {}
        for fixed, values, rows in self.frequent(self._sets(length)):
            found |= {(fixed, tuple(one)): n for one, n in zip(values.tolist(), rows.tolist(), strict=True)}
        return found

    def conditions(self, length: int) -> FrequentConditions:
        """The conditions on up to so many columns that enough rows satisfy, as far as the driver can hold them.

        A job for as many sets of columns as the driver may be told of at a time.
        """
        sizes = {column: max(own) + 1 for column, own in self.named.items()}
        sets = [fixed for fixed in self._sets(length) if prod(sizes[column] for column in fixed) < MOST_CONDITIONS]
        most = most_bytes(self.table.runner, ANSWER) // CONDITION
        parts: list[list[Columns]] = []
        room = 0
        for fixed in sets:
            size = min(prod(sizes[column] for column in fixed), self.table.rows // max(2, self.options.support))
            if not parts or size > room:
                parts.append([])
                room = most
            parts[-1].append(fixed)
            room -= size
        found = {fixed: values for part in parts for fixed, values, _ in self.frequent(part)}
        return FrequentConditions(sizes, found)

    def _sets(self, length: int) -> list[Columns]:
        return [fixed for size in range(1, length + 1) for fixed in combinations(sorted(self.named), size)]

    def frequent(self, sets: list[Columns]) -> Iterator[tuple[Columns, I64, I64]]:
        """Conditions on these sets of columns that enough rows satisfy, by the places of values, and their rows."""
        if not sets:
            return
        longest = max(map(len, sets))
        places = [f"k{at}" for at in range(longest)]
        each = self._joint().selectExpr("n", _inlined(sets)).where("side is not null")
        counted = each.groupBy("side", *places).agg(F.sum("n").alias("n"))
        told = self.told(counted.where(f"n >= {max(2, self.options.support)}"), "rows of conditions")
        sides, rows = told.column("side").to_numpy(), told.column("n").to_numpy()
        values = np.stack([told.column(name).to_numpy() for name in places], axis=1).astype(np.int64)
        for side, fixed in enumerate(sets):
            yield fixed, values[sides == side, : len(fixed)], rows[sides == side]

    def rows_under(self, conditions: Iterable[Condition]) -> dict[Condition, int]:
        """How many rows satisfy some conditions. One job."""
        return {condition: row["n"] for condition, row in self._rows(conditions, ["sum(n) as n"]).items()}

    def selections(self, patterns: list[Conditional]) -> dict[Condition, int]:
        """Conditions of patterns that select the same rows have the same number. One job.

        They do where they select the same combinations of values of all columns that conditions may name.
        """
        digests = ["sum(n) as n", "bit_xor(d0) as s0", "bit_xor(d1) as s1"]
        told = self._rows({(one.columns, one.values) for one in patterns}, digests)
        numbers: dict[tuple[int, int, int], int] = {}
        return {
            condition: numbers.setdefault((row["n"], row["s0"], row["s1"]), len(numbers))
            for condition, row in told.items()
        }

    def _rows(self, conditions: Iterable[Condition], asked: list[Sql]) -> dict[Condition, dict[str, Any]]:
        wanted = sorted(conditions)
        sides = sorted({fixed for fixed, _ in wanted})
        if not sides:
            return {}
        lines = [(sides.index(fixed), fixed, (fixed, values)) for fixed, values in wanted]
        longest = max(map(len, sides))
        places = [f"k{at}" for at in range(longest)]
        own = ", ".join(f"p{column}" for column in self.named)
        digests = [f"xxhash64({salt}, {own}) as d{salt}" for salt in range(2)]
        rows = self._joint().selectExpr("n", *digests, _inlined(sides)).where("side is not null")
        masks = " ".join(f"when {side} then {(1 << len(fixed)) - 1}" for side, fixed in enumerate(sides))
        counted = rows.groupBy("side", *places).agg(*map(F.expr, asked))
        few = self._only(counted.withColumn("mask", F.expr(f"case side {masks} end")), lines, longest)
        told = self.told(few, "rows of conditions").to_pylist()
        return {(sides[row["side"]], _values(row, len(sides[row["side"]]))): row for row in told}

    def _joint(self) -> DataFrame:
        """Rows counted by their values in all columns that conditions may name (`p0`, ..., `n`): few, as a rule."""
        blocks = self.table.blocks
        stage = JointValues(NamedValues(blocks.reader, self.named))
        each = blocks.frame.mapInArrow(sendable(stage), stage.schema)
        return each.groupBy(*(f"p{column}" for column in self.named)).agg(F.sum("n").alias("n"))

    def under_conditions(
        self, asked: Sequence[Shaped], opened: Sequence[OpenRows | None], part: int = 1, spares: list[int] | None = None
    ) -> DataFrame:
        """Left sides summed under conditions, a line for each condition of a task: see `ConditionSums`.

        `opened` are the rows that matter of each; `spares` are given where values of one target are counted, as in
        `parts_for`.
        """
        table, blocks = self.table, self.table.blocks
        lefts, shapes = tuple(left for left, _ in asked), tuple(shape for _, shape in asked)
        parts = parts_for(table, asked, part, [0] * len(asked) if spares is None else spares)
        values = NamedValues(blocks.reader, self.named)
        written = ConditionedSides(
            blocks.reader, shapes, table.codes.seed.keys, part, parts, values, lefts, tuple(opened)
        )
        summed = ConditionSums(lefts, shapes, frozenset(self.named), spares is not None)
        sent = table.runner.messages([(blocks.frame, written)], parts)
        return sent.mapInArrow(sendable(summed), summed.schema)

    def lanes_by_digest(self, shape: SideShape, target: int, word: int) -> dict[int, Lanes]:
        """By the digest that rows of a left side have in a word the value of a target with few values."""
        reader, own = self.table.blocks.reader, self.values.get(target, ())
        lanes = np.zeros((len(reader.names), len(own)), dtype=np.uint64)
        for at, pair in enumerate(own):
            for lane, value in zip(reader.numbers(target), pair, strict=False):
                lanes[lane, at] = np.int64(value).view(np.uint64)
        out = np.zeros((shape.words, len(own) + 1), dtype=np.uint64)
        known = np.ones((len(reader.columns), len(own)), dtype=np.bool_)
        none = np.empty(0, dtype=np.int64)
        everywhere = (none, none, shape.shape[2], shape.shape[3])
        side_rows.written(lanes, known, everywhere, self.table.codes.seed.keys, 1, 0, 0, out, 0)
        return dict(zip(out[word, : len(own)].view(np.int64).tolist(), own, strict=True))

    def _rows_under(self, left: Columns, conditions: Sequence[Condition]) -> OpenRows | None:
        """The rows that some conditions on a left side select; None for all."""
        tables: dict[Columns, I64] = {}
        sizes = {column: max(own) + 1 for column, own in self.named.items()}
        for fixed, values in conditions:
            size = prod(sizes[column] for column in fixed)
            if not fixed or size > MOST_OPEN:
                return None
            cell = 0
            for column, value in zip(reversed(fixed), reversed(values), strict=True):
                cell = cell * sizes[column] + value
            tables.setdefault(fixed, np.zeros(size, dtype=np.int64))[cell] = 1
        lines = (
            (tuple(left.index(column) for column in fixed), tuple(sizes[column] for column in fixed), table)
            for fixed, table in tables.items()
        )
        return OpenRows(0, tuple(lines))

    def _summed(self, cases: list[Case], opened: Sequence[OpenRows | None] = ()) -> DataFrame:
        """By case, columns with constants (`mask`) and their values (`k0`, ...): what is broken, and who speaks.

        `opened` are the rows that are asked about of each; all, unless it is given.
        """
        spares = [values_of_groups(self.table, left, target) for left, target in cases]
        lines = self.under_conditions(self._shaped(cases), opened or [None] * len(cases), spares=spares)
        # of all tasks one at most has a digest
        asked = "sum(x0) as broken", "sum(s0) as speaking", "sum(g0) as groups", "max_by(v0, v0 != 0) as v"
        places = [f"k{at}" for at in range(max(len(left) for left, _ in cases))]
        return lines.groupBy("side", "mask", *places).agg(*map(F.expr, asked))

    def _shaped(self, cases: Sequence[Case]) -> list[Shaped]:
        return [shaped_for(self.table, left, target) for left, target in cases]

    def _only(self, rows: DataFrame, lines: list[tuple[int, Columns, Condition]], longest: int) -> DataFrame:
        """Those of some sides and conditions, which are few."""
        places = [f"k{at}" for at in range(longest)]
        wanted = []
        for side, left, (fixed, values) in lines:
            own = dict(zip(fixed, values, strict=True))
            mask = sum(1 << at for at, column in enumerate(left) if column in own)
            line = [own.get(column, -1) for column in left] + [-1] * (longest - len(left))
            wanted.append((side, mask, *line))
        fields = [StructField(name, IntegerType()) for name in ("side", "mask", *places)]
        few = self.table.runner.spark.createDataFrame(wanted, StructType(fields))
        return rows.join(F.broadcast(few), ["side", "mask", *places], "left_semi")

    def _answers(self, cases: list[Case], summed: DataFrame) -> Iterator[tuple[int, Condition, PatternCounts]]:
        shaped = self._shaped(cases)
        lanes = [self.lanes_by_digest(shape, case[1], TOGETHER) for (_, shape), case in zip(shaped, cases, strict=True)]
        for row in self.told(summed, f"{len(cases)} FDs counted under conditions").to_pylist():
            left, _ = cases[row["side"]]
            fixed = tuple(column for at, column in enumerate(left) if row["mask"] >> at & 1)
            values = tuple(row[f"k{at}"] for at, _ in enumerate(left) if row["mask"] >> at & 1)
            commonest = lanes[row["side"]].get(row["v"]) if fixed == left else None
            yield row["side"], (fixed, values), PatternCounts(row["broken"], row["speaking"], row["groups"], commonest)

    def told(self, rows: DataFrame, what: str) -> pa.Table:
        self.asked += 1
        return collected(self.table.runner, rows, what, self.work)


def _inlined(sets: Sequence[Columns]) -> Sql:
    """Joint values written once for each set of columns that they all name: SQL of a generator."""
    longest, written = max(map(len, sets)), []
    for side, fixed in enumerate(sets):
        own = [f"p{column}" for column in fixed] + ["-1"] * (longest - len(fixed))
        fields = ", ".join([f"'side', {side}", *(f"'k{at}', {value}" for at, value in enumerate(own))])
        named = " and ".join(f"p{column} >= 0" for column in fixed)
        written.append(f"if({named}, named_struct({fields}), null)")
    return f"inline(array({', '.join(written)}))"


def _values(row: Mapping[str, Any], length: int) -> tuple[int, ...]:
    return tuple(row[f"k{at}"] for at in range(length))
