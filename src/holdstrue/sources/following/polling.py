"""A table or query of a database, looked at again and again by a column that only grows.

What changes without that column growing is not seen, nor are deletes: compare whole snapshots for these. Every look
begins at the largest value of the look before, so rows that came late with that very value are seen, too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from holdstrue.errors import DataError
from holdstrue.location import shown
from holdstrue.sources.datafiles import spelling_hint
from holdstrue.sources.read import TableSource

_TEXT = r"'(?:[^']|'')*'| ?E'(?:[^'\\]|''|\\.)*'"
_LITERAL = re.compile(_TEXT + r"|-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|X'[0-9A-Fa-f]*'", re.DOTALL)
"""A value as databases write it in SQL, and nothing else."""


class PolledTable(Protocol):
    """A table that can be asked for a part of its rows."""

    def schema(self) -> pa.Schema:
        """Its columns."""

    def read(self, columns: Sequence[str] | None = None, where: str = "") -> pa.Table:
        """The rows that a condition selects."""

    def newest(self, column: str) -> str | None:
        """The largest value of a column as SQL writes it; None where there is none."""

    def from_on(self, column: str, since: str) -> str:
        """The condition for values of a column from one on."""


@dataclass(frozen=True)
class PolledRows:
    """The rows that a look found, and where the next one begins."""

    rows: Any
    batch: str
    """The id of the batch, which says where the next look begins."""


def name_of(source: str, by: str) -> str:
    """What the ids of all looks at a source begin with; told from others without saying where it is."""
    return f"poll:{hashlib.sha256(f'{shown(source)} {by}'.encode()).hexdigest()[:12]}:"


def position(name: str, batches: Iterable[str]) -> str | None:
    """Where the next look begins: what the last batch of these looks says; None where there was none.

    >>> position("poll:ab:", ["poll:ab:'1'", "#2", "poll:ab:'3'", "monday"])
    "'3'"
    """
    last = None
    for batch in batches:
        _, mark, rest = batch.rpartition(name)
        last = rest if mark else last
    return last


def look(source: str, by: str, columns: Sequence[str], since: str | None) -> PolledRows | None:
    """What there is from a position on; None where the table has no values in the column."""
    given = TableSource.of(source)
    table: Any = given.outer
    if table is None or not hasattr(table, "newest"):
        raise DataError(
            f"{shown(source)} cannot be asked for some of its rows",
            hint="--by is for tables and queries of databases; other sources are compared with --snapshot",
        )
    polled: PolledTable = table
    names = polled.schema().names
    if by not in names:
        raise DataError(f"{table} has no column {by!r} to go by", hint=spelling_hint(by, names))
    newest = polled.newest(by)
    if newest is None:
        return None
    if since is not None and not _LITERAL.fullmatch(since):
        raise DataError(f"{since!r} is not a value to begin at", hint="was a batch id made by hand? give --since VALUE")
    wanted = [name for name in names if name in columns]
    where = "" if since is None else polled.from_on(by, since)
    rows = polled.read(wanted, where)
    return PolledRows(rows, f"{name_of(source, by)}{newest}")
