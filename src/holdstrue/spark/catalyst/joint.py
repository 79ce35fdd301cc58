"""Pairs of several FDs from one grouping: rows by all lanes that they compare, then each FD over the combinations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from holdstrue.plan.checks import GroupCheck
from holdstrue.spark.catalyst.bundles import bundled
from holdstrue.spark.catalyst.detecting import Found, Tables, left_side, right_side
from holdstrue.spark.catalyst.elements import Element, ElementShape, spread
from holdstrue.spark.catalyst.lanes import Lanes, Sql, written
from holdstrue.spark.catalyst.pairing import Pairing, found_in, pair_totals
from holdstrue.spark.catalyst.sampling import SampledLanes

REDUCED = 8
"""Rows for a combination, on average, from which on it pays to group rows for good. With fewer, extremes by left side
tell first which FDs have to be counted at all. Five FDs on 1M rows with as many combinations took 6.5 s in one
grouping and 6.6 s one by one. The bound itself was chosen."""


def is_plain(check: GroupCheck) -> bool:
    """Whether an FD is about all rows and one right-hand column, so that its lanes say everything about a row."""
    return len(check.rhs) == 1 and check.member is None and check.asked == (None,)


def sides(tables: Tables, check: GroupCheck) -> tuple[Lanes, Lanes]:
    """Both sides of a plain FD; a lane is NULL where a row is in no group."""
    return left_side(tables, check), right_side(tables, check, 0)


def lanes_of(tables: Tables, check: GroupCheck) -> frozenset[Sql]:
    """What rows are grouped by."""
    return frozenset(lane for side in sides(tables, check) for lane in side if lane is not None)


@dataclass(frozen=True)
class JointGroupings:
    """Groupings of one table that count the pairs of plain FDs."""

    tables: Tables
    table: str
    bundles: tuple[Mapping[int, GroupCheck], ...]
    most: int

    @staticmethod
    def of(
        tables: Tables, table: str, checks: Mapping[int, GroupCheck], sample: SampledLanes, most: int
    ) -> JointGroupings:
        """Those of which a sample says that far fewer combinations than rows are grouped, as many together as pays."""
        needed = {number: lanes_of(tables, check) for number, check in checks.items()}
        bundles = [b for b in bundled(sample.digests(), needed) if b.combinations * REDUCED <= sample.rows]
        return JointGroupings(tables, table, tuple({n: checks[n] for n in bundle.numbers} for bundle in bundles), most)

    @property
    def shuffles(self) -> int:
        """For each grouping by combination, by left side of an FD, and what partitions found to one of them."""
        return 3 * len(self.bundles)

    def _counted(self, checks: Mapping[int, GroupCheck]) -> Sql:
        """A query for the counts of all FDs of a bundle, a row each."""
        if len(checks) == 1:
            return Pairing(self.tables, checks, {}, self.most).query()
        lanes = sorted({lane for check in checks.values() for lane in lanes_of(self.tables, check)})
        names = {lane: f"l{at}" for at, lane in enumerate(lanes)}
        rows = ", ".join(f"{written(lane)} as {name}" for lane, name in names.items())
        every = ", ".join(names.values())
        source = self.tables.sources[self.table]
        combinations = f"(select {every}, count(1) as n from (select {rows} from {source}) group by {every}) as t"
        elements = []
        for number, check in checks.items():
            (hi, lo), (a, b) = sides(self.tables, check)
            known = " and ".join(f"{names[lane]} is not null" for lane in (hi, lo, a) if lane is not None)
            group, kind = (names[hi], lo and names[lo]), (names[a], b and names[b])
            elements.append(Element(number, self.table, known, group, values=[kind], measured={0: "n"}))
        shape = ElementShape.of(elements, {0: "bigint"})
        # few of them are alike, so that one shuffle serves both groupings and nothing is grouped before it: account ->
        # four columns on 10M rows (1M combinations) took 9.4 s of CPU so, and 12.5 with a shuffle for each
        found = spread({self.table: combinations}, elements, shape)
        apart = f"select /*+ repartition({', '.join(shape.group)}) */ * from ({found})"
        return pair_totals(apart, shape, self.most, alone=None, weight="sum(m0)")

    def totals(self) -> DataFrame:
        """A row a check, of all groupings in one job."""
        return self.tables.ask(" union all ".join(f"({self._counted(bundle)})" for bundle in self.bundles))

    def run(self) -> dict[int, Found]:
        """By check what was found."""
        return found_in(self.totals().toArrow())[0]
