"""Kinds of rules within tables, one core a table: denial constraints; keys, FDs and conditional FDs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from holdstrue.discovery.denials.choose_space import choose_space
from holdstrue.discovery.denials.denial_core import DenialCore
from holdstrue.discovery.denials.measures import DenialRule
from holdstrue.discovery.dependencies.approximate_core import ApproximateCore
from holdstrue.discovery.dependencies.cfd_core import CfdCore, ConditionalRule
from holdstrue.discovery.dependencies.dependency_core import DependencyCore
from holdstrue.discovery.dependencies.ranking import Dependency
from holdstrue.discovery.found import (
    BROKEN,
    FEW_ROWS,
    SMALLER,
    STOPPED,
    TOO_LITTLE,
    Died,
    FoundRule,
    NearMiss,
    NearMisses,
    RuleTurnover,
)
from holdstrue.discovery.held import Held, SlotChanges
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.index.arrays import nested
from holdstrue.index.checked import Checked
from holdstrue.rules.model import FD, Body
from holdstrue.state.files import Arrays
from holdstrue.typing import I64


class Core(Protocol):
    """What finds the rules of one table."""

    @property
    def complete(self) -> bool:
        """Whether nothing was left out."""

    @property
    def length(self) -> int | None:
        """Up to which length all rules were found; None: all there are."""

    @property
    def slots(self) -> int:
        """How many slots were given out: the next row gets this one."""

    def living(self) -> I64:
        """The slots of the rows that are there, ascending."""

    def apply(self, removed: I64, added: pa.Table, work: Work) -> RuleTurnover:
        """Follow a batch."""

    def rules(self) -> tuple[Any, ...]:
        """The rules now, each with a body and a score."""

    def near_misses(self, most: int, work: Work) -> tuple[tuple[NearMiss, ...], bool]:
        """Rules that a few rows break; and whether all were looked for."""

    def snapshot(self) -> Any:
        """As plain arrays."""


C = TypeVar("C", bound=Core)


@dataclass(eq=False)
class PerTable(ABC, Generic[C]):
    """Cores by table."""

    kinds: ClassVar[tuple[str, ...]]
    called: ClassVar[str]
    """The rules in a word or two, for notes."""
    unbroken: ClassVar[str] = SMALLER
    """Why a rule dies that nothing breaks."""
    measured: ClassVar[str] = "columns on the left"
    """What the length of a rule is counted in."""
    few: ClassVar[float] = 1.0
    """The share of pairs, or of rows, that may break a near miss."""

    held: Held
    options: DiscoveryOptions
    cores: dict[str, C]

    @classmethod
    def load(cls, held: Held, options: DiscoveryOptions, work: Work) -> Self:
        """Search the rows that are held."""
        cores = {}
        for name, schema in held.searched(options.columns).items():
            if len(schema):
                table, _ = held.table(name)
                cores[name] = cls.core_of(table.select(schema.names), options, work)
        return cls(held, options, cores)

    @classmethod
    def restore(cls, held: Held, options: DiscoveryOptions, arrays: Checked) -> Self:
        """As it was left."""
        cores = {}
        for name, schema in held.searched(options.columns).items():
            if len(schema):
                own, rows = arrays.part(_place(held, name)), held.engine.tables[name].rows
                core = cores[name] = cls.restored(held, name, schema, options, own)
                same = core.slots == rows.size and np.array_equal(core.living(), rows.living_slots())
                own.require(same, f"it is not of the {rows.living} rows that there are")
        return cls(held, options, cores)

    @classmethod
    @abstractmethod
    def core_of(cls, table: pa.Table, options: DiscoveryOptions, work: Work) -> C:
        """Search one table."""

    @classmethod
    @abstractmethod
    def restored(cls, held: Held, name: str, schema: pa.Schema, options: DiscoveryOptions, arrays: Checked) -> C:
        """The core of one table as it was left."""

    @abstractmethod
    def measures(self, rule: Any) -> dict[str, float]:
        """What the score of a core's rule is made of."""

    def implied(self, rule: Any) -> bool:
        """Whether a core's rule follows from others."""
        return bool(rule.implied)

    def shows(self, table: str, body: Body) -> bool:
        """Whether a core's rule is shown."""
        return self.held.speaks_of_values(table, body)

    def unlooked(self, core: C) -> str | None:
        """Why near misses are not looked for, if so."""
        return None if core.complete else "the search for those that hold did not end"

    def partly(self, core: C) -> str:
        """What was looked for where there was not time for all near misses."""
        return "not all, the time was over"

    def found(self) -> list[FoundRule]:
        """The rules now."""
        return [
            FoundRule(rule.body, rule.score, self.measures(rule), self.held.shown(name), self.implied(rule))
            for name, core in self.cores.items()
            for rule in core.rules()
            if self.shows(name, rule.body)
        ]

    def up_to(self) -> dict[str, tuple[int, str]]:
        """By what was not found completely: up to which length it was, and what that counts."""
        lengths = {name: core.length for name, core in self.cores.items()}
        several = len(self.cores) > 1
        return {
            f"{self.called} of {name}" if several else self.called: (length, self.measured)
            for name, length in lengths.items()
            if length is not None
        }

    def near(self, most: int, work: Work) -> NearMisses:
        """Rules that a few pairs or rows break, with these by slot."""
        misses, unlooked = [], []
        for name, core in self.cores.items():
            if why := self.unlooked(core):
                unlooked.append(f"{self.called} of {name}: {why}")
                continue
            found, whole = core.near_misses(most, work)
            if not whole:
                unlooked.append(f"{self.called} of {name}: {self.partly(core)}")
            misses += [replace(miss, table=name) for miss in found if miss.error <= self.few]
        return NearMisses(misses, tuple(unlooked))

    @property
    def complete(self) -> bool:
        """Whether nothing was left out for want of time."""
        return all(core.complete for core in self.cores.values())

    def apply(self, batches: Mapping[str, SlotChanges]) -> Sequence[Died]:
        """Follow a batch."""
        died: list[Died] = []
        work = Work.lasting(self.options.budget, threads=self.options.threads)
        for name, batch in batches.items():
            if name in self.cores:
                columns = [c for c in batch.added.column_names if not self.options.columns or c in self.options.columns]
                turnover = self.cores[name].apply(batch.removed, batch.added.select(columns), work)
                where = self.held.shown(name)
                unbroken = FEW_ROWS if self.held.counts()[name] < 2 else self.unbroken
                why = unbroken if self.cores[name].complete else STOPPED
                died += [replace(one, table=where, why=BROKEN if one.rows else why) for one in turnover.died]
        return died

    def snapshot(self) -> Arrays:
        """The state as plain arrays."""
        arrays: Arrays = {}
        for name, core in self.cores.items():
            arrays |= nested(_place(self.held, name), core.snapshot())
        return arrays


