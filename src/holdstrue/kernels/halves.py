"""Count dominance over three attributes: divide by the first, merge by the second, rank by the third.

Points and queries of a group stand in one row by the first attribute. Cut it in the middle: a point of the left half
is not above a query of the right half there, so that two attributes are left to compare, which a sweep by the second
with counts by the third does; then both halves are cut in turn. What is small is compared pair by pair, which the
compiler turns into vectors.
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I32, I64

FAN = 16
"""Counters in a node of the tree of counts: adding changes at most so many neighbours a level, asking reads one.
500,000 random rows took 1.30 s with 8, 1.31 with 16, 1.41 with 32 and 1.79 with 64."""

SMALL = 1 << 16
"""Up to so many pairs of a point and a query a part is compared pair by pair: 500,000 rows took 1.41 s with 2^12,
1.31 with 2^14 and with 2^16, 1.26 with 2^18. Passed to the kernels, so that tests can cut small parts too."""


@inline
def _add(tree: I32, at: int, starts: I64, levels: int) -> None:
    """Count one more at a place, in every level of the tree."""
    for level in range(levels):
        node = at // FAN
        own = at - node * FAN
        first = starts[level] + node * FAN
        for i in range(own + 1, FAN):
            tree[first + i] += 1
        at = node


@inline
def _below(tree: I32, at: int, starts: I64, levels: int) -> int:
    """How many were counted at places below one."""
    total = 0
    for level in range(levels):
        total += tree[starts[level] + at]
        at //= FAN
    return total


@inline
def _plant(tree: I32, places: int, starts: I64) -> int:
    """Clear a tree for so many places; returns its levels."""
    first = 0
    levels = 0
    size = places
    while True:
        starts[levels] = first
        size = (size + FAN - 1) // FAN
        first += size * FAN
        levels += 1
        if size <= 1:
            break
    tree[:first] = 0
    return levels


@inline
def _compare_all(low: int, high: int, is_query: I32, ranks: I32, counts: I64, block: I32) -> None:
    """Compare every point with every query after it, in positions by the first attribute."""
    points = 0
    for e in range(low, high):
        if is_query[e] == 0:
            block[0, points] = ranks[0, e]
            block[1, points] = ranks[1, e]
            block[2, points] = 0
            block[3, points] = e
            points += 1
            continue
        b = ranks[0, e]
        c = ranks[1, e]
        own = np.int32(0)
        for i in range(points):
            hit = np.int32((block[0, i] < b) & (block[1, i] < c))
            own += hit
            block[2, i] += hit
        counts[e] += own
    for i in range(points):
        counts[block[3, i]] += block[2, i]


@inline
def _merge(low: int, middle: int, high: int, is_query: I32, by_b: I32, by_c: I32, rank: I32, tree: I32,
           starts: I64, counts: I64) -> None:  # fmt: skip
    """Count the points of the left half with the queries of the right one: sweep by b, counting by c."""
    places = 0
    for i in range(low, high):
        e = by_c[i]
        if e < middle:
            rank[e] = places
            places += 1 - is_query[e]
        else:
            rank[e] = places
    if places == 0:
        return
    levels = _plant(tree, places + 1, starts)
    for i in range(low, high):
        e = by_b[i]
        if e < middle:
            if is_query[e] == 0:
                _add(tree, rank[e], starts, levels)
        elif is_query[e] == 1:
            counts[e] += _below(tree, rank[e], starts, levels)
    # the other way round: each point counts the queries that come after it by b and are ranked above it by c
    _plant(tree, places + 1, starts)
    inside = 0
    for i in range(high - 1, low - 1, -1):
        e = by_b[i]
        if e >= middle:
            if is_query[e] == 1:
                _add(tree, rank[e], starts, levels)
                inside += 1
        elif is_query[e] == 0:
            counts[e] += inside - _below(tree, rank[e] + 1, starts, levels)


@inline
def _divide(low: int, middle: int, high: int, order: I32, scratch: I32) -> None:
    """Bring the left half to the front, both in the order they had."""
    at = low
    rest = 0
    for i in range(low, high):
        e = order[i]
        if e < middle:
            order[at] = e
            at += 1
        else:
            scratch[rest] = e
            rest += 1
    for i in range(rest):
        order[at + i] = scratch[i]


@kernel
def count_three(starts: I64, is_query: I32, by_b: I32, by_c: I32, ranks: I32, counts: I64, small: int) -> None:
    """Per point its queries and per query its points, of every group. Complexity: O(n log^2 n) time, O(n) memory.

    Elements are numbered by group and first attribute, points before queries that are equal; `starts` are the first
    of each group and the end. `by_b` and `by_c` name the elements of each group by the second and the third attribute
    (points first again) and are used up, `ranks` are the places in them.

    Examples
    --------
    Two points (1, 1, 1), (2, 3, 1) and two queries (2, 2, 2), (3, 3, 3), numbered by the first attribute 0, 1, 2, 3:

    >>> by_b, by_c = np.array([0, 2, 1, 3], np.int32), np.array([0, 1, 2, 3], np.int32)
    >>> ranks = np.argsort(np.stack((by_b, by_c)), axis=1).astype(np.int32)
    >>> counts = np.zeros(4, np.int64)
    >>> count_three(np.array([0, 4]), np.array([0, 0, 1, 1], np.int32), by_b, by_c, ranks, counts, SMALL)
    >>> counts.tolist()
    [2, 1, 1, 2]
    """
    most = 0
    for g in range(starts.size - 1):
        most = max(most, starts[g + 1] - starts[g])
    rank = np.empty(is_query.size, dtype=np.int32)
    tree = np.empty(most + most // 8 + 4 * FAN, dtype=np.int32)
    tree_starts = np.empty(16, dtype=np.int64)
    scratch = np.empty(most, dtype=np.int32)
    block = np.empty((4, min(most, small + 1)), dtype=np.int32)
    stack = np.empty((64, 2), dtype=np.int64)
    for g in range(starts.size - 1):
        stack[0, 0] = starts[g]
        stack[0, 1] = starts[g + 1]
        depth = 1
        while depth > 0:
            depth -= 1
            low = stack[depth, 0]
            high = stack[depth, 1]
            queries = np.int64(0)
            for e in range(low, high):
                queries += is_query[e]
            pairs = queries * (high - low - queries)
            if pairs == 0:
                continue
            if pairs <= small:
                _compare_all(low, high, is_query, ranks, counts, block)
                continue
            middle = (low + high) >> 1
            _merge(low, middle, high, is_query, by_b, by_c, rank, tree, tree_starts, counts)
            _divide(low, middle, high, by_b, scratch)
            _divide(low, middle, high, by_c, scratch)
            # at most one half waits a level, so that 64 places do
            stack[depth, 0] = low
            stack[depth, 1] = middle
            stack[depth + 1, 0] = middle
            stack[depth + 1, 1] = high
            depth += 2


@kernel
def compare_many(low: int, high: int, groups: I32, is_query: I32, ranks: I32, counts: I64) -> None:
    """Compare each query from one element to another with the points of its group before it, by any ranks.

    Elements are numbered as in `count_three`; `ranks` has a line for each further attribute.
    Complexity: O((high - low)^2 * attributes), in vectors.
    """
    axes = ranks.shape[0]
    block = np.empty((axes, high - low), dtype=np.int32)
    place = np.empty(high - low, dtype=np.int64)
    found = np.zeros(high - low, dtype=np.int32)
    hits = np.empty(high - low, dtype=np.int32)
    points = 0
    for e in range(low, high):
        if e > low and groups[e] != groups[e - 1]:
            for i in range(points):
                counts[place[i]] += found[i]
            found[:points] = 0
            points = 0
        if is_query[e] == 0:
            for axis in range(axes):
                block[axis, points] = ranks[axis, e]
            place[points] = e
            points += 1
            continue
        own = hits[:points]
        own[:] = 1
        for axis in range(axes):
            line = block[axis, :points]
            limit = ranks[axis, e]
            for i in range(points):
                own[i] &= np.int32(line[i] < limit)
        total = np.int32(0)
        for i in range(points):
            total += own[i]
            found[i] += own[i]
        counts[e] += total
    for i in range(points):
        counts[place[i]] += found[i]
