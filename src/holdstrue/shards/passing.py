"""Rows on their way from task to task in files of the state, where Spark moves only the word of where they lie.

A table that is loaded passes through a shuffle once. As cells of Spark's shuffle its rows are copied from buffer to
buffer in Java and compressed: 4M rows of three columns took 2.7 CPU s there, half of the load. As files one task
appends to them and others read parts of them. Such a file belongs to the attempt that wrote it: no version ever names
it, whoever runs the stages removes it afterwards, and what a crash leaves is cleared up like the runs of any lost
attempt.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa

from holdstrue.closing import Closing
from holdstrue.shards.wire import LAID, ROWS, Message
from holdstrue.state.files import StateFiles, fresh_name
from holdstrue.state.store import RUNS, Missing

KIND = "passing"
"""Starts the names of these files."""


class Passing(Closing):
    """A file for the rows that one task sends, made with the first of them."""

    def __init__(self, path: str, version: int) -> None:
        self._files = StateFiles(path)
        self._name = fresh_name(KIND, version)
        self._sink: pa.NativeFile | None = None

    def lay(self, table: pa.Table) -> pa.Buffer:
        """Write rows, and say where they lie."""
        if self._sink is None:
            self._sink = pa.OSFile(str(self._files.store.draft(RUNS + self._name)), "wb")
        start = self._sink.tell()
        with pa.ipc.new_stream(self._sink, table.schema) as writer:
            writer.write_table(table)
        return pa.py_buffer(json.dumps([self._name, start, self._sink.tell() - start]).encode())

    def close(self) -> None:
        """Let go of the file, which is read from now on."""
        if self._sink is not None:
            self._sink.close()
        self._files.close()


def picked_up(files: StateFiles, message: Message) -> Message:
    """The message with the rows themselves, where it says only where they lie. Complexity: O(its rows)."""
    if message.kind != LAID:
        return message
    name, start, size = json.loads(message.payload.to_pybytes())
    try:
        data = files.store.read_range(RUNS + name, start, size)
    except Missing as error:
        # not of the state: the job is over or was given up, and what ran it has cleared up
        raise OSError(f"{files.url}/{RUNS}{name}, which held rows on their way to this task, is gone") from error
    if len(data) != size:
        raise OSError(f"{files.url}/{RUNS}{name} was cut off: {len(data)} of {size} bytes from {start} on are there")
    return replace(message, kind=ROWS, payload=pa.py_buffer(data))
