"""What arrays that come from outside must be before other kernels trust them; each is asked in one pass.

Five rows in two groups, linked from the last row of a group to the first, as an index keeps them:

>>> groups = np.array([0, 1, 0, 0, 1], dtype=np.int32)
>>> before = np.array([-1, -1, 0, 2, 1], dtype=np.int32)
>>> links, last = np.stack((groups, before), axis=1), np.array([[3], [4]], dtype=np.int32)
>>> outside(groups, 0, 1), unlinked(links, 0, 1), unheaded(last, 0, links, 0)
(-1, -1, -1)
>>> before[0] = 3  # a circle
>>> unlinked(np.stack((groups, before), axis=1), 0, 1)
0
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I32, U8, U64, Lanes

_STRIP = 4096
"""Values looked at before it is asked whether one was outside: the loop over them has no exit, so it vectorises."""

_S32 = np.uint64(32)


@kernel
def outside(values: Lanes, low: int, high: int) -> int:
    """The first place whose value is not from `low` to `high`, or -1. Complexity: O(n), at the speed of memory."""
    for start in range(0, values.size, _STRIP):
        strip = values[start : start + _STRIP]
        some = False
        for i in range(strip.size):
            some |= (strip[i] < low) | (strip[i] > high)
        if some:
            for i in range(strip.size):
                if strip[i] < low or strip[i] > high:
                    return start + i
    return -1


@kernel
def unsorted(values: Lanes, strictly: bool) -> int:
    """The first place whose value is below the one before it (or equal to it), or -1. Complexity: O(n).

    >>> rows = np.array([3, 5, 5, 9, 8], dtype=np.int32)
    >>> unsorted(rows, False), unsorted(rows, True)
    (4, 2)
    """
    for start in range(0, values.size - 1, _STRIP):
        end = min(start + _STRIP, values.size - 1)
        before, after = values[start:end], values[start + 1 : end + 1]
        some = False
        for i in range(end - start):
            some |= (after[i] < before[i]) | (strictly & (after[i] == before[i]))
        if some:
            for i in range(end - start):
                if after[i] < before[i] or (strictly and after[i] == before[i]):
                    return start + i + 1
    return -1


@kernel
def filled(cells: U64, used: int) -> int:
    """How many cells of a hash table are taken, or -1 where one holds a number that is not below `used`.

    Complexity: O(cells), at the speed of memory.
    """
    most = np.uint64(used)
    taken = 0
    wrong = False
    for i in range(cells.size):
        # a cell holds its number and one more in the upper half, and 0 alone is empty
        number = cells[i] >> _S32
        wrong |= (number > most) | ((number == 0) & (cells[i] != 0))
        taken += cells[i] != 0
    return -1 if wrong else taken


@kernel
def placed(slots: I32, alive: U8) -> int:
    """How many slots are not -1, or -1 where one is of no living row, or comes twice. Complexity: O(n).

    >>> alive = np.array([1, 0, 1, 1, 1], dtype=np.uint8)
    >>> placed(np.array([2, -1, 0], dtype=np.int32), alive), placed(np.array([2, 0, 2], dtype=np.int32), alive)
    (2, -1)
    """
    # a bit a row: the second-level cache holds those of eight million
    seen = np.zeros((alive.size >> 6) + 1, dtype=np.uint64)
    found = 0
    wrong = False
    for i in range(slots.size):
        slot = slots[i]
        if slot >= 0:
            bit = np.uint64(1) << np.uint64(slot & 63)
            wrong |= (alive[slot] == 0) | (seen[slot >> 6] & bit != 0)
            seen[slot >> 6] |= bit
            found += 1
    return -1 if wrong else found


@kernel
def count_living(numbers: I32, alive: U8, counts: I32) -> None:
    """Count the living rows of each number; -1 is none. Complexity: O(rows).

    >>> counts = np.zeros(2, dtype=np.int32)
    >>> count_living(np.array([0, 1, 0, 0, -1], dtype=np.int32), np.array([1, 1, 0, 1, 1], dtype=np.uint8), counts)
    >>> counts.tolist()
    [2, 1]
    """
    for i in range(numbers.size):
        if numbers[i] >= 0:
            counts[numbers[i]] += alive[i]


@kernel
def unlinked(links: I32, owner: int, following: int) -> int:
    """The first line whose next line is not an earlier one of the same owner, or -1: so no list ever runs in a circle.

    Lines are `links[i]`, with the columns of the owner and of the next line (-1: none). Complexity: O(lines).
    """
    for i in range(links.shape[0]):
        after = links[i, following]
        if after < -1 or after >= i or (after >= 0 and links[after, owner] != links[i, owner]):
            return i
    return -1


@kernel
def unheaded(heads: I32, column: int, links: I32, owner: int) -> int:
    """The first owner whose list does not start with a line of its own, or -1. Complexity: O(owners)."""
    for i in range(heads.shape[0]):
        first = heads[i, column]
        if first < -1 or first >= links.shape[0] or (first >= 0 and links[first, owner] != i):
            return i
    return -1
