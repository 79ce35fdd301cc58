"""What a URL asks of a database: a table or a query, and how either is written in SQL."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from holdstrue.errors import DataError
from holdstrue.location import nearby_hint
from holdstrue.sources.datafiles import format_by_name

_ASKED = re.compile(r"(?:^|&)(table|query)=", re.IGNORECASE)


@dataclass(frozen=True)
class SqlRelation:
    """A table, by the parts of its name, or a query.

    Examples
    --------
    >>> one = SqlRelation.of('sslmode=require&table=shop."My Orders"', "postgresql://h/db")
    >>> one.parts, one.settings, one.sql
    (('shop', 'My Orders'), 'sslmode=require', '"shop"."My Orders"')
    >>> SqlRelation.of("query=SELECT 100 %2 AS a", "x").sql, SqlRelation.of("query=SELECT%201", "x").query
    ('(SELECT 100 %2 AS a) AS "data"', 'SELECT 1')
    """

    parts: tuple[str, ...] = ()
    query: str | None = None
    settings: str = field(default="", compare=False)
    """What stands before the table or query, which is for the database."""

    @staticmethod
    def of(asked: str, where: str) -> SqlRelation:
        """From what follows the `?` of a URL; a query goes to the end, as it is written if there are spaces in it."""
        found = _ASKED.search(asked)
        if found is None:
            return SqlRelation(settings=asked)
        text, settings = asked[found.end() :], asked[: found.start()]
        if found[1].lower() == "query":
            query = (text if re.search(r"\s", text) else unquote(text)).strip().rstrip(";").rstrip()
            if not query:
                raise DataError(f"the query of {where} is empty", hint="write ?query=SELECT ...")
            return SqlRelation(query=query, settings=settings)
        name, _, more = text.partition("&")
        if more:
            settings = f"{settings}&{more}" if settings else more
        parts = split_name(unquote(name))
        if parts is None:
            raise DataError(
                f"{unquote(name)!r} is not the name of a table of {where}",
                hint='write ?table=NAME or ?table=SCHEMA.NAME; a name with a dot stands in double quotes: "a.b"',
            )
        return SqlRelation(parts, settings=settings)

    @property
    def asked(self) -> bool:
        """Whether a table or a query is named at all."""
        return bool(self.parts) or self.query is not None

    @property
    def sql(self) -> str:
        """As it stands after FROM."""
        return f'({self.query}) AS "data"' if self.query is not None else ".".join(map(quoted, self.parts))

    def select(self, what: str, more: str = "") -> str:
        """A query for some columns of it; names in it are quoted, and a query of the user's is the user's own."""
        return f"SELECT {what} FROM {self.sql}{more}"  # noqa: S608

    def __str__(self) -> str:
        return "a query" if self.query is not None else f"table {'.'.join(self.parts)}"


def split_name(text: str) -> tuple[str, ...] | None:
    """The parts of a name at the dots that are not between double quotes; None where it is no name.

    >>> split_name('a."b.c"'), split_name('say "hi"'), split_name("a..b"), split_name('"x""y"')
    (('a', 'b.c'), ('say "hi"',), None, ('x"y',))
    """
    parts = re.findall(r'(?:^|\.)("(?:[^"]|"")*"|[^.]*)(?=\.|$)', text)
    plain = tuple(
        part[1:-1].replace('""', '"') if len(part) > 1 and part[0] == part[-1] == '"' else part for part in parts
    )
    return plain if plain and all(plain) and "\x00" not in text else None


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it holds.

    >>> quoted('a"b')
    '"a""b"'
    """
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def selected(columns: Sequence[str] | None) -> str:
    """The columns after SELECT; all where none are named."""
    return "*" if columns is None else ", ".join(map(quoted, columns)) or "1"


def require_asked(relation: SqlRelation, where: str, tables: Callable[[], Sequence[str]]) -> None:
    """Refuse a URL that names neither a table nor a query."""
    if not relation.asked:
        raise DataError(f"which table of {where} is meant is not said", hint=f"add ?table=NAME; {_there(tables())}")


def no_table(relation: SqlRelation, where: str, tables: Sequence[str]) -> DataError:
    """The error for a table that is not there, with those that are, the nearest first."""
    name = ".".join(relation.parts)
    return DataError(f"{where} has no table {name!r}", hint=_there(tables, name))


def _there(tables: Sequence[str], near: str = "") -> str:
    if not tables:
        return "there are no tables in it"

    def closeness(table: str) -> float:
        both = near.lower(), table.lower()
        return max(
            difflib.SequenceMatcher(None, *both).ratio(),
            difflib.SequenceMatcher(None, both[0].split(".")[-1], both[1].split(".")[-1]).ratio(),
        )

    ordered = sorted(tables, key=lambda table: (-closeness(table), table)) if near else sorted(tables)
    more = f" and {len(ordered) - 20} more" if len(ordered) > 20 else ""
    return f"there are: {', '.join(ordered[:20])}{more}"


def database_file(url: str, kind: str) -> tuple[Path, SqlRelation]:
    """The file and the relation that `KIND:FILE?table=NAME` names."""
    text = url.split(":", 1)[1]
    name, mark, asked = text.partition("?")
    name = unquote(name.removeprefix("//")) if name.startswith("//") else name
    path = Path(name)
    if not name.strip():
        raise DataError(f"{url!r} names no file", hint=f"write {kind}:FILE?table=NAME")
    if not path.is_file():
        said = "is a directory" if path.is_dir() else "does not exist"
        raise DataError(f"the database file {name!r} {said}", hint=nearby_hint(path))
    relation = SqlRelation.of(asked if mark else "", name)
    if relation.settings:
        raise DataError(
            f"{kind}:{name} has a setting {relation.settings.split('=')[0]!r}, which is not known",
            hint=f"write {kind}:FILE?table=NAME or {kind}:FILE?query=SELECT ...",
        )
    return path, relation


def plain_file(path: Path) -> str | None:
    """What to do where something that is no database goes by the name of a data file; None for other names.

    >>> plain_file(Path("t.csv")), plain_file(Path("shop.db"))
    ('by its name it is csv, no database: give the file as it is, t.csv', None)
    """
    format_ = format_by_name(path.name)
    return None if format_ is None else f"by its name it is {format_}, no database: give the file as it is, {path}"
