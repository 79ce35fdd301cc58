"""What every kind of discovery can do: load rows, follow their changes, say its rules, be kept on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdstrue.discovery.found import Found
from holdstrue.discovery.held import Batch, Held
from holdstrue.rules.model import Body

Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Miss:
    """A near miss by slot: pairs, single rows, or values."""

    body: Body
    violations: int
    error: float
    slots: tuple[tuple[int, ...], ...] = ()
    values: tuple[Any, ...] = ()
    table: str | None = None


@dataclass(frozen=True)
class Gone:
    """A rule that ended, with the slots that break it and the table these are of."""

    body: Body
    slots: tuple[int, ...] = ()
    table: str | None = None


class Kind(Protocol):
    """One kind of rules in all tables."""

    @property
    def complete(self) -> bool:
        """Whether nothing was left out for want of time."""

    def apply(self, batches: Mapping[str, Batch]) -> Sequence[Gone]:
        """Follow a batch; returns what ended, with witnesses where they are known."""

    def found(self) -> list[Found]:
        """The rules now."""

    def near(self, most: int, held: Held) -> list[Miss]:
        """Rules that at most so many pairs, rows or values break."""

    def explain(self) -> str:
        """How the rules are kept, in words."""

    def snapshot(self) -> Arrays:
        """The state as plain arrays."""
