"""Runs the stages of a sharded batch in plain loops: what Spark does, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa

from holdstrue.shards import scatter
from holdstrue.shards.wire import Message, receive, send
from holdstrue.sources.declared import declared_table


class Loops:
    """A runner whose data frames are lists of tables, a partition each.

    Stages are pickled as they would be on their way to another process, and every message goes
    through a record batch.
    """

    def __init__(self, tasks: int = 3) -> None:
        self._tasks = tasks

    def schema(self, frame: list[pa.Table]) -> pa.Schema:
        return frame[0].schema

    def select(self, frame: list[pa.Table], columns: Sequence[str]) -> list[pa.Table]:
        return [part.select(list(columns)) for part in frame]

    def observed(self, frame: list[pa.Table], table: str, unit: str) -> list[pa.Table]:
        return frame

    def gathered(self, frame: list[pa.Table]) -> list[pa.Table]:
        return [pa.concat_tables(frame)]

    def declared(self, frame: list[pa.Table], types: Any, known: pa.Schema | None) -> list[pa.Table]:
        rows = declared_table(pa.concat_tables(frame), types, lambda i: f"row {i + 1}", known)
        cuts = [0, *accumulate(part.num_rows for part in frame)]
        return [rows.slice(start, end - start) for start, end in pairwise(cuts)]

    def own_reading(self, frame: list[pa.Table], stage: Any) -> tuple[list[pa.Table], Any]:
        return frame, stage

    def count(self, frame: list[pa.Table]) -> int:
        return sum(part.num_rows for part in frame)

    def sample(self, frame: list[pa.Table], rows: int, of: int) -> pa.Table:
        return pa.concat_tables(frame).slice(0, rows)

    def tasks(self) -> int:
        return self._tasks

    def known_rows(self, frame: list[pa.Table]) -> int | None:
        return None

    def tasks_for(self, frames: Sequence[list[pa.Table]]) -> int:
        return self._tasks

    def worker_bytes(self) -> int | None:
        return None

    def numbered(self, frame: list[pa.Table], name: str) -> list[pa.Table]:
        return [
            part.append_column(name, pa.array([(at << 33) + row for row in range(part.num_rows)], pa.int64()))
            for at, part in enumerate(frame)
        ]

    def run(self, sources: Sequence[tuple[Any, Any]], stages: Sequence[Any], tasks: int) -> Iterator[Message]:
        messages = self._sent(sources, tasks)
        for stage in stages:
            messages = [answer for own in by_task(messages) for answer in receive(copied(stage)(send(own)))]
        yield from messages

    def _sent(self, sources: Sequence[tuple[Any, Any]], tasks: int) -> list[Message]:
        messages: list[Message] = []
        for frame, stage in sources:
            for number, part in enumerate(numbers(tasks) if frame is None else frame):
                scatter.PARTITION.set(number)
                # without a stage the frame is one of messages
                messages += receive(part.to_batches() if stage is None else copied(stage)(part.to_batches()))
        return messages

    def read(self, stage: Any, tasks: int, sources: Sequence[tuple[Any, Any]] = ()) -> list[Any]:
        """What a stage gives that reads the messages of the sources, or the numbers of the tasks."""
        parts: Any = [list(send(own)) for own in by_task(self._sent(sources, tasks))]
        parts = parts if sources else [part.to_batches() for part in numbers(tasks)]
        return [answer for part in parts for answer in copied(stage)(part)]

    def distinct(self, stage: Any, tasks: int, sources: Sequence[tuple[Any, Any]] = ()) -> dict[int, int]:
        found = {row for batch in self.read(stage, tasks, sources) for row in _rows(batch)}
        counts: dict[int, int] = {}
        for rule, _, _ in found:
            counts[rule] = counts.get(rule, 0) + 1
        return counts


def copied(stage: Any) -> Any:
    """A stage as another process gets it."""
    return pickle.loads(pickle.dumps(stage))


def by_task(messages: list[Message]) -> list[list[Message]]:
    """Messages, those of each task together."""
    found: dict[int, list[Message]] = {}
    for message in messages:
        found.setdefault(message.task, []).append(message)
    return list(found.values())


def numbers(tasks: int) -> list[pa.Table]:
    """The numbers of the tasks, a partition each."""
    return [pa.table({"task": pa.array([task], pa.int32())}) for task in range(tasks)]


def _rows(batch: pa.RecordBatch) -> list[tuple[int, int, int]]:
    return [tuple(row.values()) for row in batch.to_pylist()]
