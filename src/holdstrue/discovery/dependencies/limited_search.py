"""All minimal left sides that no more pairs, or rows, break than a limit allows.

Up to `ONE_BY_ONE` columns the search goes over left sides by their length as TANE's (Huhtala et al. 1999), on
the same families of left sides as the exact one. There are too many longer ones to count each: those that break
too often are widened as far as they still do, and nothing inside of these is counted (Gunopulos et al.:
Discovering all most specific sentences, 2003). Counting ends as soon as a left side is beyond the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holdstrue.discovery.dependencies.agree_sets import Refuted
from holdstrue.discovery.dependencies.left_sides import LeftSides, set_sizes
from holdstrue.discovery.dependencies.validation import Validator
from holdstrue.discovery.work import Work
from holdstrue.kernels import antichains
from holdstrue.kernels.antichains import HOLDS, OPEN
from holdstrue.kernels.partitions import OFFENDING, SURPLUS
from holdstrue.typing import I32, I64, U64, Mask

Count = Callable[[U64, I64], tuple[I64, Mask, Mask]]
"""What breaks each left side of a target, which are within the limits, and which were counted in time."""

NO_LIMIT = 1 << 62

MOST_COUNTED = 1 << 20
"""Left sides of one length and all targets that are counted at most: some minutes on a million rows. With 30 columns
there are 0.1 million of three, with 300 columns 13 million of two."""

SCOUTS = 1 << 15
"""Rows of a part of the table on which left sides are counted first, where the table is much larger."""

ONE_BY_ONE = 3
"""Left sides up to this length are all counted: each column more multiplies them by their number. Chosen, not tuned."""

ROUND = 64
"""Longer left sides of a target that are counted before those are looked at that fail. Chosen, not tuned."""

WIDENED = 2
"""Of those that fail so many are widened at first, then twice as many of the rest, and so on. CPU s for keys and FDs
of 20,000 flights with an error of 1% of the rows: 9.6; without widening 32, and not all found."""


@dataclass(frozen=True)
class Weighed:
    """A minimal dependency within the limits, with its counts (see `kernels.partitions.weigh`)."""

    target: int
    line: U64
    counts: I64


class Weigher(Protocol):
    """Who counts what breaks dependencies: a `Validator` here, or one elsewhere."""

    @property
    def work(self) -> Work:
        """Time and threads."""

    @property
    def order(self) -> I32:
        """Columns by rank, the most selective first."""

    def weigh(self, sets: U64, targets: I64, limits: I64) -> tuple[I64, Mask]:
        """Counts of each dependency, and which were counted in time."""

    def scout(self, rows: int) -> Validator | None:
        """A validator of about so many rows, if there are many more."""


def within(
    validator: Weigher,
    columns: int,
    targets: list[int],
    limits: I64,
    longest: int,
    without: int | None = None,
) -> tuple[list[Weighed], bool]:
    """The minimal dependencies of up to `longest` columns within the limits; and whether time and room sufficed.

    No left side has the column `without`.
    Both limits are monotone: a longer left side is broken by no more pairs, and mended by no more rows.
    """
    covers = [LeftSides(target, columns) for target in targets]
    if without is not None:
        for cover in covers:
            cover.allowed[without >> 6] &= ~np.uint64(1 << (without & 63))
    count = _counting(validator, limits)
    found: list[Weighed] = []
    if covers and longest > ONE_BY_ONE and not _hopeless_out(covers, count, validator.work):
        return found, False
    while True:
        sets, wanted, owners = _shortest(covers)
        if not sets.shape[0]:
            return found, True
        counts, good, done = count(sets, wanted)
        found += [Weighed(int(wanted[i]), sets[i], counts[i]) for i in np.flatnonzero(good)]
        if not done.all():
            return found, False
        long = set_sizes(sets[:1])[0] >= ONE_BY_ONE
        for cover, places, part in owners:
            cover.status[places[good[part]]] = HOLDS
            refuted = sets[part][~good[part]]
            if long and longest > ONE_BY_ONE:
                refuted = _widest(refuted, cover, count, validator.order)
            if not _learn(cover, refuted, longest, MOST_COUNTED // len(covers), validator.work):
                return found, False


def _counting(validator: Weigher, limits: I64) -> Count:
    """Counts on the whole table what is within the limits on a part of it: there it is broken no more often."""
    scout = validator.scout(SCOUTS)

    def good(counts: I64) -> Mask:
        return (counts[:, OFFENDING] <= limits[OFFENDING]) & (counts[:, SURPLUS] <= limits[SURPLUS])

    def count(sets: U64, targets: I64) -> tuple[I64, Mask, Mask]:
        if scout is None:
            counts, done = validator.weigh(sets, targets, limits)
        else:
            counts, done = scout.weigh(sets, targets, limits)
            left = np.flatnonzero(done & good(counts))
            counts[left], done[left] = validator.weigh(sets[left], targets[left], limits)
        return counts, done & good(counts), done

    return count


def _learn(cover: LeftSides, refuted: U64, longest: int, most: int, work: Work) -> bool:
    """No left side of the cover lies inside of these any more; False when time or room ran out."""
    differ = np.zeros_like(refuted)
    differ[:, cover.target >> 6] = np.uint64(1 << (cover.target & 63))
    outcomes = Refuted(np.ascontiguousarray(refuted), differ)
    return cover.extend(outcomes, np.arange(refuted.shape[0], dtype=np.int64), longest, most, work)


def _hopeless_out(covers: list[LeftSides], count: Count, work: Work) -> bool:
    """Empty the covers of targets that all other columns together leave beyond the limits; False when time ran out."""
    everything = np.array([cover.allowed for cover in covers], dtype=np.uint64).reshape(len(covers), -1)
    _, good, done = count(everything, np.array([cover.target for cover in covers], dtype=np.int64))
    for number in np.flatnonzero(done & ~good).tolist():
        cover = covers[number]
        if not _learn(cover, everything[number : number + 1], cover.allowed.size * 64, MOST_COUNTED, work):
            return False
    return bool(done.all())


def _widest(refuted: U64, cover: LeftSides, count: Count, order: I32) -> U64:
    """Refuted left sides, each inside one that no further column keeps refuted.

    One that is widened costs a count for every other column, as would its extensions; those inside are for free.
    """
    found = [refuted[:0]]
    left, some = refuted, WIDENED
    while left.shape[0]:
        wide = _widened(left[:: -(-left.shape[0] // some)].copy(), cover, count, order)
        found.append(wide)
        # complements turn inside out: what lies inside a wide one contains its complement
        inside = np.empty(left.shape[0], dtype=np.bool_)
        antichains.contained(~left, ~wide, inside)
        left, some = left[~inside], 2 * some
    return np.concatenate(found)


def _widened(wide: U64, cover: LeftSides, count: Count, order: I32) -> U64:
    """Left sides with all columns that keep them refuted, as far as time allows.

    Columns come in by rank, the least selective first, for each left side from another one on.
    """
    lines = np.arange(wide.shape[0])
    ranked = order[::-1].astype(np.int64)
    for step in range(ranked.size):
        column = ranked[(step + lines * ranked.size // lines.size) % ranked.size]
        word, bit = column >> 6, np.uint64(1) << (column & 63).astype(np.uint64)
        free = np.flatnonzero(((cover.allowed[word] & ~wide[lines, word]) & bit) != 0)
        if not free.size:
            continue
        tried = wide[free]
        tried[np.arange(free.size), word[free]] |= bit[free]
        _, good, done = count(tried, np.full(free.size, cover.target, dtype=np.int64))
        still = done & ~good
        wide[free[still]] = tried[still]
    return np.unique(wide, axis=0)


def _shortest(covers: list[LeftSides]) -> tuple[U64, I64, list[tuple[LeftSides, I64, slice]]]:
    """The shortest open left sides with their targets, and where each cover's own are among them.

    Of long ones each cover gives some at a time: what is learnt of them may spare the others.
    """
    opened = [(cover, np.flatnonzero(cover.status == OPEN)) for cover in covers]
    sizes = [set_sizes(cover.sets[places]) for cover, places in opened]
    shortest = min((int(size.min()) for size in sizes if size.size), default=0)
    owners, at = [], 0
    sets: list[U64] = [np.empty((0, covers[0].words), dtype=np.uint64)] if covers else [np.empty((0, 1), np.uint64)]
    targets: list[I64] = [np.empty(0, dtype=np.int64)]
    for (cover, places), size in zip(opened, sizes, strict=True):
        mine = places[size == shortest][: ROUND if shortest > ONE_BY_ONE else None]
        owners.append((cover, mine, slice(at, at + mine.size)))
        sets.append(cover.sets[mine])
        targets.append(np.full(mine.size, cover.target, dtype=np.int64))
        at += mine.size
    return np.concatenate(sets), np.concatenate(targets), owners
