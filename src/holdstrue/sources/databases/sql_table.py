"""What tables and queries of all databases have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdstrue.errors import DataError
from holdstrue.sources.databases.relation import SqlRelation, quoted


class SqlTable(ABC):
    """A table or query of a database, with a connection that is made when it is first asked.

    Who inherits keeps the connection as a cached property, so that closing is forgetting it.
    """

    relation: SqlRelation

    @property
    def selective(self) -> bool:
        """Only what rules name is read."""
        return True

    def version(self) -> str | None:
        """None: a database does not name what its tables hold at a moment."""
        return None

    def close(self) -> None:
        """Let go of the connection, and so of a file that others write to; the next question makes another."""
        if "connection" in self.__dict__:
            self.__dict__.pop("connection").close()

    def from_on(self, column: str, since: str) -> str:
        """The condition for values of a column from one on, which is written as SQL writes it."""
        return f" WHERE {quoted(column)} >= {since}"

    @abstractmethod
    def tables(self) -> list[str]:
        """The names of all tables and views that one may see."""

    def require_once(self, names: Sequence[str]) -> None:
        """Refuse columns of one name."""
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"{self} has two columns named {name!r}", hint="rename one of them: SELECT ... AS ...")


@dataclass(frozen=True, eq=False)
class DatabaseFile(SqlTable):
    """One of a database that is a file."""

    path: Path
    relation: SqlRelation

    def __str__(self) -> str:
        return f"{self.relation} of {self.path}"


class AdbcRows(SqlTable):
    """One that is asked through an ADBC driver."""

    connection: Any

    def rows(self, query: str) -> pa.Table:
        """What a query answers."""
        with self.explained("read"), self.connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetch_record_batch().read_all()

    @contextmanager
    def explained(self, doing: str) -> Iterator[None]:
        """What the driver raises, or Arrow while rows are sent, becomes an error of ours."""
        try:
            yield
        except DataError:
            raise
        except Exception as error:
            module = type(error).__module__
            if not (module.startswith("adbc_driver_manager") or isinstance(error, pa.ArrowException | OSError)):
                raise
            raise self.failed(doing, error) from None

    @abstractmethod
    def failed(self, doing: str, error: Exception) -> DataError:
        """The error that says what the driver said, without the password that may be in it."""
