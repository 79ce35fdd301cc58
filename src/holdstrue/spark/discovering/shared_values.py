"""The two stages that count which values columns share: values to their task, and counters of pairs of columns.

Values are digested by a stage, as in one process, so that all types compare as they do there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from holdstrue.data.seed import Seed
from holdstrue.discovery.inclusions.attributes import Contents
from holdstrue.discovery.inclusions.contents import Compare
from holdstrue.kernels import side_rows, value_pairs
from holdstrue.kernels.side_rows import COUNT, GAPS, KEY, LOWER, PLACE, TOGETHER
from holdstrue.shards.wire import Message, send
from holdstrue.spark.discovering.waiting_rows import WaitingRows, cells_for, segments
from holdstrue.typing import U64

SHARED = StructType(
    [StructField(name, IntegerType()) for name in "ab"] + [StructField(name, LongType()) for name in "vrl"]
)
"""Of two columns the values that both have, the rows of the first with such a value, and the sum over these values of
the smaller number of rows."""


@dataclass(frozen=True)
class WrittenValues:
    """The stage that counts the values of columns, or of tuples of columns, and sends them to the task of the value."""

    numbered: tuple[tuple[int, tuple[str, ...]], ...]
    compare: Compare
    seed: Seed
    parts: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, messages out."""
        yield from send(self._messages(batches))

    def _messages(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
        waiting = WaitingRows([(GAPS, side_rows.joined) for _ in self.numbered], self.parts)
        for batch in batches:
            contents = Contents(pa.Table.from_batches([batch]), self.compare, self.seed)
            for owner, (number, columns) in enumerate(self.numbered):
                found = contents.of(columns)
                known = np.flatnonzero(found.mask())
                hi, lo, own, start = found.hi[known], found.lo[known], waiting.of[owner], 0
                while start < known.size:
                    many = min(known.size - start, own.rows.shape[1] - own.used)
                    place = slice(own.used, own.used + many)
                    own.rows[KEY, place], own.rows[LOWER, place] = hi[start : start + many], lo[start : start + many]
                    own.rows[PLACE, place], own.rows[COUNT, place], own.rows[TOGETHER, place] = 0, 1, number
                    own.used += many
                    start += many
                    if start < known.size:
                        yield from waiting.make_room(owner)
        yield from waiting.rest()


@dataclass(frozen=True)
class SharedValues:
    """The stage that counts what columns share."""

    columns: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Messages in, a line for each two columns that share a value out."""
        parts: list[U64] = [rows for _, rows in segments(batches)]
        if not parts:
            return
        rows = np.ascontiguousarray(np.concatenate(parts, axis=1))
        parts.clear()
        size = side_rows.joined(rows, rows.shape[1], cells_for(rows.shape[1]))
        rows = np.ascontiguousarray(rows[:, :size])
        groups, firsts = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
        made = side_rows.grouped(rows, cells_for(size), groups, firsts)
        counted = np.zeros((3, self.columns, self.columns), dtype=np.int64)
        value_pairs.count_shared(rows[TOGETHER], rows[COUNT], groups, made, counted)
        a, b = np.nonzero(counted[0])
        lines = [pa.array(own.astype(np.int32)) for own in (a, b)] + [pa.array(own[a, b]) for own in counted]
        yield pa.record_batch(lines, names=list("abvrl"))
