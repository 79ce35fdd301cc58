"""Batches of all sizes against a check of the table they leave behind, and against a monitor made anew of it.

Inserts, updates and deletes of one row to all rows of the base, one rule at a time; of the rule of order also updates
that swap salaries, so that very many pairs break it. CPU time; all counts are compared before a time counts.
A check is given the table as it is after the batch: what it takes to make it of base and batch by Arrow's joins is told
beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue import Monitor, check
from measure import median
from scenarios.setting import Outcome, Setting, Table

RULES = {
    "key": "key(area, phone)",
    "FD": "zip -> city",
    "few groups": "state, has_child -> exemption",
    "order": "not(t.state = s.state and t.salary > s.salary and t.tax < s.tax)",
}
SHARES = (0.0, 0.001, 0.01, 0.1, 0.5, 1.0)
KINDS = ("insert", "update", "delete", "swap")


@dataclass
class Columns:
    """A table as arrays, so that what a batch leaves behind is made without us."""

    values: dict[str, Any]

    def table(self, rows: Any) -> pa.Table:
        """Some rows."""
        return pa.table({name: column[rows] for name, column in self.values.items()})


def run(setting: Setting) -> Outcome:
    """Every rule, kind and size."""
    head = (
        "rule",
        "kind",
        "rows",
        "batch",
        "open",
        "apply ms",
        "check ms",
        "monitor ms",
        "merge ms",
        "/ check",
        "/ monitor",
        "/ (merge + check)",
        "/ (merge + monitor)",
        "agrees",
    )
    rows = []
    wanted = [name for name in setting.rules.split(",") if name in RULES] or list(RULES)
    for size in setting.sizes:
        for name in wanted:
            for kind in KINDS if name == "order" else KINDS[:3]:
                for share in SHARES:
                    line = _line(name, kind, size, max(1, int(size * share)))
                    print(line, flush=True)
                    rows.append(line)
    records = [dict(zip(head, row, strict=True)) for row in rows]
    return Outcome([Table("batches of all sizes (CPU)", head, rows)], records)


def _columns(size: int) -> Columns:
    """Twice as many rows as the base has: the second half are those to come."""
    rng = np.random.default_rng(size)
    row = np.arange(2 * size)
    state, salary = rng.integers(0, 50, 2 * size), rng.integers(10_000, 200_000, 2 * size)
    zip_code = rng.integers(0, size // 20 + 1, 2 * size)
    return Columns({
        "id": row, "area": row % 700, "phone": row // 700, "zip": zip_code, "city": zip_code % 9_000, "state": state,
        "has_child": row % 2, "exemption": state * 2 + row % 2, "salary": salary, "tax": salary // 10,
    })  # fmt: skip


def _line(name: str, kind: str, size: int, count: int) -> tuple[Any, ...]:
    columns, rule = _columns(size), RULES[name]
    rng = np.random.default_rng(count)
    base, own = columns.table(slice(0, size)), rng.permutation(size)[:count]
    if kind == "insert":
        batch, after = columns.table(slice(size, size + count)), columns.table(slice(0, size + count))
        op = "insert"
    elif kind == "delete":
        batch, after = pa.table({"id": own}), columns.table(np.setdiff1d(np.arange(size), own))
        op = "delete"
    else:
        _change(columns, own, kind, rng)
        batch, after, op = columns.table(own), columns.table(slice(0, size)), "update"
    batch = batch.append_column("_op", pa.array([op] * count))
    spent: dict[str, list[float]] = {"apply": [], "check": [], "monitor": [], "merge": []}
    answers: set[int] = set()
    for turn in range(3):
        monitor = Monitor(rule, key="id", data=base)
        # whoever is first after a table was loaded has its memory given by the system
        _checked(after, rule)

        def apply(monitor: Monitor = monitor) -> int:
            [step] = monitor.apply(batch, limit=0, op_column="_op", feed="ops").counts.values()
            return step.open

        for way, work in {
            "apply": apply,
            "check": lambda: _checked(after, rule),
            "monitor": lambda: _made(after, rule),
            "merge": lambda: _merged(base, batch, op),
        }.items():
            ms, answer = _cpu(work)
            answers.add(answer if way != "merge" else answer - after.num_rows + max(answers))
            if turn:
                spent[way].append(ms)
    applied, checked, made, merged = (median(some) for some in spent.values())
    return (
        name,
        kind,
        size,
        count,
        max(answers),
        applied,
        checked,
        made,
        merged,
        applied / checked,
        applied / made,
        applied / (merged + checked),
        applied / (merged + made),
        len(answers) == 1,
    )


def _change(columns: Columns, own: Any, kind: str, rng: np.random.Generator) -> None:
    """Other values in some rows: as clean as before, or salaries swapped, so that pairs break the rule of order."""
    values = columns.values
    if kind == "swap":
        values["salary"] = values["salary"].copy()
        values["salary"][own] = np.roll(values["salary"][own], 1)
        return
    zip_code, salary = rng.integers(0, len(values["id"]) // 40 + 1, own.size), rng.integers(10_000, 200_000, own.size)
    values["zip"][own], values["city"][own] = zip_code, zip_code % 9_000
    values["salary"][own], values["tax"][own] = salary, salary // 10
    # a thousandth of the rows is wrong
    values["city"][own[::1000]] += 1
    values["tax"][own[::1000]] += 3


def _merged(base: pa.Table, batch: pa.Table, op: str) -> int:
    """Rows of the table after the batch, made by Arrow's joins: what a check anew has to be given.

    A key that is inserted twice is an error, as for a monitor, so that inserts have to be looked for too.
    """
    keys = batch.select(["id"])
    if op == "insert":
        known = keys.join(base.select(["id"]), "id", join_type="left semi", use_threads=False)
        if known.num_rows:
            raise ValueError("a row is there already")
        stay = base
    else:
        stay = base.join(keys, "id", join_type="left anti", use_threads=False)
    return stay.num_rows if op == "delete" else pa.concat_tables([stay, batch.select(base.column_names)]).num_rows


def _checked(table: pa.Table, rule: str) -> int:
    [result] = check(table, rule, limit=0).results
    return result.counts.open


def _made(table: pa.Table, rule: str) -> int:
    [counts] = Monitor(rule, key="id", data=table).counts().values()
    return counts.open


def _cpu(work: Callable[[], int]) -> tuple[float, int]:
    start = time.process_time()
    answer = work()
    return (time.process_time() - start) * 1e3, answer
