"""Denial constraints as a kind of a discovery."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from holdstrue.discovery.budget import Budget
from holdstrue.discovery.denial import DenialCore, DenialOptions
from holdstrue.discovery.found import Found
from holdstrue.discovery.kind import Miss, Work, shown_table
from holdstrue.discovery.options import Options
from holdstrue.discovery.per_table import PerTable
from holdstrue.discovery.predicates import SpaceOptions


class DenialKind(PerTable[DenialCore]):
    """Minimal denial constraints."""

    @classmethod
    def core_of(cls, table: pa.Table, options: Options, work: Work) -> DenialCore:
        """Search one table."""
        budget = Budget(work.deadline, options.threads or 0, work.progress)
        return DenialCore.load(table, _core_options(options), budget)

    @classmethod
    def restored(cls, schema: pa.Schema, options: Options, arrays: Any) -> DenialCore:
        """The core of one table as it was left."""
        return DenialCore.restore(schema, _core_options(options), arrays, Budget(threads=options.threads or 0))

    def found(self) -> list[Found]:
        """The rules now."""
        return [
            Found(body, 0.5, {}, shown_table(self.held, name))
            for name, core in self.cores.items()
            for body in core.rules()
            if self.held.speaks_of_values(name, body)
        ]

    def near(self, most: int) -> list[Miss]:
        """Rules that a few pairs break."""
        return []

    def explain(self) -> str:
        """How the rules are kept."""
        return "counted evidences"


def _core_options(options: Options) -> DenialOptions:
    space = SpaceOptions(cross=options.cross, share=options.shared, empty=True, nulls=options.nulls)
    return DenialOptions(space, options.max_predicates)
