"""Paper 002's experiments on its first data set: rows, attributes and noise, with constants and with two rows.

A relation of elevation: temperature, pressure, oxygen and density fall as height rises; noise is a share of rows with a
value of another row. CPU and wall time from an Arrow table; the published figures are drawn, not told in numbers. Up to
10,000 rows DuckDB joins the table with itself and must count the same pairs.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue import check
from scenarios.setting import Outcome, Setting, Table

CONSTANTS = {
    2: [f"not(t.H > {8000 + 100 * i} and t.T > {120 - i})" for i in range(5)],
    3: [f"not(t.H > {8000 + 100 * i} and t.T > {120 - i} and t.P > {900 - i})" for i in range(5)],
}
TWO_ROWS = {2: "not(t.H > s.H and t.T > s.T)", 3: "not(t.H > s.H and t.T > s.T and t.P > s.P)"}
COMPARED = 10_000


def run(setting: Setting) -> Outcome:
    """Rows by attributes, then noise at the smallest size."""
    rows = []
    for size in (COMPARED, *setting.sizes):
        for attributes in (2, 3):
            rows.append(_line(size, attributes, 0.01))
            print(rows[-1], flush=True)
    noisy = []
    for percent in range(1, 6):
        noisy.append(_line(min(setting.sizes), 3, percent / 100))
        print(noisy[-1], flush=True)
    head = (
        "rows",
        "attributes",
        "noise",
        "constants CPU ms",
        "constants wall",
        "two rows CPU ms",
        "two rows wall",
        "pairs",
        "agrees",
    )
    outcome = Outcome()
    for title, lines in (("experiment 1: rows and attributes", rows), ("experiment 3: noise", noisy)):
        outcome.tables.append(Table(title, head, lines))
        outcome.records += [{"experiment": title} | dict(zip(head, line, strict=True)) for line in lines]
    return outcome


def _table(rows: int, noise: float) -> pa.Table:
    rng = np.random.default_rng(rows)
    height = rng.integers(0, 9_000_000, rows)
    columns = {"H": height // 1000, "T": 150 - height // 60_000, "P": 1000 - height // 9_000}
    for name in ("T", "P"):
        wrong = np.flatnonzero(rng.random(rows) < noise / 2)
        columns[name][wrong] = columns[name][rng.integers(0, rows, wrong.size)]
    return pa.table(columns)


def _line(rows: int, attributes: int, noise: float) -> tuple[Any, ...]:
    table = _table(rows, noise)
    constant = _timed(table, CONSTANTS[attributes])
    pair = _timed(table, [TWO_ROWS[attributes]])
    agrees = rows > COMPARED or pair[2] == _joined(table, TWO_ROWS[attributes])
    return rows, attributes, noise, *constant[:2], *pair[:2], pair[2], agrees


def _timed(table: pa.Table, rules: list[str]) -> tuple[float, float, int]:
    """Best of two: CPU ms, wall ms, violations."""
    best = []
    for _ in range(2):
        cpu, wall = time.process_time(), time.perf_counter()
        results = check(table, rules, limit=0).results
        found = sum(result.counts.open for result in results)
        best.append(((time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3, found))
    return min(best)


def _joined(table: pa.Table, rule: str) -> int:
    import duckdb

    connection = duckdb.connect()
    connection.register("data", table)
    where = rule.removeprefix("not(").removesuffix(")")
    [count] = connection.execute(f"SELECT count(*) FROM data t, data s WHERE {where}").fetchone() or [0]
    return int(count)
