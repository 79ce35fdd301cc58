"""Columns brought to the types that people declared for them, or the first cell named that does not fit."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.values import family_of
from holdstrue.errors import DataError
from holdstrue.rules.types import MOST_DIGITS, Declared
from holdstrue.sources.datafiles import spelling_hint
from holdstrue.sources.fit import first_failing, fit_column, is_text, plain_column, require_digits
from holdstrue.sources.moments import parse_moments

FAST_DIGITS = 18
"""Decimals of up to so many digits are coded as 64-bit integers, so that plain `decimal` takes these if they do."""

_FAILED = (pa.ArrowException, ValueError, OverflowError)
_WHOLE = r"^[+-]?[0-9]+$"
_DECIMAL = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_KINDS = {
    "text": ("text",), "integer": ("integer",), "number": ("float",), "decimal": ("decimal",), "boolean": ("bool",),
    "date": ("date",), "time": ("time",), "timestamp": ("timestamp", "zoned"),
}  # fmt: skip
_FIXED = {
    "text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "date": pa.date32(),
    "time": pa.time64("us"),
}  # fmt: skip


def arrow_type(declared: Declared) -> pa.DataType | None:
    """The Arrow type of a declared one; None where the first values decide.

    >>> arrow_type(Declared.of("decimal(12,2)")), arrow_type(Declared.of("decimal"))
    (Decimal128Type(decimal128(12, 2)), None)
    """
    if declared.word == "decimal":
        return None if declared.digits is None else pa.decimal128(declared.digits, declared.scale)
    if declared.word == "timestamp" and declared.format is not None:
        return pa.timestamp("us", "UTC" if "%z" in declared.format.replace("%%", "") else None)
    return _FIXED.get(declared.word)


def agrees(declared: Declared, type_: pa.DataType) -> bool:
    """Whether values of a type are what is declared, however they were written.

    >>> agrees(Declared.of("date(%d.%m.%Y)"), pa.date32()), agrees(Declared.of("text"), pa.int64())
    (True, False)
    """
    return family_of(type_) in _KINDS[declared.word]


def require_known(types: Iterable[str], names: Iterable[str], where: str) -> None:
    """Refuse a declared column that a table does not have."""
    names = list(names)
    for name in types:
        if name not in names:
            raise DataError(f"a type is declared for {name!r}, and {where} has no such column",
                            hint=spelling_hint(name, names))  # fmt: skip


def declared_table(
    table: pa.Table,
    types: Mapping[str, Declared],
    place: Callable[[int], str],
    schema: pa.Schema | None = None,
    error: type[DataError] = DataError,
) -> pa.Table:
    """The table with its declared columns converted; `schema` are the types that earlier values decided."""
    for name, declared in types.items():
        if name not in table.column_names:
            continue
        known = schema.field(name).type if schema is not None and name in schema.names else None
        at = table.column_names.index(name)
        column = declared_column(table.column(at), declared, name=name, place=place, known=known, error=error)
        if column.type != table.column(at).type:
            table = table.set_column(at, name, column)
    return table


def declared_column(
    column: Any,
    declared: Declared,
    *,
    name: str,
    place: Callable[[int], str] = lambda i: f"row {i + 1}",
    known: pa.DataType | None = None,
    error: type[DataError] = DataError,
) -> Any:
    """The column as declared, or an `error` that names the first cell that is not.

    Text is parsed; an empty cell is NULL unless text is declared. Values that have a type already must have the
    declared one, or become it without loss.

    Runtime complexity: O(n), and O(n log n) when a value does not fit.

    Examples
    --------
    >>> prices = pa.chunked_array([["1,50", "20", ""]])
    >>> declared_column(prices, Declared.of("decimal(comma)"), name="price").to_pylist()
    [Decimal('1.50'), Decimal('20.00'), None]
    >>> declared_column(pa.chunked_array([["31.02.2024"]]), Declared.of("date(%d.%m.%Y)"), name="born")
    Traceback (most recent call last):
    holdstrue.errors.DataError: row 1: column 'born' holds '31.02.2024', declared as date(%d.%m.%Y)
    hint: --null-value 31.02.2024 if such a cell means NULL, or declare the type that the column has
    """
    column = plain_column(column)
    if known is not None and pa.types.is_null(known):
        known = None
    wanted = known or arrow_type(declared)
    if column.null_count == len(column):
        # without a value nobody knows how many digits a plain decimal has: the first one will say
        return pa.chunked_array([pa.nulls(len(column), wanted or pa.null())])
    if not is_text(column.type):
        return _typed(column, declared, wanted, name, place, error)
    if declared.word == "text":
        return column
    text = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
    try:
        return _parsed(text, declared, known)
    except _TooWideError as wide:
        raise error(f"column {name!r}: {wide}", hint=f"declare {name}=number, whose digits are cut, or text") from None
    except _FAILED:
        row = _first_failure(text, declared, known)
        cell = text[row].as_py()
        raise error(
            f"{place(row)}: column {name!r} holds {cell!r}, declared as {declared}",
            hint=_hint(cell, declared, name, known),
        ) from None


def _typed(
    column: Any,
    declared: Declared,
    wanted: pa.DataType | None,
    name: str,
    place: Callable[[int], str],
    error: type[DataError],
) -> Any:
    """Values that are not text: they agree, or are converted without loss."""
    if agrees(declared, column.type) and (wanted is None or declared.word != "decimal"):
        return column
    if wanted is None and family_of(column.type) == "integer":  # plain decimal
        wide = pc.max(pc.binary_length(pc.utf8_ltrim(pc.cast(column, pa.string()), characters="-"))).as_py()
        wanted = pa.decimal128(FAST_DIGITS if wide <= FAST_DIGITS else MOST_DIGITS, 0)
    if wanted is None:
        raise error(
            f"column {name!r} holds {column.type} values, declared as {declared}",
            hint="declare the type that it has, or how many digits: decimal(12,2)",
        )
    try:
        return fit_column(column, wanted, name=name, place=place, error=error)
    except DataError as misfit:
        hint = f"it is declared as {declared}: declare the type that it has"
        raise error(misfit.message, hint=hint) from None


# --- text -----------------------------------------------------------------------------------------


def _parsed(text: pa.ChunkedArray, declared: Declared, known: pa.DataType | None) -> pa.ChunkedArray:
    """Text as declared, or one of `_FAILED`."""
    text = pc.utf8_trim_whitespace(text)
    if pc.any(pc.equal(text, "")).as_py():
        text = pc.if_else(pc.equal(text, ""), pa.scalar(None, text.type), text)
    if declared.comma:
        text = _with_point(text)
    match declared.word:
        case "integer":
            _require(text, _WHOLE)
            parsed = pc.cast(_unsigned(text), known or pa.int64())
        case "number":
            parsed = pc.cast(_unsigned(text), pa.float64())
        case "decimal":
            parsed = _decimals(text, declared, known)
        case "boolean":
            parsed = pc.cast(text, pa.bool_())
        case word:
            parsed = parse_moments(text, word, declared.format)
    return parsed if known is None or parsed.type == known else pc.cast(parsed, known)


def _require(text: pa.ChunkedArray, pattern: str) -> None:
    if pc.all(pc.match_substring_regex(text, pattern)).as_py() is False:
        raise ValueError("a value is not written so")


def _unsigned(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without a plus sign before digits, which Arrow does not read in integers and floats."""
    if not pc.any(pc.starts_with(text, "+")).as_py():
        return text
    return pc.replace_substring_regex(text, r"^\+([0-9.])", r"\1")


