"""What the rows of tables contribute to an aggregation that serves many rules: (side, group, counts, values).

A side is what rows are grouped by for one or more checks. A row is written once for each side, with all of them in
one array, so that a table is read once and every side is aggregated in the same shuffle. Sides put their counts and
values at the same places, so that twenty rules need no more columns than the widest side has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType

from holdstrue.spark.catalyst.lanes import Lanes

@dataclass
class Element:
    """What a row of a table gives to one side."""

    side: int
    table: str
    given: Column
    """Whether the row gives anything; never NULL."""
    group: Lanes
    flags: list[Column] = field(default_factory=list)
    """Conditions that are counted by group; never NULL."""
    values: list[Lanes] = field(default_factory=list)
    """Values whose smallest and largest are kept by group."""
    measured: dict[int, Column] = field(default_factory=dict)
    """By number the columns that measures of the table are made of."""

    def flag(self, condition: Column) -> int:
        """Count a condition; returns its place."""
        self.flags.append(condition)
        return len(self.flags) - 1

    def value(self, lanes: Lanes) -> int:
        """Keep the extremes of a value; returns its place."""
        self.values.append(lanes)
        return len(self.values) - 1


def long(number: int | None) -> Column:
    """A constant of 64 bits."""
    return F.lit(number).cast("long")


@dataclass(frozen=True)
class Shape:
    """The columns that elements have in common."""

    flags: int
    values: tuple[str, ...]
    """By place the lanes that values have: `a` or `ab`."""
    measured: Mapping[int, DataType]
    wide: bool
    """Whether groups have two lanes."""

    @staticmethod
    def of(elements: Sequence[Element], measured: Mapping[int, DataType]) -> Shape:
        """As wide as the widest."""
        places = range(max((len(e.values) for e in elements), default=0))
        return Shape(
            max((len(e.flags) for e in elements), default=0),
            tuple("ab" if any(e.values[at][1] is not None for e in elements if at < len(e.values)) else "a" for at in places),
            measured,
            any(e.group[1] is not None for e in elements),
        )

    @property
    def group(self) -> tuple[str, ...]:
        """The columns that tell groups apart."""
        return ("side", "hi", "lo") if self.wide else ("side", "hi")

    def fields(self, element: Element) -> list[Column]:
        """An element as columns."""
        hi, lo = element.group
        found = [F.lit(element.side).alias("side"), hi.alias("hi")]
        if self.wide:
            found.append((long(0) if lo is None else lo).alias("lo"))
        for at in range(self.flags):
            flag = F.when(element.flags[at], F.lit(1)) if at < len(element.flags) else F.lit(None).cast("int")
            found.append(flag.alias(f"f{at}"))
        for at, lanes in enumerate(self.values):
            a, b = element.values[at] if at < len(element.values) else (long(None), None)
            found.append(a.alias(f"a{at}"))
            if lanes == "ab":
                found.append((long(None) if b is None else b).alias(f"b{at}"))
        for number, kind in self.measured.items():
            own = element.measured.get(number, F.lit(None))
            found.append(own.cast(kind).alias(f"m{number}"))
        return found


def spread(frames: Mapping[str, DataFrame], elements: Sequence[Element], shape: Shape) -> DataFrame:
    """The elements of all rows of all tables, each table read once."""
    found: DataFrame | None = None
    for table in dict.fromkeys(element.table for element in elements):
        own = [element for element in elements if element.table == table]
        frame = frames[table]
        if len(own) == 1:
            rows = frame.where(own[0].given).select(*shape.fields(own[0]))
        else:
            written = [F.when(element.given, F.struct(*shape.fields(element))) for element in own]
            rows = frame.select(F.inline(F.array(*written))).where(F.col("side").isNotNull())
        found = rows if found is None else found.unionAll(rows)
    if found is None:
        raise ValueError("no elements")
    return found
