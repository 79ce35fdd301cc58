"""Whether a row stands in order with all others of its group, in many columns at once.

The rows of a group are sorted by one column, the pivot. Beside each stands, for every other column, the highest value
of the rows up to it and the lowest of the rows from it on. A row whose values lie between the highest of those before
it and the lowest of those after it disagrees with nobody about the order, whichever two of the columns a rule compares.
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import inline, kernel
from holdstrue.kernels.runs import find_group, first_above, first_at_least
from holdstrue.typing import I32, I64, U8, U64, Mask

_ONE = np.uint64(1)


@kernel
def frontiers(
    slots: I32, starts: I32, codes: I64, columns: I32, flips: I64, known: U64, highest: I64, lowest: I64
) -> None:
    """The highest values up to each of the sorted rows, and the lowest from it on, of the columns after the first.

    Columns whose flip is -1 are seen upside down. A row counts in column i where bit i of its `known` is set.
    Complexity: O(rows * columns).

    Examples
    --------
    Pay and tax of three rows in one group, sorted by pay; the tax of the second is unknown:

    >>> slots, starts, known = np.array([0, 1, 2], np.int32), np.array([0, 3], np.int32), np.array([3, 1, 3], np.uint64)
    >>> codes, columns, flips = np.array([[10, 20, 30], [2, 0, 1]]), np.array([0, 1], np.int32), np.zeros(2, np.int64)
    >>> highest, lowest = np.empty((2, 3, 1), np.int64)
    >>> frontiers(slots, starts, codes, columns, flips, known, highest, lowest)
    >>> highest[:, 0].tolist(), lowest[:, 0].tolist()
    ([2, 2, 2], [1, 1, 1])
    """
    width = highest.shape[1]
    for group in range(starts.size - 1):
        for place in range(starts[group], starts[group + 1]):
            slot = slots[place]
            for c in range(width):
                best = highest[place - 1, c] if place > starts[group] else np.int64(-0x8000000000000000)
                if (known[slot] >> np.uint64(c + 1)) & _ONE != 0:
                    best = max(best, codes[columns[c + 1], slot] ^ flips[c + 1])
                highest[place, c] = best
        for place in range(starts[group + 1] - 1, starts[group] - 1, -1):
            slot = slots[place]
            for c in range(width):
                best = lowest[place + 1, c] if place + 1 < starts[group + 1] else np.int64(0x7FFFFFFFFFFFFFFF)
                if (known[slot] >> np.uint64(c + 1)) & _ONE != 0:
                    best = min(best, codes[columns[c + 1], slot] ^ flips[c + 1])
                lowest[place, c] = best


@inline
def _apart(highest: I64, lowest: I64, start: int, p: int, q: int, end: int, own: I64) -> tuple[np.uint64, ...]:
    """In which columns a row is in order with the rows below p and from q on, and at least as high, as low as the rest.

    Rows from p to q have its pivot.
    """
    between = _ONE
    above = _ONE
    below = _ONE
    for c in range(own.size):
        bit = _ONE << np.uint64(c + 1)
        value = own[c]
        if (p == start or highest[p - 1, c] <= value) and (q == end or value <= lowest[q, c]):
            between |= bit
        if q == start or highest[q - 1, c] <= value:
            above |= bit
        if p == end or value <= lowest[p, c]:
            below |= bit
    return between, above, below


@kernel
def screen_rows(
    groups: I32,
    starts: I32,
    pivot: I64,
    highest: I64,
    lowest: I64,
    rows: I32,
    row_groups: I32,
    codes: I64,
    columns: I32,
    flips: I64,
    known: U64,
    needs: U64,
    by_pivot: Mask,
    suspect: U8,
) -> int:
    """Mark which of some rows may violate which rules together with a row of a run; returns how many rows may.

    `needs[k]` are the bits of the two columns that rule k compares, `by_pivot[k]` says whether the pivot is one of
    them: rows with the same pivot then do not violate it. `suspect[k, i]` becomes 1 where row i may.
    Complexity: O(log n + columns) a row, and O(rules) where it is not in order in all columns.

    Examples
    --------
    Pay 10, 20, 30 and tax 1, 2, 3 in a run; are rows with pay 25 and tax 2, and with pay 25 and tax 9 in order?

    >>> zero, starts, pay = np.zeros(1, np.int32), np.array([0, 3], np.int32), np.array([10, 20, 30])
    >>> tax, codes = np.array([[1], [2], [3]]), np.array([[25, 25], [2, 9]])
    >>> rows, columns, flips = np.array([0, 1], np.int32), np.array([0, 1], np.int32), np.zeros(2, np.int64)
    >>> known, needs, suspect = np.array([3, 3], np.uint64), np.array([3], np.uint64), np.zeros((1, 2), np.uint8)
    >>> asked = rows, np.zeros(2, np.int32), codes, columns, flips, known, needs, np.array([True])
    >>> screen_rows(zero, starts, pay, tax, tax, *asked, suspect), suspect.tolist()
    (1, [[0, 1]])
    """
    width = highest.shape[1]
    every = (_ONE << np.uint64(width + 1)) - _ONE
    own = np.empty(width, dtype=np.int64)
    found = 0
    for i in range(rows.size):
        mine = known[i]
        place = find_group(groups, row_groups[i]) if row_groups[i] >= 0 and mine != 0 else -1
        if place < 0:
            continue
        between = _ONE
        above = _ONE
        below = _ONE
        if mine & _ONE != 0:
            start = starts[place]
            end = starts[place + 1]
            value = codes[columns[0], rows[i]]
            p = first_at_least(pivot, start, end, value)
            # rows with the same pivot are few
            step = 1
            while p + step < end and pivot[p + step] <= value:
                step *= 2
            q = first_above(pivot, p + step // 2, min(p + step, end), value)
            for c in range(width):
                own[c] = codes[columns[c + 1], rows[i]] ^ flips[c + 1]
            between, above, below = _apart(highest, lowest, start, p, q, end, own)
            unknown = every & ~mine
            if between | unknown == every and (above | unknown == every or below | unknown == every):
                continue
        doubtful = False
        for k in range(needs.size):
            need = needs[k]
            if need & mine != need:
                continue
            tied = by_pivot[k] or above & need == need or below & need == need
            if between & need != need or not tied:
                suspect[k, i] = 1
                doubtful = True
        if doubtful:
            found += 1
    return found
