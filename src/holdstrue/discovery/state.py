"""The journal of a discovery: rows and cores as arrays, the batches since, and what each batch did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from holdstrue.detect.engine import Incoming
from holdstrue.detect.resolve import unfit
from holdstrue.discovery.held import Held
from holdstrue.index.checked import Checked
from holdstrue.shards.logged import parts_of, size_of, tables_of
from holdstrue.shards.shard import restore, write_checkpoint
from holdstrue.state.files import Arrays
from holdstrue.state.history import Lines
from holdstrue.state.journal import Journal
from holdstrue.state.manifest import RunFile
from holdstrue.state.runs import Runs

HISTORY = Lines(
    pa.schema({"batch": pa.string(), "died": pa.int64(), "born": pa.int64(), "rules": pa.int64()}),
    sums=("died", "born"),
)

_CORE = "core."
"""Starts the names of the files that hold the arrays of a kind."""


def restore_rows(journal: Journal, held: Held) -> None:
    """Bring the rows to the checkpoint."""
    restore(journal.files, Runs(journal.runs.base), held.engine, held.keys)


def cores_of(journal: Journal, names: Iterable[str]) -> dict[str, Checked]:
    """The arrays of some kinds at the checkpoint."""
    files, found = journal.files, {}
    for name in names:
        file = journal.runs.base.get(_CORE + name)
        if file is None:
            raise files.broken(journal.version, f"it names no file of {name}")
        found[name] = Checked(files.map_arrays(file), partial(files.damaged, file))
    return found


def batches_of(journal: Journal, held: Held) -> Iterator[tuple[RunFile, dict[str, Incoming]]]:
    """The batches since the checkpoint, oldest first; each fits the rows that those before it leave."""
    for file in journal.runs.log:
        batch = dict(parts_of(journal.files, file, held.engine))
        for name, part in batch.items():
            rows = held.engine.tables[name].rows
            why = unfit(part, rows.alive[: rows.size], held.keys[name])
            if why is not None:
                raise journal.files.damaged(file, why)
        yield file, batch


def write_line(
    journal: Journal,
    held: Held,
    incoming: Mapping[str, Incoming],
    line: Mapping[str, Any],
    cores: Callable[[], Mapping[str, Arrays]],
    facts: Mapping[str, Any],
) -> None:
    """Make a batch durable: one run, or a checkpoint where runs add up. `cores` gives the arrays when asked."""
    lines = pa.Table.from_pylist([dict(line)], schema=HISTORY.schema)
    if journal.runs.due(size_of(incoming), sum(held.counts().values())):
        write_all(journal, held, cores(), lines, facts)
    else:
        journal.commit(journal.write_batch(tables_of(incoming), size_of(incoming), lines, facts))


def write_all(
    journal: Journal, held: Held, cores: Mapping[str, Arrays], lines: pa.Table, facts: Mapping[str, Any]
) -> None:
    """Write a checkpoint. Complexity: O(table and kept evidence)."""
    files, version = journal.files, journal.version + 1
    base = write_checkpoint(files, version, held.engine)
    arrays = {f"{_CORE}{name}": files.write_arrays("core", version, parts) for name, parts in cores.items()}
    journal.commit(journal.write_checkpoint({**base, **arrays}, lines, facts))
