"""Files as data frames of Spark, with the very types and values that one process reads from them.

Parquet is read by Spark. Other files are read in Spark's tasks by the reader of one process: Spark's
own readers would tell a quoted NA from an unquoted one, a byte that is no text, nanoseconds or a
quote that is never closed either not at all or in another way, and name no row.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from holdstrue.data.notes import Notes
from holdstrue.data.values import family_of
from holdstrue.errors import DataError, HoldstrueError
from holdstrue.rules.types import Declared
from holdstrue.shards.reading import tasks_in
from holdstrue.shards.wire import SUMMARY, Message, failure, pack, raised, send
from holdstrue.sources.datafiles import DataFile, ReadOptions, one_format
from holdstrue.sources.declared import require_known
from holdstrue.sources.delimited import resolved
from holdstrue.sources.fit import Doubt, doubts
from holdstrue.sources.lakehouse import lake_table
from holdstrue.sources.read import exact_kind, is_wide, joint_schema, paths_of, read_table, schema_of
from holdstrue.spark.lakes import lake_frame
from holdstrue.spark.runner import SparkRunner, sendable
from holdstrue.spark.typed import joint_types

SHARE = 32 << 20
"""Bytes that one task reads: some tenths of a second of work. Chosen, not tuned."""

_PACKED = frozenset({".gz", ".bz2", ".zst", ".lz4", ".br"})
_FOUND = b"found"
_ELSE = "leave out --engine spark, or write the column with another type"


def frame_of(
    spark: SparkSession,
    source: Sequence[str],
    columns: Sequence[str] | None,
    read: Mapping[str, Any],
    *,
    types: Mapping[str, Declared] | None = None,
    watched: Sequence[str] | None = None,
    notes: Notes | None = None,
) -> DataFrame:
    """The rows of files as a data frame, of some columns or of all; a value that cannot be read is an error here.

    `types` are those that are declared; `notes` gets what there is to say, about the `watched` columns or all.
    """
    lake = lake_table(list(source))
    if lake is not None:
        return lake_frame(spark, lake)
    paths = paths_of(list(source))
    format_ = one_format(paths, read.get("format"))
    if format_ == "parquet":
        return _parquet(spark, paths)
    parts = [part for path in paths for part in _delimited(path, format_, read, notes)]
    names = None if columns is None else tuple(columns)
    declared = {name: type_ for name, type_ in (types or {}).items() if names is None or name in names}
    looked = tuple(columns or ()) if watched is None else tuple(watched)
    reading = Reading(_shares(parts), names, {**read, "format": format_}, declared, looked)
    runner = SparkRunner(spark)
    tasks = len(reading.shares)
    schemas = _schemas(runner, reading, tasks)
    if mixed := _inexact(schemas) - set(declared):
        # doubles in one part and numbers that no double holds in another: all of it becomes decimals
        declared |= {name: Declared("decimal") for name in mixed}
        reading = replace(reading, types=declared)
        schemas = _schemas(runner, reading, tasks)
    require_known(types or (), {name for schema in schemas for name in schema.names} | set(types or ()) - set(declared),
                  str(paths[0]))  # fmt: skip
    if notes is not None:
        notes.add(*_doubts(parts, schemas))
    schema = _joint([Path(part.path) for part in parts], schemas, format_, declared)
    kinds = StructType([StructField(field.name, _kind(field)) for field in schema])
    # a check passes over its rows several times, and text should be read only once
    rows = FileRows(reading, to_arrow_schema(kinds, timezone="UTC"))
    return runner.numbers(tasks).mapInArrow(sendable(rows), kinds).persist()


def _delimited(path: Path, format_: str, read: Mapping[str, Any], notes: Notes | None) -> list[Part]:
    """The parts of a file, each with the delimiter that the whole of it has."""
    parts = parts_of(path, format_, str(read.get("encoding", "utf8")))
    if format_ != "csv":
        return parts
    asked = {name: read[name] for name in ("encoding", "delimiter") if name in read}
    delimiter = resolved(DataFile(path), ReadOptions(notes=notes, **asked)).delimiter
    return [replace(part, delimiter=delimiter) for part in parts]


def _schemas(runner: SparkRunner, reading: Reading, tasks: int) -> list[pa.Schema]:
    """The schema of every part, with what else was found in it as metadata."""
    said = list(runner.run([(runner.numbers(tasks), Types(reading))], [], tasks))
    raised(said)
    return [message.table().schema for message in sorted(said, key=lambda message: message.route)]


def _inexact(schemas: Iterable[pa.Schema]) -> set[str]:
    """Columns that would lose digits if their parts were put together."""
    found: dict[str, set[str]] = {}
    for schema in schemas:
        wide = _found_in(schema)["wide"]
        for field in schema:
            type_ = str(field.type) if pa.types.is_decimal(field.type) else str(family_of(field.type))
            found.setdefault(field.name, set()).add("wide integer" if field.name in wide else type_)
    return {name for name, types in found.items() if exact_kind(types)}


def _doubts(parts: Sequence[Part], schemas: Sequence[pa.Schema]) -> Iterator[str]:
    """Notes on columns that became text, with the rows of files rather than of parts; one a column."""
    before: dict[str, int] = {}
    told: set[str] = set()
    for part, schema in zip(parts, schemas, strict=True):
        found, start = _found_in(schema), before.get(part.path, 0)
        for doubt in (Doubt(**said) for said in found["doubts"]):
            if doubt.column not in told:
                told.add(doubt.column)
                yield doubt.note(lambda i, start=start, path=part.path: f"row {start + i + 1} of {path}")  # type: ignore[misc]
        before[part.path] = start + found["rows"]


def _found_in(schema: pa.Schema) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(schema.metadata[_FOUND])
    return found


def _joint(
    paths: Sequence[Path], schemas: Sequence[pa.Schema], format_: str, declared: Mapping[str, Declared]
) -> pa.Schema:
    """The schema of all parts together; declared columns have one type in all of them."""
    plain = [schema.remove_metadata() for schema in schemas]
    found = joint_types(plain, declared)
    settled = [
        pa.schema([pa.field(field.name, found.get(field.name, field.type)) for field in schema]) for schema in plain
    ]
    return joint_schema(paths, settled, format_)


def _parquet(spark: SparkSession, paths: list[Path]) -> DataFrame:
    """Parquet files, which must all have the same columns: Spark takes those of one file for all of them."""
    schemas = [schema_of(path) for path in paths]
    joint = joint_schema(paths, schemas, "parquet")
    for path, schema in zip(paths, schemas, strict=True):
        for field in schema:
            if field.type != joint.field(field.name).type:
                raise DataError(
                    f"column {field.name!r} of {path} is {field.type}, in other files {joint.field(field.name).type}",
                    hint="give the column one type in all files, or leave out --engine spark",
                )
    try:
        return spark.read.parquet(*(f"file:{literal(path)}" for path in paths))
    except PySparkException as error:
        said = str(error).splitlines()[0]
        raise DataError(f"Spark cannot read {paths[0]}: {said}", hint=_ELSE) from error


def literal(path: Path) -> str:
    """An absolute path in which Spark takes no character for a pattern.

    >>> literal(Path("/data/a[1].csv"))
    '/data/a\\\\[1\\\\].csv'
    """
    return "".join(f"\\{c}" if c in "\\{}[]*?" else c for c in str(path.absolute()))


def _kind(field: pa.Field) -> Any:
    try:
        return from_arrow_type(field.type, prefer_timestamp_ntz=True)
    except (PySparkException, ValueError) as error:
        raise DataError(f"column {field.name!r} is {field.type}, which Spark does not have", hint=_ELSE) from error


# --- parts of files ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A file, or of a long CSV file the bytes from `start` to `end` under its first `head` bytes, the header."""

    path: str
    size: int
    head: int = 0
    start: int = 0
    end: int | None = None
    delimiter: str | None = None


