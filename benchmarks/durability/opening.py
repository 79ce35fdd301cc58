"""`open`: how long it takes to open a large state, after a checkpoint and with a log, each time in a fresh process."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from durability.part import ByTree, Goal, Part, Place, Record, beside
from durability.stall import COLUMNS, checkpoints, open_counts, rule_list
from jobs import Job
from measure import median, peak_rss_mb, rss_mb, timed
from scenarios.setting import Table
from workloads.changing import ChangingTable

ROWS, QUICK_ROWS = 1_000_000, 20_000
STATES = {
    "after a checkpoint": (0, 0),
    "log of 45 x 1,000 rows": (45, 1_000),
    "log of 250 x 1 row": (250, 1),
}
"""Batches after the checkpoint: just fewer than those that made another necessary when this was written (a
sixteenth of the rows, an update counting twice, or 256 runs)."""
QUICK_STATES = {"after a checkpoint": (0, 0), "log of 6 x 100 rows": (6, 100)}
REPEATS, APPLIED, QUICK_REPEATS, QUICK_APPLIED = 9, 3, 1, 1
"""How many processes open a state, and how many after them also apply a row: so work is seen that opening puts off."""


def measure(place: Place) -> list[Record]:
    """Make the states, then open them in turns; the first time, untimed, fills the page cache."""
    rows, states = (QUICK_ROWS, QUICK_STATES) if place.quick else (ROWS, STATES)
    folder = place.folder / "open"
    built = place.run("open_build", "states", folder=str(folder), rows=rows, states=states)
    if built.failure:
        return [{"state": name, "rows": rows, "failure": built.failure} for name in states]
    repeats, applied = (QUICK_REPEATS, QUICK_APPLIED) if place.quick else (REPEATS, APPLIED)
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in states}
    for turn in range(1 + repeats + applied):
        for at, name in enumerate(states):
            asked = {"folder": str(folder / str(at)), "rows": rows}
            if turn > repeats:
                asked["apply"] = 2 * rows + turn
            answer = place.run("open", name, **asked)
            if answer.failure:
                return [{"state": name, "rows": rows, "failure": answer.failure}]
            seen[name].append(answer.figures)
    return [
        _record(name, rows, seen[name][1 : 1 + repeats], seen[name][1 + repeats :], built.figures[name])
        for name in states
    ]


def _record(name: str, rows: int, opened: list[Record], applied: list[Record], built: dict[str, Any]) -> Record:
    figures = [*opened, *applied]
    return {
        "state": name,
        "rows": rows,
        "answer": built["open"],
        "agrees": all(figure["open"] == built["open"] for figure in opened),
        "checkpoints": built["checkpoints"],
        "bytes": built["bytes"],
        "open_ms": median([figure["wall_ms"] for figure in figures]),
        "least_ms": round(min(figure["wall_ms"] for figure in figures), 3),
        "cpu_ms": median([figure["cpu_ms"] for figure in figures]),
        "least_cpu_ms": round(min(figure["cpu_ms"] for figure in figures), 3),
        "again_ms": median([figure["again_ms"] for figure in opened]),
        "again_cpu_ms": median([figure["again_cpu_ms"] for figure in opened]),
        "first_row_ms": median([figure["apply_ms"] for figure in applied]),
        "peak_rss_mb": median([figure["peak_rss_mb"] for figure in opened]),
        "imported_mb": median([figure["imported_mb"] for figure in opened]),
    }


def build(job: Job) -> dict[str, Any]:
    """In the worker: a state by its rows, and copies of it with batches after the checkpoint."""
    import holdstrue

    folder, rows = Path(job.options["folder"]), job.options["rows"]
    figures = {}
    for at, (name, (count, size)) in enumerate(job.options["states"].items()):
        place = folder / str(at)
        table = ChangingTable(rows, COLUMNS, changes=count * size)
        if at == 0:
            holdstrue.Monitor.create(place, rule_list(), key="id", data=table.base).close()
        else:
            shutil.copytree(folder / "0", place)
        with holdstrue.Monitor.open(place) as monitor:
            for _ in range(count):
                monitor.apply(table.batch(size))
            counts = open_counts(monitor)
        size_bytes = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        figures[name] = {"open": counts, "checkpoints": len(checkpoints(place)), "bytes": size_bytes}
    return figures


def opened(job: Job) -> dict[str, Any]:
    """In the worker: open a state, perhaps apply a row, and open it again, when kernels are there already."""
    from holdstrue import Monitor

    asked = job.options
    imported = rss_mb()
    monitor, span = timed(lambda: Monitor.open(asked["folder"], read_only=asked.get("read_only", False)))
    figures = {"wall_ms": span.wall_ms, "cpu_ms": span.cpu_ms, "open": open_counts(monitor), "imported_mb": imported}
    if "apply" in asked:
        row = ChangingTable(1, COLUMNS, changes=0).base
        change = row.set_column(0, "id", [[asked["apply"]]])
        _, span = timed(lambda: monitor.apply(change))
        figures["apply_ms"] = span.wall_ms
    figures["peak_rss_mb"] = peak_rss_mb()
    monitor.close()
    again, span = timed(lambda: Monitor.open(asked["folder"], read_only=True))
    again.close()
    return {**figures, "again_ms": span.wall_ms, "again_cpu_ms": span.cpu_ms}


def tables(by_tree: ByTree) -> list[Table]:
    """Opening, and the first row after it."""
    figures = {
        "open_ms": "wall ms median",
        "least_ms": "least",
        "cpu_ms": "CPU ms median",
        "least_cpu_ms": "CPU least",
        "again_ms": "again in the process ms",
        "again_cpu_ms": "its CPU",
        "first_row_ms": "first row ms",
        "peak_rss_mb": "peak MB",
        "imported_mb": "of it imported",
        "bytes": "bytes",
    }
    rows = next((record["rows"] for records in by_tree.values() for record in records), 0)
    return [beside(f"opening {rows:,} rows, four rules, fresh processes", by_tree, {"state": "state"}, figures)]


def goals(records: Sequence[Record]) -> list[Goal]:
    """Opening from tree to tree."""
    found = []
    for record in records:
        if "failure" not in record:
            found.append(Goal(f"open {record['state']}: wall ms", record["open_ms"], "at most 1.3 times before"))
            found.append(Goal(f"open {record['state']}: CPU ms", record["cpu_ms"], "at most 1.3 times before"))
    return found


PART = Part("open", measure, tables, goals)
