"""Sorted runs of rows: find, in a group, the rows whose two attributes fall into two closed intervals.

A run holds its rows by group. Inside a group come first the rows of one monotone *chain* (both
attributes sorted alike, so both intervals are ranges of positions and the answer is their
intersection), then the remaining rows, sorted by the first attribute, in blocks of 64 rows whose
extrema of the second attribute tell which blocks can be skipped, and once more per 64 blocks.

Probe: O(log n + answers) on the chain, about O(log n + answers) on the rest. Build: O(n log n).
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import inline, kernel
from holdstrue.operators import Op
from holdstrue.typing import I32, I64, U8, Mask

LT, LE, GT, GE = Op.LT.code, Op.LE.code, Op.GT.code, Op.GE.code
ANY = -1

BLOCK = 64
"""Rows a block and blocks a fence. Prototypes did well with 64 to 128; other sizes were not measured here."""

MIN_CHAIN = 64
"""Groups below one block are scanned; a chain would only add a second range to search."""


@kernel
def longest_chain(b: I64, rising: bool, chain: Mask, tails: I32, before: I32) -> int:
    """Mark a longest subsequence of `b` that never falls (or never rises); returns its length.

    Patience sorting. Complexity: O(n log n).

    Examples
    --------
    >>> chain, scratch = np.empty(5, np.bool_), np.empty((2, 5), np.int32)
    >>> longest_chain(np.array([1, 9, 2, 3, 0]), True, chain, scratch[0], scratch[1]), chain.tolist()
    (3, [True, False, True, True, False])
    """
    length = 0
    for i in range(b.size):
        value = b[i] if rising else ~b[i]
        low = 0
        high = length
        while low < high:
            middle = (low + high) >> 1
            tail = b[tails[middle]] if rising else ~b[tails[middle]]
            if tail <= value:
                low = middle + 1
            else:
                high = middle
        before[i] = tails[low - 1] if low > 0 else -1
        tails[low] = i
        if low == length:
            length += 1
    chain[:] = False
    at = tails[length - 1] if length > 0 else -1
    while at >= 0:
        chain[at] = True
        at = before[at]
    return length


@kernel
def place_chains(
    starts: I32,
    b: I64,
    rising: bool,
    splits: I32,
    order: I32,
    chain: Mask,
    tails: I32,
    before: I32,
) -> None:
    """Split each group, sorted by the first attribute, into its chain and the rest.

    `order` receives the new order of positions, `splits[g]` the first position after the chain.
    """
    for g in range(starts.size - 1):
        start = starts[g]
        end = starts[g + 1]
        size = end - start
        splits[g] = start
        if size < MIN_CHAIN:
            for i in range(start, end):
                order[i] = i
            continue
        length = longest_chain(b[start:end], rising, chain[start:end], tails[:size], before[:size])
        at = start
        rest = start + length
        for i in range(start, end):
            if chain[i]:
                order[at] = i
                at += 1
            else:
                order[rest] = i
                rest += 1
        splits[g] = start + length


@kernel
def fences(values: I64, low: I64, high: I64) -> None:
    """Extrema of every BLOCK consecutive values. Complexity: O(n).

    Examples
    --------
    >>> low, high = np.empty((2, 2), np.int64)
    >>> fences(np.arange(100), low, high)
    >>> low.tolist(), high.tolist()
    ([0, 64], [63, 99])
    """
    for block in range(low.size):
        start = block * BLOCK
        end = min(start + BLOCK, values.size)
        least = values[start]
        most = values[start]
        for i in range(start + 1, end):
            least = min(least, values[i])
            most = max(most, values[i])
        low[block] = least
        high[block] = most


@kernel
def extrema(low: I64, high: I64, low_out: I64, high_out: I64) -> None:
    """Extrema of every BLOCK consecutive fences. Complexity: O(n)."""
    for block in range(low_out.size):
        start = block * BLOCK
        end = min(start + BLOCK, low.size)
        least = low[start]
        most = high[start]
        for i in range(start + 1, end):
            least = min(least, low[i])
            most = max(most, high[i])
        low_out[block] = least
        high_out[block] = most


@inline
def first_at_least(values: I64, start: int, end: int, wanted: int) -> int:
    """First position in the ascending `values[start:end]` whose value is not below `wanted`."""
    while start < end:
        middle = (start + end) >> 1
        if values[middle] < wanted:
            start = middle + 1
        else:
            end = middle
    return start


@inline
def first_above(values: I64, start: int, end: int, wanted: int) -> int:
    while start < end:
        middle = (start + end) >> 1
        if values[middle] <= wanted:
            start = middle + 1
        else:
            end = middle
    return start


@inline
def _first_at_most(values: I64, start: int, end: int, wanted: int) -> int:
    """First position in the descending `values[start:end]` whose value is not above `wanted`."""
    while start < end:
        middle = (start + end) >> 1
        if values[middle] > wanted:
            start = middle + 1
        else:
            end = middle
    return start


@inline
def _first_below(values: I64, start: int, end: int, wanted: int) -> int:
    while start < end:
        middle = (start + end) >> 1
        if values[middle] >= wanted:
            start = middle + 1
        else:
            end = middle
    return start


@inline
def interval(op: int, value: int, lowest: int, highest: int) -> tuple[int, int]:
    """The closed interval of codes x with `x op value`; empty ones have their lower end above the upper."""
    if op == LT:
        return (lowest, value - 1) if value > lowest else (1, 0)
    if op == LE:
        return lowest, value
    if op == GT:
        return (value + 1, highest) if value < highest else (1, 0)
    if op == GE:
        return value, highest
    return lowest, highest


@kernel
def boxes(
    slots: I32,
    roles: U8,
    role: int,
    groups: I32,
    a: I64,
    a_op: int,
    b: I64,
    b_op: int,
    out_group: I32,
    out: I64,
) -> None:
    """What to look for as partners of rows in `role`: a group and two intervals each.

    `a` and `b` are the rows' own codes by slot, the operators are seen from the partner (-1: any
    value will do). Rows that may not play the role get group -1. Complexity: O(rows).
    """
    lowest = np.iinfo(np.int64).min
    highest = np.iinfo(np.int64).max
    for i in range(slots.size):
        slot = slots[i]
        out_group[i] = groups[slot] if roles[slot] & role != 0 else -1
        out[i, 0], out[i, 1] = interval(a_op, a[slot], lowest, highest) if a_op >= 0 else (lowest, highest)
        out[i, 2], out[i, 3] = interval(b_op, b[slot], lowest, highest) if b_op >= 0 else (lowest, highest)


@inline
def find_group(groups: I32, group: int) -> int:
    """Position of a group in the run's ascending directory, -1 if absent. O(1) where groups are 0, 1, 2, ..."""
    if group < groups.size and groups[group] == group:
        return group
    low = 0
    high = groups.size
    while low < high:
        middle = (low + high) >> 1
        if groups[middle] < group:
            low = middle + 1
        else:
            high = middle
    if low < groups.size and groups[low] == group:
        return low
    return -1


