"""Evidence of row pairs counted on Spark: a tile of rows against rows is the work of a task, counts are grouped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from holdstrue.discovery.denials.evidence import Evidence, tile_evidence
from holdstrue.discovery.denials.space import Space
from holdstrue.discovery.work import Work
from holdstrue.typing import I64, Mask

if TYPE_CHECKING:
    from holdstrue.spark.runner import SparkRunner


TILES_A_TASK = 4
"""Tiles for each task that runs at a time: enough to even out tiles of different cost. Chosen, not tuned."""
SMALLEST = 512
"""Rows of a block at least: smaller tiles cost more to start than to count. Chosen, not tuned."""


@dataclass(frozen=True)
class Count:
    """The stage that counts tiles: pairs of packed blocks in, words and numbers of pairs out."""

    space: Space

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Columns `i, t, j, s` in; `w0, w1, ..., pairs` out."""
        for batch in batches:
            for row in batch.to_pylist():
                one = _unpacked(row["t"], len(self.space.columns))
                other = None if row["i"] == row["j"] else _unpacked(row["s"], len(self.space.columns))
                words, counts = tile_evidence(self.space, one, other)
                columns = {f"w{w}": pa.array(words[:, w].view(np.int64)) for w in range(words.shape[1])}
                yield pa.record_batch({**columns, "pairs": pa.array(counts)})


class Tiles:
    """Counts the pairs of rows of a table in the tasks of a Spark session.

    The codes of the rows travel, 9 bytes a value and block they meet; what comes back are distinct evidences.
    """

    def __init__(self, runner: SparkRunner) -> None:
        self.runner = runner

    def __call__(self, space: Space, codes: I64, known: Mask, slots: I64, work: Work) -> Evidence:
        """The evidence of all pairs among these slots."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import LongType, StructField, StructType

        blocks = self._blocks(slots.size)
        parts = [part for part in np.array_split(slots, blocks) if part.size]
        if not parts:
            return Evidence(
                np.zeros((0, space.width), dtype=np.uint64), np.zeros(0, dtype=np.int64), np.zeros((0, 2), np.int64)
            )
        payloads = [_packed(codes[:, part], known[:, part]) for part in parts]
        table = pa.table({"i": pa.array(range(len(parts)), pa.int32()), "t": pa.array(payloads, pa.binary())})
        one = self.runner.spark.createDataFrame(table)
        tiles = one.crossJoin(one.toDF("j", "s")).where(F.col("i") <= F.col("j"))
        # the second block of a tile within a block is the first one again
        tiles = tiles.withColumn("s", F.when(F.col("i") < F.col("j"), F.col("s")))
        words = [f"w{w}" for w in range(space.width)]
        schema = StructType([StructField(name, LongType()) for name in (*words, "pairs")])
        from holdstrue.spark.runner import sendable

        counted = tiles.repartition(self._tasks()).mapInArrow(sendable(Count(space)), schema)
        found = counted.groupBy(*words).agg(F.sum("pairs").alias("pairs")).toArrow()
        columns = [found.column(name).to_numpy().astype(np.int64).view(np.uint64) for name in words]
        stacked = np.ascontiguousarray(np.stack(columns, axis=1))
        nobody = np.full((len(found), 2), -1, dtype=np.int64)
        return Evidence(stacked, np.ascontiguousarray(found.column("pairs").to_numpy()), nobody)

    def _tasks(self) -> int:
        return TILES_A_TASK * self.runner.tasks()

    def _blocks(self, rows: int) -> int:
        """So many blocks that their tiles, n (n + 1) / 2, serve all tasks."""
        wanted = int(np.ceil(np.sqrt(2 * self._tasks())))
        return max(1, min(wanted, rows // SMALLEST))


def _packed(codes: I64, known: Mask) -> bytes:
    return np.ascontiguousarray(codes).tobytes() + np.ascontiguousarray(known).tobytes()


def _unpacked(data: bytes, columns: int) -> tuple[I64, Mask]:
    rows = len(data) // (9 * columns)
    split = 8 * columns * rows
    codes = np.frombuffer(data[:split], dtype=np.int64).reshape(columns, rows).copy()
    return codes, np.frombuffer(data[split:], dtype=np.bool_).reshape(columns, rows).copy()
