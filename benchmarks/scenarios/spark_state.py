"""States on Spark: loading beside a Parquet write of the same columns, and batches of a thousand on tables of any size.

CPU seconds are those of Java and of Python's workers together. A load is measured twice: of Parquet files, which
workers read themselves, and of a query, whose rows Spark hands over. Loads and the write take turns, and medians are
told; the first turns warm Java up, which compiles for a second at each new plan. Memory is the most that one Python
worker held beyond what it shares with its daemon (Pss), bytes shuffled are what Spark counts, bytes written what the
state takes.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from measure import median
from rules import RULES
from scenarios.setting import Outcome, Setting, Table, make
from scenarios.spark_sql import clocked

TASKS = 2
PART = 1_000_000
"""Rows that are made and written at a time, so that this process holds few."""
SETS = (("phi7",), ("phi8",), ("phi10",), ("phi7", "phi8", "phi9", "phi10"))
APPLIED = 7
TURNS = ((2_000_000, 2, 3), (2**63, 1, 1))
"""Up to so many rows, turns that warm up and turns that count."""


@dataclass
class Work:
    """The session, the files and what was found."""

    spark: Any
    setting: Setting
    outcome: Outcome


def run(setting: Setting) -> Outcome:
    """Every set of rules at every size; `--rules` says which sets."""
    import holdstrue.spark

    spark = holdstrue.spark.start(f"local[{TASKS}]")
    work = Work(spark, setting, Outcome())
    for rows in setting.sizes:
        path = stored(setting.folder, rows)
        loads = Table(f"loading {rows:,} rows", LOAD_HEAD)
        batches = Table(f"batches on {rows:,} rows: an empty one, and 1,000 rows in one task", BATCH_HEAD)
        work.outcome.tables += [loads, batches]
        for names in SETS:
            if set(names) <= set(setting.rules.split(",")) or ("phi7-10" in setting.rules and len(names) == 4):
                measured(work, path, rows, names, loads, batches)
    spark.stop()
    return work.outcome


LOAD_HEAD = (
    "rules", "CPU s", "write CPU s", "state / write", "of a query CPU s", "of a query / write", "wall s",
    "write wall s", "state / write, wall", "worker MB", "shuffled MB", "state bytes a row",
)  # fmt: skip
BATCH_HEAD = (
    "rules", "empty s", "1000 s", "1000 / empty", "empty CPU s", "1000 CPU s", "worker MB", "shuffled kB", "written kB",
)  # fmt: skip


def stored(folder: Path, rows: int) -> str:
    """The Tax table as Parquet files of a million rows."""
    place = folder / f"tax-{rows}"
    place.mkdir(exist_ok=True)
    for start in range(0, rows, PART):
        part = place / f"part-{start:012d}.parquet"
        if not part.exists():
            pq.write_table(make("tax", min(PART, rows - start), start, 0.0), part, row_group_size=125_000)
    return str(place)


def measured(work: Work, path: str, rows: int, names: tuple[str, ...], loads: Table, batches: Table) -> None:
    """A line of both tables."""
    import holdstrue.spark

    columns = ["id", *dict.fromkeys(column for name in names for column in RULES[name].columns)]
    base = work.spark.read.parquet(path).select(*columns)
    place, written = work.setting.folder / "state", str(work.setting.folder / "written")
    write = partial(base.write.mode("overwrite").parquet, written)
    create = partial(holdstrue.spark.Monitor, work.spark, place, [RULES[name].text for name in names], key="id")
    turns = []
    warm, counted = next((warm, counted) for most, warm, counted in TURNS if rows <= most)
    for _ in range(warm + counted):
        shutil.rmtree(place, ignore_errors=True)
        handed = clocked(partial(create, data=base.filter("id >= 0")))[1]
        shutil.rmtree(place)
        with watched(work.spark) as load:
            monitor, ours = clocked(partial(create, data=base))
        turns.append((ours, clocked(write)[1], handed))
    (cpu, wall), (write_cpu, write_wall), (query_cpu, _) = (
        (median([turn[at][0] for turn in turns[warm:]]), median([turn[at][1] for turn in turns[warm:]]))
        for at in range(3)
    )
    size = on_disk(place) / rows
    loads.rows.append((" ".join(names), cpu, write_cpu, cpu / write_cpu, query_cpu, query_cpu / write_cpu, wall,
                       write_wall, wall / write_wall, load.peak_mb, load.shuffled / 1e6, size))  # fmt: skip
    print(" | ".join(map(str, loads.rows[-1])), flush=True)
    part = work.setting.folder / f"new-{rows}.parquet"
    pq.write_table(make("tax", 1000, rows, 0.0), part)
    new = work.spark.read.parquet(str(part)).select(*columns)
    before = on_disk(place)
    with watched(work.spark) as some:
        empty = timed(partial(insert, monitor, new.filter("id < 0")))
        full = timed(partial(insert, monitor, new), partial(undo, monitor, new))
    line = (median([w for _, w in empty]), median([w for _, w in full]))
    batches.rows.append((" ".join(names), *line, line[1] / line[0], median([c for c, _ in empty]),
                         median([c for c, _ in full]), some.peak_mb, some.shuffled / 1e3 / (3 * APPLIED + 3),
                         (on_disk(place) - before) / 1e3 / (3 * APPLIED + 3)))  # fmt: skip
    print(" | ".join(map(str, batches.rows[-1])), flush=True)
    work.outcome.records.append({"rules": names, "rows": rows, "load": turns[warm:], "peak_mb": load.peak_mb,
                                 "shuffled": load.shuffled, "bytes_a_row": size, "empty": empty, "full": full,
                                 "batch_peak_mb": some.peak_mb, "batch_shuffled": some.shuffled})  # fmt: skip
    shutil.rmtree(place)


def insert(monitor: Any, frame: Any) -> None:
    """New rows."""
    monitor.apply(frame, limit=1000, feed="append", one_task=True)


def undo(monitor: Any, frame: Any) -> None:
    """The same rows out again."""
    monitor.apply(frame.selectExpr("id", "'delete' as op"), limit=0, feed="ops", op_column="op", one_task=True)


def timed(action: Callable[[], Any], after: Callable[[], Any] | None = None) -> list[tuple[float, float]]:
    """CPU and wall seconds of each run after the first."""
    times = []
    for _ in range(APPLIED + 1):
        times.append(clocked(action)[1])
        if after is not None:
            after()
    return times[1:]


def on_disk(place: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


@dataclass
class Watched:
    """What was seen while a block ran."""

    peak_mb: int = 0
    shuffled: int = 0


@contextmanager
def watched(spark: Any) -> Iterator[Watched]:
    """Watch the workers' memory, and what Spark shuffles."""
    seen, over = Watched(), threading.Event()
    before = _shuffled(spark)

    def watch() -> None:
        while not over.wait(0.1):
            seen.peak_mb = max(seen.peak_mb, _largest_worker() >> 20)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
        time.sleep(0.3)  # what Spark counts is told to it a moment later
        seen.shuffled = _shuffled(spark) - before


def _shuffled(spark: Any) -> int:
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return sum(int(executors.apply(i).totalShuffleWrite()) for i in range(executors.size()))


def _largest_worker() -> int:
    """Bytes that the largest Python worker below this process holds by itself."""
    parents, workers = {}, []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[entry.name] = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
                if b"holdstrue.spark.daemon\0pyspark.worker" in (entry / "cmdline").read_bytes():
                    workers.append(entry)
            except OSError:  # it ended meanwhile
                continue
    most = 0
    for entry in workers:
        above = entry.name
        while above not in (str(os.getpid()), "0", "1"):
            above = parents.get(above, "0")
        if above == str(os.getpid()):
            try:
                lines = (entry / "smaps_rollup").read_text().splitlines()
            except OSError:
                continue
            own = {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines[1:] if "kB" in line}
            most = max(most, own["Private_Clean"] + own["Private_Dirty"])
    return most
