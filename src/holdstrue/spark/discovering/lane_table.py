"""A data frame as lanes: of every column that can be compared one or two 64-bit words, equal where values are.

Spark writes the lanes of the types that it compares as we do (`catalyst/lanes.py`); those of others are made by the
coding of one process in a stage.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructField, StructType

from holdstrue.data.coding import Domain, encode
from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.spark.catalyst.lanes import ColumnValues, Inexpressible, Lanes, Sql
from holdstrue.spark.discovering.bounded_jobs import ANSWER, collected, in_time, most_bytes
from holdstrue.spark.discovering.packed_lanes import LaneBlocks
from holdstrue.spark.runner import SparkRunner, column, quoted, sendable
from holdstrue.typing import I32, I64, U64, Mask

SAMPLE = 1 << 15
"""Rows of the sample at most, as many as the search in one process scouts on (`limited_search.SCOUTS`)."""

MOST_PIECES = 16
"""Jobs at most in which the sample is brought to the driver. Chosen, not tuned."""

_SALTS = secrets.randbits(62), secrets.randbits(62)


@dataclass(frozen=True)
class Profiled:
    """What there is to know of a column: distinct and known values, how often the commonest occurs."""

    distinct: int
    known: int
    commonest: int
    support: int
    """Rows that share their value with another."""
    groups: int
    """Values that several rows have."""
    valued: bool
    """Whether it has a value that is not NULL, also where NULLs are known, being equal."""


NOTHING = Profiled(0, 0, 0, 0, 0, valued=False)
_NULL = 0, 1
"""The lanes of a NULL that is equal to others, as of `ColumnValues.with_nulls`."""


class LaneTable:
    """The columns of a data frame as `a0, b0, a1, ...`; columns with one lane have no `b`."""

    def __init__(self, runner: SparkRunner, frame: DataFrame, options: DiscoveryOptions, rows: int) -> None:
        self.runner = runner
        self.schema = runner.schema(frame)
        self._sample = options.sample or SAMPLE
        self.nulls_equal = options.nulls == "equal"
        self.codes = Codes(self.schema, options.nulls, options.seed)
        self.names = self.codes.names
        """The columns that can be compared, by number."""
        self.lanes: list[tuple[str, str | None]] = []
        self.frame = self.lanes_of(frame)
        self._blocks: LaneBlocks | None = None
        self.identities: I64 = np.empty((0, 2), dtype=np.int64)
        """By place among the codes two digests of all lanes, by which rows that go are known."""
        self.rows = rows
        self.profiled: list[Profiled] = []
        self.members: I32 = np.empty(0, dtype=np.int32)
        """Places of the sample's rows among the codes; behind them are rows that were fetched, some of them again."""
        self.all_here = False
        """Whether the sample is the whole table."""

    def lanes_of(self, frame: DataFrame) -> DataFrame:
        """The lanes of rows with the columns of the table."""
        self.lanes = []
        values, written, odd = ColumnValues(frame.schema), [], {}
        for number, name in enumerate(self.names):
            try:
                a, b = values.with_nulls(name) if self.nulls_equal else values.lanes(name)
            except Inexpressible:
                odd[number] = name
                self.lanes.append((f"a{number}", f"b{number}"))
                continue
            written.append(f"{a} as a{number}")
            if b is not None:
                written.append(f"{b} as b{number}")
            self.lanes.append((f"a{number}", None if b is None else f"b{number}"))
        if not odd:
            return frame.selectExpr(*written) if written else frame.select()
        raw = frame.select(*map(F.expr, written), *(column(name).alias(f"v{at}") for at, name in odd.items()))
        kinds = StructType([StructField(name, LongType()) for name in self.columns])
        domains = {f"v{at}": self.codes.domains[name] for at, name in odd.items()}
        return raw.mapInArrow(sendable(OddLanes(domains, tuple(self.columns), self.nulls_equal)), kinds)

    def with_values(self, frame: DataFrame, numbers: Sequence[int]) -> DataFrame:
        """The lanes of some columns that Spark compares itself, and what they hold as `v0`, `v1`, ..."""
        values, written = ColumnValues(frame.schema), []
        for number in numbers:
            name = self.names[number]
            lanes = values.with_nulls(name) if self.nulls_equal else values.lanes(name)
            own = zip("ab", lanes, strict=True)
            written += [f"{lane} as {x}{number}" for x, lane in own if lane is not None]
            written.append(f"{quoted(name)} as v{number}")
        return frame.selectExpr(*written)

    @property
    def columns(self) -> list[str]:
        """All lanes by name."""
        return [lane for lanes in self.lanes for lane in lanes if lane is not None]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row on its way to the driver."""
        return 9 * len(self.columns) + 19

    def identified(self, rows: DataFrame) -> DataFrame:
        """Rows with digests of all their lanes, `ra` and `rb`."""
        digests = (f"xxhash64({salt}L, {', '.join(self.columns)})" for salt in _SALTS)
        return rows.selectExpr("*", *(f"{digest} as r{x}" for x, digest in zip("ab", digests, strict=True)))

    def group(self, columns: Sequence[int]) -> Lanes:
        """What rows that agree on some columns share: exact for up to two lanes, else digests of two secrets."""
        lanes = [lane for number in columns for lane in self.lanes[number] if lane is not None]
        if len(lanes) <= 2:
            first, second = [*lanes, "0L", "0L"][:2]
            return first, second
        a, b = (f"xxhash64({salt}L, {', '.join(lanes)})" for salt in _SALTS)
        return a, b

    def known(self, columns: Sequence[int]) -> Sql:
        """Whether all of some columns have values; never NULL."""
        return " and ".join(f"{self.lanes[number][0]} is not null" for number in columns) or "true"

    @property
    def blocks(self) -> LaneBlocks:
        """The lanes as blocks, from when they are first asked for until they are released."""
        if self._blocks is None:
            self._blocks = LaneBlocks(self.frame, self.lanes)
        return self._blocks

    def release(self) -> None:
        """Give up what executors keep."""
        if self._blocks is not None:
            self._blocks.release()
            self._blocks = None

    def never_null(self, column: int) -> bool:
        """Whether all rows are known to have a value in a column."""
        return bool(self.profiled) and self.profiled[column].known == self.rows

    @property
    def valued(self) -> set[str]:
        """The columns that have values."""
        return {name for name, one in zip(self.names, self.profiled, strict=False) if one.valued}

    def sample(self, work: Work) -> None:
        """Hold the codes of some rows, of which many agree somewhere: groups by each column, and some at random.

        A bounded number of rows, in as many jobs as the driver needs to be sent them.
        """
        self.members = self.take(self._sampled(work))
        self.all_here = self.members.size == self.rows

    def _sampled(self, work: Work) -> pa.Table:
        # the driver may be sent less at a time than the sample takes
        piece = max(2, most_bytes(self.runner, ANSWER) // self.row_bytes)
        most, rows = min(self._sample, MOST_PIECES * piece), self.rows
        if rows <= min(most, piece):
            return collected(self.runner, self.identified(self.frame), "all rows", work)
        if rows <= most:
            found = self.identified(self.frame)
        else:
            # groups are chosen by their hash: half of the sample for all columns, the other half at random
            own = most // (2 * len(self.lanes))
            small = [number for number, one in enumerate(self.profiled) if one.commonest <= own]
            every = max(1, rows // max(1, own))
            found = self.identified(self.blocks.sampled(small, every, most / (2 * rows)).limit(most))
        pieces = -(-min(most, rows) // piece)
        numbered = found.withColumn("piece", F.expr(f"pmod(monotonically_increasing_id(), {pieces})"))
        with in_time(self.runner, work), self.runner.about("a sample of rows"):
            numbered = numbered.localCheckpoint()
        parts = (numbered.where(f"piece = {at}").drop("piece") for at in range(pieces))
        return pa.concat_tables([collected(self.runner, part, "a part of the sample", work) for part in parts])

    def take(self, lanes: pa.Table) -> I32:
        """Number the values of rows that came as lanes, and hold them as codes; their places."""
        coded = np.empty((len(self.names), lanes.num_rows), dtype=np.int32)
        for number, (a, b) in enumerate(self.lanes):
            hi, known = _words(lanes.column(a))
            lo = np.zeros_like(hi) if b is None else _words(lanes.column(b))[0]
            coded[number] = self.codes.numberings[number].assign(hi, lo, known)
        first = self.codes.used
        self.codes.append(coded)
        told = np.stack([lanes.column(name).to_numpy() for name in ("ra", "rb")], axis=1).astype(np.int64)
        self.identities = np.concatenate([self.identities[:first], told])
        return np.arange(first, self.codes.used, dtype=np.int32)

    def forget(self, gone: Mask) -> I32 | None:
        """Drop rows of the sample by place; the new places of all where they moved."""
        self.codes.remove(np.flatnonzero(gone))
        self.members = self.members[~gone[self.members]]
        alive = self.codes.members()
        moved = self.codes.compact()
        if moved is not None:
            self.identities = self.identities[alive]
            self.members = moved[self.members]
        return moved


def _words(lane: pa.ChunkedArray) -> tuple[U64, Mask]:
    known = lane.is_valid().to_numpy()
    return np.ascontiguousarray(lane.fill_null(0).to_numpy()).view(np.uint64), known


@dataclass(frozen=True)
class OddLanes:
    """The stage that writes the lanes of types that Spark compares otherwise, or not at all."""

    domains: dict[str, Domain | None]
    columns: tuple[str, ...]
    nulls_equal: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Lanes and values (`v0`, ...) in, lanes out."""
        for batch in batches:
            found = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name, domain in self.domains.items():
                assert domain is not None
                coded = encode(pa.chunked_array([found.pop(name)]), domain, name=name)
                # the first lane tells values apart wherever one word does
                one = coded.codes.view(np.int64)
                first, second = (one, np.zeros_like(one)) if coded.upper is None else (coded.upper.view(np.int64), one)
                gone = np.zeros(one.size, dtype=np.bool_) if coded.valid is None else ~coded.valid
                if self.nulls_equal:
                    first, second = np.where(gone, _NULL[0], first), np.where(gone, _NULL[1], second)
                    gone[:] = False
                found[f"a{name[1:]}"] = pa.array(first, mask=gone)
                found[f"b{name[1:]}"] = pa.array(second, mask=gone)
            yield pa.record_batch([found[name] for name in self.columns], names=list(self.columns))
