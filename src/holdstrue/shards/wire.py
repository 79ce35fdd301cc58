"""What travels between tasks: rows packed as Arrow streams, many to a message, so that Spark moves few large cells."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from holdstrue import errors
from holdstrue.errors import HoldstrueError
from holdstrue.typing import I32, I64

SCHEMA = pa.schema(
    [
        pa.field("task", pa.int32()),
        pa.field("kind", pa.int32()),
        pa.field("route", pa.int32()),
        pa.field("name", pa.string()),
        pa.field("payload", pa.binary()),
    ]
)

ROWS, MOVED, SUMMARY, ERROR, LAID, CELLS, FOUND = range(7)
"""What a message is: rows, rows that moved, something said, an error, where rows lie (`shards/passing.py`), how many
rows lie in which ranges (`shards/ranged_rows.py`), and digests of rows known to violate a rule."""

Lay: TypeAlias = Callable[[pa.Table], pa.Buffer]
"""Rows as what a message holds of them."""

OP, SEQ, SHARD, LEFT = ":op", ":seq", ":shard", ":left"
"""Columns beside the table's own: what is done, in which order, in which shard, whether the row left another place."""

BATCH_BYTES = 16 << 20
"""A record batch is handed over when its messages hold this much: little for a worker of 512 MiB, and far below Arrow's
2 GiB for one column."""


@dataclass(frozen=True)
class Message:
    """Rows, or something said, for one task."""

    task: int
    kind: int
    route: int
    name: str
    payload: pa.Buffer

    def table(self) -> pa.Table:
        """The rows."""
        return pa.ipc.open_stream(pa.BufferReader(self.payload)).read_all()

    def data(self) -> dict[str, Any]:
        """What is said."""
        found: dict[str, Any] = json.loads(self.payload.to_pybytes())
        return found


def pack(table: pa.Table) -> pa.Buffer:
    """Rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def to_tasks(table: pa.Table, tasks: I32, kind: int, route: int, name: str, lay: Lay = pack) -> Iterator[Message]:
    """Rows as one message a task that gets any, which holds what `lay` makes of them. Complexity: O(rows)."""
    if not table.num_rows:
        return
    order = by_number(tasks)
    ordered = tasks[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    whole = starts.size == 1
    rows = table if whole else table.take(pa.array(order))
    for start, end in zip(starts, [*starts[1:], ordered.size], strict=True):
        yield Message(int(ordered[start]), kind, route, name, lay(rows.slice(start, end - start)))


def by_number(numbers: I32) -> I64:
    """The order of rows by the numbers of their tasks or shards, stable. Complexity: O(rows).

    >>> by_number(np.array([2, 0, 2, 1], dtype=np.int32)).tolist()
    [1, 3, 0, 2]
    """
    # numpy counts numbers of 16 bits and compares longer ones, which takes four times as long
    short = numbers.astype(np.uint16) if numbers.size and int(numbers.max()) < 1 << 16 else numbers
    return np.argsort(short, kind="stable")


def say(kind: int, data: dict[str, Any], route: int = 0) -> Message:
    """Something for the driver, which any task passes on."""
    return Message(0, kind, route, "", pa.py_buffer(json.dumps(data).encode()))


def failure(error: HoldstrueError, route: int) -> Message:
    """An error in the data as something said: a task that raised would be tried again in vain."""
    return say(ERROR, {"type": type(error).__name__, "message": error.message, "hint": error.hint}, route)


def raised(messages: Iterable[Message]) -> None:
    """Raise the first error that was said, errors of homes before those they cause elsewhere."""
    found = sorted((m for m in messages if m.kind == ERROR), key=lambda m: m.route)
    if found:
        said = found[0].data()
        kind = getattr(errors, said["type"], HoldstrueError)
        raise kind(said["message"], hint=said["hint"])


def receive(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """Messages out of record batches."""
    for batch in batches:
        told = (column.to_pylist() for column in batch.columns[:-1])
        for row, (task, kind, route, name) in enumerate(zip(*told, strict=True)):
            yield Message(task, kind, route, name, batch.column(4)[row].as_buffer())


def send(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as record batches."""
    waiting: list[Message] = []
    size = 0
    for message in messages:
        waiting.append(message)
        size += message.payload.size
        if size >= BATCH_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(messages: list[Message]) -> pa.RecordBatch:
    told = [(m.task, m.kind, m.route, m.name) for m in messages]
    arrays = [pa.array(column, type=f.type) for column, f in zip(zip(*told, strict=True), SCHEMA, strict=False)]
    ends = np.cumsum([0, *(m.payload.size for m in messages)], dtype=np.int64)
    # a payload larger than 2 GiB does not fit one cell of a binary column, and neither does it fit Spark
    offsets = pa.py_buffer(ends.astype(np.int32))
    joined = pa.py_buffer(b"".join(m.payload for m in messages))
    payloads = pa.Array.from_buffers(pa.binary(), len(messages), [None, offsets, joined])
    return pa.record_batch([*arrays, payloads], schema=SCHEMA)
