"""Paper 001's Exp-4 and Exp-5: the partners of new rows under two inequalities, by |r| and |delta r|.

Fetch and Fetch+ are the paper's (`index/pair_chains.py`, our reading of Algorithms 1 to 3), IEJoin is DuckDB's, of
new rows with old ones both ways and of new ones with each other. FACET cannot be had: in its place stands what it has
to do as well, a check of the whole table from scratch. A batch is what `Monitor.apply` takes for all of it, reading
and keeping included. CPU seconds of all threads, equal counts. Published on other tables, 300,000 rows and 20% more:
Fetch 4 s where IEJoin takes 88 to 397 s and FACET 15 to 81 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue import Monitor, check
from holdstrue.index.pair_chains import PairChains
from holdstrue.operators import Op
from holdstrue.typing import I64
from scenarios.discover_changes import timed
from scenarios.setting import Outcome, Setting, Table, ratio

SHARES = (0.15, 0.2, 0.25, 0.3, 0.4)
DEFAULT_SHARE = 0.2
MINUTES = 43_200
"""Of the month that flights are spread over."""
LATE = 0.01
"""The share of flights that are up to a day late."""


@dataclass(frozen=True)
class Pair:
    """Two inequalities `t.columns[i] ops[i] s.others[i]`, and how chains are oriented so that they are few."""

    name: str
    columns: tuple[str, str]
    ops: tuple[Op, Op]
    others: tuple[str, str]

    @property
    def said(self) -> str:
        """The comparisons as SQL and rules write them."""
        return " and ".join(
            f"t.{own} {op} s.{other}" for own, op, other in zip(self.columns, self.ops, self.others, strict=True)
        )


PAIRS = (
    Pair("Fetch", ("scheduled", "departed"), (Op.LT, Op.GT), ("scheduled", "departed")),
    Pair("Fetch+", ("departed", "arrived"), (Op.LT, Op.GT), ("scheduled", "departed")),
)
"""Flights that overtook another, and flights under way when another should have left and had not."""


def run(setting: Setting) -> Outcome:
    """Both sweeps of both pairs of comparisons."""
    outcome = Outcome()
    base = setting.sizes[len(setting.sizes) // 2]
    by_rows = [(rows, DEFAULT_SHARE) for rows in setting.sizes]
    by_share = [(base, share) for share in SHARES]
    for pair in PAIRS:  # what compiles does so before it counts
        _measured(pair, 5_000, 1_000, Outcome())
    for pair in PAIRS:
        for title, cases in (("rows", by_rows), ("new rows", by_share)):
            table = Table(
                f"{pair.name} by {title}: `{pair.said}`, CPU s",
                ("rows", "new rows", "pairs", "chains", pair.name, "IEJoin", f"IEJoin / {pair.name}",
                 "a batch", "IEJoin / batch", "from scratch", "scratch / batch"),
            )  # fmt: skip
            for rows, share in cases:
                table.rows.append(_measured(pair, rows, int(rows * share), outcome))
            outcome.tables.append(table)
    return outcome


def flights(rows: int, first: int) -> pa.Table:
    """When flights should have left, when they left and when they arrived, in minutes; seeded by size and place."""
    rng = np.random.default_rng([rows, first])
    scheduled = rng.integers(0, MINUTES, rows)
    late = np.where(rng.random(rows) < LATE, rng.integers(0, 1440, rows), rng.exponential(15, rows).astype(np.int64))
    departed = scheduled + late
    arrived = departed + rng.integers(40, 200, rows)
    return pa.table(
        {"id": np.arange(first, first + rows), "scheduled": scheduled, "departed": departed, "arrived": arrived}
    )


def _measured(pair: Pair, rows: int, more: int, outcome: Outcome) -> tuple[Any, ...]:
    old, new = flights(rows, 0), flights(more, rows)
    fetched, rank, chains = _fetch(pair, old, new)
    joined, join = _iejoin(pair, old, new)
    rule = f"not({pair.said})"
    monitor = Monitor(rule, key="id")
    monitor.apply(old, limit=0)
    delta, batch = timed(lambda: monitor.apply(new, limit=0))
    [counts] = delta.counts.values()
    every, scratch = timed(lambda: check(pa.concat_tables([old, new]), rule, limit=0).results[0].counts.pairs)
    [before] = check(old, rule, limit=0).results
    agrees = fetched == joined == counts.added == every - before.counts.pairs
    outcome.records.append(
        {"pair": pair.name, "rows": rows, "new": more, "pairs": fetched, "fetch": chains, "iejoin": join,
         "batch": batch, "scratch": scratch, "agrees": agrees}
    )  # fmt: skip
    return (rows, more, fetched if agrees else "OTHER ANSWER", rank, chains, join, ratio(join, chains), batch,
            ratio(join, batch), scratch, ratio(scratch, batch))  # fmt: skip


def _fetch(pair: Pair, old: pa.Table, new: pa.Table) -> tuple[int, int, float]:
    """How many pairs new rows are in, how many chains there are, and what fetching took."""
    as_t, as_s = (_indexed(old, columns) for columns in (pair.columns, pair.others))
    among = _indexed(new, pair.columns)
    flipped = [op.flipped for op in pair.ops]

    def every() -> int:
        with_old = _count(as_t, pair.ops, _values(new, pair.others))
        of_old = _count(as_s, flipped, _values(new, pair.columns))
        # a row that is its own partner is none: no row of the table is
        return with_old + of_old + _count(among, pair.ops, _values(new, pair.others))

    found, spent = timed(every)
    return found, as_t.rank, spent


def _indexed(table: pa.Table, columns: tuple[str, str]) -> PairChains:
    chains = PairChains(Op.GE, Op.GE)
    chains.insert(np.arange(table.num_rows, dtype=np.int32), _values(table, columns))
    return chains


def _values(table: pa.Table, columns: tuple[str, str]) -> list[I64]:
    return [table.column(name).to_numpy() for name in columns]


def _count(chains: PairChains, ops: Any, values: list[I64]) -> int:
    return sum(len(found) for _, found in chains.fetch_many(ops, values))


def _iejoin(pair: Pair, old: pa.Table, new: pa.Table) -> tuple[int, float]:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for name, table in (("old", old), ("new", new)):
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    asked = " + ".join(
        f"(SELECT count(*) FROM {t} t, {s} s WHERE {pair.said})"
        for t, s in (("old", "new"), ("new", "old"), ("new", "new"))
    )
    found, spent = timed(lambda: connection.execute(f"SELECT {asked}").fetchone())
    return int(found[0]), spent
