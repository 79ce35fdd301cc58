"""How a CSV file is written: its delimiter where nobody says it, and the mark at its start."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from itertools import islice

import pyarrow as pa

from holdstrue.errors import DataError
from holdstrue.sources.datafiles import DataFile, ReadOptions, is_utf8

LOOKED_AT = 100
"""Lines that must agree on a delimiter before it is believed."""

_BYTES = 1 << 16
_OTHERS = {";": "';'", "\t": "a tab", "|": "'|'"}
_MARKS = (
    (b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"),
)  # fmt: skip
_NAMES = {";": "semicolon", "\t": "tab", "|": "pipe", ",": "comma"}


def resolved(file: DataFile, options: ReadOptions) -> ReadOptions:
    """The options with the delimiter of a file; one that was found rather than given is said in a note."""
    if options.delimiter is not None:
        require_delimiter(options.delimiter)
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


def require_delimiter(given: str) -> None:
    """Refuse what cannot separate cells."""
    if len(given) != 1 or not given.isascii() or given in '\0\r\n"':
        raise DataError(f"delimiter {given!r}", hint="give one ASCII character, such as ';' or a tab")


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


def refuse_wide_mark(file: DataFile, encoding: str) -> None:
    """Refuse a file that is to be read as UTF-8 and starts with the byte order mark of UTF-16 or UTF-32."""
    if not is_utf8(encoding):
        return
    try:
        start = file.start[:4]
    except (OSError, EOFError, pa.ArrowException):
        return  # reading the header says what is wrong
    for mark, name in _MARKS:
        if start.startswith(mark):
            raise DataError(f"{file} is {name}, as the mark at its start says", hint=f"give `--encoding {name}`")
