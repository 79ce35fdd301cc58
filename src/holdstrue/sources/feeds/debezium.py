"""Debezium's events: envelopes with before and after images, or rows flattened with `__deleted`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.changes import DELETE, INSERT, UPDATE, UPSERT, Changes, Places
from holdstrue.errors import ChangeError
from holdstrue.sources.feeds.batches import is_envelope
from holdstrue.sources.feeds.cells import UNAVAILABLE, UNAVAILABLE_BYTES, WHOLE_IMAGES, is_unavailable, unavailable
from holdstrue.sources.feeds.columns import records_rows, table_rows
from holdstrue.sources.feeds.connect import UNTYPED, Block, Blocks
from holdstrue.sources.feeds.events import Events
from holdstrue.sources.feeds.target import Target, read_words
from holdstrue.sources.fit import is_bytes, is_text
from holdstrue.typing import Mask

_OPS = {"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE}


def debezium_events(events: Events, target: Target) -> Changes:
    """The changes of events read from JSON."""
    sources = events.sources
    positions, payloads, blocks = [], [], []
    reader = Blocks()
    for position, (payload, schema) in events:
        if payload is None:  # a tombstone, which only tells Kafka that the key may be forgotten
            continue
        if not isinstance(payload, Mapping):
            place = Places(sources, np.array([position])).place(0)
            raise ChangeError(f"{place}: not a Debezium event: {payload!r}", hint="an event is an object")
        positions.append(position)
        payloads.append(payload)
        blocks.append(reader.read(schema, sources, position))
    places = Places(sources, np.array(positions, np.int64))
    if not payloads:
        return target.empty(places)
    if is_envelope(payloads[0]):
        return _envelope_changes(payloads, blocks, places, target)
    records = [_without_unavailable(row, target.key) if _is_removed(row) else row for row in payloads]
    rows = records_rows(records, [block.row for block in blocks], target, places.place)
    return flattened_changes(rows, places, target)


def debezium_table(table: pa.Table, places: Places, target: Target) -> Changes:
    """The changes of a table whose columns are those of envelopes (structs) or of flattened rows."""
    blocks = [UNTYPED]
    if "payload" in table.column_names and is_envelope(table.column_names) and "op" not in table.column_names:
        table, blocks, places = _unwrapped(table, places)
    if is_envelope(table.column_names):
        return _struct_changes(table, blocks, places, target)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    rows = table_rows(columns, [block.row for block in blocks], target, places.place)
    return flattened_changes(rows, places, target)


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
    rows = table.select([name for name in names if not name.startswith("__") or name in target.names])
    changes = target.changes(rows, ops, places)
    _refuse_unavailable(changes)
    return changes


# --- events from JSON ----------------------------------------------------------------------------


def _envelope_changes(
    payloads: Sequence[Mapping[str, Any]], blocks: Sequence[Block], places: Places, target: Target
) -> Changes:
    records, fields, ops, at = [], [], [], []
    for i, event in enumerate(payloads):
        images = {side: image for side in ("before", "after") if isinstance(image := event.get(side), Mapping)}
        changed = len(images) == 2 and _key_changed(images["before"], images["after"], target.key)
        for op, side in _steps(event.get("op"), images, changed, places, i):
            image = images[side]
            records.append(_without_unavailable(image, target.key) if op == DELETE else image)
            fields.append(blocks[i].of(side))
            ops.append(op)
            at.append(i)
    moved = places.take(np.array(at, np.int64))
    rows = records_rows(records, fields, target, moved.place)
    return _finished(rows, ops, moved, target)


def _steps(word: Any, images: Iterable[str], changed: bool, places: Places, i: int) -> list[tuple[int, str]]:
    """What one event does and with which image: mostly one change, two where an update changes the key."""
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
    side = "before" if op == DELETE else "after"
    if side not in images:
        raise ChangeError(
            f"{places.place(i)}: op {word!r} without its {side!r} image, so its row is unknown",
            hint=WHOLE_IMAGES if op == DELETE else "the connector must send the new row",
        )
    if op == UPDATE and changed:
        return [(DELETE, "before"), (INSERT, "after")]
    return [(op, side)]


def _key_changed(before: Mapping[str, Any], after: Mapping[str, Any], key: tuple[str, ...]) -> bool:
    # A before image without its key is none: connectors may send NULLs for what was not logged.
    if any(before.get(name) is None for name in key):
        return False
    return any(before[name] != after.get(name) for name in key)


def _is_removed(row: Mapping[str, Any]) -> bool:
    return row.get("__op") == "d" or row.get("__deleted") in (True, "true")


def _without_unavailable(image: Mapping[str, Any], key: tuple[str, ...]) -> Mapping[str, Any]:
    """The image of a removed row without what was not logged, which a delete does not need."""
    if not any(map(is_unavailable, image.values())):
        return image
    return {name: None if is_unavailable(value) and name not in key else value for name, value in image.items()}


# --- events in tables ----------------------------------------------------------------------------


def _unwrapped(table: pa.Table, places: Places) -> tuple[pa.Table, list[Block], Places]:
    """The payloads of a table with the columns `payload` and perhaps `schema`; NULLs are tombstones."""
    payloads = table.column("payload")
    if not pa.types.is_struct(payloads.type):
        value = next((value.as_py() for value in payloads if value.is_valid), None)
        raise ChangeError(
            f"{places.place(0)}: not a Debezium event: {str(value)[:60]!r}", hint="a payload is a struct in a table"
        )
    kept = np.flatnonzero(payloads.is_valid().to_numpy())
    table, places = table.take(pa.array(kept)), places.take(kept)
    blocks = _blocks(table.column("schema"), places) if "schema" in table.column_names else [UNTYPED]
    fields = table.column("payload")
    names = [field.name for field in payloads.type]
    return pa.table(fields.flatten(), names=names), blocks, places


def _blocks(schemas: pa.ChunkedArray, places: Places) -> list[Block]:
    """The schema block of each row, one for all where they are the same."""
    n = len(schemas)
    reader = Blocks()
    if n and schemas.slice(0, n - 1).equals(schemas.slice(1)):
        return [reader.read(schemas[0].as_py(), places.sources, places.position(0))]
    return [reader.read(schema, places.sources, places.position(i)) for i, schema in enumerate(schemas.to_pylist())]


def _struct_changes(table: pa.Table, blocks: Sequence[Block], places: Places, target: Target) -> Changes:
    n = table.num_rows
    sides = {side: _image(table, side) for side in ("before", "after")}
    known = {side: image.is_valid().to_pylist() for side, image in sides.items()}
    keys = {side: [_part(image, name).to_pylist() for name in target.key] for side, image in sides.items()}
    words = table.column("op").to_pylist() if "op" in table.column_names else [None] * n
    ops, at, taken = [], [], []
    for i, word in enumerate(words):
        images = [side for side, there in known.items() if there[i]]
        before, after = ({name: part[i] for name, part in zip(target.key, keys[side], strict=True)} for side in sides)
        changed = len(images) == 2 and _key_changed(before, after, target.key)
        for op, side in _steps(word, images, changed, places, i):
            ops.append(op)
            at.append(i)
            taken.append(i if side == "before" else n + i)
    moved = places.take(np.array(at, np.int64))
    columns = _both(sides, taken)
    _forget_unavailable(columns, np.array(ops, np.uint8) == DELETE, target.key)
    if len(blocks) == 1:
        fields = [blocks[0].of("after")]
    else:
        fields = [blocks[i].of("before" if where < n else "after") for i, where in zip(at, taken, strict=True)]
    return _finished(table_rows(columns, fields, target, moved.place), ops, moved, target)


def _image(table: pa.Table, side: str) -> Any:
    """The images of one side, NULL where there are none."""
    if side in table.column_names and pa.types.is_struct(table.schema.field(side).type):
        return table.column(side)
    return pa.chunked_array([pa.nulls(table.num_rows, pa.struct([]))])


def _part(image: Any, name: str) -> Any:
    index = image.type.get_field_index(name)
    return pa.chunked_array([pa.nulls(len(image))]) if index < 0 else image.flatten()[index]


def _both(sides: Mapping[str, Any], taken: Sequence[int]) -> dict[str, Any]:
    """Rows out of the images before all events, followed by those after them, column by column.

    Spark tells the types of both images apart, so that they may differ; such a column is a list of values.
    """
    rows = pa.array(taken, pa.int64())
    found = {}
    for name in dict.fromkeys(field.name for side in ("after", "before") for field in sides[side].type):
        before, after = (_part(sides[side], name) for side in ("before", "after"))
        if before.null_count == len(before):
            before = pa.chunked_array([pa.nulls(len(before), after.type)])
        elif after.null_count == len(after):
            after = pa.chunked_array([pa.nulls(len(after), before.type)])
        if before.type == after.type:
            found[name] = pa.chunked_array([*before.chunks, *after.chunks], type=after.type).take(rows)
        else:
            values = before.to_pylist() + after.to_pylist()
            found[name] = [values[i] for i in taken]
    return found


def _forget_unavailable(columns: dict[str, Any], removed: Mask, key: tuple[str, ...]) -> None:
    """NULL in place of what was not logged of rows that are removed."""
    for name, column in columns.items():
        if name in key or not removed.any():
            continue
        if isinstance(column, list):
            columns[name] = [None if r and is_unavailable(v) else v for v, r in zip(column, removed, strict=True)]
        elif is_text(column.type):
            missing = pc.and_(pc.fill_null(pc.equal(column, UNAVAILABLE), False), pa.array(removed))
            columns[name] = pc.if_else(missing, pa.scalar(None, column.type), column)


# --- what all end with ---------------------------------------------------------------------------


def _finished(rows: pa.Table, ops: list[int], places: Places, target: Target) -> Changes:
    changes = target.changes(rows, np.array(ops, np.uint8), places)
    _refuse_unavailable(changes)
    return changes


def _refuse_unavailable(changes: Changes) -> None:
    for name in changes.rows.column_names:
        column = changes.rows.column(name)
        if is_text(column.type):
            placeholder: Any = UNAVAILABLE
        elif is_bytes(column.type):
            column, placeholder = pc.cast(column, pa.large_binary()), UNAVAILABLE_BYTES
        else:
            continue
        hits = np.flatnonzero(pc.fill_null(pc.equal(column, placeholder), False).to_numpy())
        hits = hits[changes.ops[hits] != DELETE]
        if len(hits):
            raise unavailable(changes.place(int(hits[0])), name)
