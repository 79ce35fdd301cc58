"""Keys and FDs that a handful of rows break, which are likely wrong."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from holdstrue.discovery.dependencies.ranking import Profile, chance, surprise
from holdstrue.kernels.partitions import GATHERED, OFFENDING, SUPPORT, SURPLUS
from holdstrue.rules.model import Body
from holdstrue.typing import I32, I64

CONFIRMED = 20
"""Rows that must follow a near miss for each that breaks it, and in all. Chosen, not tuned."""

UNLIKELY = 0.1
"""A near miss breaks at most this share of what would break it by chance. Chosen, not tuned."""

LIKE_A_KEY = 0.5
"""Columns of a worse quality for keys (dates, measures) make no near key."""


@dataclass(frozen=True)
class NearMiss:
    """A rule that a few rows break.

    Parameters
    ----------
    pairs
        How many pairs of rows violate it.
    error
        The share of all rows that would have to go.
    suspects
        Slots of rows whose removal mends it, the fewest possible.
    witnesses
        For each suspect, it and a row that it disagrees with, most often one of a majority, as slots.
    support
        Rows that have a partner with the same left side.
    """

    body: Body
    pairs: int
    error: float
    suspects: tuple[int, ...]
    witnesses: tuple[tuple[int, int], ...]
    support: int
    score: float


def believable(left: list[Profile], target: Profile | None, counts: I64, rows: int) -> bool:
    """Whether a near miss is more than chance: followed by many rows, and by more than random values would."""
    surplus, support, groups = int(counts[SURPLUS]), int(counts[SUPPORT]), int(counts[GATHERED])
    if surplus == 0:
        return False
    if target is None:
        known = min((column.known for column in left), default=0)
        unlikely = len(left) < 2 or int(counts[OFFENDING]) <= UNLIKELY * chance(left, rows)
        sound = bool(left) and min(column.quality for column in left) > LIKE_A_KEY
        return sound and unlikely and known >= CONFIRMED * (surplus + 1)
    confirmed = support - groups - surplus
    return confirmed >= CONFIRMED * surplus and surplus <= UNLIKELY * surprise(support, groups, target)


def suspects(column: I32 | None, rows: I32, starts: I32) -> list[tuple[int, int]]:
    """Rows that should go, each with one that stays; `column` holds the right side's codes (None: a key).

    In every group the commonest value stays, of equally common ones the first. Complexity: O(rows).
    """
    if column is None:
        return [(int(row), int(rows[start])) for start, end in pairwise(starts) for row in rows[start + 1 : end]]
    if starts.size < 2:
        return []
    codes = column[rows]
    highest = np.maximum.reduceat(codes, starts[:-1])
    lowest = np.minimum.reduceat(np.where(codes < 0, np.iinfo(np.int32).max, codes), starts[:-1])
    found = []
    for g in np.flatnonzero((highest >= 0) & (highest != lowest)):
        members, values = rows[starts[g] : starts[g + 1]], codes[starts[g] : starts[g + 1]]
        kinds, first, counts = np.unique(values[values >= 0], return_index=True, return_counts=True)
        # the first of the commonest values, in the order of rows
        best = kinds[np.lexsort((first, -counts))[0]]
        stays = int(members[values == best][0])
        found += [(int(row), stays) for row in members[(values >= 0) & (values != best)]]
    return found
