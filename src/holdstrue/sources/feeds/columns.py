"""The rows of events as a table: each column as its schema block says, or else as the type of the table's column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from holdstrue.errors import ChangeError
from holdstrue.sources.feeds.cells import Cells
from holdstrue.sources.feeds.connect import Field, Fields
from holdstrue.sources.feeds.decoding import decode
from holdstrue.sources.feeds.schemaless import needs_reading, read_column
from holdstrue.sources.feeds.target import Target
from holdstrue.sources.fit import fit_column

MARKS = ("__op", "__deleted")
"""Columns of flattened rows that say what happened."""

_UNITS = ("s", "ms", "us", "ns")

Place = Callable[[int], str]


def records_rows(
    records: Sequence[Mapping[str, Any]], fields: Sequence[Fields], target: Target, place: Place
) -> pa.Table:
    """Rows that are JSON objects, each with the fields its schema block describes.

    Columns that the table does not have and that may be left out are not read. Complexity: O(rows x columns).
    """
    names: dict[str, None] = {}
    for record in records:
        names.update(dict.fromkeys(record))
    wanted = [name for name in names if _is_read(name, target)]
    fields = _shared(fields)
    columns = []
    for name in wanted:
        values = [record.get(name) for record in records]
        columns.append(_column(name, values, [part.get(name) for part in fields], target, place))
    return pa.table(columns, names=wanted)


def table_rows(columns: Mapping[str, Any], fields: Sequence[Fields], target: Target, place: Place) -> pa.Table:
    """Rows that are columns already, which may hold what JSON has for other types; lists hold several types."""
    fields = _shared(fields)
    wanted = {name: column for name, column in columns.items() if _is_read(name, target)}
    for name, column in wanted.items():
        kinds = [part.get(name) for part in fields]
        if isinstance(column, list):
            wanted[name] = _column(name, column, kinds, target, place)
        elif any(kinds) or _needs_reading(name, column.type, target):
            wanted[name] = _column(name, column.to_pylist(), kinds, target, place)
    return pa.table(wanted)


def _needs_reading(name: str, have: pa.DataType, target: Target) -> bool:
    type_ = target.type_of(name)
    return name in target.units if type_ is None else needs_reading(have, type_)


def _is_read(name: str, target: Target) -> bool:
    return target.schema is None or target.extra == "error" or name in target.names or name in MARKS


def _shared(fields: Sequence[Fields]) -> Sequence[Fields]:
    """The fields of each row; one for all where they share them."""
    return fields if any(part is not fields[0] for part in fields) else fields[:1]


def _column(name: str, values: list[Any], kinds: Sequence[Field | None], target: Target, place: Place) -> Any:
    wanted, unit = target.type_of(name), target.units.get(name)
    distinct = list(dict.fromkeys(kinds))
    if len(distinct) <= 1:
        return _read(Cells(name, values, place, unit), distinct[0] if distinct else None, wanted)
    parts = []
    for kind in distinct:
        rows = [i for i, other in enumerate(kinds) if other == kind]
        at = _at(rows, place)
        part = _read(Cells(name, [values[i] for i in rows], at, unit), kind, wanted)
        if part.null_count < len(part):
            parts.append((rows, kind, part, at))
    if not parts:
        return pa.nulls(len(values), wanted)
    type_ = wanted or _common(name, parts)
    fitted = [fit_column(part, type_, name=name, place=at, error=ChangeError) for _, _, part, at in parts]
    order: list[int | None] = [None] * len(values)
    for number, i in enumerate(i for rows, *_ in parts for i in rows):
        order[i] = number
    flat = [chunk for part in fitted for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return pa.chunked_array(flat, type=type_).take(pa.array(order, pa.int64()))


def _read(cells: Cells, field: Field | None, wanted: pa.DataType | None) -> Any:
    return read_column(cells, wanted) if field is None else decode(cells, field, wanted)


def _at(rows: Sequence[int], place: Place) -> Place:
    return lambda i: place(rows[i])


def _common(name: str, parts: Sequence[tuple[list[int], Field | None, Any, Place]]) -> pa.DataType:
    """The type of a column whose schema changed between events, where one holds all its values."""
    (_, first, one, here), *others = parts
    type_ = one.type
    for _, field, part, there in others:
        found = _wider(type_, part.type)
        if found is None:
            raise ChangeError(
                f"{there(0)}: column {name!r} is {field or part.type}, but {first or type_} at {here(0)}",
                hint="apply the events before and after the column's change as two batches",
            )
        type_ = found
    return type_


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of two: decimals of more digits, times of a finer unit.

    >>> _wider(pa.decimal128(10, 2), pa.decimal128(12, 4)), _wider(pa.int64(), pa.string())
    (Decimal128Type(decimal128(12, 4)), None)
    """
    if one == other:
        return one
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        scale = max(one.scale, other.scale)
        precision = max(one.precision - one.scale, other.precision - other.scale) + scale
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(min(precision, 76), scale)
    for test in (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_time):
        if test(one) and test(other) and getattr(one, "tz", None) == getattr(other, "tz", None):
            return max(one, other, key=lambda type_: _UNITS.index(type_.unit))
    return None
