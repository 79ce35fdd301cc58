"""The two stages that look at groups of left sides: rows as words to the task of their group, groups to counts.

A row is written for a left side as some words (`kernels/side_rows.py`): its key, its place, and one digest of all right
sides that are never unknown. Equal rows of a task become one that counts, unless there are hardly any: so a left side
of few groups sends few rows, and one that is nearly a key costs no looking for equals. Words travel packed, many rows
to a message; what comes back are counts, and the places of a few rows that break something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from holdstrue.kernels import side_rows, side_weights
from holdstrue.kernels.side_rows import APART, GAPS, PLACE, TOGETHER, Shape
from holdstrue.shards.wire import Message, send
from holdstrue.spark.discovering.packed_lanes import BlockReader, LaneBlock
from holdstrue.spark.discovering.waiting_rows import Join, WaitingRows, cells_for, segments
from holdstrue.typing import I64, U64

FACTS = ("support", "groups", "distinct", "known", "most", "valued")
"""What is counted of a left side, as `side_rows` numbers it."""

TOLD = StructType(
    [
        StructField("side", IntegerType()),
        *(StructField(name, LongType()) for name in FACTS),
        StructField("pairs", BinaryType()),
    ]
)
"""`pairs` are lines of three words: which right side is broken (`TOGETHER`, one from `APART` on, `PLACE` for a key),
and the places of two rows."""

PAIRS = 8
"""Pairs of rows that a task tells of each broken right side."""


@dataclass(frozen=True)
class SideShape:
    """A left side and its right sides, as numbers of lanes."""

    shape: Shape
    key: bool
    """Whether no two rows may share a group."""
    counters: bool = False
    """Whether rows that know a right side are counted for each of those apart."""

    @property
    def apart(self) -> int:
        """Right sides that have words of their own."""
        return int(self.shape[3].shape[0])

    @property
    def words(self) -> int:
        """Words of a row."""
        return APART + self.apart * (2 if self.counters else 1) if self.apart else GAPS

    @staticmethod
    def of(
        reader: BlockReader, left: Sequence[int], together: Sequence[int], apart: Sequence[int], key: bool
    ) -> SideShape:
        """From numbers of columns."""
        own = [lane for column in left for lane in reader.numbers(column)]
        never = [lane for column in together for lane in reader.numbers(column)]
        maybe = [(column, *reader.numbers(column), -1)[:3] for column in apart]
        kinds = (np.array(own, np.int64), np.array(list(left), np.int64), np.array(never, np.int64))
        return SideShape((*kinds, np.array(maybe, np.int64).reshape(-1, 3)), key)


@dataclass(frozen=True)
class WrittenSides:
    """The stage that writes rows for left sides."""

    reader: BlockReader
    sides: tuple[SideShape, ...]
    keys: U64
    part: int
    """Of the groups one in so many is written."""
    parts: int
    """Tasks that groups are dealt to."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks in, messages out."""
        yield from send(self._messages(batches))

    def join(self, side: SideShape) -> Join | None:
        """How rows of a left side become fewer."""
        return None if side.key else side_rows.joined

    def mark(self, block: LaneBlock, number: int, rows: U64) -> int:
        """Say more of rows that were just written, whose places are known; how many of them are kept."""
        return rows.shape[1]

    def _messages(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
        waiting = WaitingRows([(side.words, self.join(side)) for side in self.sides], self.parts)
        for block in self.reader.read(batches):
            for number, side in enumerate(self.sides):
                start, own = 0, waiting.of[number]
                while start < block.rows:
                    before = own.used
                    start, own.used = side_rows.written(
                        block.lanes, block.known, side.shape, self.keys, self.part,
                        block.first, start, own.rows, own.used,
                    )  # fmt: skip
                    own.used = before + self.mark(block, number, own.rows[:, before : own.used])
                    if start < block.rows:
                        yield from waiting.make_room(number)
        yield from waiting.rest()


def _by_side(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, U64]]:
    """All rows of each left side, one side after the other, whose parts are let go of then."""
    found: dict[int, list[U64]] = {}
    for number, rows in segments(batches):
        found.setdefault(number, []).append(rows)
    for number in sorted(found):
        yield number, np.ascontiguousarray(np.concatenate(found.pop(number), axis=1))


@dataclass(frozen=True)
class TalliedSides:
    """The stage that counts the groups of left sides."""

    sides: tuple[SideShape, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Messages in, a line for each left side out."""
        lines = [(number, *self._line(self.sides[number], rows)) for number, rows in _by_side(batches)]
        if lines:
            columns = zip(*lines, strict=True)
            arrays = [pa.array(own, type_) for own, type_ in zip(columns, _ARROW, strict=True)]
            yield pa.record_batch(arrays, names=[one.name for one in TOLD])

    def _line(self, side: SideShape, rows: U64) -> tuple[int | bytes, ...]:
        size = rows.shape[1]
        cells = cells_for(size)
        groups, firsts = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
        made = side_rows.grouped(rows, cells, groups, firsts)
        facts: I64 = np.zeros(len(FACTS), dtype=np.int64)
        side_rows.tallied(rows, groups, firsts, made, facts)
        _, _, together, apart = side.shape
        asked = [TOGETHER] * bool(together.size) + [APART + k for k in range(len(apart))] + [PLACE] * side.key
        pairs = np.empty((PAIRS, 2), dtype=np.uint64)
        told: list[U64] = []
        for word in asked:
            many = side_rows.broken_pairs(rows, groups, made, word, pairs)
            own = np.empty((many, 3), dtype=np.uint64)
            own[:, 0], own[:, 1:] = word, pairs[:many]
            told.append(own)
        return (*facts.tolist(), np.concatenate(told).tobytes() if told else b"")


_ARROW = [pa.int32(), *(pa.int64() for _ in FACTS), pa.binary()]


BREAKS = ("pairs", "rows", "support", "groups")
WEIGHED = StructType([StructField("side", IntegerType()), *(StructField(name, LongType()) for name in BREAKS)])
"""What breaks a dependency, as `kernels.partitions.weigh` counts it."""


@dataclass(frozen=True)
class WeighedSides:
    """The stage that counts what breaks dependencies, of left sides with one right side each, or keys."""

    keys: tuple[bool, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Messages in, a line for each left side out."""
        lines = []
        for number, rows in _by_side(batches):
            size = side_rows.joined(rows, rows.shape[1], cells_for(rows.shape[1]))
            joined = np.ascontiguousarray(rows[:, :size])
            del rows  # not both at once
            groups, firsts = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
            made = side_rows.grouped(joined, cells_for(size), groups, firsts)
            facts: I64 = np.zeros(4, dtype=np.int64)
            side_weights.weighed(joined, groups, made, self.keys[number], facts)
            lines.append((number, *facts.tolist()))
        if lines:
            arrays = [pa.array(own, pa.int64()) for own in zip(*lines, strict=True)]
            arrays[0] = arrays[0].cast(pa.int32())
            yield pa.record_batch(arrays, names=[one.name for one in WEIGHED])
