"""Tables and queries of DuckDB files, opened for reading only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from holdstrue.errors import DataError
from holdstrue.sources.databases.exact import UNSIZED, exact_numbers
from holdstrue.sources.databases.relation import database_file, no_table, plain_file, quoted, require_asked
from holdstrue.sources.databases.sql_table import DatabaseFile
from holdstrue.sources.ways import first_line, not_installed

_AS_TEXT = {"BIT", "TIME WITH TIME ZONE", "UUID", "BIGNUM", "VARINT"}
"""What DuckDB would hand to Arrow as bytes, or without its zone; its text says it exactly."""
_AS_NUMBER = {"HUGEINT", "UHUGEINT"}
"""Numbers of up to 39 digits, for which DuckDB takes a decimal of 38."""

_SQLITE = b"SQLite format 3"


def opened(url: str, _: str | None) -> DuckDbTable:
    """The table or query that `duckdb:FILE?table=NAME` or `?query=SELECT ...` names."""
    path, relation = database_file(url, "duckdb")
    table = DuckDbTable(path, relation)
    require_asked(relation, f"duckdb:{path}", table.tables)
    table.columns  # noqa: B018
    return table


@dataclass(frozen=True, eq=False)
class DuckDbTable(DatabaseFile):
    """A table or query of a DuckDB file."""

    @cached_property
    def connection(self) -> Any:
        """One for all that is asked; the file stays open for others to read."""
        try:
            import duckdb
        except ImportError as error:
            raise not_installed(f"{self.path} is a DuckDB file, which", "duckdb", "duckdb") from error
        with self.path.open("rb") as file:
            if file.read(len(_SQLITE)) == _SQLITE:
                raise DataError(f"{self.path} is a SQLite file", hint=f"write sqlite:{self.path}?table=NAME")
        try:
            # nothing is to be fetched from the network because of what a file holds
            return duckdb.connect(str(self.path), read_only=True, config={"autoinstall_known_extensions": "false"})
        except duckdb.Error as error:
            raise DataError(
                f"{self.path} cannot be opened by DuckDB: {first_line(error)}",
                hint=plain_file(self.path)
                or "is it a DuckDB file of a version that this duckdb reads, and is nobody writing to it?",
            ) from error

    def tables(self) -> list[str]:
        """The names of all tables and views, with their schema where it is not the first one."""
        found = self._run("SELECT table_schema, table_name FROM information_schema.tables").fetchall()
        return [name if schema == "main" else f"{schema}.{name}" for schema, name in found]

    @cached_property
    def columns(self) -> dict[str, str]:
        """DuckDB's own type of every column."""
        connection = self.connection
        import duckdb

        try:
            # of a query within another, DuckDB renames columns that are there twice
            described = connection.execute(f"DESCRIBE {self.relation.query or self.relation.select('*')}").fetchall()
        except duckdb.CatalogException as error:
            if self.relation.parts:
                raise no_table(self.relation, f"duckdb:{self.path}", self.tables()) from error
            raise self._failed(error) from error
        except duckdb.Error as error:
            raise self._failed(error) from error
        self.require_once([name for name, *_ in described])
        return {name: str(type_) for name, type_, *_ in described}

    def schema(self) -> pa.Schema:
        """Its columns, without reading rows."""
        empty = self._table(self._select(list(self.columns)) + " LIMIT 0")
        wide = [name for name, type_ in self.columns.items() if type_ in _AS_NUMBER]
        return pa.schema([field.with_type(UNSIZED) if field.name in wide else field for field in empty.schema])

    def read(self, columns: Sequence[str] | None = None, where: str = "") -> pa.Table:
        """The rows, in the order in which DuckDB gives them."""
        names = list(self.columns if columns is None else columns)
        numbers = dict.fromkeys(name for name in names if self.columns[name] in _AS_NUMBER)
        try:
            table = self._table(self._select(names) + where)
        finally:
            self.close()
        return exact_numbers(table, numbers, str(self))

    def newest(self, column: str) -> str | None:
        """The largest value of a column as SQL writes it; None where there is none."""
        found = self._run(self.relation.select(f"CAST(max({quoted(column)}) AS VARCHAR)")).fetchall()[0][0]
        return None if found is None else "'" + str(found).replace("'", "''") + "'"

    def _select(self, names: Sequence[str]) -> str:
        return self.relation.select(", ".join(map(self._column, names)) or "1")

    def _column(self, name: str) -> str:
        text = self.columns[name] in _AS_TEXT | _AS_NUMBER
        return f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}" if text else quoted(name)

    def _table(self, query: str) -> pa.Table:
        connection = self.connection
        import duckdb

        try:
            return connection.sql(query).to_arrow_table()
        except duckdb.Error as error:
            raise self._failed(error) from error

    def _run(self, query: str) -> Any:
        connection = self.connection
        import duckdb

        try:
            return connection.execute(query)
        except duckdb.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> DataError:
        return DataError(f"{self} cannot be read: {first_line(error)}", hint="does DuckDB itself run it?")
