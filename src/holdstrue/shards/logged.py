"""Batches as the runs of a log: how they are written, read back, and replayed as one.

A run holds, for each table of a batch, the rows that came and which slots they replace or remove. Opening a state
composes all runs since its checkpoint into one batch: what came and went again in between takes its slot, so that later
runs find theirs, and is seen by no detector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import arrow_of, numbers
from holdstrue.data.validity import same_columns
from holdstrue.detect.engine import Engine, Incoming
from holdstrue.detect.resolve import unfit
from holdstrue.errors import DataError, StateError
from holdstrue.index.checked import Checked
from holdstrue.index.rows import Rows
from holdstrue.shards.facts import Keys
from holdstrue.state.few_rows import FewRows, RowForm
from holdstrue.state.files import Joint, LogTable, StateFiles, as_table
from holdstrue.state.manifest import RunFile
from holdstrue.state.runs import MOVED, Runs
from holdstrue.typing import I32, U8

MERGE_FROM = 8
"""Runs of a shard from which on small ones are merged: manifests stay short, and a batch seldom writes old rows."""
MERGED_ANYWAY = 16_384
"""Bytes up to which a run is always worth merging: a run of few rows is mostly its schema."""

FEW_SLOTS = 64
"""Slots that are written as text beside the rows: a table of its own takes 20 us and 400 bytes."""

_NO_ROWS = np.empty(0, dtype=np.int32)


def write_run(files: StateFiles, joint: Joint, runs: Runs, incoming: Mapping[str, Incoming]) -> Runs:
    """Write a batch as one run of a joint file, older small runs merged into it. Complexity: O(batch) amortised.

    A run is merged when the younger ones hold half as much, so that there are few, and each
    row is written again a few times at most.
    """
    kept, merged = len(runs.log), [as_table(table) for table in tables_of(incoming)]
    size = sum(table.nbytes for table in merged)
    while len(runs.log) >= MERGE_FROM and kept and runs.log[kept - 1].size <= 2 * size + MERGED_ANYWAY:
        kept -= 1
        size += runs.log[kept].size
    older = [table for file in runs.log[kept:] for table in files.read_tables(file)]
    file = joint.add([*older, *merged])
    return Runs(runs.base, (*runs.log[:kept], file), runs.log_rows + size_of(incoming))


def replay(files: StateFiles, runs: Runs, engine: Engine, keys: Keys, since: int = 0) -> None:
    """Apply the logged batches from number `since` on, as one. Complexity: O(their rows), as of one batch."""
    logged: dict[str, list[tuple[RunFile, Incoming]]] = {}
    moved = _moved(files, runs, engine, since)
    for at, file in enumerate(runs.log[since:], since):
        for table, part in parts_of(files, file, engine):
            before = table in moved and (runs.moved is None or at < runs.moved)
            logged.setdefault(table, []).append((file, _renumbered(part, moved[table]) if before else part))
    incoming = {}
    for table, parts in logged.items():
        whole = _composed(parts, engine.tables[table].rows, keys[table], files.damaged)
        incoming[table] = engine.with_keys(table, whole, keys[table])
    try:
        engine.apply(incoming, 0)
    except DataError as error:
        raise files.damaged(runs.log[-1], error.message) from error


def _moved(files: StateFiles, runs: Runs, engine: Engine, since: int) -> dict[str, I32]:
    """By table to which slots the checkpoint moved rows, where runs of the log from `since` on name those of before."""
    file = runs.base.get(MOVED)
    if file is None or since >= min(len(runs.log), len(runs.log) if runs.moved is None else runs.moved):
        return {}
    arrays = Checked(files.map_arrays(file), partial(files.damaged, file))
    found = {}
    for table, held in engine.tables.items():
        found[table] = arrays.array(table, np.int32, (0,), grows=0)
        arrays.within(table, found[table], GONE, held.rows.size - 1)
    return found


GONE = -2
"""In the place of a slot: the row was removed. No batch names such a slot, and -1 means an insert there."""


def moves_of(alive: U8) -> I32:
    """To which slots the living rows move when the others are left out.

    >>> moves_of(np.array([1, 0, 1, 1], dtype=np.uint8)).tolist()
    [0, -2, 1, 2]
    """
    return np.where(alive != 0, np.cumsum(alive != 0) - 1, GONE).astype(np.int32)


def _renumbered(part: Incoming, moved: I32) -> Incoming:
    """A batch that names rows by their slots before these were moved; rows that came since follow those that are left.

    >>> part = Incoming(pa.table({"id": [7]}), np.array([2, 5], np.int32), np.array([5], np.int32))
    >>> part = _renumbered(part, np.array([0, -2, 1, 2], np.int32))
    >>> part.old.tolist(), part.updates.tolist()
    ([1, 4], [4])
    """
    left = np.count_nonzero(moved >= 0)
    old, updates = part.old.copy(), part.updates.copy()
    for slots in (old, updates):
        within, since = (slots >= 0) & (slots < moved.size), slots >= moved.size
        slots[within] = moved[slots[within]]
        slots[since] += left - moved.size
    return replace(part, old=old, updates=updates)


def _composed(
    parts: Sequence[tuple[RunFile, Incoming]],
    rows: Rows,
    key: Sequence[str],
    refuse: Callable[[RunFile, str], StateError],
) -> Incoming:
    """Batches that came one after the other as one batch, each held against the rows that those before it leave.

    Complexity: O(slots), at the speed of memory, and O(rows of the batches).
    """
    known = rows.size
    # by slot whether the row lives, and of those that came which row of before they replace in the end
    alive = np.zeros(known + sum(part.values.num_rows for _, part in parts), dtype=np.uint8)
    alive[:known] = rows.alive[:known]
    replaces = np.empty(alive.size - known, dtype=np.int32)
    old, end = [], known
    for file, part in parts:
        why = unfit(part, alive[:end], key)
        if why is not None:
            raise refuse(file, why)
        alive[part.old] = 0
        old.append(part.old[part.old < known])
        came = slice(end - known, end - known + part.values.num_rows)
        passing = part.updates >= known
        replaces[came] = part.updates
        replaces[came][passing] = replaces[part.updates[passing] - known]
        end += part.values.num_rows
        alive[known:][came] = 1
    if len(parts) == 1:
        return parts[0][1]
    stays = alive[known:].view(np.bool_)
    return Incoming(
        pa.concat_tables([part.values for _, part in parts]).combine_chunks(),
        np.sort(np.concatenate(old)),
        replaces[stays],
        stays=None if stays.all() else stays,
    )


def size_of(incoming: Mapping[str, Incoming]) -> int:
    """How many row versions a batch brings and removes."""
    return sum(part.values.num_rows + part.old.size for part in incoming.values())


def tables_of(incoming: Mapping[str, Incoming]) -> list[LogTable]:
    """A batch as the tables of a run: for each table its rows, named, and the slots, beside them where they are few."""
    tables: list[LogTable] = []
    for name, part in incoming.items():
        about = {"table": name}
        if part.old.size + part.updates.size <= FEW_SLOTS:
            about |= {"old": _as_text(part.old), "updates": _as_text(part.updates)}
            tables.append(part.values.replace_schema_metadata(about))
        else:
            slots = zip((part.old, part.updates), _SLOTS, strict=True)
            tables.append(part.values.replace_schema_metadata(about))
            tables += [pa.Table.from_arrays([arrow_of(own)], schema=schema) for own, schema in slots]
    return tables


def row_of(form: RowForm, table: str, values: Sequence[Any], old: int, new: int) -> list[LogTable]:
    """One row as the table of a run, as `tables_of` has it; -1 where there is no version before or after.

    >>> form = RowForm(pa.schema({"id": pa.int64()}))
    >>> row_of(form, "people", [7], 3, 9)
    [FewRows(rows=[[7]], about={'table': 'people', 'old': '3', 'updates': '3'})]
    """
    about = {"table": table, "old": str(old) if old >= 0 else "", "updates": str(old) if new >= 0 else ""}
    return [FewRows(form, [values] if new >= 0 else [], about)]


def _as_text(slots: I32) -> str:
    return " ".join(map(str, slots.tolist()))


_SLOTS = tuple(pa.schema({name: pa.int32()}) for name in ("old", "updates"))


def parts_of(files: StateFiles, file: RunFile, engine: Engine) -> Iterator[tuple[str, Incoming]]:
    """The parts of a batch, table by table, for an engine of these tables (see `parts_in`)."""
    for name, part in parts_in(files, file):
        if name not in engine.tables or not same_columns(part.values.schema, engine.tables[name].rows.schema):
            raise files.damaged(file, "it holds rows of another table")
        yield name, part


def parts_in(files: StateFiles, file: RunFile) -> Iterator[tuple[str, Incoming]]:
    """The parts of a batch, table by table; of several batches one after the other, where runs were merged."""
    tables = iter(files.read_tables(file))
    for at, values in enumerate(tables):
        about = values.schema.metadata or {}
        if at == 0 and b"table" not in about:
            continue  # the lines of history come first, where the run is a batch of its own
        try:
            if b"old" in about:
                old, updates = (_of_text(about[name]) for name in (b"old", b"updates"))
            else:
                old, updates = [_of_table(next(tables), wanted) for wanted in _SLOTS]
        except (ValueError, KeyError, OverflowError, StopIteration) as error:
            raise files.damaged(file, "it does not say which rows it replaces") from error
        yield (
            about.get(b"table", b"").decode(errors="replace"),
            Incoming(values.replace_schema_metadata(None), old, updates),
        )


def _of_text(text: bytes) -> I32:
    return np.array([int(slot) for slot in text.split()], dtype=np.int32)


def _of_table(table: pa.Table, wanted: pa.Schema) -> I32:
    if not same_columns(table.schema, wanted) or table.column(0).null_count:
        raise ValueError(f"no slots of {wanted}")
    return np.concatenate([_NO_ROWS, *(numbers(chunk, np.int32) for chunk in table.column(0).chunks)])
