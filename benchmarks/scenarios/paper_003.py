"""Paper 003's figures: single inserts, violations already there, batch sizes, deletes, the tipping point, memory.

Figure 2: 1,000 single inserts by size of the table, beside a trigger of PostgreSQL and a check anew. Figure 4: 10,000
inserts with pairs in violation, beside the papers' indexes. Figure 7: batch sizes. Figure 8: single deletes. Figures 3
and 6, many rules, are the scenario `many_rules`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

from competitors.postgres_triggers import Triggers, programs, server
from holdstrue import Monitor, check
from measure import median
from rules import RULES
from scenarios.setting import Outcome, Setting, Table, make

SINGLE = ("phi7", "phi8", "phi9", "phi10")
INSERTS = 1000
TRIGGERED = 100
"""Rows that PostgreSQL inserts: those of phi9 take 10 ms each on 200,000 rows."""


def run(setting: Setting) -> Outcome:
    """All figures."""
    outcome = Outcome()
    for title, head, rows in (_figure_2(setting), _figure_4(setting), _figure_7(setting), _figure_8(setting)):
        outcome.tables.append(Table(title, head, rows))
        outcome.records += [{"figure": title} | dict(zip(head, row, strict=True)) for row in rows]
    return outcome


def _figure_2(setting: Setting) -> tuple[str, tuple[str, ...], list[tuple[Any, ...]]]:
    head = (
        "rule",
        "rows",
        "1,000 inserts ms",
        "us each",
        "PostgreSQL, us each",
        "check anew ms",
        "tipping point, inserts",
        "index MB",
        "agrees",
    )
    lines = []
    for size in setting.sizes:
        base, new = make("tax", size, 0, 0.0), make("tax", INSERTS, size, 0.0)
        for name in SINGLE:
            rule = RULES[name]
            monitor = Monitor(rule.text, key="id", data=base)
            rows = new.select(["id", *rule.columns]).to_pylist()
            full = new.to_pylist()
            spent, added = 0.0, []
            for row in full:
                start = time.perf_counter()
                delta = monitor.apply(row)
                spent += time.perf_counter() - start
                added.append(sum(step.added for step in delta.counts.values()))
            theirs, agrees = float("nan"), True
            if programs() is not None:
                with server() as address:
                    triggers = Triggers(address, rule, base)
                    theirs = triggers.insert(rows[:TRIGGERED]) / TRIGGERED * 1e6
                    agrees = triggers.found() == sum(added[:TRIGGERED])
                    triggers.close()
            anew = []
            for _ in range(3):
                start = time.perf_counter()
                check(base, rule.text, limit=0)
                anew.append((time.perf_counter() - start) * 1e3)
            checked, each = median(anew), spent * 1e6 / INSERTS
            memory = sum(size for part, size in monitor.size_bytes().items() if not part.startswith("rows")) / 2**20
            lines.append((name, size, spent * 1e3, each, theirs, checked, int(checked * 1e3 / each), memory, agrees))
            print(lines[-1], flush=True)
    return "figure 2: 1,000 single inserts (wall)", head, lines


def _figure_4(setting: Setting) -> tuple[str, tuple[str, ...], list[tuple[Any, ...]]]:
    head = ("rule", "violating rows there", "blocks ms", "chains ms", "lt_tree ms", "pairs", "agrees")
    lines = []
    rules = {"GL": "not(t.A > s.A and t.B < s.B)", "GG": "not(t.A > s.A and t.B > s.B)"}
    size = 2_000 if setting.quick else 10_000
    for name, text in rules.items():
        for violating in (0, 100, 1000, 5000):
            rng = np.random.default_rng(violating)
            a = np.arange(size)
            b = a.copy() if name == "GL" else size - a
            wrong = rng.permutation(size)[: min(violating, size // 2)]
            lower = rng.random(wrong.size)
            b[wrong] = (b[wrong] * lower if name == "GL" else b[wrong] + (size - b[wrong]) * lower).astype(np.int64)
            order = rng.permutation(size)
            table = pa.table({"id": np.arange(size), "A": a[order], "B": b[order]})
            spent, pairs = [], set()
            for index in ("blocks", "chains", "lt_tree"):
                monitor = Monitor(text, key="id", index=index)
                start = time.process_time()
                for at in range(0, size, 100):
                    monitor.apply(table.slice(at, 100), limit=0)
                spent.append((time.process_time() - start) * 1e3)
                pairs |= {counts.pairs for counts in monitor.counts().values()}
            lines.append((name, violating, *spent, max(pairs), len(pairs) == 1))
            print(lines[-1], flush=True)
    return "figure 4: 10,000 inserts, 100 a batch (CPU)", head, lines


def _figure_7(setting: Setting) -> tuple[str, tuple[str, ...], list[tuple[Any, ...]]]:
    sizes = (1, 10, 100, 1000, 10_000)
    head = ("rule", "rows", *(f"batch {size}, us a row" for size in sizes))
    lines = []
    for name in ("phi10", "phi12"):
        rule = RULES[name]
        for size in setting.sizes:
            base = make(rule.workload, size, 0, 0.0)
            cells = []
            for batch in sizes:
                monitor = Monitor(rule.text, key="id", data=base)
                count = max(3, min(200, 20_000 // batch))
                new = make(rule.workload, batch * count, size, 0.0)
                spent = []
                for at in range(count):
                    part = new.slice(at * batch, batch)
                    start = time.process_time()
                    monitor.apply(part, limit=0)
                    spent.append((time.process_time() - start) * 1e6 / batch)
                cells.append(median(spent[1:]))
            lines.append((name, size, *cells))
            print(lines[-1], flush=True)
    return "figure 7: batch sizes (CPU)", head, lines


def _figure_8(setting: Setting) -> tuple[str, tuple[str, ...], list[tuple[Any, ...]]]:
    head = ("rule", "rows", "1,000 single deletes ms", "one batch of 1,000 ms", "agrees")
    lines = []
    for name in (*SINGLE, "phi11", "phi12"):
        rule = RULES[name]
        size = max(setting.sizes)
        base = make(rule.workload, size, 0, 0.0)
        gone = np.random.default_rng(8).permutation(size)[:INSERTS]
        keys = base.column("id").to_numpy()[gone]
        one, other = (Monitor(rule.text, key="id", data=base) for _ in range(2))
        spent = 0.0
        for key in keys.tolist():
            start = time.process_time()
            one.apply({"id": key, "op": "delete"})
            spent += time.process_time() - start
        batch = pa.table({"id": keys, "op": ["delete"] * INSERTS})
        start = time.process_time()
        other.apply(batch, feed="ops", op_column="op", limit=0)
        together = (time.process_time() - start) * 1e3
        lines.append((name, size, spent * 1e3, together, one.counts() == other.counts()))
        print(lines[-1], flush=True)
    return "figure 8: deletes (CPU)", head, lines
