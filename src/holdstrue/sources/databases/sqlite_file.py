"""Tables and queries of SQLite files, whose cells have types of their own: each column becomes one type or is refused.

A declared DATE, DATETIME, TIMESTAMP, TIME or BOOLEAN holds text or numbers that read so, whole numbers and floats go
together where no digit is lost, and any other mixture names the first cell that does not fit.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.errors import DataError
from holdstrue.sources.databases.relation import database_file, no_table, plain_file, quoted, require_asked, selected
from holdstrue.sources.databases.sql_table import DatabaseFile
from holdstrue.sources.fit import fit_column
from holdstrue.sources.ways import first_line
from holdstrue.sources.whole_numbers import EXACT_BELOW

ROWS = 1 << 16
"""Rows that are made into Arrow at once. Chosen, not tuned."""

BUSY = 5.0
"""Seconds to wait for somebody else's lock, as long as sqlite3 waits by itself."""

_WORDS = {int: "integer", float: "real", str: "text", bytes: "blob"}
_MOMENTS = (pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC"))


def opened(url: str, _: str | None) -> SqliteTable:
    """The table or query that `sqlite:FILE?table=NAME` or `?query=SELECT ...` names."""
    path, relation = database_file(url, "sqlite")
    table = SqliteTable(path, relation)
    require_asked(relation, f"sqlite:{path}", table.tables)
    table.columns  # noqa: B018
    return table


@dataclass(frozen=True, eq=False)
class SqliteTable(DatabaseFile):
    """A table or query of a SQLite file."""

    @cached_property
    def connection(self) -> sqlite3.Connection:
        """Opened to be read; used by one thread at a time, whichever it is."""
        address = f"file:{quote(str(self.path.absolute()))}?mode=ro"
        connection = sqlite3.connect(address, uri=True, check_same_thread=False, timeout=BUSY)
        # what is no UTF-8 is found when the column is made
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        return connection

    def tables(self) -> list[str]:
        """The names of all tables and views."""
        found = self._run("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'")
        return [str(name) for (name,) in found]

    @cached_property
    def columns(self) -> dict[str, str]:
        """What every column is declared as, in capitals; nothing for those of a query."""
        declared: dict[str, str] = {}
        if self.relation.parts:
            if self.relation.parts[-1].lower() not in [name.lower() for name in self.tables()]:
                raise no_table(self.relation, f"sqlite:{self.path}", self.tables())
            name = quoted(self.relation.parts[-1])
            declared = {str(row[1]): str(row[2] or "").upper() for row in self._run(f"PRAGMA table_xinfo({name})")}
        cursor = self._run(self.relation.select("*", " LIMIT 0"))
        names = [str(name) for name, *_ in cursor.description]
        for name in names:
            # of a query within another, SQLite calls the second column a `a:1`
            base = re.sub(r":\d+$", "", name)
            if names.count(name) > 1 or (self.relation.query is not None and base != name and base in names):
                raise DataError(f"{self} has two columns named {base!r}", hint="rename one of them: SELECT ... AS ...")
        return {name: declared.get(name, "") for name in names}

    def schema(self) -> pa.Schema:
        """Its columns as they are declared; what their cells hold is seen when they are read."""
        return pa.schema([pa.field(name, _declared(type_)) for name, type_ in self.columns.items()])

    def read(self, columns: Sequence[str] | None = None, where: str = "") -> pa.Table:
        """The rows, in the order in which SQLite gives them."""
        names = list(self.columns if columns is None else columns)
        cursor = self._run(self.relation.select(selected(names), where))
        found = [_Cells(name, self.columns[name], self) for name in names]
        try:
            while rows := self._fetched(cursor):
                for cells, values in zip(found, zip(*rows, strict=True), strict=False):
                    cells.add(values)
        finally:
            self.close()
        return pa.table([cells.column() for cells in found], names=names)

    def newest(self, column: str) -> str | None:
        """The largest value of a column as SQL writes it; None where there is none."""
        [(found,)] = self._run(self.relation.select(f"quote(max({self._compared(column)[0]}))")).fetchall()
        return None if found in (None, "NULL") else str(found)

    def from_on(self, column: str, since: str) -> str:
        """The condition for values from one on."""
        compared, numbers = self._compared(column)
        if numbers and not _NUMBER.fullmatch(since):
            raise DataError(f"column {column!r} of {self} holds numbers, and {since} is none", hint="give a number")
        return f" WHERE {compared} >= {f'CAST({since} AS NUMERIC)' if numbers else since}"

    def _compared(self, column: str) -> tuple[str, bool]:
        """What stands for a column where its values are compared, and whether these are numbers.

        SQLite compares text letter by letter ('9' is more than '10') and takes any text for more than any number. So
        numbers in text are compared as numbers; other text must be of one kind, and times be written in one way.
        Complexity: O(rows).
        """
        name = quoted(column)
        asked = self.relation.select(f"{_kind_of(name)} AS kind, quote(min({name}))", " GROUP BY kind")
        found = [(str(kind), str(value)) for kind, value in self._run(asked) if kind is not None]
        kinds = {kind for kind, _ in found}
        if kinds <= {_NUMBERS, _DIGITS}:
            return (f"CAST({name} AS NUMERIC)" if _DIGITS in kinds else name), bool(kinds)
        if len(kinds) > 1 or _OFFSET in kinds:
            shown = " and ".join(f"{value} ({kind})" for kind, value in found)
            raise DataError(
                f"column {column!r} of {self} holds {shown}: which of them is larger, SQLite does not tell",
                hint="go by a column of one kind, or make one: ?query=SELECT *, datetime(...) AS at FROM ..., --by at",
            )
        return name, False

    def _run(self, query: str) -> sqlite3.Cursor:
        try:
            return self.connection.execute(query)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _fetched(self, cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
        try:
            return list(islice(cursor, ROWS))
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: sqlite3.Error) -> DataError:
        return DataError(
            f"{self} cannot be read: {first_line(error)}",
            hint=plain_file(self.path) or "is it a SQLite file, and does sqlite3 itself run it?",
        )


_NUMBERS, _DIGITS, _OFFSET = "a number", "a number in text", "a time with an offset"
_NUMBER = re.compile(r"'?[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?'?")


def _kind_of(name: str) -> str:
    """SQL for the kind of a cell, in words; cells of one kind are ordered as SQLite compares them.

    Times that begin with YYYY-MM-DD are ordered as text where all of them go on in one way: with a blank or with T, and
    without a zone, or in UTC with equally many digits (for `Z` is more than a point).
    """
    day = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
    return (
        f"CASE typeof({name}) WHEN 'null' THEN NULL WHEN 'integer' THEN '{_NUMBERS}' WHEN 'real' THEN '{_NUMBERS}' "
        f"WHEN 'blob' THEN 'a blob' ELSE CASE "
        f"WHEN {name} GLOB '{day}' THEN 'a time' "
        f"WHEN {name} GLOB '{day}[ T]*' AND substr({name}, 12) NOT GLOB '*[^0-9:.]*' "
        f"THEN CASE substr({name}, 11, 1) WHEN 'T' THEN 'a time with T' ELSE 'a time' END "
        f"WHEN {name} GLOB '{day}[ T]*Z' THEN 'a time in UTC like ' || substr({name}, 11, 1) || length({name}) "
        f"WHEN {name} GLOB '{day}[ T]*' THEN '{_OFFSET}' "
        f"WHEN {name} GLOB '*[0-9]*' AND {name} NOT GLOB '*[^0-9.+-]*' AND {name} NOT GLOB '?*[+-]*' "
        f"AND {name} NOT GLOB '*.*.*' THEN '{_DIGITS}' ELSE 'text' END END"
    )


def _affinity(declared: str) -> pa.DataType:
    """The type that SQLite prefers for a column that is declared so (its rules, in its order)."""
    if "INT" in declared:
        return pa.int64()
    if any(word in declared for word in ("CHAR", "CLOB", "TEXT")):
        return pa.string()
    if "BLOB" in declared:
        return pa.binary()
    return pa.float64() if any(word in declared for word in ("REAL", "FLOA", "DOUB", "NUM", "DEC")) else pa.null()


def _declared(declared: str) -> pa.DataType:
    """The type that a column is read as, unless its cells say otherwise.

    >>> _declared("BOOLEAN"), _declared("VARCHAR(20)"), _declared("DATETIME"), _declared("")
    (DataType(bool), DataType(string), TimestampType(timestamp[us]), DataType(null))
    """
    return _moment(declared) or (pa.bool_() if "BOOL" in declared else _affinity(declared))


def _moment(declared: str) -> pa.DataType | None:
    if "DATETIME" in declared or "TIMESTAMP" in declared:
        return pa.timestamp("us")
    if declared in ("DATE", "TIME"):
        return pa.date32() if declared == "DATE" else pa.time64("us")
    return None


class _Cells:
    """The cells of one column as they come."""

    def __init__(self, name: str, declared: str, table: SqliteTable) -> None:
        self.name, self.declared, self.table = name, declared, table
        self.parts: list[pa.Array] = []
        self.rows = 0
        self.first: tuple[type, int, Any] | None = None
        """The kind of the first known cell, its row and its value."""
        self.wide: tuple[int, int] | None = None
        """The row and value of a whole number that no float holds."""
        self.real: tuple[int, float] | None = None

    def add(self, values: Sequence[Any]) -> None:
        """Some more cells."""
        kinds = set(map(type, values)) - {type(None)}
        if self.first is None and kinds:
            row = next(i for i, value in enumerate(values) if value is not None)
            self.first = type(values[row]), self.rows + row, values[row]
        allowed = {int, float} if self.first and self.first[0] in (int, float) else {self.first and self.first[0]}
        if kinds - allowed:
            self._refuse_mixture(values, allowed)
        if int in kinds and self.wide is None:
            at = next((i for i, v in enumerate(values) if type(v) is int and abs(v) > EXACT_BELOW), None)
            self.wide = None if at is None else (self.rows + at, values[at])
        if float in kinds and self.real is None:
            at = next(i for i, v in enumerate(values) if type(v) is float)
            self.real = self.rows + at, values[at]
        if self.real is not None and self.wide is not None:
            raise DataError(
                f"{self._place(self.wide[0])}: column {self.name!r} holds {self.wide[1]}, which no float is, "
                f"and {self.real[1]!r} in row {self.real[0] + 1}",
                hint=f"read it as text: ?query=SELECT CAST({quoted(self.name)} AS TEXT) ...",
            )
        self.parts.append(self._array(values))
        self.rows += len(values)

    def column(self) -> Any:
        """The column, in the type that all of its cells have."""
        kinds = {part.type for part in self.parts} - {pa.null()}
        type_ = pa.float64() if len(kinds) > 1 else next(iter(kinds), None)
        if type_ is None:
            return pa.chunked_array([pa.nulls(self.rows, _declared(self.declared))])
        column = pa.chunked_array([part.cast(type_) for part in self.parts], type=type_)
        if "BOOL" in self.declared and pa.types.is_integer(type_):
            return self._converted(column, pa.bool_(), _booleans)
        moment = _moment(self.declared)
        if moment is None:
            return column
        if not pa.types.is_string(type_):
            assert self.first is not None
            raise self._odd(*self.first[1:])
        if pa.types.is_timestamp(moment):
            return self._moments(column)
        return self._converted(column, moment, lambda part: fit_column(part, moment, name=self.name, place=str))

    def _moments(self, column: Any) -> Any:
        for moment in _MOMENTS:
            try:
                return pc.cast(column, moment)
            except pa.ArrowException:
                continue
        return self._converted(column, _MOMENTS[0], lambda part: pc.cast(part, _MOMENTS[0]))

    def _converted(self, column: Any, type_: pa.DataType, convert: Callable[[Any], Any]) -> Any:
        try:
            return convert(column)
        except (pa.ArrowException, DataError, ValueError):
            for row, cell in enumerate(column):
                try:
                    convert(pa.chunked_array([pa.array([cell.as_py()], column.type)]))
                except (pa.ArrowException, DataError, ValueError):
                    raise self._odd(row, cell.as_py()) from None
            raise

    def _odd(self, row: int, value: Any) -> DataError:
        return DataError(
            f"{self._place(row)}: column {self.name!r} is declared {self.declared} and holds {value!r}",
            hint=f"mend the cell, or read what is there: ?query=SELECT {quoted(self.name)} ...",
        )

    def _array(self, values: Sequence[Any]) -> pa.Array:
        try:
            return pa.array(values, pa.float64() if self.real is not None else None)
        except UnicodeEncodeError:
            at = next(i for i, v in enumerate(values) if isinstance(v, str) and not _is_text(v))
            raise DataError(
                f"{self._place(self.rows + at)}: column {self.name!r} holds text that is not UTF-8",
                hint=f"mend the cell, or read it as bytes: ?query=SELECT CAST({quoted(self.name)} AS BLOB) ...",
            ) from None

    def _refuse_mixture(self, values: Sequence[Any], allowed: set[Any]) -> None:
        assert self.first is not None
        at = next(i for i, v in enumerate(values) if v is not None and type(v) not in allowed)
        kind, row, value = self.first
        raise DataError(
            f"{self._place(self.rows + at)}: column {self.name!r} holds {values[at]!r} ({_WORDS[type(values[at])]}), "
            f"and {value!r} ({_WORDS[kind]}) in row {row + 1}",
            hint=f"give the column one type: ?query=SELECT CAST({quoted(self.name)} AS TEXT) ...",
        )

    def _place(self, row: int) -> str:
        return f"row {row + 1} of {self.table}"


def _booleans(column: Any) -> Any:
    odd = pc.fill_null(pc.invert(pc.is_in(column, value_set=pa.array([0, 1], column.type))), False)
    if pc.any(pc.and_(odd, pc.is_valid(column))).as_py():
        raise ValueError("neither 0 nor 1")
    return pc.cast(column, pa.bool_())


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
