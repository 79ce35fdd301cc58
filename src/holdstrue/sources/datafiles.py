"""Which files a source names, the format of each, and how to open one."""

from __future__ import annotations

import difflib
import glob
import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdstrue.data.notes import Notes
from holdstrue.errors import DataError
from holdstrue.location import local_path, nearby_hint, shown
from holdstrue.rules.types import Declared
from holdstrue.sources.lakehouse import refuse_inside

if TYPE_CHECKING:
    from holdstrue.sources.late_columns import WantedRows

ENDINGS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "csv",
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrow",
    ".jsonl": "json", ".ndjson": "json", ".json": "json",
}  # fmt: skip
_ALIASES = {"jsonl": "json", "ndjson": "json", "feather": "arrow", "ipc": "arrow", "pq": "parquet"}
COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4")

FORMATS = tuple(dict.fromkeys(ENDINGS.values()))

START = 1 << 21
"""Bytes of a file that are looked at before it is read: the block of 1 MiB by which Arrow tells the types of CSV, and
one more, so that it sees where the first one ends."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file; the fields are the arguments of `read_table`."""

    columns: tuple[str, ...] | None = None
    schema: pa.Schema | None = None
    encoding: str = "utf8"
    delimiter: str | None = None
    null_values: tuple[str, ...] = ("",)
    types: Mapping[str, Declared] = field(default_factory=dict)
    notes: Notes | None = field(default=None, compare=False)
    watched: tuple[str, ...] | None = None
    """The columns that notes may be about; None for all of them."""
    dictionaries: frozenset[str] = field(default=frozenset(), compare=False)
    """Text columns that may stay dictionaries where one file holds them so: reading them costs a fifth."""
    wanted: WantedRows | None = field(default=None, compare=False)
    """Which rows are looked at, where that is not all of them: others may be read as NULL."""
    only_declared: bool = False
    """Whether the schema holds nothing but declared columns, so that the table itself is not known yet."""

    def type_of(self, name: str) -> pa.DataType | None:
        """The type asked for a column; None where it is left to what the file holds."""
        if self.schema is None or name not in self.schema.names:
            return None
        type_ = self.schema.field(name).type
        return None if pa.types.is_null(type_) else type_

    def untyped(self, format_: str) -> ReadOptions:
        """The same for files of text: declared columns are text before they are converted; tabs part cells of TSV."""
        options = self
        if format_ == "tsv" and self.delimiter is None:
            options = replace(options, delimiter="\t")
        if not self.types:
            return options
        fields = [] if self.schema is None else [f for f in self.schema if f.name not in self.types]
        schema = pa.schema([*fields, *((name, pa.string()) for name in self.types)])
        return replace(options, schema=schema, only_declared=self.schema is None)

    def note(self, text: str) -> None:
        """Say something about what was read, where somebody listens."""
        if self.notes is not None:
            self.notes.add(text)

    def selected(self, names: Sequence[str], file: str) -> list[str]:
        """The names to read out of those a file has, or an error for the first that it lacks."""
        seen: set[str] = set()
        for name in names:
            if name in seen:  # a rule could not say which it means
                raise DataError(f"{file} has two columns named {name!r}", hint="rename one of them")
            seen.add(name)
        if self.columns is None:
            return list(names)
        for name in self.columns:
            if name not in names:
                raise DataError(f"{file} has no column {name!r}", hint=spelling_hint(name, names))
        return list(self.columns)


def expand(source: str | os.PathLike[str]) -> list[Path]:
    """The files that a path, a glob pattern or a directory stands for, in sorted order.

    A directory stands for the data files directly in it; names that start with `_` or `.` are not data, and `.txt`
    beside data files of other names is not either.
    """
    text = local_path(source)
    if not text.strip():
        raise DataError("the path of the data is empty", hint="name a file, a directory or a pattern")
    path = Path(text)
    if path.is_dir():
        return _files_of_directory(path)
    if path.is_file():
        return [path]
    if text == "-" or path.exists():
        said = "standard input" if text == "-" else f"{text!r}, which is a pipe or a device"
        raise DataError(
            f"data cannot be read from {said}", hint="it is read more than once: write it to a file and give that"
        )
    if glob.has_magic(text):
        found = sorted(Path(name) for name in glob.glob(text, recursive=True) if not Path(name).is_dir())  # noqa: PTH207
        for folder in {file.parent for file in found}:
            refuse_inside(folder / "*")
        if found:
            return found
        raise DataError(f"no file matches {shown(text)!r}", hint="check the pattern and the current directory")
    raise DataError(f"there is no file {shown(text)!r}", hint=nearby_hint(path))


def format_of(file: Path | DataFile, override: str | None = None) -> str:
    """The format of a file by its name, seen through a compression suffix.

    >>> format_of(Path("tax.csv.gz")), format_of(Path("tax.data"), "parquet")
    ('csv', 'parquet')
    """
    if override is not None:
        name = _ALIASES.get(override.lower().lstrip("."), override.lower().lstrip("."))
        if name not in FORMATS:
            raise DataError(f"unknown format {override!r}", hint=f"one of {', '.join(FORMATS)}")
        return name
    found = format_by_name(file.path.name if isinstance(file, DataFile) else file.name)
    if found is None:
        raise DataError(
            f"cannot tell the format of {str(file)!r} by its name",
            hint=f"give the format (on the command line --input-format): one of {', '.join(FORMATS)}",
        )
    return found


def format_by_name(name: str) -> str | None:
    """The format that a name ends in, if any.

    >>> format_by_name("tax.CSV.gz"), format_by_name("tax")
    ('csv', None)
    """
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return ENDINGS.get(suffixes[-1]) if suffixes else None


