"""What every kind of discovery can do: load rows, follow their changes, say its rules, be kept on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

import pyarrow as pa

from holdstrue.discovery.found import Died, FoundRule, NearMisses
from holdstrue.discovery.held import Held, SlotChanges
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.state.store import Arrays


class Kind(Protocol):
    """Rules of one or two kinds in all tables."""

    kinds: ClassVar[tuple[str, ...]]
    """What `DiscoveryOptions.kinds` calls them."""

    @classmethod
    def load(cls, held: Held, options: DiscoveryOptions, work: Work) -> Kind:
        """Search the rows that are held."""

    @classmethod
    def restore(cls, held: Held, options: DiscoveryOptions, arrays: Arrays) -> Kind:
        """As it was left."""

    @property
    def complete(self) -> bool:
        """Whether nothing was left out for want of time."""

    def apply(self, batches: Mapping[str, SlotChanges]) -> Sequence[Died]:
        """Follow a batch; returns the rules that died, with the slots that break them where they are known."""

    def found(self) -> list[FoundRule]:
        """The rules now."""

    def near(self, most: int) -> NearMisses:
        """Rules that at most so many pairs, rows or values break, by slot."""

    def explain(self) -> str:
        """How the rules are kept, in words."""

    def snapshot(self) -> Arrays:
        """The state as plain arrays."""


def searched_columns(held: Held, options: DiscoveryOptions) -> dict[str, pa.Schema]:
    """By table the columns that rules may speak of, as a schema."""
    wanted = set(options.columns)
    return {
        name: pa.schema([field for field in schema if not wanted or field.name in wanted])
        for name, schema in held.schemas.items()
    }


def shown_table(held: Held, name: str) -> str | None:
    """The name of a table as rules carry it: none where there is only one."""
    return None if len(held.keys) == 1 else name
