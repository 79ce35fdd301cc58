"""Which feed a data frame is, told by its columns, and which of them are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from holdstrue.data.changes import Origin, Places
from holdstrue.data.notes import Notes
from holdstrue.detect.ordering import SAMPLE
from holdstrue.errors import ChangeError
from holdstrue.shards.scatter import PATH, open_file
from holdstrue.shards.tables import plain_field, typed
from holdstrue.sources.feeds.batches import find_op_column, log_columns, not_for_units, read_changes, recognise
from holdstrue.sources.feeds.debezium import debezium_table
from holdstrue.sources.feeds.target import Target


@dataclass(frozen=True)
class Feed:
    """How the changes of a data frame are written."""

    kind: str
    schema: pa.Schema
    """Columns and types of the table that the changes are for."""
    names: tuple[str, ...]
    op_column: str | None = None

    @property
    def only_inserts(self) -> bool:
        """Whether nothing is updated or deleted."""
        return self.kind == "append"

    def columns(self, needed: Sequence[str]) -> list[str]:
        """What is read of the data frame for these columns of the table."""
        if self.kind in ("debezium", "files"):
            return list(self.names)
        about = (*log_columns(self.kind), *((self.op_column,) if self.op_column else ()))
        return [name for name in self.names if name in needed or name in about]


def feed_of(
    frame: pa.Schema,
    key: Sequence[str],
    seen: pa.Schema | None,
    feed: str,
    op_column: str | None,
    sample: pa.Table | None,
    units: Mapping[str, str] | None = None,
    notes: Notes | None = None,
) -> Feed:
    """The feed of a data frame with these columns; a table not seen before takes its types from it.

    What Debezium's events hold shows in the first of them only, the `sample`.
    For `files`, `frame` is what the files hold, as far as some column of the table was never seen with a value.
    """
    names = tuple(frame.names)
    if feed == "files":
        if seen is None:
            raise ChangeError(
                "the columns of the table are not known yet", hint="load its rows first, or apply a data frame"
            )
        return Feed("files", typed(seen, frame), (PATH,))
    target = Target(tuple(key), seen, "error" if seen is not None else "ignore", units=dict(units or {}))
    target.check_units()
    table = sample if sample is not None else pa.Table.from_batches([], schema=frame)
    if feed == "auto":
        feed = recognise(table, target, op_column)
    if feed == "ops" and op_column is None:
        op_column = find_op_column(table, target)
    if feed == "debezium":
        return Feed(feed, seen if seen is not None else _first_types(table, target), names)
    if target.units:
        raise not_for_units(feed)
    about = {*log_columns(feed), op_column}
    own = [field for field in frame if field.name not in about or field.name in target.names]
    if seen is None:
        return Feed(feed, pa.schema([plain_field(field) for field in own]), names, op_column)
    new = [field.name for field in own if field.name not in seen.names]
    if new and notes is not None:
        shown = ", ".join(map(repr, new))
        notes.add(f"the changes have columns that the table did not have: {shown}; left out, since no rule reads them")
    return Feed(feed, typed(seen, frame), names, op_column)


def _first_types(sample: pa.Table, target: Target) -> pa.Schema:
    """The columns of the rows inside Debezium's events, as the first of them tell."""
    places = Places((Origin("the changes", sample.num_rows),))
    return pa.schema([plain_field(field) for field in debezium_table(sample, places, target).rows.schema])


@dataclass(frozen=True)
class FirstSeen:
    """Values of columns that a batch is the first to hold, as many as tell what they look like."""

    runner: Any
    frames: Mapping[str, Any]
    feeds: Mapping[str, Feed]
    keys: Mapping[str, tuple[str, ...]]
    read: Mapping[str, Any]

    def values(self, table: str, column: str) -> Any:
        """The first values of a column."""
        frame, feed, key = self.frames[table], self.feeds[table], self.keys[table]
        if feed.kind == "files":
            target = Target(key, feed.schema, "ignore")
            paths = self.runner.sample(frame, 2**31 - 1, 0).column(PATH).to_pylist()
            parts = [open_file(path, target, self.read).changes().rows.column(column) for path in paths]
            return pa.chunked_array([chunk for part in parts for chunk in part.chunks], type=parts[0].type)
        if feed.kind == "debezium":
            rows = self.runner.sample(frame, SAMPLE, 0)
            return read_changes(rows, key=key, schema=feed.schema, feed="debezium", extra="ignore").rows.column(column)
        return self.runner.sample(self.runner.select(frame, [column]), SAMPLE, 0).column(0)
