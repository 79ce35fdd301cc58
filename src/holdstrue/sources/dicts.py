"""Turn a list of records (dicts) into a table, with the row named where a value does not fit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.values import NUMBERS, family_of
from holdstrue.errors import DataError
from holdstrue.sources.fit import first_failing, fit_column, is_bytes, is_text, misfit, parse_temporal


def records_table(
    records: Sequence[Mapping[str, Any]],
    *,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    place: Callable[[int], str] = lambda i: f"record {i + 1}",
    temporal: bool = False,
    error: type[DataError] = DataError,
) -> pa.Table:
    """A table with one row a record and a column for every name that occurs, in order of appearance.

    Parameters
    ----------
    records
        The rows; a name that a record lacks is NULL there.
    columns
        Only these names (those that occur).
    schema
        The types of the columns it names; others are inferred.
    place
        How to name row i in a message.
    temporal
        Whether text columns that hold only dates or times become such (for JSON, which has no literal).
    error
        What to raise.

    Examples
    --------
    >>> records_table([{"id": 1}, {"id": 2, "zip": "10001"}]).to_pydict()
    {'id': [1, 2], 'zip': [None, '10001']}
    >>> records_table([{"id": 1}, {"id": "x"}])
    Traceback (most recent call last):
    holdstrue.errors.DataError: record 2: column 'id' holds 'x', but record 1 holds 1
    hint: give the column one type
    """
    names: dict[str, None] = {}
    for record in records:
        names.update(dict.fromkeys(record))
    wanted = list(names) if columns is None else [name for name in columns if name in names]
    arrays = []
    for name in wanted:
        values = [record.get(name) for record in records]
        type_ = schema.field(name).type if schema is not None and name in schema.names else None
        arrays.append(values_column(values, type_, name, place, temporal=temporal, error=error))
    return pa.table(arrays, names=wanted)


def values_column(
    values: list[Any],
    type_: pa.DataType | None,
    name: str,
    place: Callable[[int], str],
    *,
    temporal: bool = False,
    error: type[DataError] = DataError,
) -> Any:
    """The values of one column of records, as a type or as what they suggest (see `records_table`)."""
    if type_ is not None and family_of(type_) != "null":
        return _typed(values, type_, name, place, error)
    array = _inferred(values, name, place, error)
    return parse_temporal(array) if temporal and is_text(array.type) else array


def _typed(
    values: list[Any], type_: pa.DataType, name: str, place: Callable[[int], str], error: type[DataError]
) -> Any:
    """Values as a known type; a column of several Python types is converted value by value."""
    try:
        array = _array(values)
    except _REFUSED:
        parts = [_one(value, type_, name, place(row), error) for row, value in enumerate(values)]
        return pa.concat_arrays(parts)
    if isinstance(array.type, pa.BaseExtensionType):
        return pa.concat_arrays([_one(value, type_, name, place(row), error) for row, value in enumerate(values)])
    return fit_column(array, type_, name=name, place=place, error=error)


def _one(value: Any, type_: pa.DataType, name: str, place: str, error: type[DataError]) -> Any:
    """One value as a known type; whole numbers of up to 38 digits on their way as decimals, which stay exact."""
    try:
        array = _array([value])
    except _REFUSED:
        if type(value) is not int or abs(value) >= 10**38:
            raise error(misfit(place, name, value, type_), hint="no type of Arrow has such a value") from None
        array = pa.array([value], pa.decimal128(38, 0))
    if type(value) is int and family_of(type_) not in NUMBERS:
        raise error(misfit(place, name, value, type_))
    if isinstance(array.type, pa.BaseExtensionType) and not is_bytes(type_):
        # a UUID: its bytes are not what people know it by
        raise error(misfit(place, name, value, type_), hint="give it as text: str(value)")
    return fit_column(array, type_, name=name, place=lambda _: place, error=error)


def _inferred(values: list[Any], name: str, place: Callable[[int], str], error: type[DataError]) -> Any:
    """Values as the type they suggest; whole numbers beyond 64 bits as decimals, which stay exact."""
    try:
        return _array(values)
    except _REFUSED:
        pass
    if all(value is None or type(value) is int for value in values):
        try:
            return pa.array(values, pa.decimal128(38, 0))
        except _REFUSED:
            row = next(i for i, value in enumerate(values) if value is not None and abs(value) >= 10**38)
            raise error(
                f"{place(row)}: column {name!r} holds {values[row]}, which has over 38 digits",
                hint="give it as text",
            ) from None
    row = first_failing(len(values), lambda _, end: _array(values[:end]), _REFUSED)
    other = next((i for i in range(row) if not _together([values[i], values[row]])), None)
    if other is None:
        raise error(f"{place(row)}: column {name!r} holds {values[row]!r}", hint="no type of Arrow has such a value")
    raise error(
        f"{place(row)}: column {name!r} holds {values[row]!r}, but {place(other)} holds {values[other]!r}",
        hint="give the column one type",
    )


def _together(values: list[Any]) -> bool:
    try:
        _array(values)
    except _REFUSED:
        return False
    return True


def _array(values: list[Any]) -> Any:
    """Values as Arrow takes them, except that it takes true for 1.0 beside floats (and refuses it beside integers)."""
    # of NumPy's unsigned numbers beside floats Arrow makes negative ones, and 1 of its true beside integers
    values = [value.item() if isinstance(value, (np.integer, np.bool_)) else value for value in values]
    array = pa.array(values)
    if pa.types.is_temporal(array.type) or is_text(array.type) or is_bytes(array.type):
        _require_one_kind(values)
    if pa.types.is_floating(array.type) and any(isinstance(value, bool) for value in values):
        raise pa.ArrowInvalid("true and false are not numbers")
    return array


def _require_one_kind(values: list[Any]) -> None:
    """Refuse what Arrow would make one of: days and times of a day, times with a zone and without, text and bytes."""
    kinds = {(type(value), getattr(value, "tzinfo", None) is None) for value in values if value is not None}
    if len(kinds) > 1:
        raise pa.ArrowInvalid("values of several kinds")
    if (dt.time, False) in kinds:
        raise pa.ArrowInvalid("times of a day have no zone in Arrow, which would leave it out")


_REFUSED = (pa.ArrowException, OverflowError, TypeError, ValueError)
