"""The files of one engine: a checkpoint of all its arrays and the batches since.

A batch writes one run: the rows that came and which slots they replace or remove. When the runs
since the checkpoint hold a sixteenth of the table, a new checkpoint is written instead, so each
changed row costs about sixteen rows of writing in the long run and opening replays little. Opening
maps the checkpoint copy-on-write and reads only what it touches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import numbers
from holdstrue.detect.engine import Engine, Incoming
from holdstrue.state.store import Joint, RunFile, Store
from holdstrue.typing import I32

CHECKPOINT_SHARE = 16
CHECKPOINT_FROM = 10_000
"""Fewer logged rows than this never cause a checkpoint. Chosen, not tuned."""
MOST_RUNS = 256
MERGE_FROM = 8
"""Runs of a shard from which on small ones are merged: manifests stay short, and a batch seldom writes old rows."""
MERGED_ANYWAY = 16_384
"""Bytes up to which a run is always worth merging: a run of few rows is mostly its schema."""

Keys = Mapping[str, tuple[str, ...]]

_NO_ROWS = np.empty(0, dtype=np.int32)


@dataclass(frozen=True)
class Runs:
    """Names of the files that hold an engine, oldest first; new files make new `Runs`, nothing is overwritten."""

    base: Mapping[str, RunFile] = field(default_factory=dict)
    log: tuple[RunFile, ...] = ()
    log_rows: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "base": {name: file.to_dict() for name, file in self.base.items()},
            "log": [file.to_dict() for file in self.log],
            "log_rows": self.log_rows,
        }

    @staticmethod
    def of(data: Mapping[str, Any]) -> Runs:
        """From plain JSON data."""
        return Runs(
            {name: RunFile.of(file) for name, file in data["base"].items()},
            tuple(RunFile.of(file) for file in data["log"]),
            data["log_rows"],
        )

    def due(self, engine: Engine, size: int) -> bool:
        """Whether a batch of so many rows should be written as a checkpoint."""
        living = sum(table.rows.living for table in engine.tables.values())
        return self.log_rows + size > max(CHECKPOINT_FROM, living // CHECKPOINT_SHARE) or len(self.log) >= MOST_RUNS

    def appended(
        self, store: Store, version: int, incoming: Mapping[str, Incoming], head: Sequence[pa.Table] = ()
    ) -> Runs:
        """Write a batch as one run, after `head` (at most two tables of other use). Complexity: O(batch)."""
        file = store.write_tables("batch", version, [*head, *tables_of(incoming)])
        return Runs(self.base, (*self.log, file), self.log_rows + size_of(incoming))

    def added(self, store: Store, joint: Joint, incoming: Mapping[str, Incoming]) -> Runs:
        """Write a batch as one run of a joint file, older small runs merged into it. Complexity: O(batch) amortised.

        A run is merged when the younger ones hold half as much, so that there are few, and each
        row is written again a few times at most.
        """
        kept, merged = len(self.log), tables_of(incoming)
        size = sum(table.nbytes for table in merged)
        while len(self.log) >= MERGE_FROM and kept and self.log[kept - 1].size <= 2 * size + MERGED_ANYWAY:
            kept -= 1
            size += self.log[kept].size
        older = [table for file in self.log[kept:] for table in store.read_tables(file)]
        file = joint.add([*older, *merged])
        return Runs(self.base, (*self.log[:kept], file), self.log_rows + size_of(incoming))

    @staticmethod
    def checkpoint(store: Store, version: int, engine: Engine) -> Runs:
        """Write the whole engine. Complexity: O(table)."""
        base = {"arrays": store.write_arrays("arrays", version, engine.snapshot())}
        for i, table in enumerate(engine.tables.values()):
            values = table.rows.values().combine_chunks()
            base[f"values.{i}"] = store.write_tables("values", version, [values])
        labels = [
            pa.table({"value": known.written(), "label": known.labels}).replace_schema_metadata({"domain": str(number)})
            for number, known in engine.labels.items()
            if len(known)
        ]
        if labels:
            base["labels"] = store.write_tables("labels", version, labels)
        return Runs(base)

    def restore(self, store: Store, engine: Engine, keys: Keys) -> None:
        """Bring an engine of the same plan to what the files hold. Complexity: O(rows logged since the checkpoint)."""
        if "arrays" in self.base:
            arrays = store.map_arrays(self.base["arrays"])
            values = {table: store.map_tables(self.base[f"values.{i}"])[0] for i, table in enumerate(engine.tables)}
            for table in store.read_tables(self.base["labels"]) if "labels" in self.base else []:
                number = int(table.schema.metadata[b"domain"])
                engine.labels[number].restore(table.column("value").to_pylist(), table.column("label").to_pylist())
            engine.restore(arrays, values)
        self.replay(store, engine, keys)

    def replay(self, store: Store, engine: Engine, keys: Keys, since: int = 0) -> None:
        """Apply the logged batches from number `since` on."""
        pending: dict[str, Incoming] = {}
        for file in self.log[since:]:
            for table, part in parts_of(store, file):
                rows = engine.tables[table].rows
                if table in pending and (part.old >= rows.size).any():
                    _apply(engine, pending, keys)
                pending[table] = _join(pending[table], part) if table in pending else part
            if len(engine.tables) > 1:
                # changes of several tables belong together, in the order they came
                _apply(engine, pending, keys)
        _apply(engine, pending, keys)


def size_of(incoming: Mapping[str, Incoming]) -> int:
    """How many row versions a batch brings and removes."""
    return sum(part.values.num_rows + part.old.size for part in incoming.values())


def tables_of(incoming: Mapping[str, Incoming]) -> list[pa.Table]:
    """A batch as the tables of a run."""
    tables = []
    for name, part in incoming.items():
        tables += [
            part.values.replace_schema_metadata({"table": name}),
            pa.table({"old": part.old}),
            pa.table({"updates": part.updates}),
        ]
    return tables


def parts_of(store: Store, file: RunFile) -> Iterator[tuple[str, Incoming]]:
    """The parts of a batch, table by table; of several batches one after the other, where runs were merged."""
    tables = store.read_tables(file)
    tables = tables[len(tables) % 3 :]
    for values, old, updates in zip(tables[::3], tables[1::3], tables[2::3], strict=True):
        name = values.schema.metadata[b"table"].decode()
        columns = _int32(old.column("old")), _int32(updates.column("updates"))
        yield name, Incoming(values.replace_schema_metadata(None), *columns)


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


def _apply(engine: Engine, pending: dict[str, Incoming], keys: Keys) -> None:
    """Apply logged batches again, without asking what they change."""
    if pending:
        engine.apply({name: engine.with_keys(name, part, keys[name]) for name, part in pending.items()}, 0)
        pending.clear()
