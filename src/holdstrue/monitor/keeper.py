"""Who keeps the rows of a monitor and does the work of a batch: one shard in this process, or many and their runner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from holdstrue.data.notes import Notes
from holdstrue.detect.delta import Batched, Delta, RuleCounts
from holdstrue.detect.resolve import OnConflict
from holdstrue.rules.types import Declared
from holdstrue.shards.facts import Facts

Extent: TypeAlias = Literal["changes", "whole", "part"]
"""What rows are: changes, or how all of a table stands, or how some of its rows do."""


@dataclass(frozen=True)
class Request:
    """A batch that is to be applied, as it was asked for."""

    batch: str
    parts: Mapping[str, Any]
    """By table its changes."""
    declared: Mapping[str, Mapping[str, Declared]]
    """By table what columns are declared to hold, in this batch too."""
    limit: int
    """How many added and how many removed violations are listed."""
    on_conflict: OnConflict
    feed: str
    op_column: str | None
    read: Mapping[str, Any]
    """Options of `read_changes`."""
    one_task: bool = False
    """Whether one task is to read the changes and look up their keys, where there are several."""
    extent: Extent = "changes"
    """Whether the rows are to be compared with those there are."""
    notes: Notes = field(default_factory=Notes)
    """What there is to know about how the changes are read, put here on the way."""


class Keeper(Protocol):
    """The rows of a monitor at one version, and what is done with them."""

    @property
    def facts(self) -> Facts:
        """What there is to know of the monitor beside what every batch changes."""

    def now(self) -> Facts:
        """The facts with rows, counts and batches as they are. Complexity: O(rules)."""

    @property
    def batches(self) -> int:
        """How many batches were applied."""

    def usable(self) -> None:
        """Raise where no batch can be applied."""

    def seen(self, batch: str) -> bool:
        """Whether a batch of this id was applied."""

    def apply(self, facts: Facts, request: Request) -> Delta:
        """Apply a batch, whole or not at all; `facts` are those it starts from, with the types that it declares."""

    def rows(self) -> dict[str, int]:
        """How many rows each table has."""

    def open(self) -> dict[str, int]:
        """How many violations each rule has. Complexity: O(rules)."""

    def counts(self) -> dict[str, RuleCounts]:
        """How each rule stands: rows, pairs and groups in violation."""

    def history(self) -> list[Batched]:
        """What each batch did to each rule, oldest first."""

    def explain(self) -> str:
        """How the rules are kept current."""
