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
from holdstrue.spark.catalyst.elements import Element, Shape, long, spread
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
    flagged = [column for lane in lanes for column in (lane.isNull(), lane)]
    return F.xxhash64(F.lit(1), *flagged), F.xxhash64(F.lit(2), *flagged)


def pair_elements(
    tables: Tables, checks: Mapping[int, GroupCheck], alone: Mapping[int, RowCheck]
) -> list[Element]:
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

    def _spread(self) -> tuple[DataFrame, Shape]:
        elements = pair_elements(self.tables, self.checks, self.alone)
        for at, name in enumerate(self.counted):
            elements.append(Element(_COUNTED - at, name, F.lit(True), (long(0), None)))
        shape = Shape.of(elements, {})
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
        counts = [F.count(F.lit(1)).alias("rows"), *([F.count("f0").alias("both")] if shape.flags else [])]
        by_kind = rows.groupBy(*shape.group, *kinds).agg(*counts)
        square = F.col("rows") * F.col("rows")
        summed = [
            F.sum("rows").alias("n"),
            F.count(F.lit(1)).alias("kinds"),
            F.sum(square).alias("squares"),
            *([F.min("a0").alias("least")] if kinds else []),
            *([F.sum("both").alias("both")] if shape.flags else []),
        ]
        groups = by_kind.groupBy(*shape.group).agg(*summed).where((F.col("kinds") > 1) | (F.col("side") < 0))
        pairs = (F.col("n") * F.col("n") - F.col("squares")).cast("decimal(38,0)")
        lo = F.col("lo") if shape.wide else long(0)
        least = F.col("least") if kinds else long(None)
        group = F.struct(F.col("hi"), lo.alias("lo"), F.col("n"), least.alias("least"))
        return groups.groupBy("side").agg(
            F.count(F.lit(1)).alias("groups"),
            F.sum("n").alias("rows"),
            F.sum(pairs).alias("pairs"),
            F.max_by(group, F.col("hi"), self.most).alias("chosen"),
            (F.sum("both") if shape.flags else long(0)).alias("both"),
        )

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


def groups_frame(spark: object, groups: Sequence[tuple[int, int, int]], shape: Shape) -> DataFrame:
    """Some groups as a data frame."""
    known: DataFrame = spark.createDataFrame(list(groups), GROUPS)  # type: ignore[attr-defined]
    return known if shape.wide else known.select("side", "hi")


