"""`threads`: one-row batches by several threads on one monitor; before issue 13 such a process may crash."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from competitors.one_row import COLUMNS, FD, KEY
from durability.part import ByTree, Goal, Part, Place, Record, beside
from durability.stall import open_counts
from jobs import Job
from measure import children_cpu_ms, median, quantile, timed
from scenarios.setting import Table
from workloads.tax import tax

ROWS, BATCHES, QUICK_ROWS, QUICK_BATCHES = 100_000, 4_000, 2_000, 80
THREADS = (1, 2, 8)
WARM = 20
REPEATS = 3


def measure(place: Place) -> list[Record]:
    """Each number of threads in a process of its own, the numbers in turns; the fastest of each counts."""
    rows, batches = (QUICK_ROWS, QUICK_BATCHES) if place.quick else (ROWS, BATCHES)
    found: dict[int, list[Record]] = {threads: [] for threads in THREADS}
    for repeat in range(1 if place.quick else REPEATS):
        for threads in THREADS:
            asked = {"rows": rows, "batches": batches, "threads": threads}
            folder = str(place.folder / f"threads-{threads}-{repeat}")
            answer = place.run("threads", f"{threads} threads", folder=folder, **asked)
            told = {"failure": answer.failure} if answer.failure else answer.figures
            found[threads].append({"threads": threads, **told})
    return [_best(records) for records in found.values()]


def _best(records: list[Record]) -> Record:
    """The fastest repeat; one that failed counts for all."""
    failed = [record for record in records if "failure" in record]
    return failed[0] if failed else max(records, key=lambda record: record["batches_a_s"])


def work(job: Job) -> dict[str, Any]:
    """In the worker: threads share out the rows, one row a batch; then the counts are held against one batch of all."""
    import holdstrue

    asked = job.options
    rows, batches, threads = asked["rows"], asked["batches"], asked["threads"]
    rules = [KEY, FD]
    monitor = holdstrue.Monitor.create(Path(asked["folder"]), rules, key="id", data=tax(rows).select(COLUMNS))
    more = tax(batches + WARM, start=rows, noise=0.1).select(COLUMNS)
    for at in range(WARM):
        monitor.apply(more.slice(at, 1))
    waits: list[list[float]] = [[] for _ in range(threads)]
    errors: list[BaseException] = []
    start = threading.Barrier(threads + 1)

    def apply_share(share: int) -> None:
        mine = [more.slice(at, 1) for at in range(WARM + share, WARM + batches, threads)]
        start.wait()
        try:
            for batch in mine:
                _, span = timed(lambda batch=batch: monitor.apply(batch))  # type: ignore[misc]
                waits[share].append(span.wall_ms)
        except BaseException as error:  # noqa: BLE001 (raised again when all threads have ended)
            errors.append(error)

    workers = [threading.Thread(target=apply_share, args=(share,)) for share in range(threads)]
    for worker in workers:
        worker.start()
    children = children_cpu_ms()

    def run() -> None:
        start.wait()
        for worker in workers:
            worker.join()

    _, span = timed(run)
    if errors:
        raise errors[0]
    whole = holdstrue.Monitor(rules, key="id", data=tax(rows).select(COLUMNS))
    whole.apply(more)
    agrees = open_counts(monitor) == open_counts(whole) and monitor.batches == 1 + WARM + batches
    answer = open_counts(monitor)
    monitor.close()
    wall = [ms for share in waits for ms in share]
    return {
        "answer": answer,
        "agrees": agrees,
        "batches_a_s": round(batches / span.wall_ms * 1e3, 1),
        "wait_ms": median(wall),
        "wait_p99_ms": quantile(wall, 0.99),
        "cpu_a_batch_ms": round((span.cpu_ms + children_cpu_ms() - children) / batches, 3),
    }


def tables(by_tree: ByTree) -> list[Table]:
    """Throughput and how long a call waits."""
    figures = {
        "batches_a_s": "batches a second",
        "wait_ms": "ms a call, median",
        "wait_p99_ms": "p99",
        "cpu_a_batch_ms": "CPU ms a batch",
    }
    return [beside("one-row batches by threads on one monitor", by_tree, {"threads": "threads"}, figures)]


def goals(records: Sequence[Record]) -> list[Goal]:
    """Throughput by threads."""
    return [
        Goal(f"batches a second, threads: {record['threads']}", record["batches_a_s"])
        for record in records
        if "failure" not in record
    ]


PART = Part("threads", measure, tables, goals)
