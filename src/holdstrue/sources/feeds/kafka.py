"""Records of a message log such as Kafka's: JSON in `value`, and beside it the topic, partition and offset."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from holdstrue.data.changes import Changes, Origin, Places
from holdstrue.errors import ChangeError
from holdstrue.sources.datafiles import ReadOptions
from holdstrue.sources.feeds.batches import is_debezium, open_changes
from holdstrue.sources.feeds.events import Event
from holdstrue.sources.feeds.target import Target
from holdstrue.sources.jsonlines import once

VALUE, TOPIC, PARTITION, OFFSET = "value", "topic", "partition", "offset"
COLUMNS = (VALUE, TOPIC, PARTITION, OFFSET)
"""What is read of a record; of Spark's source the key and the timestamps are not."""

_PLAIN = json.JSONDecoder(object_pairs_hook=once)
_EXACT = json.JSONDecoder(object_pairs_hook=once, parse_float=Decimal)
"""Of events numbers with a fraction are kept as decimals: a column of these must not lose a digit."""


def kafka_changes(
    records: pa.Table,
    target: Target,
    options: ReadOptions,
    *,
    feed: str = "auto",
    op_column: str | None = None,
    sequence: str | None = None,
) -> Changes:
    """The changes that records tell of: Debezium's events, rows with an operation, or rows alone.

    A record without a value is a tombstone, which only tells the log that a key may be forgotten.

    Parameters
    ----------
    sequence
        What orders the changes. Where rows have no such column, it is looked for in the event around them
        (`ts_ms`, `source.lsn`) and beside it (`offset`).

    Examples
    --------
    >>> values = [b'{"op": "c", "after": {"id": 1, "n": 5}, "source": {"lsn": 7}}', None]
    >>> target = Target(("id",), pa.schema({"id": pa.int64(), "n": pa.int64(), "source.lsn": pa.int64()}))
    >>> kafka_changes(pa.table({"value": values}), target, ReadOptions(), sequence="source.lsn").rows.to_pylist()
    [{'id': 1, 'n': 5, 'source.lsn': 7}]
    """
    column = records.column(VALUE)
    if not (pa.types.is_binary(column.type) or pa.types.is_string(column.type) or pa.types.is_null(column.type)):
        raise ChangeError(
            f"the column {VALUE!r} of the records is {column.type}, not text",
            hint="a record's value is JSON, as text or bytes",
        )
    events: list[Any] = []
    exact = feed == "debezium"
    for row, value in enumerate(column.to_pylist()):
        if value is None:
            continue
        event = _parsed(value, records, row, exact=exact)
        if not events and not exact and feed == "auto" and is_debezium(Event.of(event).payload, target):
            exact, event = True, _parsed(value, records, row, exact=True)
        events.append(event if sequence is None else _with_sequence(event, sequence, records, row))
    if not events:
        return target.empty(Places((Origin(where(records, 0) if len(column) else "the records", 0, "record"),)))
    try:
        return open_changes(events, target, feed, op_column, options).changes()
    except ChangeError as error:
        # they were counted without the tombstones
        said = error.message.replace("the records", f"those with a value from {where(records, 0)} on")
        raise ChangeError(said, hint=error.hint) from error


def where(records: pa.Table, row: int) -> str:
    """The name of a record.

    >>> where(pa.table({"topic": ["orders"], "partition": [0], "offset": [12]}), 0)
    'topic orders, partition 0, offset 12'
    """
    known = [(name, records.column(name)[row]) for name in (TOPIC, PARTITION, OFFSET) if name in records.column_names]
    return ", ".join(f"{name} {value}" for name, value in known) or f"record {row + 1}"


def _parsed(value: bytes | str, records: pa.Table, row: int, *, exact: bool) -> Any:
    try:
        event = (_EXACT if exact else _PLAIN).decode(value.decode() if isinstance(value, bytes) else value)
    except ValueError as error:
        raise ChangeError(
            f"{where(records, row)}: the value is no JSON: {error}", hint="set such records aside, or mend them"
        ) from error
    if not isinstance(event, Mapping):
        raise ChangeError(f"{where(records, row)}: the value is {event!r}", hint="a value is a JSON object")
    return event


def _with_sequence(event: Mapping[str, Any], sequence: str, records: pa.Table, row: int) -> Mapping[str, Any]:
    """The event whose rows have the column that orders them."""
    inner = event["payload"] if isinstance(event.get("payload"), Mapping) else event
    images = [side for side in ("before", "after") if isinstance(inner.get(side), Mapping)]
    found = _dug(inner, sequence.split(".")) if images else None
    if found is None and sequence == OFFSET and OFFSET in records.column_names:
        found = records.column(OFFSET)[row].as_py()
    if found is None:
        return event
    # a row that has the column itself keeps its own
    sides = {side: {sequence: found, **inner[side]} for side in images}
    made = {**inner, **sides} if images else {sequence: found, **inner}
    return made if inner is event else {**event, "payload": made}


def _dug(event: Any, path: Sequence[str]) -> Any:
    for name in path:
        event = event.get(name) if isinstance(event, Mapping) else None
    return event
