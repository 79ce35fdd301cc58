"""FDs whose rows are grouped together: once by all their columns, after which each FD reads the combinations.

Rows that agree on a left side mostly agree on its right sides as well, so that ten million rows may have 40,000
combinations of the columns of eight FDs. How many there are of which columns is estimated from a sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdstrue.typing import I64, U64

ROW_COST = 0.1
"""Microseconds of CPU to read a row and to find its combination. All these were set by eye to groupings of one table of
10M rows on two cores: 9 lanes and 42,000 combinations 4.4 s for eight FDs, 5 lanes and 1M 9.4 s for four, 10 lanes and
522,000 12 s for nine."""
LANE_COST = 0.035
"""For each lane of a row: what is compared, and digested before."""
MISSED_COST = 0.03
"""For each lane of a row where there are so many combinations that their table does not fit the caches."""
CACHED = 50_000
"""Combinations of which the table does."""
COMBINATION_COST = 2.0
"""For each combination: its place in that table, the shuffle, and once more."""
SIDE_COST = 0.2
"""For each combination and FD of several: one more row, whose sides are then grouped again."""
SIDES_COST = 1.5
"""For each combination of the sides of one FD of several."""
JOB_COST = 100_000.0
"""For a grouping, whatever its size: plans, tasks, and results that are waited for."""


@dataclass(frozen=True)
class FdBundle:
    """Some FDs by their numbers, the lanes that they need, and what it is thought to cost to count them."""

    numbers: tuple[int, ...]
    lanes: frozenset[str]
    digest: U64
    """Of the lanes in every sampled row."""
    combinations: float
    sides: float
    """The combinations of the left and the right side of each FD, added up."""
    cost: float


@dataclass(frozen=True)
class LaneSample:
    """Some rows of a table: their lanes, of which digests add up, so that those of more lanes are quickly made."""

    lanes: Mapping[str, U64]
    rows: int
    """How many rows the table has."""

    @staticmethod
    def of(values: Mapping[str, I64], rows: int) -> LaneSample:
        """From values that are as many for every lane."""
        return LaneSample({lane: _spread(own, at) for at, (lane, own) in enumerate(values.items())}, rows)

    def bundle(self, numbers: Sequence[int], lanes: frozenset[str], digest: U64, sides: float = 0.0) -> FdBundle:
        """FDs in one grouping; one that is alone has no other combinations than those of its sides."""
        found = combinations(digest, self.rows)
        by_lane = LANE_COST if found <= CACHED else LANE_COST + MISSED_COST
        cost = JOB_COST + self.rows * (ROW_COST + by_lane * len(lanes)) + found * COMBINATION_COST
        if len(numbers) > 1:
            cost += found * len(numbers) * SIDE_COST + sides * SIDES_COST
        else:
            # its left sides are grouped after that
            cost += found * COMBINATION_COST
        return FdBundle(tuple(numbers), lanes, digest, found, sides or found, cost)

    def alone(self, number: int, lanes: frozenset[str]) -> FdBundle:
        """One FD in a grouping of its own."""
        sampled = len(next(iter(self.lanes.values())))
        return self.bundle([number], lanes, sum((self.lanes[lane] for lane in lanes), np.zeros(sampled, np.uint64)))

    def together(self, one: FdBundle, other: FdBundle) -> FdBundle:
        """Two bundles in one."""
        more = other.lanes - one.lanes
        digest = sum((self.lanes[lane] for lane in more), one.digest)
        return self.bundle((*one.numbers, *other.numbers), one.lanes | more, digest, one.sides + other.sides)


def bundled(sample: LaneSample, lanes: Mapping[int, frozenset[str]]) -> list[FdBundle]:
    """FDs by their numbers, with the lanes that each needs, in groupings that are thought to cost least.

    Those with few combinations come first; each joins the bundle where it saves most, or makes one of its own.

    Complexity: O(k b s log s) for k FDs in b bundles and s sampled rows.

    >>> zips = np.arange(1000) % 20
    >>> values = {"zip": zips, "city": zips // 2, "state": zips // 7, "id": np.arange(1000)}
    >>> sides = {0: ("zip", "city"), 1: ("city", "state"), 2: ("id", "city")}
    >>> found = bundled(LaneSample.of(values, 10**7), {n: frozenset(own) for n, own in sides.items()})
    >>> [(bundle.numbers, round(bundle.combinations)) for bundle in found]
    [((1, 0), 20), ((2,), 10000000)]
    """
    alone = sorted((sample.alone(n, own) for n, own in lanes.items()), key=lambda b: (b.combinations, b.numbers))
    found: list[FdBundle] = []
    for one in alone:
        saved, best, at = 0.0, one, len(found)
        for place, other in enumerate(found):
            both = sample.together(other, one)
            if other.cost + one.cost - both.cost > saved:
                saved, best, at = other.cost + one.cost - both.cost, both, place
        found[at : at + 1] = [best]
    return found


def combinations(digest: U64, rows: int) -> float:
    """How many distinct values a table of so many rows has, by those of a sample (Chao's estimator).

    Each value that was seen once stands for others that were not seen, as many more as fewer were seen twice; there are
    never more than if all of them were new in the rest of the table.

    >>> round(combinations(np.arange(1000, dtype=np.uint64), 10**6)), combinations(np.zeros(9, np.uint64), 10**6)
    (1000000, 1.0)
    """
    _, counts = np.unique(digest, return_counts=True)
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    most = once * max(0, rows - len(digest)) / max(1, len(digest))
    return len(counts) + (min(once * once / (2 * twice), most) if twice else most)


def _spread(values: I64, at: int) -> U64:
    """Words of 64 bits whose sums over several lanes tell tuples apart (the last steps of splitmix64)."""
    found = values.astype(np.uint64) + np.uint64((at + 1) * 0x9E3779B97F4A7C15 % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    return found ^ (found >> np.uint64(31))
