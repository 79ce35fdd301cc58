"""What both structures of inclusions have in common: counted values that lie in shards by their digests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np

from holdstrue.discovery.inclusions.counted_values import Values
from holdstrue.discovery.inclusions.net_changes import NetChanges, ValueCounts
from holdstrue.index.arrays import Snapshot, nested
from holdstrue.index.checked import Checked
from holdstrue.typing import I64, Mask


class ValueShards(ABC):
    """Counted values of attributes in shards that know nothing of each other."""

    def __init__(self, attributes: int, shards: int) -> None:
        if shards < 1 or shards & (shards - 1):
            raise ValueError(f"the number of shards is a power of two, not {shards}")
        self.attributes = attributes
        self.shards = tuple(Values(attributes) for _ in range(shards))

    def _zeros(self) -> I64:
        return np.zeros((self.attributes, self.attributes), dtype=np.int64)

    def shared_rows(self) -> I64:
        """`[A, B]`: rows of A whose value B holds; on the diagonal A's rows with a value. Complexity: O(values)."""
        total = self._zeros()
        for values in self.shards:
            values.count_shared(total, rows=True)
        return total

    def distinct_values(self) -> int:
        """How many values some attribute holds."""
        return sum(values.living for values in self.shards)

    @abstractmethod
    def load(self, columns: Iterable[ValueCounts]) -> None:
        """Take in the values of attributes that hold none yet. Complexity: O(values)."""

    @abstractmethod
    def apply(self, tally: NetChanges) -> None:
        """Take in net changes, all or none. Complexity: O(attributes that hold the changed values)."""

    @abstractmethod
    def shared(self) -> I64:
        """Values that attributes have in common; on the diagonal the distinct values of each."""

    @abstractmethod
    def included(self) -> Mask:
        """`[A, B]`: every value of A is one of B."""

    @abstractmethod
    def summary(self) -> Snapshot:
        """The arrays beside those of the shards' values."""

    def size_bytes(self) -> int:
        """Memory held."""
        return sum(values.size_bytes() for values in self.shards)

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        arrays = self.summary()
        for i, values in enumerate(self.shards):
            arrays |= nested(f"shard{i}", values.snapshot())
        return arrays

    def restore(self, arrays: Checked, shards: Sequence[Checked] | None = None) -> None:
        """Take over the arrays of a snapshot (they will be written to), those of each shard apart where they are."""
        for i, values in enumerate(self.shards):
            values.restore(arrays.part(f"shard{i}") if shards is None else shards[i])
