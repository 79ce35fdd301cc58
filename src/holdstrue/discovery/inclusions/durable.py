"""Inclusions in a state directory: the values' arrays shard by shard, mapped when opened, and a log of batches.

A batch appends one run, its net counts, and commits. Once the log holds a sixteenth of the values, the
shards are written anew one after the other and mapped again, so that memory holds what batches touched
since, not the values: the state may be larger than memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.closing import Closing
from holdstrue.discovery.found import RuleTurnover
from holdstrue.discovery.inclusions.attributes import Changes
from holdstrue.discovery.inclusions.net_changes import NetChanges
from holdstrue.discovery.inclusions.unary import UnaryInclusions, ValueLayout
from holdstrue.errors import ChangeError, StateError
from holdstrue.index.arrays import Snapshot, nested
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import BATCHES, Journal, schema_of, schema_text
from holdstrue.state.manifest import RunFile


class DurableInclusions(Closing):
    """A core with its state directory. `with DurableInclusions.open(path) as kept: kept.apply(changes)`."""

    def __init__(self, journal: Journal, core: UnaryInclusions) -> None:
        self._journal = journal
        self._broken = False
        self.core = core

    @staticmethod
    def create(path: str | os.PathLike[str], core: UnaryInclusions) -> DurableInclusions:
        """Make a state directory that holds what the core holds. Complexity: O(values)."""
        kept = DurableInclusions(Journal.create(path, "inclusions"), core)
        try:
            kept._write(BATCHES.schema.empty_table(), about(core.layout, core.schemas))
        except BaseException:
            kept.close()
            raise
        return kept

    @staticmethod
    def open(path: str | os.PathLike[str], *, read_only: bool = False) -> DurableInclusions:
        """The state as it was left. Complexity: O(counts logged since the checkpoint); values are mapped."""
        journal = Journal.open(path, "inclusions", read_only=read_only)
        try:
            options, schemas = told(journal.facts)
            core = UnaryInclusions.restore(schemas, options, _arrays(journal))
            for file in journal.runs.log:
                for counted in tallies_in(journal.files, file):
                    core.structure.apply(counted)
        except BaseException:
            journal.close()
            raise
        return DurableInclusions(journal, core)

    def apply(self, changes: Changes) -> RuleTurnover:
        """Apply a batch and make it durable. Complexity: O(cells of the batch), amortised."""
        if self._broken:
            raise StateError(
                "an earlier batch stopped half-way in memory",
                hint="open the state again: its history says whether that batch is in",
            )
        counted = self.core.tally(changes)
        self._broken = True
        try:
            turnover = self.core.apply_tally(counted)
        except ChangeError:
            self._broken = False
            raise
        journal = self._journal
        line = journal.line(f"#{journal.version + 1}")
        if journal.runs.due(counted.changes, self.core.structure.distinct_values()):
            self._write(line, {})
        else:
            journal.commit(journal.write_batch([counted.to_table()], counted.changes, line, {}))
        self._broken = False
        return turnover

    def checkpoint(self) -> None:
        """Write all values anew, shard by shard, and map them. Complexity: O(values)."""
        self._write(BATCHES.schema.empty_table(), {})

    def _write(self, lines: pa.Table, facts: Mapping[str, Any]) -> None:
        journal, structure = self._journal, self.core.structure
        files, version = journal.files, journal.version + 1
        shards = {}
        for i, values in enumerate(structure.shards):
            file = files.write_arrays("values", version, values.snapshot())
            shards[str(i)] = {"base": {"values": file.to_dict()}, "log": []}
        rest: Snapshot = {"loaded": self.core.loaded.astype(np.uint8), **structure.summary()}
        base = {"summary": files.write_arrays("summary", version, rest)}
        counted = {"shards": shards, "values": structure.distinct_values()}
        journal.commit(journal.write_checkpoint(base, lines, {**facts, **counted}))
        structure.restore(_arrays(journal))

    def close(self) -> None:
        """Let go of the directory; raises if a file of it turned out to be damaged."""
        self._journal.close()


def about(options: ValueLayout, schemas: Mapping[str, pa.Schema]) -> dict[str, Any]:
    """What the manifest says of the inclusions' tables and of how their values compare."""
    return {
        "options": options.to_dict(),
        "schemas": {table: schema_text(schema) for table, schema in schemas.items()},
    }


def told(facts: Mapping[str, Any]) -> tuple[ValueLayout, dict[str, pa.Schema]]:
    """Back from `about`."""
    schemas = {table: schema_of(text) for table, text in facts["schemas"].items()}
    return ValueLayout.of(facts["options"]), schemas


def tallies_in(files: StateFiles, file: RunFile) -> list[NetChanges]:
    """The net counts that a run holds, after its lines of history."""
    return [NetChanges.of(table) for table in files.read_tables(file)[1:]]


def _arrays(journal: Journal) -> Snapshot:
    files = journal.files
    arrays: Snapshot = dict(files.map_arrays(journal.runs.base["summary"]))
    for number, shard in journal.facts["shards"].items():
        arrays |= nested(f"shard{number}", dict(files.map_arrays(RunFile.of(shard["base"]["values"]))))
    return arrays
