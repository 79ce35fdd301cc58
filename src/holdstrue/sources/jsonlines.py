"""Read JSON lines, or one JSON array of objects, as a table or as plain objects with their line."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pajson

from holdstrue.data.values import family_of
from holdstrue.errors import DataError
from holdstrue.kernels.lines import DEEP, PLAIN, shape_of_lines
from holdstrue.sources.datafiles import DataFile, ReadOptions, undecodable, unknown_encoding
from holdstrue.sources.declared import arrow_type
from holdstrue.sources.dicts import records_table
from holdstrue.sources.fit import fit_column, parse_temporal
from holdstrue.sources.whole_numbers import exact_numbers, needs_second_look

# Kinds that Arrow's JSON reader takes as they should be; dates it would take as numbers of days, and
# of a timestamp it would drop the zone.
_DIRECT = frozenset({"integer", "float", "bool", "text", "decimal"})

# Arrow parses block by block and a row must fit in one.
_BLOCK = 1 << 22

# Lists and objects inside each other. Arrow's parser calls itself for each and ends the process at some ten thousand.
_DEEPEST = 100

# Numbers that may be beyond the largest double, for which Python says infinity; half of a pair of UTF-16.
_LARGE = re.compile(rb"[0-9][eE]\+?[0-9]{3}|[0-9]{309}")
_LONG = re.compile(rb"[0-9]{16}")
_FRACTION = re.compile(rb"[0-9][.eE][-+0-9]")
_BLANK = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(file: DataFile, options: ReadOptions) -> pa.Table:
    """The wanted columns of a JSON file.

    A name that an object lacks is NULL. Text that holds only dates or timestamps is read as such
    unless the schema says text; whole numbers beyond 64 bits, and those beyond 2^53 beside fractions,
    become decimals.

    Arrow reads what is one object a line: of anything else it makes rows that are not there (`null`, two
    objects on a line), or it ends the process. What it refuses is read by Python, which names the line.
    """
    kept, file.kept = file.kept, None
    if isinstance(kept, tuple) and replace(kept[0], columns=options.columns, watched=options.watched) == options:
        return kept[1].select(options.selected(kept[1].column_names, str(file)))
    raw = kept if isinstance(kept, bytes) else read_bytes(file, options.encoding)
    data = as_lines(raw, file)
    if not data.strip():
        return _nothing(file, options)
    if _shape(data, str(file), unit_of(raw)) != PLAIN:
        return _object_table(data, file, options, unit_of(raw))
    try:
        table = _arrow_table(data, options, file, unit_of(raw))
    except pa.ArrowException:
        table = _declared_numbers(data, options, file, unit_of(raw))
    if table is None:
        # Arrow has one type a column and says little about where it fails: go object by object.
        return _object_table(data, file, options, unit_of(raw))
    names = options.selected(table.column_names, str(file))
    return table.select(names)


def json_schema(file: DataFile, options: ReadOptions) -> pa.Schema:
    """Names and types of a JSON file; it is read whole, and kept until it is asked for."""
    table = read_json(file, options)
    file.kept = options, table
    return table.schema


class NumberText(str):
    """A number as it is written."""

    __slots__ = ()


def read_objects(
    data: bytes, name: str, unit: str = "line", parse: Callable[[str], Any] | None = None
) -> Iterator[tuple[int, Any]]:
    """Each value of a JSON lines text, as `parse` reads it, with its line number from 0; blank lines are skipped."""
    _shape(data, name, unit)
    decode = _decoder(data).decode if parse is None else parse
    for number, line in enumerate(data.split(b"\n")):
        if not line.strip():
            continue
        # as text, of which JSON has one form: bytes may be taken for UTF-16, or begin with a byte order mark
        text = line.decode().strip(" \t\r")
        try:
            value = decode(text)
            if _SURROGATE.search(line):
                json.dumps(value, ensure_ascii=False, default=_parts).encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{unit} {number + 1} of {name} holds half a character, {error.object[error.start]!r}: {text[:60]}",
                hint="write characters beyond U+FFFF as pairs (\\ud83d\\ude00), or as they are",
            ) from error
        except ValueError as error:
            raise _refused(error, f"{unit} {number + 1} of {name}", text) from error
        yield number, value


def _refused(error: ValueError, place: str, text: str) -> DataError:
    """What is wrong with a line, in which the parser found `error`."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[:60])
    if not isinstance(error, json.JSONDecodeError):
        said = f"a number has over {sys.get_int_max_str_digits()} digits" if "digits" in str(error) else str(error)
        return DataError(f"{place}: {said}: {shown}", hint="correct the line, or give the value as text")
    hint = "each line must hold one whole object"
    if text.startswith("\ufeff"):
        hint = "it starts with a byte order mark, which only the file may: remove it"
    return DataError(f"{place} is not JSON: {error.msg} at character {error.pos + 1}: {shown}", hint=hint)


