"""Tables of a few rows as text, in an entry of the log: for one row a tenth of what it takes to make Arrow of it.

The text is JSON: of each table its columns (an Arrow schema, as text), what is said of it, and its rows. Values are
written so that the same come back; those that JSON does not have (dates, times, decimals, bytes) as text or numbers.

>>> form = RowForm(pa.schema({"id": pa.int64(), "born": pa.date32()}))
>>> data = encode([FewRows(form, [(7, dt.date(1970, 1, 2)), (8, None)], {"table": "people"})])
>>> [table] = decode(data)
>>> table.to_pylist(), table.schema.metadata
([{'id': 7, 'born': datetime.date(1970, 1, 2)}, {'id': 8, 'born': None}], {b'table': b'people'})
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from holdstrue.data.buffers import arrow_values
from holdstrue.state.entry import plain_data
from holdstrue.state.schema_text import schema_of, schema_text

MARK = b"few rows"
"""Starts the text; Arrow's streams start with four bytes of ones."""

_ENCODE = json.JSONEncoder(separators=(",", ":")).encode

Conversion = Callable[[Any], Any]


def _conversions(type_: pa.DataType) -> tuple[Conversion, Conversion] | None:
    """How a value of a column is written and read back; None where it is written as it is."""
    types = pa.types
    if types.is_binary(type_) or types.is_large_binary(type_):
        return lambda value: value.decode("latin-1"), lambda text: text.encode("latin-1")
    if types.is_date32(type_):
        return dt.date.toordinal, dt.date.fromordinal
    if types.is_timestamp(type_) and type_.unit != "ns":
        return dt.datetime.isoformat, dt.datetime.fromisoformat
    if types.is_decimal128(type_):
        return str, Decimal
    plain = (types.is_integer, types.is_floating, types.is_boolean, types.is_string, types.is_large_string)
    if not any(fits(type_) for fits in plain):
        raise ValueError(f"values of {type_} have no text")
    return None


class RowForm:
    """The columns of rows that are to be written as text, made ready once."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.text = schema_text(schema)
        self._converted = [(at, found) for at, type_ in enumerate(schema.types) if (found := _conversions(type_))]

    def plain(self, row: Sequence[Any]) -> Sequence[Any]:
        """A row as JSON has it."""
        if not self._converted:
            return row
        plain = list(row)
        for at, (write, _) in self._converted:
            if plain[at] is not None:
                plain[at] = write(plain[at])
        return plain

    def table(self, rows: Sequence[Sequence[Any]], about: Mapping[str, str] | None) -> pa.Table:
        """Rows of plain values as Arrow; raises where they cannot be of these columns."""
        if not isinstance(rows, list):
            raise TypeError(f"{type(rows).__name__} in place of rows")
        columns: list[tuple[Any, ...]] = list(zip(*rows, strict=True)) if rows else [()] * len(self.schema)
        for at, (_, read) in self._converted:
            columns[at] = tuple(None if value is None else read(value) for value in columns[at])
        arrays = [arrow_values(values, type_) for values, type_ in zip(columns, self.schema.types, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=self.schema)
        return table if about is None else table.replace_schema_metadata(dict(about))


@dataclass(frozen=True)
class FewRows:
    """A table as its rows."""

    form: RowForm = field(repr=False)
    rows: Sequence[Sequence[Any]]
    """Values as they come out of their columns."""
    about: Mapping[str, str] | None = None
    """The metadata of the table."""

    def plain(self) -> list[Sequence[Any]]:
        """The rows as JSON has them."""
        return [self.form.plain(row) for row in self.rows]

    def table(self) -> pa.Table:
        """As Arrow."""
        return self.form.table(self.plain(), self.about)


def encode(tables: Sequence[FewRows]) -> bytes:
    """Tables as text, its length a multiple of eight. Complexity: O(values)."""
    text = _ENCODE([[table.form.text, table.about, table.plain()] for table in tables]).encode()
    return b"".join((MARK, text, b" " * (-len(text) % 8)))


def decode(data: bytes) -> list[pa.Table]:
    """Back from `encode`; a ValueError where it cannot be."""
    try:
        return [_form_of(schema).table(rows, about) for schema, about, rows in plain_data(data[len(MARK) :])]
    except (pa.ArrowException, TypeError, AttributeError, ArithmeticError, KeyError) as error:
        raise ValueError(f"its rows cannot be read: {type(error).__name__} {error}") from error


@lru_cache(maxsize=64)
def _form_of(text: str) -> RowForm:
    return RowForm(schema_of(text))
