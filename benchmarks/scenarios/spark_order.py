"""Order rules without equalities on Spark, cut for a cluster: by ranges of values, and on a grid of blocks.

Both count the same pairs. CPU seconds are those of Java and of Python's workers; the two ways take turns in a session.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from measure import median
from scenarios.setting import Outcome, Setting, Table, make
from scenarios.spark_sql import clocked

CORES = 2
CLUSTER = 64
"""Tasks that a check is cut for, as on a cluster of so many cores: they run one after the other here."""
PART = 1_000_000
TURNS = 2
RULES = {
    "two terms": "not(t.salary > s.salary and t.rate < s.rate)",
    "three terms, at random": "not(t.a > s.a and t.b > s.b and t.c > s.c)",
}
HEAD = (
    "rule", "tasks", "pairs", "ranges CPU s", "grid CPU s", "ranges / grid", "ranges wall s", "grid wall s",
)  # fmt: skip


def run(setting: Setting) -> Outcome:
    """Every rule at every size, cut for two tasks and for a cluster."""
    import holdstrue.spark
    from holdstrue.shards.hot import blocks_for

    outcome = Outcome()
    spark = holdstrue.spark.start(f"local[{CORES}]")
    for rows in setting.sizes:
        frame = spark.read.parquet(stored(setting.folder, rows))
        table = Table(f"{rows:,} rows, from scratch", HEAD)
        outcome.tables.append(table)
        for name, rule in RULES.items():
            for tasks in (CORES, CLUSTER):
                check = partial(holdstrue.spark.check, frame, rule, limit=0, tasks=tasks)
                ways = {"ranges": check, "grid": partial(check, blocks=blocks_for(tasks, rows))}
                table.rows.append(beside(outcome, ways, name, rows, tasks))
                print(" | ".join(map(str, table.rows[-1])), flush=True)
    spark.stop()
    return outcome


def beside(outcome: Outcome, ways: dict[str, Any], name: str, rows: int, tasks: int) -> tuple[Any, ...]:
    """A line of the table, after one turn that does not count."""
    spent: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    pairs: dict[str, int] = {}
    for turn in range(TURNS + 1):
        for way, check in ways.items():
            report, took = clocked(check)
            pairs[way] = report.results[0].counts.pairs
            if turn:
                spent[way].append(took)
    outcome.records.append({"rule": name, "rows": rows, "tasks": tasks, "agrees": len({*pairs.values()}) == 1, **spent})
    [(cpu, wall), (grid_cpu, grid_wall)] = ([median([t[i] for t in spent[way]]) for i in (0, 1)] for way in ways)
    return name, tasks, pairs["ranges"], cpu, grid_cpu, cpu / grid_cpu, wall, grid_wall


def stored(folder: Path, rows: int) -> str:
    """The Tax table with three columns of numbers at random, as Parquet."""
    place = folder / f"order-{rows}"
    place.mkdir(exist_ok=True)
    for start in range(0, rows, PART):
        part = make("tax", min(PART, rows - start), start, 0.0).select(["id", "salary", "rate"])
        random = np.random.default_rng(start)
        for column in "abc":
            part = part.append_column(column, pa.array(random.integers(0, 1 << 40, part.num_rows)))
        pq.write_table(part, place / f"part-{start:012d}.parquet")
    return str(place)
