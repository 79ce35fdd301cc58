"""One pair of rows that breaks a rule of three orders, or of four where two have few values: a sweep with a tree.

Rows are positions into `ranks[column, row]`, as in `kernels/refute.py`. The sweep goes along the first order, a Fenwick
tree over the second (and the fourth) holds the best of the rows passed so far by the third, and the best that differs
from it in the column of an inequality.

Rows (a, b, c): (1, 1, 1), (2, 2, 0), (3, 3, 2). Which row has more of everything than another one?

>>> import numpy as np
>>> ranks = np.array([[1, 2, 3], [1, 2, 3], [1, 0, 2]], dtype=np.int32)
>>> order, group, pair = np.arange(3, dtype=np.int32), np.zeros(3, dtype=np.int32), np.zeros(2, dtype=np.int64)
>>> terms = np.array([0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 1, 1, -1, -1, -1, -1, 0, 1])
>>> tree = np.full((5, 2, 5), -1, dtype=np.int32)
>>> sweep_tree(ranks, order, group, order, group, terms, tree, pair), pair.tolist(), int(tree.max())
(True, [2, 0], -1)
"""

from __future__ import annotations

from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I32, I64

FEW = 512
"""Pairs of a group that are looked at one by one, rather than by a tree."""


@inline
def _scan_group(ranks: I32, rows_t: I32, rows_s: I32, terms: I64, out: I64) -> bool:
    """As `_sweep_group`, pair by pair."""
    for p in range(rows_t.size):
        t = rows_t[p]
        x, y, w = ranks[terms[0], t], ranks[terms[4], t], ranks[terms[8], t]
        z = t if terms[12] < 0 else ranks[terms[12], t]
        v = 0 if terms[14] < 0 else ranks[terms[14], t]
        if y < 0 or w < 0 or z < 0 or v < 0:
            continue
        for q in range(rows_s.size):
            s = rows_s[q]
            if x - ranks[terms[1], s] < terms[2]:
                break
            b = ranks[terms[5], s]
            if b < 0 or terms[7] * (y - b) < terms[6]:
                continue
            b = ranks[terms[9], s]
            if b < 0 or terms[11] * (w - b) < terms[10]:
                continue
            b = 0 if terms[15] < 0 else ranks[terms[15], s]
            if b < 0 or terms[17] * (v - b) < terms[16]:
                continue
            b = s if terms[13] < 0 else ranks[terms[13], s]
            if b >= 0 and b != z:
                out[0], out[1] = t, s
                return True
    return False


@inline
def _enter(node: I32, s: int, w: int, z: int) -> None:
    """A row into a node of the tree: the best by w, its w and z, and the best that differs in z, and its w."""
    if node[0] < 0:
        node[0], node[1], node[2] = s, w, z
    elif w < node[1]:
        if z != node[2]:
            node[3], node[4] = node[0], node[1]
        node[0], node[1], node[2] = s, w, z
    elif z != node[2] and (node[3] < 0 or w < node[4]):
        node[3], node[4] = s, w


@kernel
def sweep_tree(
    ranks: I32, order_t: I32, group_t: I32, order_s: I32, group_s: I32, terms: I64, tree: I32, out: I64
) -> bool:
    """Whether a pair (t, s) of a group has t.x > s.x, t.y > s.y, t.w > s.w, t.v > s.v and t.z != s.z; into `out`.

    `terms` is, for x, y and w: column of t, column of s, 1 if strict, and a sign (that of x is 1); for z two columns,
    where -1 asks for t and s being different rows; then v as the others, where a column -1 is no condition.
    `tree` is over the values of y and of v, five numbers a node, all -1 before and after. Both lists are
    arranged by group and x; small groups are looked at pair by pair. Complexity: O(rows x log y x log v).
    """
    i = 0
    k = 0
    while i < order_t.size and k < order_s.size:
        g = group_t[order_t[i]]
        while k < order_s.size and group_s[order_s[k]] < g:
            k += 1
        end_t = i
        while end_t < order_t.size and group_t[order_t[end_t]] == g:
            end_t += 1
        end_s = k
        while end_s < order_s.size and group_s[order_s[end_s]] == g:
            end_s += 1
        if (end_t - i) * (end_s - k) <= FEW:
            if _scan_group(ranks, order_t[i:end_t], order_s[k:end_s], terms, out):
                return True
        elif _sweep_group(ranks, order_t[i:end_t], order_s[k:end_s], terms, tree, out):
            return True
        i = end_t
        k = end_s
    return False


@inline
def _place(sign: int, rank: int, top: int) -> int:
    """Where a value lies in the tree, from 1 to its size - 1."""
    return rank + 1 if sign > 0 else top - 1 - rank


@inline
def _sweep_group(ranks: I32, rows_t: I32, rows_s: I32, terms: I64, tree: I32, out: I64) -> bool:
    found = False
    top, wide = tree.shape[0], tree.shape[1]
    k = 0
    for i in range(rows_t.size):
        t = rows_t[i]
        x = ranks[terms[0], t]
        while k < rows_s.size:
            s = rows_s[k]
            if ranks[terms[1], s] > x or (terms[2] == 1 and ranks[terms[1], s] == x):
                break
            k += 1
            y, w = ranks[terms[5], s], ranks[terms[9], s]
            z = s if terms[13] < 0 else ranks[terms[13], s]
            v = 0 if terms[15] < 0 else ranks[terms[15], s]
            if y < 0 or w < 0 or z < 0 or v < 0:
                continue
            low = terms[11] * w
            at, start = _place(terms[7], y, top), _place(terms[17], v, wide)
            while at < top:
                across = start
                while across < wide:
                    _enter(tree[at, across], s, low, z)
                    across += across & -across
                at += at & -at
        y, w = ranks[terms[4], t], ranks[terms[8], t]
        z = t if terms[12] < 0 else ranks[terms[12], t]
        v = 0 if terms[14] < 0 else ranks[terms[14], t]
        if y < 0 or w < 0 or z < 0 or v < 0:
            continue
        s = _lower(tree, _place(terms[7], y, top) - terms[6], _place(terms[17], v, wide) - terms[16],
                   terms[11] * w, terms[10], z)  # fmt: skip
        if s >= 0:
            out[0], out[1] = t, s
            found = True
            break
    for q in range(k):
        s = rows_s[q]
        y = ranks[terms[5], s]
        v = 0 if terms[15] < 0 else ranks[terms[15], s]
        if y >= 0 and v >= 0:
            _clear(tree, _place(terms[7], y, top), _place(terms[17], v, wide))
    return found


@inline
def _lower(tree: I32, at: int, start: int, w: int, strict: int, z: int) -> int:
    """A row of the tree below w that differs in z, among those at most so far; -1 where there is none."""
    while at > 0:
        across = start
        while across > 0:
            node = tree[at, across]
            if node[0] >= 0:
                s = node[0]
                low = node[1]
                if node[2] == z:
                    s = node[3]
                    low = node[4]
                if s >= 0 and (low < w or (low == w and strict == 0)):
                    return s
            across -= across & -across
        at -= at & -at
    return -1


@inline
def _clear(tree: I32, at: int, start: int) -> None:
    """Take a row out with all others in its nodes; above a node that is empty all are."""
    while at < tree.shape[0] and tree[at, start, 0] >= 0:
        across = start
        while across < tree.shape[1] and tree[at, across, 0] >= 0:
            for k in range(5):
                tree[at, across, k] = -1
            across += across & -across
        at += at & -at
