"""Polars: data frames; the delta joined with the base and with itself."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa

from rules import BenchRule

_COMPARE = {"!=": "ne", "<": "lt", ">": "gt"}


def joined(rule: BenchRule, delta: Any, base: Any) -> Any:
    """Pairs of a row of the delta and one of the base in which `other` holds in either role."""
    return delta.join(
        base,
        left_on=[a for a, _ in rule.equal],
        right_on=[b for _, b in rule.equal],
        how="inner",
        suffix="_s",
        coalesce=False,
    ).filter(_either(rule))


def _either(rule: BenchRule) -> Any:
    forward = [getattr(pl.col(a), _COMPARE[op])(pl.col(f"{b}_s")) for a, op, b in rule.other]
    if rule.symmetric:
        return pl.all_horizontal(forward) if forward else pl.lit(True)
    backward = [getattr(pl.col(f"{a}_s"), _COMPARE[op])(pl.col(b)) for a, op, b in rule.other]
    return pl.all_horizontal(forward) | pl.all_horizontal(backward)


class PolarsJoin:
    """Joins the delta with the base frame, then appends it."""

    def __init__(self, rules: tuple[BenchRule, ...], _limit: int) -> None:
        self._rules = rules
        self._columns = list(dict.fromkeys(("id", *(c for rule in rules for c in rule.columns))))
        self._base = pl.DataFrame()

    def _frame(self, table: pa.Table) -> Any:
        return pl.DataFrame(pl.from_arrow(table.select(self._columns)))

    def load(self, base: pa.Table) -> None:
        """Take in the rows there are."""
        self._base = self._frame(base).rechunk()

    def insert(self, batch: pa.Table) -> list[int]:
        """Join and append."""
        delta = self._frame(batch)
        counts = self._count(delta)
        self._base = self._base.vstack(delta)
        return counts

    def delete(self, keys: pa.Table) -> list[int]:
        """Delete and join."""
        gone = pl.DataFrame(pl.from_arrow(keys.select(["id"])))
        delta = self._base.join(gone, on="id", how="semi")
        self._base = self._base.join(gone, on="id", how="anti")
        return self._count(delta)

    def _count(self, delta: Any) -> list[int]:
        counts = []
        for rule in self._rules:
            kept = ["id", *rule.columns]
            own, base = delta.lazy().select(kept), self._base.lazy().select(kept)
            # each pair of the delta with itself comes twice; one of the two has the smaller id first
            within = joined(rule, own, own).filter(pl.col("id") < pl.col("id_s"))
            queries = [joined(rule, own, base).select(pl.len()), within.select(pl.len())]
            counts.append(rule.orders * sum(int(frame.item()) for frame in pl.collect_all(queries)))
        return counts