def _place(held: Held, table: str) -> str:
    """Arrays are named by the number of a table: its name may hold anything."""
    return f"table{list(held.keys).index(table)}"


MOST_COLUMNS = 64
"""Columns up to which they are compared across: beyond, thousands of comparisons would end any search."""


class DenialKind(PerTable[DenialCore]):
    """Minimal denial constraints."""

    kinds: ClassVar[tuple[str, ...]] = ("dc",)
    called = "denial constraints"
    measured = "predicates"
    few = 0.005
    """In a table of few rows a handful of pairs is no exception."""

    @classmethod
    def core_of(cls, table: pa.Table, options: DiscoveryOptions, work: Work) -> DenialCore:
        """Search one table."""
        if table.num_columns > MOST_COLUMNS:
            options = replace(options, cross=False)
        space = choose_space(table, options, empty=True)
        return DenialCore.load(table, options, work, space=space)

    @classmethod
    def restored(
        cls, held: Held, name: str, schema: pa.Schema, options: DiscoveryOptions, arrays: Checked
    ) -> DenialCore:
        """The core of one table as it was left."""
        return DenialCore.restore(schema, options, arrays)

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

    def unlooked(self, core: DenialCore) -> str | None:
        """Where not all pairs are counted, near misses are looked for by themselves."""
        return super().unlooked(core) if core.method == "evidence" else None

    def partly(self, core: DenialCore) -> str:
        """Up to which length there was time."""
        length = core.near_length
        return super().partly(core) if length is None else f"all of up to {length} predicates, the time was over"

    def explain(self) -> str:
        """How the rules are kept."""
        return "; ".join(", ".join(core.explain()) for core in self.cores.values())


class DependencyKind(PerTable[DependencyCore | ApproximateCore]):
    """Minimal keys and FDs."""

    kinds: ClassVar[tuple[str, ...]] = ("fd", "key")
    called = "keys and FDs"

    @classmethod
    def core_of(cls, table: pa.Table, options: DiscoveryOptions, work: Work) -> DependencyCore | ApproximateCore:
        """Search one table."""
        return (ApproximateCore if options.error else DependencyCore).load(table, options, work)

    @classmethod
    def restored(
        cls, held: Held, name: str, schema: pa.Schema, options: DiscoveryOptions, arrays: Checked
    ) -> DependencyCore | ApproximateCore:
        """The core of one table as it was left."""
        return (ApproximateCore if options.error else DependencyCore).restore(schema, options, arrays)

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
    def restored(cls, held: Held, name: str, schema: pa.Schema, options: DiscoveryOptions, arrays: Checked) -> CfdCore:
        """The core of one table as it was left."""
        return CfdCore.restore(schema, options, arrays)

    def measures(self, rule: ConditionalRule) -> dict[str, float]:
        """How many rows speak for a rule, and the share that keeps to it."""
        return {"rows": rule.rows, "support": rule.support, "confidence": rule.confidence}

    def near(self, most: int, work: Work) -> NearMisses:
        """None: rules with a confidence below 1 are found as such."""
        return NearMisses(unlooked=("conditional FDs: those with exceptions are found with a confidence below 1",))

    def explain(self) -> str:
        """How the rules are kept."""
        size = sum(core.size_bytes() for core in self.cores.values())
        return f"patterns of FDs that do not hold as a whole ({size:,} bytes)"
