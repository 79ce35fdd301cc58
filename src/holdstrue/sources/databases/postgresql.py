"""Tables and queries of PostgreSQL through ADBC, in one read-only transaction.

The URL goes to libpq, which takes what it does not say from the environment, as psql does: PGPASSWORD, PGPASSFILE and
~/.pgpass, PGSERVICE, PGSSLMODE. No message repeats a password.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from holdstrue.errors import DataError
from holdstrue.location import shown
from holdstrue.sources.databases.exact import UNSIZED, exact_numbers
from holdstrue.sources.databases.relation import SqlRelation, no_table, quoted, require_asked
from holdstrue.sources.databases.sql_table import AdbcRows
from holdstrue.sources.ways import not_installed

_AS_TEXT = {"uuid", "json", "jsonb"}
"""What Arrow has types of its own for; their text says them exactly. So does that of types that ADBC sends as bytes."""
_MOST_DIGITS = 76
_NO_TABLE = ("42P01", "3F000")
"""What PostgreSQL calls an unknown table, and an unknown schema."""


def opened(url: str, _: str | None) -> PostgresTable:
    """The table or query that `postgresql://HOST/DATABASE?table=NAME` or `?query=SELECT ...` names."""
    address, _mark, asked = url.partition("?")
    where = shown(address)
    if address.count("@") > 1 or "#" in address:
        raise DataError(
            f"the address {where} holds an @ or a # that is part of a name or a password",
            hint="write %40 for @ and %23 for #, or leave the password to PGPASSWORD",
        )
    relation = SqlRelation.of(asked, where)
    table = PostgresTable(f"{address}?{relation.settings}" if relation.settings else address, relation, where)
    require_asked(relation, where, table.tables)
    table.sent  # noqa: B018
    return table


@dataclass(frozen=True, eq=False)
class PostgresTable(AdbcRows):
    """A table or query of a PostgreSQL database."""

    url: str
    """What libpq is given; it may hold a password."""
    relation: SqlRelation
    where: str
    """The address as it is shown."""

    def __str__(self) -> str:
        return f"{self.relation} of {self.where}"

    def __repr__(self) -> str:
        return f"PostgresTable({str(self)!r})"

    @cached_property
    def connection(self) -> Any:
        """One for all that is asked, so that everything is of one moment."""
        try:
            import adbc_driver_postgresql.dbapi as adbc
        except ImportError as error:
            raise not_installed(f"PostgreSQL at {self.where}", "adbc-driver-postgresql", "postgresql") from error
        with self.explained("connect to"):
            connection = adbc.connect(self.url)
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return connection

    def tables(self) -> list[str]:
        """The names of all tables and views that one may see, with their schema where it is not `public`."""
        found = self.rows(
            "SELECT table_schema::text AS s, table_name::text AS t FROM information_schema.tables "
            "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
        ).to_pylist()
        return [row["t"] if row["s"] == "public" else f"{row['s']}.{row['t']}" for row in found]

    @cached_property
    def sent(self) -> pa.Schema:
        """The columns as ADBC sends them."""
        connection = self.connection
        try:
            with connection.cursor() as cursor:
                found = cursor.adbc_execute_schema(self.relation.select("*"))
        except Exception as error:
            if self.relation.parts and getattr(error, "sqlstate", None) in _NO_TABLE:
                connection.rollback()
                raise no_table(self.relation, self.where, self.tables()) from None
            with self.explained("read"):
                raise
        self.require_once(found.names)
        return found

    def schema(self) -> pa.Schema:
        """Its columns, without reading rows."""
        return pa.schema([pa.field(field.name, self._type(field)) for field in self.sent])

    def read(self, columns: Sequence[str] | None = None, where: str = "") -> pa.Table:
        """The rows, in the order in which PostgreSQL gives them."""
        names = self.sent.names if columns is None else list(columns)
        chosen = ", ".join(map(self._column, names)) or "1"
        try:
            table = self.rows(self.relation.select(chosen, where))
        finally:
            self.close()
        numbers = {name: _sized(self.sent.field(name)) for name in names if _is_number(self.sent.field(name))}
        plain = table.replace_schema_metadata(None).cast(pa.schema([pa.field(f.name, f.type) for f in table.schema]))
        return exact_numbers(plain, numbers, str(self))

    def newest(self, column: str) -> str | None:
        """The largest value of a column as SQL writes it; None where there is none."""
        table = self.rows(self.relation.select(f"quote_literal(max({quoted(column)})::text) AS newest"))
        found: str | None = table.column(0)[0].as_py()
        return found

    def _column(self, name: str) -> str:
        field = self.sent.field(name)
        if _kind(field) == "money":
            return f"{quoted(name)}::numeric AS {quoted(name)}"
        if self._type(field) == pa.string() and field.type != pa.string():
            return f"{quoted(name)}::text AS {quoted(name)}"
        return quoted(name)

    def _type(self, field: pa.Field) -> pa.DataType:
        if _is_number(field):
            return _sized(field) or UNSIZED
        opaque = isinstance(field.type, pa.BaseExtensionType)
        return pa.string() if opaque or _kind(field) in _AS_TEXT else field.type

    def failed(self, doing: str, error: Exception) -> DataError:
        """What PostgreSQL or libpq says, without the password that may be in it."""
        what = self.where if doing == "connect to" else str(self)
        return DataError(
            f"cannot {doing} {what}: {_without_secret(_said(error), self.url)}",
            hint="passwords come from PGPASSWORD or ~/.pgpass; does psql reach it?"
            if doing == "connect to"
            else "does psql run it? it is read in a transaction that changes nothing",
        )


def _kind(field: pa.Field) -> str:
    return (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()


def _is_number(field: pa.Field) -> bool:
    return _kind(field) in ("numeric", "money")


def _sized(field: pa.Field) -> pa.DataType | None:
    """The decimal type of a `numeric(digits, scale)`; None where the values decide."""
    told = int((field.metadata or {}).get(b"POSTGRESQL:typmod", b"-1"))
    if told < 4:
        return None
    digits, scale = ((told - 4) >> 16) & 0xFFFF, ((told - 4) & 0x7FF ^ 1024) - 1024
    if not 0 <= scale <= digits <= _MOST_DIGITS:
        return None
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)


def _said(error: BaseException) -> str:
    """What PostgreSQL or libpq says, in one line, without what the driver puts around it."""
    text = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
    text = re.sub(r"^[A-Z_]+: (\[libpq\] )?", "", text)
    text = re.sub(r"^Failed to (connect|prepare query|execute query '.*?'): ", "", text)
    return re.sub(r" LINE \d+:.*|\. SQLSTATE: \w+$", "", text).removeprefix("ERROR:").strip()


def _without_secret(text: str, url: str) -> str:
    try:
        secret = urlsplit(url).password
    except ValueError:
        return "the address cannot be understood"
    for form in filter(None, (secret, unquote(secret or ""))):
        text = text.replace(form, "***")
    return re.sub(r"(?i)password=[^&\s]*", "password=***", text)
