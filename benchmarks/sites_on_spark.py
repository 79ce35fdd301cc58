"""A relation over ten sites on Spark: a batch of 1,000 changes beside an empty one of the plain monitor.

    python -m benchmarks.sites_on_spark --rows 2000000

Violations are compared with those of one process before a time counts (`--no-compare` where memory is short).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent))

from competitors.split_relation import changes, sites_of
from workloads.joined import cfds, joined

BATCHES = 14
"""The first half finds kernels and rows that workers have not loaded yet."""


def main() -> None:
    """Measure one shape, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--cfds", type=int, default=50)
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--shape", default="vertical")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=None)
    parser.add_argument("--no-compare", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdstrue-sites-") as folder:
        measure(asked, Path(folder))


def measure(asked: Any, folder: Path) -> None:
    """Load, apply batches, and compare with one process."""
    from holdstrue.fragments import Relation
    from holdstrue.spark import Monitor, relation, start

    spark = start("local[2]")
    rows = joined(asked.rows)
    sites = sites_of(asked.shape, asked.sites, rows)
    del rows
    for site in sites:
        pq.write_table(site.source, folder / f"{site.name}.parquet")
    paths = [replace(site, source=str(folder / f"{site.name}.parquet")) for site in sites]
    del sites
    monitor = Monitor(
        spark,
        str(folder / "monitor"),
        ["a -> b"],
        "id",
        data=spark.createDataFrame([(1, 2, 3)], "id long, a long, b long"),
    )
    nothing = spark.createDataFrame([], "id long, a long, b long")
    empty = [_timed(lambda n=n: monitor.apply(nothing, f"e{n}")) for n in range(BATCHES)]
    framed = [replace(s, source=spark.read.parquet(str(s.source)), state=str(folder / "state" / s.name)) for s in paths]
    found = relation(spark, framed, cfds(asked.cfds), "id", parts=asked.parts, tasks=asked.tasks)
    loading = _timed(found.load)
    batches = [_batch(asked, n) for n in range(BATCHES)]
    times = []
    deltas = []
    for n, batch in enumerate(batches):
        times.append(_timed(lambda batch=batch, n=n: deltas.append(found.apply(batch, str(n)))))
    again = [_timed(lambda n=n: monitor.apply(nothing, f"f{n}")) for n in range(BATCHES)]
    counts = found.counts()
    shipped = deltas[-1].traffic
    held = sum(size["bytes"] for size in found.sizes().values())
    print(
        f"{asked.rows:,} rows {asked.shape}, {asked.sites} sites of {found.parts} parts: "
        f"load {loading:.1f} s, indexes {held >> 20} MB"
    )
    print("batches s", " ".join(f"{one:.3f}" for one in times))
    print("empty s", " ".join(f"{one:.3f}" for one in (*empty, *again)))
    best, least = median(times[BATCHES // 2 :]), median(again)
    print(
        f"median batch {best:.3f} s, of the empty batch {least:.3f} s: {best / least:.2f} times; "
        f"{shipped.bytes / asked.changes:.0f} bytes a change, {shipped.messages} messages"
    )
    found.close()
    spark.stop()
    if not asked.no_compare:
        plain = Relation(paths, cfds(asked.cfds), "id")
        plain.load()
        for batch in batches:
            plain.apply(batch)
        assert plain.counts() == counts, "the answers differ"
        print(f"violating rows {sum(counts.values()):,}, as in one process")


def _batch(asked: Any, number: int) -> pa.Table:
    """The changes of one batch: other rows than those of the batches before."""
    rows = changes(asked.rows, asked.changes)
    gone = rows.filter(pa.compute.equal(rows.column("op"), "d")).select(["id", "op"])
    new = joined(asked.changes - gone.num_rows, start=asked.rows + number * asked.changes, scale=asked.rows)
    new = new.append_column("op", pa.array(["i"] * new.num_rows))
    gone = gone.set_column(0, "id", pa.compute.add(gone.column("id"), number % 100))
    return pa.concat_tables([new, gone], promote_options="default")


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    main()
