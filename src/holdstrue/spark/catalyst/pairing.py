"""The second pass: how many rows and pairs violate FDs, by grouping rows by left and right side and then by left.

Where few groups violate, no row of another is grouped. Where there are many, or where there is one
rule, of which this pass answers everything, all rows are grouped, which is what a query by hand would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame

from holdstrue.plan.checks import GroupCheck, RowCheck
from holdstrue.spark.catalyst.detecting import Found, Tables, halves, left_side, member, right_side, whole_of
from holdstrue.spark.catalyst.elements import Element, ElementShape, spread
from holdstrue.spark.catalyst.lanes import Lanes, Sql


def kind_of(tables: Tables, check: GroupCheck) -> Lanes:
    """The whole right side of a row; rows of one group with the same do not violate the rule together."""
    if len(check.rhs) == 1:
        return right_side(tables, check, 0, of_members=True)
    sides = (right_side(tables, check, at, of_members=True) for at in range(len(check.rhs)))
    lanes = [lane for side in sides for lane in side if lane is not None]
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
    groups: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The first lanes of all violating groups of checks of which these are few; of others all rows are grouped."""
    counted: bool = False
    """Whether the rows of the table are counted on the way, for the only check there is."""

    def _spread(self) -> tuple[Sql, ElementShape]:
        elements = pair_elements(self.tables, self.checks, self.alone)
        for element in elements:
            if element.side in self.groups:
                # one lane will do: a group that has it by chance does not violate, or is known as well
                few = ", ".join(f"{hi}L" for hi in dict.fromkeys(self.groups[element.side]))
                element.given = f"({element.given} and {element.group[0]} in ({few}))"
        if self.counted:
            # rows that are in no group are in the group NULL, which has one kind
            [only] = elements
            (hi, lo), [(a, b)], given = only.group, only.values, only.given
            only.group = f"if({given}, {hi}, null)", None if lo is None else f"if({given}, {lo}, null)"
            only.values = [(f"if({given}, {a}, null)", None if b is None else f"if({given}, {b}, null)")]
            only.given = "true"
        shape = ElementShape.of(elements, {})
        rows = spread(self.tables.sources, elements, shape)
        return rows, shape

    @property
    def shuffles(self) -> int:
        """By group and kind, by group, and what partitions found to one of them."""
        return 3

    def query(self) -> Sql:
        """A row a check."""
        rows, shape = self._spread()
        alone = next(iter(self.checks)) if len(self.checks) == 1 else None
        return pair_totals(rows, shape, self.most, alone=alone, counted=self.counted)

    def totals(self) -> DataFrame:
        """What the query gives."""
        return self.tables.ask(self.query())

    def run(self) -> tuple[dict[int, Found], int]:
        """By check what was found, and how many rows were counted."""
        return found_in(self.totals().toArrow())


def pair_totals(
    rows: Sql,
    shape: ElementShape,
    most: int,
    *,
    alone: int | None,
    counted: bool = False,
    weight: Sql = "count(1)",
) -> Sql:
    """A query for groups, rows and pairs of each check, by what rows give to its side.

    `weight` counts what a row stands for.

    Of a check that is `alone` nothing tells sides apart, so that what partitions found goes to one of them at once.
    Where all rows are `counted`, those that are in no group are in the group NULL.
    """
    keys = ", ".join(shape.group if alone is None else shape.group[1:])
    kinds = ", ".join(f"{lane}0" for lane in shape.values[0])
    counts = [f"{weight} as rows", *(["count(f0) as both"] if shape.flags else [])]
    by_kind = f"select {keys}, {kinds}, {', '.join(counts)} from ({rows}) group by {keys}, {kinds}"
    square = "if(hi is null, 0L, rows * rows)" if counted else "rows * rows"
    summed = ["sum(rows) as n", "count(1) as kinds", f"sum({square}) as squares"]
    summed += ["min(a0) as least"] if most else []
    summed += ["sum(both) as both"] if shape.flags else []
    groups = f"select {keys}, {', '.join(summed)} from ({by_kind}) group by {keys}"
    many, only = ("filter (where kinds > 1)", "") if counted else ("", " where kinds > 1")
    (_, upper), (_, lower) = halves("(n * n - squares)")
    told = [
        "sum(n) as counted",
        f"count(1) {many} as groups",
        f"sum(n) {many} as rows",
        f"sum({upper}) {many} as upper",
        f"sum({lower}) {many} as lower",
        f"{'sum(both) ' + many if shape.flags else '0L'} as both",
    ]
    if most:
        group = f"named_struct('hi', hi, 'lo', {'lo' if shape.wide else '0L'}, 'n', n, 'least', least)"
        told.append(f"max_by({group}, hi, {most}) {many} as chosen")
    by_side, side = (" group by side", "side") if alone is None else ("", f"{alone} as side")
    return f"select {', '.join(told)}, {side} from ({groups}){only}{by_side}"


def found_in(totals: pa.Table) -> tuple[dict[int, Found], int]:
    """By check what was found, and how many rows were counted of the last one."""
    found: dict[int, Found] = {}
    counted = 0
    for row in totals.to_pylist():
        counted = row["counted"] or 0
        chosen = tuple((g["hi"], g["lo"], g["n"], g["least"]) for g in row.get("chosen") or ())
        pairs = whole_of(row["upper"] or 0, row["lower"] or 0) // 2
        found[row["side"]] = Found(row["rows"] or 0, pairs, row["groups"], chosen, 0, row["both"] or 0)
    return found, counted