def parts_of(path: Path, format_: str, encoding: str) -> list[Part]:
    """The parts that tasks can read on their own. Complexity: O(bytes) for a long CSV file, else O(1)."""
    size = path.stat().st_size
    long = size > 2 * SHARE and format_ in ("csv", "tsv") and path.suffix.lower() not in _PACKED
    if not long or not _like_ascii(encoding):
        return [Part(str(path.absolute()), size)]
    parts = []
    with path.open("rb") as file:
        start = head = _end_of_header(file)
        while start < size:
            quotes = file.read(SHARE).count(b'"')
            end = _end_of_line(file, quotes)
            parts.append(Part(str(path.absolute()), end - start, head, start, end))
            start = end
    return parts


def _end_of_line(file: IO[bytes], quotes: int) -> int:
    """Where the line ends, when so many quotes were met before: inside quotes it goes on after a line end."""
    while line := file.readline():
        quotes += line.count(b'"')
        if quotes % 2 == 0:
            break
    return file.tell()


def _end_of_header(file: IO[bytes]) -> int:
    """Where the first line ends that is not blank."""
    start = file.tell()
    end = _end_of_line(file, 0)
    file.seek(start)
    blank = not file.read(end - start).strip()
    return _end_of_header(file) if blank and end > start else end


def _like_ascii(encoding: str) -> bool:
    try:
        return '"\n'.encode(encoding) == b'"\n'
    except LookupError:
        return False  # reading will say that there is no such encoding


