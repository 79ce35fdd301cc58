"""One core a table: what kinds of rules within tables have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import pyarrow as pa

from holdstrue.discovery.found import BROKEN, FEW_ROWS, SMALLER, STOPPED
from holdstrue.discovery.held import Batch, Held
from holdstrue.discovery.kind import Arrays, Gone, searched_columns, shown_table
from holdstrue.discovery.options import Options
from holdstrue.discovery.turnover import Died, Turnover
from holdstrue.discovery.work import Work
from holdstrue.index.numbering import nested, unnested
from holdstrue.typing import I64


class Core(Protocol):
    """What finds the rules of one table."""

    @property
    def complete(self) -> bool:
        """Whether nothing was left out."""

    def apply(self, removed: I64, added: pa.Table, work: Work) -> Turnover:
        """Follow a batch."""

    def snapshot(self) -> Any:
        """As plain arrays."""


C = TypeVar("C", bound=Core)


class PerTable(ABC, Generic[C]):
    """Cores by table."""

    unbroken = SMALLER
    """Why a rule ends that nothing breaks."""

    def __init__(self, held: Held, options: Options, cores: Mapping[str, C]) -> None:
        self.held = held
        self.options = options
        self.cores = dict(cores)

    @classmethod
    def load(cls, held: Held, options: Options, work: Work) -> Self:
        """Search the rows that are held."""
        cores = {}
        for name, schema in searched_columns(held, options).items():
            if len(schema):
                table, _ = held.table(name)
                cores[name] = cls.core_of(table.select(schema.names), options, work)
        return cls(held, options, cores)

    @classmethod
    def restore(cls, held: Held, options: Options, arrays: Arrays) -> Self:
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
    def core_of(cls, table: pa.Table, options: Options, work: Work) -> C:
        """Search one table."""

    @classmethod
    @abstractmethod
    def restored(cls, held: Held, name: str, schema: pa.Schema, options: Options, arrays: Any) -> C:
        """The core of one table as it was left."""

    @property
    def complete(self) -> bool:
        """Whether nothing was left out for want of time."""
        return all(core.complete for core in self.cores.values())

    def apply(self, batches: Mapping[str, Batch]) -> Sequence[Gone]:
        """Follow a batch."""
        gone = []
        work = Work.lasting(self.options.budget, threads=self.options.threads)
        for name, batch in batches.items():
            if name in self.cores:
                columns = [c for c in batch.added.column_names if not self.options.columns or c in self.options.columns]
                turnover = self.cores[name].apply(batch.removed, batch.added.select(columns), work)
                where = shown_table(self.held, name)
                gone += [Gone(died.body, died.witness, where, why=self._why(name, died)) for died in turnover.died]
        return gone

    def _why(self, name: str, died: Died) -> str:
        """Why a rule is no longer among those found."""
        if died.witness:
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
