"""Rules that nearly hold: with an error that was allowed, or broken by a handful of rows, which are likely wrong.

The search goes over left sides by their length as TANE's (Huhtala et al. 1999), on the same families
of left sides as the exact one; counting ends as soon as a left side is beyond the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from holdstrue.discovery.dependencies.cover import Cover, set_sizes
from holdstrue.discovery.dependencies.evidence import Refuted
from holdstrue.discovery.dependencies.ranking import Profile, chance, surprise
from holdstrue.discovery.dependencies.validation import Validator
from holdstrue.kernels.antichains import HOLDS, OPEN
from holdstrue.kernels.partitions import GATHERED, OFFENDING, SUPPORT, SURPLUS
from holdstrue.rules.model import Body

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
Mask = NDArray[np.bool_]

NO_LIMIT = 1 << 62

MOST_COUNTED = 1 << 20
"""Left sides of one length and all targets that are counted at most: some minutes on a million rows. With 30 columns
there are 0.1 million of three, with 300 columns 13 million of two."""

SCOUTS = 1 << 15
"""Rows of a part of the table on which left sides are counted first, where the table is much larger."""

CONFIRMED = 20
"""Rows that must follow a near miss for each that breaks it, and in all. Chosen, not tuned."""

UNLIKELY = 0.1
"""A near miss breaks at most this share of what would break it by chance. Chosen, not tuned."""

LIKE_A_KEY = 0.5
"""Columns of a worse quality for keys (dates, measures) make no near key."""


@dataclass(frozen=True)
class Weighed:
    """A minimal dependency within the limits, with its counts (see `kernels.partitions.weigh`)."""

    target: int
    line: U64
    counts: I64


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


def within(
    validator: Validator,
    columns: int,
    targets: list[int],
    limits: I64,
    longest: int,
    deadline: float | None,
    without: int | None = None,
) -> tuple[list[Weighed], bool]:
    """The minimal dependencies of up to `longest` columns within the limits; and whether time and room sufficed.

    No left side has the column `without`.
    Both limits are monotone: a longer left side is broken by no more pairs, and mended by no more rows.
    """
    scout = validator.scout(SCOUTS)
    covers = [Cover(target, columns) for target in targets]
    if without is not None:
        for cover in covers:
            cover.allowed[without >> 6] &= ~np.uint64(1 << (without & 63))
    found: list[Weighed] = []
    while True:
        sets, wanted, owners = _shortest(covers)
        if not sets.shape[0]:
            return found, True
        counts, done = _weighed(validator, scout, sets, wanted, limits, deadline)
        good = done & _good(counts, limits)
        found += [Weighed(int(wanted[i]), sets[i], counts[i]) for i in np.flatnonzero(good)]
        if not done.all():
            return found, False
        for cover, places, part in owners:
            cover.status[places[good[part]]] = HOLDS
            refuted = Refuted.of(sets[part][~good[part]], cover.target)
            numbers = np.arange(refuted.agree.shape[0], dtype=np.int64)
            if not cover.extend(refuted, numbers, longest, MOST_COUNTED // len(covers), deadline):
                return found, False


def _good(counts: I64, limits: I64) -> Mask:
    return (counts[:, OFFENDING] <= limits[OFFENDING]) & (counts[:, SURPLUS] <= limits[SURPLUS])


def _weighed(
    validator: Validator, scout: Validator | None, sets: U64, targets: I64, limits: I64, deadline: float | None
) -> tuple[I64, Mask]:
    """Count on the whole table what is within the limits on a part of it: there it is broken no more often."""
    if scout is None:
        return validator.weigh(sets, targets, limits, deadline)
    counts, done = scout.weigh(sets, targets, limits, deadline)
    left = np.flatnonzero(done & _good(counts, limits))
    counts[left], done[left] = validator.weigh(sets[left], targets[left], limits, deadline)
    return counts, done


def _shortest(covers: list[Cover]) -> tuple[U64, I64, list[tuple[Cover, I64, slice]]]:
    """The shortest open left sides with their targets, and where each cover's own are among them."""
    opened = [(cover, np.flatnonzero(cover.status == OPEN)) for cover in covers]
    sizes = [set_sizes(cover.sets[places]) for cover, places in opened]
    shortest = min((int(size.min()) for size in sizes if size.size), default=0)
    owners, at = [], 0
    sets: list[U64] = [np.empty((0, covers[0].words), dtype=np.uint64)] if covers else [np.empty((0, 1), np.uint64)]
    targets: list[I64] = [np.empty(0, dtype=np.int64)]
    for (cover, places), size in zip(opened, sizes, strict=True):
        mine = places[size == shortest]
        owners.append((cover, mine, slice(at, at + mine.size)))
        sets.append(cover.sets[mine])
        targets.append(np.full(mine.size, cover.target, dtype=np.int64))
        at += mine.size
    return np.concatenate(sets), np.concatenate(targets), owners


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
