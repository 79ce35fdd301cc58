"""One row a call in memory, beside SQLite with an index, in turns: `python benchmarks/single_rows.py --rows 200000`.

Both count the violating pairs that each row brings (SQLite by the query of a trigger), and the sums are compared.
CPU time of the calling thread, medians; the machine's load is written beside them.
"""

from __future__ import annotations

import argparse
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from measure import machine

RULES = {
    "key": ("key(area, phone)", "b.area = :area and b.phone = :phone", ("area", "phone")),
    "FD": ("zip -> city", "b.zip = :zip and b.city <> :city", ("zip", "city")),
    "order (phi10)": (
        "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)",
        "b.state = :state and ((b.salary < :salary and b.rate > :rate) or (b.salary > :salary and b.rate < :rate))",
        ("state", "salary", "rate"),
    ),
}
MANY = [f"{left}, {more} -> {right}" for left in ("zip", "phone", "id") for more in ("area", "salary", "rate", "id")
        for right in ("city", "state", "zip", "phone", "area", "salary", "rate", "id")
        if len({left, more, right}) == 3]  # fmt: skip
TURN = 20


def row(i: int, often: bool = False) -> dict[str, Any]:
    """Clean rows: pay and rate rise together, a zip has one city; every 50th, or two of three, break each rule."""
    area, zip_ = i % 7, i // 20
    dirty = i % 3 != 0 if often else i % 50 == 49
    return {
        "id": i, "area": area, "phone": f"{i - 7 * dirty:07d}", "zip": f"{zip_:05d}",
        "city": "elsewhere" if dirty else f"city {zip_ % 5000}", "state": f"S{zip_ % 50}", "salary": i,
        "rate": float(i - (13 if often else 30_000) * dirty),
    }  # fmt: skip


def added(monitor: Any, change: Any) -> int:
    """How many violations of the one rule a change adds."""
    return int(next(iter(monitor.apply(change).counts.values())).added)


def main() -> int:
    """Measure every rule; 1 if the answers differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--save")
    args = parser.parse_args()
    import holdstrue

    base = pa.Table.from_pylist([row(i) for i in range(args.rows)])
    coming = range(args.rows, args.rows + args.changes)
    new, breaking = [row(i) for i in coming], [row(i, often=True) for i in coming]
    lines = [f"# single rows, {args.rows:,} rows", "", ", ".join(f"{k} {v}" for k, v in machine().items()), ""]
    lines += ["| rules | broken by | holdstrue, dict us | holdstrue, Arrow us | SQLite us | dict / SQLite | pairs |"]
    lines += ["|---|---|---|---|---|---|---|"]
    wrong = False
    for (name, (rule, where, columns)), often in product(RULES.items(), (False, True)):
        rows = breaking if often else new
        monitors = [holdstrue.Monitor(rule, key="id", data=base) for _ in range(2)]
        sqlite = sqlite3.connect(":memory:", isolation_level=None)
        sqlite.execute(f"create table t ({', '.join(base.column_names)})")
        marks = ", ".join(f":{column}" for column in base.column_names)
        sqlite.execute("begin")
        sqlite.executemany(f"insert into t values ({marks})", base.to_pylist())
        sqlite.execute("commit")
        sqlite.execute(f"create index by_rule on t ({', '.join(columns)})")

        def asked(given: dict[str, Any], base: Any = sqlite, where: str = where, marks: str = marks) -> int:
            [count] = base.execute(f"select count(*) from t b where {where}", given).fetchone()
            base.execute(f"insert into t values ({marks})", given)
            return int(count)

        tables = [pa.Table.from_pylist([given], schema=base.schema) for given in rows]
        ways: list[tuple[Callable[[Any], int], Sequence[Any]]] = [
            (partial(added, monitors[0]), rows),
            (partial(added, monitors[1]), tables),
            (asked, rows),
        ]
        spent: list[list[int]] = [[] for _ in ways]
        found = [0] * len(ways)
        for start in range(0, len(rows), TURN):
            for at, (work, given) in enumerate(ways):
                for one in given[start : start + TURN]:
                    began = time.thread_time_ns()
                    found[at] += work(one)
                    spent[at].append(time.thread_time_ns() - began)
        times = [median(some[50:]) / 1000 for some in spent]
        wrong |= len(set(found)) > 1
        shown = " | ".join(f"{value:.1f}" for value in times)
        broken = "two of three rows" if often else "every 50th row"
        lines.append(f"| {name} | {broken} | {shown} | {times[0] / times[2]:.2f} | {found} |")
        print(lines[-1], flush=True)
    monitor = holdstrue.Monitor(MANY, key="id", data=base.slice(0, 20_000))
    spent_many = []
    for record in new:
        began = time.thread_time_ns()
        monitor.apply(record)
        spent_many.append(time.thread_time_ns() - began)
    lines.append(
        f"| {len(MANY)} FDs, 20,000 rows | every 50th row | {median(spent_many[50:]) / 1000:.1f} | - | - | - | - |"
    )
    print(lines[-1], flush=True)
    if args.save:
        (Path(__file__).parent / "results" / f"{args.save}.md").write_text("\n".join(lines) + "\n")
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
