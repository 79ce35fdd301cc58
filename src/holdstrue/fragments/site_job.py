"""A site's work as a job: record batches in, record batches out, everything else in its state directory.

A job is told what was said to the site since its batch began and does all of it again, so that nothing must
stay in memory between two jobs: whatever ran before on another machine, the state directory and the messages
are enough. Messages, and rows of the site's own, are rows of one schema (`WIRE`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue import errors
from holdstrue.errors import HoldstrueError
from holdstrue.fragments.channel import ChannelError, SiteMessage, message_schema
from holdstrue.fragments.indexed_rows import ChangedKeys, keys_by_cfd, keys_table
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.fragments.site_state import SiteState
from holdstrue.fragments.site_work import SiteWork
from holdstrue.shards.wire import pack

WIRE = message_schema(pa.binary()).insert(0, pa.field("at", pa.int64()))
"""`at` is the place in the script. Beside kinds of messages: rows of the site's own, and answers."""

ROWS, START, ERROR, MESSAGES = ":rows", ":start", ":error", ":messages"
"""A row of START says nothing, but a job without any row would not run."""
OWN_ROWS = "own rows"
"""Stands in a script for the rows that come with it."""

SiteCall = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class SiteJob:
    """One site doing what a script says; it answers the last `wanted` calls of it."""

    spec: SiteSpec
    path: str
    script: tuple[SiteCall, ...]
    wanted: int = 1

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Messages and own rows in, answers out; an error in the data is an answer too."""
        told = [row for batch in batches for row in batch.to_pylist()]
        messages = {row["at"]: _message(row) for row in told if not row["kind"].startswith(":")}
        parts = [unpacked(row["body"]) for row in told if row["kind"] == ROWS]
        rows = pa.concat_tables(parts or [self.spec.schema.empty_table()])
        try:
            answers = self._answers(messages, rows)
        except HoldstrueError as error:
            said = {"type": type(error).__name__, "message": error.message, "hint": error.hint}
            answers = [(0, ERROR, json.dumps(said).encode())]
        yield from (part for at, kind, body in answers for part in _wired(at, kind, body))

    def _answers(self, messages: dict[int, SiteMessage], rows: pa.Table) -> list[tuple[int, str, Any]]:
        work = SiteWork(self.spec, lambda: rows, SiteState.at(self.path, self.spec))
        try:
            answers: list[tuple[int, str, Any]] = []
            for at, (verb, args) in enumerate(self.script):
                own = tuple(rows if isinstance(arg, str) and arg == OWN_ROWS else arg for arg in args)
                answer = work.ask(verb, *((messages[at],) if verb == "receive" else own))
                if at >= len(self.script) - self.wanted:
                    answers.append((at, *encoded(answer)))
            return answers
        finally:
            work.close()


def wire_row(kind: str, body: bytes = b"", at: int = -1, entries: int = 0) -> dict[str, Any]:
    """A row of `WIRE` that is no message."""
    names = dict.fromkeys(("source", "target", "batch"), "")
    return {**names, "at": at, "number": 0, "kind": kind, "about": 0, "entries": entries, "body": body, "checksum": b""}


def sent_rows(at: int, message: SiteMessage) -> dict[str, Any]:
    """A message as a row of `WIRE`."""
    return {"at": at, **vars(message)}


def packed_rows(rows: pa.Table) -> dict[str, Any]:
    """Rows of a site's own as a row of `WIRE`."""
    return wire_row(ROWS, pack(rows).to_pybytes(), entries=rows.num_rows)


def pack_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of a source as rows of `WIRE`, a record batch each."""
    for batch in batches:
        yield pa.RecordBatch.from_pylist([packed_rows(pa.Table.from_batches([batch]))], schema=WIRE)


def _message(row: dict[str, Any]) -> SiteMessage:
    return SiteMessage(**{name: value for name, value in row.items() if name != "at"})


def unpacked(body: bytes) -> pa.Table:
    """A table out of its bytes."""
    return pa.ipc.open_stream(pa.BufferReader(body)).read_all()


# --- answers ------------------------------------------------------------------------------------------


def encoded(answer: Any) -> tuple[str, Any]:
    """An answer as its kind and its bytes; messages stay messages."""
    match answer:
        case list():
            return MESSAGES, answer
        case np.ndarray():
            return ":mask", answer.astype(np.bool_).tobytes()
        case dict() if any(isinstance(value, ChangedKeys) for value in answer.values()):
            return ":changed", pack(keys_table(answer)).to_pybytes()
        case dict() if any(isinstance(value, pa.Table) for value in answer.values()):
            whole = {cfd: ChangedKeys(keys, keys.slice(0, 0)) for cfd, keys in answer.items()}
            return ":violating", pack(keys_table(whole)).to_pybytes()
        case _:
            return ":json", json.dumps(answer).encode()


def _wired(at: int, kind: str, body: Any) -> Iterator[pa.RecordBatch]:
    sent = [sent_rows(at, message) for message in body] if kind == MESSAGES else []
    head = wire_row(kind, b"" if kind == MESSAGES else body, at)
    yield pa.RecordBatch.from_pylist([head, *sent], schema=WIRE)


def decoded(table: pa.Table) -> dict[int, Any]:
    """By place in the script what a job answered; an error is raised."""
    answers: dict[int, Any] = {}
    for row in table.to_pylist():
        at, kind, body = row["at"], row["kind"], row["body"]
        match kind:
            case ":error":
                said = json.loads(body)
                found = (
                    ChannelError if said["type"] == "ChannelError" else getattr(errors, said["type"], HoldstrueError)
                )
                raise found(said["message"], hint=said["hint"])
            case ":messages":
                answers.setdefault(at, [])
            case ":mask":
                answers[at] = np.frombuffer(body, dtype=np.bool_).copy()
            case ":changed":
                answers[at] = keys_by_cfd(unpacked(body))
            case ":violating":
                answers[at] = {cfd: keys.added for cfd, keys in keys_by_cfd(unpacked(body)).items()}
            case ":json":
                answers[at] = json.loads(body)
            case _:
                answers.setdefault(at, []).append(_message(row))
    return answers
