"""Everything counted from scratch, by us and by the peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from rules import BenchRule

Found: TypeAlias = dict[str, int]
"""What was counted: `pairs`, `groups`, or both."""


def whole_table(name: str, rule: BenchRule, table: pa.Table, limit: int) -> Callable[[], Found]:
    """A function that counts all violations of a rule; `duckdb_groups` counts violating groups only."""
    kinds = {"holdstrue": _holdstrue, "duckdb": _duckdb, "duckdb_groups": _duckdb_groups, "polars": _polars}
    return kinds[name](rule, table, limit)


def _holdstrue(rule: BenchRule, table: pa.Table, limit: int) -> Callable[[], Found]:
    import holdstrue

    def run() -> Found:
        counts = holdstrue.check(table, rule.text, limit=limit).results[0].counts
        return {"pairs": counts.pairs, "groups": counts.groups}

    return run


def _duckdb(rule: BenchRule, table: pa.Table, limit: int) -> Callable[[], Found]:
    from competitors.duckdb_join import DuckDBJoin, group_by, self_join

    peer = DuckDBJoin((rule,), limit)
    peer.load(table)
    sql = group_by(rule) if rule.grouped else self_join(rule, "base")
    return lambda: {"pairs": int(peer.one(sql)[0])}


def _duckdb_groups(rule: BenchRule, table: pa.Table, limit: int) -> Callable[[], Found]:
    from competitors.duckdb_join import DuckDBJoin, groups_having

    peer = DuckDBJoin((rule,), limit)
    peer.load(table)
    sql = groups_having(rule)
    return lambda: {"groups": int(peer.one(sql)[0])}


def _polars(rule: BenchRule, table: pa.Table, limit: int) -> Callable[[], Found]:
    import polars as pl

    from competitors.polars_join import joined

    frame = pl.DataFrame(pl.from_arrow(table.select(["id", *rule.columns]))).rechunk()
    left = [a for a, _ in rule.equal]
    right = [a for a, _, _ in rule.other]
    n = pl.col("n").cast(pl.Int64)
    if not rule.grouped:
        lazy = frame.lazy()
        pairs = joined(rule, lazy, lazy).filter(pl.col("id") < pl.col("id_s")).select(pl.len())
        return lambda: {"pairs": rule.orders * int(pairs.collect(engine="streaming").item())}
    kinds = frame.lazy().group_by([*left, *right]).agg(pl.len().alias("n"))
    if not right:
        total = kinds.select((n * (n - 1) // 2).sum())
    else:
        groups = kinds.group_by(left).agg(n.sum().alias("n"), (n * n).sum().alias("q"))
        total = groups.select(((n * n - pl.col("q")) // 2).sum())
    return lambda: {"pairs": int(total.collect().item())}
