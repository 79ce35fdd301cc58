"""Read JSON lines, or one JSON array of objects, as a table or as plain objects with their line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from holdstrue.errors import DataError
from holdstrue.io.declared import arrow_type
from holdstrue.io.exact import exact_numbers, needs_second_look
from holdstrue.io.files import Options, open_bytes, undecodable, unknown_encoding
from holdstrue.io.fit import fit_column, kind, parse_temporal
from holdstrue.io.records import records_table

# Kinds that Arrow's JSON reader takes as they should be; dates it would take as numbers of days, and
# of a timestamp it would drop the zone.
_DIRECT = frozenset({"int", "float", "bool", "text", "decimal"})

# Arrow parses block by block and a row must fit in one.
_BLOCK = 1 << 22

_GAP = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()
_NULL_LINE = re.compile(rb"^[ \t]*null[ \t\r]*$", re.MULTILINE)


def read_json(path: Path, options: Options) -> pa.Table:
    """The wanted columns of a JSON file.

    A name that an object lacks is NULL. Text that holds only dates or timestamps is read as such
    unless the schema says text; whole numbers beyond 64 bits, and those beyond 2^53 beside fractions,
    become decimals.
    """
    raw = read_bytes(path, options.encoding)
    data = as_lines(raw, path)
    if not data.strip():
        return _nothing(path, options)
    if _NULL_LINE.search(data):  # Arrow would take it for a row of NULLs
        return _object_table(data, path, options, unit_of(raw))
    try:
        table = _arrow_table(data, options, path)
    except pa.ArrowException:
        table = _declared_numbers(data, options, path)
    if table is None:
        # Arrow has one type a column and says little about where it fails: go object by object.
        return _object_table(data, path, options, unit_of(raw))
    names = options.selected(table.column_names, str(path))
    return table.select(names)


def json_schema(path: Path, options: Options) -> pa.Schema:
    """Names and types of a JSON file; it is read whole."""
    return read_json(path, options).schema


class Token(str):
    """A number as it is written."""

    __slots__ = ()


as_tokens: Callable[[bytes], Any] = partial(json.loads, parse_int=Token, parse_float=Token)
"""Reads JSON with its numbers as they are written."""


def read_objects(data: bytes, name: str, parse: Callable[[bytes], Any] = json.loads) -> Iterator[tuple[int, Any]]:
    """Each value of a JSON lines text, as `parse` reads it, with its line number from 0; blank lines are skipped."""
    for number, line in enumerate(data.split(b"\n")):
        if not line.strip():
            continue
        try:
            value = parse(line)
        except (ValueError, RecursionError) as error:
            shown = line.decode("utf8", "replace").strip()[:60]
            raise DataError(
                f"line {number + 1} of {name} is not JSON: {error}: {shown}",
                hint="each line must hold one whole object",
            ) from error
        yield number, value


def read_bytes(path: Path, encoding: str = "utf8") -> bytes:
    """The file's text as UTF-8 without a byte order mark."""
    try:
        with open_bytes(path) as stream:
            data = bytes(stream.read())
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {path}: {error}", hint="is it damaged? write it again") from error
    try:
        text = data.decode("utf-8-sig" if encoding.lower().replace("-", "") == "utf8" else encoding)
    except UnicodeError as error:
        raise undecodable(path, encoding, str(error)) from error
    except LookupError as error:
        raise unknown_encoding(encoding) from error
    return text.removeprefix("\ufeff").encode()


def unit_of(data: bytes) -> str:
    """What one value of a JSON text is called: a line, or a record where the text is one array."""
    return "record" if data.lstrip().startswith(b"[") else "line"


def as_lines(data: bytes, path: Path | str) -> bytes:
    """JSON lines of a text that may be one array of objects.

    >>> as_lines(b'[{"id": 1}, {"id": 2}]', "a.json")
    b'{"id": 1}\\n{"id": 2}'
    """
    if not data.lstrip().startswith(b"["):
        return data
    try:
        values = json.loads(data)
    except ValueError as error:
        hint = "write one array, or one object a line"
        raise DataError(f"{path} is not JSON: {error}", hint=hint) from error
    # Each as it is written, since a number read and written again may lose digits; a line break is white space.
    text, at, lines = data.decode(), data.index(b"[") + 1, []
    for _ in values:
        start = at + len(_GAP.match(text, at)[0])  # type: ignore[index]
        _, at = _DECODER.raw_decode(text, start)
        lines.append(text[start:at].replace("\n", " ").replace("\r", " ").encode())
    return b"\n".join(lines)


