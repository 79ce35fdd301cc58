"""One process, one competitor: reads a job as JSON from standard input, writes the figures as JSON."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import pyarrow as pa

from competitors import denials, dependencies, inclusions
from durability import long_run, opening, stall, threads
from jobs import Job
from measure import median, peak_rss_mb, rss_mb, timed
from rules import RULES


def main() -> None:
    """Run the job."""
    given = json.load(sys.stdin)
    job = Job(**{**given, "rules": tuple(given["rules"]), "batches": tuple(given["batches"])})
    tasks = {
        "changes": changes,
        "scratch": scratch,
        "memory": memory,
        "hotspots": ranked,
        "inclusions": inclusions.scratch,
        "inclusion_changes": inclusions.changes,
        "fragments": split,
        "dependencies": dependencies.scratch,
        "dependency_changes": dependencies.changes,
        "denials": denials.scratch,
        "denial_changes": denials.changes,
        "pair_rate": denials.pair_rate,
        "stall": stall.work,
        "open_build": opening.build,
        "open": opening.opened,
        "long": long_run.work,
        "long_continued": long_run.continued,
        "threads": threads.work,
    }
    print(json.dumps(tasks[job.task](job)))


def read(path: str) -> pa.Table:
    """An Arrow file, read into memory of this process."""
    with pa.OSFile(path) as source:
        return pa.ipc.open_file(source).read_all()


def read_batches(path: str) -> list[pa.Table]:
    """The record batches of a file, each a table as a caller would have it."""
    with pa.OSFile(path) as source:
        reader = pa.ipc.open_file(source)
        return [pa.Table.from_batches([reader.get_batch(i)]) for i in range(reader.num_record_batches)]


def changes(job: Job) -> dict[str, Any]:
    """Load the base, apply batch after batch; the first `warm` of the first file are not timed."""
    from competitors.protocol import competitor

    rules = tuple(RULES[name] for name in job.rules)
    peer = competitor(job.competitor, rules, job.limit)
    _, load = timed(lambda: peer.load(read(job.base)))
    series: list[dict[str, Any]] = []
    for number, path in enumerate(job.batches):
        batches = read_batches(path)
        deletes = "op" in batches[0].column_names
        spans, counts = [], []
        for batch in batches:
            found, span = timed(partial(peer.delete if deletes else peer.insert, batch))
            counts.append(found)
            spans.append(span)
        skip = job.warm if number == 0 else 0
        series.append(
            {
                "rows": batches[0].num_rows,
                "kind": "delete" if deletes else "insert",
                "cpu_ms": [span.cpu_ms for span in spans[skip:]],
                "wall_ms": [span.wall_ms for span in spans[skip:]],
                "counts": counts,
            }
        )
    figures: dict[str, Any] = {"load_cpu_ms": load.cpu_ms, "series": series, "peak_rss_mb": peak_rss_mb()}
    if hasattr(peer, "totals"):
        figures["totals"] = peer.totals()
    return figures


def scratch(job: Job) -> dict[str, Any]:
    """Check a whole table several times; the first time is not counted (compiling, caches)."""
    from competitors.whole_table import whole_table

    table = read(job.base)
    run = whole_table(job.competitor, RULES[job.rules[0]], table, job.limit)
    spans = []
    answer: dict[str, int] = {}
    for _ in range(job.options.get("repeats", 3) + job.warm):
        answer, span = timed(run)
        spans.append(span)
    kept = spans[job.warm :]
    return {
        "answer": answer,
        "cpu_ms": [span.cpu_ms for span in kept],
        "wall_ms": [span.wall_ms for span in kept],
        "peak_rss_mb": peak_rss_mb(),
    }


def memory(job: Job) -> dict[str, Any]:
    """Bytes a row of every part of a monitor after loading the base and some batches."""
    from competitors.monitors import Blocks

    peer = Blocks(tuple(RULES[name] for name in job.rules), job.limit)
    peer.load(read(job.base))
    for path in job.batches:
        for batch in read_batches(path):
            peer.insert(batch)
    sizes = peer.monitor.size_bytes()
    rows = sum(peer.monitor.rows.values())
    return {
        "rows": rows,
        "bytes_a_row": {part: round(size / rows, 2) for part, size in sizes.items()},
        "rss_mb": rss_mb(),
        "peak_rss_mb": peak_rss_mb(),
    }


def ranked(job: Job) -> dict[str, Any]:
    """Our functions by their time; the first half of the batches gives the time without the profiler."""
    from competitors.monitors import Blocks
    from hotspots import hotspots

    peer = Blocks(tuple(RULES[name] for name in job.rules), job.limit)
    peer.load(read(job.base))
    batches = read_batches(job.batches[0])
    for batch in batches[: job.warm]:
        peer.insert(batch)
    half = (job.warm + len(batches)) // 2
    spans = [timed(partial(peer.insert, batch))[1] for batch in batches[job.warm : half]]

    def work() -> None:
        for batch in batches[half:]:
            peer.insert(batch)

    spots = hotspots(work, len(batches) - half, job.options.get("top", 15))
    return {"plain_us": round(median([span.cpu_ms for span in spans]) * 1e3), "spots": spots}


def split(job: Job) -> dict[str, Any]:
    """A relation over sites, by one of its algorithms."""
    from competitors import split_relation

    works = {
        "plan": split_relation.planned,
        "central": split_relation.central,
        "random plans": split_relation.random_workloads,
        "write": split_relation.written,
        "load": split_relation.loaded,
    }
    return works.get(job.options["way"], split_relation.measured)(job.options)


if __name__ == "__main__":
    main()
