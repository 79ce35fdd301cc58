"""One inclusion alone: an anti join, which is what a query by hand would do, in place of an aggregation.

Where rows have to be counted as well, it is an existence join, which keeps them all. Spark chooses how to join by the
size of the other table; a small one is sent to all tasks and nothing is shuffled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame

from holdstrue.monitor.sharded_check import ROW
from holdstrue.plan.checks import ReferenceCheck
from holdstrue.spark.catalyst.detecting import Found, Tables, reference_elements
from holdstrue.spark.catalyst.elements import Element
from holdstrue.spark.catalyst.lanes import Sql, written
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

    def _provided(self) -> Sql:
        """Whether the value of a row of `:hi` and `:lo` is there."""
        refers, provides = self._sides()
        hi, lo = provides.group
        assert (lo is None) == (refers.group[1] is None)
        lanes = [f"{hi} as `:there`", *([] if lo is None else [f"{lo} as `:there too`"])]
        same = ["`:there` = `:hi`", *([] if lo is None else ["`:there too` = `:lo`"])]
        others = f"select {written(', '.join(lanes))} from {self.tables.sources[self.check.ref_table]}"
        return f"exists (select 1 from ({others} where {written(provides.given)}) where {' and '.join(same)})"

    def _rows(self, source: Sql, kept: Sql) -> Sql:
        """A query for the rows of a source: what is kept of them, whether they refer, and to what."""
        refers, _ = self._sides()
        hi, lo = refers.group
        lanes = [f"{hi} as `:hi`", *([] if lo is None else [f"{lo} as `:lo`"])]
        return f"select {written(', '.join((kept, f'{refers.given} as `:refers`', *lanes)))} from {source}"

    def totals(self) -> DataFrame:
        """One row: the rows that miss their value, and those of tables that are not known."""
        check, sources, known = self.check, self.tables.sources, self.known
        rows = self._rows(sources[check.table], "1 as `:one`")
        if check.table in known:
            own = f"select count(1) as missing from ({rows}) where `:refers` and not {self._provided()}"
        else:
            own = (
                "select count(1) as `rows`, count_if(`:refers` and not `:provided`) as missing "
                f"from (select *, {self._provided()} as `:provided` from ({rows}))"
            )
        if check.ref_table != check.table and check.ref_table not in known:
            own = f"select * from ({own}) cross join (select count(1) as provided from {sources[check.ref_table]})"
        return self.tables.ask(own)

    def run(self) -> tuple[Found, dict[str, int]]:
        """What was found, and the rows of each table."""
        [row] = self.totals().toArrow().to_pylist()
        counted = {self.check.ref_table: row.get("provided"), self.check.table: row.get("rows")}
        return Found(row["missing"]), {**self.known, **{n: rows for n, rows in counted.items() if rows is not None}}

    def named(self, columns: list[str], most: int) -> pa.Table:
        """The first rows that miss their value."""
        own_rows = self.tables.sources[self.check.table]
        source = f"(select *, monotonically_increasing_id() as {quoted(ROW)} from {own_rows})"
        rows = self._rows(source, f"struct({', '.join(map(quoted, (ROW, *columns)))}) as row")
        missing = f"({rows}) where `:refers` and not {self._provided()}"
        told = self.tables.ask(f"select min_by(row, row.{quoted(ROW)}, {most}) as rows from {missing}")
        found = told.toArrow().combine_chunks()
        own = found.column("rows").combine_chunks().flatten()
        schema = pa.schema(
            [pa.field(ROW, pa.int64()), *(self.tables.plan.schemas[self.check.table].field(n) for n in columns)]
        )
        parts = [own.field(i) for i in range(own.type.num_fields)]
        return pa.Table.from_arrays(parts, [f.name for f in own.type]).cast(schema)
