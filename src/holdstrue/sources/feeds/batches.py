"""Read a batch of changes from any feed, telling the feed by what it looks like.

Rows alone, and rows with a column that says what is done with them, are read here; other feeds have their modules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from holdstrue.data.changes import DELETE, INSERT, UPDATE, UPSERT, Changes, Origin, Places
from holdstrue.data.notes import Notes
from holdstrue.errors import ChangeError, DataError
from holdstrue.rules.types import Declared
from holdstrue.sources.datafiles import ReadOptions, spelling_hint
from holdstrue.sources.declared import declared_table, require_known
from holdstrue.sources.feeds.changelog import LOGS, changelog_changes
from holdstrue.sources.feeds.events import Events
from holdstrue.sources.feeds.target import Target, match_words, read_words
from holdstrue.sources.read import WRITTEN, TableSource, declared_types, load

OP_COLUMNS = ("_op", "__op", "op", "operation", "_operation")

WORDS = {
    "insert": INSERT, "i": INSERT, "c": INSERT, "create": INSERT, "r": INSERT, "+": INSERT,
    "update": UPDATE, "u": UPDATE,
    "delete": DELETE, "d": DELETE, "-": DELETE,
    "upsert": UPSERT,
}  # fmt: skip


DATA = "; the feed append if the column is data"


def find_op_column(table: pa.Table, target: Target) -> str | None:
    """The column that holds the operations, if there is one.

    A column of the table itself is data. Where other columns may be there, one counts if it holds text, so that
    a slip is refused and not taken for data; where the table is not known, only if all its values are operations.
    Without rows it counts by its name.
    """
    present = table.column_names
    for name in OP_COLUMNS:
        if name not in present or name in target.names:
            continue
        if target.schema is not None and target.extra == "error":
            return name
        codes = match_words(table.column(name), WORDS)
        if codes is not None and (target.schema is not None or codes.min(initial=0) >= 0):
            return name
    return None


def refuse_slips(inserts: Changes, data: Collection[str]) -> None:
    """Refuse rows of a table that was not known when they were read, whose operations were taken for data by a slip.

    `data` are the columns that are known to be the table's own.
    """
    for name in OP_COLUMNS:
        if name in inserts.rows.column_names and name not in data:
            column = inserts.rows.column(name)
            if match_words(column, WORDS) is not None:
                known = Places((Origin("the changes", len(inserts)),)) if inserts.places is None else inserts.places
                read_words(column, WORDS, name, known, more=DATA)


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
    guessed = op_column is None and target.schema is not None and target.extra != "error"
    ops = read_words(table.column(name), WORDS, name, places, more=DATA if guessed else "")
    return target.without(name).changes(table.drop_columns([name]), ops, places)


FEEDS = ("auto", "append", "ops", "debezium", *LOGS)


def log_columns(feed: str) -> tuple[str, ...]:
    """The columns that a feed has beside the rows' own, if it is a changelog."""
    return LOGS[feed].columns if feed in LOGS else ()


