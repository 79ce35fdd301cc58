"""Everything counted from scratch, by us and by the peers."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from rules import BenchRule


def whole_table(name: str, rule: BenchRule, table: pa.Table, limit: int) -> Callable[[], int]:
    """A function that counts all violations of a rule: pairs, or groups for `duckdb_groups`."""
    kinds = {"holdstrue": _holdstrue, "duckdb": _duckdb, "duckdb_groups": _duckdb_groups, "polars": _polars}
    return kinds[name](rule, table, limit)


def _holdstrue(rule: BenchRule, table: pa.Table, limit: int) -> Callable[[], int]:
    import holdstrue

    return lambda: holdstrue.check(table, rule.text, limit=limit).results[0].counts.pairs


def _duckdb(rule: BenchRule, table: pa.Table, limit: int) -> Callable[[], int]:
    from competitors.duckdb_join import DuckDBJoin, group_by, self_join

    peer = DuckDBJoin((rule,), limit)
    peer.load(table)
    sql = group_by(rule) if rule.grouped else self_join(rule, "base")
    return lambda: int(peer.one(sql)[0])


def _duckdb_groups(rule: BenchRule, table: pa.Table, limit: int) -> Callable[[], int]:
    from competitors.duckdb_join import DuckDBJoin, groups_having

    peer = DuckDBJoin((rule,), limit)
    peer.load(table)
    sql = groups_having(rule)
    return lambda: int(peer.one(sql)[0])


def _polars(rule: BenchRule, table: pa.Table, limit: int) -> Callable[[], int]:
    import polars as pl

    from competitors.polars_join import joined

    frame = pl.DataFrame(pl.from_arrow(table.select(["id", *rule.columns]))).rechunk()
    left = [a for a, _ in rule.equal]
    right = [a for a, _, _ in rule.other]
    n = pl.col("n").cast(pl.Int64)
    if not rule.grouped:
        lazy = frame.lazy()
        pairs = joined(rule, lazy, lazy).filter(pl.col("id") < pl.col("id_s")).select(pl.len())
        return lambda: rule.orders * int(pairs.collect(engine="streaming").item())
    kinds = frame.lazy().group_by([*left, *right]).agg(pl.len().alias("n"))
    if not right:
        total = kinds.select((n * (n - 1) // 2).sum())
    else:
        groups = kinds.group_by(left).agg(n.sum().alias("n"), (n * n).sum().alias("q"))
        total = groups.select(((n * n - pl.col("q")) // 2).sum())
    return lambda: int(total.collect().item())
