"""Denial constraints as a kind of a discovery."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from holdstrue.discovery.denials.choice import choose_space
from holdstrue.discovery.denials.core import DenialCore
from holdstrue.discovery.found import Found
from holdstrue.discovery.held import Held
from holdstrue.discovery.kind import NEAR_SECONDS, Miss, Near, shown_table
from holdstrue.discovery.options import Options
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

    @classmethod
    def core_of(cls, table: pa.Table, options: Options, work: Work) -> DenialCore:
        """Search one table."""
        if table.num_columns > MOST_COLUMNS:
            options = replace(options, cross=False)
        space = choose_space(table, options, empty=True)
        return DenialCore.load(table, options, work, space=space, verifier=breaking)

    @classmethod
    def restored(cls, held: Held, name: str, schema: pa.Schema, options: Options, arrays: Any) -> DenialCore:
        """The core of one table as it was left."""
        rows = held.engine.tables[name].rows.values().select(schema.names)
        return DenialCore.restore(schema, options, arrays, verifier=breaking, table=rows)

    def found(self) -> list[Found]:
        """The rules now."""
        found = []
        for name, core in self.cores.items():
            for rule in core.rules():
                if self.held.speaks_of_values(name, rule.body):
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
                    found.append(Found(rule.body, rule.score, measures, shown_table(self.held, name)))
        return found

    def near(self, most: int) -> Near:
        """Rules that a few pairs break; none where pairs are not counted."""
        misses, unlooked = [], []
        for name, core in self.cores.items():
            if core.method != "evidence":
                unlooked.append(f"denial constraints of {name}: not all pairs of rows are counted")
                continue
            if not core.complete:
                unlooked.append(f"denial constraints of {name}: the search for those that hold did not end")
                continue
            found, whole = core.near_misses(most, Work.lasting(NEAR_SECONDS, threads=self.options.threads))
            if not whole:
                unlooked.append(f"denial constraints of {name}: not all, {NEAR_SECONDS:g} seconds were over")
            for miss in found:
                rule = miss.rule
                if rule.error > FEW:
                    continue
                measures = {"score": round(rule.score, 4), "support": rule.support}
                misses.append(Miss(rule.body, len(miss.pairs), rule.error, miss.pairs, (), name, measures))
        return Near(tuple(misses), tuple(unlooked))

    def explain(self) -> str:
        """How the rules are kept."""
        return "; ".join(", ".join(core.explain()) for core in self.cores.values())


def breaking(body: DC, table: pa.Table) -> tuple[int, int] | None:
    """The places of two rows that break a rule, found by the detectors."""
    for violation in check(table, [Rule(body, "found")], limit=1):
        return int(violation.t), int(violation.s)
    return None
