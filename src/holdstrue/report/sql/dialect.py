"""What tells the SQL of one database from that of another: how it quotes, names types, tells rows apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdstrue.errors import HoldstrueError, brief
from holdstrue.rules.shapes import Engine, translated

_PLAIN = re.compile(r"[^'\\\x00-\x1f\x7f]*")


class NoSuchSqlError(HoldstrueError):
    """What a rule says and a dialect cannot say; the rule's place in the text says so."""


@dataclass(frozen=True)
class SqlDialect:
    """One way of writing SQL. Another database is another line of `DIALECTS`.

    Examples
    --------
    >>> DIALECTS["spark"].identifier("a`b"), DIALECTS["duckdb"].table('sales."my.orders"')
    ('`a``b`', '"sales"."my.orders"')
    """

    name: str
    title: str
    mark: str
    """Around names."""
    text: Callable[[str], str]
    """A constant of text."""
    blob: str
    """A constant of bytes, with their hexadecimal digits for {}."""
    double: str
    whole: str
    """Holds every whole number that a column may."""
    types: Mapping[str, str]
    """By family and unit the type of a constant: `timestamp[us]`."""
    row: str | None
    """The column that every table has and that tells its rows apart, where there is one."""
    order: str = ""
    """After text that is ordered."""
    decimal_digits: int | None = None
    """How many digits of decimals are compared exactly."""
    longest_name: int | None = None
    """Bytes of a name, of which the database would silently drop the rest."""
    names_by_case: bool = True
    """Whether names that differ only in case are two names."""
    engine: Engine = "re2"
    """Of its regular expressions."""
    search: str = "regexp_matches({}, {})"
    """Whether a regular expression occurs in a text."""
    length: str = "length"
    """The function that counts the characters of a text."""

    def matches(self, cell: str, shape: str) -> str:
        """That a text has a shape."""
        return self.search.format(cell, self.text(translated(shape, self.engine)))

    def identifier(self, name: str) -> str:
        """A name of a column or table in quotes."""
        if not name or "\0" in name:
            raise NoSuchSqlError(f"{self.title} has no name {brief(name)}")
        if self.longest_name is not None and len(name.encode("utf-8", "replace")) > self.longest_name:
            raise NoSuchSqlError(f"{self.title} cuts names after {self.longest_name} bytes: {brief(name)}")
        return f"{self.mark}{name.replace(self.mark, self.mark * 2)}{self.mark}"

    def table(self, name: str) -> str:
        """A table with what stands before it, parted by dots; a part with dots of its own stands in double quotes."""
        parts = re.findall(r'(?:\A|\.)("(?:[^"]|"")+"|[^."]+)', name)
        if not parts or ".".join(parts) != name:
            return self.identifier(name)
        plain = (part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts)
        return ".".join(self.identifier(part) for part in plain)


def _in_quotes(text: str) -> str:
    return "'" + _encodable(text).replace("'", "''") + "'"


def _duckdb_text(text: str) -> str:
    """The parser reads up to a NUL, so that it is put in by a function."""
    parts = [_in_quotes(part) for part in text.split("\0")]
    return parts[0] if len(parts) == 1 else "(" + " || chr(0) || ".join(parts) + ")"


def _postgresql_text(text: str) -> str:
    """With backslashes in the form that reads them alike whatever the server's settings are."""
    if "\0" in text:
        raise NoSuchSqlError("text of PostgreSQL has no NUL characters")
    quoted = _in_quotes(text)
    return "E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted


def _spark_text(text: str) -> str:
    """By its bytes where there is a character that some setting of Spark would read as an escape."""
    if _PLAIN.fullmatch(text) and _encodable(text):
        return f"'{text}'"
    return f"CAST(X'{_encodable(text).encode().hex().upper()}' AS STRING)" if text else "''"


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NoSuchSqlError(f"text {brief(text)} is not Unicode") from None
    return text


_CLOCKS = {"bool": "BOOLEAN", "date": "DATE", "time[us]": "TIME", "timestamp[us]": "TIMESTAMP"}

DIALECTS: Mapping[str, SqlDialect] = {
    "duckdb": SqlDialect(
        "duckdb", "DuckDB", '"', _duckdb_text, "from_hex('{}')", "DOUBLE", "HUGEINT",
        _CLOCKS | {
            "timestamp[s]": "TIMESTAMP_S", "timestamp[ms]": "TIMESTAMP_MS", "timestamp[ns]": "TIMESTAMP_NS",
            "zoned[us]": "TIMESTAMPTZ",
        },
        "rowid", decimal_digits=38, names_by_case=False,
    ),
    "postgresql": SqlDialect(
        "postgresql", "PostgreSQL", '"', _postgresql_text, "decode('{}', 'hex')", "DOUBLE PRECISION", "BIGINT",
        _CLOCKS | {"zoned[us]": "TIMESTAMPTZ"}, "ctid", order=' COLLATE "C"', longest_name=63,
        engine="postgresql", search="{} ~ {}", length="char_length",
    ),
    "spark": SqlDialect(
        "spark", "Spark SQL", "`", _spark_text, "X'{}'", "DOUBLE", "BIGINT",
        {"bool": "BOOLEAN", "date": "DATE", "timestamp[us]": "TIMESTAMP_NTZ", "zoned[us]": "TIMESTAMP"},
        None, decimal_digits=38, names_by_case=False,
        engine="java", search="{} RLIKE {}", length="char_length",
    ),
}  # fmt: skip
"""Every dialect by its name."""


def dialect_of(name: str) -> SqlDialect:
    """The dialect of a name, or an error with those that there are."""
    if name not in DIALECTS:
        raise HoldstrueError(f"no SQL dialect {brief(name)}", hint=f"one of {', '.join(DIALECTS)}")
    return DIALECTS[name]
