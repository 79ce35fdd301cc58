"""The default structure: `shared[A, B]`, the values that two attributes have in common, kept by counters.

A is included in B when `shared[A, B]` equals `shared[A, A]`, the number of A's distinct values; their
difference is `missing[A, B]`, so partial inclusions cost nothing more. Where paper 004 keeps clusters
(see `papers/clusters.py`), a counter changes only when an attribute gains or loses a value, in as many steps
as attributes hold that value. Values lie in shards by the upper bits of their digest; shards know
nothing of each other, and what one says of a batch is a matrix of changes, added to the counters.
Memory: see `counted_values.py`; 8 bytes a pair of attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from holdstrue.discovery.inclusions.counted_values import Values
from holdstrue.discovery.inclusions.net_changes import NetChanges, ValueCounts
from holdstrue.discovery.inclusions.value_shards import ValueShards
from holdstrue.index.arrays import MOST_SLOTS, Snapshot
from holdstrue.index.checked import Checked
from holdstrue.typing import I64, Mask

SHARDS = 8
"""Shards of a structure in one process: a table doubles in eighths. Chosen, not tuned."""


class Counters(ValueShards):
    """Counted values in shards and the counters over pairs of attributes."""

    def __init__(self, attributes: int, shards: int = SHARDS) -> None:
        super().__init__(attributes, shards)
        self._shared = self._zeros()

    def load(self, columns: Iterable[ValueCounts]) -> None:
        """Take in the values of attributes that hold none yet. Complexity: O(values)."""
        fresh: list[int] = []
        with ThreadPoolExecutor() as pool:
            for column in columns:
                fresh.append(column.attribute)
                parts = column.split(len(self.shards))
                list(pool.map(Values.insert, self.shards, parts))
            for part in pool.map(self._count, self.shards):
                # counters of attributes that were counted before stay as they are
                old = np.ones(self.attributes, dtype=np.bool_)
                old[fresh] = False
                part[np.ix_(old, old)] = 0
                self._shared += part

    def _count(self, values: Values) -> I64:
        shared = self._zeros()
        values.pack()
        values.count_shared(shared)
        return shared

    def extend(self, attributes: int) -> None:
        """Make room for attributes that come later; their numbers follow those there are."""
        grown = np.zeros((attributes, attributes), dtype=np.int64)
        grown[: self.attributes, : self.attributes] = self._shared
        self._shared, self.attributes = grown, attributes
        for values in self.shards:
            values.extend(attributes)

    def check(self, tally: NetChanges) -> None:
        """Refuse changes that `apply` would refuse. Complexity: O(attributes that hold the changed values)."""
        for values, part in zip(self.shards, tally.split(len(self.shards)), strict=True):
            values.number(part)

    def apply(self, tally: NetChanges) -> None:
        """Take in net changes, all or none. Complexity: O(attributes that hold the changed values)."""
        parts = tally.split(len(self.shards))
        numbered = [values.number(part) for values, part in zip(self.shards, parts, strict=True)]
        for values, numbers, part in zip(self.shards, numbered, parts, strict=True):
            values.shift(numbers, part, self._shared)
            values.compact()

    def shared(self) -> I64:
        """Values that attributes have in common; on the diagonal the distinct values of each."""
        return self._shared

    def included(self) -> Mask:
        """`[A, B]`: every value of A is one of B. Complexity: O(attributes squared)."""
        shared = self.shared()
        return shared == np.diagonal(shared)[:, None]

    def size_bytes(self) -> int:
        """Memory held."""
        return self._shared.nbytes + super().size_bytes()

    def summary(self) -> Snapshot:
        """The arrays beside those of the shards' values."""
        return {"shared": self._shared}

    def restore(self, arrays: Checked, shards: Sequence[Checked] | None = None) -> None:
        """Take over the arrays of a snapshot (they will be written to). Complexity: O(values)."""
        super().restore(arrays, shards)
        self._shared = arrays.array("shared", np.int64, (self.attributes, self.attributes))
        arrays.within("shared", self._shared, 0, min(self.distinct_values(), MOST_SLOTS))
        own = np.diagonal(self._shared)
        fits = np.array_equal(self._shared, self._shared.T) and (self._shared <= own).all()
        arrays.require(fits, "two attributes share more values than one has")


Shares = tuple[I64, I64, I64]
"""Pairs of attributes, left and right, and by how much their counters change: all that leaves a shard."""


def filled(values: Values, columns: Iterable[ValueCounts], attributes: int) -> Shares:
    """Load one empty shard alone with its part of every column: what it adds to the counters."""
    for column in columns:
        values.insert(column)
    values.pack()
    change = np.zeros((attributes, attributes), dtype=np.int64)
    values.count_shared(change)
    return _shares(change)


def shifted(values: Values, tally: NetChanges, attributes: int) -> Shares:
    """Apply a batch to one shard alone; added up over shards it is what `Counters.apply` does to its counters."""
    change = np.zeros((attributes, attributes), dtype=np.int64)
    values.shift(values.number(tally), tally, change)
    values.compact()
    return _shares(change)


def _shares(change: I64) -> Shares:
    left, right = np.nonzero(change)
    return left, right, change[left, right]
