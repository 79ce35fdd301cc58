"""Rules of order: three inequalities, the same under changes, updates that break many pairs, and order on text.

All sides of a ratio run in this process, in turns, and count the same pairs before a time counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue import Monitor, check
from measure import median
from scenarios.setting import Outcome, Setting, Table

THREE = "not(t.T > s.T and t.P > s.P and t.H > s.H)"
REWRITTEN = "not(t.H > s.H and t.P > s.P and t.T > s.T)"
TWO = "not(t.T > s.T and t.H > s.H)"
PHI10 = "not(t.state = s.state and t.salary > s.salary and t.tax < s.tax)"
TEXT = "not(t.name > s.name and t.rank < s.rank)"
REPEATS = 2
JOINED = 10_000
"""Rows up to which DuckDB joins by three inequalities in bearable time."""


def run(setting: Setting) -> Outcome:
    """All four, at every size."""
    outcome = Outcome()
    for name, part in (("three", _three), ("changes", _changes), ("dirty", _dirty), ("text", _text)):
        head, rows = part(setting)
        outcome.tables.append(Table(f"order: {name}", head, rows))
        outcome.records += [{"part": name} | dict(zip(head, row, strict=True)) for row in rows]
    return outcome


def _cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    answer = work()
    return (time.process_time() - start) * 1e3, answer


def _turns(works: dict[str, Callable[[], int]], repeats: int = REPEATS) -> tuple[dict[str, float], bool]:
    """Median CPU ms of each after a first run that does not count, and whether all answers agree."""
    times: dict[str, list[float]] = {name: [] for name in works}
    answers = set()
    for turn in range(repeats + 1):
        for name, work in works.items():
            spent, answer = _cpu(work)
            answers.add(answer)
            if turn:
                times[name].append(spent)
    return {name: median(spent) for name, spent in times.items()}, len(answers) == 1


def _weather(rng: np.random.Generator, rows: int, first: int = 0) -> pa.Table:
    """Temperature, pressure that rises with it and humidity that falls."""
    t = rng.integers(0, 100_000, rows)
    p, h = t + rng.integers(0, 3_000, rows), rng.integers(0, 400, rows) - t
    return pa.table({"id": np.arange(first, first + rows), "T": t, "P": p, "H": h})


def _pairs(table: pa.Table, rule: str) -> int:
    [result] = check(table, rule, limit=0).results
    return result.counts.pairs


def _join(table: pa.Table, where: str) -> int:
    import duckdb

    connection = duckdb.connect()
    connection.register("data", table)
    connection.execute("SET threads = 1")
    [count] = connection.execute(f"SELECT count(*) FROM data t, data s WHERE {where}").fetchone() or [0]
    return int(count)


def _three(setting: Setting) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    rows = []
    for size in (8_000, 32_000, *setting.sizes):
        table = _weather(np.random.default_rng(size), size)
        works: dict[str, Callable[[], int]] = {
            "three": partial(_pairs, table, THREE),
            "rewritten": partial(_pairs, table, REWRITTEN),
        }
        if size <= JOINED:
            works["duckdb"] = partial(_join, table, "t.T > s.T AND t.P > s.P AND t.H > s.H")
        spent, agrees = _turns(works)
        two, _ = _turns({"two": partial(_pairs, table, TWO)})
        rows.append((size, _pairs(table, THREE), two["two"], spent["three"], spent["rewritten"],
                     spent.get("duckdb", "-"), spent["three"] / two["two"], agrees))  # fmt: skip
    return ("rows", "pairs", "two ms", "three ms", "rewritten ms", "DuckDB ms", "three / two", "agrees"), rows


def _changes(setting: Setting) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    rows = []
    for size in (10_000, 40_000):
        rng = np.random.default_rng(size)
        base = _weather(rng, size)
        batches = [_weather(rng, setting.batch, size + i * setting.batch) for i in range(5)]
        spent, answers = {}, set()
        for name, index, rule in (("written", "blocks", THREE), ("rewritten", "blocks", REWRITTEN),
                                  ("lt_tree", "lt_tree", THREE)):  # fmt: skip
            monitor = Monitor(rule, key="id", index=index)  # type: ignore[arg-type]
            monitor.apply(base, limit=0)
            done = [_cpu(partial(_added, monitor, batch)) for batch in batches]
            spent[name] = median([ms for ms, _ in done[1:]])
            answers.add(tuple(added for _, added in done))
        rows.append((size, setting.batch, spent["written"], spent["rewritten"], spent["lt_tree"],
                     spent["written"] / spent["lt_tree"], len(answers) == 1))  # fmt: skip
    return ("rows", "batch", "three ms", "rewritten ms", "lt_tree ms", "ratio", "agrees"), rows


def _added(monitor: Monitor, batch: pa.Table, **read: Any) -> int:
    [step] = monitor.apply(batch, limit=0, **read).counts.values()
    return step.added


def _dirty(setting: Setting) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    rows = []
    for size in setting.sizes:
        rng = np.random.default_rng(size)
        state, salary = rng.integers(0, 50, size), rng.integers(10_000, 200_000, size)
        base = pa.table({"id": np.arange(size), "state": state, "salary": salary, "tax": salary // 10})
        for name, share in (("random", 100), ("swapped", 10)):
            own = rng.permutation(size)[: size // share]
            changed = salary.copy()
            changed[own] = rng.integers(10_000, 200_000, own.size) if name == "random" else np.roll(salary[own], 1)
            after = base.set_column(2, "salary", pa.array(changed))
            batch = after.take(pa.array(own)).append_column("_op", pa.array(["update"] * own.size))
            applied, scratch, pairs = [], [], set()
            for turn in range(REPEATS + 1):
                monitor = Monitor(PHI10, key="id")
                monitor.apply(base, limit=0)
                # whoever is first after a table was loaded has its memory given by the system, which takes 0.1 s
                _pairs(after, PHI10)
                ms, added = _cpu(partial(_added, monitor, batch, op_column="_op", feed="ops"))
                again, counted = _cpu(partial(_pairs, after, PHI10))
                pairs |= {added, counted}
                if turn:
                    applied.append(ms)
                    scratch.append(again)
            rows.append((size, f"{own.size} {name}", max(pairs), median(applied), median(scratch),
                         median(applied) / median(scratch), len(pairs) == 1))  # fmt: skip
    return ("rows", "updates", "pairs", "apply ms", "check anew ms", "ratio", "agrees"), rows


def _text(setting: Setting) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    rows = []
    for size in setting.sizes:
        rng = np.random.default_rng(size)

        def names(count: int, first: int, rng: np.random.Generator = rng) -> pa.Table:
            number = rng.integers(0, 10**12, count)
            rank = number // 10**6 + (rng.random(count) < 0.00001) * 3
            return pa.table({"id": np.arange(first, first + count), "name": [f"n{i:012d}" for i in number.tolist()],
                             "rank": rank})  # fmt: skip

        table = names(size, 0)
        spent, agrees = _turns({
            "holdstrue": partial(_pairs, table, TEXT),
            "duckdb": partial(_join, table, "t.name > s.name AND t.rank < s.rank"),
        }, 2)  # fmt: skip
        monitor = Monitor(TEXT, key="id")
        monitor.apply(table, limit=0)
        done = []
        for i in range(6):
            batch = names(setting.batch, size + i * setting.batch)
            done.append(_cpu(partial(_added, monitor, batch)))
        rows.append((size, spent["holdstrue"], spent["duckdb"], spent["holdstrue"] / spent["duckdb"],
                     median([ms for ms, _ in done[1:]]), agrees))  # fmt: skip
    return ("rows", "check ms", "DuckDB ms", "ratio", f"{setting.batch} new ms", "agrees"), rows
