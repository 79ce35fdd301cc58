"""Denial constraints: from scratch against Desbordante's FastADC, batches against from scratch, pairs a second.

`--sizes` are rows of `airport` (30,000 is all of it); `adult` comes with eight columns in full length and with
twelve in 2,000 rows, as FastADC has no bound on the length of constraints and all columns have too many.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from jobs import Answer, Job
from measure import median
from scenarios.setting import PUBLIC_DATA, Outcome, Setting, Table, attempt, ratio

THREADS = 2
ADULT = ((32_561, 8), (2000, 12))
BATCH_SHARE = 10


def run(setting: Setting) -> Outcome:
    """All parts; nothing without the real data beside the repository."""
    outcome = Outcome()
    if not PUBLIC_DATA.is_dir():
        outcome.tables.append(Table(f"no data beside the repository ({PUBLIC_DATA})", ("",)))
        return outcome
    _scratch(setting, outcome)
    for rows in setting.sizes:
        _changes(setting, rows, outcome)
        _pairs(setting, rows, outcome)
    return outcome


def _read(path: Path) -> pa.Table:
    return pacsv.read_csv(path, read_options=pacsv.ReadOptions(encoding="latin-1"))


def _written(table: pa.Table, path: Path) -> str:
    pacsv.write_csv(table, path, pacsv.WriteOptions(quoting_style="none"))
    return str(path)


def _airport(setting: Setting, rows: int, part: str = "original") -> str:
    """The first rows as they are in the file, whose quotes are no quoting."""
    lines = (PUBLIC_DATA / "airport" / f"airport_{part}.csv").read_bytes().splitlines(keepends=True)
    path = setting.folder / f"airport-{part}-{rows}.csv"
    path.write_bytes(b"".join(lines[: rows + 1]))
    return str(path)


def _scratch(setting: Setting, outcome: Outcome) -> None:
    files: list[tuple[str, str, bool]] = [
        (f"airport, {rows:,} rows", _airport(setting, rows), True) for rows in setting.sizes
    ]
    adult = _read(PUBLIC_DATA / "adult" / "adult.csv")
    for rows, columns in ADULT[1 if setting.quick else 0 :]:
        part = adult.slice(0, rows).select(adult.column_names[:columns])
        path = _written(part, setting.folder / f"adult-{rows}-{columns}.csv")
        files.append((f"adult, {rows:,} rows, {columns} columns", path, False))
    table = Table(
        f"all minimal denial constraints of CSV files, {THREADS} threads, search in CPU s (wall s)",
        ("data", "constraints", "holdstrue", "FastADC", "ratio CPU", "ratio wall", "peak MB", "FastADC MB"),
    )
    for name, path, cross in files:
        options = {"cross": cross, "threads": THREADS}
        ours = attempt(Job("denials", "holdstrue", (name,), path, (), 1, 0, options), setting.timeout)
        theirs = attempt(Job("denials", "fastadc", (name,), path, (), 0, 0, options), setting.timeout)
        for peer, answer in (("holdstrue", ours), ("fastadc", theirs)):
            outcome.records.append(_record(name, peer, answer, ours))
        table.rows.append((name, *_row(ours, theirs)))
    outcome.tables.append(table)


def _record(data: str, peer: str, answer: Answer, ours: Answer) -> dict[str, Any]:
    about = {"data": data, "competitor": peer}
    if answer.failure:
        return {**about, "failure": answer.failure}
    agrees = not ours.failure and answer.figures["answer"] == ours.figures["answer"]
    return {**about, "agrees": agrees, **answer.figures}


def _row(ours: Answer, theirs: Answer) -> tuple[Any, ...]:
    if ours.failure:
        return (ours.failure, *("",) * 6)
    mine = ours.figures
    cpu, wall = median(mine["cpu_ms"]), median(mine["wall_ms"])
    shown = f"{cpu / 1e3:.2f} ({wall / 1e3:.2f})"
    if theirs.failure:
        return mine["rules"], shown, theirs.failure, "", "", mine["peak_rss_mb"], ""
    other = theirs.figures
    if other["answer"] != mine["answer"]:
        return mine["rules"], shown, f"OTHER ANSWER ({other['rules']:,})", "", "", mine["peak_rss_mb"], ""
    their_cpu, their_wall = median(other["cpu_ms"]), median(other["wall_ms"])
    spent = f"{their_cpu / 1e3:.2f} ({their_wall / 1e3:.2f})"
    ratios = (ratio(their_cpu, cpu), ratio(their_wall, wall))
    return mine["rules"], shown, spent, *ratios, mine["peak_rss_mb"], other["peak_rss_mb"]


def _changes(setting: Setting, rows: int, outcome: Outcome) -> None:
    batch = rows // BATCH_SHARE
    paths = (_airport(setting, rows), _airport(setting, 3 * batch, "incremental"))
    options = {"batch": batch, "batches": 3, "threads": THREADS}
    answer = attempt(
        Job("denial_changes", "holdstrue", ("airport",), paths[0], (paths[1],), 0, 0, options), setting.timeout
    )
    outcome.records.append({"data": "airport changes", "rows": rows, **answer.figures, "failure": answer.failure})
    table = Table(
        f"airport, {rows:,} rows and batches of {batch:,}: CPU ms a batch against from scratch on all rows",
        ("way", "constraints", "insert", "from scratch", "ratio CPU", "ratio wall", "delete", "state bytes"),
    )
    figures = answer.figures
    for method in ("evidence", "index") if figures and figures["agrees"] else ():
        insert, delete = (median(figures[f"{method}_{kind}_cpu_ms"]) for kind in ("insert", "delete"))
        scratch = median(figures["scratch_cpu_ms"])
        walls = ratio(median(figures["scratch_wall_ms"]), median(figures[f"{method}_insert_wall_ms"]))
        counts = " ".join(map(str, figures["rules"]))
        size = sum(figures[f"{method}_bytes"].values())
        table.rows.append((method, counts, insert, scratch, ratio(scratch, insert), walls, delete, size))
    if not table.rows:
        table.rows.append((answer.failure or "OTHER ANSWER", *("",) * 7))
    outcome.tables.append(table)


def _pairs(setting: Setting, rows: int, outcome: Outcome) -> None:
    job = Job("pair_rate", "holdstrue", ("airport",), _airport(setting, rows), (), 0, 0, {})
    answer = attempt(job, setting.timeout)
    outcome.records.append({"data": "pair rate", "rows": rows, **answer.figures, "failure": answer.failure})
    table = Table(
        f"evidence of airport, {rows:,} rows: million unordered pairs a second",
        ("threads", "predicates", "evidences", "a CPU second", "a wall second"),
    )
    figures = answer.figures
    for threads in (1, 2) if figures else ():
        rates = [figures["pairs"] / figures[f"{kind}_ms_{threads}"] / 1e3 for kind in ("cpu", "wall")]
        table.rows.append((threads, figures["predicates"], figures["evidences"], *rates))
    outcome.tables.append(table)
