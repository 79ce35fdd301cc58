"""Inclusions in a state directory: the values' arrays shard by shard, mapped when opened, and a log of batches.

A batch appends one run, its net counts, and commits. Once the log holds a sixteenth of the values, the
shards are written anew one after the other and mapped again, so that memory holds what batches touched
since, not the values: the state may be larger than memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.closing import Closing
from holdstrue.discovery.found import RuleTurnover
from holdstrue.discovery.inclusions.attributes import Changes
from holdstrue.discovery.inclusions.counted_values import LackingError
from holdstrue.discovery.inclusions.net_changes import NetChanges
from holdstrue.discovery.inclusions.unary import UnaryInclusions, ValueLayout
from holdstrue.errors import ChangeError, StateError
from holdstrue.index.arrays import Snapshot
from holdstrue.index.checked import Checked
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import BATCHES, Journal
from holdstrue.state.manifest import RunFile
from holdstrue.state.schema_text import schema_of, schema_text
from holdstrue.state.shape import DIGEST, FILE, require

SHAPE = {
    "options": {
        "compare": {"types", "text"},
        "structure": {"counters", "clusters"},
        "shards": int,
        "digest": DIGEST,
    },
    "schemas": {str: str},
    "shards": {str: {"base": {"values": FILE}, "log": [FILE]}},
    "values": int,
}
"""The shape of the manifest of inclusions."""

MOST_SHARDS = 1 << 16
"""A shard is a number of 16 bits."""


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
            options, schemas = journal.read(told)
            core = UnaryInclusions.restore(schemas, options, *_arrays(journal, options.shards))
            journal.files.verified()
            for file in journal.runs.log:
                for counted in tallies_in(journal.files, file, len(core.attributes)):
                    try:
                        core.structure.apply(counted)
                    except LackingError as error:
                        raise journal.files.damaged(file, error.message) from error
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
        structure.restore(*_arrays(journal, len(structure.shards)))
        files.verified()

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
    """Back from `about`; a ValueError where it is not."""
    require(facts, SHAPE)
    schemas = {table: schema_of(text) for table, text in facts["schemas"].items()}
    options = ValueLayout.of(facts["options"])
    if options.shards.bit_count() != 1 or options.shards > MOST_SHARDS:
        raise ValueError(f"{options.shards} shards, not a power of two up to {MOST_SHARDS}")
    return options, schemas


def tallies_in(files: StateFiles, file: RunFile, attributes: int) -> list[NetChanges]:
    """The net counts that a run holds of so many columns, after its lines of history."""
    try:
        return [NetChanges.of(table, attributes) for table in files.read_tables(file)[1:]]
    except ValueError as error:
        raise files.damaged(file, str(error)) from error


def checked_arrays(files: StateFiles, file: RunFile) -> Checked:
    """The arrays of a run, for a structure that is restored."""
    return Checked(files.map_arrays(file), partial(files.damaged, file))


def _arrays(journal: Journal, shards: int) -> tuple[Checked, list[Checked]]:
    """What there is beside the values, and the values of every shard."""
    files, named = journal.files, journal.facts["shards"]
    if "summary" not in journal.runs.base or named.keys() != {str(number) for number in range(shards)}:
        raise files.broken(journal.version, f"it does not name the counters, and the values of {shards} shards")
    summary = checked_arrays(files, journal.runs.base["summary"])
    return summary, [
        checked_arrays(files, RunFile.of(named[str(number)]["base"]["values"])) for number in range(shards)
    ]
