"""A sieve for order rules: which rows cannot have a partner, told from extremes by range without sorting.

Rows of a group fall by one attribute into cells, ranges that ascend. A query (a row as t) dominates points (rows as s)
that are no higher in either attribute: where no cell up to its own holds a point as low as it in the other attribute,
it has no partner; and likewise for points from above. Cells are coarse, so rows that are left may
have no partner either. Of a table that mostly is in order little is left to be sorted.
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I32, I64, U8, Mask

LEFT, RIGHT, FLIP, STRICT, LOW, SHIFT = range(6)
"""What is said of a term: its columns as t and as s, -1 where both are turned so that it reads `s <= t`, 1 where equal
values do not satisfy it, and of the first term the value where cells begin and by how many bits values are shifted."""

HIGHEST, LOWEST = (np.int64(bound) for bound in (np.iinfo(np.int64).max, np.iinfo(np.int64).min))
"""What a cell holds where it has no point, and where it has no query."""

_T, _S = 1, 2


@inline
def _cell(value: int, low: int, shift: int, width: int) -> int:
    """The cell of a value in its group; the first and the last hold what lies beyond."""
    if value <= low:
        return np.int64(0)  # type: ignore[return-value]
    # the distance of two words of 64 bits needs no sign, and may need all of them
    at = (np.uint64(value) - np.uint64(low)) >> np.uint64(shift)
    return np.int64(min(at, np.uint64(width - 1)))  # type: ignore[return-value]


@kernel
def note_extremes(
    slots: I32, roles: U8, t_groups: I32, s_groups: I32, codes: I64, terms: I64, first: int, width: int, cells: I64
) -> None:
    """Note in each of so many cells a group its lowest point and its highest query. Complexity: O(rows).

    `first` is the least of the groups' numbers.
    """
    flip_a, flip_b = terms[0, FLIP], terms[1, FLIP]
    strict_a, strict_b = terms[0, STRICT], terms[1, STRICT]
    low, shift = terms[0, LOW], terms[0, SHIFT]
    t_a, t_b = codes[terms[0, LEFT]], codes[terms[1, LEFT]]
    s_a, s_b = codes[terms[0, RIGHT]], codes[terms[1, RIGHT]]
    for i in range(slots.size):
        slot = slots[i]
        role = roles[slot]
        if role & _S:
            at = 2 * ((s_groups[slot] - first) * width + _cell(s_a[slot] ^ flip_a, low, shift, width))
            cells[at] = min(cells[at], s_b[slot] ^ flip_b)
        if role & _T:
            a, b = t_a[slot] ^ flip_a, t_b[slot] ^ flip_b
            if not ((strict_a == 1 and a == LOWEST) or (strict_b == 1 and b == LOWEST)):
                at = 2 * ((t_groups[slot] - first) * width + _cell(a - strict_a, low, shift, width)) + 1
                cells[at] = max(cells[at], b - strict_b)


@kernel
def run_extremes(cells: I64, width: int) -> None:
    """Let each cell tell the lowest point of itself and those below, and the highest query from itself upwards.

    Complexity: O(cells).

    >>> cells = np.array([4, 1, 7, 5, 2, 3, 9, 0], dtype=np.int64)
    >>> run_extremes(cells, 2)
    >>> cells.reshape(-1, 2).tolist()
    [[4, 5], [4, 5], [2, 3], [2, 0]]
    """
    for start in range(0, cells.size, 2 * width):
        end = start + 2 * width
        for i in range(start + 2, end, 2):
            cells[i] = min(cells[i], cells[i - 2])
        for i in range(end - 3, start, -2):
            cells[i] = max(cells[i], cells[i + 2])


@kernel
def may_have_partners(
    slots: I32,
    roles: U8,
    t_groups: I32,
    s_groups: I32,
    codes: I64,
    terms: I64,
    first: int,
    width: int,
    cells: I64,
    out: Mask,
) -> None:
    """Which rows may have a partner as t or as s. Complexity: O(rows).

    Examples
    --------
    `t.a > s.a and t.b < s.b` of the rows (1, 10), (2, 20) and (3, 15) in one group, with cells of one value each: the
    third has the second as its partner.

    >>> slots, roles, groups = np.arange(3, dtype=np.int32), np.full(3, 3, np.uint8), np.zeros(3, np.int32)
    >>> codes, terms = np.array([[1, 2, 3], [10, 20, 15]]), np.array([[0, 0, 0, 1, 0, 0], [1, 1, -1, 1, 0, 0]])
    >>> cells, out = np.array([HIGHEST, LOWEST] * 4), np.empty(3, dtype=np.bool_)
    >>> rows = slots, roles, groups, groups, codes
    >>> note_extremes(*rows, terms, 0, 4, cells)
    >>> run_extremes(cells, 4)
    >>> may_have_partners(*rows, terms, 0, 4, cells, out)
    >>> out.tolist()
    [False, True, True]
    """
    flip_a, flip_b = terms[0, FLIP], terms[1, FLIP]
    strict_a, strict_b = terms[0, STRICT], terms[1, STRICT]
    low, shift = terms[0, LOW], terms[0, SHIFT]
    t_a, t_b = codes[terms[0, LEFT]], codes[terms[1, LEFT]]
    s_a, s_b = codes[terms[0, RIGHT]], codes[terms[1, RIGHT]]
    for i in range(slots.size):
        slot = slots[i]
        role = roles[slot]
        may = False
        if role & _S:
            at = 2 * ((s_groups[slot] - first) * width + _cell(s_a[slot] ^ flip_a, low, shift, width)) + 1
            may = cells[at] >= s_b[slot] ^ flip_b
        if role & _T and not may:
            a, b = t_a[slot] ^ flip_a, t_b[slot] ^ flip_b
            if not ((strict_a == 1 and a == LOWEST) or (strict_b == 1 and b == LOWEST)):
                at = 2 * ((t_groups[slot] - first) * width + _cell(a - strict_a, low, shift, width))
                may = cells[at] <= b - strict_b
        out[i] = may
