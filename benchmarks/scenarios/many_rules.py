"""A hundred rules in a batch against one: FDs with left sides of their own, FDs that share them, rules of order.

DuckDB joins the batch with the rows before it, once a rule; all counts are compared before a time counts.
"""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue import Monitor
from measure import median
from scenarios.setting import Outcome, Setting, Table

RULES = 100
WARM, COUNTED = 4, 8
JOINED = 2
"""Batches of which DuckDB's joins are compared and timed."""
SPREAD = 12
"""Columns of either kind."""
HIDDEN = 20_000
"""Numbers from which all columns follow."""
LINES = 1 << 14
"""Cache lines of a rule: a megabyte, as 20,000 groups have with their right sides."""


def run(setting: Setting) -> Outcome:
    """All three sets at every size, and one row with 90 FDs."""
    outcome = Outcome()
    head = ("rules", "rows", "batch", "one ms", "all ms", "ratio", "DuckDB ms", "DuckDB / all", "added", "agrees")
    rows = [_line(name, rules, size, setting) for size in setting.sizes for name, rules in _sets().items()]
    outcome.tables.append(Table("many rules in a batch (CPU)", head, rows))
    touched = [_touched(lines, setting.batch) for lines in (1, 2, 4, 7)]
    outcome.tables.append(Table("random cache lines a row and rule, alone (CPU)", ("lines", "ms a batch"), touched))
    outcome.records += [{"lines": lines, "touching them alone, ms": spent} for lines, spent in touched]
    told = ("hidden values", "rows", "one ms", "all ms", "ratio")
    cached = [_cached(distinct, size, setting.batch) for size in setting.sizes for distinct in (200, 2_000, HIDDEN)]
    outcome.tables.append(Table("FDs with left sides of their own, by how many groups there are (CPU)", told, cached))
    outcome.records += [dict(zip(told, row, strict=True)) for row in cached]
    single = [_single(size) for size in setting.sizes]
    outcome.tables.append(Table("one row, 90 FDs (CPU)", ("rows", "median us"), single))
    outcome.records += [dict(zip(head, row, strict=True)) for row in rows]
    outcome.records += [{"rows": size, "one row, 90 FDs, us": spent} for size, spent in single]
    return outcome


def _sets() -> dict[str, list[tuple[str, str]]]:
    """Rules as text for us and as the condition of a join for DuckDB."""

    def fd(left: tuple[str, ...], right: str) -> tuple[str, str]:
        equal = " and ".join(f"t.{name} = s.{name}" for name in left)
        return f"{', '.join(left)} -> {right}", f"{equal} and t.{right} <> s.{right}"

    def order(group: str, a: int, b: int) -> tuple[str, str]:
        terms = f"t.{group} = s.{group} and t.m{a} > s.m{a} and t.m{b} < s.m{b}"
        return f"not({terms})", f"({terms}) or (s.{group} = t.{group} and s.m{a} > t.m{a} and s.m{b} < t.m{b})"

    every = range(SPREAD)
    own = [fd((f"c{a}", f"m{b}"), f"c{c}") for a in every for b in every for c in every if a != c]
    random.Random(1).shuffle(own)
    orders = [order(group, a, b) for group in ("g", "c0", "c1") for a in every for b in every if a < b]
    return {
        "FDs, left sides of their own": own[:RULES],
        "FDs, ten left sides": [fd((f"m{b}",), f"c{c}") for b in range(10) for c in range(10)],
        "order": orders[:RULES],
    }


def _table(rng: np.random.Generator, rows: int, first: int, distinct: int = HIDDEN) -> pa.Table:
    """Columns that follow from one hidden number, of which some are off in one of 10,000 rows."""
    hidden = rng.integers(0, distinct, rows)
    columns: dict[str, Any] = {"id": np.arange(first, first + rows), "g": hidden % 50}
    columns |= {f"c{i}": (hidden * (i + 3) * 2_654_435_761 >> 7) % (50 * (i + 1)) for i in range(SPREAD)}
    columns |= {f"m{i}": hidden * (i + 1) + (rng.random(rows) < 0.0001) * 5 * (i + 1) for i in range(SPREAD)}
    return pa.table(columns)


