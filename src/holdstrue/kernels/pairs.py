"""Candidate pairs of rows: check the remaining predicates, keep each row's count of violations."""

from __future__ import annotations

from holdstrue.kernels.jit import inline, kernel
from holdstrue.operators import Op
from holdstrue.typing import I32, I64, U8

EQ, NE, LT, LE, GT, GE = (op.code for op in Op)

ROWS_TOTAL, PAIRS_TOTAL = range(2)


@inline
def compare(op: int, a: int, b: int) -> bool:
    """`a op b` on codes."""
    if op == EQ:
        return a == b
    if op == NE:
        return a != b
    if op == LT:
        return a < b
    if op == LE:
        return a <= b
    if op == GT:
        return a > b
    return a >= b


@inline
def holds(terms: I32, codes: I64, t: int, s: int) -> bool:
    """Whether (t, s) satisfies every term (op, column of t, column of s)."""
    for k in range(terms.shape[0]):
        if not compare(terms[k, 0], codes[terms[k, 1], t], codes[terms[k, 2], s]):
            return False
    return True


@kernel
def keep_pairs(
    rest: I32,
    terms: I32,
    codes: I64,
    t: I32,
    s: I32,
    t_twin: I32,
    s_twin: I32,
    roles: U8,
    t_group: I32,
    s_group: I32,
    once: bool,
    keep: U8,
) -> int:
    """Decide about candidate pairs (t, s): `keep[i]` is 0 no violation, 1 a violation, 2 one in both images.

    `rest` are the terms that candidates may fail, `terms` are all but the equalities.

    A twin is the row's version in the other image of the table (itself if unchanged, -1 if it has
    none). `once` keeps a pair only when t has the smaller slot, for pairs met from both ends.
    Returns how many are in both images. Complexity: O(pairs * terms).
    """
    both = 0
    for i in range(t.size):
        keep[i] = 0
        if t[i] == s[i] or (once and t[i] > s[i]):
            continue
        if not holds(rest, codes, t[i], s[i]):
            continue
        keep[i] = 1
        a = t_twin[i]
        b = s_twin[i]
        if a < 0 or b < 0 or (a == t[i] and b == s[i]):
            continue
        if roles[a] & 1 == 0 or roles[b] & 2 == 0 or t_group[a] != s_group[b]:
            continue
        if holds(terms, codes, a, b):
            keep[i] = 2
            both += 1
    return both


@kernel
def count_degrees(degree: I64, t: I32, s: I32, keep: U8, step: int, totals: I64) -> int:
    """Add `step` to the degree of both rows of every kept pair; returns the pairs kept. Complexity: O(pairs).

    Examples
    --------
    The pairs (0, 1), (0, 2), (3, 4), of which the second is no violation:

    >>> import numpy as np
    >>> degree, totals = np.zeros(5, np.int64), np.zeros(2, np.int64)
    >>> t, s, keep = np.array([0, 0, 3], np.int32), np.array([1, 2, 4], np.int32), np.array([1, 0, 1], np.uint8)
    >>> count_degrees(degree, t, s, keep, 1, totals), degree.tolist(), totals.tolist()
    (2, [1, 1, 0, 1, 1], [4, 2])
    """
    kept = 0
    for i in range(t.size):
        if keep[i] == 0:
            continue
        kept += 1
        for row in (t[i], s[i]):
            if degree[row] == 0:
                totals[ROWS_TOTAL] += 1
            degree[row] += step
            if degree[row] == 0:
                totals[ROWS_TOTAL] -= 1
    totals[PAIRS_TOTAL] += step * kept
    return kept


@kernel
def count_all(degree: I64, own: I32, partners: I32, step: int, totals: I64) -> None:
    """As `count_degrees` where every pair is kept and pairs of one own row follow each other. Complexity: O(pairs)."""
    rows = 0
    i = 0
    while i < own.size:
        row = own[i]
        start = i
        while i < own.size and own[i] == row:
            partner = partners[i]
            before = degree[partner]
            degree[partner] = before + step
            if before == 0:
                rows += 1
            elif before + step == 0:
                rows -= 1
            i += 1
        before = degree[row]
        after = before + step * (i - start)
        degree[row] = after
        rows += (1 if after != 0 else 0) - (1 if before != 0 else 0)
    totals[ROWS_TOTAL] += rows
    totals[PAIRS_TOTAL] += step * own.size
