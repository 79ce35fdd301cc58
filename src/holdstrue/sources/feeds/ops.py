"""Rows with a column that says what is done with them."""

from __future__ import annotations

import pyarrow as pa

from holdstrue.data.changes import DELETE, INSERT, UPDATE, UPSERT, Changes, Places
from holdstrue.errors import ChangeError
from holdstrue.sources.datafiles import spelling_hint
from holdstrue.sources.feeds.target import Target, match_words, read_words

OP_COLUMNS = ("_op", "__op", "op", "operation", "_operation")

WORDS = {
    "insert": INSERT, "i": INSERT, "c": INSERT, "create": INSERT, "r": INSERT, "+": INSERT,
    "update": UPDATE, "u": UPDATE,
    "delete": DELETE, "d": DELETE, "-": DELETE,
    "upsert": UPSERT,
}  # fmt: skip


def find_op_column(table: pa.Table, target: Target) -> str | None:
    """The column that holds the operations, if there is one.

    A column of the table itself is data. Where the table is not known, or other columns may be
    there, a column counts only if all its values are operations: without rows, by its name.
    """
    present = table.column_names
    for name in OP_COLUMNS:
        if name not in present or target.has(name):
            continue
        if target.schema is not None and target.extra == "error":
            return name
        codes = match_words(table.column(name), WORDS)
        if codes is not None and codes.min(initial=0) >= 0:
            return name
    return None


def ops_changes(table: pa.Table, places: Places, target: Target, op_column: str | None) -> Changes:
    """Rows as what their operation column says."""
    name = op_column or find_op_column(table, target)
    if name is None:
        raise ChangeError(
            f"{places.sources[0].name} has no operation column",
            hint=f"name it, or call it one of {', '.join(OP_COLUMNS)}",
        )
    if name not in table.column_names:
        raise ChangeError(
            f"{places.sources[0].name} has no operation column {name!r}",
            hint=spelling_hint(name, table.column_names),
        )
    ops = read_words(table.column(name), WORDS, name, places)
    return target.without(name).changes(table.drop_columns([name]), ops, places)
