"""Jobs that count what breaks dependencies under conditions: each row is written once for every left side and target.

Rows carry the places of their values among those that conditions may name; the groups of a left side are counted, and
their sums taken for every choice of columns with constants. The driver sees whole left sides, single constants, and
what holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
from holdstrue.spark.catalyst.lanes import Sql
from holdstrue.spark.discovering.bounded_jobs import ANSWER, collected, most_bytes
from holdstrue.spark.discovering.frame_dependencies import CASES
from holdstrue.spark.discovering.lane_table import LaneTable
from holdstrue.spark.discovering.left_side_jobs import COUNTED, written_sides
from holdstrue.spark.discovering.refutations import FrequentConditions
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
            summed = self._summed(part)
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
        written = []
        for side, fixed in enumerate(sets):
            own = [f"p{column}" for column in fixed] + ["-1"] * (longest - len(fixed))
            fields = ", ".join([f"'side', {side}", *(f"'k{at}', {value}" for at, value in enumerate(own))])
            named = " and ".join(f"p{column} >= 0" for column in fixed)
            written.append(f"if({named}, named_struct({fields}), null)")
        places = [f"k{at}" for at in range(longest)]
        # rows have few different values in all these columns together, as a rule: they are counted first
        joint = self.placed().groupBy(*(f"p{column}" for column in self.named)).agg(F.count(F.lit(1)).alias("n"))
        each = joint.selectExpr("n", f"inline(array({', '.join(written)}))").where("side is not null")
        counted = each.groupBy("side", *places).agg(F.sum("n").alias("n"))
        told = self.told(counted.where(f"n >= {max(2, self.options.support)}"), "rows of conditions")
        sides, rows = told.column("side").to_numpy(), told.column("n").to_numpy()
        values = np.stack([told.column(name).to_numpy() for name in places], axis=1).astype(np.int64)
        for side, fixed in enumerate(sets):
            yield fixed, values[sides == side, : len(fixed)], rows[sides == side]

    def rows_under(self, conditions: Iterable[Condition]) -> dict[Condition, int]:
        """How many rows satisfy some conditions. One job."""
        return {condition: row["n"] for condition, row in self._rows(conditions, ["count(1) as n"]).items()}

    def selections(self, patterns: list[Conditional]) -> dict[Condition, int]:
        """Conditions of patterns that select the same rows have the same number. One job."""
        digests = ["count(1) as n", "bit_xor(xxhash64(1, place)) as s0", "bit_xor(xxhash64(2, place)) as s1"]
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
        rows = self._conditions(sides).agg(*map(F.expr, asked))
        longest = max(map(len, sides))
        rows = self._only(rows.selectExpr("*", "cast(pow(2, depth) as int) - 1 as mask"), lines, longest)
        told = self.told(rows, "rows of conditions").to_pylist()
        return {(sides[row["side"]], _values(row, len(sides[row["side"]]))): row for row in told}

    def _conditions(self, sides: list[Columns]) -> Any:
        """Rows by the values that they have in the columns of each side, where conditions may name all of them."""
        longest = max(map(len, sides))
        written = [
            (fixed, [("depth", str(len(fixed))), *self.places(fixed, longest)]) for fixed in sides
        ]  # fmt: skip
        numbered = self.placed().withColumn("place", F.monotonically_increasing_id())
        rows = numbered.selectExpr("place", written_sides(self.table, written)).where("side is not null")
        known = " and ".join(f"(k{at} >= 0 or depth <= {at})" for at in range(longest))
        return rows.where(known).groupBy("side", "depth", *(f"k{at}" for at in range(longest)))

    def placed(self) -> DataFrame:
        """The lanes, and by column that conditions may name the place of its value, -1 for others."""
        columns = []
        for number, own in self.named.items():
            a, b = self.table.group([number])
            cases = " ".join(
                f"when {a} = cast('{x}' as bigint) and {b} = cast('{y}' as bigint) then {at}"
                for at, (x, y) in own.items()
            )
            columns.append(f"case {cases} else -1 end as p{number}")
        return self.table.frame.selectExpr("*", *columns)

    def places(self, left: Columns, longest: int) -> list[tuple[str, Sql]]:
        """The places of a left side's values, as fields of a row that is written."""
        named = [f"p{column}" if column in self.named else "-1" for column in left]
        return [(f"k{at}", name) for at, name in enumerate([*named, *["-1"] * (longest - len(left))])]

    def _summed(self, cases: list[Case]) -> DataFrame:
        """By case, columns with constants (`mask`) and their values (`k0`, ...): what is broken, and who speaks."""
        table, longest = self.table, max(len(left) for left, _ in cases)
        sides = []
        for left, target in cases:
            v, w = table.lanes[target]
            sides.append((left, [("v", v), ("w", w or "0L"), *self.places(left, longest)]))
        places = [f"k{at}" for at in range(longest)]
        rows = self.placed().selectExpr(written_sides(table, sides)).where("side is not null and v is not null")
        values = rows.groupBy("side", "a", "b", "v", "w", *places).agg(F.count(F.lit(1)).alias("c"))
        best = "max_by(v, c) as v", "max_by(w, c) as w"
        groups = values.groupBy("side", "a", "b", *places).agg(*map(F.expr, (*COUNTED, *best))).where("n > 1")
        masks = ", ".join(str(mask) for mask in range(1 << longest))
        every = groups.selectExpr("*", f"explode(array({masks})) as mask")
        for at in range(longest):
            every = every.where(f"(mask & {1 << at}) = 0 or k{at} >= 0")
        chosen = [f"if((mask & {1 << at}) = 0, -1, k{at}) as k{at}" for at in range(longest)]
        every = every.selectExpr("side", "mask", *chosen, "n", "most", "v", "w")
        asked = (
            "sum(n - most) as broken", "sum(n) as speaking", "count(1) as groups", "min(v) as v", "min(w) as w",
        )  # fmt: skip
        return every.groupBy("side", "mask", *places).agg(*map(F.expr, asked))

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
        for row in self.told(summed, f"{len(cases)} FDs counted under conditions").to_pylist():
            left, _ = cases[row["side"]]
            fixed = tuple(column for at, column in enumerate(left) if row["mask"] >> at & 1)
            values = tuple(row[f"k{at}"] for at, _ in enumerate(left) if row["mask"] >> at & 1)
            commonest = (row["v"], row["w"]) if fixed == left else None
            yield row["side"], (fixed, values), PatternCounts(row["broken"], row["speaking"], row["groups"], commonest)

    def told(self, rows: DataFrame, what: str) -> pa.Table:
        self.asked += 1
        return collected(self.table.runner, rows, what, self.work)


def _values(row: Mapping[str, Any], length: int) -> tuple[int, ...]:
    return tuple(row[f"k{at}"] for at in range(length))
