"""Keys and FDs that a handful of rows break, which are likely wrong."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from holdstrue.discovery.bitsets import members
from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.limited_search import NO_LIMIT, Weighed, within
from holdstrue.discovery.dependencies.ranking import BodyOf, Profile, chance, fd_score, key_score, surprise
from holdstrue.discovery.dependencies.validation import Validator
from holdstrue.discovery.found import NearMiss
from holdstrue.kernels.partitions import GATHERED, OFFENDING, SUPPORT, SURPLUS
from holdstrue.typing import I32, I64

CONFIRMED = 20
"""Rows that must follow a near miss for each that breaks it, and in all. Chosen, not tuned."""

UNLIKELY = 0.1
"""A near miss breaks at most this share of what would break it by chance. Chosen, not tuned."""

LIKE_A_KEY = 0.5
"""Columns of a worse quality for keys (dates, measures) make no near key."""


def near_misses(
    codes: Codes,
    validator: Validator,
    targets: list[int],
    body: BodyOf,
    columns: list[Profile],
    most: int,
    max_lhs: int,
) -> tuple[tuple[NearMiss, ...], bool]:
    """Minimal keys and FDs of up to `max_lhs` columns that at most `most` rows break, the most believable first.

    And whether all were looked for.
    """
    rows = codes.rows
    limits = np.array([NO_LIMIT, most], dtype=np.int64)
    weighed, whole = within(validator, len(columns), targets, limits, max_lhs)
    found = []
    for one in weighed:
        left = [columns[i] for i in members(one.line)]
        target = columns[one.target] if one.target < len(columns) else None
        if believable(left, target, one.counts, rows):
            found.append(_near_miss(codes, validator, one, body, left, target, rows))
    found.sort(key=lambda rated: (-rated[0], rated[1].measures["pairs"], str(rated[1].body)))
    return tuple(miss for _, miss in found), whole


def _near_miss(
    codes: Codes,
    validator: Validator,
    one: Weighed,
    body: BodyOf,
    left: list[Profile],
    target: Profile | None,
    rows: int,
) -> tuple[float, NearMiss]:
    """A near miss with its score: for each row that should go it and one that it disagrees with, as slots."""
    column = None if target is None else codes.matrix[one.target]
    pairs = suspects(column, *validator.rows_of(one.line))
    slots = tuple(sorted((int(codes.slots[gone]), int(codes.slots[stays])) for gone, stays in pairs))
    support, groups = int(one.counts[SUPPORT]), int(one.counts[GATHERED])
    score = key_score(left, rows) if target is None else fd_score(left, target, support, groups, rows)
    measures = {"score": round(score, 4), "pairs": int(one.counts[OFFENDING]), "support": support}
    error = int(one.counts[SURPLUS]) / rows
    return score, NearMiss(body(one.target, one.line), len(slots), error, slots, measures=measures)


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
