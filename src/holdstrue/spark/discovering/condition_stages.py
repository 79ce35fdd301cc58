"""The stages that look at dependencies under conditions: rows that name the constants of their left side, and counts.

A row is written for a left side as `side_stages.py` does, and says in the place of where it is which of the values that
conditions may name its left side has: `BITS` bits for each column, 0 for none. Groups are summed under every choice of
columns with constants, which is a mask of bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from holdstrue.kernels import side_rows
from holdstrue.kernels.side_rows import APART, COUNT, GAPS, PLACE, TOGETHER
from holdstrue.spark.discovering.packed_lanes import BlockReader, LaneBlock
from holdstrue.spark.discovering.side_stages import SideShape, WrittenSides
from holdstrue.spark.discovering.waiting_rows import Join, cells_for, segments
from holdstrue.typing import I32, I64, U64, Mask

BITS = 7
"""Bits of a place among at most 64 values, and of none."""

JOINED = 1 << 16
"""Combinations of values that a task holds before it looks for equal ones again. Chosen, not tuned."""

Lanes = tuple[int, int]


@dataclass(frozen=True)
class NamedValues:
    """The values that conditions may name."""

    reader: BlockReader
    named: Mapping[int, Mapping[int, Lanes]]
    """By column the places of values, with their lanes."""

    @cached_property
    def _sorted(self) -> dict[int, tuple[U64, U64, I32]]:
        found = {}
        for column, own in self.named.items():
            lanes = np.array(list(own.values()), dtype=np.int64).reshape(-1, 2).view(np.uint64)
            order = np.lexsort((lanes[:, 1], lanes[:, 0]))
            found[column] = lanes[order, 0], lanes[order, 1], np.array(list(own), dtype=np.int32)[order]
        return found

    def places(self, block: LaneBlock, column: int) -> I64:
        """By row one more than the place of its value; 0 where it has none that may be named."""
        first, second, places = self._sorted[column]
        numbers = self.reader.numbers(column)
        a = block.lanes[numbers[0]]
        b = block.lanes[numbers[1]] if len(numbers) > 1 else np.zeros_like(a)
        found = np.zeros(block.rows, dtype=np.int64)
        at = np.searchsorted(first, a)
        # values may share a first lane
        for _ in range(int(np.unique(first, return_counts=True)[1].max(initial=1))):
            here = np.minimum(at, first.size - 1)
            same = (first[here] == a) & (second[here] == b) & block.known[column]
            found[same] = places[here[same]] + 1
            at += 1
        return found


@dataclass(frozen=True)
class JointValues:
    """The stage that counts which combinations of values rows have, of all columns that conditions may name."""

    values: NamedValues

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks in; by combination its places, -1 for values that are not named, and rows out."""
        columns = list(self.values.named)
        held: list[tuple[Any, I64]] = []
        size = 0
        for block in self.values.reader.read(batches):
            places = np.stack([self.values.places(block, column) for column in columns], axis=1).astype(np.uint8)
            held.append(_distinct(np.ascontiguousarray(places), np.ones(block.rows, dtype=np.int64)))
            size += held[-1][1].size
            if size > JOINED:
                held = [_distinct(*(np.concatenate(own) for own in zip(*held, strict=True)))]
                size = held[0][1].size
                if size > JOINED // 2:
                    yield self._batch(columns, *held.pop())
                    size = 0
        if held:
            yield self._batch(columns, *_distinct(*(np.concatenate(own) for own in zip(*held, strict=True))))

    def _batch(self, columns: Sequence[int], places: Any, counts: I64) -> pa.RecordBatch:
        own = [pa.array(places[:, at].astype(np.int32) - 1) for at in range(len(columns))]
        return pa.record_batch([*own, pa.array(counts)], names=[*(f"p{column}" for column in columns), "n"])

    @property
    def schema(self) -> StructType:
        """Of what comes out."""
        own = [StructField(f"p{column}", IntegerType()) for column in self.values.named]
        return StructType([*own, StructField("n", LongType())])


