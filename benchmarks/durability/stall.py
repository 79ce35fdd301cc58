"""`stall`: how long a caller waits at most, in 1,000 batches on a large table, while checkpoints are written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from durability.part import ByTree, Goal, Part, Place, Record, beside
from jobs import Job
from measure import children_cpu_ms, median, peak_rss_mb, quantile, timed
from scenarios.setting import Table
from workloads.changing import ChangingTable

ROWS, BATCHES, QUICK_ROWS, QUICK_BATCHES = 1_000_000, 1_000, 20_000, 100
SIZES = (1_000, 1)
WARM = 10
"""Batches before the clock runs: kernels are loaded in the first of them."""

RULES = {
    "key": "key(area_code, phone)",
    "fd": "zip -> city",
    "order": "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)",
    "row": "not(t.salary > 190000)",
}
"""A key, an FD, two order terms and a rule of one row."""
COLUMNS = ("id", "area_code", "phone", "city", "state", "zip", "salary", "rate")


def measure(place: Place) -> list[Record]:
    """One process for each size of batch."""
    rows, batches = (QUICK_ROWS, QUICK_BATCHES) if place.quick else (ROWS, BATCHES)
    records = []
    for size in SIZES:
        asked = {"folder": str(place.folder / f"stall-{size}"), "rows": rows, "size": size, "batches": batches}
        answer = place.run("stall", f"batches of {size}", **asked)
        told = {"failure": answer.failure} if answer.failure else answer.figures
        records.append({"rows": rows, "size": size, **told})
    return records


def work(job: Job) -> dict[str, Any]:
    """In the worker: apply all batches, then hold the counts against those of the rows from scratch."""
    import holdstrue

    asked = job.options
    count, size = asked["batches"], asked["size"]
    folder = Path(asked["folder"])
    table = ChangingTable(asked["rows"], COLUMNS, changes=(count + WARM) * size)
    batches = [table.batch(size) for _ in range(count + WARM)]
    monitor, created = timed(lambda: holdstrue.Monitor.create(folder, rule_list(), key="id", data=table.base))
    for batch in batches[:WARM]:
        monitor.apply(batch)
    first = checkpoints(folder)
    found, spans, answers = set(first), [], []
    children = children_cpu_ms()

    def apply_all() -> None:
        for batch in batches[WARM:]:
            delta, span = timed(lambda batch=batch: monitor.apply(batch))  # type: ignore[misc]
            spans.append(span)
            answers.append([(step.added, step.removed) for step in delta.counts.values()])
            found.update(checkpoints(folder))

    _, whole = timed(apply_all)
    counts = open_counts(monitor)
    _, closing = timed(monitor.close)
    wall = [span.wall_ms for span in spans]
    with holdstrue.Monitor.open(folder, read_only=True) as again:
        reopened = open_counts(again)
    return {
        "answer": hashlib.sha256(json.dumps([answers, counts]).encode()).hexdigest()[:16],
        "agrees": counts == reopened == open_counts(holdstrue.Monitor(rule_list(), key="id", data=table.left())),
        "open": counts,
        "wall_ms": median(wall),
        "wall_p99_ms": quantile(wall, 0.99),
        "wall_max_ms": round(max(wall), 3),
        "longest_ms": [round(ms, 1) for ms in sorted(wall, reverse=True)[:10]],
        "longest_by_median": max(wall) / median(wall),
        "cpu_ms": median([span.cpu_ms for span in spans]),
        # a caller also waits where the disk is busy with others: what is computed meanwhile tells the two apart
        "cpu_max_ms": round(max(span.cpu_ms for span in spans), 3),
        "checkpoints": len(found - first),
        "whole_s": round(whole.wall_ms / 1e3, 2),
        "cpu_s": round((whole.cpu_ms + closing.cpu_ms) / 1e3, 2),
        "children_cpu_s": round((children_cpu_ms() - children) / 1e3, 2),
        "create_s": round(created.wall_ms / 1e3, 2),
        "close_ms": round(closing.wall_ms, 1),
        "peak_rss_mb": peak_rss_mb(),
    }


def rule_list() -> list[dict[str, str]]:
    """The rules as `Monitor` takes them."""
    return [{"name": name, "rule": rule} for name, rule in RULES.items()]


def open_counts(monitor: Any) -> dict[str, int]:
    """The violations there are, by rule."""
    return {name: counts.open for name, counts in monitor.counts().items()}


def checkpoints(folder: Path) -> set[str]:
    """The checkpoints that are there now; each has one file of arrays."""
    return {path.name for path in (folder / "runs").glob("arrays-*")}


def tables(by_tree: ByTree) -> list[Table]:
    """How long batches took, and what all of them cost."""
    keys = {"size": "rows a batch"}
    times = {"wall_ms": "wall ms median", "wall_p99_ms": "p99", "wall_max_ms": "longest"}
    costs: Mapping[str, str] = {
        "longest_by_median": "longest / median",
        "cpu_ms": "CPU ms median",
        "cpu_max_ms": "most",
        "checkpoints": "checkpoints",
        "whole_s": "all, wall s",
        "cpu_s": "CPU s",
        "children_cpu_s": "of children",
        "close_ms": "close ms",
        "peak_rss_mb": "peak MB",
    }
    rows = next((record["rows"] for records in by_tree.values() for record in records), 0)
    return [beside(f"batches on {rows:,} rows, four rules", by_tree, keys, {**times, **costs})]


def goals(records: Sequence[Record]) -> list[Goal]:
    """The longest batch in medians."""
    found = []
    for record in records:
        if "failure" not in record:
            what = f"batches of {record['size']:,}: "
            found.append(Goal(f"{what}longest / median", record["longest_by_median"], "at most 10"))
            if "cpu_max_ms" in record:
                found.append(Goal(f"{what}most / median CPU", record["cpu_max_ms"] / record["cpu_ms"]))
            found.append(Goal(f"{what}median ms", record["wall_ms"]))
            found.append(Goal(f"{what}CPU s of all, with children", record["cpu_s"] + record["children_cpu_s"]))
    return found


PART = Part("stall", measure, tables, goals)
