"""The second pass: how many rows and pairs violate FDs, by grouping rows by left and right side and then by left.

Few violating groups are joined with first, so that no other row is grouped. Where there are many, or where the rules
are so few that this pass answers everything, all rows are grouped, which is what a query by hand would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from holdstrue.plan.checks import GroupCheck, RowCheck
from holdstrue.spark.catalyst.detecting import Found, Tables, left_side, member, right_side
from holdstrue.spark.catalyst.elements import Element, ElementShape, spread
from holdstrue.spark.catalyst.lanes import Lanes

GROUPS = StructType(
    [
        StructField("side", IntegerType(), nullable=False),
        StructField("hi", LongType(), nullable=False),
        StructField("lo", LongType(), nullable=False),
    ]
)
_COUNTED = -1
"""The side that counts the rows of a table."""


def kind_of(tables: Tables, check: GroupCheck) -> Lanes:
    """The whole right side of a row; rows of one group with the same do not violate the rule together."""
    if len(check.rhs) == 1:
        return right_side(tables, check, 0)
    lanes = [lane for at in range(len(check.rhs)) for lane in right_side(tables, check, at) if lane is not None]
    # what is not known is a value here: `Detection` tells where that matters
    flagged = ", ".join(f"{lane} is null, {lane}" for lane in lanes)
    return f"xxhash64(1, {flagged})", f"xxhash64(2, {flagged})"


def pair_elements(tables: Tables, checks: Mapping[int, GroupCheck], alone: Mapping[int, RowCheck]) -> list[Element]:
    """One element a check; `alone` are checks of single rows of the same rules."""
    found = []
    for number, check in checks.items():
        element = Element(number, check.table, member(tables, check), left_side(tables, check))
        element.value(kind_of(tables, check))
        if number in alone:
            element.flag(tables.holds(alone[number], alone[number].broken))
        found.append(element)
    return found


@dataclass(frozen=True)
class Pairing:
    """The aggregation that counts the pairs of some FDs."""

    tables: Tables
    checks: Mapping[int, GroupCheck]
    alone: Mapping[int, RowCheck]
    most: int
    groups: Mapping[int, Sequence[tuple[int, int]]] | None = None
    """By check all its violating groups, where these are few; None to group all rows."""
    counted: Sequence[str] = ()
    """Tables whose rows are counted on the way."""

    def _spread(self) -> tuple[DataFrame, ElementShape]:
        elements = pair_elements(self.tables, self.checks, self.alone)
        for at, name in enumerate(self.counted):
            elements.append(Element(_COUNTED - at, name, "true", ("0L", None)))
        shape = ElementShape.of(elements, {})
        rows = spread(self.tables.frames, elements, shape)
        if self.groups is not None:
            known = [(check, hi, lo) for check, groups in self.groups.items() for hi, lo in groups]
            spark = rows.sparkSession
            rows = rows.join(F.broadcast(groups_frame(spark, known, shape)), list(shape.group), "left_semi")
        return rows, shape

    def totals(self) -> DataFrame:
        """A row a check."""
        rows, shape = self._spread()
        kinds = [f"{lane}0" for lane in (shape.values[0] if shape.values else "")]
        counts = ["count(1) as rows", *(["count(f0) as both"] if shape.flags else [])]
        by_kind = rows.groupBy(*shape.group, *kinds).agg(*map(F.expr, counts))
        summed = ["sum(rows) as n", "count(1) as kinds", "sum(rows * rows) as squares"]
        summed += ["min(a0) as least"] if kinds else []
        summed += ["sum(both) as both"] if shape.flags else []
        groups = by_kind.groupBy(*shape.group).agg(*map(F.expr, summed)).where("kinds > 1 or side < 0")
        lo, least = "lo" if shape.wide else "0L", "least" if kinds else "cast(null as bigint)"
        group = f"named_struct('hi', hi, 'lo', {lo}, 'n', n, 'least', {least})"
        told = [
            "count(1) as groups",
            "sum(n) as rows",
            "sum(cast(n * n - squares as decimal(38,0))) as pairs",
            f"max_by({group}, hi, {self.most}) as chosen",
            f"{'sum(both)' if shape.flags else '0L'} as both",
        ]
        return groups.groupBy("side").agg(*map(F.expr, told))

    def run(self) -> tuple[dict[int, Found], dict[str, int]]:
        """By check what was found, and the rows of the tables that were counted."""
        found: dict[int, Found] = {}
        rows = dict.fromkeys(self.counted, 0)
        for row in self.totals().toArrow().to_pylist():
            if row["side"] < 0:
                rows[self.counted[_COUNTED - row["side"]]] = row["rows"]
                continue
            chosen = tuple((g["hi"], g["lo"], g["n"], g["least"]) for g in row["chosen"])
            pairs = int(row["pairs"]) // 2
            found[row["side"]] = Found(row["rows"], pairs, row["groups"], chosen, 0, row["both"] or 0)
        return found, rows


def groups_frame(spark: object, groups: Sequence[tuple[int, int, int]], shape: ElementShape) -> DataFrame:
    """Some groups as a data frame."""
    known: DataFrame = spark.createDataFrame(list(groups), GROUPS)  # type: ignore[attr-defined]
    return known if shape.wide else known.select("side", "hi")
