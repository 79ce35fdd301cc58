"""How a CSV file is written: its delimiter where nobody says it, and the mark at its start."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pyarrow as pa

from holdstrue.errors import DataError
from holdstrue.sources.files import Options, open_bytes, open_text

LOOKED_AT = 100
"""Lines that must agree on a delimiter before it is believed."""

_BYTES = 1 << 16
_OTHERS = {";": "';'", "\t": "a tab", "|": "'|'"}
_MARKS = (
    (b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"),
)  # fmt: skip
_NAMES = {";": "semicolon", "\t": "tab", "|": "pipe", ",": "comma"}


def resolved(path: Path, options: Options) -> Options:
    """The options with the delimiter of a file; one that was found rather than given is said in a note."""
    if options.delimiter is not None:
        require_delimiter(options.delimiter)
        return options
    if any(suffix.lower() in (".tsv", ".tab") for suffix in path.suffixes[-2:]):
        return replace(options, delimiter="\t")
    found = _found(path, options)
    if found is None:
        return replace(options, delimiter=",")
    options.note(
        f"{path}: cells are taken to be separated by {_OTHERS[found]}, as in all of its first lines "
        f"(--delimiter {_NAMES[found]} says so, --delimiter comma otherwise)"
    )
    return replace(options, delimiter=found)


def require_delimiter(given: str) -> None:
    """Refuse what cannot separate cells."""
    if len(given) != 1 or not given.isascii() or given in '\0\r\n"':
        raise DataError(f"delimiter {given!r}", hint="give one ASCII character, such as ';' or a tab")


def _found(path: Path, options: Options) -> str | None:
    """The only delimiter other than a comma that cuts every one of the first lines into equally many cells.

    Where commas do so, or the one name that they make of the header is a column that is asked for, it is the comma.
    """
    try:
        with open_text(path, options.encoding) as text:
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


def refuse_wide_mark(path: Path, encoding: str) -> None:
    """Refuse a file that is to be read as UTF-8 and starts with the byte order mark of UTF-16 or UTF-32."""
    if encoding.lower().replace("-", "").replace("_", "") != "utf8":
        return
    try:
        with open_bytes(path) as stream:
            start = stream.read(4)
    except (OSError, EOFError, pa.ArrowException):
        return  # reading the header says what is wrong
    for mark, name in _MARKS:
        if start.startswith(mark):
            raise DataError(f"{path} is {name}, as the mark at its start says", hint=f"give `--encoding {name}`")
