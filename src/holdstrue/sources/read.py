"""Read a table from whatever holds it: files, Arrow, data frames or records."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.changes import Origin, Places
from holdstrue.data.notes import Notes
from holdstrue.data.values import NUMBERS, common_families, family_of
from holdstrue.errors import DataError
from holdstrue.progress import doing
from holdstrue.rules.types import Declared
from holdstrue.sources.datafiles import DataFile, ReadOptions, expand, one_format
from holdstrue.sources.declared import arrow_type, declared_table, require_known
from holdstrue.sources.dicts import records_table
from holdstrue.sources.fit import doubts, fit_column, plain_table
from holdstrue.sources.lakehouse import lake_table
from holdstrue.sources.late_columns import WantedRows
from holdstrue.sources.validity import require_text, validated
from holdstrue.sources.ways import NamedData, OuterTable, opened, require_local, way_of
from holdstrue.sources.whole_numbers import EXACT_BELOW

_UNTYPED = frozenset({"csv", "tsv"})
WRITTEN = _UNTYPED | {"json"}

_READERS = {
    "csv": ("delimited", "read_csv", "csv_schema"),
    "tsv": ("delimited", "read_csv", "csv_schema"),
    "parquet": ("columnar", "read_parquet", "parquet_schema"),
    "arrow": ("columnar", "read_arrow", "arrow_schema"),
    "json": ("jsonlines", "read_json", "json_schema"),
}
"""By format: the module that reads it, imported when a file of it is there, and what reads the rows and the schema."""


class TableSource:
    """What a source of rows names, found out once: files, a table of a lakehouse, or an object in memory.

    Whatever takes a source takes this as well; files that are asked for their schema first are then read without
    being opened again.
    """

    def __init__(self, source: Any, format: str | None = None) -> None:  # noqa: A002
        kind = type(source)
        if kind.__name__ == "LazyFrame" and kind.__module__.partition(".")[0] == "polars":
            # it is a query; even to ask for its columns would run part of it
            hint = "call its .collect() and give the result"
            raise DataError("cannot read a table from a polars LazyFrame", hint=hint)
        self.given = source
        self.outer: OuterTable | None = None
        """The table of a database or of a lakehouse that it names."""
        self.files: list[DataFile] = []
        self._format = format
        self._held: tuple[pa.Table, str] | None = None
        items = source if isinstance(source, list | tuple) else [source]
        if items and all(isinstance(item, str | os.PathLike) for item in items):
            self._open(list(items))

    def _open(self, items: list[Any]) -> None:
        """Find the files of all items, or the one table."""
        if [os.fspath(item) for item in items].count("-") > 1:
            raise DataError("standard input is named twice, and can be read once", hint="give - once")
        ways = [way_of(item) for item in items]
        local = [require_local(item) for item, way in zip(items, ways, strict=True) if way is None]
        self.outer = lake_table(local) if local else None
        for item, way in zip(items, ways, strict=True):
            found: NamedData
            if way is not None:
                found = opened(item, way, self._format)
            else:
                found = self.outer or [DataFile(path) for path in expand(item)]
            if isinstance(found, Sequence):
                self.files += found
            else:
                self.outer = found
        if self.outer is not None and len(items) > 1:
            raise DataError(f"{self.outer} is a table among {len(items)} sources", hint="give it alone")

    @staticmethod
    def of(source: Any, format: str | None = None) -> TableSource:  # noqa: A002
        """The source, found out now unless it was before."""
        return source if isinstance(source, TableSource) else TableSource(source, format)

    @staticmethod
    def of_files(files: Sequence[DataFile], format: str | None = None) -> TableSource:  # noqa: A002
        """Files that were opened before."""
        source = TableSource((), format)
        source.given, source.files = [str(file) for file in files], list(files)
        return source

    @cached_property
    def format(self) -> str | None:
        """The format of all files; None where it names none."""
        return one_format(self.files, self._format) if self.files else None

    @property
    def name(self) -> str:
        """What messages call it."""
        if self.outer is not None or self.files:
            return str(self.outer or self.files[0])
        return "the table"

    @property
    def version(self) -> str | None:
        """What names the rows of a lakehouse table as they are read."""
        return None if self.outer is None else self.outer.version()

    def selectable(self) -> list[str] | None:
        """The columns, where those that nobody needs are better not read: of databases, and of files read by ranges."""
        if self.outer is not None:
            return list(self.outer.schema().names) if self.outer.selective else None
        if not self.files or self.format != "parquet" or any(file.ranges is None for file in self.files):
            return None
        return list(_reader("parquet", 2)(self.files[0], ReadOptions()).names)

    def in_memory(self, options: ReadOptions) -> tuple[pa.Table, str]:
        """The table that an object in memory holds, and what to call it; a stream can be read once only."""
        if self._held is None:
            found = _table_of(self.given, options)
            if not hasattr(self.given, "__arrow_c_stream__") or isinstance(self.given, pa.Table):
                return found
            self._held = found
        return self._held

    @property
    def are_records(self) -> bool:
        """Whether it is a list of dicts."""
        return isinstance(self.given, list | tuple) and all(isinstance(value, Mapping | None) for value in self.given)


@dataclass(frozen=True)
class Loaded:
    """A table with the place of each of its rows."""

    table: pa.Table
    places: Places


def read_table(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    encoding: str = "utf8",
    format: str | None = None,  # noqa: A002
    delimiter: str | None = None,
    null_values: Sequence[str] = (),
    types: Mapping[str, str | Declared] | None = None,
    notes: Notes | None = None,
    dictionaries: Collection[str] = (),
    wanted: WantedRows | None = None,
) -> pa.Table:
    """Read a table.

    Parameters
    ----------
    source
        A path, a glob pattern or a directory (of a Delta Lake or Iceberg table where the library is
        installed); `-` for standard input; a URL that `holdstrue.sources.ways` lists (https://, s3://, duckdb:,
        sqlite:, postgresql://, iceberg:, ...); a list of files; a pyarrow Table, RecordBatch,
        RecordBatchReader or Dataset; anything with the Arrow C interface (pandas, polars, DuckDB);
        a dict of columns or a list of dicts.
    columns
        Read only these, in this order.
    schema
        Types for the columns it names; a value that does not fit is an error that names its row.
        A column of type null is read as what it holds.
    encoding
        Of CSV and JSON files.
    format
        csv, tsv, parquet, arrow or json, where the name of the file does not tell.
    delimiter
        Of CSV files. Unless given it is a comma, or a tab for .tsv; a semicolon, tab or pipe where all of the
        first lines say so, and then a note does.
    null_values
        Cells of a CSV file that mean NULL when they are not quoted, beside the empty one.
    types
        What columns hold, such as `{"born": "date(%d.%m.%Y)", "price": "decimal(comma)"}`: text, integer,
        number, decimal, boolean, date, time or timestamp. Text is parsed so; values that have a type
        already must have this one, or become it without loss.
    notes
        Where to keep what there is to say about the reading.
    dictionaries
        Text columns that may stay dictionary-encoded where a file holds them so.
    wanted
        Which rows are looked at, where not all of them are: a Parquet file is read for these, and NULL elsewhere.

    Returns
    -------
    pa.Table
        With unique column names; dictionary-encoded columns are decoded, but for `dictionaries`.

    Examples
    --------
    >>> read_table([{"id": 1, "zip": "10001"}, {"id": 2}], columns=["zip"]).to_pydict()
    {'zip': ['10001', None]}
    """
    names = None if columns is None else tuple(columns)
    declared = declared_types(types)
    options = ReadOptions(names, schema, encoding, delimiter, tuple(null_values), declared, notes)
    options = replace(options, dictionaries=frozenset(dictionaries), wanted=wanted)
    return load(source, options, format).table


def declared_types(types: Mapping[str, str | Declared] | None) -> dict[str, Declared]:
    """Declared types by column, from their texts."""
    return {
        name: text if isinstance(text, Declared) else Declared.of(text, name) for name, text in (types or {}).items()
    }


def schema_of(
    source: Any,
    *,
    encoding: str = "utf8",
    format: str | None = None,  # noqa: A002
    delimiter: str | None = None,
    null_values: Sequence[str] = (),
    types: Mapping[str, str | Declared] | None = None,
) -> pa.Schema:
    """The names and types of a source, without reading all of it where that can be avoided.

    Parquet and Arrow files say it; for CSV the first megabyte of the first file is looked at, so a
    later value may still widen a type; JSON is read.

    >>> schema_of(pa.table({"id": [1]})).names
    ['id']
    """
    known = TableSource.of(source, format)
    source, declared = known.given, declared_types(types)
    options = ReadOptions(encoding=encoding, delimiter=delimiter, null_values=tuple(null_values), types=declared)
    if hasattr(source, "schema") and isinstance(source.schema, pa.Schema):
        schema = source.schema
    elif known.outer is not None:
        schema = known.outer.schema()
    elif known.format is not None:
        schema = _reader(known.format, 2)(known.files[0], options.untyped(known.format))
    else:
        schema = load(known, replace(options, types={})).table.schema
    require_text(schema, known.name)
    plain = plain_table(pa.Table.from_batches([], schema=schema)).schema
    if declared:
        require_known(declared, plain.names, "the data")
    fields = [pa.field(f.name, (arrow_type(declared[f.name]) if f.name in declared else None) or f.type) for f in plain]
    return pa.schema(fields)


def joint_schema(paths: Sequence[Path], schemas: Sequence[pa.Schema], format_: str) -> pa.Schema:
    """The schema of files, or of parts of files, when they are read as one table: a clash in CSV makes text."""
    tables = [schema.empty_table() for schema in schemas]
    if format_ != "json":
        _require_same_columns(paths, tables)
    while (clash := _clash(tables)) is not None:
        if format_ not in _UNTYPED:
            raise _clash_error(paths, tables, clash)
        text = pa.nulls(0, pa.string())
        tables = [t.set_column(t.schema.get_field_index(clash), clash, text) for t in tables]
    return pa.concat_tables(tables, promote_options="permissive").schema


def load(source: Any, options: ReadOptions, format: str | None = None, *, name: str | None = None) -> Loaded:  # noqa: A002
    """Read a table and keep where each row came from; `name` is what to call an object in memory."""
    known = TableSource.of(source, format)
    if known.format is not None:
        with doing(f"reading {', '.join(str(file) for file in known.files[:3])}") as work:
            loaded = _load_files(known.files, options, known.format)
            work.rows = loaded.table.num_rows
        if options.notes is not None and known.format in _UNTYPED:
            watched = [c for c in options.watched or loaded.table.column_names if options.type_of(c) is None]
            for doubt in doubts(loaded.table, watched, options.types):
                options.note(doubt.note(loaded.places.place))
    else:
        loaded = _load_object(known, options, name)
    if not options.types:
        return loaded
    if options.schema is None:
        require_known(options.types, loaded.table.column_names, loaded.places.sources[0].name)
    return replace(loaded, table=declared_table(loaded.table, options.types, loaded.places.place, options.schema))


def _load_object(source: TableSource, options: ReadOptions, name: str | None) -> Loaded:
    """The table that an object in memory or a lakehouse holds; its declared columns are left as they are."""
    outer = source.outer
    if outer is None:
        table, kind = source.in_memory(options)
    else:
        if options.columns is not None:
            options.selected(outer.schema().names, str(outer))
        table, kind = outer.read(options.columns), str(outer)
    name = name or kind
    places = Places((Origin(name, table.num_rows),))
    require_text(table.schema, name)
    names = options.selected(table.column_names, name)
    wanted = table if options.columns is None else table.select(names)
    # before dictionaries are decoded, which follows their indices
    return Loaded(_fitted(plain_table(validated(wanted, name)), options, places), places)


def paths_of(source: Any) -> list[Path]:
    """The files of this machine that a source names; none where it is in memory or a table of Delta Lake or Iceberg."""
    if lake_table(source) is not None:
        return []
    items = source if isinstance(source, list | tuple) else [source]
    return [path for item in items if isinstance(item, str | os.PathLike) for path in expand(item)]


def _table_of(source: Any, options: ReadOptions) -> tuple[pa.Table, str]:
    """The table that an object in memory holds, and what to call it."""
    if isinstance(source, pa.Table):
        return source, "the table"
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source]), "the batch"
    if isinstance(source, Mapping):
        try:
            return pa.table(dict(source)), "the columns"
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            hint = "give a list of values for each name, all of one length"
            raise DataError(f"cannot read the columns: {error}", hint=hint) from error
    if isinstance(source, list | tuple):
        if not all(isinstance(record, Mapping) for record in source):
            raise _unreadable(source)
        if not source and options.schema is not None:
            return pa.Table.from_batches([], schema=options.schema), "the records"
        return records_table(source, schema=options.schema), "the records"
    if hasattr(source, "to_table") and hasattr(source, "scanner"):  # a pyarrow Dataset
        names = options.selected(source.schema.names, "the dataset")
        return source.to_table(columns=names), "the dataset"
    try:
        return _table_of_frame(source), "the data frame"
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        detail = str(error).splitlines()[0]
        raise DataError(f"cannot read the data frame: {detail}", hint="give each column one type") from error


def _table_of_frame(source: Any) -> pa.Table:
    if hasattr(source, "__arrow_c_stream__"):
        table = pa.table(source)
    elif hasattr(source, "__arrow_c_array__"):
        table = pa.Table.from_batches([pa.record_batch(source)])
    elif hasattr(source, "iloc") and hasattr(source, "columns"):  # pandas before the Arrow interface
        table = pa.Table.from_pandas(source, preserve_index=False)
    elif hasattr(source, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        table = from_dataframe(source)
    else:
        raise _unreadable(source)
    # pandas sends along an index that is not a plain count; it is not a column of the data.
    return table.select([name for name in table.column_names if not name.startswith("__index_level_")])


def _unreadable(source: Any) -> DataError:
    return DataError(
        f"cannot read a table from {type(source).__name__}",
        hint="give a path, a pyarrow table, a pandas or polars data frame, or a list of dicts",
    )


def _fitted(table: pa.Table, options: ReadOptions, places: Places) -> pa.Table:
    if options.schema is None or table.schema.equals(options.schema):
        return table
    for i, name in enumerate(table.column_names):
        type_ = None if name in options.types else options.type_of(name)
        if type_ is not None and table.column(i).type != type_:
            column = fit_column(table.column(i), type_, name=name, place=places.place)
            table = table.set_column(i, name, column)
    return table


def _load_files(files: list[DataFile], options: ReadOptions, format_: str) -> Loaded:
    tables = []
    for file in files:
        if format_ in WRITTEN:
            table = _reader(format_, 1)(file, options.untyped(format_))
        else:
            if len(files) > 1 or options.schema is not None or options.types:
                options = replace(options, dictionaries=frozenset())
            table = validated(_reader(format_, 1)(file, options), str(file))
            table = _fitted(
                plain_table(table, options.dictionaries), options, Places((Origin(str(file), table.num_rows),))
            )
        tables.append(table)
    places = Places(tuple(Origin(str(file), table.num_rows) for file, table in zip(files, tables, strict=True)))
    if len(tables) == 1:
        return Loaded(tables[0], places)
    if format_ in WRITTEN and (mixed := _inexact_together(tables) - set(options.types)):
        # What are doubles in one file are numbers in another that no double holds: all of it becomes decimals.
        exact = {name: Declared("decimal") for name in mixed}
        again = TableSource([])
        again.files = [replace(file, kept=None) for file in files]
        return load(again, replace(options, types={**options.types, **exact}), format_)
    if format_ != "json":  # in JSON a name that is not there means NULL
        _require_same_columns(files, tables)
    clash, forced = _clash(tables), [] if options.schema is None else list(options.schema)
    if clash is not None and format_ in _UNTYPED and clash not in [field.name for field in forced]:
        # What one file shows as numbers another shows as text: in one file it would all be text.
        text = pa.schema([*forced, pa.field(clash, pa.string())])
        return _load_files(files, replace(options, schema=text), format_)
    if clash is not None:
        raise _clash_error(files, tables, clash)
    try:
        return Loaded(pa.concat_tables(tables, promote_options="permissive"), places)
    except pa.ArrowException as error:
        hint = "give a schema that holds the values of all files"
        raise DataError(f"the files do not go together: {error}", hint=hint) from error


def _reader(format_: str, which: int) -> Callable[[DataFile, ReadOptions], Any]:
    module, *functions = _READERS[format_]
    found: Callable[[DataFile, ReadOptions], Any] = getattr(
        import_module(f"holdstrue.sources.{module}"), functions[which - 1]
    )
    return found


def _require_same_columns(files: Sequence[DataFile | Path], tables: list[pa.Table]) -> None:
    first = tables[0].column_names
    for file, table in zip(files, tables, strict=True):
        for name in sorted(set(first) ^ set(table.column_names)):
            has, lacks = (files[0], file) if name in first else (file, files[0])
            hint = "read files that have the same columns"
            raise DataError(f"{lacks} has no column {name!r}, {has} has", hint=hint)


def _inexact_together(tables: list[pa.Table]) -> set[str]:
    """Columns of several files that would lose digits as doubles, or that are decimals of several sizes."""
    found: dict[str, set[str]] = {}
    for table in tables:
        for field, column in zip(table.schema, table.columns, strict=True):
            type_ = str(field.type) if pa.types.is_decimal(field.type) else str(family_of(field.type))
            found.setdefault(field.name, set()).add("wide integer" if is_wide(column) else type_)
    return {name for name, types in found.items() if exact_kind(types)}


def is_wide(column: Any) -> bool:
    """Whether whole numbers are beyond those that doubles hold."""
    if not pa.types.is_integer(column.type):
        return False
    return any(abs(end) >= EXACT_BELOW for end in pc.min_max(column).as_py().values() if end)


def exact_kind(types: Collection[str]) -> bool:
    """Whether kinds of numbers must become decimals to go together.

    >>> exact_kind({"float", "integer"}), exact_kind({"float", "wide integer"}), exact_kind({"wide integer"})
    (False, True, False)
    """
    decimals = [type_ for type_ in types if type_.startswith("decimal")]
    if not set(types) <= {*decimals, "integer", "wide integer", "float", "null"}:
        return False  # beside anything else they are text
    return len(decimals) > 1 or ("float" in types and (bool(decimals) or "wide integer" in types))


def _clash(tables: list[pa.Table]) -> str | None:
    """The first column whose types in the files have nothing in common."""
    names: dict[str, None] = {name: None for table in tables for name in table.column_names}
    for name in names:
        schemas = [pa.schema([t.schema.field(name)]) for t in tables if name in t.column_names]
        types = [schema.field(0).type for schema in schemas]
        if {family_of(type_) for type_ in types} <= NUMBERS and common_families(types) is None:
            return name  # Arrow would make doubles of decimals
        try:
            pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowException:
            return name
    return None


def _clash_error(files: Sequence[DataFile | Path], tables: list[pa.Table], name: str) -> DataError:
    found: dict[pa.DataType, DataFile | Path] = {}
    for file, table in zip(files, tables, strict=True):
        if name in table.column_names and not pa.types.is_null(table.schema.field(name).type):
            found.setdefault(table.schema.field(name).type, file)
    shown = ", ".join(f"{type_} in {file}" for type_, file in found.items())
    return DataError(f"column {name!r} has several types: {shown}", hint="give the column one type")
