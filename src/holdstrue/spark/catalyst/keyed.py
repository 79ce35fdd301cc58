"""One key alone: rows grouped by it and counted, which is what a query by hand would do."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from holdstrue.plan.checks import GroupCheck
from holdstrue.spark.catalyst.detecting import Found, Tables, halves, left_side, member, whole_of
from holdstrue.spark.catalyst.lanes import written

SAMPLED_FROM = 2_000_000
"""Rows from which on a sample says how to group them: 10M different keys took 4.6 s of CPU where they were sent to
their tasks at once, and 7.5 s where these grouped them before. The sample takes 0.8 s. The bound itself was chosen."""
SAMPLED = 10_000
HOLDING = 0.99
"""Of sampled keys that are different. Chosen, not tuned."""


@dataclass(frozen=True)
class Keyed:
    """The rows of a table by the columns of a key."""

    tables: Tables
    check: GroupCheck
    most: int
    """How many groups of several rows are told."""
    known: int | None
    """How many rows the table has; where that is not known they are counted on the way."""

    @property
    def shuffles(self) -> int:
        """By group, and what partitions found to one of them."""
        return 2

    def totals(self) -> DataFrame:
        """One row."""
        source, given = self.tables.sources[self.check.table], member(self.tables, self.check)
        lanes = [lane for lane in left_side(self.tables, self.check) if lane is not None]
        names = ["hi", "lo"][: len(lanes)]
        counted = self.known is None
        if counted:
            # rows without a key are in the group NULL: a key of which a column is not known gives NULL by itself,
            # unless NULLs are equal
            plain = self.check.member is None and (self.check.nulls_equal or len(lanes) == 1)
            lanes = lanes if plain else [f"if({given}, {lane}, null)" for lane in lanes]
        key = ", ".join(names)
        rows = ", ".join(f"{written(lane)} as {name}" for lane, name in zip(lanes, names, strict=True))
        rows = f"select {rows} from {source}" + ("" if counted else f" where {written(given)}")
        if (self.known or 0) >= SAMPLED_FROM and self._mostly_holds(self.tables.ask(rows)):
            # tasks would group rows of which no two are alike before they send them
            rows = f"select /*+ repartition({key}) */ * from ({rows})"
        groups = f"select {key}, count(1) as n from ({rows}) group by {key}"
        many, only = ("filter (where n > 1 and hi is not null)", "") if counted else ("", " where n > 1")
        (_, upper), (_, lower) = halves("(n * (n - 1))")
        told = [
            "sum(n) as counted",
            f"count(1) {many} as groups",
            f"sum(n) {many} as rows",
            f"sum({upper}) {many} as upper",
            f"sum({lower}) {many} as lower",
        ]
        if self.most:
            group = f"named_struct('hi', hi, 'lo', {'lo' if len(lanes) == 2 else '0L'}, 'n', n)"
            told.append(f"max_by({group}, hi, {self.most}) {many} as chosen")
        return self.tables.ask(f"select {', '.join(told)} from ({groups}){only}")

    def _mostly_holds(self, rows: DataFrame) -> bool:
        """Whether hardly two rows of a sample share a key."""
        drawn = rows.sample(fraction=min(1.0, SAMPLED / (self.known or SAMPLED)), seed=0).na.drop()
        [(some, kinds)] = drawn.selectExpr("count(1)", f"count(distinct {', '.join(rows.columns)})").collect()
        return bool(kinds >= HOLDING * some)

    def run(self) -> tuple[Found, int]:
        """What was found, and how many rows were counted."""
        [row] = self.totals().toArrow().to_pylist()
        chosen = tuple((g["hi"], g["lo"], g["n"], None) for g in row.get("chosen") or ())
        pairs = whole_of(row["upper"] or 0, row["lower"] or 0) // 2
        return Found(row["rows"] or 0, pairs, row["groups"], chosen), row["counted"] or 0
