"""DuckDB: a native table; the delta joined with it and with itself, or everything counted anew."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from rules import BenchRule


def pair_count(rule: BenchRule, delta: str = "delta", base: str = "base") -> str:
    """SQL for the violating pairs of the delta with the base (which does not hold it) and with itself."""
    both = "" if rule.symmetric else f" OR ({_other(rule, 'b', 'd')})"
    with_base = f"SELECT count(*) FROM {delta} d JOIN {base} b ON {_equal(rule, 'd', 'b')}"
    if rule.other:
        with_base += f" AND (({_other(rule, 'd', 'b')}){both})"
    return f"{rule.orders} * ({with_base}) + ({self_join(rule, delta)})"


def self_join(rule: BenchRule, table: str) -> str:
    """SQL for the violating pairs of a table with itself."""
    apart = "t.id < s.id" if rule.symmetric else "t.id <> s.id"
    other = f" AND {_other(rule, 't', 's')}" if rule.other else ""
    return (
        f"SELECT {rule.orders} * count(*) FROM {table} t JOIN {table} s ON {_equal(rule, 't', 's')}{other} AND {apart}"
    )


def group_by(rule: BenchRule, table: str = "base") -> str:
    """SQL for all violating pairs of a key or an FD, from the sizes of its groups."""
    left = ", ".join(a for a, _ in rule.equal)
    if not rule.other:
        inner = f"SELECT count(*) AS n FROM {table} GROUP BY {left}"
        return f"SELECT coalesce(sum(n * (n - 1) // 2), 0)::BIGINT FROM ({inner})"
    right = ", ".join(a for a, _, _ in rule.other)
    kinds = f"SELECT {left}, count(*) AS n FROM {table} GROUP BY {left}, {right}"
    groups = f"SELECT sum(n) AS n, sum(n * n) AS q FROM ({kinds}) GROUP BY {left}"
    return f"SELECT coalesce(sum((n * n - q) // 2), 0)::BIGINT FROM ({groups})"


def groups_having(rule: BenchRule, table: str = "base") -> str:
    """SQL for the number of violating groups alone, which needs one GROUP BY."""
    left = ", ".join(a for a, _ in rule.equal)
    having = " OR ".join(f"min({a}) <> max({a})" for a, _, _ in rule.other) or "count(*) > 1"
    return f"SELECT count(*) FROM (SELECT 1 FROM {table} GROUP BY {left} HAVING {having})"


def _equal(rule: BenchRule, t: str, s: str) -> str:
    return " AND ".join(f"{t}.{a} = {s}.{b}" for a, b in rule.equal)


def _other(rule: BenchRule, t: str, s: str) -> str:
    return " AND ".join(f"{t}.{a} {op} {s}.{b}" for a, op, b in rule.other)


class DuckDBJoin:
    """Joins the delta with the base table, then appends it."""

    def __init__(self, rules: tuple[BenchRule, ...], _limit: int) -> None:
        self._rules = rules
        self._columns = ", ".join(dict.fromkeys(("id", *(c for rule in rules for c in rule.columns))))
        self._db = duckdb.connect()

    def load(self, base: pa.Table) -> None:
        """Copy the needed columns into a native table."""
        self._db.register("arrow", base)
        self._db.execute(f"CREATE TABLE base AS SELECT {self._columns} FROM arrow")
        self._db.unregister("arrow")

    def insert(self, batch: pa.Table) -> list[int]:
        """Join and append."""
        self._db.register("arrow", batch)
        # a native table, so that the planner knows which side is small
        self._db.execute(f"CREATE OR REPLACE TEMP TABLE delta AS SELECT {self._columns} FROM arrow")
        counts = self._count()
        self._db.execute("INSERT INTO base SELECT * FROM delta")
        self._db.unregister("arrow")
        return counts

    def delete(self, keys: pa.Table) -> list[int]:
        """Delete and join."""
        self._db.register("arrow", keys)
        self._db.execute(
            f"CREATE OR REPLACE TEMP TABLE delta AS SELECT {self._columns} FROM base WHERE id IN (SELECT id FROM arrow)"
        )
        self._db.execute("DELETE FROM base WHERE id IN (SELECT id FROM arrow)")
        self._db.unregister("arrow")
        return self._count()

    def _count(self) -> list[int]:
        parts = ", ".join(pair_count(rule) for rule in self._rules)
        return [int(value) for value in self.one(f"SELECT {parts}")]

    def one(self, sql: str) -> tuple[Any, ...]:
        """The only row of a query."""
        row: tuple[Any, ...] = self._db.execute(sql).fetchall()[0]
        return row


class DuckDBRecompute(DuckDBJoin):
    """Appends the delta and counts everything again."""

    def _count(self) -> list[int]:
        return []

    def _totals(self) -> list[int]:
        sql = [group_by(rule) if rule.grouped else self_join(rule, "base") for rule in self._rules]
        return [int(self.one(part)[0]) for part in sql]

    def insert(self, batch: pa.Table) -> list[int]:
        """Append and count."""
        super().insert(batch)
        return self._totals()

    def delete(self, keys: pa.Table) -> list[int]:
        """Delete and count."""
        super().delete(keys)
        return self._totals()
