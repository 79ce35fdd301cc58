"""`long`: tens of thousands of batches with ids on one state, 20 rules, a small table: does anything grow?

One process keeps the monitor open throughout. At every window's end a fresh process opens the state beside it, and at
some of them another opens a copy of it, applies two batches with ids and gives one again that was seen.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from durability.part import ByTree, Goal, Part, Place, Record, beside
from durability.stall import open_counts
from jobs import Job, run_job
from measure import children_cpu_ms, median, peak_rss_mb, quantile, rss_mb, timed
from scenarios.setting import Table
from workloads.changing import ChangingTable

ROWS, SIZE = 2_000, 2
WINDOWS = (*(2_000,) * 10, *(10_000,) * 3)
"""Batches of each window: 20,000 in small ones, then on to a history of 50,000."""
QUICK_WINDOWS = (100, 100)
COPIED = (2_000, 10_000, 20_000, 50_000)
"""After so many batches a copy is made. Always after the last window, too."""
COLUMNS = (
    *("id", "f_name", "l_name", "gender", "area_code", "phone", "city", "state", "zip", "marital_status"),
    *("has_child", "salary", "rate", "single_exemp", "married_exemp", "child_exemp"),
)
RULES = (
    "key(area_code, phone)",
    "zip -> city",
    "zip -> state",
    "state, has_child -> child_exemp",
    "state, marital_status -> single_exemp",
    "state, marital_status -> married_exemp",
    "state, salary -> rate",
    "area_code, phone -> f_name",
    "area_code, phone -> l_name",
    "area_code, phone -> zip",
    "f_name, l_name, zip -> gender",
    "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)",
    "not(t.salary < 5000)",
    "not(t.rate < 0)",
    "not(t.rate > 100)",
    "not(t.marital_status = 'S' and t.married_exemp > 0)",
    "not(t.marital_status = 'M' and t.single_exemp > 0)",
    "not(t.has_child = 'N' and t.child_exemp > 0)",
    "not(t.single_exemp < 0)",
    "not(t.child_exemp < 0)",
)


def measure(place: Place) -> list[Record]:
    """One process that keeps the monitor."""
    windows = QUICK_WINDOWS if place.quick else WINDOWS
    asked = {"folder": str(place.folder / "long"), "windows": windows, "timeout": place.timeout}
    answer = place.run("long", f"{sum(windows):,} batches", **asked)
    if answer.failure:
        return [{"batches": sum(windows), "failure": answer.failure}]
    records: list[Record] = answer.figures["windows"]
    return records


def work(job: Job) -> dict[str, Any]:
    """In the worker: window after window, and what there is after each."""
    import holdstrue

    folder, windows = Path(job.options["folder"]), job.options["windows"]
    total = sum(windows)
    table = ChangingTable(ROWS, COLUMNS, changes=total * SIZE, noise=0.01)
    monitor = holdstrue.Monitor.create(folder, list(RULES), key="id", data=table.base)
    records, done = [], 0
    for window in windows:
        spans, children = [], children_cpu_ms()
        for number in range(done, done + window):
            batch = table.batch(SIZE)
            _, span = timed(lambda batch=batch, name=f"batch {number}": monitor.apply(batch, name))  # type: ignore[misc]
            spans.append(span)
        done += window
        cpu = sum(span.cpu_ms for span in spans) + children_cpu_ms() - children
        files = [path.stat().st_size for path in list(folder.rglob("*")) if path.is_file()]
        record = {
            "batches": done,
            "rows": sum(monitor.rows.values()),
            "batch_ms": median([span.wall_ms for span in spans]),
            "mean_ms": round(sum(span.wall_ms for span in spans) / window, 3),
            "longest_ms": round(max(span.wall_ms for span in spans), 1),
            "p99_ms": quantile([span.wall_ms for span in spans], 0.99),
            "cpu_ms": round(cpu / window, 3),
            "rss_mb": rss_mb(),
            "files": len(files),
            "bytes": sum(files),
            **_opened(folder, job.options["timeout"]),
        }
        if done in COPIED or done == total:
            record |= _continued(folder, done, job.options["timeout"])
        records.append(record)
    from_scratch = holdstrue.Monitor(list(RULES), key="id", data=table.left())
    records[-1]["agrees"] = open_counts(monitor) == open_counts(from_scratch) and monitor.batches == total + 1
    records[-1]["answer"] = open_counts(monitor)
    monitor.close()
    return {"windows": records}


def _opened(folder: Path, timeout: float) -> Record:
    """Opening the state as a reader beside the writer, three times."""
    asked = {"folder": str(folder), "read_only": True}
    answers = [run_job(Job("open", "", (), "", options=asked), timeout) for _ in range(3)]
    failures = [answer.failure for answer in answers if answer.failure]
    if failures:
        raise RuntimeError(failures[0])
    return {
        "open_ms": round(min(answer.figures["wall_ms"] for answer in answers), 3),
        "open_cpu_ms": round(min(answer.figures["cpu_ms"] for answer in answers), 3),
        "open_peak_mb": answers[-1].figures["peak_rss_mb"],
    }


def _continued(folder: Path, done: int, timeout: float) -> Record:
    """A copy of the state that a fresh process goes on with."""
    copy = folder.with_name(f"{folder.name}-{done}")
    _copy(folder, copy)
    answer = run_job(Job("long_continued", "", (), "", options={"folder": str(copy)}), timeout)
    shutil.rmtree(copy)
    if answer.failure:
        raise RuntimeError(answer.failure)
    return answer.figures


def _copy(folder: Path, copy: Path) -> None:
    """Copy a state between two batches; a checkpoint written beside the work may remove files meanwhile."""
    for _ in range(20):
        try:
            shutil.copytree(folder, copy)
        except shutil.Error:
            shutil.rmtree(copy)
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"{folder.name} changed while it was copied, 20 times")


def continued(job: Job) -> dict[str, Any]:
    """In the worker: two batches with new ids, and one whose id was seen."""
    import holdstrue

    monitor = holdstrue.Monitor.open(job.options["folder"])
    rows = ChangingTable(3, COLUMNS, changes=0).base
    times = []
    for at, name in enumerate(("new 1", "new 2", "batch 7")):
        change = rows.slice(at, 1).set_column(0, "id", [[10**9 + at]])
        delta, span = timed(lambda change=change, name=name: monitor.apply(change, name))  # type: ignore[misc]
        if delta.duplicate != (at == 2):
            raise RuntimeError(f"batch {name!r} should {'' if at == 2 else 'not '}have been seen")
        times.append(round(span.wall_ms, 3))
    monitor.close()
    names = ("first_with_id_ms", "next_with_id_ms", "seen_id_ms")
    return {**dict(zip(names, times, strict=True)), "with_id_peak_mb": peak_rss_mb()}


def tables(by_tree: ByTree) -> list[Table]:
    """What there is after each window."""
    kept = {
        "batch_ms": "ms a batch, median",
        "mean_ms": "mean",
        "p99_ms": "p99",
        "longest_ms": "longest",
        "cpu_ms": "CPU mean, with children",
        "rss_mb": "RSS MB",
        "files": "files",
        "bytes": "bytes",
        "open_ms": "open ms",
        "open_cpu_ms": "CPU",
        "open_peak_mb": "peak MB",
    }
    fresh = {
        "first_with_id_ms": "first batch with an id ms",
        "next_with_id_ms": "the next",
        "seen_id_ms": "one seen before",
        "with_id_peak_mb": "peak MB",
    }
    keys = {"batches": "batches so far"}
    copied = {tree: [record for record in records if "first_with_id_ms" in record] for tree, records in by_tree.items()}
    return [
        beside("one monitor, 20 rules, two rows a batch, each with an id; medians of windows", by_tree, keys, kept),
        beside("a fresh process that goes on with the state", copied, keys, fresh),
    ]


def goals(records: Sequence[Record]) -> list[Goal]:
    """The window that ends at 20,000 batches (or the last) in terms of the first."""
    if any("failure" in record for record in records):
        return []
    first = records[0]
    last = next((record for record in records if record["batches"] == 20_000), records[-1])
    names = {"mean_ms": "mean ms a batch", "cpu_ms": "CPU ms a batch", "rss_mb": "RSS", "files": "files"}
    names |= {"bytes": "bytes", "open_ms": "ms to open", "open_cpu_ms": "CPU ms to open"}
    found = [
        Goal(f"{name}, window to {last['batches']:,} / first", last[key] / first[key], "flat")
        for key, name in names.items()
    ]
    found.append(Goal("CPU ms a batch, first window", first["cpu_ms"]))
    for record in records:
        if "first_with_id_ms" in record:
            what = f"first batch with an id in a fresh process, after {record['batches']:,}: ms"
            found.append(Goal(what, record["first_with_id_ms"], "flat"))
    return found


PART = Part("long", measure, tables, goals)