@kernel
def probe_run(
    groups: I32,
    starts: I32,
    splits: I32,
    a: I64,
    b: I64,
    slots: I32,
    fence_low: I64,
    fence_high: I64,
    wall_low: I64,
    wall_high: I64,
    rising: bool,
    query_group: I32,
    query: I64,
    alive: U8,
    cursor: I64,
    out_query: I64,
    out_slot: I32,
) -> int:
    """Report the living rows of each query's group with `a` and `b` inside the query's intervals.

    `query[i]` is (lowest a, highest a, lowest b, highest b), closed; `query_group[i]` is -1 for no
    query. `cursor` is (query, position) to start from and receives where the output became full
    (or the number of queries). Returns the rows reported.
    """
    lowest = np.iinfo(np.int64).min
    highest = np.iinfo(np.int64).max
    found = 0
    room = out_query.size
    resume = cursor[1]
    for q in range(cursor[0], query_group.size):
        group = query_group[q]
        place = -1
        a_low = query[q, 0]
        a_high = query[q, 1]
        b_low = query[q, 2]
        b_high = query[q, 3]
        if group >= 0 and a_low <= a_high and b_low <= b_high:
            place = find_group(groups, group)
        if place < 0:
            resume = -1
            continue
        start = starts[place]
        split = splits[place]
        end = starts[place + 1]
        # the chain: both intervals are ranges of positions
        if split > start and resume < split:
            first = start if a_low == lowest else first_at_least(a, start, split, a_low)
            last = split if a_high == highest else first_above(a, first, split, a_high)
            # the ends of the range tell whether the second interval is missed or covered, mostly without a search
            if first < last:
                if rising:
                    if b[last - 1] < b_low or b[first] > b_high:
                        last = first
                    else:
                        first = first if b[first] >= b_low else first_at_least(b, first, last, b_low)
                        last = last if b[last - 1] <= b_high else first_above(b, first, last, b_high)
                elif b[last - 1] > b_high or b[first] < b_low:
                    last = first
                else:
                    first = first if b[first] <= b_high else _first_at_most(b, first, last, b_high)
                    last = last if b[last - 1] >= b_low else _first_below(b, first, last, b_low)
            for i in range(max(first, resume), last):
                if alive[slots[i]] != 0:
                    if found == room:
                        cursor[0] = q
                        cursor[1] = i
                        return found
                    out_query[found] = q
                    out_slot[found] = slots[i]
                    found += 1
        # the rest: a range on the first attribute, fences on the second
        first = max(split if a_low == lowest else first_at_least(a, split, end, a_low), resume)
        last = end if a_high == highest else first_above(a, split, end, a_high)
        i = first
        while i < last:
            if i % BLOCK == 0:
                block = i // BLOCK
                if block % BLOCK == 0:
                    wall = block // BLOCK
                    if wall_low[wall] > b_high or wall_high[wall] < b_low:
                        i += BLOCK * BLOCK
                        continue
                if fence_low[block] > b_high or fence_high[block] < b_low:
                    i += BLOCK
                    continue
            stop = min(last, (i // BLOCK + 1) * BLOCK)
            while i < stop:
                if b_low <= b[i] <= b_high and alive[slots[i]] != 0:
                    if found == room:
                        cursor[0] = q
                        cursor[1] = i
                        return found
                    out_query[found] = q
                    out_slot[found] = slots[i]
                    found += 1
                i += 1
        resume = -1
    cursor[0] = query_group.size
    cursor[1] = -1
    return found


@kernel
def probe_unsorted(
    group: I32,
    a: I64,
    b: I64,
    slots: I32,
    query_group: I32,
    query: I64,
    alive: U8,
    cursor: I64,
    out_query: I64,
    out_slot: I32,
) -> int:
    """Like `probe_run`, over a few rows in no order. Complexity: O(queries * rows)."""
    found = 0
    for q in range(cursor[0], query_group.size):
        if found + slots.size > out_query.size:
            cursor[0] = q
            return found
        wanted = query_group[q]
        if wanted < 0:
            continue
        for i in range(slots.size):
            if (
                group[i] == wanted
                and query[q, 0] <= a[i] <= query[q, 1]
                and query[q, 2] <= b[i] <= query[q, 3]
                and alive[slots[i]] != 0
            ):
                out_query[found] = q
                out_slot[found] = slots[i]
                found += 1
    cursor[0] = query_group.size
    return found