def _shares(parts: Iterable[Part]) -> tuple[tuple[tuple[int, Part], ...], ...]:
    """Parts with their numbers, put together for tasks: many small files make one task."""
    shares: list[list[tuple[int, Part]]] = []
    room = 0
    for number, part in enumerate(parts):
        if not shares or room < part.size:
            shares.append([])
            room = SHARE
        shares[-1].append((number, part))
        room -= part.size
    return tuple(map(tuple, shares))


# --- what tasks do -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """Which task reads what, and how."""

    shares: tuple[tuple[tuple[int, Part], ...], ...]
    columns: tuple[str, ...] | None
    read: Mapping[str, Any]
    types: Mapping[str, Declared]
    watched: tuple[str, ...]

    def table(self, part: Part, schema: pa.Schema | None = None) -> pa.Table:
        """The rows of a part."""
        types = self.types if schema is not None else {n: replace(d, tight=True) for n, d in self.types.items()}
        options = {"columns": self.columns, "schema": schema, **self.read, "types": types}
        if part.delimiter is not None:
            options["delimiter"] = part.delimiter
        if part.end is None:
            return _suited(read_table(part.path, **options), part.path)
        with tempfile.TemporaryDirectory(prefix="holdstrue-part-") as folder:
            place = Path(folder) / Path(part.path).name
            with Path(part.path).open("rb") as file, place.open("wb") as copy:
                copy.write(file.read(part.head))
                file.seek(part.start)
                copy.write(file.read(part.end - part.start))
            try:
                return _suited(read_table(place, **options), part.path)
            except DataError:
                # the whole file says which row it is
                read_table(part.path, **options)
                raise


def _suited(table: pa.Table, path: str) -> pa.Table:
    """The table with timestamps in microseconds and times in nanoseconds, as Spark keeps them."""
    for i, field in enumerate(table.schema):
        wanted = field.type
        if pa.types.is_timestamp(wanted):
            wanted = pa.timestamp("us", wanted.tz and "UTC")
        elif pa.types.is_time(wanted):
            wanted = pa.time64("ns")
        try:
            table = table.set_column(i, field.name, table.column(i).cast(wanted))
        except pa.ArrowInvalid as error:
            raise DataError(f"column {field.name!r} of {path} is {field.type}: {error}", hint=_ELSE) from error
    return table


@dataclass(frozen=True)
class Types:
    """The stage that reads all parts and says which types their columns have, or what cannot be read."""

    reading: Reading

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers of tasks in, schemas out, each under the number of its part."""
        return send(self._messages(tasks_in(batches)))

    def _messages(self, tasks: Iterable[int]) -> Iterator[Message]:
        for number, part in (share for task in tasks for share in self.reading.shares[task]):
            try:
                table = self.reading.table(part)
                found = {
                    "rows": table.num_rows,
                    "doubts": [asdict(doubt) for doubt in self._doubts(table)],
                    "wide": [name for name in table.column_names if is_wide(table.column(name))],
                }
                empty = table.schema.empty_table().replace_schema_metadata({_FOUND: json.dumps(found)})
                yield Message(0, SUMMARY, number, "", pack(empty))
            except HoldstrueError as error:
                yield failure(error, number)

    def _doubts(self, table: pa.Table) -> list[Doubt]:
        written = self.reading.read.get("format") in ("csv", "tsv")
        return doubts(table, self.reading.watched, self.reading.types) if written else []


@dataclass(frozen=True)
class FileRows:
    """The stage that reads all parts with the types of the whole."""

    reading: Reading
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers of tasks in, rows out."""
        for _, part in (share for task in tasks_in(batches) for share in self.reading.shares[task]):
            table = self.reading.table(part, self.schema)
            for name in self.schema.names:
                if name not in table.column_names:  # in JSON a name that is not there means NULL
                    table = table.append_column(name, pa.nulls(table.num_rows, self.schema.field(name).type))
            yield from table.select(self.schema.names).cast(self.schema).to_batches()
