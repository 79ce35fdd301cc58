"""Finding one pair of rows that breaks a denial constraint: groups by counting, a sweep in order, a search by boxes.

Rows are positions into `ranks[column, row]`, small numbers that compare as the values do, -1 where a value is unknown.
A sweep is for rules of equalities, up to two orders and one inequality: O(rows), as it remembers of the rows passed
so far only the best by the second order and the best that differs from it (paper 002 sweeps likewise to list pairs).
Everything else goes to a search over two k-d trees at once, which leaves out boxes that no pair of rows can break.

Rows (a, b): (1, 5), (2, 4), (3, 6). Is there a row with a higher a and a lower b than another one? Rows in the order
of a are all of one group; the second row has 2 > 1 and 4 < 5.

>>> ranks = np.array([[1, 2, 3], [5, 4, 6]], dtype=np.int32)
>>> order, group, pair = np.arange(3, dtype=np.int32), np.zeros(3, dtype=np.int32), np.zeros(2, dtype=np.int64)
>>> terms = np.array([0, 0, 1, 1, 1, 1, -1, -1, -1])
>>> sweep(ranks, order, group, order, group, terms, pair), pair.tolist()
(True, [1, 0])
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I32, I64

EQ, NE, LT, LE, GT, GE = range(6)
"""Operators as the search by boxes numbers them: t.left OP s.right."""

LEAF = 16
"""Rows of a box that is not divided: a power of two."""


@kernel
def arrange(by: I32, group: I32, groups: int, out: I32) -> int:
    """Rows in the order `by`, sorted by group and otherwise left in that order; rows of group -1 are left out.

    Returns how many there are. Complexity: O(rows + groups).
    """
    starts = np.zeros(groups + 1, dtype=np.int64)
    for i in range(by.size):
        g = group[by[i]]
        if g >= 0:
            starts[g + 1] += 1
    for g in range(groups):
        starts[g + 1] += starts[g]
    total = starts[groups]
    for i in range(by.size):
        g = group[by[i]]
        if g >= 0:
            out[starts[g]] = by[i]
            starts[g] += 1
    return total


@kernel
def number_within(order: I32, group: I32, values: I32, out: I32) -> int:
    """Groups by group and value, numbered in order, of rows that are arranged by both; those of one row get -1.

    `out` holds -1 everywhere before. Returns the number of groups. Complexity: O(rows).
    """
    count = 0
    i = 0
    while i < order.size:
        first = order[i]
        j = i + 1
        while j < order.size and group[order[j]] == group[first] and values[order[j]] == values[first]:
            j += 1
        if j - i > 1:
            for k in range(i, j):
                out[order[k]] = count
            count += 1
        i = j
    return count


@kernel
def number_across(
    order_t: I32, group_t: I32, values_t: I32, out_t: I32, order_s: I32, group_s: I32, values_s: I32, out_s: I32
) -> int:
    """The same for two lists: groups that occur in both, numbered alike. Complexity: O(rows)."""
    count = 0
    i = 0
    k = 0
    while i < order_t.size and k < order_s.size:
        t = order_t[i]
        s = order_s[k]
        g, v = group_t[t], values_t[t]
        h, w = group_s[s], values_s[s]
        if g < h or (g == h and v < w):
            i += 1
        elif h < g or w < v:
            k += 1
        else:
            while i < order_t.size and group_t[order_t[i]] == g and values_t[order_t[i]] == v:
                out_t[order_t[i]] = count
                i += 1
            while k < order_s.size and group_s[order_s[k]] == g and values_s[order_s[k]] == v:
                out_s[order_s[k]] = count
                k += 1
            count += 1
    return count


@kernel
def sweep(ranks: I32, order_t: I32, group_t: I32, order_s: I32, group_s: I32, terms: I64, out: I64) -> bool:
    """Whether a pair (t, s) of one group has t.x > s.x, t.y > s.y and t.z != s.z; the pair into `out`.

    Both lists are arranged by group and x. `terms` is, for x: column of t, column of s, 1 if strict (0: >=); for y the
    same and a sign, -1 for t.y < s.y, where a column -1 is no condition; for z: the two columns, where -1 asks
    for t and s being different rows. Complexity: O(rows), and ends at the first pair.
    """
    xl, xr, x_strict, yl, yr, y_strict, sign, zl, zr = terms
    best = -1  # the row s passed with the lowest sign x y, and the lowest that differs from it in z
    other = -1
    best_y = np.int64(0)
    best_z = np.int64(0)
    other_y = np.int64(0)
    group = -1
    k = 0
    for i in range(order_t.size):
        t = order_t[i]
        g = group_t[t]
        if g != group:
            group = g
            best = -1
            other = -1
            while k < order_s.size and group_s[order_s[k]] < g:
                k += 1
        x = ranks[xl, t]
        while k < order_s.size:
            s = order_s[k]
            if group_s[s] != g or ranks[xr, s] > x or (x_strict == 1 and ranks[xr, s] == x):
                break
            k += 1
            y = np.int64(0)
            z = np.int64(s)
            if yr >= 0:
                if ranks[yr, s] < 0:
                    continue
                y = sign * ranks[yr, s]
            if zr >= 0:
                z = np.int64(ranks[zr, s])
                if z < 0:
                    continue
            if best < 0:
                best, best_y, best_z = s, y, z
            elif y < best_y:
                if z != best_z:
                    other, other_y = best, best_y
                best, best_y, best_z = s, y, z
            elif z != best_z and (other < 0 or y < other_y):
                other, other_y = s, y
        if best < 0:
            continue
        y = np.int64(0)
        if yl >= 0:
            if ranks[yl, t] < 0:
                continue
            y = sign * ranks[yl, t]
        z = np.int64(t)
        if zl >= 0:
            z = np.int64(ranks[zl, t])
            if z < 0:
                continue
        found = best
        found_y = best_y
        if z == best_z:
            found = other
            found_y = other_y
        if found >= 0 and (found_y < y or (found_y == y and y_strict == 0)):
            out[0], out[1] = t, found
            return True
    return False


@inline
def _select(rows: I32, a: int, b: int, k: int, values: I32) -> None:
    """Put the row that would be k-th by value in its place, smaller ones before it (quickselect)."""
    while b - a > 1:
        pivot = values[rows[(a + b) >> 1]]
        i = a
        j = b - 1
        while i <= j:
            while values[rows[i]] < pivot:
                i += 1
            while values[rows[j]] > pivot:
                j -= 1
            if i <= j:
                rows[i], rows[j] = rows[j], rows[i]
                i += 1
                j -= 1
        if k <= j:
            b = j + 1
        elif k >= i:
            a = i
        else:
            return


@kernel
def grow_boxes(rows: I32, ranks: I32, columns: I64, widths: I64, spans: I64, low: I32, high: I32) -> None:
    """A k-d tree over rows, which are put in its order: node i has the children 2i + 1 and 2i + 2.

    By node: `spans[i]` the ends of its rows, `low[i, d]` and `high[i, d]` the extremes in `columns[d]`; nodes without
    rows have none. A box is halved along the column in which it is widest, relative to `widths`.
    Complexity: O(rows x (columns + log rows)).
    """
    nodes = spans.shape[0]
    spans[0, 0], spans[0, 1] = 0, rows.size
    for node in range(nodes):
        a, b = spans[node, 0], spans[node, 1]
        widest = 0
        width = -1.0
        for d in range(columns.size):
            values = ranks[columns[d]]
            least = np.int32(2147483647)
            most = np.int32(-2147483648)
            for i in range(a, b):
                v = values[rows[i]]
                least = min(least, v)
                most = max(most, v)
            low[node, d], high[node, d] = least, most
            share = (most - least) / widths[d] if b > a else 0.0
            if share > width:
                width = share
                widest = d
        if 2 * node + 2 < nodes:
            middle = (a + b) >> 1
            if b - a > 1:
                _select(rows, a, b, middle, ranks[columns[widest]])
            spans[2 * node + 1, 0], spans[2 * node + 1, 1] = a, middle
            spans[2 * node + 2, 0], spans[2 * node + 2, 1] = middle, b


@inline
def possible(op: int, low_t: int, high_t: int, low_s: int, high_s: int) -> bool:
    if op == EQ:
        return low_t <= high_s and low_s <= high_t
    if op == NE:
        return not (low_t == high_t and low_s == high_s and low_t == low_s)
    if op == LT:
        return low_t < high_s
    if op == LE:
        return low_t <= high_s
    if op == GT:
        return high_t > low_s
    return high_t >= low_s


@kernel
def search_boxes(
    ranks: I32, terms: I64, rows_t: I32, spans_t: I64, low_t: I32, high_t: I32,
    rows_s: I32, spans_s: I64, low_s: I32, high_s: I32, stack: I64, state: I64, out: I64,
) -> bool:  # fmt: skip
    """Whether a pair of rows of two trees satisfies all terms, into `out`; goes on from `state`.

    A term is a row: operator, column of t, column of s, their places in `low_t` and `low_s`. `state` is how many pairs
    of nodes lie on `stack`, which holds (0, 0) at first, and how many more are looked at now. It is
    done when a pair is found or the stack is empty.
    """
    size = state[0]
    left = state[1]
    while size > 0 and left > 0:
        left -= 1
        size -= 1
        p, q = stack[size, 0], stack[size, 1]
        rows_p = spans_t[p, 1] - spans_t[p, 0]
        rows_q = spans_s[q, 1] - spans_s[q, 0]
        hopeful = rows_p > 0 and rows_q > 0
        for i in range(terms.shape[0]):
            if not hopeful:
                break
            d, e = terms[i, 3], terms[i, 4]
            hopeful = possible(terms[i, 0], low_t[p, d], high_t[p, d], low_s[q, e], high_s[q, e])
        if not hopeful:
            continue
        leaf_p = 2 * p + 2 >= spans_t.shape[0]
        leaf_q = 2 * q + 2 >= spans_s.shape[0]
        if leaf_p and leaf_q:
            for i in range(spans_t[p, 0], spans_t[p, 1]):
                t = rows_t[i]
                for j in range(spans_s[q, 0], spans_s[q, 1]):
                    s = rows_s[j]
                    holds = t != s
                    for k in range(terms.shape[0]):
                        if not holds:
                            break
                        x, y = ranks[terms[k, 1], t], ranks[terms[k, 2], s]
                        holds = possible(terms[k, 0], x, x, y, y)
                    if holds:
                        out[0], out[1] = t, s
                        state[0] = 0
                        return True
        elif leaf_q or (not leaf_p and rows_p >= rows_q):
            for child in range(2 * p + 1, 2 * p + 3):
                stack[size, 0], stack[size, 1] = child, q
                size += 1
        else:
            for child in range(2 * q + 1, 2 * q + 3):
                stack[size, 0], stack[size, 1] = p, child
                size += 1
    state[0] = size
    return False


@kernel
def scan_groups(ranks: I32, terms: I64, t_order: I32, t_group: I32, s_order: I32, s_group: I32, out: I64) -> bool:
    """Whether two rows of one group satisfy all terms, into `out`: every pair of every group is looked at.

    Rows are arranged by group; a term is a row: operator, column of t, column of s.
    Complexity: O(pairs of groups), for groups that are small.
    """
    j = 0
    i = 0
    while i < t_order.size:
        group = t_group[t_order[i]]
        end = i
        while end < t_order.size and t_group[t_order[end]] == group:
            end += 1
        while j < s_order.size and s_group[s_order[j]] < group:
            j += 1
        last = j
        while last < s_order.size and s_group[s_order[last]] == group:
            last += 1
        for a in range(i, end):
            t = t_order[a]
            for b in range(j, last):
                s = s_order[b]
                holds = t != s
                for k in range(terms.shape[0]):
                    if not holds:
                        break
                    x, y = ranks[terms[k, 1], t], ranks[terms[k, 2], s]
                    holds = x >= 0 and y >= 0 and possible(terms[k, 0], x, x, y, y)
                if holds:
                    out[0], out[1] = t, s
                    return True
        i, j = end, last
    return False
