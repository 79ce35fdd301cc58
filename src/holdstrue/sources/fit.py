"""Bring columns to the types they should have, or name the first row whose value does not fit.

Columns of CSV files that became text although nearly all of their cells look like something else are doubts.
"""

from __future__ import annotations

import datetime as dt
import math
import shlex
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.buffers import decoded, known, plain, python_value
from holdstrue.data.compare import with_column
from holdstrue.data.looks import look_of
from holdstrue.data.values import NUMBERS, family_of
from holdstrue.errors import DataError
from holdstrue.operators import Op

# What one kind of value may be read as. Numbers may change form where no digit is lost; text stands
# for what JSON has no literal for. Text for a number and a number for text are changed types.
_ALLOWED = frozenset({
    ("integer", "float"), ("integer", "decimal"), ("float", "integer"), ("float", "decimal"),
    ("decimal", "integer"), ("decimal", "float"),
    ("text", "date"), ("text", "time"), ("text", "timestamp"), ("text", "zoned"),
    ("text", "decimal"), ("text", "bytes"), ("bytes", "text"),
    ("date", "timestamp"), ("timestamp", "date"),
})  # fmt: skip

_EXPECTED = {
    "integer": "a whole number",
    "float": "a number",
    "decimal": "a decimal number",
    "bool": "true or false",
    "text": "text",
    "bytes": "bytes",
    "date": "a date like 2024-01-31",
    "time": "a time like 13:45:00",
    "timestamp": "a date and time without zone like 2024-01-31 13:45:00",
    "zoned": "a date and time with zone like 2024-01-31T13:45:00Z",
}


def is_text(type_: pa.DataType) -> bool:
    """Whether values are unicode strings."""
    return family_of(type_) == "text"


def is_bytes(type_: pa.DataType) -> bool:
    """Whether values are byte strings."""
    return family_of(type_) == "bytes"


def expected(type_: pa.DataType) -> str:
    """What a value of a type should look like, in words.

    >>> expected(pa.date32())
    'a date like 2024-01-31 (date32[day])'
    """
    family = family_of(type_)
    words = None if family is None else _EXPECTED.get(family)
    return str(type_) if words is None else f"{words} ({type_})"


def fit_column(
    column: Any,
    type_: pa.DataType,
    *,
    name: str,
    place: Callable[[int], str],
    error: type[DataError] = DataError,
) -> Any:
    """The column as `type_`, or an `error` that names the first row whose value does not fit.

    Runtime complexity: O(n), and O(n log n) when a value does not fit.

    Examples
    --------
    >>> fit_column(pa.array(["2024-01-31"]), pa.date32(), name="day", place=str).type
    DataType(date32[day])
    >>> fit_column(pa.array([1.0, 2.5]), pa.int64(), name="age", place=lambda i: f"row {i + 1}")
    Traceback (most recent call last):
    holdstrue.errors.DataError: row 2: column 'age' holds 2.5, expected a whole number (int64)
    """
    if column.type == type_:
        return column
    try:
        return _convert(column, type_)
    except _FAILED:
        row = _first_failure(column, type_)
        value = python_value(column[row])
        hint = None
        if (family_of(column.type), family_of(type_)) not in _ALLOWED and family_of(column.type) != family_of(type_):
            hint = f"the column is {column.type} here and {type_} in the table"
        raise error(misfit(place(row), name, value, type_), hint=hint) from None


def misfit(place: str, name: str, value: object, type_: pa.DataType) -> str:
    """The message for a value that is not of its column's type.

    >>> misfit("row 1", "age", 0.1, pa.float32()), misfit("row 1", "age", 128, pa.int8())
    ("row 1: column 'age' holds 0.1, which no float is exactly", "row 1: column 'age' holds 128, which is beyond int8")
    """
    family, number = family_of(type_), isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if number and family == "float":
        return f"{place}: column {name!r} holds {value!r}, which no {type_} is exactly"
    if number and family == "integer" and math.isfinite(value) and value == int(value):  # type: ignore[call-overload,arg-type]
        return f"{place}: column {name!r} holds {value!r}, which is beyond {type_}"
    return f"{place}: column {name!r} holds {value!r}, expected {expected(type_)}"


def plain_column(column: Any) -> Any:
    """The column with its values laid out plainly: dictionaries and runs decoded, views as strings.

    >>> plain_column(pa.chunked_array([["a", "b", "a"]]).dictionary_encode()).type
    DataType(string)
    """
    type_ = column.type
    if pa.types.is_dictionary(type_):
        return decoded(column, plain_column)
    if pa.types.is_run_end_encoded(type_):
        return plain_column(pc.run_end_decode(column))
    if pa.types.is_string_view(type_):
        return _narrow(column, pa.string(), pa.large_string())
    if pa.types.is_binary_view(type_):
        return _narrow(column, pa.binary(), pa.large_binary())
    if isinstance(type_, pa.BaseExtensionType):
        return plain_column(pc.cast(column, type_.storage_type))
    return column


