"""All kinds of rules, a load and a batch where nobody has much memory: the driver and each worker 512 MB, results 4 MB.

The table is made so that it is known what breaks each rule; phi10 on generated taxes is held against one process. CPU
seconds are those of Java and of Python's workers, once each. Java's memory is the most that its process held, heap and
all; a worker's is what it held beyond what it shares with its daemon.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rules import RULES
from scenarios.setting import Outcome, Setting, Table
from scenarios.spark_sql import clocked
from scenarios.spark_state import stored, watched

SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.driver.maxResultSize": "4m",
    "spark.executor.pyspark.memory": "512m",
}
GROUP = 1000
COLUMNS = (
    "id",
    f"cast(id % {GROUP} as int) as g",
    "if(id = 777, 1, 0) as h",
    f"cast(id div {GROUP} as int) as x",
    f"cast(if(id = 12345, -1, id div {GROUP}) as int) as y",
    "concat('n', id % 100000) as name",
    "cast(id as double) as up",
    "cast(if(id % 1000003 = 5, id - 7, id) as double) as along",
)
"""Row 777 breaks an FD of its group, row 12,345 lies below those before it, one in 1,000,003 is below seven others."""
ALL_KINDS = (
    "key(id)",
    "g -> h",
    "[g, h] -> [y] with (777, 1 || _)",
    "not(t.x < 0)",
    "not null(g, y)",
    "name matches 'n[0-9]+'",
    "count() >= 10",
    "not(t.h = 1 and s.h = 0 and t.g = s.g)",
    "not(t.g = s.g and t.x < s.x and t.y > s.y)",
    "not(t.up > s.up and t.along < s.along)",
    "data.g in groups.g",
)
KEPT = ("key(id)", "g -> h", "not(t.g = s.g and t.x < s.x and t.y > s.y)")
HEAD = ("step", "CPU s", "wall s", "worker MB", "shuffled MB", "Java MB")


def run(setting: Setting) -> Outcome:
    """A check, phi10, a load and batches at every size; `--rules kinds`, `taxes` or `state` runs one of them."""
    import holdstrue.spark as hs

    outcome = Outcome()
    spark = hs.start("local[2]", SETTINGS)
    for rows in setting.sizes:
        table = Table(f"{rows:,} rows, driver and workers of 512 MB, results of at most 4 MB", HEAD)
        outcome.tables.append(table)
        step = partial(_step, outcome, table, spark, rows)
        parts = {"kinds": _kinds, "taxes": _taxes, "state": _kept}
        for part in [name for name in parts if name in setting.rules.split(",")] or parts:
            parts[part](step, spark, setting.folder, rows)
    spark.stop()
    return outcome


def _kinds(step: Callable[..., Any], spark: Any, folder: Path, rows: int) -> None:
    """All kinds of rules in one check."""
    import holdstrue.spark as hs

    path = str(folder / f"little-{rows}")
    step("the table written", partial(spark.range(rows).selectExpr(*COLUMNS).write.parquet, path), None)
    groups = spark.range(1, GROUP).selectExpr("cast(id as int) as g")
    check = partial(hs.check, {"data": spark.read.parquet(path), "groups": groups}, list(ALL_KINDS), key="id", limit=10)
    step(f"{len(ALL_KINDS)} rules of all kinds checked", check, wanted(rows))
    shutil.rmtree(path)


def _taxes(step: Callable[..., Any], spark: Any, folder: Path, rows: int) -> None:
    """An order rule with an equality, of 52 groups; held against one process."""
    import holdstrue
    import holdstrue.spark as hs

    taxes, rule = stored(folder, rows), RULES["phi10"].text
    one = holdstrue.check(taxes, rule, limit=0)
    check = partial(hs.check, spark.read.parquet(taxes), rule, limit=0)
    step("phi10 checked, on generated taxes", check, [one.results[0].counts.open])
    shutil.rmtree(taxes)


def wanted(rows: int) -> list[int]:
    """How many violations each of the rules has."""
    group = rows // GROUP
    # row 5 has five rows below it; of the seven below each of the others one is as high as it is
    low = 5 + 6 * (len(range(5, rows, 1_000_003)) - 1)
    return [0, group - 1, 0, 0, 0, 0, 0, group - 1, 12345 // GROUP, low, rows // GROUP]


def _kept(step: Callable[..., Any], spark: Any, folder: Path, rows: int) -> None:
    """A state of the table, an empty batch, one of a thousand rows, and these out again."""
    import holdstrue.spark as hs

    place, data = folder / "state", spark.range(rows).selectExpr(*COLUMNS)
    group = rows // GROUP
    counts = [0, group - 1, 12345 // GROUP]
    monitor = step(
        f"{len(KEPT)} rules loaded", partial(hs.Monitor, spark, place, list(KEPT), key="id", data=data), counts
    )
    new = spark.range(rows, rows + GROUP).selectExpr(*COLUMNS)
    for name, frame, after in (
        ("an empty batch", new.where("id < 0"), counts),
        ("the first batch of 1,000 rows", new, [0, group, 12345 // GROUP]),
    ):
        step(name, partial(_applied, monitor, frame, feed="append"), after)
    undone = new.selectExpr("id", "'delete' as op")
    step("1,000 deletes", partial(_applied, monitor, undone, feed="ops", op_column="op"), counts)
    shutil.rmtree(place)


def _applied(monitor: Any, frame: Any, **how: Any) -> Any:
    """The monitor after a batch."""
    monitor.apply(frame, limit=10, **how)
    return monitor


def _step(
    outcome: Outcome, table: Table, spark: Any, rows: int, name: str, work: Callable[[], Any], truth: list[int] | None
) -> Any:
    """A line of the table, and what came of the work."""
    with watched(spark) as seen:
        found, (cpu, wall) = clocked(work)
    told = None
    if truth is not None:
        told = [r.counts.open for r in found.results] if hasattr(found, "results") else _open(found)
    table.rows.append((name, cpu, wall, seen.peak_mb, seen.shuffled / 1e6, _java_mb()))
    record = {"step": name, "rows": rows, "cpu": cpu, "wall": wall, "worker_mb": seen.peak_mb, "agrees": told == truth}
    outcome.records.append(record)
    print(" | ".join(map(str, (*table.rows[-1], told == truth, told))), flush=True)
    return found


def _open(monitor: Any) -> list[int]:
    """How many violations each rule of a monitor has."""
    return [counts.open for counts in monitor.counts().values()]


def _java_mb() -> int:
    """The most memory that the Java process held so far."""
    most = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"org.apache.spark.deploy.SparkSubmit" in (entry / "cmdline").read_bytes():
                told = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines())
                most = max(most, int(told["VmHWM"].split()[0]) >> 10) if _is_ours(entry) else most
        except OSError:  # it ended meanwhile
            continue
    return most


def _is_ours(entry: Path) -> bool:
    """Whether a process was started by this one."""
    return (entry / "stat").read_text().rsplit(")", 1)[1].split()[1] == str(os.getpid())
