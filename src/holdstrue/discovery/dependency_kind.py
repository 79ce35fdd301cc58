"""Keys, FDs and conditional FDs as kinds of a discovery."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa

from holdstrue.discovery.dependencies.approximate import ApproximateCore
from holdstrue.discovery.dependencies.cfds import CfdCore
from holdstrue.discovery.dependencies.core import DependencyCore
from holdstrue.discovery.dependencies.near import NearMiss
from holdstrue.discovery.found import TOO_LITTLE, Found
from holdstrue.discovery.held import Held
from holdstrue.discovery.kind import NEAR_SECONDS, Miss, Near, shown_table
from holdstrue.discovery.options import Options
from holdstrue.discovery.per_table import PerTable
from holdstrue.discovery.work import Work
from holdstrue.rules.model import FD, Body

Core: TypeAlias = DependencyCore | ApproximateCore


class DependencyKind(PerTable[Core]):
    """Minimal keys and FDs."""

    @classmethod
    def core_of(cls, table: pa.Table, options: Options, work: Work) -> Core:
        """Search one table."""
        return _core(options).load(table, options, work)

    @classmethod
    def restored(cls, held: Held, name: str, schema: pa.Schema, options: Options, arrays: Any) -> Core:
        """The core of one table as it was left."""
        return _core(options).restore(schema, options, arrays)

    def found(self) -> list[Found]:
        """The rules now."""
        found = []
        for name, core in self.cores.items():
            for rule in core.rules():
                if self.held.speaks_of_values(name, rule.body) and not self._too_long(rule.body):
                    measures: dict[str, float] = {"support": rule.support, "groups": rule.groups}
                    if self.options.error:
                        measures["error"] = rule.error
                    implied = rule.implied or (rule.implied_by_key and "key" in self.options.kinds)
                    found.append(Found(rule.body, rule.score, measures, shown_table(self.held, name), implied))
        return found

    def _too_long(self, body: Body) -> bool:
        most = self.options.max_predicates
        return most is not None and isinstance(body, FD) and len(body.lhs) + 1 > most

    def near(self, most: int) -> Near:
        """Rules that a few rows break, each of them with a row that it disagrees with."""
        misses, unlooked = [], []
        for name, core in self.cores.items():
            if not core.complete:
                unlooked.append(f"keys and FDs of {name}: the search for those that hold did not end")
                continue
            found, whole = core.near_misses(most, Work.lasting(NEAR_SECONDS, threads=self.options.threads))
            if not whole:
                unlooked.append(f"keys and FDs of {name}: not all, {NEAR_SECONDS:g} seconds were over")
            misses += [Miss(m.body, len(m.suspects), m.error, m.witnesses, (), name, _measures(m)) for m in found]
        return Near(tuple(misses), tuple(unlooked))

    def explain(self) -> str:
        """How the rules are kept."""
        size = sum(core.size_bytes() for core in self.cores.values())
        return f"partitions, and pairs of rows that show what does not hold ({size:,} bytes)"


class ConditionKind(PerTable[CfdCore]):
    """Conditional FDs, where an FD does not hold as a whole."""

    unbroken = TOO_LITTLE

    @classmethod
    def core_of(cls, table: pa.Table, options: Options, work: Work) -> CfdCore:
        """Search one table."""
        return CfdCore.load(table, options, work)

    @classmethod
    def restored(cls, held: Held, name: str, schema: pa.Schema, options: Options, arrays: Any) -> CfdCore:
        """The core of one table as it was left."""
        return CfdCore.restore(schema, options, arrays)

    def found(self) -> list[Found]:
        """The rules now."""
        return [
            Found(
                rule.body,
                rule.score,
                {"rows": rule.rows, "support": rule.support, "confidence": rule.confidence},
                shown_table(self.held, name),
                rule.implied,
            )
            for name, core in self.cores.items()
            for rule in core.rules()
        ]

    def near(self, most: int) -> Near:
        """None: rules with a confidence below 1 are found as such."""
        return Near(unlooked=("conditional FDs: those with exceptions are found with a confidence below 1",))

    def explain(self) -> str:
        """How the rules are kept."""
        size = sum(core.size_bytes() for core in self.cores.values())
        return f"patterns of FDs that do not hold as a whole ({size:,} bytes)"


def _measures(miss: NearMiss) -> dict[str, float]:
    return {"score": round(miss.score, 4), "pairs": miss.pairs, "support": miss.support}


def _core(options: Options) -> type[DependencyCore] | type[ApproximateCore]:
    return ApproximateCore if options.error else DependencyCore
