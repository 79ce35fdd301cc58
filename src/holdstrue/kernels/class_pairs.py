"""One pair of rows that breaks a rule, found by classes: rows that agree on all columns of few values.

Whether two rows satisfy comparisons of such columns depends on their classes alone. Of the two orders that may be left,
on columns of many values, only the rows of a class matter that no other row of it exceeds in both: its frontier.

Rows (state, pay, tax): (0, 5, 2), (0, 9, 1), (1, 7, 3), (0, 4, 1). In class 0 no row has more pay than row 1, and none
that has more tax than row 1 has more pay than row 0.

>>> import numpy as np
>>> ranks = np.array([[0, 0, 1, 0], [5, 9, 7, 4], [2, 1, 3, 1]], dtype=np.int32)
>>> order, classes = np.array([3, 0, 1, 2], dtype=np.int32), np.array([0, 0, 1, 0], dtype=np.int32)
>>> rows, starts = np.empty(4, dtype=np.int32), np.empty(3, dtype=np.int64)
>>> frontier(ranks, order, classes, np.array([1, 2, 1, 1]), rows, starts), rows[:3].tolist(), starts.tolist()
(3, [1, 0, 2], [0, 2, 3])
"""

from __future__ import annotations

from holdstrue.kernels.jit import inline, kernel
from holdstrue.kernels.refute import possible
from holdstrue.typing import I32, I64


@kernel
def frontier(ranks: I32, order: I32, classes: I32, terms: I64, rows: I32, starts: I64) -> int:
    """By class the rows that no other exceeds in x and y, x falling; into `rows`, the ends of classes into `starts`.

    `order` has the rows by class, then by x ascending; `terms` are the columns x and y (-1: none) and two signs, -1
    where less is more. Returns how many rows there are. Complexity: O(rows + classes).
    """
    y, x_sign, y_sign = terms[1], terms[2], terms[3]
    count = 0
    number = 0
    i = 0
    while i < order.size:
        own = classes[order[i]]
        while number <= own:
            starts[number] = count
            number += 1
        end = i
        while end < order.size and classes[order[end]] == own:
            end += 1
        best = 0
        some = False
        for k in range(end - i):
            row = order[end - 1 - k] if x_sign > 0 else order[i + k]
            if y < 0:
                if not some:
                    rows[count] = row
                    count += 1
                    some = True
                continue
            value = ranks[y, row]
            if value >= 0 and (not some or y_sign * value > best):
                rows[count] = row
                count += 1
                best = y_sign * value
                some = True
        i = end
    while number < starts.size:
        starts[number] = count
        number += 1
    return count


@inline
def _crossing(ranks: I32, t_rows: I32, s_rows: I32, orders: I64, out: I64) -> bool:
    """Whether a row t of a frontier exceeds a row s of another, whose x rises and whose y falls."""
    j = s_rows.size - 1
    for i in range(t_rows.size):
        t = t_rows[i]
        if orders[0, 0] >= 0:
            x = ranks[orders[0, 0], t]
            while j >= 0 and orders[0, 3] * (x - ranks[orders[0, 1], s_rows[j]]) < orders[0, 2]:
                j -= 1
            if j < 0:
                return False
        s = s_rows[j]
        if orders[1, 0] < 0 or orders[1, 3] * (ranks[orders[1, 0], t] - ranks[orders[1, 1], s]) >= orders[1, 2]:
            out[0], out[1] = t, s
            return True
    return False


@kernel
def match_classes(
    ranks: I32, values: I32, terms: I64, t_rows: I32, t_starts: I64, s_rows: I32, s_starts: I64, orders: I64,
    most: int, out: I64,
) -> int:  # fmt: skip
    """Whether a row t of a class and a row s of a class satisfy a rule: 1 and into `out`, or 0.

    Ends with -1 where frontiers of more than `most` rows in all would have to be looked at.

    `values[k, c]` is what class c has in the k-th column of few values, `terms` are comparisons of these: operator,
    column of t, column of s. `orders` are those of the frontiers: column of t (-1: none), column of s, 1 if strict, a
    sign. Complexity: O(classes^2 x terms), and the frontiers of classes that match.
    """
    for c in range(values.shape[1]):
        if t_starts[c] == t_starts[c + 1]:
            continue
        for d in range(values.shape[1]):
            if s_starts[d] == s_starts[d + 1]:
                continue
            holds = True
            for k in range(terms.shape[0]):
                a, b = values[terms[k, 1], c], values[terms[k, 2], d]
                if a < 0 or b < 0 or not possible(terms[k, 0], a, a, b, b):
                    holds = False
                    break
            if not holds:
                continue
            t_own, s_own = t_rows[t_starts[c] : t_starts[c + 1]], s_rows[s_starts[d] : s_starts[d + 1]]
            most -= t_own.size + s_own.size
            if most < 0:
                return -1
            if _crossing(ranks, t_own, s_own, orders, out):
                return 1
    return 0
