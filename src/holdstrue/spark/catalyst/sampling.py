"""Some rows of a table as lanes, by which it is decided how its FDs are counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from holdstrue.spark.catalyst.bundles import LaneSample
from holdstrue.spark.catalyst.detecting import Tables
from holdstrue.spark.catalyst.lanes import Lanes, Sql
from holdstrue.typing import I64, Mask

SAMPLED = 20_000
"""Rows by which it is decided what is grouped together: of a million combinations some 200 are seen twice by then."""
_SAMPLED_BYTES = 2 << 20
"""What the driver is sent of them at most."""


@dataclass(frozen=True)
class SampledLanes:
    """Lanes of sampled rows, zero where they are NULL, and whether they are known."""

    values: Mapping[Sql, I64]
    known: Mapping[Sql, Mask]
    rows: int
    """How many rows the table has."""

    @staticmethod
    def of(tables: Tables, table: str, lanes: Iterable[Sql], rows: int) -> SampledLanes:
        """A sample of a table of so many rows. One job."""
        every = sorted(set(lanes))
        wanted = min(SAMPLED, _SAMPLED_BYTES // (8 * len(every)))
        frame = tables.frames[table]
        some = frame if wanted >= rows else frame.sample(fraction=wanted / rows, seed=0)
        drawn = some.selectExpr(*(f"{lane} as l{at}" for at, lane in enumerate(every))).toArrow()
        values, known = {}, {}
        for at, lane in enumerate(every):
            column = drawn.column(at)
            known[lane] = np.asarray(pc.is_valid(column)).astype(np.bool_)
            values[lane] = pc.fill_null(column, 0).to_numpy().astype(np.int64)
        return SampledLanes(values, known, rows)

    def digests(self) -> LaneSample:
        """The same for estimates of combinations."""
        return LaneSample.of(self.values, self.rows)

    def _known(self, lanes: Lanes) -> Mask:
        found = [self.known[lane] for lane in lanes if lane is not None]
        return np.logical_and.reduce(found)

    def is_refuted(self, left: Lanes, right: Lanes) -> bool:
        """Whether two sampled rows agree on the left and differ on the right."""
        known = self._known(left) & self._known(right)
        sides = [np.stack([self.values[lane][known] for lane in side if lane is not None]) for side in (left, right)]
        return _distinct(sides[0]) < _distinct(np.concatenate(sides))

    def values_of(self, right: Lanes) -> tuple[tuple[int, int | None], ...]:
        """The distinct values of sampled rows that are known."""
        a, b = right
        known = self._known(right)
        if b is None:
            return tuple((value, None) for value in np.unique(self.values[a][known]).tolist())
        both = np.unique(np.stack([self.values[a][known], self.values[b][known]]), axis=1)
        return tuple((one, other) for one, other in both.T.tolist())


def _distinct(columns: I64) -> int:
    return int(np.unique(columns, axis=1).shape[1])
