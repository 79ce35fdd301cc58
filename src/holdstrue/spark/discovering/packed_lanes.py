"""Lanes as blocks of rows, kept on the executors while a search lasts: what is computed once is read by all its jobs.

A block is one cell that Spark hands on as it is: a job that looks at ten million rows takes some hundred cells out of
the cache, instead of reading files again, digesting text again, and turning rows to columns value by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from holdstrue.shards import scatter
from holdstrue.spark.runner import sendable
from holdstrue.typing import I64, U64, Mask

BLOCK = 1 << 11
"""Rows of a block: some 400 KB at twenty-six lanes. Spark's cache holds a hundred of them while it writes them to disk,
in each of two tasks of 1 GB together."""

_CACHED = "spark.sql.inMemoryColumnarStorage.batchSize"
"""Rows that are cached together: as Java's serializer remembers a hundred of what it wrote, ten blocks together took a
gigabyte."""

TASK = 36
"""Bits of the place of a row that say which it is of its task's; those above say which task."""

BLOCKS = StructType([StructField("first", LongType()), StructField("payload", BinaryType())])

Columns = Sequence[tuple[str, str | None]]
"""By column its lanes."""


@dataclass(frozen=True)
class PackedLanes:
    """The stage that makes blocks of lanes."""

    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Lanes in, blocks out: the place of the first row, and the rows as an Arrow batch."""
        first = scatter.PARTITION.get() << TASK
        for batch in batches:
            for start in range(0, batch.num_rows, BLOCK):
                payload = batch.slice(start, BLOCK).serialize()
                yield pa.record_batch(
                    [pa.array([first]), pa.array([payload.to_pybytes()], pa.binary())], names=["first", "payload"]
                )
                first += BLOCK


@dataclass(frozen=True)
class LaneBlock:
    """Some rows: their lanes, a line each, and by column which rows know it."""

    first: int
    lanes: U64
    known: Mask
    notes: dict[int, I64] = field(default_factory=dict)
    """What a stage found out about a column of it, and asks for again."""

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.lanes.shape[1]


@dataclass(frozen=True)
class BlockReader:
    """Turns blocks into arrays."""

    columns: tuple[tuple[str, str | None], ...]

    @property
    def names(self) -> list[str]:
        """All lanes in their order."""
        return [lane for own in self.columns for lane in own if lane is not None]

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[LaneBlock]:
        """The blocks of some batches."""
        schema = pa.schema([(name, pa.int64()) for name in self.names])
        places = {name: at for at, name in enumerate(self.names)}
        for batch in batches:
            for at, first in enumerate(batch.column(0).to_pylist()):
                rows = pa.ipc.read_record_batch(batch.column(1)[at].as_buffer(), schema)
                lanes = np.empty((len(schema), rows.num_rows), dtype=np.uint64)
                for lane, column in zip(lanes, rows.columns, strict=True):
                    lane[:] = (column if not column.null_count else column.fill_null(0)).to_numpy().view(np.uint64)
                known = np.ones((len(self.columns), rows.num_rows), dtype=np.bool_)
                for number, (name, _) in enumerate(self.columns):
                    own = rows.column(places[name])
                    if own.null_count:
                        known[number] = own.is_valid().to_numpy(zero_copy_only=False)
                yield LaneBlock(first, lanes, known)

    def numbers(self, column: int) -> list[int]:
        """The lanes of a column, by number."""
        names = self.names
        return [names.index(lane) for lane in self.columns[column] if lane is not None]


@dataclass(frozen=True)
class RowsAt:
    """The stage that picks rows out of blocks by their places."""

    reader: BlockReader
    places: I64
    """Ascending."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks in, lanes and places of rows out."""
        for block in self.reader.read(batches):
            start, end = np.searchsorted(self.places, [block.first, block.first + block.rows])
            if start < end:
                yield rows_of(self.reader, block, self.places[start:end] - block.first)


@dataclass(frozen=True)
class SampledRows:
    """The stage that takes whole groups by some columns, chosen by their hash, and other rows at random."""

    reader: BlockReader
    columns: tuple[int, ...]
    every: int
    """Of the groups of a column one in so many is taken."""
    share: float
    """Of the rows this share is taken whatever their groups."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks in, lanes and places of rows out."""
        for block in self.reader.read(batches):
            chosen = np.random.default_rng(block.first).random(block.rows) < self.share
            for column in self.columns:
                chosen |= (_spread(block.lanes[self.reader.numbers(column)[0]]) % np.uint64(self.every) == 0) & (
                    block.known[column]
                )
            if chosen.any():
                yield rows_of(self.reader, block, np.flatnonzero(chosen))


def _spread(words: U64) -> U64:
    mixed: U64 = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def rows_of(reader: BlockReader, block: LaneBlock, chosen: I64) -> pa.RecordBatch:
    """Some rows of a block as lanes, which are NULL where the column is, and their places."""
    arrays = []
    for number, own in enumerate(reader.columns):
        mask = ~block.known[number, chosen]
        lanes = [lane for lane, name in zip(reader.numbers(number), own, strict=False) if name is not None]
        arrays += [pa.array(block.lanes[lane, chosen].view(np.int64), mask=mask) for lane in lanes]
    return pa.record_batch([*arrays, pa.array(chosen + block.first)], names=[*reader.names, "place"])


class LaneBlocks:
    """A data frame of lanes as blocks, computed when they are first read and kept until they are released."""

    def __init__(self, lanes: DataFrame, columns: Columns) -> None:
        self.reader = BlockReader(tuple(columns))
        packed = lanes.select(*self.reader.names).mapInArrow(sendable(PackedLanes(tuple(self.reader.names))), BLOCKS)
        before = lanes.sparkSession.conf.get(_CACHED)
        lanes.sparkSession.conf.set(_CACHED, "1")
        try:
            # they lie on local disks, where the operating system caches them; the setting is taken over here
            self.frame = packed.persist(StorageLevel.DISK_ONLY)
        finally:
            lanes.sparkSession.conf.set(_CACHED, str(before))

    def rows_at(self, places: I64) -> DataFrame:
        """Rows by their places, as lanes and `place`."""
        wanted = np.unique(places)
        firsts = np.unique(wanted // BLOCK * BLOCK).tolist()
        fields = [StructField(name, LongType()) for name in (*self.reader.names, "place")]
        few = self.frame.where(F.col("first").isin(firsts)) if len(firsts) <= MOST_NAMED else self.frame
        return few.mapInArrow(sendable(RowsAt(self.reader, wanted)), StructType(fields))

    def sampled(self, columns: Sequence[int], every: int, share: float) -> DataFrame:
        """Some groups by each of some columns, and some rows, as lanes."""
        stage = SampledRows(self.reader, tuple(columns), every, share)
        fields = [StructField(name, LongType()) for name in (*self.reader.names, "place")]
        return self.frame.mapInArrow(sendable(stage), StructType(fields)).drop("place")

    def release(self) -> None:
        """Nobody reads them any more."""
        self.frame.unpersist()


MOST_NAMED = 100
"""Blocks that are asked for by name; of more the others are passed over by the stage. Chosen, not tuned."""
