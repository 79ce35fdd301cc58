"""A monitor's state on disk: what the manifest says of it, the files of its engine, and the history."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdstrue.data.seed import Seed
from holdstrue.detect.delta import Batched, RuleCounts
from holdstrue.detect.engine import Engine, Incoming
from holdstrue.errors import StateError
from holdstrue.plan.compile import IndexKind, Plan
from holdstrue.rules.file import dump_rules, load_rules
from holdstrue.rules.model import RuleSet
from holdstrue.shards.layout import Layout
from holdstrue.shards.runs import MOST_RUNS, Runs, size_of
from holdstrue.shards.shard import Shard
from holdstrue.shards.tables import plan_for
from holdstrue.state.store import RunFile, Store

COLLECT_EVERY = 16
"""Commits of a sharded state between two looks for files that are no longer named."""


@dataclass(frozen=True)
class State:
    """What a manifest says of a monitor beside its files."""

    rules: RuleSet
    main: str
    keys: Mapping[str, tuple[str, ...]]
    index: IndexKind
    seed: Seed
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
            "digest": self.seed.to_dict(),
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

    def plan(self) -> Plan:
        """The plan for the tables as they were seen."""
        return plan_for(self.rules, self.main, self.keys, self.index, self.schemas, self.seed)

    @staticmethod
    def of(data: Mapping[str, Any]) -> State:
        """From plain JSON data."""
        if "rules" not in data:
            raise StateError(
                "this is not the state of a monitor",
                hint="a discovery is read with: holdstrue discover --state STATE; a site with: holdstrue fragments",
            )
        return State(
            rules=load_rules(data["rules"]),
            main=data["main"],
            keys={table: tuple(key) for table, key in data["keys"].items()},
            index=data["index"],
            seed=Seed.of(data["digest"]),
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
        if self.sharding is not None:
            self._gather(engine, keys)
        self._runs().restore(self._store, engine, keys)
        if "history" in self._manifest["base"]:
            self._store.verify(RunFile.of(self._manifest["base"]["history"]))
        self._store.verified()

    def _gather(self, engine: Engine, keys: Mapping[str, tuple[str, ...]]) -> None:
        """Load the rows of a sharded state, which its homes hold, and write it as one from the next batch on."""
        layout = Layout.of(engine.plan, keys, self._manifest["sharding"]["shards"], 1)
        found: dict[str, list[pa.Table]] = {name: [] for name in engine.tables}
        for number in range(layout.shards):
            if str(number) in self.shards:
                shard = Shard.open(self._store, layout.home_plan, keys, Runs.of(self.shards[str(number)]))
                for name, table in shard.engine.tables.items():
                    found[name].append(table.rows.take(table.rows.living_slots()))
        tables = {name: pa.concat_tables(parts) for name, parts in found.items() if parts}
        engine.apply({name: engine.first_rows(name, rows, keys[name]) for name, rows in tables.items()}, 0)
        engine.settle()
        self.stale = True

    def append(self, state: State, engine: Engine, incoming: Mapping[str, Incoming], lines: list[Batched]) -> None:
        """Make a batch durable: one run, or a checkpoint when it is due, and one commit."""
        runs = self._runs()
        if self.stale or runs.due(engine, size_of(incoming)):
            self.checkpoint(state, engine, lines)
            return
        version = self._manifest["version"] + 1
        runs = runs.appended(self._store, version, incoming, [history_table(lines)])
        self._commit(version, self._manifest | state.standing() | runs.to_dict(), lines)

    def checkpoint(self, state: State, engine: Engine | None, lines: list[Batched]) -> None:
        """Write everything anew and commit it. Complexity: O(table)."""
        version = self._manifest["version"] + 1
        runs = Runs() if engine is None else Runs.checkpoint(self._store, version, engine)
        history = self._store.write_tables("history", version, [self._whole_history(lines)])
        runs = replace(runs, base={**runs.base, "history": history})
        self._commit(version, state.to_dict() | runs.to_dict(), lines)
        self.stale = False
        self._store.collect()

    # --- a state in shards ---------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The number of the manifest."""
        found: int = self._manifest["version"]
        return found

    @property
    def sharding(self) -> dict[str, Any] | None:
        """How the state is laid out in shards; None for a state in one piece."""
        return self._manifest.get("sharding")

    @property
    def shards(self) -> dict[str, Any]:
        """By number the files, rows and counts of every shard."""
        return self._manifest.get("shards", {})

    def commit_shards(
        self,
        state: State,
        sharding: Mapping[str, Any],
        shards: Mapping[str, Any],
        lists: Sequence[RunFile] | None,
        lines: list[Batched],
        *,
        kept: bool = False,
    ) -> None:
        """Name the files that tasks wrote for a batch, and its lines of history, in one commit.

        Without `lists` the last batch was not applied in shards, so that what it did is listed nowhere.
        """
        version = self.version + 1
        runs = self._runs()
        if self.sharding is None or len(runs.log) >= MOST_RUNS:
            # also where the state was in one piece, whose runs hold rows beside history
            runs = Runs({"history": self._store.write_tables("history", version, [self._whole_history(lines)])})
        elif lines:
            runs = replace(runs, log=(*runs.log, self._store.write_tables("batch", version, [history_table(lines)])))
        more = {"sharding": sharding, "shards": shards, "kept": kept}
        if lists is not None:
            more["delta"] = [file.to_dict() for file in lists]
        self._commit(version, state.to_dict() | runs.to_dict() | more, lines)
        if version % COLLECT_EVERY == 0:
            self._store.collect()

    def _whole_history(self, lines: list[Batched]) -> pa.Table:
        return history_table([*self.history(), *lines])

    def write_list(self, tables: Sequence[pa.Table]) -> RunFile:
        """Write a list of violations beside the runs."""
        return self._store.write_tables("delta", self.version + 1, tables)

    def lists(self, files: Sequence[RunFile] | None = None) -> list[pa.Table]:
        """Lists of violations: those of the last batch unless others are named."""
        wanted = self.list_files or [] if files is None else files
        return [table for file in wanted for table in self._store.read_tables(file)]

    @property
    def list_files(self) -> list[RunFile] | None:
        """The files that list the last batch's violations; None where it was not applied in shards."""
        known = self._manifest.get("delta")
        return None if known is None else [RunFile.of(data) for data in known]

    @property
    def some_moved(self) -> bool:
        """Whether the last batch's lists hold violations that only moved."""
        return bool(self._manifest.get("kept", False))

    def collect(self) -> list[str]:
        """Remove files that no kept manifest names; returns their names."""
        return self._store.collect()

    def _runs(self) -> Runs:
        return Runs.of(self._manifest)

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


def history_table(lines: list[Batched]) -> pa.Table:
    """Lines of history as a table."""
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
