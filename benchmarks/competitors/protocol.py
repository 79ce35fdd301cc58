"""What a competitor does: hold a table and say how many violating pairs each batch adds or removes."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

import pyarrow as pa

from rules import BenchRule


class Competitor(Protocol):
    """A table under changes. Counts are by rule, in the order of the rules."""

    def load(self, base: pa.Table) -> None:
        """Take in the rows there are before the first batch."""

    def insert(self, batch: pa.Table) -> list[int]:
        """Append the rows; pairs they add (or, for `recompute`, all pairs afterwards)."""

    def delete(self, keys: pa.Table) -> list[int]:
        """Delete rows by key; pairs they take along (or all pairs afterwards)."""


_HOMES = {
    "holdstrue": ("competitors.monitors", "Blocks"),
    "lt_tree": ("competitors.monitors", "LTTree"),
    "chains": ("competitors.monitors", "Chains"),
    "duckdb": ("competitors.duckdb_join", "DuckDBJoin"),
    "duckdb_recompute": ("competitors.duckdb_join", "DuckDBRecompute"),
    "polars": ("competitors.polars_join", "PolarsJoin"),
}

RECOMPUTES = ("duckdb_recompute",)
"""Competitors that answer with all pairs, not with those of the batch."""


def competitor(name: str, rules: tuple[BenchRule, ...], limit: int) -> Competitor:
    """A new competitor; its libraries are imported only here, so each process has just its own."""
    module, cls = _HOMES[name]
    return cast(Competitor, getattr(import_module(module), cls)(rules, limit))
