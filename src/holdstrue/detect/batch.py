"""One batch as the detectors see it: row versions that went, row versions that came, and their columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from holdstrue.data.coding import Coded, encode
from holdstrue.data.domain import Domain
from holdstrue.data.labels import Labels
from holdstrue.index.rows import Rows
from holdstrue.typing import I32

Pairs = I32


@dataclass
class NewRows:
    """Columns of the rows that come in, coded once for all checks."""

    table: str
    values: pa.Table
    domains: dict[str, tuple[int, Domain]]
    labels: dict[int, Labels]
    _arrays: dict[str, pa.Array] = field(default_factory=dict)
    _coded: dict[str, Coded] = field(default_factory=dict)

    def column(self, name: str) -> pa.Array:
        """A column as one array."""
        if name not in self._arrays:
            column = self.values.column(name)
            self._arrays[name] = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
            if isinstance(self._arrays[name], pa.ChunkedArray):
                self._arrays[name] = pa.concat_arrays(self._arrays[name].chunks)
        return self._arrays[name]

    def coded(self, name: str) -> Coded:
        """A column's codes in its domain."""
        if name not in self._coded:
            number, domain = self.domains[name]
            self._coded[name] = encode(self.column(name), domain, name=name, labels=self.labels.get(number))
        return self._coded[name]


@dataclass(frozen=True)
class Batch:
    """What a batch does to one table.

    `old` are the slots of versions that were removed, `new` those of versions that came in (new
    slots are larger than all before). `old_twin` and `new_twin` give the other version of an updated
    row, -1 where a row was only removed or only inserted.
    """

    rows: Rows
    incoming: NewRows
    old: I32
    new: I32
    old_twin: I32
    new_twin: I32

    @cached_property
    def first_new(self) -> int:
        """The slot from which on rows are new."""
        return self.rows.size - self.new.size


@dataclass(frozen=True)
class Outcome:
    """What one check makes of a batch: exact counts, and the violations themselves up to a limit.

    Lists have one column of slots for violations of one row and two, (t, s), for pairs.
    """

    added: int
    removed: int
    added_list: Pairs
    removed_list: Pairs


def no_pairs(width: int = 2) -> Pairs:
    """An empty list of violations."""
    return np.empty((0, width), dtype=np.int32)


def nothing(width: int) -> Outcome:
    """What a check makes of a batch that does not touch its tables."""
    return Outcome(0, 0, no_pairs(width), no_pairs(width))


def first(chunks: Iterator[Pairs], limit: int) -> Pairs:
    """The first rows of a stream of chunks."""
    taken: list[Pairs] = []
    for part in chunks:
        taken.append(part[:limit])
        limit -= taken[-1].shape[0]
        if limit <= 0:
            break
    return np.concatenate(taken) if taken else no_pairs()
