"""Hot places: keys so frequent that their rows must be spread over tasks, found in a sample."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from holdstrue.plan.compile import Plan
from holdstrue.shards.layout import Columns, Digest, Layout
from holdstrue.shards.routing import routes_of

SPREAD_FROM = 500_000
"""Smaller tables are not spread: one task does them in a fraction of a second, and a grid repeats rows."""

CROWDED = 2_000_000
"""A shard with more rows makes a check that kept no count of its rows look for hot keys and start anew."""

SAMPLE = 20_000
SEEN_AT_LEAST = 32
"""So often must a key be in the sample, so that chance alone makes no key hot."""


def blocks_for(tasks: int, rows: int) -> int:
    """How many blocks the grid of a hot place has: cells for all tasks, since r blocks make r (r + 1) / 2 cells.

    Two blocks would put all rows into one cell, so there are three at least.

    >>> blocks_for(2, 10**6), blocks_for(16, 10**6), blocks_for(100, 10**6), blocks_for(100, 1000)
    (3, 6, 14, 1)
    """
    if tasks < 2 or rows < SPREAD_FROM:
        return 1
    return max(3, int(np.ceil((np.sqrt(8 * tasks + 1) - 1) / 2)))


MOST_BLOCKS = 24
"""A row of a hot place is in as many cells as there are blocks: beyond this, workers must hold more at a time."""


def blocks_within(layout: Layout, samples: Mapping[str, pa.Table], rows: int, most: int) -> int:
    """How many blocks leave at most so many of all rows in a cell of the largest place, as samples show it.

    Complexity: O(sample * routes).
    """
    share = 0.0
    for number, route in enumerate(layout.routes):
        for side in dict.fromkeys((route.t, route.s)):
            sample = samples.get(side.table)
            if not side.columns:
                share = 1.0
            elif sample is not None and sample.num_rows:
                hi, lo, usable = layout.digest(number, side, Columns(sample))
                both = np.stack((hi[usable], lo[usable]), axis=1)
                if both.size:
                    share = max(share, np.unique(both, axis=0, return_counts=True)[1].max() / sample.num_rows)
    return min(MOST_BLOCKS, int(np.ceil(2 * share * rows / most)))


def placing_columns(plan: Plan, table: str) -> list[str]:
    """The columns of a table that say where its rows meet others, all that is looked at in a sample of it."""
    sides = [side for route in routes_of(plan) for side in (route.t, route.s) if side.table == table]
    wanted = {name for side in sides for name in side.columns}
    return [name for name in plan.schemas[table].names if name in wanted]


def hot_places(layout: Layout, tasks: int, samples: Mapping[str, pa.Table]) -> dict[int, list[Digest]]:
    """By route the places that hold more than half a task's share of the rows. Complexity: O(sample * routes)."""
    found: dict[int, list[Digest]] = {}
    for number, route in enumerate(layout.routes):
        for side in dict.fromkeys((route.t, route.s)):
            sample = samples.get(side.table)
            if sample is None or not sample.num_rows or not side.columns:
                continue
            hi, lo, usable = layout.digest(number, side, Columns(sample))
            both = np.stack((hi[usable], lo[usable]), axis=1)
            distinct, counts = np.unique(both, axis=0, return_counts=True)
            often = counts >= max(SEEN_AT_LEAST, sample.num_rows / (2 * tasks))
            found.setdefault(number, []).extend((int(a), int(b)) for a, b in distinct[often])
    return found
