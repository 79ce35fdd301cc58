"""Violations as data frames, and rows of data frames by key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import BooleanType, ByteType, DataType, StringType, StructField, StructType

from holdstrue.detect.delta import plain
from holdstrue.monitor.known import KnownViolations, is_known
from holdstrue.shards.layout import Layout
from holdstrue.shards.lists import violation_of
from holdstrue.spark.runner import column


def key_type(layout: Layout, checks: Iterable[int]) -> pa.DataType | None:
    """The type that names rows: the key's, a struct for several columns; None where keys differ by table."""
    tables = {layout.plan.checks[check].table for check in checks}
    kinds = {_key_of(layout.plan.schemas[table], layout.keys[table]) for table in tables if _seen(layout, table)}
    return kinds.pop() if len(kinds) == 1 else None


def _seen(layout: Layout, table: str) -> bool:
    """Whether the table has had rows, so that the types of its key are known."""
    schema = layout.plan.schemas[table]
    return not any(pa.types.is_null(schema.field(name).type) for name in layout.keys[table])


def _key_of(schema: pa.Schema, key: Sequence[str]) -> pa.DataType:
    fields = [schema.field(name) for name in key]
    return fields[0].type if len(fields) == 1 else pa.struct([pa.field(f.name, f.type) for f in fields])


def violations_type(key: pa.DataType | None, *, change: bool = False) -> StructType:
    """Columns of a data frame of violations."""
    name: DataType = StringType() if key is None else from_arrow_type(key)
    return StructType(
        [
            StructField("rule", StringType()),
            *([StructField("change", ByteType())] if change else []),
            StructField("pair", BooleanType()),
            StructField("t", name),
            StructField("s", name),
        ]
    )


def violations_frame(
    source: DataFrame,
    stage: Any,
    layout: Layout,
    checks: Iterable[int],
    *,
    change: bool = False,
    known: Mapping[str, KnownViolations] | None = None,
) -> DataFrame:
    """The lists that a stage makes, as a data frame of rule, t and s; t and s as text where keys differ by table.

    With `change` also whether a violation was added (1) or removed (-1). Violations that are `known` are left out.
    """
    key = key_type(layout, checks)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in stage(batches):
            own = unknown(table, known) if known else table
            yield from in_frame(own, key, change=change).to_batches()

    return source.mapInArrow(run, violations_type(key, change=change))


def unknown(violations: pa.Table, known: Mapping[str, KnownViolations]) -> pa.Table:
    """A list of violations without those that are accepted."""
    return violations.filter(pa.array([not is_known(violation_of(row), known) for row in violations.to_pylist()]))


def in_frame(table: pa.Table, key: pa.DataType | None, *, change: bool) -> pa.Table:
    """A list of violations with the columns of a data frame."""
    t, s = table.column("t"), table.column("s")
    if key is not None and pa.types.is_null(t.type):  # of a table that has had no rows
        t, s = t.cast(key), s.cast(key)
    if key is None:
        t, s = (pa.array([as_text(value) for value in side.to_pylist()], pa.string()) for side in (t, s))
    columns = {"rule": table.column("rule"), "change": table.column("change"), "pair": table.column("pair")}
    if not change:
        del columns["change"]
    return pa.table({**columns, "t": t, "s": s})


def as_text(value: Any) -> str | None:
    """A key as text: its value, or its values joined by commas."""
    if value is None:
        return None
    parts = value.values() if isinstance(value, dict) else (value,)
    return ", ".join(str(plain(part)) for part in parts)


def rows_with_keys(frame: DataFrame, key: Sequence[str], columns: Sequence[str], keys: Iterable[Any]) -> pa.Table:
    """The rows of a data frame with these keys, and some columns. One job."""
    names = list(dict.fromkeys((*key, *columns)))
    return with_keys(frame.select(*(column(name) for name in names)), key, keys).toArrow()


def with_keys(frame: DataFrame, key: Sequence[str], keys: Iterable[Any]) -> DataFrame:
    """The rows of a data frame with these keys."""
    wanted = [value if isinstance(value, tuple) else (value,) for value in keys]
    aliases = [f":key {i}" for i in range(len(key))]
    schema = StructType([StructField(a, frame.schema[name].dataType) for a, name in zip(aliases, key, strict=True)])
    # keys come out of Arrow, so that they go back the same way, whatever their types
    asked = F.broadcast(frame.sparkSession.createDataFrame(wanted, schema))
    # without a constraint on it, a key may be NULL
    match = [column(name).eqNullSafe(column(alias)) for name, alias in zip(key, aliases, strict=True)]
    return frame.join(asked, match, "left_semi")


def by_key(rows: pa.Table, key: Sequence[str], columns: Sequence[str]) -> dict[Any, dict[str, Any]]:
    """Rows that are told by their key, as plain data."""
    found = {}
    for row in rows.to_pylist():
        parts = tuple(row[name] for name in key)
        found[parts[0] if len(parts) == 1 else parts] = {name: row[name] for name in columns}
    return found
