"""Measures of whole tables in SQL: what Spark aggregates, and what kernels would have kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import DecimalType

from holdstrue.data.exact import whole, words_of
from holdstrue.plan.measures import Aggregate, Part
from holdstrue.spark.catalyst.lanes import Inexpressible, Sql, family

if TYPE_CHECKING:
    from holdstrue.spark.catalyst.detecting import Tables

_MOST_SUMMED = 28
"""Digits of decimals whose sums Spark holds for ten thousand million rows."""


def measured(tables: Tables, measure: Aggregate) -> list[tuple[str, Sql, str]]:
    """The columns a measure is made of, each with how it is aggregated and its type."""
    wanted = tables.conditions[measure.table].holds(measure.member)
    if measure.column is None:
        return [("count", f"if({wanted}, 1L, null)", "bigint")]
    values = tables.values[measure.table]
    kind, own = values.type(measure.column), family(values.type(measure.column))
    value = f"if({wanted}, {values.plain(measure.column)}, null)"
    known = ("count", f"if({value} is null, null, 1L)", "bigint")
    if measure.function == "count":
        return [known]
    type_ = {"float": "double", "integer": "bigint"}.get(own, kind.simpleString())
    if measure.is_extreme:
        if own in ("text", "bytes", "bool"):
            raise Inexpressible(measure.text)
        return [known, ("min" if measure.function == "min" else "max", value, type_)]
    if own == "integer":
        # both halves of 64 bits, whose sums 64 bits hold for 2^31 rows and more
        return [known, ("sum", f"shiftright({value}, 32)", "bigint"), ("sum", f"({value} & {0xFFFF_FFFF}L)", "bigint")]
    if isinstance(kind, DecimalType) and kind.precision <= _MOST_SUMMED:
        return [known, ("sum", value, type_)]
    raise Inexpressible(measure.text)


def part_of(measure: Aggregate, found: Sequence[pa.Array]) -> Part:
    """What kernels would have kept of the measure."""
    count = found[0][0].as_py() or 0
    if measure.function == "count":
        return (count,)
    numbers = [whole(words_of(array))[0] if array.null_count == 0 else None for array in found[1:]]
    if measure.is_extreme:
        return count, numbers[0]
    if len(numbers) == 2:
        return count, ((numbers[0] or 0) << 32) + (numbers[1] or 0)
    return count, numbers[0] or 0
