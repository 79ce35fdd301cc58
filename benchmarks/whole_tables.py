"""What rules about whole tables cost a batch, beside aggregating the table again in DuckDB.

`python benchmarks/whole_tables.py [ROWS]` keeps a monitor over a million rows, applies the same batches to a table in
DuckDB, compares all numbers after every batch, and prints medians as Markdown. DuckDB's time is that of the one query
that computes all measures; applying the changes there is not counted.
"""

from __future__ import annotations

import datetime as dt
import sys
from fractions import Fraction
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from holdstrue import Monitor
from measure import Span, machine, median, timed

START = dt.datetime(2026, 1, 1)
RULES = [
    "count() > 1000", "count(paid) > 10", "sum(cents) between 0 and 1000000000000000", "sum(paid) > 0",
    "max(cents) <= 1000000", "min(cents) >= 0", "fresh(placed) < 52000 weeks",
]  # fmt: skip
QUERY = (
    "select count(*), count(paid), sum(cents), sum(paid::decimal(38, 4)), max(cents), min(cents), max(placed) from rows"
)
SIZES = {1: 200, 1_000: 30, 100_000: 5}
"""Rows of a batch, and how many batches are applied."""


def rows(keys: Any, seed: int) -> pa.Table:
    """Rows with these keys; amounts are quarters, so that a decimal holds the same sum as an exact sum of doubles."""
    chance = np.random.default_rng(seed)
    paid = chance.integers(0, 4_000_000, len(keys)) / 4
    placed = np.datetime64(START, "us") + chance.integers(0, 10**13, len(keys)).astype("timedelta64[us]")
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "cents": pa.array(chance.integers(0, 1_000_000, len(keys)), pa.int64()),
            "paid": pa.array(paid, pa.float64(), mask=chance.random(len(keys)) < 0.1),
            "placed": pa.array(placed, pa.timestamp("us")),
        }
    )


def batch(living: list[int], following: int, size: int, seed: int) -> tuple[pa.Table, list[int], list[int]]:
    """Inserts, updates and deletes, a third each (of one row: in turn); also the keys that come and that go."""
    chance = np.random.default_rng(seed)
    ops = [("insert", "update", "delete")[(seed + at) % 3] for at in range(size)]
    changed = sum(op != "insert" for op in ops)
    old = [living[at] for at in chance.choice(len(living), changed, replace=False)]
    new = list(range(following, following + size - changed))
    keys = iter(old), iter(new)
    chosen = [next(keys[1]) if op == "insert" else next(keys[0]) for op in ops]
    gone = [key for key, op in zip(chosen, ops, strict=True) if op == "delete"]
    return rows(chosen, seed).append_column("op", pa.array(ops)), new, gone


def kept(monitor: Monitor) -> list[Any]:
    """The measures as the monitor keeps them."""
    parts = monitor.facts.measures
    totals = [parts[rule][0] for rule in RULES]
    paid = Fraction(totals[3][1] or 0, 2**1074)
    return [totals[0][0], totals[1][0], totals[2][1], paid, totals[4][1], totals[5][1], totals[6][1]]


def told(row: tuple[Any, ...]) -> list[Any]:
    """The same of a row of DuckDB."""
    newest = (row[6] - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    return [row[0], row[1], int(row[2]), Fraction(row[3]), row[4], row[5], newest]


def main(count: int) -> None:
    """Print the medians of every size of batch."""
    first = rows(np.arange(count), 1)
    monitor, loading = timed(lambda: Monitor(RULES, "id", data=first))
    database = duckdb.connect()
    database.execute("create table rows as select * from first")
    living, following = list(range(count)), count
    print("| rows of a batch | batches | holdstrue: apply | CPU | DuckDB: measures again | CPU | ratio | of CPU |")
    print("|---|---|---|---|---|---|---|---|")
    for size, batches in SIZES.items():
        ours, theirs = list[Span](), list[Span]()
        for number in range(batches):
            changes, new, gone = batch(living, following, size, 7 * size + number)
            following += len(new)
            left = set(gone)
            living = [key for key in living if key not in left] + new if left or new else living
            _, span = timed(partial(monitor.apply, changes, feed="ops", op_column="op", limit=0))
            ours.append(span)
            database.execute("delete from rows where id in (select id from changes)")
            database.execute("insert into rows select id, cents, paid, placed from changes where op != 'delete'")
            found, span = timed(lambda: database.execute(QUERY).fetchall()[0])
            theirs.append(span)
            if kept(monitor) != told(found):
                raise SystemExit(f"{kept(monitor)} is not {told(found)}")
        a, b = (median([span.wall_ms for span in spans]) for spans in (ours, theirs))
        c, d = (median([span.cpu_ms for span in spans]) for spans in (ours, theirs))
        print(
            f"| {size:,} | {batches} | {a:.2f} ms | {c:.2f} ms | {b:.2f} ms | {d:.2f} ms | {b / a:.1f} | {d / c:.1f} |"
        )
    print(f"\nFirst load of {count:,} rows, from memory: {loading.wall_ms:,.0f} ms. All numbers were equal.")
    print("; ".join(f"{name}: {value}" for name, value in machine().items()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
