"""Denial constraints as a kind of a discovery."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from holdstrue.discovery.denials.choose_space import choose_space
from holdstrue.discovery.denials.denial_core import DenialCore
from holdstrue.discovery.denials.measures import DenialRule
from holdstrue.discovery.found import NearMisses
from holdstrue.discovery.held import Held
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.per_table import PerTable
from holdstrue.discovery.work import Work
from holdstrue.monitor.check import check
from holdstrue.rules.model import DC, Rule

FEW = 0.005
"""Share of the pairs that a near miss may lose: in a table of few rows a handful of pairs is no exception."""

MOST_COLUMNS = 64
"""Columns up to which they are compared across: beyond, thousands of comparisons would end any search."""


class DenialKind(PerTable[DenialCore]):
    """Minimal denial constraints."""

    kinds: ClassVar[tuple[str, ...]] = ("dc",)
    called = "denial constraints"

    @classmethod
    def core_of(cls, table: pa.Table, options: DiscoveryOptions, work: Work) -> DenialCore:
        """Search one table."""
        if table.num_columns > MOST_COLUMNS:
            options = replace(options, cross=False)
        space = choose_space(table, options, empty=True)
        return DenialCore.load(table, options, work, space=space, verifier=breaking)

    @classmethod
    def restored(cls, held: Held, name: str, schema: pa.Schema, options: DiscoveryOptions, arrays: Any) -> DenialCore:
        """The core of one table as it was left."""
        rows = held.engine.tables[name].rows.values().select(schema.names)
        return DenialCore.restore(schema, options, arrays, verifier=breaking, table=rows)

    def measures(self, rule: DenialRule) -> dict[str, float]:
        """Support, and what interest is made of."""
        measures: dict[str, float] = {
            "support": rule.support,
            "coverage": round(rule.coverage, 6),
            "succinctness": round(rule.succinctness, 6),
            "interest": round(rule.interest, 6),
        }
        if rule.estimated:
            measures["estimated"] = True
        if self.options.error:
            measures |= {"violations": rule.violations, "error": rule.error}
        return measures

    def implied(self, rule: DenialRule) -> bool:
        """Only rules that no others imply are shown at all."""
        return False

    def unlooked(self, core: DenialCore) -> str | None:
        """Exceptions are counted where pairs are."""
        return super().unlooked(core) if core.method == "evidence" else "not all pairs of rows are counted"

    def near(self, most: int) -> NearMisses:
        """Rules that few of the pairs break."""
        near = super().near(most)
        return NearMisses([miss for miss in near if miss.error <= FEW], near.unlooked)

    def explain(self) -> str:
        """How the rules are kept."""
        return "; ".join(", ".join(core.explain()) for core in self.cores.values())


def breaking(body: DC, table: pa.Table) -> tuple[int, int] | None:
    """The places of two rows that break a rule, found by the detectors."""
    for violation in check(table, [Rule(body, "found")], limit=1):
        return int(violation.t), int(violation.s)
    return None
