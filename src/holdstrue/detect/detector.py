"""What every detector can: count what a batch does to one check, and list what stands against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeAlias

import numpy as np

from holdstrue.detect.batch import Batch, Outcome, Pairs
from holdstrue.index.numbering import Snapshot
from holdstrue.plan.checks import Check
from holdstrue.typing import I32, I64

Batches: TypeAlias = Mapping[str, Batch]
"""By table what a batch does to its rows."""


class Detector(Protocol):
    """The violations of one check, kept current; rows are named by slot."""

    @property
    def check(self) -> Check:
        """What is checked: it knows the width, the symmetry and the columns of its violations."""
        ...

    @property
    def rows(self) -> int:
        """Rows in at least one violation."""
        ...

    @property
    def pairs(self) -> int:
        """Violating pairs; none where single rows violate."""
        ...

    @property
    def groups(self) -> int:
        """Groups of a key or an FD with a violation."""
        ...

    @property
    def open(self) -> int:
        """Violations: pairs, or rows where single rows violate."""
        ...

    def apply(self, batches: Batches, limit: int) -> Outcome:
        """Count old rows out and new ones in, and list up to `limit` violations that came and that went."""
        ...

    def violating(self) -> I32:
        """Slots of rows in a violation, ascending."""
        ...

    def violations(self) -> Iterator[Pairs]:
        """Chunks of violations: one column of slots, or two for pairs."""
        ...

    def degrees(self, slots: I32) -> I64:
        """How many violations each row is in."""
        ...

    def violating_groups(self) -> I32:
        """Groups with a violation."""
        ...

    def representatives(self) -> I32:
        """A violating row of each violating group."""
        ...

    def conflicting(self, group: int) -> list[I32]:
        """Rows of a violating group: one array for each right-hand side that occurs (each row, for a key)."""
        ...

    def explain(self) -> list[str]:
        """What the structures behind it say of the check, for people."""
        ...

    def size_bytes(self) -> int:
        """Memory held beside what rules share."""
        ...

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        ...

    def restore(self, arrays: Snapshot) -> None:
        """Take over the arrays of a snapshot."""
        ...


class RowByRow:
    """Base of the detectors of checks that single rows violate."""

    pairs = 0
    groups = 0
    rows: int

    @property
    def open(self) -> int:
        """Violations: the rows."""
        return self.rows

    def violating(self) -> I32:
        """Slots of rows in a violation, ascending."""
        raise NotImplementedError

    def violations(self) -> Iterator[Pairs]:
        """The violating rows, in one chunk."""
        slots = self.violating()
        if slots.size:
            yield slots[:, None]

    def violating_groups(self) -> I32:
        """No groups."""
        return np.empty(0, dtype=np.int32)

    def representatives(self) -> I32:
        """No groups."""
        return self.violating_groups()

    def conflicting(self, group: int) -> list[I32]:
        """No groups."""
        return []

    def explain(self) -> list[str]:
        """Nothing beyond the plan."""
        return []


class PairByPair:
    """Base of the detectors of checks that pairs of rows violate."""

    @property
    def pairs(self) -> int:
        """Violating pairs."""
        raise NotImplementedError

    @property
    def open(self) -> int:
        """Violations: the pairs."""
        return self.pairs

    @property
    def group_by_slot(self) -> I32:
        """By slot: the group of rows that agree, seen as t."""
        raise NotImplementedError

    def violating(self) -> I32:
        """Slots of rows in a violation, ascending."""
        raise NotImplementedError

    def representatives(self) -> I32:
        """The first violating row of each violating group. Complexity: that of `violating`, and one sort of it."""
        slots = self.violating()
        return slots[np.unique(self.group_by_slot[slots], return_index=True)[1]]

    def explain(self) -> list[str]:
        """Nothing beyond the plan."""
        return []