def _distinct(places: Any, counts: I64) -> tuple[Any, I64]:
    cells = places.view(np.dtype((np.void, places.shape[1]))).reshape(-1)
    found, inverse = np.unique(cells, return_inverse=True)
    summed = np.bincount(inverse.reshape(-1), weights=counts, minlength=found.size).astype(np.int64)
    return found.view(np.uint8).reshape(-1, places.shape[1]), summed


@dataclass(frozen=True)
class OpenRows:
    """Which rows matter for the targets of a left side, as bits of the targets.

    Examples
    --------
    Target 1 matters everywhere, target 0 where the second column of the left side has value 2.

    >>> opened = OpenRows(2, (((1,), (3,), np.array([0, 0, 1])),))
    >>> opened.of([np.array([0, 1]), np.array([0, 3])]).tolist()
    [2, 3]
    """

    everywhere: int
    tables: tuple[tuple[tuple[int, ...], tuple[int, ...], I64], ...]
    """Columns of the left side by their places in it, how many values each has, and by their combination the bits."""

    def of(self, places: Sequence[I64]) -> I64:
        """By row the bits; `places` are one more than those of values, and 0 for others."""
        bits = np.full(places[0].size if places else 0, self.everywhere, dtype=np.int64)
        for columns, sizes, table in self.tables:
            cells, named = np.zeros(bits.size, dtype=np.int64), np.ones(bits.size, dtype=np.bool_)
            for column, size in zip(reversed(columns), reversed(sizes), strict=True):
                cells = cells * size + places[column] - 1
                named &= places[column] > 0
            bits[named] |= table[cells[named]]
        return bits


def _merged(rows: U64, used: int, cells: I32, targets: int) -> int:
    return int(side_rows.merged(rows, used, cells, targets))


@dataclass(frozen=True)
class ConditionedSides(WrittenSides):
    """The stage that writes rows for left sides with the constants that conditions may name."""

    values: NamedValues
    lefts: tuple[tuple[int, ...], ...]

    opened: tuple[OpenRows | None, ...]
    """By left side the rows that matter."""

    def join(self, side: SideShape) -> Join | None:
        """Groups become one row each where only that matters which right sides are broken."""
        return partial(_merged, targets=side.apart) if side.apart else side_rows.joined

    def mark(self, block: LaneBlock, number: int, rows: U64) -> int:
        """The constants in the place of where a row is; rows that matter come first, and are counted."""
        chosen = rows[PLACE].astype(np.int64) - block.first
        places = []
        constants = np.zeros(chosen.size, dtype=np.int64)
        for at, column in enumerate(self.lefts[number]):
            if column in self.values.named:
                if column not in block.notes:
                    block.notes[column] = self.values.places(block, column)
                places.append(block.notes[column][chosen])
                constants |= places[-1] << BITS * at
            else:
                places.append(np.zeros(chosen.size, dtype=np.int64))
        rows[PLACE] = constants.astype(np.uint64)
        side = self.sides[number]
        if side.apart:
            rows[TOGETHER] = 0
            for at in range(side.apart if side.counters else 0):
                rows[APART + side.apart + at] = ~(rows[GAPS] >> np.uint64(at)) & np.uint64(1)
        opened = self.opened[number]
        if opened is None or not places:
            return chosen.size
        bits = opened.of(places)
        kept = np.flatnonzero(bits)
        rows[:, : kept.size] = rows[:, kept]
        if side.apart:
            # of targets that do not matter nothing is said
            rows[GAPS, : kept.size] |= ~bits[kept].view(np.uint64)
        return kept.size