def _shape(data: bytes, name: str, unit: str) -> int:
    """What the lines of a text are; nested too deeply they are refused."""
    shape, place = shape_of_lines(np.frombuffer(data, np.uint8), _DEEPEST)
    if shape == DEEP:
        raise DataError(
            f"{unit} {data.count(10, 0, place) + 1} of {name} has more than {_DEEPEST} lists and objects "
            "inside each other",
            hint="values that rules compare are not nested: leave the field out",
        )
    return int(shape)


def _decoder(data: bytes) -> json.JSONDecoder:
    """Python's reading of JSON, in which a name given twice and a number beyond all doubles are errors."""
    return json.JSONDecoder(object_pairs_hook=once, parse_float=_finite if _LARGE.search(data) else None)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, in which each name stands once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the name {twice!r} is given twice in one object")
    return found


as_tokens = json.JSONDecoder(object_pairs_hook=once, parse_int=NumberText, parse_float=NumberText).decode
"""Reads JSON with its numbers as they are written."""


def _parts(value: Any) -> Any:
    """What else a parser may make: decimals, and events with their parts."""
    return str(value) if isinstance(value, Decimal) else vars(value)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:30]} is beyond the largest float")
    return value


def read_bytes(file: DataFile, encoding: str = "utf8") -> bytes:
    """The file's text as UTF-8 without a byte order mark."""
    try:
        with file.stream() as stream:
            data = bytes(stream.read())
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {file}: {error}", hint="is it damaged? write it again") from error
    try:
        # one mark only, whatever the encoding: a second one is not white space
        return data.decode(encoding).removeprefix("\ufeff").encode()
    except UnicodeError as error:
        raise undecodable(file, encoding, str(error)) from error
    except LookupError as error:
        raise unknown_encoding(encoding) from error


def unit_of(data: bytes) -> str:
    """What one value of a JSON text is called: a line, or a record where the text is one array."""
    return "record" if data.lstrip().startswith(b"[") else "line"


def as_lines(data: bytes, file: DataFile | str) -> bytes:
    """JSON lines of a text that may be one array of objects; every value stays as it is written.

    >>> as_lines(b'[{"id": 1.50}, {"id": 2}]', "a.json")
    b'{"id": 1.50}\\n{"id": 2}'
    """
    if not data.lstrip().startswith(b"["):
        return data
    try:
        return "\n".join(_elements(data.decode(), _decoder(data))).encode()
    except (ValueError, RecursionError) as error:
        hint = "write one array, or one object a line"
        raise DataError(f"{file} is not JSON: {error}", hint=hint) from error


def _elements(text: str, decoder: json.JSONDecoder) -> Iterator[str]:
    """The elements of an array as they are written, each in one line: a line end is never inside a string."""

    def after(place: int) -> int:
        return _BLANK.match(text, place).end()  # type: ignore[union-attr]

    at = after(text.index("[") + 1)
    more = text[at : at + 1] != "]"
    while more:
        _, end = decoder.raw_decode(text, at)
        yield text[at:end].replace("\n", " ").replace("\r", " ")
        at = after(end)
        more = text[at : at + 1] == ","
        at = after(at + 1) if more else at
    if text[at : at + 1] != "]" or after(at + 1) < len(text):
        raise json.JSONDecodeError("the array should go on with a comma, or end here", text, at)