def read_changes(
    source: Any,
    *,
    key: Sequence[str],
    schema: pa.Schema | None = None,
    feed: str = "auto",
    op_column: str | None = None,
    extra: Literal["error", "ignore"] = "error",
    encoding: str = "utf8",
    format: str | None = None,  # noqa: A002
    delimiter: str | None = None,
    null_values: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
    types: Mapping[str, str | Declared] | None = None,
    needed: Iterable[str] | None = None,
    notes: Notes | None = None,
) -> Changes:
    """Read one batch of changes, in the order in which they happened.

    Parameters
    ----------
    source
        Anything `read_table` reads.
    key
        The columns that name a row of the table; every change must have them.
    schema
        The columns and types of the table. Values are brought to these types, or the error names
        the row; so does it for a column the table does not have, unless `extra` is "ignore".
    feed
        append (rows are inserts), ops (a column says what is done), debezium, delta, iceberg, or
        auto: told by the names of the columns. A column of the table itself is always data.
    op_column
        The column of operations in an ops feed, if its name is not one of the usual ones.
    extra
        Whether columns the table does not have are an error or are left out.
    needed
        The columns that must be there. Where they are given, a column of the table that is not among them may
        be missing, and one that the table does not have is left out; a note says so.
    encoding, format, delimiter, null_values, types, notes
        As in `read_table`.
    units
        For Debezium's events without schema blocks: what numbers count in columns of times (`ms`, `us` or `ns`
        since midnight or since 1970-01-01 in UTC), by column.

    Examples
    --------
    >>> rows = pa.table({"op": ["c", "d"], "id": [1, 2], "zip": ["10001", None]})
    >>> changes = read_changes(rows, key=["id"])
    >>> changes.ops.tolist(), changes.rows.column_names, changes.place(1)
    ([0, 2], ['id', 'zip'], 'row 2 of the table')
    """
    watched = None if needed is None else tuple(needed)
    options = ReadOptions(None, schema, encoding, delimiter, tuple(null_values), declared_types(types), notes, watched)
    must = None if watched is None else frozenset(watched)
    keyed = (key,) if isinstance(key, str) else tuple(key)
    target = Target(keyed, schema, extra, units=dict(units or {}), needed=must, notes=notes)
    return open_changes(source, target, feed, op_column, options, format).changes()


@dataclass(frozen=True, eq=False)
class Opened:
    """A batch that has been read, before the rules of its feed say what happened."""

    feed: str
    target: Target
    table: pa.Table
    places: Places
    op_column: str | None = None
    known: Changes | None = None
    """What happened, where reading already told."""

    def changes(self) -> Changes:
        """What happened, in order."""
        if self.known is not None:
            return self.known
        if self.feed in LOGS:
            return changelog_changes(self.table, self.places, self.target, LOGS[self.feed])
        match self.feed:
            case "ops":
                return ops_changes(self.table, self.places, self.target, self.op_column)
            case "debezium":
                from holdstrue.sources.feeds.debezium import debezium_table

                return debezium_table(self.table, self.places, self.target)
            case _:
                inserts = np.full(self.table.num_rows, INSERT, np.uint8)
                return self.target.changes(self.table, inserts, self.places)


def open_changes(
    source: Any,
    target: Target,
    feed: str = "auto",
    op_column: str | None = None,
    options: ReadOptions | None = None,
    format: str | None = None,  # noqa: A002
) -> Opened:
    """Read a batch and tell its feed; errors in what was read are errors in the changes."""
    if feed not in FEEDS:
        raise ChangeError(f"unknown feed {feed!r}", hint=f"one of {', '.join(FEEDS)}")
    target.check_units()
    try:
        opened = _opened(source, target, feed, op_column, options or ReadOptions(None, target.schema), format)
    except ChangeError:
        raise
    except DataError as error:
        raise ChangeError(error.message, hint=error.hint) from error
    if target.units and opened.feed != "debezium":
        raise not_for_units(opened.feed)
    return opened


def not_for_units(feed: str) -> ChangeError:
    """The error for units of columns given with a feed that has types."""
    return ChangeError(
        f"units of columns were given, but the changes are a feed of the kind {feed}",
        hint="units are for Debezium's events; other feeds have types of their own",
    )


