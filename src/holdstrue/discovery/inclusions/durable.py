"""InclusionCore in a state directory: the values' arrays shard by shard, mapped when opened, and a log of batches.

A batch appends one run, its net counts, and commits. Once the log holds a sixteenth of the values, the
shards are written anew one after the other and mapped again, so that memory holds what batches touched
since, not the values: the state may be larger than memory. `state/store.py` says how a commit is atomic.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from holdstrue.discovery.found import RuleTurnover
from holdstrue.discovery.inclusions.attributes import Changes
from holdstrue.discovery.inclusions.net_changes import NetChanges
from holdstrue.discovery.inclusions.unary import UnaryInclusions, ValueLayout
from holdstrue.errors import StateError
from holdstrue.index.numbering import Snapshot, nested
from holdstrue.state.store import RunFile, Store

KIND = "inclusions"
CHECKPOINT_SHARE = 16
CHECKPOINT_FROM = 100_000
"""Fewer logged counts than this never cause a checkpoint. Chosen, not tuned."""
MOST_RUNS = 256


class DurableInclusions:
    """A core with its state directory. `with DurableInclusions.open(path) as kept: kept.apply(changes)`."""

    def __init__(self, store: Store, core: UnaryInclusions, manifest: dict[str, Any]) -> None:
        self._store = store
        self._manifest = manifest
        self.core = core

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @staticmethod
    def create(path: str | os.PathLike[str], core: UnaryInclusions) -> DurableInclusions:
        """Make a state directory that holds what the core holds. Complexity: O(values)."""
        store = Store(path)
        store.create()
        store.lock()
        fixed = {
            "kind": KIND,
            "options": core.layout.to_dict(),
            "schemas": {
                table: base64.b64encode(schema.serialize().to_pybytes()).decode()
                for table, schema in core.schemas.items()
            },
        }
        kept = DurableInclusions(store, core, {"version": -1, "fixed": fixed, "log": [], "logged": 0})
        kept.checkpoint()
        return kept

    @staticmethod
    def open(path: str | os.PathLike[str], *, read_only: bool = False) -> DurableInclusions:
        """The state as it was left. Complexity: O(counts logged since the checkpoint); values are mapped."""
        store = Store(path)
        manifest = store.manifest()
        if manifest.get("fixed", {}).get("kind") != KIND:
            raise StateError(f"{path} holds no discovered inclusions", hint="open it with the command that made it")
        if not read_only:
            store.lock()
            manifest = store.manifest()
        fixed = manifest["fixed"]
        schemas = {
            table: pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) for table, text in fixed["schemas"].items()
        }
        core = UnaryInclusions.restore(schemas, ValueLayout.of(fixed["options"]), _arrays(store, manifest))
        for data in manifest["log"]:
            core.structure.apply(_read(store, RunFile.of(data)))
        return DurableInclusions(store, core, manifest)

    def apply(self, changes: Changes) -> RuleTurnover:
        """Apply a batch and make it durable. Complexity: O(cells of the batch), amortised."""
        counted = self.core.tally(changes)
        turnover = self.core.apply_tally(counted)
        log, logged = self._manifest["log"], self._manifest["logged"] + counted.changes
        limit = max(CHECKPOINT_FROM, self.core.structure.distinct_values() // CHECKPOINT_SHARE)
        if logged > limit or len(log) >= MOST_RUNS:
            self.checkpoint()
            return turnover
        version = self._manifest["version"] + 1
        run = self._store.write_tables("batch", version, [counted.to_table()])
        self._commit(version, self._manifest | {"log": [*log, run.to_dict()], "logged": logged})
        return turnover

    def checkpoint(self) -> None:
        """Write all values anew, shard by shard, and map them. Complexity: O(values)."""
        version = self._manifest["version"] + 1
        structure = self.core.structure
        shards = {}
        for i, values in enumerate(structure.shards):
            file = self._store.write_arrays("values", version, values.snapshot())
            shards[str(i)] = {"base": {"values": file.to_dict()}, "log": []}
        rest: Snapshot = {"loaded": self.core.loaded.astype(np.uint8), **structure.summary()}
        base = {"summary": self._store.write_arrays("summary", version, rest).to_dict()}
        self._commit(version, self._manifest | {"base": base, "shards": shards, "log": [], "logged": 0})
        structure.restore(_arrays(self._store, self._manifest))
        self._store.collect()

    def _commit(self, version: int, manifest: Mapping[str, Any]) -> None:
        content = {name: value for name, value in manifest.items() if name not in ("version", "format")}
        self._store.commit(version, content)
        self._manifest = {**content, "version": version}

    def close(self) -> None:
        """Let go of the directory; raises if a file of it turned out to be damaged."""
        self._store.close()


def _arrays(store: Store, manifest: Mapping[str, Any]) -> Snapshot:
    arrays: Snapshot = dict(store.map_arrays(RunFile.of(manifest["base"]["summary"])))
    for number, shard in manifest["shards"].items():
        arrays |= nested(f"shard{number}", dict(store.map_arrays(RunFile.of(shard["base"]["values"]))))
    return arrays


def _read(store: Store, file: RunFile) -> NetChanges:
    [table] = store.read_tables(file)
    return NetChanges.of(table)
