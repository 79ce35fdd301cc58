"""Tables and queries of any database that has an ADBC driver: `adbc:DRIVER?uri=...&table=NAME`.

Types are those that the driver sends; what it marks as a number that Arrow has no type for becomes an exact decimal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl

import pyarrow as pa

from holdstrue.errors import DataError
from holdstrue.sources.databases.exact import UNSIZED, exact_numbers
from holdstrue.sources.databases.relation import SqlRelation, quoted, require_asked, selected
from holdstrue.sources.databases.sql_table import AdbcRows

_DRIVER = re.compile(r"[a-z][a-z0-9_]*")


def opened(url: str, _: str | None) -> AdbcTable:
    """The table or query of a database; `uri` may also be in the environment, as ADBC_DRIVER_URI."""
    driver, _mark, asked = url.split(":", 1)[1].partition("?")
    driver = driver.removeprefix("adbc_driver_")
    where = f"adbc:{driver}"
    if not _DRIVER.fullmatch(driver):
        raise DataError(f"{driver!r} is not the name of an ADBC driver", hint="write adbc:snowflake?uri=...&table=NAME")
    relation = SqlRelation.of(asked, where)
    settings = dict(parse_qsl(relation.settings, keep_blank_values=True))
    variable = f"ADBC_{driver.upper()}_URI"
    uri = settings.pop("uri", os.environ.get(variable, ""))
    if settings:
        raise DataError(
            f"{where} has a setting {next(iter(settings))!r}, which is not known",
            hint=f"everything that the driver needs stands in uri=..., or in {variable}",
        )
    table = AdbcTable(driver, uri, relation)
    require_asked(relation, where, table.tables)
    table.sent  # noqa: B018
    return table


@dataclass(frozen=True, eq=False, repr=False)
class AdbcTable(AdbcRows):
    """A table or query behind an ADBC driver."""

    driver: str
    uri: str
    """May hold a password."""
    relation: SqlRelation

    def __str__(self) -> str:
        return f"{self.relation} of adbc:{self.driver}"

    @cached_property
    def connection(self) -> Any:
        """One for all that is asked."""
        module = f"adbc_driver_{self.driver}"
        try:
            connect = import_module(f"{module}.dbapi").connect
        except ImportError as error:
            raise DataError(
                f"adbc:{self.driver} is read by {module}, which is not installed",
                hint=f"pip install {module.replace('_', '-')}",
            ) from error
        with self.explained("connect to"):
            return connect(self.uri)

    def tables(self) -> list[str]:
        """The names of all tables, as far as the driver tells them."""
        with self.explained("list the tables of"):
            catalogs = self.connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        return sorted(
            str(table["table_name"])
            for catalog in catalogs
            for schema in catalog["catalog_db_schemas"] or ()
            for table in schema["db_schema_tables"] or ()
        )

    @cached_property
    def sent(self) -> pa.Schema:
        """The columns as the driver sends them."""
        found = self.rows(self.relation.select("*", " WHERE 1 = 0")).schema
        self.require_once(found.names)
        return found

    def schema(self) -> pa.Schema:
        """Its columns, without reading rows."""
        return pa.schema([pa.field(f.name, UNSIZED if _is_number(f.type) else f.type) for f in self.sent])

    def read(self, columns: Sequence[str] | None = None, where: str = "") -> pa.Table:
        """The rows, in the order in which the database gives them."""
        names = self.sent.names if columns is None else list(columns)
        try:
            table = self.rows(self.relation.select(selected(names), where))
        finally:
            self.close()
        numbers: dict[str, pa.DataType | None] = {n: None for n in names if _is_number(self.sent.field(n).type)}
        return exact_numbers(table, numbers, str(self))

    def newest(self, column: str) -> str | None:
        """The largest value of a column as SQL writes it; None where there is none."""
        table = self.rows(self.relation.select(f"CAST(max({quoted(column)}) AS VARCHAR) AS newest"))
        found = table.column(0)[0].as_py()
        return None if found is None else "'" + str(found).replace("'", "''") + "'"

    def failed(self, doing: str, error: Exception) -> DataError:
        """What the driver says, without the address that may hold a password."""
        said = " ".join(str(error).split())[:300]
        for part in {self.uri, *re.findall(r":([^:@/]+)@", self.uri)} - {""}:
            said = said.replace(part, "***")
        return DataError(f"cannot {doing} {self}: {said}", hint="does the driver itself do it?")


def _is_number(type_: pa.DataType) -> bool:
    """Whether a type of the driver's own is one of numbers, sent as text."""
    return isinstance(type_, pa.OpaqueType) and type_.type_name in ("numeric", "decimal", "number")
