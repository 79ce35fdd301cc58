"""What every kind of discovery can do: load rows, follow their changes, say its rules, be kept on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.discovery.found import BROKEN, Found
from holdstrue.discovery.held import Batch, Held
from holdstrue.discovery.options import Options
from holdstrue.discovery.work import Work
from holdstrue.rules.model import Body

Arrays = dict[str, NDArray[np.generic]]

NEAR_SECONDS = 10.0
"""Time for the near misses of a table, which nobody asked for by name. Chosen, not tuned."""


@dataclass(frozen=True)
class Miss:
    """A near miss by slot: pairs, single rows, or values."""

    body: Body
    violations: int
    error: float
    slots: tuple[tuple[int, ...], ...] = ()
    values: tuple[Any, ...] = ()
    table: str | None = None
    measures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Near:
    """Near misses, and for what they were not looked for, or not all, and why."""

    misses: tuple[Miss, ...] = ()
    unlooked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gone:
    """A rule that ended, and why: the slots and values that break it, and the table the slots are of."""

    body: Body
    slots: tuple[int, ...] = ()
    table: str | None = None
    values: tuple[Any, ...] = ()
    missing: int = 0
    """How many values break it; `values` are some of them."""
    why: str = BROKEN


class Kind(Protocol):
    """One kind of rules in all tables."""

    @classmethod
    def load(cls, held: Held, options: Options, work: Work) -> Kind:
        """Search the rows that are held."""

    @classmethod
    def restore(cls, held: Held, options: Options, arrays: Arrays) -> Kind:
        """As it was left."""

    @property
    def complete(self) -> bool:
        """Whether nothing was left out for want of time."""

    def apply(self, batches: Mapping[str, Batch]) -> Sequence[Gone]:
        """Follow a batch; returns what ended, with witnesses where they are known."""

    def found(self) -> list[Found]:
        """The rules now."""

    def near(self, most: int) -> Near:
        """Rules that at most so many pairs, rows or values break."""

    def explain(self) -> str:
        """How the rules are kept, in words."""

    def snapshot(self) -> Arrays:
        """The state as plain arrays."""


def searched_columns(held: Held, options: Options) -> dict[str, pa.Schema]:
    """By table the columns that rules may speak of, as a schema."""
    wanted = set(options.columns)
    return {
        name: pa.schema([field for field in schema if not wanted or field.name in wanted])
        for name, schema in held.schemas.items()
    }


def shown_table(held: Held, name: str) -> str | None:
    """The name of a table as rules carry it: none where there is only one."""
    return None if len(held.keys) == 1 else name
