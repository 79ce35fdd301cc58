"""holdstrue on Spark against plain Spark SQL, in one session: from scratch, loading, and batches of changes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from competitors.duckdb_join import groups_having, pair_count, self_join
from measure import median
from rules import RULES, BenchRule
from scenarios.setting import Outcome, Setting, Table, make, ratio

TASKS = 2
ROW_GROUP = 125_000
ENTERED = BenchRule(
    "ordered",
    "tax",
    "not(t.id < s.id and t.entered > s.entered)",
    (),
    (("id", "<", "id"), ("entered", ">", "entered")),
)
"""A rule without equalities: what has the larger id was entered later."""

SWAPPED = 1000
"""One row in so many was entered up to fifty places too early or too late."""

SMALL_JOIN = 100_000
"""A self join of phi10 takes Spark SQL minutes beyond this many rows."""


@dataclass
class Work:
    """The session, the files and what was found."""

    spark: Any
    setting: Setting
    outcome: Outcome

    def answer(self, query: str) -> Any:
        """The one value that a query gives."""
        return self.spark.sql(query).first()[0]

    def record(self, **figures: Any) -> None:
        """Keep figures."""
        self.outcome.records.append(figures)


def run(setting: Setting) -> Outcome:
    """All parts; the largest size is for growth, the one before it for everything else."""
    import holdstrue.spark

    spark = holdstrue.spark.start(f"local[{TASKS}]")
    work = Work(spark, setting, Outcome())
    rows = setting.sizes[0]
    scratch(work, rows)
    load(work, rows)
    for size in setting.sizes:
        batches(work, size, peers=size == rows)
    spark.stop()
    return work.outcome


def tax_table(rows: int, start: int = 0) -> pa.Table:
    """The Tax table with the time at which each row was entered."""
    table = make("tax", rows, start, 0.0)
    dice = np.random.default_rng(start + 1)
    entered = (table.column("id").to_numpy() * 100).astype(np.int64)
    wrong = dice.random(rows) < 1 / SWAPPED
    entered[wrong] += dice.integers(-5000, 5000, int(wrong.sum()))
    return table.append_column("entered", pa.array(entered))


def stored(work: Work, rows: int) -> str:
    """A parquet file of the table, in row groups that two tasks can share."""
    path = work.setting.folder / f"tax-{rows}.parquet"
    if not path.exists():
        pq.write_table(tax_table(rows), path, row_group_size=ROW_GROUP)
    return str(path)


def clocked(repeats: int, action: Callable[[], Any], after: Callable[[], Any] | None = None) -> tuple[Any, list[float]]:
    """The answer and the seconds of each run; the first one warms up and does not count."""
    seconds = []
    answer = None
    for _ in range(repeats + 1):
        start = time.perf_counter()
        answer = action()
        seconds.append(time.perf_counter() - start)
        if after is not None:
            after()
    return answer, seconds[1:]


def scratch(work: Work, rows: int) -> None:
    """Keys and FDs against one GROUP BY; phi10 against a self join."""
    import holdstrue.spark

    table = Table(f"from scratch, {rows:,} rows of parquet, seconds", ("rule", "holdstrue", "Spark SQL", "ours / SQL"))
    for name, size in (("phi7", rows), ("phi8", rows), ("phi9", rows), ("phi10", min(rows, SMALL_JOIN))):
        rule = RULES[name]
        frame = work.spark.read.parquet(stored(work, size))
        frame.createOrReplaceTempView("base")
        sql = groups_having(rule) if rule.grouped else self_join(rule, "base")
        theirs, their_times = clocked(5 if rule.grouped else 1, partial(work.answer, sql))
        check = partial(holdstrue.spark.check, frame, rule.text, key="id", limit=0, tasks=TASKS)
        report, times = clocked(5, check)
        counts = report.results[0].counts
        ours = counts.groups if rule.grouped else counts.pairs
        mine, other = median(times), median(their_times)
        table.rows.append((f"{name} ({size:,})", mine, other, mine / other))
        work.record(part="scratch", rule=name, rows=size, agrees=ours == theirs, seconds=times, sql_seconds=their_times)
    work.outcome.tables.append(table)


def load(work: Work, rows: int) -> None:
    """The first rows of a state against a plain parquet write of the same columns."""
    import holdstrue.spark

    table = Table(
        f"loading {rows:,} rows, seconds", ("rules", "state", "parquet write", "state / write", "bytes a row")
    )
    for names in (("phi7",), ("phi8",), ("phi10",), ("phi7", "phi8", "phi9", "phi10")):
        columns = ["id", *dict.fromkeys(column for name in names for column in RULES[name].columns)]
        frame = work.spark.read.parquet(stored(work, rows)).select(*columns)
        place = work.setting.folder / "state"
        written = str(work.setting.folder / "written")

        def create(f: Any = frame, n: tuple[str, ...] = names, p: Path = place) -> None:
            shutil.rmtree(p, ignore_errors=True)
            holdstrue.spark.Monitor(work.spark, p, [RULES[x].text for x in n], key="id", data=f, tasks=TASKS)

        _, times = clocked(3, create)
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) / rows
        _, write_times = clocked(3, partial(_write, frame, written))
        mine, other = median(times), median(write_times)
        table.rows.append((" ".join(names), mine, other, mine / other, size))
        work.record(part="load", rules=names, rows=rows, seconds=times, write_seconds=write_times, bytes_a_row=size)
    work.outcome.tables.append(table)


def _write(frame: Any, path: str) -> None:
    frame.write.mode("overwrite").parquet(path)


def batches(work: Work, rows: int, *, peers: bool) -> None:
    """Batches of 0, 1000 and 100,000 inserts on a loaded state, against a join of the delta with a cached base."""
    import holdstrue.spark

    head = (
        "rule",
        "empty batch",
        "1000 rows",
        "Spark SQL join",
        "SQL / ours",
        "1000 / empty",
        "100K rows",
        "rows a second",
    )
    table = Table(f"batches on {rows:,} rows, seconds", head)
    big = 100_000
    base_file = stored(work, rows)
    for rule in (RULES["phi7"], RULES["phi8"], RULES["phi10"], ENTERED):
        columns = list(dict.fromkeys(("id", *rule.columns)))
        base = work.spark.read.parquet(base_file).select(*columns)
        place = work.setting.folder / f"state-{rule.name}-{rows}"
        shutil.rmtree(place, ignore_errors=True)
        monitor = holdstrue.spark.Monitor(work.spark, place, rule.text, key="id", data=base, tasks=TASKS)
        small = _frame(work, rows, 1000, columns, "small")
        nothing = small.filter("id < 0")
        deltas: list[Any] = []

        def insert(frame: Any, one_task: bool = True, m: Any = monitor, d: list[Any] = deltas) -> None:
            d.append(m.apply(frame, limit=1000, feed="append", one_task=one_task))

        def undo(frame: Any, m: Any = monitor) -> None:
            m.apply(frame.selectExpr("id", "'delete' as op"), limit=0, feed="ops", op_column="op")

        _, empty = clocked(7, partial(insert, nothing))
        _, times = clocked(7, partial(insert, small), partial(undo, small))
        added = sum(step.added for step in deltas[-1].counts.values())
        large = _frame(work, rows + 2000, big, columns, "large")
        _, large_times = clocked(2, partial(insert, large, one_task=False), partial(undo, large))
        mine, fixed, much = median(times), median(empty), median(large_times)
        theirs: float | None = None
        agrees: bool | None = None
        if peers:
            base.cache().createOrReplaceTempView("base")
            base.count()
            small.createOrReplaceTempView("delta")
            query = f"SELECT {_spark_pairs(rule)}"
            answer, join_times = clocked(7, partial(work.answer, query))
            theirs, agrees = median(join_times), answer == added
            base.unpersist()
        figures = (rule.name, fixed, mine, theirs or "-", ratio(theirs, mine), mine / fixed, much, int(big / much))
        table.rows.append(figures)
        work.record(
            part="batches", rows=rows, agrees=agrees, added=added, empty_seconds=empty, seconds=times,
            large_seconds=large_times, **dict(zip(head, figures, strict=True)),
        )  # fmt: skip
        shutil.rmtree(place)
    work.outcome.tables.append(table)


def _spark_pairs(rule: BenchRule) -> str:
    """SQL for what a delta adds; without equalities there is nothing to join on but the comparisons."""
    if rule.equal:
        return pair_count(rule)
    return pair_count(BenchRule(rule.name, rule.workload, rule.text, (), rule.other)).replace("ON  AND", "ON")


def _frame(work: Work, start: int, rows: int, columns: list[str], name: str) -> Any:
    """New rows as a data frame read from a file."""
    path = work.setting.folder / f"{name}-{start}.parquet"
    if not path.exists():
        pq.write_table(tax_table(rows, start), path)
    return work.spark.read.parquet(str(path)).select(*columns)
