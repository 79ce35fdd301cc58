"""One core a table: what kinds of rules within tables have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import pyarrow as pa

from holdstrue.discovery.found import (
    BROKEN,
    FEW_ROWS,
    SMALLER,
    STOPPED,
    Died,
    FoundRule,
    NearMiss,
    NearMisses,
    RuleTurnover,
)
from holdstrue.discovery.held import Held, SlotChanges
from holdstrue.discovery.kind import searched_columns, shown_table
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.index.arrays import nested, unnested
from holdstrue.rules.model import Body
from holdstrue.state.store import Arrays
from holdstrue.typing import I64

NEAR_SECONDS = 10.0
"""Time for the near misses of a table, which nobody asked for by name. Chosen, not tuned."""


class Core(Protocol):
    """What finds the rules of one table."""

    @property
    def complete(self) -> bool:
        """Whether nothing was left out."""

    def apply(self, removed: I64, added: pa.Table, work: Work) -> RuleTurnover:
        """Follow a batch."""

    def rules(self) -> tuple[Any, ...]:
        """The rules now, each with a body and a score."""

    def near_misses(self, most: int, work: Work) -> tuple[tuple[NearMiss, ...], bool]:
        """Rules that a few rows break; and whether all were looked for."""

    def snapshot(self) -> Any:
        """As plain arrays."""


C = TypeVar("C", bound=Core)


class PerTable(ABC, Generic[C]):
    """Cores by table."""

    kinds: ClassVar[tuple[str, ...]]
    called: ClassVar[str]
    """The rules in a word or two, for notes."""
    unbroken = SMALLER
    """Why a rule dies that nothing breaks."""

    def __init__(self, held: Held, options: DiscoveryOptions, cores: Mapping[str, C]) -> None:
        self.held = held
        self.options = options
        self.cores = dict(cores)

    @classmethod
    def load(cls, held: Held, options: DiscoveryOptions, work: Work) -> Self:
        """Search the rows that are held."""
        cores = {}
        for name, schema in searched_columns(held, options).items():
            if len(schema):
                table, _ = held.table(name)
                cores[name] = cls.core_of(table.select(schema.names), options, work)
        return cls(held, options, cores)

    @classmethod
    def restore(cls, held: Held, options: DiscoveryOptions, arrays: Arrays) -> Self:
        """As it was left."""
        schemas = searched_columns(held, options)
        cores = {
            name: cls.restored(held, name, schema, options, unnested(_place(held, name), arrays))
            for name, schema in schemas.items()
            if len(schema)
        }
        return cls(held, options, cores)

    @classmethod
    @abstractmethod
    def core_of(cls, table: pa.Table, options: DiscoveryOptions, work: Work) -> C:
        """Search one table."""

    @classmethod
    @abstractmethod
    def restored(cls, held: Held, name: str, schema: pa.Schema, options: DiscoveryOptions, arrays: Any) -> C:
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

    def found(self) -> list[FoundRule]:
        """The rules now."""
        return [
            FoundRule(rule.body, rule.score, self.measures(rule), shown_table(self.held, name), self.implied(rule))
            for name, core in self.cores.items()
            for rule in core.rules()
            if self.shows(name, rule.body)
        ]

    def near(self, most: int) -> NearMisses:
        """Rules that a few pairs or rows break, with these by slot."""
        misses, unlooked = [], []
        for name, core in self.cores.items():
            if why := self.unlooked(core):
                unlooked.append(f"{self.called} of {name}: {why}")
                continue
            found, whole = core.near_misses(most, Work.lasting(NEAR_SECONDS, threads=self.options.threads))
            if not whole:
                unlooked.append(f"{self.called} of {name}: not all, {NEAR_SECONDS:g} seconds were over")
            misses += [replace(miss, table=name) for miss in found]
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
                where = shown_table(self.held, name)
                died += [replace(one, table=where, why=self._why(name, one)) for one in turnover.died]
        return died

    def _why(self, name: str, died: Died) -> str:
        """Why a rule is no longer among those found."""
        if died.rows:
            return BROKEN
        if not self.cores[name].complete:
            return STOPPED
        return FEW_ROWS if self.held.counts()[name] < 2 else self.unbroken

    def snapshot(self) -> Arrays:
        """The state as plain arrays."""
        arrays: Arrays = {}
        for name, core in self.cores.items():
            arrays |= nested(_place(self.held, name), core.snapshot())
        return arrays


def _place(held: Held, table: str) -> str:
    """Arrays are named by the number of a table: its name may hold anything."""
    return f"table{list(held.keys).index(table)}"