def _declared_numbers(data: bytes, options: Options, path: Path) -> pa.Table | None:
    """The table where declared columns hold numbers and booleans rather than text, as far as Arrow reads these."""
    direct = {
        name: type_
        for name, declared in options.types.items()
        if declared.word in ("integer", "number", "boolean", "decimal") and (type_ := arrow_type(declared)) is not None
    }
    if not direct or options.schema is None:
        return None
    fields = [pa.field(f.name, direct.get(f.name, f.type)) for f in options.schema]
    try:
        return _arrow_table(data, replace(options, schema=pa.schema(fields)), path)
    except pa.ArrowException:
        return None


def _arrow_table(data: bytes, options: Options, path: Path) -> pa.Table:
    wanted = [] if options.schema is None else [
        (f.name, f.type) for f in options.schema if options.type_of(f.name) is not None
    ]  # fmt: skip
    table = _parse(data, [(name, t if kind(t) in _DIRECT else pa.string()) for name, t in wanted])
    types = dict(wanted)
    names, columns = [], []
    for name in table.column_names:
        column = table.column(name)
        if name in types:
            # Arrow adds every column of the schema: one that no object names is not there.
            if column.null_count == len(column) and json.dumps(name).encode() not in data:
                continue
            column = _converted(column, types[name])
        else:
            column = _settled(column, name, data, path)
        names.append(name)
        columns.append(column)
    return pa.table(columns, names=names)


def _converted(column: Any, type_: pa.DataType) -> Any:
    try:
        return fit_column(column, type_, name="", place=str)
    except DataError as error:
        raise pa.ArrowInvalid(error.message) from None


def _settled(column: Any, name: str, data: bytes, path: Path) -> Any:
    """A column whose type Arrow inferred, read once more where the inference loses something."""
    if pa.types.is_timestamp(column.type):
        return parse_temporal(_parse(data, [(name, pa.string())], "ignore").column(name))
    if pa.types.is_floating(column.type) and needs_second_look(column):
        try:
            return _parse(data, [(name, pa.decimal128(38, 0))], "ignore").column(name)
        except pa.ArrowException:
            found = list(read_objects(data, str(path), as_tokens))
            text = pa.chunked_array([pa.array([value.get(name) for _, value in found], pa.string())])
            unit = unit_of(data)
            return exact_numbers(column, text, name=name, place=lambda i: f"{unit} {found[i][0] + 1} of {path}")
    return column


def _parse(data: bytes, fields: list[tuple[str, pa.DataType]], unexpected: str = "infer") -> pa.Table:
    return pajson.read_json(
        pa.BufferReader(data),
        read_options=pajson.ReadOptions(block_size=_BLOCK),
        parse_options=pajson.ParseOptions(
            explicit_schema=pa.schema(fields) if fields else None,
            unexpected_field_behavior=unexpected,
            newlines_in_values=False,
        ),
    )


def _object_table(data: bytes, path: Path, options: Options, unit: str) -> pa.Table:
    numbers, records = [], []
    for number, value in read_objects(data, str(path), as_tokens if options.types else json.loads):
        if not isinstance(value, dict):
            raise DataError(
                f"{unit} {number + 1} of {path} is not an object: {json.dumps(value)[:60]}",
                hint='each must look like {"id": 1, "name": "x"}',
            )
        numbers.append(number)
        records.append(value if not options.types else _as_declared(value, options))
    names = list({name: None for record in records for name in record})
    columns = options.selected(names, str(path))
    place: Callable[[int], str] = lambda i: f"{unit} {numbers[i] + 1} of {path}"  # noqa: E731
    return records_table(records, columns=columns, schema=options.schema, place=place, temporal=True)


def _as_declared(record: dict[str, Any], options: Options) -> dict[str, Any]:
    """Declared columns as they are written, the others as the values they stand for."""
    return {name: _written(value) if name in options.types else _valued(value) for name, value in record.items()}


def _written(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, Token) else _valued(value)


def _valued(value: Any) -> Any:
    """A value with its numbers in place of their tokens."""
    if isinstance(value, Token):
        return float(value) if any(letter in value for letter in ".eE") else int(value)
    if isinstance(value, dict):
        return {name: _valued(part) for name, part in value.items()}
    return [_valued(part) for part in value] if isinstance(value, list) else value


def _nothing(path: Path, options: Options) -> pa.Table:
    if options.schema is None or options.only_declared:
        raise DataError(f"{path} is empty", hint="write at least one object, one a line")
    table = pa.Table.from_batches([], schema=options.schema)
    return table.select(options.selected(table.column_names, str(path)))
