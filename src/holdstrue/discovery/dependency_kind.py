"""Keys, FDs and conditional FDs as kinds of a discovery."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from holdstrue.discovery.dependencies.approximate_core import ApproximateCore
from holdstrue.discovery.dependencies.cfd_core import CfdCore, ConditionalRule
from holdstrue.discovery.dependencies.dependency_core import DependencyCore
from holdstrue.discovery.dependencies.ranking import Dependency
from holdstrue.discovery.found import TOO_LITTLE, NearMisses
from holdstrue.discovery.held import Held
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.per_table import PerTable
from holdstrue.discovery.work import Work
from holdstrue.rules.model import FD, Body

Core: TypeAlias = DependencyCore | ApproximateCore


class DependencyKind(PerTable[Core]):
    """Minimal keys and FDs."""

    kinds: ClassVar[tuple[str, ...]] = ("fd", "key")
    called = "keys and FDs"

    @classmethod
    def core_of(cls, table: pa.Table, options: DiscoveryOptions, work: Work) -> Core:
        """Search one table."""
        return _core(options).load(table, options, work)

    @classmethod
    def restored(cls, held: Held, name: str, schema: pa.Schema, options: DiscoveryOptions, arrays: Any) -> Core:
        """The core of one table as it was left."""
        return _core(options).restore(schema, options, arrays)

    def measures(self, rule: Dependency) -> dict[str, float]:
        """How many rows speak for a rule."""
        measures: dict[str, float] = {"support": rule.support, "groups": rule.groups}
        return measures | {"error": rule.error} if self.options.error else measures

    def implied(self, rule: Dependency) -> bool:
        """By transitivity, or by a key that is shown too."""
        return rule.implied or (rule.implied_by_key and "key" in self.options.kinds)

    def shows(self, table: str, body: Body) -> bool:
        """Keys of as many columns may be longer than FDs."""
        most = self.options.max_predicates
        too_long = most is not None and isinstance(body, FD) and len(body.lhs) + 1 > most
        return super().shows(table, body) and not too_long

    def explain(self) -> str:
        """How the rules are kept."""
        size = sum(core.size_bytes() for core in self.cores.values())
        return f"partitions, and pairs of rows that show what does not hold ({size:,} bytes)"


class ConditionKind(PerTable[CfdCore]):
    """Conditional FDs, where an FD does not hold as a whole."""

    kinds: ClassVar[tuple[str, ...]] = ("cfd",)
    called = "conditional FDs"
    unbroken = TOO_LITTLE

    @classmethod
    def core_of(cls, table: pa.Table, options: DiscoveryOptions, work: Work) -> CfdCore:
        """Search one table."""
        return CfdCore.load(table, options, work)

    @classmethod
    def restored(cls, held: Held, name: str, schema: pa.Schema, options: DiscoveryOptions, arrays: Any) -> CfdCore:
        """The core of one table as it was left."""
        return CfdCore.restore(schema, options, arrays)

    def measures(self, rule: ConditionalRule) -> dict[str, float]:
        """How many rows speak for a rule, and the share that keeps to it."""
        return {"rows": rule.rows, "support": rule.support, "confidence": rule.confidence}

    def near(self, most: int) -> NearMisses:
        """None: rules with a confidence below 1 are found as such."""
        return NearMisses(unlooked=("conditional FDs: those with exceptions are found with a confidence below 1",))

    def explain(self) -> str:
        """How the rules are kept."""
        size = sum(core.size_bytes() for core in self.cores.values())
        return f"patterns of FDs that do not hold as a whole ({size:,} bytes)"


def _core(options: DiscoveryOptions) -> type[DependencyCore] | type[ApproximateCore]:
    return ApproximateCore if options.error else DependencyCore
