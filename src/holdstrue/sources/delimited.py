"""Read CSV and its relatives: their delimiter, inferred or given types, and the row where these fail."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from holdstrue.data.values import family_of
from holdstrue.errors import DataError
from holdstrue.sources.datafiles import START, DataFile, ReadOptions, is_utf8, undecodable, unknown_encoding
from holdstrue.sources.fit import fit_column, is_text, misfit
from holdstrue.sources.whole_numbers import exact_numbers, needs_second_look

# Arrow names the place of a failed conversion only when one thread reads; the header is row 1.
_PLACE = re.compile(r"In CSV column #(\d+): Row #(\d+):")

# Kinds that Arrow's CSV reader converts by itself; others are read as text and converted after.
_DIRECT = frozenset({"integer", "float", "bool", "text", "bytes", "date", "time", "timestamp", "zoned"})


def read_csv(file: DataFile, options: ReadOptions) -> pa.Table:
    """The wanted columns of a CSV file.

    An empty cell without quotes is NULL, an empty quoted one is the empty text. Types are inferred
    from the whole file unless the schema gives them: whole numbers beyond 64 bits, and those beyond
    2^53 beside fractions, become decimals so that they stay exact, and timestamps are kept in
    microseconds, or nanoseconds where a value has them. Blank lines are skipped.
    """
    options = resolved(file, options)
    header = read_header(file, options)
    if len(header) == 1:
        _refuse_other_delimiter(header[0], file, options)
    names = options.selected(header, str(file))
    types = {name: type_ for name in names if (type_ := options.type_of(name)) is not None}
    table = _read(file, options, names, types)
    _refuse_open_quote(file, options, table, header)
    columns = []
    for name in names:
        column = table.column(name)
        if name in types:
            column = fit_column(column, types[name], name=name, place=_placer(file))
        else:
            column = _settle(column, name, file, options)
        columns.append(column)
    return pa.table(columns, names=names)


def csv_schema(file: DataFile, options: ReadOptions) -> pa.Schema:
    """Names and types guessed from the first megabyte of a CSV file; a later value may widen them."""
    options = resolved(file, options)
    header = read_header(file, options)
    options.selected(header, str(file))
    try:
        with pacsv.open_csv(pa.BufferReader(file.start), **_arrow_options(options, header, {})) as reader:
            schema = reader.schema
    except (pa.ArrowException, UnicodeError):
        return _read(file, options, header, {}).schema
    fields = [pa.field(f.name, options.type_of(f.name) or _settled_type(f.type)) for f in schema]
    return pa.schema(fields)


def read_header(file: DataFile, options: ReadOptions) -> list[str]:
    """The names in the first line of a CSV file, whose delimiter is known."""
    try:
        for start in (True, False):
            with file.text(options.encoding, start=start) as text:
                header = next((line for line in csv.reader(text, delimiter=options.delimiter or ",") if line), None)
                # one that goes beyond the start of the file is read from the file
                if len(file.start) < START or text.read(1):
                    break
    except UnicodeError as error:
        raise undecodable(file, options.encoding, str(error)) from error
    except LookupError as error:
        raise unknown_encoding(options.encoding) from error
    except (OSError, pa.ArrowException, EOFError) as error:
        raise DataError(f"cannot read {file}: {error}", hint="is it damaged? write it again") from error
    except csv.Error as error:
        raise DataError(f"{file} is not CSV: {error}", hint="give its format if its name misleads") from error
    if not header:
        raise DataError(
            f"{file} is empty: it has no header line", hint="the first line of a CSV file names its columns"
        )
    # a mark that the encoding leaves in the text, as utf-16-le does, is none of the name
    header[0] = header[0].removeprefix("\ufeff")
    if any("\0" in name for name in header):
        raise DataError(
            f"{file} is not {options.encoding} text: its first line holds NUL bytes",
            hint="give its format if its name misleads, or its encoding (utf-16?)",
        )
    for name in header:
        if not name.isascii() and any("\udc80" <= letter <= "\udcff" for letter in name):
            raise undecodable(file, options.encoding, f"the header holds {name!r}")
    return header


def _read(file: DataFile, options: ReadOptions, names: list[str], types: Mapping[str, pa.DataType]) -> pa.Table:
    arrow = _arrow_options(options, names, types)
    try:
        return pacsv.read_csv(file.stream(), **arrow)
    except UnicodeError as error:
        raise undecodable(file, options.encoding, str(error)) from error
    except (pa.ArrowException, OSError) as error:
        if "Empty CSV" in str(error):  # a header without a line end
            return pa.table({name: pa.nulls(0, types.get(name, pa.null())) for name in names})
        raise _diagnosed(file, options, names, types, error) from error


def _diagnosed(
    file: DataFile, options: ReadOptions, names: list[str], types: Mapping[str, pa.DataType], cause: Exception
) -> DataError:
    """Read once more with one thread, in which Arrow says where it failed."""
    ragged: list[Any] = []

    def note(row: Any) -> str:
        ragged.append(row)
        return "error"

    arrow = _arrow_options(options, names, types)
    arrow["parse_options"].invalid_row_handler = note
    arrow["read_options"].use_threads = False
    try:
        pacsv.read_csv(file.stream(), **arrow)
    except (pa.ArrowException, OSError) as error:
        cause = error
    if ragged:
        row = ragged[0]
        return DataError(
            f"{_placer(file)(row.number - 2)} has {row.actual_columns} values, the header has "
            f"{row.expected_columns}: {row.text[:80]}",
            hint="quote values that hold the delimiter or a line end, or give the right delimiter",
        )
    place = _PLACE.search(str(cause))
    if place is None:
        return DataError(f"cannot read {file}: {cause}", hint="check that the file is CSV and not cut off")
    name, row_index = read_header(file, options)[int(place[1])], int(place[2]) - 2
    where = _placer(file)(row_index)
    if "invalid UTF8" in str(cause):
        return undecodable(file, options.encoding, f"{where}, column {name!r}")
    raw = pacsv.read_csv(file.stream(), **_arrow_options(options, [name], {name: pa.binary()}))
    value = raw.column(0)[row_index].as_py()
    return DataError(misfit(where, name, value.decode("utf8", "replace"), types[name]))


def _arrow_options(options: ReadOptions, names: list[str], types: Mapping[str, pa.DataType]) -> dict[str, Any]:
    given = {}
    for name, type_ in types.items():
        family = family_of(type_)
        direct = family in _DIRECT and type_ not in (pa.string_view(), pa.binary_view())
        given[name] = type_ if direct or pa.types.is_decimal128(type_) else pa.string()
    return {
        "read_options": pacsv.ReadOptions(encoding=options.encoding),
        # A quoted value may hold a line end, also where Arrow cuts the file into blocks.
        "parse_options": pacsv.ParseOptions(delimiter=options.delimiter or ",", newlines_in_values=True),
        "convert_options": pacsv.ConvertOptions(
            include_columns=names,
            column_types=given,
            null_values=list(dict.fromkeys(("", *options.null_values))),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    }


def _settle(column: Any, name: str, file: DataFile, options: ReadOptions) -> Any:
    """An inferred column as the type it should have."""
    type_ = column.type
    if pa.types.is_binary(type_):  # what Arrow makes of bytes that are not text
        raise undecodable(file, options.encoding, _bad_cell(column, name, file))
    if pa.types.is_timestamp(type_):
        try:
            return pc.cast(column, _settled_type(type_))
        except pa.ArrowInvalid:
            return column
    if pa.types.is_floating(type_) and needs_second_look(column):
        text = _read(file, options, [name], {name: pa.string()}).column(0)
        return exact_numbers(column, text, name=name, place=_placer(file))
    return column


def _settled_type(type_: pa.DataType) -> pa.DataType:
    """Arrow infers seconds or nanoseconds: microseconds hold both, and years beyond 2262."""
    return pa.timestamp("us", type_.tz) if pa.types.is_timestamp(type_) else type_


def _bad_cell(column: Any, name: str, file: DataFile) -> str:
    for row, value in enumerate(column.to_pylist()):
        try:
            (value or b"").decode("utf8")
        except UnicodeDecodeError:
            return f"{_placer(file)(row)}, column {name!r} holds {value!r}"
    return f"column {name!r}"


def _refuse_open_quote(file: DataFile, options: ReadOptions, table: pa.Table, header: list[str]) -> None:
    """A quote that is never closed swallows the rest of the file; Arrow takes that for a long value."""
    if table.num_rows == 0 or header[-1] not in table.column_names:
        return
    if not is_text(table.schema.field(header[-1]).type):
        return
    last = table.column(header[-1])[-1].as_py()
    if last is None or "\n" not in last:
        return
    with file.text(options.encoding) as text:
        reader = csv.reader(text, delimiter=options.delimiter or ",", strict=True)
        try:
            for _ in reader:
                pass
        except csv.Error as error:
            if "unexpected end" not in str(error):
                return
            raise DataError(
                f"{_placer(file)(table.num_rows - 1)} has a quote that is never closed: {last[:40]!r}",
                hint='close it, or write a quote inside a quoted value as ""',
            ) from error


def _refuse_other_delimiter(only: str, file: DataFile, options: ReadOptions) -> None:
    """A file without the wanted columns but with one long name is mostly one with another delimiter."""
    if options.columns is None or only in options.columns:
        return
    for other, word in ((";", "';'"), ("\t", "a tab"), ("|", "'|'"), (",", "','")):
        if other in only:
            raise DataError(
                f"{file} has one column {only!r}",
                hint=f"its delimiter seems to be {word}: give delimiter={other!r}",
            )


def _placer(file: DataFile) -> Callable[[int], str]:
    return lambda i: f"row {i + 1} of {file}"


LOOKED_AT = 100
"""Lines that must agree on a delimiter before it is believed."""

_BYTES = 1 << 16
_OTHERS = {";": "';'", "\t": "a tab", "|": "'|'"}
_MARKS = (
    (b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"),
)  # fmt: skip
_NAMES = {";": "semicolon", "\t": "tab", "|": "pipe", ",": "comma"}


def resolved(file: DataFile, options: ReadOptions) -> ReadOptions:
    """The options with the delimiter of a file; one that was found rather than given is said in a note.

    A file that is to be read as UTF-8 and starts with the byte order mark of UTF-16 or UTF-32 is refused.
    """
    try:
        start = file.start[:4] if is_utf8(options.encoding) else b""
    except (OSError, EOFError, pa.ArrowException):
        start = b""  # reading the header says what is wrong
    for mark, name in _MARKS:
        if start.startswith(mark):
            raise DataError(f"{file} is {name}, as the mark at its start says", hint=f"give `--encoding {name}`")
    if options.delimiter is not None:
        if len(options.delimiter) != 1 or not options.delimiter.isascii() or options.delimiter in '\0\r\n"':
            raise DataError(f"delimiter {options.delimiter!r}", hint="give one ASCII character, such as ';' or a tab")
        return options
    if any(suffix.lower() in (".tsv", ".tab") for suffix in file.path.suffixes[-2:]):
        return replace(options, delimiter="\t")
    found = _found(file, options)
    if found is None:
        return replace(options, delimiter=",")
    options.note(
        f"{file}: cells are taken to be separated by {_OTHERS[found]}, as in all of its first lines "
        f"(--delimiter {_NAMES[found]} says so, --delimiter comma otherwise)"
    )
    return replace(options, delimiter=found)


def _found(file: DataFile, options: ReadOptions) -> str | None:
    """The only delimiter other than a comma that cuts every one of the first lines into equally many cells.

    Where commas do so, or the one name that they make of the header is a column that is asked for, it is the comma.
    """
    try:
        with file.text(options.encoding, start=True) as text:
            start = text.read(_BYTES).removeprefix("\ufeff")
            whole = not text.read(1)
    except (OSError, LookupError, UnicodeError, EOFError, pa.ArrowException):
        return None  # reading the header says what is wrong
    widths = {delimiter: _widths(start, delimiter, whole=whole) for delimiter in (",", *_OTHERS)}
    if not widths[","] or (widths[","][0] > 1 and len(set(widths[","])) == 1):
        return None
    header = start.lstrip("\r\n").splitlines()[0].strip('"')
    if header in (options.columns or ()) or (options.schema is not None and header in options.schema.names):
        return None
    fitting = [d for d in _OTHERS if widths[d] and widths[d][0] > 1 and len(set(widths[d])) == 1]
    return fitting[0] if len(fitting) == 1 else None


def _widths(start: str, delimiter: str, *, whole: bool) -> list[int]:
    """Cells of each of the first lines; the last line is left out where it may be cut off."""
    try:
        reader = csv.reader(io.StringIO(start, newline=""), delimiter=delimiter)
        lines = [len(line) for line in islice(reader, LOOKED_AT + 1) if line]
    except csv.Error:
        return []
    return lines[:LOOKED_AT] if whole or len(lines) > LOOKED_AT else lines[:-1]