def _declared_numbers(data: bytes, options: ReadOptions, file: DataFile, unit: str) -> pa.Table | None:
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
        return _arrow_table(data, replace(options, schema=pa.schema(fields)), file, unit)
    except pa.ArrowException:
        return None


def _arrow_table(data: bytes, options: ReadOptions, file: DataFile, unit: str) -> pa.Table:
    wanted = [] if options.schema is None else [
        (f.name, f.type) for f in options.schema if options.type_of(f.name) is not None
    ]  # fmt: skip
    table = _parse(data, [(name, t if family_of(t) in _DIRECT else pa.string()) for name, t in wanted])
    types = dict(wanted)
    names, columns = [], []
    for name in table.column_names:
        column = table.column(name)
        if name in types:
            # Arrow adds every column of the schema: one that no object names is not there.
            spelled = (json.dumps(name).encode(), json.dumps(name, ensure_ascii=False).encode())
            if column.null_count == len(column) and not any(text in data for text in spelled):
                continue
            if _may_be_inexact(column, data):
                raise pa.ArrowInvalid(f"column {name!r} holds whole numbers that a float may not hold")
            column = _converted(column, types[name])
        else:
            column = _settled(column, name, data, file, unit)
        names.append(name)
        columns.append(column)
    return pa.table(columns, names=names)


def _converted(column: Any, type_: pa.DataType) -> Any:
    try:
        return fit_column(column, type_, name="", place=str)
    except DataError as error:
        raise pa.ArrowInvalid(error.message) from None


def _settled(column: Any, name: str, data: bytes, file: DataFile, unit: str) -> Any:
    """A column whose type Arrow inferred, read once more where the inference loses something."""
    if pa.types.is_timestamp(column.type):
        return parse_temporal(_parse(data, [(name, pa.string())], "ignore").column(name))
    if _may_be_inexact(column, data):
        try:
            return _parse(data, [(name, pa.decimal128(38, 0))], "ignore").column(name)
        except pa.ArrowException:
            found = list(read_objects(data, str(file), unit, as_tokens))
            text = pa.chunked_array([pa.array([value.get(name) for _, value in found], pa.string())])
            return exact_numbers(column, text, name=name, place=lambda i: f"{unit} {found[i][0] + 1} of {file}")
    return column


def _may_be_inexact(column: Any, data: bytes) -> bool:
    """Whether Arrow may have made floats of whole numbers that these do not hold."""
    return bool(pa.types.is_floating(column.type) and _LONG.search(data)) and needs_second_look(column)


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


def _object_table(data: bytes, file: DataFile, options: ReadOptions, unit: str) -> pa.Table:
    numbers, records = [], []
    for number, value in read_objects(data, str(file), unit, as_tokens if options.types else None):
        if not isinstance(value, dict):
            raise DataError(
                f"{unit} {number + 1} of {file} is not an object: {json.dumps(value)[:60]}",
                hint='each must look like {"id": 1, "name": "x"}',
            )
        numbers.append(number)
        records.append(value if not options.types else _as_declared(value, options))
    names = list({name: None for record in records for name in record})
    columns = options.selected(names, str(file))
    place: Callable[[int], str] = lambda i: f"{unit} {numbers[i] + 1} of {file}"  # noqa: E731
    return records_table(records, columns=columns, schema=options.schema, place=place, temporal=True)


def _as_declared(record: dict[str, Any], options: ReadOptions) -> dict[str, Any]:
    """Declared columns as they are written, the others as the values they stand for."""
    return {name: _written(value) if name in options.types else _valued(value) for name, value in record.items()}


def _written(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, NumberText) else _valued(value)


def _valued(value: Any) -> Any:
    """A value with its numbers in place of their tokens."""
    if isinstance(value, NumberText):
        return float(value) if any(letter in value for letter in ".eE") else int(value)
    if isinstance(value, dict):
        return {name: _valued(part) for name, part in value.items()}
    return [_valued(part) for part in value] if isinstance(value, list) else value


def _nothing(file: DataFile, options: ReadOptions) -> pa.Table:
    if options.schema is None or options.only_declared:
        raise DataError(f"{file} is empty", hint="write at least one object, one a line")
    table = pa.Table.from_batches([], schema=options.schema)
    return table.select(options.selected(table.column_names, str(file)))
