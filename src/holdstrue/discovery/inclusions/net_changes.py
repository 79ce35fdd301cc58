"""Changes as counts: how many more (or fewer) rows of each attribute hold each value after a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.buffers import lend, numbers, plain
from holdstrue.data.validity import same_columns
from holdstrue.discovery.inclusions.contents import Content
from holdstrue.index.arrays import Numbering, room
from holdstrue.kernels import bounds
from holdstrue.kernels import value_chains as kernels
from holdstrue.typing import I32, I64, U64, Mask

_COUNTS = pa.schema({"hi": pa.uint64(), "lo": pa.uint64(), "attribute": pa.int32(), "net": pa.int32()})


@dataclass(frozen=True)
class ValueCounts:
    """The distinct values of one attribute with their counts, as a table is loaded."""

    attribute: int
    hi: U64
    lo: U64
    counts: I32

    def split(self, shards: int) -> list[ValueCounts]:
        """The values of every shard. Complexity: O(values)."""
        return [
            ValueCounts(self.attribute, self.hi[rows], self.lo[rows], self.counts[rows])
            for rows in _rows_by_shard(self.hi, shards)
        ]


@dataclass(frozen=True)
class NetChanges:
    """Net changes grouped by value: group g changes `attributes[offsets[g]:offsets[g + 1]]` by `nets` there."""

    hi: U64
    lo: U64
    offsets: I64
    attributes: I32
    nets: I32

    @property
    def changes(self) -> int:
        """How many (value, attribute) pairs change."""
        return self.attributes.size

    def to_table(self) -> pa.Table:
        """One row for each (value, attribute) that changes, as it is logged or sent to a shard."""
        sizes = np.diff(self.offsets)
        return pa.table(
            {
                "hi": np.repeat(self.hi, sizes),
                "lo": np.repeat(self.lo, sizes),
                "attribute": self.attributes,
                "net": self.nets,
            }
        )

    @staticmethod
    def of(table: pa.Table, attributes: int) -> NetChanges:
        """From the rows of `to_table`, those of a value together; a ValueError says why they cannot be."""
        owners = numbers(plain(table.column("attribute")), np.int32) if same_columns(table.schema, _COUNTS) else None
        if owners is None or any(column.null_count for column in table.columns):
            raise ValueError("it holds no counts of values")
        if bounds.outside(lend(owners), 0, attributes - 1) >= 0:
            raise ValueError("it counts values of columns that are not")
        hi, lo = (_numbers(table, name, np.uint64) for name in ("hi", "lo"))
        first = np.ones(hi.size, dtype=np.bool_)
        first[1:] = (hi[1:] != hi[:-1]) | (lo[1:] != lo[:-1])
        starts = np.flatnonzero(first)
        owners, nets = (_numbers(table, name, np.int32) for name in ("attribute", "net"))
        return NetChanges(hi[starts], lo[starts], np.append(starts, hi.size), owners, nets)

    def split(self, shards: int) -> list[NetChanges]:
        """The values of every shard. Complexity: O(changes)."""
        if shards == 1:
            return [self]
        sizes = np.diff(self.offsets)
        parts = []
        for rows in _rows_by_shard(self.hi, shards):
            taken = sizes[rows]
            offsets = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(taken)))
            entries = np.repeat(self.offsets[rows] - offsets[:-1], taken) + np.arange(offsets[-1])
            parts.append(
                NetChanges(self.hi[rows], self.lo[rows], offsets, self.attributes[entries], self.nets[entries])
            )
        return parts


def _numbers(table: pa.Table, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    parts = [numbers(chunk, dtype) for chunk in table.column(name).chunks]
    return np.concatenate([np.empty(0, dtype=dtype), *parts])


def shard_of(hi: U64, shards: int) -> NDArray[np.uint16]:
    """The shard of each value: the upper bits of its digest. `shards` is a power of two."""
    if shards == 1:
        return np.zeros(hi.size, dtype=np.uint16)
    return (hi >> np.uint64(65 - shards.bit_length())).astype(np.uint16)


def _rows_by_shard(hi: U64, shards: int) -> list[I64] | list[slice]:
    if shards == 1:
        return [slice(None)]
    owners = shard_of(hi, shards)
    order = np.argsort(owners, kind="stable")
    edges = np.searchsorted(owners[order], np.arange(shards + 1))
    return [order[a:b] for a, b in pairwise(edges.tolist())]


def distinct(attribute: int, parts: Iterable[Content]) -> ValueCounts:
    """The distinct values of a column, given in parts, and how often each occurs. Complexity: O(rows)."""
    numbering = Numbering()
    counts = np.zeros(64, dtype=np.int32)
    for content in parts:
        found = numbering.assign(content.hi, content.lo, content.mask())
        counts = room(counts, len(numbering), fill=0)
        kernels.count_numbers(found, counts)
    return ValueCounts(attribute, *numbering.keys(), counts[: len(numbering)])


def tally(parts: Sequence[tuple[int, Content, int]], attributes: int) -> NetChanges:
    """Net changes of `(attribute, values, +1 or -1)`; what is taken and given back the same cancels.

    Complexity: O(values).
    """
    known = [(number, content, step) for number, content, step in parts if content.hi.size]
    hi = np.concatenate([content.hi for _, content, _ in known] or [np.empty(0, dtype=np.uint64)])
    lo = np.concatenate([content.lo for _, content, _ in known] or [np.empty(0, dtype=np.uint64)])
    member = np.concatenate([content.mask() for _, content, _ in known] or [np.empty(0, dtype=np.bool_)])
    sizes = [content.hi.size for _, content, _ in known]
    owner = np.repeat(np.array([number for number, _, _ in known], dtype=np.int32), sizes)
    steps = np.repeat(np.array([step for _, _, step in known], dtype=np.int32), sizes)
    return net(hi, lo, member, owner, steps, attributes)


def net(hi: U64, lo: U64, member: Mask, owner: I32, steps: I32, attributes: int) -> NetChanges:
    """Net changes of entries `(value, attribute, step)`, each given by one place of the arrays."""
    numbering = Numbering()
    groups = numbering.assign(hi, lo, member)
    key_hi, key_lo = numbering.keys()
    offsets = np.empty(key_hi.size + 1, dtype=np.int64)
    out = np.empty((2, groups.size), dtype=np.int32)
    starts = np.zeros(key_hi.size + 1, dtype=np.int64)
    delta = np.zeros(attributes, dtype=np.int32)
    used = kernels.net_changes(groups, owner, steps, starts, delta, offsets, out)
    changed = np.flatnonzero(np.diff(offsets))
    kept = np.append(offsets[changed], used)
    return NetChanges(key_hi[changed], key_lo[changed], kept, out[0, :used].copy(), out[1, :used].copy())