def one_format(paths: Iterable[Path | DataFile], override: str | None = None) -> str:
    """The format that all files share."""
    formats = {(one.format if isinstance(one, DataFile) else None) or format_of(one, override): one for one in paths}
    if len(formats) > 1:
        (one, a), (two, b) = list(formats.items())[:2]
        raise DataError(
            f"files of several formats: {a} is {one}, {b} is {two}",
            hint="name the files of one format by a pattern",
        )
    return next(iter(formats))


@dataclass(eq=False)
class DataFile:
    """A file that is opened once: its start is kept for all that is asked before it is read.

    What has been read is let go, so that many files can be read one after the other.
    """

    path: Path
    shown: str | None = None
    """What to call it, where the path is that of a copy."""
    format: str | None = None
    """Its format, where something else than its name told it."""
    ranges: Callable[[], Any] | None = None
    """Opens it where it is not on this machine, and only some ranges of it are to be fetched; then there is no path."""
    keeps: object = None
    """What must not go before the file does: the folder of a copy."""
    kept: Any = None
    """What a reader of its format keeps from asking for the schema until it reads."""
    _start: bytes | None = None
    _stream: Any = None

    def __str__(self) -> str:
        return self.shown or str(self.path)

    @property
    def start(self) -> bytes:
        """The first bytes, decompressed by what the name ends in; all of them where they are fewer than `START`."""
        if self._start is None:
            stream = self._opened()
            self._start = bytes(stream.read(START))
            self._stream = stream if isinstance(stream, pa.OSFile) and len(self._start) == START else None
        return self._start

    def stream(self) -> Any:
        """All of its bytes, decompressed; after this it is opened again where more is asked."""
        start, stream = self._start, self._stream
        self._start, self._stream = None, None
        if start is not None and len(start) < START:
            return pa.BufferReader(start)
        if stream is None:
            return self._opened()
        stream.seek(0)
        return stream

    def text(self, encoding: str, *, start: bool = False) -> io.TextIOWrapper:
        """Its text, or that of its start, without a byte order mark; bytes that are no text become surrogates."""
        codec = "utf-8-sig" if is_utf8(encoding) else encoding
        source = io.BytesIO(self.start) if start else self._opened()
        return io.TextIOWrapper(source, codec, errors="surrogateescape", newline="")

    def _opened(self) -> Any:
        try:
            return pa.input_stream(os.fspath(self.path), compression="detect")
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"cannot open {self}: {error}", hint="check that the file may be read") from error


def is_utf8(encoding: str) -> bool:
    """Whether an encoding is UTF-8, however it is spelt."""
    return encoding.lower().replace("-", "").replace("_", "") == "utf8"


def undecodable(path: DataFile | str, encoding: str, detail: str) -> DataError:
    """The error for bytes that are not text in the given encoding."""
    other = "latin-1" if encoding.lower().replace("-", "") in ("utf8", "ascii") else "utf8"
    return DataError(f"{path} is not {encoding} text: {detail}", hint=f"try `--encoding {other}`")


def unknown_encoding(encoding: str) -> DataError:
    """The error for an encoding Python does not know."""
    return DataError(f"unknown encoding {encoding!r}", hint="for example utf8, latin-1, cp1252 or utf-16")


def spelling_hint(name: str, names: Iterable[str]) -> str:
    """What a misspelt name may have meant, and what there is.

    >>> spelling_hint("zipp", ["id", "zip"])
    "did you mean 'zip'? there are: id, zip"
    """
    names = list(names)
    folded = {other.strip().lower(): other for other in names}
    near = difflib.get_close_matches(name.strip().lower(), folded, n=1)
    shown = ", ".join(names[:30]) + (f" and {len(names) - 30} more" if len(names) > 30 else "")
    there = f"there are: {shown}" if names else "there are no columns"
    return f"did you mean {folded[near[0]]!r}? {there}" if near else there


def data_names(names: Iterable[str]) -> list[str]:
    """The names in a folder that are those of data, in order; `.txt` only where there is nothing else.

    >>> data_names(["b.csv", "a.csv", "notes.txt", "_SUCCESS"]), data_names(["a.txt", "b.txt.gz"])
    (['a.csv', 'b.csv'], ['a.txt', 'b.txt.gz'])
    """
    found = sorted(name for name in names if not name.startswith(("_", ".")) and format_by_name(name))
    return [name for name in found if not _is_text(name)] or found


def _is_text(name: str) -> bool:
    return next(s for s in reversed(Path(name).suffixes) if s.lower() not in COMPRESSIONS).lower() == ".txt"


def refuse_state(path: Path) -> None:
    """Refuse a directory that holds a state where data is asked for."""
    from holdstrue.state.journal import has_state

    if path.is_dir() and has_state(path):
        raise DataError(
            f"{str(path)!r} is a state, no data",
            hint=f"what it holds is told by: holdstrue violations {path}, holdstrue status {path}",
        )


def _files_of_directory(path: Path) -> list[Path]:
    files = [path / name for name in data_names(file.name for file in path.iterdir() if file.is_file())]
    if files:
        return files
    refuse_state(path)
    if any(file.is_dir() for file in path.iterdir()):
        raise DataError(
            f"the directory {str(path)!r} has no data files directly in it",
            hint=f"use a pattern like '{path}/**/*.parquet', or pass a pyarrow dataset of it",
        )
    endings = ", ".join(ENDINGS)
    raise DataError(f"the directory {str(path)!r} has no data files", hint=f"their names end in {endings}")
