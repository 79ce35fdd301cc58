"""Families of column sets, none inside another: the left sides that a target may still have.

Sets are bit sets, a line of 64-bit words each. The step from a family to the next follows the
induction of dependencies from agree sets (Flach and Savnik 1999), also used by HyFD (Papenbrock and
Naumann 2016).

Columns a, b, c are bits 0, 1, 2. What determines c is not known, so the family is the empty set alone. Two rows that
agree on a and differ in c refute it, and a itself: b is left.

>>> sets, status = np.zeros((65, 1), dtype=np.uint64), np.zeros(65, dtype=np.uint8)
>>> agree, differ = np.array([[0b001]], dtype=np.uint64), np.array([[0b100]], dtype=np.uint64)
>>> state = np.array([1, 0, 0, 0, 0])
>>> extend(sets, status, sets.copy(), status.copy(), agree, differ, np.array([0]), 2,
...     np.array([0b011], dtype=np.uint64), 3, state, 1000)
>>> [f"{word:03b}" for word in sets[: state[SETS], 0].tolist()]
['010']
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.assignment import assign
from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I64, U8, U64, Mask

OPEN, HOLDS, STALE = range(3)
"""What is known of a left side: nothing; that it holds; that it holds among the rows before the batch."""

SETS, HITS, DONE, SET_AT, CUT = range(5)
"""Where an extension stands: sets in use, hit sets, hit sets done, the next agree set, whether sets were too long."""


@inline
def inside(small: U64, large: U64) -> bool:
    """Whether every member of one set is in the other."""
    for w in range(small.size):
        if small[w] & ~large[w]:
            return False
    return True


@inline
def size_of(members: U64) -> int:
    """The number of members."""
    total = 0
    for w in range(members.size):
        bits = members[w]
        while bits:
            total += 1
            bits &= bits - np.uint64(1)
    return total


@kernel
def sizes(sets: U64, out: I64) -> None:
    """The number of members of each set. Complexity: O(members)."""
    for i in range(sets.shape[0]):
        out[i] = size_of(sets[i])


@kernel
def contained(sets: U64, families: U64, out: Mask) -> None:
    """Which of `sets` have a member of `families` inside. Complexity: O(sets * families)."""
    for i in range(sets.shape[0]):
        out[i] = False
        for k in range(families.shape[0]):
            if inside(families[k], sets[i]):
                out[i] = True
                break


@kernel
def take_off(sets: U64, agree: U64, differ: U64, out: U64) -> None:
    """Take off each line of `out` what some pair of rows differs in that agrees on all of the set.

    Complexity: O(sets * pairs); a set is done when nothing is left.
    """
    for i in range(sets.shape[0]):
        for k in range(agree.shape[0]):
            if not inside(sets[i], agree[k]):
                continue
            left = np.uint64(0)
            for w in range(sets.shape[1]):
                out[i, w] &= ~differ[k, w]
                left |= out[i, w]
            if left == 0:
                break


@inline
def _minimal(sets: U64, used: int, grown: U64, word: int, bit: np.uint64) -> bool:
    """Whether no set is inside the grown one; only sets with the new member can be."""
    if grown.size == 1:
        rest = ~grown[0]
        for k in range(used):
            if sets[k, 0] & bit and sets[k, 0] & rest == 0:
                return False
        return True
    for k in range(used):
        if sets[k, word] & bit and inside(sets[k], grown):
            return False
    return True


@kernel
def extend(
    sets: U64, status: U8, hits: U64, hit_status: U8, agree: U64, differ: U64, numbers: I64, target: int, allowed: U64,
    longest: int, state: I64, budget: int,
) -> None:  # fmt: skip
    """Make every set differ from the agree sets: a set inside one grows by each column outside of it.

    `agree[numbers]` are sets of columns on which two rows agree; those count whose `differ` has the
    target. `allowed` are the columns that may come in. Sets longer than `longest` are left out, which is
    noted in `state`.
    Returns early when `sets` need room or after `budget` comparisons; call again to go on.
    Complexity: O(agree sets * sets + sets that grow * columns * sets).
    """
    words = sets.shape[1]
    work = 0
    grown = np.empty(words, dtype=np.uint64)
    bit_of_target = np.uint64(1) << np.uint64(target & 63)
    while work < budget:
        if state[DONE] == state[HITS]:
            if state[SETS] == 0:
                state[SET_AT] = numbers.size
            if state[SET_AT] == numbers.size:
                return
            number = numbers[state[SET_AT]]
            state[SET_AT] += 1
            work += 1
            if differ[number, target >> 6] & bit_of_target == 0:
                continue
            line = agree[number]
            state[DONE] = 0
            state[HITS] = 0
            used = state[SETS]
            work += used
            k = 0
            while k < used:
                if not inside(sets[k], line):
                    k += 1
                    continue
                used -= 1
                assign(hits[state[HITS]], sets[k])
                hit_status[state[HITS]] = status[k]
                assign(sets[k], sets[used])
                status[k] = status[used]
                state[HITS] += 1
            state[SETS] = used
            continue
        line = agree[numbers[state[SET_AT] - 1]]
        base = hits[state[DONE]]
        used = state[SETS]
        if used + 64 * words > sets.shape[0]:
            return
        if size_of(base) >= longest:
            state[CUT] = 1
            state[DONE] += 1
            continue
        kind = hit_status[state[DONE]]
        first = used
        for w in range(words):
            free = allowed[w] & ~line[w]
            while free:
                bit = free & (~free + np.uint64(1))
                free ^= bit
                assign(grown, base)
                grown[w] |= bit
                work += first
                if _minimal(sets, first, grown, w, bit):
                    assign(sets[used], grown)
                    status[used] = OPEN if kind == OPEN else STALE
                    used += 1
        state[SETS] = used
        state[DONE] += 1
