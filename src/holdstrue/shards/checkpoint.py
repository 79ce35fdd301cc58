"""The files of an engine: a checkpoint of all its arrays, and the batches since as runs.

A run holds the rows that came and which slots they replace or remove. Opening maps the checkpoint
copy-on-write, reads only what it touches, and replays the runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import numbers
from holdstrue.detect.engine import Engine, Incoming
from holdstrue.shards.tables import Keys
from holdstrue.state.journal import Runs
from holdstrue.state.store import Joint, RunFile, Store
from holdstrue.typing import I32

MERGE_FROM = 8
"""Runs of a shard from which on small ones are merged: manifests stay short, and a batch seldom writes old rows."""
MERGED_ANYWAY = 16_384
"""Bytes up to which a run is always worth merging: a run of few rows is mostly its schema."""

_NO_ROWS = np.empty(0, dtype=np.int32)


def write_checkpoint(store: Store, version: int, engine: Engine) -> dict[str, RunFile]:
    """Write a whole engine. Complexity: O(table)."""
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
    return base


def write_run(store: Store, joint: Joint, runs: Runs, incoming: Mapping[str, Incoming]) -> Runs:
    """Write a batch as one run of a joint file, older small runs merged into it. Complexity: O(batch) amortised.

    A run is merged when the younger ones hold half as much, so that there are few, and each
    row is written again a few times at most.
    """
    kept, merged = len(runs.log), tables_of(incoming)
    size = sum(table.nbytes for table in merged)
    while len(runs.log) >= MERGE_FROM and kept and runs.log[kept - 1].size <= 2 * size + MERGED_ANYWAY:
        kept -= 1
        size += runs.log[kept].size
    older = [table for file in runs.log[kept:] for table in store.read_tables(file)]
    file = joint.add([*older, *merged])
    return Runs(runs.base, (*runs.log[:kept], file), runs.log_rows + size_of(incoming))


def restore(store: Store, runs: Runs, engine: Engine, keys: Keys) -> None:
    """Bring an engine of the same plan to what the files hold. Complexity: O(rows logged since the checkpoint)."""
    if "arrays" in runs.base:
        arrays = store.map_arrays(runs.base["arrays"])
        values = {table: store.map_tables(runs.base[f"values.{i}"])[0] for i, table in enumerate(engine.tables)}
        for table in store.read_tables(runs.base["labels"]) if "labels" in runs.base else []:
            number = int(table.schema.metadata[b"domain"])
            engine.labels[number].restore(table.column("value").to_pylist(), table.column("label").to_pylist())
        engine.restore(arrays, values)
    replay(store, runs, engine, keys)


def replay(store: Store, runs: Runs, engine: Engine, keys: Keys, since: int = 0) -> None:
    """Apply the logged batches from number `since` on."""
    pending: dict[str, Incoming] = {}
    for file in runs.log[since:]:
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