def plain_table(table: pa.Table, dictionaries: Container[str] = ()) -> pa.Table:
    """The table with every column laid out plainly (see `plain_column`), but for dictionaries of text among some."""
    views = (pa.string_view(), pa.binary_view())
    if not any(isinstance(type_, _NOT_PLAIN) or type_ in views for type_ in table.schema.types):
        return table
    kept = {
        field.name
        for field in table.schema
        if field.name in dictionaries
        and pa.types.is_dictionary(field.type)
        and field.type.value_type in (pa.string(), pa.large_string())
    }
    columns = [
        column if name in kept else plain_column(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


def parse_temporal(column: Any) -> Any:
    """Text as dates or timestamps if every value is one, else the column as it is.

    The same reading as that of CSV: days as dates, times with a zone as UTC, microseconds unless
    nanoseconds are given.

    >>> parse_temporal(pa.chunked_array([["2024-01-31T10:00:00Z"]])).type
    TimestampType(timestamp[us, tz=UTC])
    """
    if column.null_count == len(column):
        return column
    for type_ in (pa.date32(), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC"),
                  pa.timestamp("ns", "UTC")):  # fmt: skip
        try:
            return pc.cast(column, type_)
        except _FAILED:
            continue
    return column


_MOST_DIGITS = 76
"""Digits that Arrow reads from text without losing any."""
_DOUBLE_DIGITS = 15
"""Digits of a decimal that any double prints again."""
_NOT_PLAIN = (pa.DictionaryType, pa.RunEndEncodedType, pa.BaseExtensionType)
_FAILED = (pa.ArrowException, ValueError, OverflowError, TypeError)


def _narrow(column: Any, small: pa.DataType, large: pa.DataType) -> Any:
    """A view column as `small`, or as `large` where a chunk holds over 2 GB of text."""
    try:
        return pc.cast(column, small)
    except pa.ArrowInvalid:
        return pc.cast(column, large)


def _convert(column: Any, type_: pa.DataType) -> Any:
    """Cast without losing anything, or raise one of `_FAILED`."""
    if pa.types.is_dictionary(column.type):
        column = plain_column(column)
    have, want = family_of(column.type), family_of(type_)
    if have == "null" or column.null_count == len(column):
        return pa.nulls(len(column), type_) if isinstance(column, pa.Array) else pa.chunked_array(
            [pa.nulls(len(column), type_)], type=type_)  # fmt: skip
    if have != want and (have, want) not in _ALLOWED:
        raise ValueError(f"{have} is not {want}")
    if (have, want) == ("text", "time"):
        return parse_times(column, type_)
    if (have, want) == ("text", "decimal"):
        require_digits(column, type_)
    given = column
    if (have, want) == ("integer", "decimal"):
        # Arrow wants room for every int64 before it looks at the values; their digits fit or not.
        column = pc.cast(column, pa.string())
        require_digits(column, type_)
    fitted = pc.cast(column, type_)
    if have != "text" and not _is_same(given, fitted):
        raise ValueError("digits would be lost")
    return fitted


def require_digits(text: Any, type_: pa.DataType) -> None:
    """Refuse numbers that have more digits than a decimal type: Arrow's cast from text wraps them around."""
    digits = pc.replace_substring_regex(text, r"(?i)e.*$|[^0-9.]", "")
    whole = pc.utf8_ltrim(pc.replace_substring_regex(digits, r"\..*$", ""), characters="0")
    longest = pc.max(pc.binary_length(whole)).as_py() or 0
    if longest > type_.precision - type_.scale or (pc.max(pc.binary_length(digits)).as_py() or 0) > _MOST_DIGITS:
        raise ValueError(f"more digits than {type_}")


def _is_same(before: Any, after: Any) -> bool:
    """Whether a conversion kept every value: Arrow's casts between numbers round, and some wrap around."""
    have, want = family_of(before.type), family_of(after.type)
    if (have, want) == ("decimal", "float"):
        # a decimal is read as the double that prints as it
        if before.type.precision <= _DOUBLE_DIGITS:
            return True
        pairs = zip(before.to_pylist(), after.to_pylist(), strict=True)
        return all(one is None or (math.isfinite(other) and Decimal(repr(other)) == one) for one, other in pairs)
    if (have, want) == ("float", "decimal") and after.type.precision > _DOUBLE_DIGITS:
        # a double of more digits may have been another decimal
        doubles = (value for value in before.to_pylist() if value is not None)
        if any(len(Decimal(repr(double)).normalize().as_tuple().digits) > _DOUBLE_DIGITS for double in doubles):
            return False
    if (have, want) == ("float", "decimal"):
        # through text, which Arrow reads exactly: its cast of 598.93 to a double is another one than 598.93
        after = pc.cast(after, pa.string())
    if (have, want) in {("float", "decimal"), ("timestamp", "date")}:
        return bool(pc.all(pc.equal(pc.cast(after, before.type), before)).as_py())
    if have not in NUMBERS or want not in NUMBERS or before.type == after.type:
        return True
    one, other = plain(before), plain(after)
    return bool((with_column(one, other, Op.EQ) | ~known(one)).all())


def parse_times(column: Any, type_: pa.DataType) -> Any:
    """Times of day from text, which Arrow's cast does not read; digits that the type does not hold are refused."""
    parsed = pa.array([None if text is None else _nanoseconds(text) for text in column.to_pylist()], pa.int64())
    times = pc.cast(parsed.view(pa.time64("ns")), type_)
    return times if isinstance(column, pa.Array) else pa.chunked_array([times], type=type_)


def _nanoseconds(text: str) -> int:
    """A time of day in nanoseconds since midnight."""
    clock, _, fraction = text.strip().partition(".")
    time = dt.time.fromisoformat(clock)
    if time.tzinfo is not None or (fraction and not (fraction.isascii() and fraction.isdigit() and len(fraction) <= 9)):
        raise ValueError(f"{text!r} is not a time of day without a zone, in nanoseconds at the finest")
    whole = (time.hour * 60 + time.minute) * 60 + time.second
    return whole * 10**9 + int(fraction.ljust(9, "0") or 0)


def _first_failure(column: Any, type_: pa.DataType) -> int:
    """The first row whose value cannot be converted."""
    return first_failing(len(column), lambda at, end: _convert(column.slice(at, end - at), type_), _FAILED)


def first_failing(rows: int, attempt: Callable[[int, int], Any], failures: tuple[type[Exception], ...]) -> int:
    """The first of some rows with which an attempt fails, by halving; it takes those from one row to before another.

    >>> first_failing(10, lambda at, end: 1 / (end <= 7), (ZeroDivisionError,))
    7
    """
    low, high = 0, rows  # the first `low` rows pass, the first `high` do not
    while high - low > 1:
        middle = (low + high) // 2
        try:
            attempt(low, middle)
            low = middle
        except failures:
            high = middle
    return low


_SHOWN = 40


@dataclass(frozen=True)
class Doubt:
    """A column that may not be meant as text, and the cell that says why."""

    column: str
    words: str
    """What its cells look like."""
    type: str
    row: int
    cell: str
    odd: int
    """How many cells look otherwise; 0 where all look alike and must be declared to be read so."""

    def note(self, place: Callable[[int], str]) -> str:
        """What to tell people about it."""
        shown = repr(self.cell[:_SHOWN])
        quoted = shlex.quote(f"{self.column}={self.type.split(' or ')[0]}")
        meant = f"{shlex.quote(self.column + '=text')} if it is meant as text"
        if not self.odd:
            either = f" (or {self.type.split(' or ')[1]})" if " or " in self.type else ""
            return (
                f"column {self.column!r} is read as text: its cells look like {self.words}, as {shown} in "
                f"{place(self.row)}; declare --type {quoted}{either}, or --type {meant}"
            )
        others = f" and {self.odd - 1} more" if self.odd > 1 else ""
        return (
            f"column {self.column!r} is read as text because of {shown} in {place(self.row)}{others}; the rest are "
            f"{self.words}: --null-value {shlex.quote(self.cell[:_SHOWN])} if that means NULL, or --type {meant}"
        )


def doubts(table: pa.Table, columns: Iterable[str], declared: Container[str]) -> list[Doubt]:
    """What there is to say about the text columns of a CSV file.

    Runtime complexity: O(a sample) for a column of ordinary text, O(rows) for one that looks like something else.

    >>> [doubt] = doubts(pa.table({"qty": ["1", "2", "n/a", "4"]}), ["qty"], ())
    >>> print(doubt.note(lambda i: f"row {i + 1} of t.csv"))  # doctest: +NORMALIZE_WHITESPACE
    column 'qty' is read as text because of 'n/a' in row 3 of t.csv; the rest are numbers:
    --null-value n/a if that means NULL, or --type qty=text if it is meant as text
    """
    found = []
    for name in columns:
        if name in declared or name not in table.column_names or not is_text(table.schema.field(name).type):
            continue
        seen = look_of(table.column(name))
        if seen is None or not seen.but_few:
            continue
        look = seen.look
        if seen.odd and look.read:
            found.append(Doubt(name, look.words, seen.type, seen.odd_row, seen.odd_cell, seen.odd))
        elif not look.read and seen.nearly_all:
            found.append(Doubt(name, look.words, seen.type, seen.row, seen.cell, 0))
    return found


def comparable_table(name: str, table: pa.Table) -> pa.Table:
    """Only columns whose values compare, without dictionaries; a column without any value is one of text."""
    kept = {}
    for field, given in zip(table.schema, table.columns, strict=True):
        family = family_of(field.type)
        if family is None:
            continue
        if field.name in kept:
            raise DataError(f"table {name!r} has two columns {field.name!r}", hint="name each column differently")
        if family == "null":
            kept[field.name] = pa.chunked_array([pa.nulls(len(given), pa.string())])
        else:
            kept[field.name] = plain_column(given)
    if not kept:
        raise DataError(f"table {name!r} has no column whose values compare", hint="lists and structs do not")
    return pa.table(kept)
