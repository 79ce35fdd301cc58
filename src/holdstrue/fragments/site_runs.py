"""What the files of a site hold, read and written: checkpoints of what it holds, and batches since."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from holdstrue.fragments.batch_record import BatchRecord
from holdstrue.fragments.indexed_rows import IndexedRows
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.index.checked import Checked
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import BATCHES
from holdstrue.state.manifest import RunFile
from holdstrue.state.runs import Runs


def restored(files: StateFiles, runs: Runs, indexed: IndexedRows, last_batch: str | None = None) -> BatchRecord | None:
    """Bring what is held to what runs hold; returns the last batch. Complexity: O(rows since the checkpoint).

    Parameters
    ----------
    last_batch
        The name of the last batch, where that is all that must be known of one that lies before the checkpoint: a first
        load is as large as the state.
    """
    last: BatchRecord | None = None
    if runs.base:
        arrays, values, kept = (runs.base.get(name) for name in ("arrays", "values", "last"))
        if arrays is None or values is None or kept is None:
            raise files.damaged(next(iter(runs.base.values())), "it comes without files of the same checkpoint")
        checked = Checked(files.map_arrays(arrays), partial(files.damaged, arrays))
        indexed.restore(checked, files.map_table(values, indexed.spec.schema))
        files.verified()
        last = record_of(files, kept, indexed.spec) if last_batch is None else BatchRecord.named(last_batch)
    for file in runs.log:
        last = replayed(files, file, indexed)
    return None if last is None else last.answer()


def replayed(files: StateFiles, file: RunFile, indexed: IndexedRows) -> BatchRecord:
    """Take in a batch that is written down. Complexity: O(its rows)."""
    record = record_of(files, file, indexed.spec)
    try:
        record.replay(indexed)
    except ValueError as error:
        raise files.damaged(file, str(error)) from error
    return record


def record_of(files: StateFiles, file: RunFile, spec: SiteSpec) -> BatchRecord:
    """A batch that is written down."""
    tables = files.read_tables(file)[1:]
    try:
        return BatchRecord.read(tables, spec)
    except ValueError as error:
        raise files.damaged(file, str(error)) from error


def write_record(files: StateFiles, version: int, record: BatchRecord) -> RunFile:
    """Write down a batch for a version that is not made yet."""
    line = pa.table({"batch": [record.batch]}, schema=BATCHES.schema)
    return files.write_tables("batch", version, [line, *record.tables()])


def write_rows(files: StateFiles, version: int, indexed: IndexedRows) -> dict[str, RunFile]:
    """Write down all that a site holds, for a checkpoint. Complexity: O(rows)."""
    return {
        "arrays": files.write_arrays("arrays", version, indexed.snapshot()),
        "values": files.write_tables("values", version, [indexed.rows.values().combine_chunks()]),
    }
