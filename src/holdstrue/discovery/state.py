"""The state directory of a discovery: rows and cores as arrays, the batches since, and what each batch did."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from holdstrue.detect.engine import Incoming
from holdstrue.discovery.held import Held
from holdstrue.errors import StateError
from holdstrue.shards.runs import Runs, parts_of
from holdstrue.state.store import Arrays, RunFile, Store

HISTORY = pa.schema({"batch": pa.string(), "died": pa.int64(), "born": pa.int64(), "rules": pa.int64()})


class DiscoveryState:
    """Writes and reads the state directory of one discovery."""

    def __init__(self, store: Store, manifest: dict[str, Any]) -> None:
        self._store = store
        self._manifest = manifest

    @staticmethod
    def create(
        path: str | os.PathLike[str], about: Mapping[str, Any], held: Held, cores: Mapping[str, Arrays]
    ) -> DiscoveryState:
        """Make a state directory that holds what the discovery holds."""
        store = Store(path)
        store.create()
        store.lock()
        state = DiscoveryState(store, {"version": -1, "base": {}, "log": [], "log_rows": 0, "discovery": dict(about)})
        state.checkpoint(held, cores, HISTORY.empty_table())
        return state

    @staticmethod
    def open(path: str | os.PathLike[str], *, read_only: bool = False) -> DiscoveryState:
        """Open a state directory; writers take its lock."""
        store = Store(path)
        store.manifest()
        if not read_only:
            store.lock()
        manifest = store.manifest()
        if "discovery" not in manifest:
            store.close()
            raise StateError(
                f"{path} is the state of a monitor, not of a discovery",
                hint="apply its changes with: holdstrue apply STATE CHANGES",
            )
        return DiscoveryState(store, manifest)

    def close(self) -> None:
        """Let go of the directory."""
        self._store.close()

    @property
    def about(self) -> dict[str, Any]:
        """DiscoveryOptions, columns and keys."""
        found: dict[str, Any] = self._manifest["discovery"]
        return found

    def rows(self, held: Held) -> None:
        """Bring the rows to the checkpoint."""
        base = {name: file for name, file in self._runs().base.items() if not name.startswith(("core.", "history"))}
        Runs(base).restore(self._store, held.engine, held.keys)

    def cores(self) -> dict[str, Arrays]:
        """The arrays of each kind at the checkpoint."""
        base = self._runs().base
        return {
            name.removeprefix("core."): self._store.map_arrays(file)
            for name, file in base.items()
            if name.startswith("core.")
        }

    def batches(self) -> Iterator[dict[str, Incoming]]:
        """The batches since the checkpoint, oldest first."""
        for file in self._runs().log:
            yield dict(parts_of(self._store, file))
        self._store.verified()

    def history(self) -> pa.Table:
        """What each batch did, oldest first."""
        runs = self._runs()
        files = [*([runs.base["history"]] if "history" in runs.base else []), *runs.log]
        return pa.concat_tables([HISTORY.empty_table(), *(self._store.read_tables(file)[0] for file in files)])

    def append(self, held: Held, incoming: Mapping[str, Incoming], line: Mapping[str, Any], cores: Any) -> None:
        """Make a batch durable: one run, or a checkpoint where runs add up. `cores` gives the arrays when asked."""
        head = pa.Table.from_pylist([dict(line)], schema=HISTORY)
        runs = self._runs()
        size = sum(part.values.num_rows + part.old.size for part in incoming.values())
        if runs.due(held.engine, size):
            self.checkpoint(held, cores(), pa.concat_tables([self.history(), head]))
            return
        version = self._manifest["version"] + 1
        self._commit(runs.appended(self._store, version, incoming, [head]))

    def checkpoint(self, held: Held, cores: Mapping[str, Arrays], history: pa.Table) -> None:
        """Write everything. Complexity: O(table and kept evidence)."""
        version = self._manifest["version"] + 1
        runs = Runs.checkpoint(self._store, version, held.engine)
        files: dict[str, RunFile] = {
            f"core.{name}": self._store.write_arrays("core", version, arrays) for name, arrays in cores.items()
        }
        files["history"] = self._store.write_tables("history", version, [history])
        self._commit(replace(runs, base={**runs.base, **files}))
        self._store.collect()

    def _runs(self) -> Runs:
        return Runs.of(self._manifest)

    def _commit(self, runs: Runs) -> None:
        version = self._manifest["version"] + 1
        manifest = {**self._manifest, **runs.to_dict(), "version": version}
        self._store.commit(version, manifest)
        self._manifest = manifest


def schema_text(schema: pa.Schema) -> str:
    """Columns and types as text for a manifest."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def schema_of_text(text: str) -> pa.Schema:
    """Back from `schema_text`."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
