"""Keys, FDs, CFDs and one-row rules from scratch, from Arrow, Parquet and CSV, against DuckDB; two cores against one.

Both sides run in this process, in turns, with all cores; CPU time counts those of all threads. Answers are violating
groups (of a one-row rule rows) and are compared before a time counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from holdstrue import check
from measure import Span, median
from scenarios.setting import Outcome, Setting, Table
from workloads import tax

RULES = {
    "key": (
        "key(area_code, phone)",
        "SELECT count(*) FROM (SELECT 1 FROM {} GROUP BY area_code, phone HAVING count(*) > 1)",
    ),
    "FD": ("zip -> city", "SELECT count(*) FROM (SELECT 1 FROM {} GROUP BY zip HAVING min(city) <> max(city))"),
    "CFD": (
        "[state = 'CA', zip] -> city",
        "SELECT count(*) FROM (SELECT 1 FROM {} WHERE state = 'CA' GROUP BY zip HAVING min(city) <> max(city))",
    ),
    "one row": ("not(t.salary < 6000 and t.rate > 1)", "SELECT count(*) FROM {} WHERE salary < 6000 AND rate > 1"),
}
REPEATS = 5
KEY_ONLY = 5_000_000
"""Rows from which on only keys are checked, and from Arrow."""


def run(setting: Setting) -> Outcome:
    """Every size, source and rule."""
    outcome = Outcome()
    head = ("rows", "from", "rule", "found", "ours ms", "DuckDB ms", "ratio", "wall", "DuckDB wall", "agrees")
    rows, cores = [], []
    for size in setting.sizes:
        table = tax.tax(size)
        sources = {"Arrow": table} if size >= KEY_ONLY else _sources(table, setting.folder)
        for source, given in sources.items():
            for name in ("key",) if size >= KEY_ONLY else RULES:
                rows.append((size, source, *_line(name, source, given)))
                print(rows[-1], flush=True)
        if size < KEY_ONLY:
            cores.append((size, *_cores(table)))
    outcome.tables.append(Table("from scratch (CPU ms of all threads)", head, rows))
    outcome.records += [dict(zip(head, row, strict=True)) for row in rows]
    told = (
        "rows",
        "one core, wall ms",
        "two cores, wall ms",
        "faster",
        "one core, CPU ms",
        "two cores, CPU ms",
        "agrees",
    )
    outcome.tables.append(Table("four rules together, from Arrow", told, cores))
    outcome.records += [dict(zip(told, row, strict=True)) for row in cores]
    return outcome


def _sources(table: pa.Table, folder: Path) -> dict[str, Any]:
    parquet, sorted_, csv = folder / "tax.parquet", folder / "sorted.parquet", folder / "tax.csv"
    pyarrow.parquet.write_table(table, parquet)
    # as tables are that are written day by day: most row groups say that they have no row of a constant
    pyarrow.parquet.write_table(
        table.sort_by([("state", "ascending"), ("salary", "ascending")]), sorted_, row_group_size=50_000
    )
    pyarrow.csv.write_csv(table, csv)
    return {"Arrow": table, "Parquet": parquet, "Parquet, sorted": sorted_, "CSV": csv}


def _line(name: str, source: str, given: Any) -> tuple[Any, ...]:
    import duckdb

    rule, query = RULES[name]
    connection = duckdb.connect()
    place = "given"
    if source == "Arrow":
        # a table of its own, as ours is one of Arrow: neither side converts
        connection.register("arrow", given)
        connection.execute("CREATE TABLE given AS FROM arrow")
    else:
        place = f"read_{source.partition(',')[0].lower()}('{given}')"

    def theirs() -> int:
        [found] = connection.execute(query.format(place)).fetchone() or [0]
        return int(found)

    spent, answers = _turns({"ours": partial(_found, given, [rule]), "duckdb": theirs})
    ours, duckdb_ms = ([span.cpu_ms for span in spent[side]] for side in ("ours", "duckdb"))
    walls = [median([span.wall_ms for span in spent[side]]) for side in ("ours", "duckdb")]
    return (
        name,
        max(answers),
        median(ours),
        median(duckdb_ms),
        median(ours) / median(duckdb_ms),
        *walls,
        len(answers) == 1,
    )


def _found(given: Any, rules: list[str], threads: int | None = None) -> int:
    """Violating groups, of one-row rules rows."""
    results = check(given, rules, limit=0, threads=threads).results
    return sum(result.counts.groups or result.counts.rows for result in results)


def _turns(works: dict[str, Callable[[], int]]) -> tuple[dict[str, list[Span]], set[int]]:
    spent: dict[str, list[Span]] = {name: [] for name in works}
    answers = set()
    for turn in range(REPEATS + 1):
        for name, work in works.items():
            cpu, wall = time.process_time(), time.perf_counter()
            answers.add(work())
            if turn:
                spent[name].append(Span((time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3))
    return spent, answers


def _cores(table: pa.Table) -> tuple[Any, ...]:
    rules = [tax.RULES[name] for name in ("phi7", "phi8", "phi9", "phi10")]
    spent, answers = _turns({str(count): partial(_found, table, rules, count) for count in (1, 2)})
    one, two = (median([span.wall_ms for span in spent[count]]) for count in ("1", "2"))
    cpu = [median([span.cpu_ms for span in spent[count]]) for count in ("1", "2")]
    return one, two, one / two, *cpu, len(answers) == 1
