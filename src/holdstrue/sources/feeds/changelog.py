"""Changelogs of table formats: rows that left and rows that came, in numbered commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.changes import DELETE, INSERT, UPDATE, UPSERT, Changes, Places
from holdstrue.errors import ChangeError
from holdstrue.sources.feeds.target import Target, read_words
from holdstrue.typing import I64, U8, Mask

CAME, CAME_AFTER, LEFT, LEFT_BEFORE = range(4)


@dataclass(frozen=True)
class ChangelogLayout:
    """How a table format writes its changelog."""

    name: str
    kind_column: str
    order_column: str
    other_columns: tuple[str, ...]
    words: dict[str, int]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that say what happened and when."""
        return self.kind_column, self.order_column, *self.other_columns


LOGS = {
    "delta": ChangelogLayout(
        name="Delta Lake",
        kind_column="_change_type",
        order_column="_commit_version",
        other_columns=("_commit_timestamp",),
        words={"insert": CAME, "update_preimage": LEFT_BEFORE, "update_postimage": CAME_AFTER, "delete": LEFT},
    ),
    "iceberg": ChangelogLayout(
        name="Iceberg",
        kind_column="_change_type",
        order_column="_change_ordinal",
        other_columns=("_commit_snapshot_id",),
        words={"insert": CAME, "delete": LEFT, "update_before": LEFT_BEFORE, "update_after": CAME_AFTER},
    ),
}
"""Delta Lake's change data feed and Iceberg's changelog view."""


def changelog_changes(table: pa.Table, places: Places, target: Target, layout: ChangelogLayout) -> Changes:
    """The changes of a changelog, ordered by commit.

    A commit is one step from a state of the table to the next and says nothing about order inside
    it. So, inside a commit, a row that left and one that came with the same key are an update; a row
    that left alone is a delete, also where an update changed its key; a row that came alone is an
    insert, unless the feed was written without before images.

    Runtime complexity: O(n) and a sort by commit.
    """
    changes, roles, commits = read_log(table, places, target, layout)
    return settled(changes, roles, commits, target.key)


def read_log(table: pa.Table, places: Places, target: Target, layout: ChangelogLayout) -> tuple[Changes, U8, I64]:
    """The rows of a changelog ordered by commit, with what happened to each (its role) and in which commit."""
    for name in (layout.kind_column, layout.order_column):
        if name not in table.column_names:
            raise ChangeError(
                f"{places.sources[0].name} has no column {name!r}, so it is not a changelog of {layout.name}",
                hint=f"keep {layout.kind_column} and {layout.order_column} when you write the feed",
            )
    kinds = table.column(layout.kind_column)
    roles = read_words(kinds, layout.words, layout.kind_column, places, "change type")
    commits = _commits(table, places, layout)
    order = np.argsort(commits, kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        table, places = table.take(pa.array(order)), places.take(order)
        roles, commits = roles[order], commits[order]
    target = target.without(layout.kind_column).without(layout.order_column)
    rows = table.select([name for name in table.column_names if name not in layout.columns or name in target.names])
    return target.changes(rows, np.zeros(len(roles), np.uint8), places), roles, commits


def settled(changes: Changes, roles: U8, commits: I64, key: Sequence[str], *, partial: bool = False) -> Changes:
    """The changes that rows of a changelog, ordered by commit, amount to.

    A `partial` log has all rows of some keys only. An after image without its before image may then
    be an update in a feed without before images, or the new row of an update that changed the key.
    """
    if not len(changes):
        return changes
    keep, ops = _resolved(roles, commits, changes, key, partial=partial)
    kept = np.flatnonzero(keep)
    if len(kept) == len(ops):
        return Changes(changes.rows, ops, changes.places)
    return Changes(changes.rows, ops, changes.places).take(kept)


def _commits(table: pa.Table, places: Places, layout: ChangelogLayout) -> I64:
    column = table.column(layout.order_column)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise ChangeError(
            f"{places.place(row)}: no value in {layout.order_column}",
            hint="changes are applied in the order of that column",
        )
    if not (pa.types.is_integer(column.type) or len(column) == 0):
        raise ChangeError(
            f"{places.place(0)}: {layout.order_column} holds {column[0].as_py()!r}, expected a whole number"
        )
    if not len(column):
        return np.zeros(0, np.int64)
    try:
        return np.asarray(pc.cast(column, pa.int64()).to_numpy(), np.int64)
    except pa.ArrowInvalid:
        row = int(np.argmax(column.to_numpy()))
        raise ChangeError(
            f"{places.place(row)}: {layout.order_column} holds {column[row].as_py()}, which is beyond 64 bits",
            hint="it must be the number that the table format gave",
        ) from None


def _resolved(roles: U8, commits: I64, changes: Changes, key: Sequence[str], *, partial: bool) -> tuple[Mask, U8]:
    """Which rows are changes of their own, and which."""
    keys = [changes.rows.column(name) for name in key]
    commit = np.cumsum(np.diff(commits, prepend=commits[0]) != 0)
    who = number_rows([pa.chunked_array([commit]), *keys])
    left = (roles == LEFT) | (roles == LEFT_BEFORE)
    has_left = np.zeros(int(who.max()) + 1, bool)
    has_left[who[left]] = True
    has_come = np.zeros_like(has_left)
    has_come[who[~left]] = True
    has_before = np.zeros(int(commit[-1]) + 1, bool)
    has_before[commit[roles == LEFT_BEFORE]] = True

    ops = np.full(len(roles), INSERT, np.uint8)
    if partial:
        ops[roles == CAME_AFTER] = UPSERT
        has_before[:] = True
    ops[has_left[who] | ((roles == CAME_AFTER) & ~has_before[commit])] = UPDATE
    ops[left] = DELETE
    return ~(left & has_come[who]), ops


def number_rows(columns: Sequence[Any]) -> I64:
    """A number per row, below about twice their count, equal exactly where all columns are equal.

    NULL equals NULL here, and NaN equals NaN.

    Runtime complexity: O(rows x columns), and O(rows log rows) where several columns have many values.

    >>> number_rows([pa.chunked_array([[1, 1, 2, 1]]), pa.chunked_array([["a", "b", "a", "a"]])]).tolist()
    [0, 1, 2, 0]
    """
    numbers, width = _number_values(columns[0])
    for column in columns[1:]:
        more, values = _number_values(column)
        numbers, width = numbers * values + more, width * values
        if width > 2 * len(numbers):
            distinct, numbers = np.unique(numbers, return_inverse=True)
            numbers, width = numbers.astype(np.int64), len(distinct)
    return numbers


def _number_values(column: Any) -> tuple[I64, int]:
    if pa.types.is_float16(column.type):  # Arrow does not compute with these and small decimals
        column = pc.cast(column, pa.float32())
    elif pa.types.is_decimal32(column.type) or pa.types.is_decimal64(column.type):
        column = pc.cast(column, pa.decimal128(column.type.precision, column.type.scale))
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 is 0.0
    if isinstance(column, pa.ChunkedArray):  # as Arrow does not unify dictionaries with NULLs
        column = column.combine_chunks()
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # what an empty column combines to in some versions
        return np.zeros(len(column), np.int64), 1
    return encoded.indices.to_numpy().astype(np.int64), max(1, len(encoded.dictionary))
