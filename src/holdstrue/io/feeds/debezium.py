"""Debezium's events: envelopes with before and after images, or rows flattened with `__deleted`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.changes import DELETE, INSERT, UPDATE, UPSERT, Changes, Places
from holdstrue.errors import ChangeError
from holdstrue.io.feeds.events import Events
from holdstrue.io.feeds.target import Target, read_words
from holdstrue.io.fit import is_text
from holdstrue.io.records import records_table

_OPS = {"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE}
_UNAVAILABLE = "__debezium_unavailable_value"
_FULL_IMAGES = "let the database log whole rows (PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL)"


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


def debezium_events(events: Events, target: Target) -> Changes:
    """The changes of events read from JSON."""
    sources = events.sources
    positions, payloads = [], []
    for position, event in events:
        payload = unwrapped(event)
        if payload is None:  # a tombstone, which only tells Kafka that the key may be forgotten
            continue
        if not isinstance(payload, Mapping):
            place = Places(sources, np.array([position])).place(0)
            raise ChangeError(f"{place}: not a Debezium event: {payload!r}", hint="an event is an object")
        positions.append(position)
        payloads.append(payload)
    places = Places(sources, np.array(positions, np.int64))
    if not payloads:
        return target.empty(places)
    if not is_envelope(payloads[0]):
        table = records_table(payloads, schema=target.schema, place=places.place, temporal=True, error=ChangeError)
        return flattened_changes(table, places, target)
    return _envelope_changes(payloads, places, target)


def debezium_table(table: pa.Table, places: Places, target: Target) -> Changes:
    """The changes of a table whose columns are those of envelopes (structs) or of flattened rows."""
    if not is_envelope(table.column_names):
        return flattened_changes(table, places, target)
    images = _image_schema(table)
    typed = replace(target, schema=target.schema or images)
    starts = np.cumsum([0, *(source.size for source in places.sources)])
    parts = [table.slice(start, source.size) for start, source in zip(starts, places.sources, strict=False)]
    return debezium_events(Events(places.sources, tuple(part.to_pylist() for part in parts)), typed)


def unwrapped(event: Any) -> Any:
    """The payload of an event that may be wrapped in `schema` and `payload`.

    >>> unwrapped({"schema": {}, "payload": {"op": "c"}})
    {'op': 'c'}
    """
    if isinstance(event, Mapping) and "payload" in event and set(event) <= {"schema", "payload"}:
        return event["payload"]
    return event


def flattened_changes(table: pa.Table, places: Places, target: Target) -> Changes:
    """Rows with `__deleted` (a delete where true) and perhaps `__op`; other `__` columns are dropped."""
    names = table.column_names
    if not any(name.startswith("__") for name in names):
        raise ChangeError(
            f"{places.sources[0].name} has no column '__deleted' or '__op' and no 'before' and 'after' images, "
            "so it is not a feed of Debezium",
            hint="keep __deleted or __op when you flatten the events; plain rows are the feed append",
        )
    if "__op" in names:
        ops = read_words(table.column("__op"), _OPS, "__op", places)
    else:
        ops = np.full(table.num_rows, UPSERT, np.uint8)
    if "__deleted" in names:
        words = {"true": 1, "false": 0}
        flags = pc.cast(table.column("__deleted"), pa.string())
        deleted = read_words(pc.fill_null(flags, "false"), words, "__deleted", places, "flag")
        ops = np.where(deleted == 1, DELETE, ops).astype(np.uint8)
    rows = table.select([name for name in names if not name.startswith("__") or target.has(name)])
    changes = target.changes(rows, ops, places)
    _refuse_unavailable(changes)
    return changes


def _envelope_changes(payloads: list[Mapping[str, Any]], places: Places, target: Target) -> Changes:
    records: list[Mapping[str, Any]] = []
    ops: list[int] = []
    at: list[int] = []
    for i, event in enumerate(payloads):
        for op, image in _event_changes(event, places, i, target.key):
            records.append(image)
            ops.append(op)
            at.append(i)
    moved = places.take(np.array(at, np.int64))
    rows = records_table(records, schema=target.schema, place=moved.place, temporal=True, error=ChangeError)
    changes = target.changes(rows, np.array(ops, np.uint8), moved)
    _refuse_unavailable(changes)
    return changes


def _event_changes(
    event: Mapping[str, Any], places: Places, i: int, key: tuple[str, ...]
) -> list[tuple[int, Mapping[str, Any]]]:
    """What one event does: mostly one change, two where an update changes the key."""
    word = event.get("op")
    if word == "t":
        raise ChangeError(
            f"{places.place(i)}: the table was truncated (op 't')",
            hint="a feed does not say which rows that removes: start a new state from the table's data",
        )
    op = _OPS.get(word) if isinstance(word, str) else None
    if op is None:
        met = "no operation" if word is None else f"unknown operation {word!r}"
        hint = f"op is one of {', '.join(_OPS)}"
        raise ChangeError(f"{places.place(i)}: {met} in a Debezium event", hint=hint)
    before, after = event.get("before"), event.get("after")
    needed = before if op == DELETE else after
    if not isinstance(needed, Mapping):
        side = "before" if op == DELETE else "after"
        raise ChangeError(
            f"{places.place(i)}: op {word!r} without its {side!r} image, so its row is unknown",
            hint=_FULL_IMAGES if op == DELETE else "the connector must send the new row",
        )
    if op == UPDATE and isinstance(before, Mapping) and _key_changed(before, needed, key):
        return [(DELETE, before), (INSERT, needed)]
    return [(op, needed)]


def _key_changed(before: Mapping[str, Any], after: Mapping[str, Any], key: tuple[str, ...]) -> bool:
    # A before image without its key is none: connectors may send NULLs for what was not logged.
    if any(before.get(name) is None for name in key):
        return False
    return any(before[name] != after.get(name) for name in key)


def _refuse_unavailable(changes: Changes) -> None:
    """Debezium writes a placeholder for a long value that an update did not touch and the log left out."""
    for name in changes.rows.column_names:
        column = changes.rows.column(name)
        if not is_text(column.type):
            continue
        hits = np.flatnonzero(pc.fill_null(pc.equal(column, _UNAVAILABLE), False).to_numpy())
        hits = hits[changes.ops[hits] != DELETE]
        if len(hits):
            raise ChangeError(
                f"{changes.place(int(hits[0]))}: column {name!r} holds Debezium's placeholder for a value "
                "that was not logged",
                hint=_FULL_IMAGES,
            )


def _image_schema(table: pa.Table) -> pa.Schema | None:
    """The types of the rows inside a table of envelopes."""
    fields = {field.name: field for field in table.schema}
    if "payload" in fields:
        fields = {field.name: field for field in fields["payload"].type}
    for side in ("after", "before"):
        if side in fields and pa.types.is_struct(fields[side].type):
            return pa.schema(list(fields[side].type))
    return None
