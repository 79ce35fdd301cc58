"""The two stages that look at groups of left sides: rows as words to the task of their group, groups to counts.

A row is written for a left side as some words (`kernels/side_rows.py`): its key, its place, and one digest of all right
sides that are never unknown. Equal rows of a task become one that counts, unless there are hardly any: so a left side
of few groups sends few rows, and one that is nearly a key costs no looking for equals. Words travel packed, many rows
to a message; what comes back are counts, and the places of a few rows that break something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from holdstrue.kernels import side_rows
from holdstrue.kernels.side_rows import APART, GAPS, PLACE, TOGETHER, Shape
from holdstrue.shards.wire import ROWS, Message, receive, send
from holdstrue.spark.discovering.packed_lanes import BlockReader
from holdstrue.typing import I32, I64, U64

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

WAITING = 48 << 20
"""Bytes of rows that a task holds back in the hope of equal ones, of all its left sides together. Chosen."""

LEAST_WAITING, MOST_WAITING = 1 << 10, 1 << 16
"""Rows that it holds back of one left side. Chosen."""

REDUCED = 0.5
"""Equal rows are looked for as long as no more than this share is left. Chosen, not tuned."""

SENT = 16 << 20
"""Bytes that a task sends at a time."""

PAIRS = 8
"""Pairs of rows that a task tells of each broken right side."""


@dataclass(frozen=True)
class SideShape:
    """A left side and its right sides, as numbers of lanes."""

    shape: Shape
    key: bool
    """Whether no two rows may share a group."""

    @property
    def words(self) -> int:
        """Words of a row."""
        apart = self.shape[3].shape[0]
        return APART + apart if apart else GAPS

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


@dataclass
class _Waiting:
    """Rows of one left side that have not been sent."""

    rows: U64
    used: int = 0
    joins: bool = True


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

    def _messages(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
        room = WAITING // (8 * sum(side.words for side in self.sides))
        room = min(MOST_WAITING, max(LEAST_WAITING, room))
        waiting = [_Waiting(np.empty((side.words, room), np.uint64), joins=not side.key) for side in self.sides]
        parcel = _Parcel(self.parts)
        cells = np.zeros(4 * room, dtype=np.int32)[: 1 << int(np.ceil(np.log2(2 * room)))]
        for block in self.reader.read(batches):
            for number, (side, own) in enumerate(zip(self.sides, waiting, strict=True)):
                start = 0
                while start < block.rows:
                    start, own.used = side_rows.written(
                        block.lanes, block.known, side.shape, self.keys, self.part,
                        block.first, start, own.rows, own.used,
                    )  # fmt: skip
                    if start < block.rows:
                        self._make_room(number, own, cells, parcel)
                        yield from parcel.messages(SENT)
        for number, own in enumerate(waiting):
            if own.used and own.joins:
                own.used = _joined(own, cells)
            parcel.add(number, own)
            yield from parcel.messages(SENT)
        yield from parcel.messages(0)

    def _make_room(self, number: int, own: _Waiting, cells: I32, parcel: _Parcel) -> None:
        if own.joins:
            own.used = _joined(own, cells)
            if own.used <= REDUCED * own.rows.shape[1]:
                return
            own.joins = False
        parcel.add(number, own)


def _joined(own: _Waiting, cells: I32) -> int:
    cells[:] = 0
    return int(side_rows.joined(own.rows, own.used, cells))


@dataclass
class _Parcel:
    """Rows on their way, by the task of their group."""

    parts: int
    bytes: int = 0
    packed: dict[int, list[U64]] = field(default_factory=dict)

    def add(self, side: int, own: _Waiting) -> None:
        """Take over what waits of a left side."""
        if not own.used:
            return
        starts, out = np.zeros(self.parts + 1, dtype=np.int64), np.empty((len(own.rows), own.used), dtype=np.uint64)
        side_rows.dealt(own.rows, own.used, starts, out)
        for part in np.flatnonzero(np.diff(starts)).tolist():
            rows = out[:, starts[part] : starts[part + 1]]
            head = np.array([side, *rows.shape], dtype=np.uint64)
            self.packed.setdefault(part, []).extend((head, rows.reshape(-1)))
            self.bytes += rows.nbytes
        own.used = 0

    def messages(self, least: int) -> Iterator[Message]:
        """All, where they are this many bytes."""
        if self.bytes < least or not self.packed:
            return
        for part, words in self.packed.items():
            yield Message(part, ROWS, 0, "", pa.py_buffer(np.concatenate(words)))
        self.packed, self.bytes = {}, 0


def segments(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, U64]]:
    """Left sides by number with rows of them, out of messages."""
    for message in receive(batches):
        words = np.frombuffer(message.payload, dtype=np.uint64)
        at = 0
        while at < words.size:
            side, height, width = (int(word) for word in words[at : at + 3])
            at += 3
            # the message is given up, and with it the batch that it came in
            yield side, words[at : at + height * width].reshape(height, width).copy()
            at += height * width


@dataclass(frozen=True)
class TalliedSides:
    """The stage that counts the groups of left sides."""

    sides: tuple[SideShape, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Messages in, a line for each left side out."""
        found: dict[int, list[U64]] = {}
        for number, rows in segments(batches):
            found.setdefault(number, []).append(rows)
        lines = []
        for number in sorted(found):
            rows = np.concatenate(found.pop(number), axis=1)
            lines.append((number, *self._line(self.sides[number], np.ascontiguousarray(rows))))
        if lines:
            columns = zip(*lines, strict=True)
            arrays = [pa.array(own, type_) for own, type_ in zip(columns, _ARROW, strict=True)]
            yield pa.record_batch(arrays, names=[one.name for one in TOLD])

    def _line(self, side: SideShape, rows: U64) -> tuple[int | bytes, ...]:
        size = rows.shape[1]
        cells = np.zeros(1 << int(np.ceil(np.log2(2 * size + 2))), dtype=np.int32)
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
