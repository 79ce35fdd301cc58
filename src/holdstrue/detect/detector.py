"""What every detector can: count what a batch does to one check, and list what stands against it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np

from holdstrue.detect.batch import Batch, Outcome, Pairs
from holdstrue.index.numbering import Snapshot
from holdstrue.plan.checks import Check
from holdstrue.typing import I32, I64

Batches: TypeAlias = Mapping[str, Batch]
"""By table what a batch does to its rows."""


class Detector(ABC):
    """The violations of one check, kept current; rows are named by slot.

    The check knows the width, the symmetry and the columns of its violations. What is said here of groups and pairs
    fits checks that single rows violate; others say more.
    """

    check: Check

    @property
    @abstractmethod
    def rows(self) -> int:
        """Rows in at least one violation."""

    @property
    def pairs(self) -> int:
        """Violating pairs; none where single rows violate."""
        return 0

    @property
    def groups(self) -> int:
        """Groups of a key or an FD with a violation."""
        return 0

    @property
    def open(self) -> int:
        """Violations: pairs, or rows where single rows violate."""
        return self.rows if self.check.width == 1 else self.pairs

    @abstractmethod
    def apply(self, batches: Batches, limit: int) -> Outcome:
        """Count old rows out and new ones in, and list up to `limit` violations that came and that went."""

    @abstractmethod
    def violating(self) -> I32:
        """Slots of rows in a violation, ascending."""

    def violations(self) -> Iterator[Pairs]:
        """Chunks of violations: one column of slots, or two for pairs."""
        slots = self.violating()
        if slots.size:
            yield slots[:, None]

    @abstractmethod
    def degrees(self, slots: I32) -> I64:
        """How many violations each row is in."""

    @property
    def group_by_slot(self) -> I32:
        """By slot: the group of rows that agree on the check's columns, seen as t."""
        raise NotImplementedError

    def violating_groups(self) -> I32:
        """Groups with a violation. Complexity: that of `violating`, and one sort of it."""
        return np.unique(self.group_by_slot[self.violating()]).astype(np.int32)

    def representatives(self) -> I32:
        """The first violating row of each violating group. Complexity: as `violating_groups`."""
        slots = self.violating()
        return slots[np.unique(self.group_by_slot[slots], return_index=True)[1]]

    def conflicting(self, group: int) -> list[I32]:
        """Rows of a violating group: one array for each right-hand side that occurs (each row, for a key)."""
        raise NotImplementedError

    def explain(self) -> list[str]:
        """What the structures behind it say of the check, for people."""
        return []

    @abstractmethod
    def size_bytes(self) -> int:
        """Memory held beside what rules share."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""

    @abstractmethod
    def restore(self, arrays: Snapshot) -> None:
        """Take over the arrays of a snapshot."""