def _opened(
    source: Any, target: Target, feed: str, op_column: str | None, options: ReadOptions, given: str | None
) -> Opened:
    origin = TableSource.of(source, given)
    events = None
    if feed in ("auto", "debezium") and origin.format == "json":
        events = Events.of_files(origin.files, options.encoding)
    elif feed in ("auto", "debezium") and origin.are_records:
        events = Events.of_records(origin.given)
    if events is not None:
        first = next((event.payload for _, event in events if event.payload is not None), None)
        known = None
        if first is None and feed == "auto" and origin.are_records and origin.given:
            raise ChangeError("record 1 is None, not a row", hint="tombstones alone are taken with feed='debezium'")
        if first is None:  # an empty file, or nothing but tombstones
            known = target.empty(Places(events.sources))
        elif feed == "debezium" or (op_column is None and is_debezium(first, target)):
            from holdstrue.sources.feeds.debezium import debezium_events

            known = debezium_events(events, target)
        if known is not None:
            rows = declared_table(known.rows, options.types, known.place, target.schema, ChangeError)
            known = replace(known, rows=rows)
            return Opened("debezium", target, known.rows, Places(events.sources), known=known)
    # Text takes its types while it is read; others when it is known which columns are the rows'.
    untyped = origin.format in WRITTEN or origin.are_records
    forced = target.without(op_column or "").schema if untyped else None
    types = options.types if untyped else {}
    names = origin.selectable() if options.watched is not None else None
    if names is not None and options.watched is not None and not is_envelope(names):
        columns, target = _wanted(names, options.watched, target, op_column)
        options = replace(options, columns=columns)
    loaded = load(origin, replace(options, schema=forced, types=types))
    if not untyped and options.types:
        if target.schema is None:
            require_known(options.types, loaded.table.column_names, loaded.places.sources[0].name)
        place = loaded.places.place
        loaded = replace(loaded, table=declared_table(loaded.table, options.types, place, target.schema))
    if feed == "auto":
        feed = recognise(loaded.table, target, op_column)
    return Opened(feed, target, loaded.table, loaded.places, op_column)


def _wanted(
    names: Sequence[str], watched: Sequence[str], target: Target, op_column: str | None
) -> tuple[tuple[str, ...], Target]:
    """The columns of a database's table or of a file far away that are read: those of rules, and what may say changes.

    Others are not missed.
    """
    marks = {*OP_COLUMNS, op_column, *(column for log in LOGS.values() for column in log.columns)}
    columns = tuple(name for name in names if name in watched or name in marks or name.startswith("__"))
    if target.schema is None:
        return columns, target
    left = set(names) - set(columns)
    return columns, replace(target, schema=pa.schema([field for field in target.schema if field.name not in left]))


def recognise(table: pa.Table, target: Target, op_column: str | None = None) -> str:
    """The feed that a table looks like, by the names that are not columns of the target.

    >>> recognise(pa.table({"id": [1], "_change_type": ["insert"], "_commit_version": [4]}), Target(("id",)))
    'delta'
    """
    if op_column is not None:
        return "ops"
    names = [name for name in table.column_names if name not in target.names]
    if "_change_type" in names:
        return "iceberg" if "_change_ordinal" in names else "delta"
    if is_flattened(names) or (is_envelope(table.column_names) and _has_struct_images(table, target)):
        return "debezium"
    return "append" if find_op_column(table, target) is None else "ops"


def is_envelope(names: Iterable[str]) -> bool:
    """Whether the names of an object are those of an envelope, or of the wrapping around one.

    >>> is_envelope(["before", "after", "op", "ts_ms"]), is_envelope(["id", "op"])
    (True, False)
    """
    found = set(names)
    wrapped = "payload" in found and found <= {"schema", "payload"}
    return wrapped or ("op" in found and bool(found & {"before", "after"}))


def is_flattened(names: Iterable[str]) -> bool:
    """Whether the names of a row are those of Debezium's flattened form.

    `__op` alone is an operation column like any other.

    >>> is_flattened(["id", "__deleted"]), is_flattened(["id", "__op"])
    (True, False)
    """
    marks = {name for name in names if name.startswith("__")}
    return "__deleted" in marks or ("__op" in marks and len(marks) > 1)


def is_debezium(first: Any, target: Target) -> bool:
    """Whether an event looks like one of Debezium's."""
    if not isinstance(first, Mapping):
        return False
    if is_flattened(name for name in first if name not in target.names):
        return True
    images = [first.get(side) for side in ("before", "after") if side not in target.names]
    held = any(isinstance(image, Mapping) for image in images)
    return is_envelope(first) and (held or first.get("op") == "t")


def _has_struct_images(table: pa.Table, target: Target) -> bool:
    sides = [name for name in ("before", "after", "payload") if name in table.column_names]
    return any(pa.types.is_struct(table.schema.field(name).type) and name not in target.names for name in sides)
