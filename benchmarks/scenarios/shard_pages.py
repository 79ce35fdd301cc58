"""A commit to a state of many shards: with pages of what changed, and with the whole list, as it was written before.

Both say the same of every shard at the end. CPU ms are those of opening the state, as every batch does, and of the
commit; bytes are those of entries and pages, not of the rows.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from holdstrue.state import pages
from holdstrue.state.journal import Journal, manifest_of
from measure import median
from scenarios.setting import Outcome, Setting, Table

TOUCHED = (20, 200, 2000)
BATCHES = 40
HEAD = (
    "shards", "changed", "whole list kB", "pages kB", "list / pages", "whole list CPU ms", "pages CPU ms",
    "list / pages, CPU",
)  # fmt: skip


def run(setting: Setting) -> Outcome:
    """Every number of shards, with batches that change few and many of them."""
    outcome = Outcome()
    table = Table(f"a commit, mean of {BATCHES}", HEAD)
    outcome.tables.append(table)
    for shards in setting.sizes:
        for touched in (touched for touched in TOUCHED if touched <= shards):
            ways = {}
            for name, paged_from in (("list", 2**62), ("pages", pages.PAGED_FROM)):
                ways[name] = _committed(setting.folder / name, shards, touched, paged_from)
            (size, cpu, said), (paged_size, paged_cpu, paged_said) = ways["list"], ways["pages"]
            table.rows.append((f"{shards:,}", f"{touched:,}", size / 1e3, paged_size / 1e3, size / paged_size,
                               1e3 * cpu, 1e3 * paged_cpu, cpu / paged_cpu))  # fmt: skip
            outcome.records.append({"shards": shards, "touched": touched, "bytes": [size, paged_size],
                                    "cpu": [cpu, paged_cpu], "agrees": said == paged_said})  # fmt: skip
    return outcome


def _committed(place: Path, shards: int, touched: int, paged_from: int) -> tuple[float, float, Any]:
    """Mean bytes and the median of CPU seconds of a commit, and what the state says of its shards at the end."""
    shutil.rmtree(place, ignore_errors=True)
    kept, pages.PAGED_FROM = pages.PAGED_FROM, paged_from
    try:
        said = {str(number): _said(number, 0) for number in range(shards)}
        with Journal.create(place, "site") as journal:
            journal.commit(journal.write_batch([], 0, journal.line("first"), {"shards": said}, whole=True))
        chance, before, spent = np.random.default_rng(7), _bytes(place), []
        for batch in range(1, BATCHES + 1):
            changed = chance.choice(shards, touched, replace=False)
            began = time.process_time()
            with Journal.open(place, "site") as journal:
                said = {**journal.facts["shards"], **{str(n): _said(int(n), batch) for n in changed}}
                journal.commit(journal.write_batch([], 0, journal.line(f"batch {batch}"), {"shards": said}, whole=True))
            spent.append(time.process_time() - began)
        return (_bytes(place) - before) / BATCHES, median(spent), manifest_of(place, "site")["shards"]
    finally:
        pages.PAGED_FROM = kept


def _said(number: int, batch: int) -> dict[str, Any]:
    """What is said of a shard: three files of a checkpoint, four runs, rows and counts; a kilobyte."""
    file = {
        "name": f"arrays-{number:012d}-{batch:012x}.arrow",
        "bytes": 1_000_000 + number,
        "checksum": f"{number:016x}",
    }
    return {
        "base": {"arrays": file, "values.0": file, "labels": file},
        "log": [{**file, "start": 8 * at} for at in range(1, 5)],
        "log_rows": batch,
        "rows": {"data": 400_000 + batch},
        "tallies": {"0": [batch, batch, 1], "1": [batch, batch, 1]},
    }


def _bytes(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
