"""Suspects as a data frame: they grow with the table, so they stay where they were found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.discovery.suspects.answer import SURE, Suspect, Suspects, not_one_row
from holdstrue.errors import HoldstrueError
from holdstrue.spark.runner import column, quoted


@dataclass(frozen=True)
class FrameSuspects:
    """The cells of a data frame that are probably wrong.

    `frame` has a row a suspect: `row` (the key, a struct of several columns, or a number that says where Spark read
    the row), `column`, `value` and `proposed` as text, `confidence`, `why`, and `rows` that say so. It is kept on the
    executors until nobody refers to it.
    """

    frame: DataFrame
    rows: int
    """How many rows the table has."""
    columns: Mapping[str, int]
    """How many suspects each column has that has some."""
    parts: int = 1
    """In how many parts the table was looked at."""
    cut: str | None = None
    """The column of which every part has all rows of a value."""
    key: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    """The rules that voted, in some part."""
    notes: tuple[str, ...] = ()
    table: DataFrame | None = field(default=None, repr=False)
    least: float = 0.0
    """How sure those are that `at_least` left; 0 where all were left."""

    def __len__(self) -> int:
        return sum(self.columns.values())

    def __repr__(self) -> str:
        return f"FrameSuspects({len(self)} cells of {self.rows} rows, by {len(self.rules)} rules)"

    def at_least(self, confidence: float) -> FrameSuspects:
        """Those that are at least so sure."""
        frame = self.frame.where(F.col("confidence") >= confidence)
        return replace(self, frame=frame, columns=by_column(frame), least=confidence)

    def first(self, most: int = 20) -> Suspects:
        """The surest of them, here."""
        lines = self.frame.orderBy(F.desc("confidence"), "column", "row").limit(most).toArrow().to_pylist()
        found = tuple(
            Suspect(
                _key(line["row"]),
                line["column"],
                line["value"],
                line["proposed"],
                line["confidence"],
                tuple(line["why"]),
                tuple(map(_key, line["rows"])),
            )
            for line in lines
        )
        counts = self.columns if len(self) > len(found) else None
        return Suspects(found, self.rows, self.key, rules=self.rules, notes=self.notes, least=self.least, counts=counts)

    def patch(self, least: float | None = None) -> DataFrame:
        """The rows with the proposed values of suspects that are at least so sure, as updates that `apply` reads.

        Unless it is given, as sure as `at_least` demanded, or 0.9. Nothing is changed by itself: look at it, then
        `monitor.apply(patch)`. Bytes have no patch, having no text. Runs a job that looks whether the key names one
        row each.
        """
        if least is None:
            least = self.least or SURE
        if not self.key or self.table is None:
            raise HoldstrueError(
                "a patch updates rows by their key, and none is given",
                hint="name the columns that tell rows apart: key='id'",
            )
        chosen = self.frame.where((F.col("confidence") >= least) & F.col("proposed").isNotNull())
        texts = {f.name: f.dataType.simpleString() for f in self.table.schema}
        texts = {name: kind for name, kind in texts.items() if name not in self.key and kind != "binary"}
        chosen = chosen.where(F.col("column").isin(list(texts)))
        pairs = F.map_from_entries(F.collect_list(F.struct("column", "proposed")))
        mended = chosen.groupBy("row").agg(pairs.alias(":mended")).withColumnRenamed("row", ":named")
        named = F.struct(*map(column, self.key)) if len(self.key) > 1 else column(self.key[0])
        found = self.table.join(mended, named.eqNullSafe(F.col(":named")))
        self._require_one_row_each(found)
        op = "op"
        while op in self.table.columns:
            op = f"_{op}"
        own = [
            F.expr(f"coalesce(cast(`:mended`[{_literal(name)}] as {texts[name]}), {quoted(name)})").alias(name)
            if name in texts
            else column(name)
            for name in self.table.columns
        ]
        return found.select(F.lit("update").alias(op), *own)

    def _require_one_row_each(self, found: DataFrame) -> None:
        """Refuse a patch whose key does not name one row: it would be applied to others, or to none."""
        unknown = reduce(or_, (column(name).isNull() for name in self.key))
        counted = found.groupBy(*map(column, self.key)).agg(F.count("*").alias(":times"))
        wrong = counted.where(unknown | (F.col(":times") > 1)).drop(":times").limit(1).collect()
        if wrong:
            raise not_one_row(self.key, wrong[0].asDict())


def by_column(frame: DataFrame) -> dict[str, int]:
    """How many suspects each column has, the most first."""
    counted = frame.groupBy("column").count().orderBy(F.desc("count"), "column").collect()
    return {line["column"]: line["count"] for line in counted}


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _key(named: Any) -> Any:
    return tuple(named.values()) if isinstance(named, dict) else named