def _with_point(text: pa.ChunkedArray) -> pa.ChunkedArray:
    if pc.any(pc.match_substring(text, ".")).as_py():
        raise ValueError("a point beside decimal commas")
    return pc.replace_substring(text, ",", ".", max_replacements=1)


class _TooWideError(ValueError):
    """The values together need more digits than a decimal has."""


def _decimals(text: pa.ChunkedArray, declared: Declared, known: pa.DataType | None) -> pa.ChunkedArray:
    _require(text, _DECIMAL)
    fixed = known if known is not None and pa.types.is_decimal(known) else arrow_type(declared)
    if fixed is not None:
        require_digits(text, fixed)
        return pc.cast(text, fixed)
    whole, scale = digits_of(text)
    digits = max(1, whole + scale)
    if digits > MOST_DIGITS:
        raise _TooWideError(f"its values need {digits} digits, {scale} of them a fraction, and decimals have 38")
    if not declared.tight:
        digits = FAST_DIGITS if digits <= FAST_DIGITS else MOST_DIGITS
    return pc.cast(text, pa.decimal128(digits, scale))


def digits_of(text: pa.ChunkedArray) -> tuple[int, int]:
    """The most digits before and behind the point of numbers as they are written, so that 1.50 has two behind it.

    >>> digits_of(pa.chunked_array([["-12.5", "0.125", "1e3"]]))
    (4, 3)
    """
    floating = pc.fill_null(pc.match_substring_regex(text, "[eE]"), False)
    whole, scale = 0, 0
    if pc.any(floating).as_py():
        for cell in text.filter(floating).to_pylist():
            _, mantissa, exponent = Decimal(cell).as_tuple()
            whole, scale = max(whole, len(mantissa) + int(exponent)), max(scale, -int(exponent))
        text = text.filter(pc.invert(floating))
    bare = pc.utf8_ltrim(pc.drop_null(text), characters="+-0")
    if len(bare):
        point = pc.find_substring(bare, ".").to_numpy()
        length = pc.binary_length(bare).to_numpy()
        whole = max(whole, int(np.where(point < 0, length, point).max()))
        scale = max(scale, int(np.where(point < 0, 0, length - point - 1).max()))
    return whole, scale


def _first_failure(text: pa.ChunkedArray, declared: Declared, known: pa.DataType | None) -> int:
    """The first row whose cell cannot be parsed."""
    return first_failing(len(text), lambda at, end: _parsed(text.slice(at, end - at), declared, known), _FAILED)


def _hint(cell: str, declared: Declared, name: str, known: pa.DataType | None) -> str:
    """What to write instead."""
    text = pa.chunked_array([[cell.strip().replace(",", ".") if declared.comma else cell.strip()]])
    if declared.word in ("decimal", "integer") and pc.match_substring_regex(text, _DECIMAL)[0].as_py():
        whole, scale = digits_of(text)
        if declared.word == "integer":
            return f"declare {name}=decimal" if scale else f"declare {name}=decimal(38,0): it is beyond 64 bits"
        own = known or arrow_type(declared)
        if own is not None:
            scale, whole = max(scale, own.scale), max(whole, own.precision - own.scale)
        comma = ",comma" if declared.comma else ""
        if whole + scale <= MOST_DIGITS:
            again = " when the state is made" if known is not None else ""
            return f"it needs {name}=decimal({whole + scale},{scale}{comma}): declare that{again}"
        return f"it needs {whole + scale} digits, and decimals have {MOST_DIGITS}: declare {name}=number or {name}=text"
    if declared.word in ("decimal", "number") and not declared.comma and "," in cell:
        return f"if the comma stands before a fraction, declare {name}={declared.word}(comma)"
    return f"--null-value {shlex.quote(cell)} if such a cell means NULL, or declare the type that the column has"
