"""How many pairs of rows agree on some columns and rise in one: a pass over rows that are arranged by group and value.

Rows are positions into `ranks[column, row]`, as in `kernels/refute.py`. Rows of one group have the values 1, 2, 2: the
first lies below two others, so that two pairs rise.

>>> import numpy as np
>>> values, order, group = np.array([[1, 2, 2], [0, 1, 2], [0, 0, 0]], dtype=np.int32)
>>> rising(values, order, group, values, order, group)
2
>>> words, sets = np.array([[[0b01], [0b11]], [[1], [2]]], dtype=np.uint64)
>>> found = np.empty(2, dtype=np.int64)
>>> broken_at_least(sets, words, np.array([4, 2]), 3, found), found.tolist()
(None, [4, 2])
"""

from __future__ import annotations

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I32, I64, U64


@kernel
def rising(x: I32, order_t: I32, group_t: I32, y: I32, order_s: I32, group_s: I32) -> int:
    """Pairs (t, s) of one group with x[t] < y[s]; both lists are arranged by group, then by x and y.

    Complexity: O(rows).
    """
    total = 0
    first = 0
    passed = 0
    group = -1
    for j in range(order_s.size):
        s = order_s[j]
        if group_s[s] != group:
            group = group_s[s]
            first = passed
            while first < order_t.size and group_t[order_t[first]] < group:
                first += 1
            passed = first
        while passed < order_t.size and group_t[order_t[passed]] == group and x[order_t[passed]] < y[s]:
            passed += 1
        total += passed - first
    return total


@kernel
def broken_at_least(sets: U64, evidences: U64, counts: I64, enough: int, out: I64) -> None:
    """For each set of atoms how many pairs break it, as far as it matters: stops where that is above `enough`.

    Counts may be negative, of pairs that went: then those come first. Complexity: O(sets x evidences) words.
    """
    for i in range(sets.shape[0]):
        total = 0
        for e in range(evidences.shape[0]):
            contained = True
            for w in range(sets.shape[1]):
                if sets[i, w] & ~evidences[e, w] != 0:
                    contained = False
                    break
            if contained:
                total += counts[e]
                if total > enough and counts[e] > 0:
                    break
        out[i] = total
