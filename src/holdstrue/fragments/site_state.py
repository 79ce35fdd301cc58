"""A site's state directory: a checkpoint and the batches since, committed in two steps.

`prepare` writes a batch's run, which nothing names yet; `commit` creates the manifest that names it. A crash
between the two leaves the site before the batch, one after it leaves the site after it, with the batch's
messages and findings on record: other sites that missed the commit get them again when the batch is repeated.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdstrue.data.seed import Seed
from holdstrue.errors import StateError
from holdstrue.fragments.batch_record import BatchRecord
from holdstrue.fragments.indexed_rows import IndexedRows
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.state.store import RunFile, Store

CHECKPOINT_SHARE = 16
CHECKPOINT_FROM = 10_000
MOST_RUNS = 256
"""As for a monitor's state: see `shards/runs.py`."""

COLLECT_EVERY = 16
"""Commits between two looks for files of batches that were given up."""


@dataclass(frozen=True)
class Prepared:
    """A batch that is written and not yet named."""

    version: int
    manifest: Mapping[str, Any]
    batch: str


class SiteState:
    """Writes and reads the state directory of one site."""

    def __init__(self, path: str | os.PathLike[str], spec: SiteSpec) -> None:
        self._store = Store(path)
        self._spec = spec
        self._ids: set[str] = set()
        self._manifest: dict[str, Any] = {"version": -1, "base": {}, "log": [], "log_rows": 0}

    @staticmethod
    def at(path: str | os.PathLike[str], spec: SiteSpec) -> SiteState:
        """The state at a place, a new one where there is none."""
        return SiteState.open(path, spec) if SiteState.exists(path) else SiteState.create(path, spec)

    @staticmethod
    def create(path: str | os.PathLike[str], spec: SiteSpec) -> SiteState:
        """A new directory; nothing is committed before the first batch.

        One that was given up before its first commit is taken over: nothing in it counts.
        """
        state = SiteState(path, spec)
        if not _given_up(state._store.path):
            state._store.create()
        state._store.lock()
        return state

    @staticmethod
    def open(path: str | os.PathLike[str], spec: SiteSpec) -> SiteState:
        """An existing one, for the same part of the same relation."""
        state = SiteState(path, spec)
        manifest = state._store.manifest()
        if manifest.get("site") != spec.fingerprint():
            raise StateError(
                f"{path} is the state of another site, or was made for other rules, columns or sites",
                hint="open it with the declaration it was made with, or load the relation anew elsewhere",
            )
        state._store.lock()
        state._manifest = manifest
        return state

    @staticmethod
    def exists(path: str | os.PathLike[str]) -> bool:
        """Whether there is a state that a batch was committed to."""
        return any(Store(path).path.glob("manifest-*.json"))

    @staticmethod
    def declared(path: str | os.PathLike[str]) -> pa.Schema:
        """The columns that the site's source had when the state was made."""
        text = Store(path).manifest()["schema"]
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))

    def restore(self, indexed: IndexedRows) -> BatchRecord | None:
        """Bring what is held to the state on disk; returns the last batch. Complexity: O(rows since the checkpoint)."""
        base = {name: RunFile.of(data) for name, data in self._manifest["base"].items()}
        if base:
            indexed.restore(self._store.map_arrays(base["arrays"]), self._store.map_tables(base["values"])[0])
            [names] = self._store.read_tables(base["batches"])
            self._ids = set(names.column("batch").to_pylist())
        last: BatchRecord | None = None
        for data in self._manifest["log"]:
            last = BatchRecord.read(self._store.read_tables(RunFile.of(data)), self._spec)
            self._ids.add(last.batch)
            if not data.get("folded"):
                last.replay(indexed)
        self._store.verified()
        return None if last is None else last.answer()

    @property
    def count(self) -> int:
        """How many batches were committed."""
        return len(self._ids)

    def seen(self, batch: str) -> bool:
        """Whether a batch was committed."""
        return batch in self._ids

    def prepare(self, record: BatchRecord) -> Prepared:
        """Write a batch. Complexity: O(batch)."""
        version = self._manifest["version"] + 1
        file = self._store.write_tables("batch", version, record.tables())
        # a run whose rows are in the checkpoint stays only until the next one
        log = [data for data in self._manifest["log"] if not data.get("folded")]
        manifest = {
            **self._manifest,
            "digest": self._spec.seed.to_dict(),
            "site": self._spec.fingerprint(),
            "schema": base64.b64encode((self._spec.declared or self._spec.schema).serialize()).decode(),
            "log": [*log, file.to_dict()],
            "log_rows": self._manifest["log_rows"] + record.ids.size,
        }
        return Prepared(version, manifest, record.batch)

    def commit(self, prepared: Prepared) -> None:
        """Name what was written, in one step."""
        self._commit(prepared.version, prepared.manifest)
        self._ids.add(prepared.batch)
        if prepared.version % COLLECT_EVERY == 0:
            self._store.collect()

    def tidy(self, indexed: IndexedRows) -> None:
        """Write a checkpoint when the batches since the last one are many. Complexity: O(rows), seldom."""
        most = max(CHECKPOINT_FROM, indexed.rows.living // CHECKPOINT_SHARE)
        if self._manifest["log_rows"] <= most and len(self._manifest["log"]) < MOST_RUNS:
            return
        version = self._manifest["version"] + 1
        arrays = self._store.write_arrays("arrays", version, indexed.snapshot())
        values = self._store.write_tables("values", version, [indexed.rows.values().combine_chunks()])
        batches = self._store.write_tables("batches", version, [pa.table({"batch": sorted(self._ids)})])
        base = {"arrays": arrays, "values": values, "batches": batches}
        # the last batch stays readable: another site may still have to ask for it
        log = [{**self._manifest["log"][-1], "folded": True}]
        named = {name: file.to_dict() for name, file in base.items()}
        self._commit(version, {**self._manifest, "base": named, "log": log, "log_rows": 0})
        self._store.collect()

    def _commit(self, version: int, manifest: Mapping[str, Any]) -> None:
        content = {name: value for name, value in manifest.items() if name not in ("version", "format")}
        self._store.commit(version, content)
        self._manifest = {**content, "version": version}

    def close(self) -> None:
        """Let go of the directory."""
        self._store.close()


def shared_seed(paths: Iterable[str | os.PathLike[str]]) -> Seed:
    """The seed of the ids in the states of a relation's sites; a new one where none has a state yet."""
    seeds = {path: Seed.of(Store(path).manifest()["digest"]) for path in paths if SiteState.exists(path)}
    if len(set(seeds.values())) > 1:
        raise StateError(
            f"the states {', '.join(str(path) for path in seeds)} were not made together: their ids differ",
            hint="bring back the states that belong together, or load the relation anew into empty directories",
        )
    return next(iter(seeds.values()), Seed.new())


def _given_up(path: Path) -> bool:
    """Whether a directory is that of a site to which nothing was ever committed."""
    return path.is_dir() and {"lock", "runs"} == {entry.name for entry in path.iterdir()}