@dataclass(frozen=True)
class ConditionSums:
    """The stage that sums groups under conditions."""

    lefts: tuple[tuple[int, ...], ...]
    shapes: tuple[SideShape, ...]
    named: frozenset[int]
    """Columns that conditions may name."""
    counts: bool
    """Whether the rows to remove are counted, of left sides with one target each; else of many whether it is broken."""

    @property
    def wide(self) -> int:
        """Targets of a left side at most."""
        return 1 if self.counts else max(shape.apart for shape in self.shapes)

    @property
    def longest(self) -> int:
        """Columns of a left side at most."""
        return max(map(len, self.lefts))

    @property
    def schema(self) -> StructType:
        """A left side, its columns with constants as bits (`mask`), their places (`k0`, ...), and by target what is
        broken (`x0`), rows with a partner (`s0`), their groups (`g0`), and the commonest value's digest (`v0`)."""
        fields = [StructField(name, IntegerType()) for name in ("side", "mask")]
        fields += [StructField(f"k{at}", IntegerType()) for at in range(self.longest)]
        return StructType(fields + [StructField(f"{x}{at}", LongType()) for at in range(self.wide) for x in "xsgv"])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Messages in, sums out."""
        found: dict[int, list[U64]] = {}
        for number, rows in segments(batches):
            found.setdefault(number, []).append(rows)
        for number in sorted(found):
            yield from self._sums(number, np.ascontiguousarray(np.concatenate(found.pop(number), axis=1)))

    def _sums(self, side: int, rows: U64) -> Iterator[pa.RecordBatch]:
        cells = cells_for(rows.shape[1])
        if self.counts:
            size = side_rows.joined(rows, rows.shape[1], cells)
            constants, facts = _counted(np.ascontiguousarray(rows[:, :size]))
        else:
            size = side_rows.merged(rows, rows.shape[1], cells, self.shapes[side].apart)
            constants, facts = _met(rows[:, :size], self.shapes[side])
        left = self.lefts[side]
        usable = sum(1 << at for at, column in enumerate(left) if column in self.named)
        for mask in range(1 << len(left)):
            if mask & ~usable == 0:
                yield self._under(side, mask, constants, facts)

    def _under(self, side: int, mask: int, constants: I64, facts: I64) -> pa.RecordBatch:
        fields = [((1 << BITS) - 1) << BITS * at for at in range(len(self.lefts[side])) if mask >> at & 1]
        chosen: Mask = np.ones(constants.size, dtype=np.bool_)
        for one in fields:
            chosen &= (constants & one) != 0
        numbers, inverse = np.unique(constants[chosen] & sum(fields), return_inverse=True)
        inverse = inverse.reshape(-1)
        columns = [np.full(numbers.size, side, dtype=np.int32), np.full(numbers.size, mask, dtype=np.int32)]
        for at in range(self.longest):
            own = (numbers >> BITS * at & ((1 << BITS) - 1)) - 1 if mask >> at & 1 else np.full(numbers.size, -1)
            columns.append(own.astype(np.int32))
        full = mask == (1 << len(self.lefts[side])) - 1
        for at in range(self.wide):
            if at >= len(facts):
                columns += [np.zeros(numbers.size, dtype=np.int64)] * 4
                continue
            broken, known, value = (own[chosen] for own in facts[at])
            several = known > 1
            columns += [
                np.bincount(inverse, weights=part, minlength=numbers.size).astype(np.int64)
                for part in (broken * several, known * several, several)
            ]
            best = np.zeros(numbers.size, dtype=np.int64)
            if full:
                # a condition on the whole left side is one group
                best[inverse] = value
            columns.append(best)
        names = [field.name for field in self.schema]
        return pa.record_batch([pa.array(own) for own in columns], names=names)


def _counted(rows: U64) -> tuple[I64, I64]:
    """By group its constants, and the facts of its one target: rows to remove, rows, the commonest value."""
    size = rows.shape[1]
    groups, firsts = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
    made = side_rows.grouped(rows, cells_for(size), groups, firsts)
    facts = np.zeros((1, 3, made), dtype=np.int64)
    side_rows.commonest(rows, groups, facts[0])
    return rows[PLACE, firsts[:made]].astype(np.int64), facts


def _met(rows: U64, shape: SideShape) -> tuple[I64, I64]:
    """By group its constants, and the facts of its targets: whether it is broken, rows that know it, a value."""
    facts = np.zeros((shape.apart, 3, rows.shape[1]), dtype=np.int64)
    for at in range(shape.apart):
        bit = np.uint64(at)
        facts[at, 0] = (rows[TOGETHER] >> bit) & np.uint64(1)
        own = rows[APART + shape.apart + at] if shape.counters else rows[COUNT]
        facts[at, 1] = np.where((rows[GAPS] >> bit) & np.uint64(1) == 0, own, 0)
        facts[at, 2] = rows[APART + at].view(np.int64)
    return rows[PLACE].astype(np.int64), facts
