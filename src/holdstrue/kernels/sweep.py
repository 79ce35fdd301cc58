"""Count dominance pairs without listing them: sort, prune what dominates nothing, sweep with a Fenwick tree.

Variable denial constraints from scratch (paper 002, Section V: GROUP' and MSort find the ascending
pairs of the permutation of relative positions). The paper lists the pairs while merging; here each
row's number of partners is counted, so time and memory do not depend on how many pairs there are.
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import inline, kernel
from holdstrue.kernels.sorting import argsort
from holdstrue.typing import I32, I64, Mask


def dominance_counts(
    point_group: I32,
    point_a: I64,
    point_b: I64,
    query_group: I32,
    query_a: I64,
    query_b: I64,
    *,
    aligned: bool = False,
) -> tuple[I64, I64]:
    """Per query the points, and per point the queries, of one group with point a <= query a and point b <= query b.

    `aligned` promises that sorting the queries by group and a is the same as sorting the points, as
    it is when both are the same rows in two roles.

    Complexity: O(n log n) time and O(n) memory, whatever the number of pairs.

    Examples
    --------
    >>> group = np.zeros(3, dtype=np.int32)
    >>> a = np.array([1, 2, 3]); b = np.array([3, 1, 2])
    >>> queries, points = dominance_counts(group, a, b, group, a - 1, b - 1)
    >>> queries.tolist(), points.tolist()
    ([0, 0, 1], [0, 1, 0])
    """
    per_query = np.zeros(query_group.size, dtype=np.int64)
    per_point = np.zeros(point_group.size, dtype=np.int64)
    if point_group.size == 0 or query_group.size == 0:
        return per_query, per_point
    points = argsort(point_group, point_a)
    queries = points if aligned else argsort(query_group, query_a)
    pg, pa, pb = point_group[points], point_a[points], point_b[points]
    qg, qa, qb = query_group[queries], query_a[queries], query_b[queries]
    live_points, live_queries = prune((pg, pa, pb), (qg, qa, qb))
    points, queries = points[live_points], queries[live_queries]
    if points.size == 0:
        return per_query, per_point
    pg, pa, pb = pg[live_points], pa[live_points], pb[live_points]
    qg, qa, qb = qg[live_queries], qa[live_queries], qb[live_queries]
    point_rank, query_rank = np.empty(points.size, dtype=np.int32), np.empty(queries.size, dtype=np.int32)
    _rank(pg, pb, argsort(pg, pb), qg, qb, argsort(qg, qb), point_rank, query_rank)
    query_counts = np.empty(queries.size, dtype=np.int64)
    point_counts = np.empty(points.size, dtype=np.int64)
    _sweep(pg, pa, point_rank, qg, qa, query_rank, point_counts, query_counts)
    per_query[queries] = query_counts
    per_point[points] = point_counts
    return per_query, per_point


def prune(points: tuple[I32, I64, I64], queries: tuple[I32, I64, I64]) -> tuple[Mask, Mask]:
    """Which points a query dominates, and which queries dominate a point: group, a and b, sorted by the first two.

    Complexity: O(n).
    """
    live_points = np.empty(points[0].size, dtype=np.bool_)
    live_queries = np.empty(queries[0].size, dtype=np.bool_)
    _prune(*points, *queries, live_points, live_queries)
    return live_points, live_queries


@kernel
def _prune(pg: I32, pa: I64, pb: I64, qg: I32, qa: I64, qb: I64, live_p: Mask, live_q: Mask) -> None:
    """Mark the queries that dominate some point and the points that some query dominates.

    Both come sorted by group and a. Complexity: O(n).
    """
    i = 0
    group = -1
    least = np.int64(0)
    seen = False
    for j in range(qg.size):
        if qg[j] != group:
            group = qg[j]
            seen = False
            while i < pg.size and pg[i] < group:
                i += 1
        while i < pg.size and pg[i] == group and pa[i] <= qa[j]:
            least = min(least, pb[i]) if seen else pb[i]
            seen = True
            i += 1
        live_q[j] = seen and least <= qb[j]
    j = qg.size - 1
    group = -1
    most = np.int64(0)
    seen = False
    for i in range(pg.size - 1, -1, -1):
        if pg[i] != group:
            group = pg[i]
            seen = False
            while j >= 0 and qg[j] > group:
                j -= 1
        while j >= 0 and qg[j] == group and qa[j] >= pa[i]:
            most = max(most, qb[j]) if seen else qb[j]
            seen = True
            j -= 1
        live_p[i] = seen and most >= pb[i]


@kernel
def _rank(pg: I32, pb: I64, by_b: I32, qg: I32, qb: I64, q_by_b: I32, point_rank: I32, query_rank: I32) -> None:
    """Ranks of points by b in their group from 0, and per query the number of points with b not above its own."""
    i = 0
    group = -1
    rank = 0
    for j in range(q_by_b.size):
        q = q_by_b[j]
        if qg[q] != group:
            group = qg[q]
            rank = 0
            while i < by_b.size and pg[by_b[i]] < group:
                i += 1
        while i < by_b.size and pg[by_b[i]] == group and pb[by_b[i]] <= qb[q]:
            rank += 1
            i += 1
        query_rank[q] = rank
    group = -1
    for k in range(by_b.size):
        p = by_b[k]
        rank = 0 if pg[p] != group else rank + 1
        group = pg[p]
        point_rank[p] = rank


@inline
def _add(tree: I32, at: int, size: int) -> None:
    while at <= size:
        tree[at] += 1
        at += at & -at


@inline
def _upto(tree: I32, at: int) -> int:
    total = 0
    while at > 0:
        total += tree[at]
        at -= at & -at
    return total


@kernel
def _sweep(
    pg: I32, pa: I64, point_rank: I32, qg: I32, qa: I64, query_rank: I32, point_counts: I64, query_counts: I64
) -> None:
    """Count both ways, group by group; points and queries come sorted by group and a. Complexity: O(n log n)."""
    tree = np.zeros(pg.size + 2, dtype=np.int32)
    p = 0
    q = 0
    while p < pg.size and q < qg.size:
        if pg[p] < qg[q]:
            point_counts[p] = 0
            p += 1
            continue
        if qg[q] < pg[p]:
            query_counts[q] = 0
            q += 1
            continue
        group = pg[p]
        p_end = p
        while p_end < pg.size and pg[p_end] == group:
            p_end += 1
        q_end = q
        while q_end < qg.size and qg[q_end] == group:
            q_end += 1
        size = p_end - p
        tree[: size + 2] = 0
        i = p
        for j in range(q, q_end):
            while i < p_end and pa[i] <= qa[j]:
                _add(tree, point_rank[i] + 1, size)
                i += 1
            query_counts[j] = _upto(tree, query_rank[j])
        tree[: size + 2] = 0
        j = q_end - 1
        inside = 0
        for i in range(p_end - 1, p - 1, -1):
            while j >= q and qa[j] >= pa[i]:
                if query_rank[j] > 0:
                    _add(tree, query_rank[j], size)
                    inside += 1
                j -= 1
            point_counts[i] = inside - _upto(tree, point_rank[i])
        p = p_end
        q = q_end
    while p < pg.size:
        point_counts[p] = 0
        p += 1
    while q < qg.size:
        query_counts[q] = 0
        q += 1
