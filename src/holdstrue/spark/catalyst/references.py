"""One inclusion alone: an anti join, which is what a query by hand would do, in place of an aggregation.

Where rows have to be counted as well, it is an existence join, which keeps them all. Spark chooses how to join by the
size of the other table; a small one is sent to all tasks and nothing is shuffled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.monitor.sharded_check import ROW
from holdstrue.plan.checks import ReferenceCheck
from holdstrue.spark.catalyst.detecting import Found, Tables, reference_elements
from holdstrue.spark.catalyst.elements import Element
from holdstrue.spark.runner import quoted


@dataclass(frozen=True)
class Referring:
    """The rows of a table, each with whether the value that it refers to is provided."""

    tables: Tables
    check: ReferenceCheck
    known: Mapping[str, int] = field(default_factory=dict)
    """Rows of tables that need not be counted."""

    @property
    def scanned(self) -> tuple[str, ...]:
        """The tables that are read."""
        return tuple(dict.fromkeys((self.check.table, self.check.ref_table)))

    def _sides(self) -> tuple[Element, Element]:
        return reference_elements(self.tables, self.check, 0)

    def _provided(self) -> Column:
        """Whether the value of a row of `:hi` and `:lo` is there."""
        refers, provides = self._sides()
        hi, lo = provides.group
        columns = [f"{hi} as `:there`", *([] if lo is None else [f"{lo} as `:there too`"])]
        others = self.tables.frames[self.check.ref_table].where(provides.given).selectExpr(*columns)
        same = F.col("`:there`") == F.col("`:hi`").outer()
        if lo is not None:
            same = same & (F.col("`:there too`") == F.col("`:lo`").outer())
        assert (lo is None) == (refers.group[1] is None)
        return others.where(same).exists()

    def _rows(self, frame: DataFrame, kept: str) -> DataFrame:
        refers, _ = self._sides()
        hi, lo = refers.group
        lanes = [f"{hi} as `:hi`", *([] if lo is None else [f"{lo} as `:lo`"])]
        own = frame.selectExpr(kept, f"{refers.given} as `:refers`", *lanes)
        return own.select("*", self._provided().alias(":provided"))

    def totals(self) -> DataFrame:
        """One row: the rows that miss their value, and those of tables that are not known."""
        check, frames, known = self.check, self.tables.frames, self.known
        rows = self._rows(frames[check.table], "1 as `:one`")
        if check.table in known:
            own = rows.where("`:refers` and not `:provided`").selectExpr("count(1) as missing")
        else:
            own = rows.selectExpr("count(1) as `rows`", "count_if(`:refers` and not `:provided`) as missing")
        if check.ref_table == check.table or check.ref_table in known:
            return own
        return own.crossJoin(frames[check.ref_table].selectExpr("count(1) as provided"))

    def run(self) -> tuple[Found, dict[str, int]]:
        """What was found, and the rows of each table."""
        [row] = self.totals().toArrow().to_pylist()
        counted = {self.check.ref_table: row.get("provided"), self.check.table: row.get("rows")}
        return Found(row["missing"]), {**self.known, **{n: rows for n, rows in counted.items() if rows is not None}}

    def named(self, columns: list[str], most: int) -> pa.Table:
        """The first rows that miss their value."""
        frame = self.tables.frames[self.check.table].withColumn(ROW, F.monotonically_increasing_id())
        kept = f"struct({', '.join(map(quoted, (ROW, *columns)))}) as row"
        missing = self._rows(frame, kept).where("`:refers` and not `:provided`")
        found = missing.agg(F.expr(f"min_by(row, row.{quoted(ROW)}, {most}) as rows")).toArrow().combine_chunks()
        own = found.column("rows").combine_chunks().flatten()
        schema = pa.schema(
            [pa.field(ROW, pa.int64()), *(self.tables.plan.schemas[self.check.table].field(n) for n in columns)]
        )
        parts = [own.field(i) for i in range(own.type.num_fields)]
        return pa.Table.from_arrays(parts, [f.name for f in own.type]).cast(schema)