def _applied(rules: list[str], base: pa.Table, batches: list[pa.Table]) -> tuple[float, list[list[int]]]:
    monitor = Monitor(rules, key="id")
    monitor.apply(base, limit=0)
    spent, added = [], []
    for batch in batches:
        start = time.process_time()
        delta = monitor.apply(batch)
        spent.append((time.process_time() - start) * 1e3)
        added.append([step.added for step in delta.counts.values()])
    return median(spent[WARM:]), added


def _line(name: str, rules: list[tuple[str, str]], size: int, setting: Setting) -> tuple[Any, ...]:
    rng = np.random.default_rng(size)
    base = _table(rng, size, 0)
    batches = [_table(rng, setting.batch, size + i * setting.batch) for i in range(WARM + COUNTED)]
    texts = [text for text, _ in rules]
    one = median([_applied([texts[at]], base, batches)[0] for at in (0, len(texts) // 3, len(texts) * 3 // 4)])
    every, added = _applied(texts, base, batches)
    joined, theirs = _joins([where for _, where in rules], base, batches[:JOINED])
    agrees = added[:JOINED] == theirs
    total = sum(map(sum, added))
    return name, size, setting.batch, one, every, every / one, joined, joined / every, total, agrees


def _cached(distinct: int, size: int, batch: int) -> tuple[Any, ...]:
    """One rule and all on rows of few groups, whose counters lie in the caches: what counting itself takes."""
    rng = np.random.default_rng(size)
    base = _table(rng, size, 0, distinct)
    batches = [_table(rng, batch, size + i * batch, distinct) for i in range(WARM + COUNTED)]
    texts = [text for text, _ in _sets()["FDs, left sides of their own"]]
    one, every = (_applied(some, base, batches)[0] for some in (texts[:1], texts))
    return distinct, size, one, every, every / one


def _touched(lines: int, batch: int) -> tuple[int, float]:
    """What any counting by group must at least do: read so many lines a row and rule, many at once, wherever they lie.

    Key, number and counters of a group and of its right side lie in seven.
    """
    rng, size = np.random.default_rng(lines), LINES * 8
    counters = rng.integers(0, 9, (RULES, size))
    spent = []
    for _ in range(WARM + COUNTED):
        places = rng.integers(0, LINES, (RULES, lines, batch)) * 8
        start = time.process_time()
        for own, rule in zip(counters, places, strict=True):
            own.take(rule)
        spent.append((time.process_time() - start) * 1e3)
    return lines, median(spent[WARM:])


def _joins(wheres: list[str], base: pa.Table, batches: list[pa.Table]) -> tuple[float, list[list[int]]]:
    """Median CPU ms of all joins of a batch, and how many pairs it adds to each rule."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("given", base)
    connection.execute("CREATE TABLE base AS FROM given")
    spent, added = [], []
    for batch in batches:
        connection.register("given", batch)
        connection.execute("CREATE OR REPLACE TABLE batch AS FROM given")
        start = time.process_time()
        found = []
        for where in wheres:
            join = f"SELECT count(*) FROM batch t, base s WHERE {where}"
            among = f"SELECT count(*) FROM batch t, batch s WHERE t.id < s.id AND ({where})"
            found.append(sum(int((connection.execute(query).fetchone() or [0])[0]) for query in (join, among)))
        spent.append((time.process_time() - start) * 1e3)
        added.append(found)
        connection.execute("INSERT INTO base FROM batch")
    return median(spent), added


def _single(size: int) -> tuple[int, float]:
    rng = np.random.default_rng(size)
    monitor = Monitor([text for text, _ in _sets()["FDs, left sides of their own"][:90]], key="id")
    monitor.apply(_table(rng, size, 0), limit=0)
    spent = []
    for row in _table(rng, 400, size).to_pylist():
        start = time.thread_time_ns()
        monitor.apply(row)
        spent.append((time.thread_time_ns() - start) / 1000)
    return size, median(spent[50:])
