"""A monitor's state on disk: a checkpoint of all arrays, the batches since, and the history.

A batch writes one run: the rows that came, which slots they replace or remove, and its line of
history. When the runs since the checkpoint hold a sixteenth of the table, a new checkpoint is
written instead, so each changed row costs about sixteen rows of writing in the long run and opening
replays little. Opening maps the checkpoint copy-on-write and reads only what it touches.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.buffers import numbers
from holdstrue.detect.delta import Batched, RuleCounts
from holdstrue.detect.engine import Engine, Incoming
from holdstrue.io.store import RunFile, Store
from holdstrue.plan.compile import IndexKind
from holdstrue.rules.file import dump_rules, load_rules
from holdstrue.rules.model import RuleSet

CHECKPOINT_SHARE = 16
CHECKPOINT_FROM = 10_000
"""Fewer logged rows than this never cause a checkpoint. Chosen, not tuned."""
MOST_RUNS = 256

I32 = NDArray[np.int32]

_NO_ROWS = np.empty(0, dtype=np.int32)


@dataclass(frozen=True)
class State:
    """What a manifest says of a monitor beside its files."""

    rules: RuleSet
    main: str
    keys: Mapping[str, tuple[str, ...]]
    index: IndexKind
    batches: int
    last_batch: str | None = None
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, RuleCounts] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return self._fixed() | self.standing()

    def _fixed(self) -> dict[str, Any]:
        """What a batch does not change."""
        return {
            "rules": dump_rules(self.rules),
            "main": self.main,
            "keys": {table: list(key) for table, key in self.keys.items()},
            "index": self.index,
            "schemas": {
                table: base64.b64encode(schema.serialize().to_pybytes()).decode()
                for table, schema in self.schemas.items()
            },
        }

    def standing(self) -> dict[str, Any]:
        """What every batch changes."""
        return {
            "batches": self.batches,
            "last_batch": self.last_batch,
            "rows": dict(self.rows),
            "counts": {
                rule: {"rows": c.rows, "pairs": c.pairs, "groups": c.groups, "open": c.open}
                for rule, c in self.counts.items()
            },
        }

    @staticmethod
    def of(data: Mapping[str, Any]) -> State:
        """From plain JSON data."""
        return State(
            rules=load_rules(data["rules"]),
            main=data["main"],
            keys={table: tuple(key) for table, key in data["keys"].items()},
            index=data["index"],
            batches=data["batches"],
            last_batch=data["last_batch"],
            schemas={
                table: pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
                for table, text in data["schemas"].items()
            },
            rows=data["rows"],
            counts={rule: RuleCounts(**counts) for rule, counts in data["counts"].items()},
        )


class Durable:
    """Writes and reads the state directory of one monitor."""

    def __init__(self, store: Store, manifest: dict[str, Any], *, read_only: bool) -> None:
        self._store = store
        self._manifest = manifest
        self.read_only = read_only
        self.stale = False
        """The checkpoint no longer fits the plan, so that the next batch must write a new one."""
        self._lines: list[Batched] | None = None
        self._ids: set[str] | None = None

    @staticmethod
    def create(path: str | os.PathLike[str], state: State, engine: Engine | None, lines: list[Batched]) -> Durable:
        """Make a state directory that holds what the monitor holds."""
        store = Store(path)
        store.create()
        store.lock()
        durable = Durable(store, {"version": -1, "base": {}, "log": [], "log_rows": 0}, read_only=False)
        durable.checkpoint(state, engine, lines)
        return durable

    @staticmethod
    def open(path: str | os.PathLike[str], *, read_only: bool) -> tuple[Durable, State]:
        """Open a state directory; writers take its lock."""
        store = Store(path)
        store.manifest()
        if not read_only:
            store.lock()
        try:
            manifest = store.manifest()
            return Durable(store, manifest, read_only=read_only), State.of(manifest)
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Let go of the directory."""
        self._store.close()

    def restore(self, engine: Engine, keys: Mapping[str, tuple[str, ...]]) -> None:
        """Bring an engine of the same plan to the state on disk. Complexity: O(rows logged since the checkpoint)."""
        base = {name: RunFile.of(data) for name, data in self._manifest["base"].items()}
        if "arrays" in base:
            arrays = self._store.map_arrays(base["arrays"])
            values = {table: self._store.map_tables(base[f"values.{i}"])[0] for i, table in enumerate(engine.tables)}
            labels = self._store.read_tables(base["labels"]) if "labels" in base else []
            for table in labels:
                number = int(table.schema.metadata[b"domain"])
                engine.labels[number].restore(table.column("value").to_pylist(), table.column("label").to_pylist())
            engine.restore(arrays, values)
        pending: dict[str, Incoming] = {}
        for data in self._manifest["log"]:
            for table, part in self._parts(RunFile.of(data)).items():
                rows = engine.tables[table].rows
                if table in pending and (part.old >= rows.size).any():
                    _replay(engine, pending, keys)
                pending[table] = _join(pending[table], part) if table in pending else part
            if len(engine.tables) > 1:
                # changes of several tables belong together, in the order they came
                _replay(engine, pending, keys)
        _replay(engine, pending, keys)
        if "history" in base:
            self._store.verify(base["history"])
        self._store.verified()

    def append(self, state: State, engine: Engine, incoming: Mapping[str, Incoming], lines: list[Batched]) -> None:
        """Make a batch durable: one run, or a checkpoint when it is due, and one commit."""
        size = sum(part.values.num_rows + part.old.size for part in incoming.values())
        logged = self._manifest["log_rows"] + size
        living = sum(table.rows.living for table in engine.tables.values())
        if (
            self.stale
            or logged > max(CHECKPOINT_FROM, living // CHECKPOINT_SHARE)
            or len(self._manifest["log"]) >= MOST_RUNS
        ):
            self.checkpoint(state, engine, lines)
            return
        version = self._manifest["version"] + 1
        tables = [_history_table(lines)]
        for name, part in incoming.items():
            tables += [
                part.values.replace_schema_metadata({"table": name}),
                pa.table({"old": part.old}),
                pa.table({"updates": part.updates}),
            ]
        file = self._store.write_tables("batch", version, tables)
        manifest = (
            self._manifest
            | state.standing()
            | {
                "log": [*self._manifest["log"], file.to_dict()],
                "log_rows": logged,
            }
        )
        self._commit(version, manifest, lines)

    def checkpoint(self, state: State, engine: Engine | None, lines: list[Batched]) -> None:
        """Write everything anew and commit it. Complexity: O(table)."""
        version = self._manifest["version"] + 1
        base: dict[str, Any] = {}
        if engine is not None:
            base["arrays"] = self._store.write_arrays("arrays", version, engine.snapshot()).to_dict()
            for i, table in enumerate(engine.tables.values()):
                values = table.rows.values().combine_chunks()
                base[f"values.{i}"] = self._store.write_tables("values", version, [values]).to_dict()
            labels = [
                pa.table({"value": pa.array(known.values), "label": known.labels}).replace_schema_metadata(
                    {"domain": str(number)}
                )
                for number, known in engine.labels.items()
                if len(known)
            ]
            if labels:
                base["labels"] = self._store.write_tables("labels", version, labels).to_dict()
        history = self.history()
        base["history"] = self._store.write_tables("history", version, [_history_table([*history, *lines])]).to_dict()
        self._commit(version, state.to_dict() | {"base": base, "log": [], "log_rows": 0}, lines)
        self.stale = False
        self._store.collect()

    def _commit(self, version: int, manifest: dict[str, Any], lines: list[Batched]) -> None:
        self._store.commit(
            version, {name: value for name, value in manifest.items() if name not in ("version", "format")}
        )
        self._manifest = manifest | {"version": version}
        if self._lines is not None:
            self._lines.extend(lines)
        if self._ids is not None:
            self._ids.update(line.batch for line in lines)

    def history(self) -> list[Batched]:
        """Every batch and rule, oldest first. Complexity: O(batches)."""
        if self._lines is None:
            base = self._manifest["base"].get("history")
            tables = [] if base is None else self._store.read_tables(RunFile.of(base))
            tables += [self._store.read_tables(RunFile.of(data))[0] for data in self._manifest["log"]]
            self._lines = [Batched(**row) for table in tables for row in table.to_pylist()]
        return list(self._lines)

    def seen(self, batch: str) -> bool:
        """Whether a batch of this id was applied. Complexity: O(batches) the first time, then O(1)."""
        if self._ids is None:
            self._ids = {line.batch for line in self.history()}
        return batch in self._ids

    @property
    def path(self) -> Path:
        """The directory."""
        return self._store.path

    def _parts(self, file: RunFile) -> dict[str, Incoming]:
        tables = self._store.read_tables(file)[1:]
        parts = {}
        for values, old, updates in zip(tables[::3], tables[1::3], tables[2::3], strict=True):
            name = values.schema.metadata[b"table"].decode()
            parts[name] = Incoming(
                values.replace_schema_metadata(None),
                _int32(old.column("old")),
                _int32(updates.column("updates")),
            )
        return parts


def _int32(column: pa.ChunkedArray) -> I32:
    return np.concatenate([_NO_ROWS, *(numbers(chunk, np.int32) for chunk in column.chunks)])


def _join(first: Incoming, second: Incoming) -> Incoming:
    """Two batches that touch different rows as one."""
    values = pa.concat_tables([first.values, second.values])
    return Incoming(
        values,
        np.sort(np.concatenate((first.old, second.old))),
        np.concatenate((first.updates, second.updates)),
    )


def _replay(engine: Engine, pending: dict[str, Incoming], keys: Mapping[str, tuple[str, ...]]) -> None:
    """Apply logged batches again, without asking what they change."""
    if pending:
        engine.apply({name: engine.with_keys(name, part, keys[name]) for name, part in pending.items()}, 0)
        pending.clear()


def _history_table(lines: list[Batched]) -> pa.Table:
    schema = pa.schema(
        [
            ("batch", pa.string()),
            ("time", pa.string()),
            ("rule", pa.string()),
            ("added", pa.int64()),
            ("removed", pa.int64()),
            ("open", pa.int64()),
        ]
    )
    return pa.Table.from_pylist([vars(line) for line in lines], schema=schema)
