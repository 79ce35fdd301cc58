"""holdstrue's monitor with each of its indexes."""

from __future__ import annotations

import pyarrow as pa

from holdstrue.detect.delta import Delta
from holdstrue.index.protocol import IndexKind
from holdstrue.monitor.monitor import Monitor
from rules import BenchRule


class Blocks:
    """The default index."""

    index: IndexKind = "blocks"

    def __init__(self, rules: tuple[BenchRule, ...], limit: int) -> None:
        self._limit = limit
        self.monitor = Monitor([{"name": rule.name, "rule": rule.text} for rule in rules], key="id", index=self.index)
        self._names = [rule.name for rule in self.monitor.rules]

    def load(self, base: pa.Table) -> None:
        """Take in the rows there are."""
        self.monitor.apply(base, limit=0, feed="append")

    def insert(self, batch: pa.Table) -> list[int]:
        """From an Arrow batch to the delta, with up to `limit` violations listed."""
        delta = self.monitor.apply(batch, limit=self._limit)
        return [delta.counts[name].added for name in self._names]

    def delete(self, keys: pa.Table) -> list[int]:
        """Delete rows by key."""
        delta: Delta = self.monitor.apply(keys, limit=self._limit)
        return [delta.counts[name].removed for name in self._names]

    def totals(self) -> list[int]:
        """All pairs there are."""
        counts = self.monitor.counts()
        return [counts[name].pairs for name in self._names]


class LTTree(Blocks):
    """Paper 003's index."""

    index: IndexKind = "lt_tree"


class Chains(Blocks):
    """Paper 001's index."""

    index: IndexKind = "chains"
