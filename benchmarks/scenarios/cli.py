"""The command line as people wait for it: import, check of a small file, init of a large one, batches."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet

from rules import RULES, TOGETHER
from scenarios.setting import Outcome, Setting, Table
from workloads.tax import tax

FD = "zip -> city"
QUERY = """
import duckdb, sys
print(duckdb.sql(f"select zip from '{sys.argv[1]}' group by zip having count(distinct city) > 1").fetchall())
"""


@dataclass(frozen=True)
class Called:
    """How a command went."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    code: int
    said: str


def call(arguments: list[str], **environment: str) -> Called:
    """Run a command in a fresh process. Peak memory is that of the largest command so far."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(arguments, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Called(
        wall, cpu, after.ru_maxrss / 2**10, done.returncode, (done.stderr.strip() or done.stdout.strip())[-200:]
    )


def run(setting: Setting) -> Outcome:
    """Wall time of each command; exit codes other than 0 and 1 are shown with what was said."""
    outcome = Outcome()
    table = Table("command line", ("what", "wall s", "CPU s", "exit"))
    folder = setting.folder
    rules = folder / "rules.txt"
    rules.write_text("\n".join(RULES[name].text for name in TOGETHER) + "\n")
    holdstrue = [sys.executable, "-m", "holdstrue.cli.main"]
    script = Path(sys.executable).parent / "holdstrue"
    if script.exists():
        holdstrue = [str(script)]

    def note(what: str, called: Called) -> None:
        shown = str(called.code) if called.code in (0, 1) else f"{called.code}: {called.said}"
        table.rows.append((what, called.wall_s, called.cpu_s, shown))
        outcome.records.append(
            {"what": what, "wall_s": round(called.wall_s, 3), "cpu_s": round(called.cpu_s, 3), "exit": called.code}
        )
        print(f"  {what}: {called.wall_s:.2f} s, exit {shown}", file=sys.stderr, flush=True)

    for _ in range(3):
        note("import holdstrue", call([sys.executable, "-c", "import holdstrue"]))
    note("python alone", call([sys.executable, "-c", "pass"]))
    ten = folder / "ten.csv"
    pyarrow.csv.write_csv(tax(10), ten)
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        note(
            "check 10 rows, nothing compiled",
            call([*holdstrue, "check", str(ten), "--rule", FD], NUMBA_CACHE_DIR=cache),
        )
    for _ in range(3):
        note("check 10 rows", call([*holdstrue, "check", str(ten), "--rule", FD]))
        note("the same query in DuckDB", call([sys.executable, "-c", QUERY, str(ten)]))
    thousand = folder / "thousand.csv"
    pyarrow.csv.write_csv(tax(1000), thousand)
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        for when in ("nothing compiled", "compiled before"):
            note(
                f"check 1,000 rows, one FD, {when}",
                call([*holdstrue, "check", str(thousand), "--rule", FD], NUMBA_CACHE_DIR=cache),
            )
        for when in ("nothing compiled", "compiled before"):
            note(f"discover 1,000 rows, {when}", call([*holdstrue, "discover", str(thousand)], NUMBA_CACHE_DIR=cache))
    small = folder / "small.csv"
    pyarrow.csv.write_csv(tax(10_000), small)
    check = [*holdstrue, "check", str(small), "--rules", str(rules), "--key", "id", "--limit", "10"]
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        note("check 10,000 rows, nothing compiled", call(check, NUMBA_CACHE_DIR=cache))
    for _ in range(3):
        note("check 10,000 rows, compiled before", call(check))
    for rows in setting.sizes:
        data = folder / f"tax-{rows}.parquet"
        pyarrow.parquet.write_table(tax(rows), data)
        state = folder / f"state-{rows}"
        note(
            f"init {rows:,}",
            call([*holdstrue, "init", str(state), "--rules", str(rules), "--key", "id", "--data", str(data)]),
        )
        for batch in range(5):
            changes = folder / f"changes-{rows}-{batch}.csv"
            pyarrow.csv.write_csv(tax(1000, start=rows + 1000 * batch), changes)
            note(f"apply 1,000 to {rows:,}, number {batch + 1}", call([*holdstrue, "apply", str(state), str(changes)]))
    outcome.tables.append(table)
    return outcome
