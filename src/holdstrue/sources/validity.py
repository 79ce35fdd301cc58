"""Arrow memory checked once, where it comes in: what passes can be given to compiled code, which checks nothing.

Arrow's readers of IPC, the C data interface and tables made from buffers check nothing of what `data/validity.py`
does, and its reader of Parquet takes text as it is; so all of these pass here, columns that are not read excepted.
Its readers of CSV and JSON build their columns value by value and check that text is UTF-8: those tables do not
pass here again.

Measured on 8 columns, 3 of them text: 7 ms for a million rows, of which reading them from Parquet takes
160 ms, and 1 ms where the text is ASCII; 1.4 us for a row, 17 us for 1,000.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from holdstrue.data.buffers import SMALL
from holdstrue.data.validity import validate_column
from holdstrue.errors import DataError


def validated(table: pa.Table, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The table, or an error that names the first column whose memory is not what its type says.

    Only `columns` are looked at, if they are given. Runtime complexity: O(bytes).

    Examples
    --------
    >>> lies = pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array(["a", "b"]), safe=False)
    >>> validated(pa.table({"zip": lies}), "the table")
    Traceback (most recent call last):
    holdstrue.errors.DataError: column 'zip' of the table is damaged: Dictionary indices invalid: Value at position 1 \
out of bounds: 7 (should be in [0, 1])
    hint: the memory of an Arrow column does not fit its type: write the data again, or build the column from its values
    """
    try:
        if table.num_rows < SMALL and (columns is None or len(columns) == table.num_columns):
            table.validate(full=True)
        else:
            for column in table.column_names if columns is None else columns:
                validate_column(table.column(column))
    except pa.ArrowInvalid as error:
        raise _damaged(table, name, error) from error
    return table


def require_text(schema: pa.Schema, name: str) -> None:
    """Refuse names of columns and of time zones that are not UTF-8, which fail whenever they are asked for."""
    try:
        _ = schema.names, [type_.tz for type_ in schema.types if pa.types.is_timestamp(type_)]
    except UnicodeError as error:
        raise DataError(
            f"{name} is damaged: the name of a column or of its time zone is not UTF-8: {error}",
            hint="write the data again",
        ) from error


def _damaged(table: pa.Table, name: str, error: Exception) -> DataError:
    where, detail = f"{name} is", error
    for field, column in zip(table.schema, table.columns, strict=True):
        found = _failure(column)
        if found is not None:
            where, detail = f"column {field.name!r} of {name} is", found
            break
    said = str(detail).splitlines()[0].removeprefix("In chunk 0: ").replace("Invalid: ", "")
    if "UTF8" in said:
        return DataError(f"{where} not text: {said}", hint="write the text as UTF-8, or the column as binary")
    return DataError(
        f"{where} damaged: {said}",
        hint="the memory of an Arrow column does not fit its type: write the data again, "
        "or build the column from its values",
    )


def _failure(column: Any) -> Exception | None:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        return error
    return None
