"""Many rows in and out of all keys and FDs of a table, in one call over the groups and one over the counters.

With a hundred rules the counters no longer fit the caches, and a row waits for memory several times a rule. So each
rule's rows are gone through three times, some hundred at a time: twice only to touch what the third time reads, so that
the processor waits for many lines at once. What lies where is told by a frame, as in `one_row`.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from holdstrue.kernels.digest import NULL as NULL_KEY
from holdstrue.kernels.digest import START, extended
from holdstrue.kernels.groups import (
    COUNT,
    FULL,
    GROUP,
    MASK,
    NEXT,
    PAIRS_TOTAL,
    D,
    N,
    change,
    cleared,
    group_of,
    kept_of,
)
from holdstrue.kernels.hashing import add_at, hashed, place_of
from holdstrue.kernels.jit import inline, kernel
from holdstrue.kernels.one_row import (
    ALIASED,
    CELL_COUNT,
    CELLS,
    CORE,
    COUNTED,
    EXTRA,
    EXTRA_WIDTH,
    GROUPED,
    GROUPING,
    HI,
    KIND_ROWS,
    KINDS,
    LO,
    MOST_RHS,
    NULL_VALUE,
    NULL_VALUES,
    NULLS_EQUAL,
    NUMBERS,
    PAIR_COUNTS,
    PLACED,
    RIGHT_FIRST,
    ROW_KIND,
    S_COUNT,
    S_FIRST,
    S_GROUPS,
    SHAPE,
    SINGLE,
    T_COUNT,
    T_FIRST,
    T_GROUPS,
    TOTALS,
    TWO_SIDED,
    USED,
    VALUE_ROWS,
    VALUE_STRIDE,
    VALUES,
    has_room,
)
from holdstrue.kernels.wide import pointer
from holdstrue.typing import I32, I64, U8, U64

UPPER, LOWER, VALID = range(3)
"""Of a column of new rows where the lanes of its digests lie, and which values are known (0: all)."""

ADDED, REMOVED, KEPT, LISTED = range(4)
"""What comes out for a check: conflicts that came, that went, that did both with rows that stay; rows listed so far."""

LARGE = 1 << 19
"""Cells of a hash table that takes long to be made larger (see `BESIDE_FROM` in `index/arrays.py`)."""

PART = 512
"""Rows that are gone through together: what they touch fits the caches next to the core."""

_S32 = np.uint64(32)
_TAG = np.uint64(0xFFFFFFFF)


@inline
def _filling(line: I64, more: int) -> bool:
    """Whether a numbering lacks room for so many more keys, or is large and nearly full."""
    used = carray(pointer(line[USED]), 1, np.int64)[0]
    nearly = line[CELL_COUNT] >= LARGE and used * 16 > line[CELL_COUNT] * 9
    return nearly or not has_room(line, more)


@kernel
def short_of_room(frame: I64, groupings: int, end: int, more: int, short: I64) -> int:
    """Which lines speak of structures that lack room for so many more rows, up to slot `end`; returns how many.

    Large numberings that are nearly full are among them, as what follows takes long to make. Complexity: O(rules).
    """
    found = 0
    for at in range(frame.shape[0]):
        line = frame[at]
        if at < groupings:
            roomy = end <= line[GROUPED] and not _filling(line, 2 * more if line[TWO_SIDED] != 0 else more)
        else:
            groups = carray(pointer(frame[line[GROUPING], USED]), 1, np.int64)[0]
            roomy = groups + more <= line[COUNTED] and end <= line[PLACED]
            if line[SHAPE] >= SINGLE:
                kinds = carray(pointer(line[USED]), 1, np.int64)[0]
                roomy = roomy and kinds + more <= line[KIND_ROWS] and not _filling(line, more)
        if not roomy:
            short[found] = at
            found += 1
    return found


@inline
def _digest(
    lanes: I64, columns: I32, first: int, count: int, nulls_equal: bool, keys: U64, start: int, hi: U64, lo: U64
) -> None:
    """The digests of rows from `start` on; that of a row with NULL, where NULLs are unknown, is 0, 0."""
    for i in range(hi.size):
        hi[i] = keys[0, START]
        lo[i] = keys[1, START]
    for c in range(first, first + count):
        lane = lanes[columns[c]]
        end = start + hi.size
        upper = carray(pointer(lane[UPPER]), end, np.uint64)
        lower = carray(pointer(lane[LOWER]), end, np.uint64)
        if lane[VALID] == 0:
            for i in range(hi.size):
                hi[i] = extended(hi[i], upper[start + i], keys, 0)
                lo[i] = extended(lo[i], lower[start + i], keys, 1)
            continue
        valid = carray(pointer(lane[VALID]), end, np.uint8)
        for i in range(hi.size):
            known = valid[start + i] != 0
            hi[i] = extended(hi[i], upper[start + i] if known else keys[0, NULL_KEY], keys, 0)
            lo[i] = extended(lo[i], lower[start + i] if known else keys[1, NULL_KEY], keys, 1)
    if nulls_equal:
        return
    for c in range(first, first + count):
        lane = lanes[columns[c]]
        if lane[VALID] != 0:
            valid = carray(pointer(lane[VALID]), start + hi.size, np.uint8)
            for i in range(hi.size):
                if valid[start + i] == 0:
                    hi[i] = 0
                    lo[i] = 0


@inline
def _number(line: I64, hi: U64, lo: U64, out: I32) -> np.uint64:
    """Number keys, new ones too; -1 for those that are 0, 0. The answer means nothing: it makes memory be read."""
    cells = carray(pointer(line[CELLS]), line[CELL_COUNT], np.uint64)
    key_hi = carray(pointer(line[HI]), line[NUMBERS], np.uint64)
    key_lo = carray(pointer(line[LO]), line[NUMBERS], np.uint64)
    used = carray(pointer(line[USED]), 1, np.int64)
    mask = np.uint64(cells.size - 1)
    read = np.uint64(0)
    for i in range(hi.size):
        read += cells[(hashed(hi[i], lo[i]) >> _S32) & mask]
    for i in range(hi.size):
        cell = cells[(hashed(hi[i], lo[i]) >> _S32) & mask]
        if cell != 0:
            number = np.int64(cell >> _S32) - 1
            read += key_hi[number] ^ key_lo[number]
    for i in range(hi.size):
        if hi[i] == 0 and lo[i] == 0:
            out[i] = -1
            continue
        number, at = place_of(cells, key_hi, key_lo, hi[i], lo[i])
        if number < 0:
            number = used[0]
            add_at(cells, key_hi, key_lo, at, number, hi[i], lo[i])
            used[0] = number + 1
        out[i] = number
    return read


@kernel
def group_rows(
    frame: I64, groupings: int, columns: I32, lanes: I64, keys: U64, first: int, begin: int, end: int
) -> np.uint64:
    """Give the new rows from `begin` to `end` their groups in every grouping, which have room for them.

    The slots of new rows follow each other from `first` on. `detect/many_rules.py` makes the frame. Complexity:
    O(rows and groupings) expected.
    """
    hi = np.empty(PART, dtype=np.uint64)
    lo = np.empty(PART, dtype=np.uint64)
    read = np.uint64(0)
    for at in range(groupings):
        line = frame[at]
        equal = line[NULLS_EQUAL] != 0
        for side in range(2 if line[TWO_SIDED] != 0 else 1):
            groups = carray(pointer(line[T_GROUPS if side == 0 else S_GROUPS]), line[GROUPED], np.int32)
            column, count = (line[T_FIRST], line[T_COUNT]) if side == 0 else (line[S_FIRST], line[S_COUNT])
            for start in range(begin, end, PART):
                size = min(PART, end - start)
                _digest(lanes, columns, column, count, equal and side == 0, keys, start, hi[:size], lo[:size])
                read += _number(line, hi[:size], lo[:size], groups[first + start : first + start + size])
    return read


@inline
def _in(core: I32, pairs: I64, extra: I32, kinds: I32, values: I64, kind: int, totals: I64) -> int:
    """Count a row of `kind` in, of a check with at most one right-hand column; returns its conflicts."""
    if kinds.shape[0] == 0:
        if core[kind, N] == 0:
            core[kind, N] = 1
            return 0
        return change(core, pairs, extra, kinds, values, kind, 1, totals)
    group = kinds[kind, GROUP]
    count = kinds[kind, COUNT]
    # nothing conflicts in a group with one right side
    if core[group, D] == (0 if count == 0 else 1):
        core[group, N] += 1
        core[group, D] = 1
        kinds[kind, COUNT] = count + 1
        return 0
    return change(core, pairs, extra, kinds, values, kind, 1, totals)


@inline
def _out(core: I32, pairs: I64, extra: I32, kinds: I32, values: I64, kind: int, totals: I64) -> int:
    """Count a row of `kind` out again; returns its conflicts."""
    if kinds.shape[0] == 0:
        if core[kind, N] == 1:
            core[kind, N] = 0
            return 0
        return change(core, pairs, extra, kinds, values, kind, -1, totals)
    group = kinds[kind, GROUP]
    if core[group, D] == 1:
        core[group, N] -= 1
        kinds[kind, COUNT] -= 1
        core[group, D] = 1 if kinds[kind, COUNT] > 0 else 0
        return 0
    return change(core, pairs, extra, kinds, values, kind, -1, totals)


@inline
def _kinds_of(
    line: I64, lane: I64, member: int, start: int, groups: I32, core: I32, extra: I32, kinds: I32, out: I32
) -> np.uint64:
    """The kinds of rows of these groups, -1 for rows that the check does not look at; new ones are written down."""
    cells = carray(pointer(line[CELLS]), line[CELL_COUNT], np.uint64)
    key_hi = carray(pointer(line[HI]), line[NUMBERS], np.uint64)
    key_lo = carray(pointer(line[LO]), line[NUMBERS], np.uint64)
    used = carray(pointer(line[USED]), 1, np.int64)
    end = start + groups.size
    lower = carray(pointer(lane[LOWER]), end, np.uint64)
    valid = carray(pointer(lane[VALID]), end if lane[VALID] != 0 else 0, np.uint8)
    chosen = carray(pointer(member), end if member != 0 else 0, np.uint8)
    null_values = line[NULL_VALUES] != 0
    read = np.uint64(0)
    for i in range(groups.size):
        if groups[i] >= 0:
            read += np.uint64(core[groups[i], N]) + np.uint64(extra[groups[i], FULL])
    for i in range(groups.size):
        if groups[i] >= 0 and extra[groups[i], FULL] >= 0:
            head = extra[groups[i], FULL]
            read += key_lo[head] + np.uint64(kinds[head, COUNT])
    for i in range(groups.size):
        group = groups[i]
        out[i] = -1
        if group < 0 or (chosen.size > 0 and chosen[start + i] == 0):
            continue
        value = lower[start + i]
        upper = np.uint64(group)
        if valid.size > 0 and valid[start + i] == 0:
            if not null_values:
                continue
            value = NULL_VALUE
            upper |= np.uint64(1) << np.uint64(32 + MOST_RHS)
        head = extra[group, FULL]
        # most rows have the right side that came last in their group, which saves a search
        if head >= 0 and key_lo[head] == value and (not null_values or key_hi[head] == upper):
            out[i] = head
            continue
        kind, at = place_of(cells, key_hi, key_lo, upper, value)
        if kind < 0:
            kind = used[0]
            add_at(cells, key_hi, key_lo, at, kind, upper, value)
            used[0] = kind + 1
            kinds[kind, COUNT] = 0
            kinds[kind, GROUP] = group
            kinds[kind, MASK] = 0
            kinds[kind, NEXT] = head
            extra[group, FULL] = kind
        out[i] = kind
    return read


@inline
def _place(
    line: I64, groups: I32, columns: I32, lanes: I64, member: int, first: int, begin: int, end: int, row_kind: I32
) -> np.uint64:
    """Give the new rows from `begin` to `end` their kinds in one check, new kinds too."""
    counted = line[COUNTED]
    core = carray(pointer(line[CORE]), (counted, 2), np.int32)
    extra = carray(pointer(line[EXTRA]), (counted, line[EXTRA_WIDTH]), np.int32)
    kinds = carray(pointer(line[KINDS]), (line[KIND_ROWS], 4), np.int32)
    read = np.uint64(0)
    for start in range(begin, end, PART):
        stop = min(start + PART, end)
        own = groups[first + start : first + stop]
        if line[SHAPE] >= SINGLE:
            lane = lanes[columns[line[RIGHT_FIRST]]]
            out = row_kind[first + start : first + stop]
            read += _kinds_of(line, lane, member, start, own, core, extra, kinds, out)
            continue
        chosen = carray(pointer(member), stop if member != 0 else 0, np.uint8)
        for i in range(own.size):
            if own[i] >= 0:
                read += np.uint64(core[own[i], N])
        if line[SHAPE] != ALIASED:
            for i in range(own.size):
                row_kind[first + start + i] = own[i] if chosen.size == 0 or chosen[start + i] != 0 else -1
    return read


@kernel
def place_rows(
    frame: I64, groupings: int, columns: I32, lanes: I64, members: I64, first: int, begin: int, end: int
) -> np.uint64:
    """Give the new rows from `begin` to `end`, which have their groups, their kinds in every check.

    Called where there are too many rows for `count_rows` to be given room for all of their kinds. Complexity: O(rows
    and checks).
    """
    read = np.uint64(0)
    for check in range(frame.shape[0] - groupings):
        line = frame[groupings + check]
        grouping = frame[line[GROUPING]]
        groups = carray(pointer(grouping[T_GROUPS]), grouping[GROUPED], np.int32)
        row_kind = carray(pointer(line[ROW_KIND]), line[PLACED], np.int32)
        read += _place(line, groups, columns, lanes, members[check], first, begin, end, row_kind)
    return read


@kernel
def count_rows(
    frame: I64,
    groupings: int,
    columns: I32,
    lanes: I64,
    members: I64,
    first: int,
    new: int,
    old: I32,
    twin: I32,
    alive: U8,
    anew: bool,
    placed: bool,
    hits: I32,
    out: I64,
) -> np.uint64:
    """Count old rows out of every check and rows `first, first + 1, ...` in, which have their groups.

    With `anew` nothing is counted out: the rows before `first` that are alive are counted again. With `placed` the new
    rows have their kinds already.

    `members[check]` says where the mask of the new rows lies that a check looks at (0: all), `twin[i]` which new row
    replaces the i-th old one (-1: none); `out[check]` gets what came, went and did both, and up to where `hits` then
    list the new rows, and the old ones as ~i, that had conflicts, as far as there is room for them. Checks have at most
    one right-hand column. Complexity: O(rows and checks).
    """
    read = np.uint64(0)
    gone = np.empty(old.size, dtype=np.int32)
    listed = 0
    for check in range(frame.shape[0] - groupings):
        line = frame[groupings + check]
        grouping = frame[line[GROUPING]]
        groups = carray(pointer(grouping[T_GROUPS]), grouping[GROUPED], np.int32)
        counted = line[COUNTED]
        core = carray(pointer(line[CORE]), (counted, 2), np.int32)
        pairs = carray(pointer(line[PAIR_COUNTS]), counted, np.int64)
        extra = carray(pointer(line[EXTRA]), (counted, line[EXTRA_WIDTH]), np.int32)
        kinds = carray(pointer(line[KINDS]), (line[KIND_ROWS], 4), np.int32)
        values = carray(pointer(line[VALUES]), (line[VALUE_ROWS], line[VALUE_STRIDE]), np.int64)
        row_kind = carray(pointer(line[ROW_KIND]), line[PLACED], np.int32)
        totals = carray(pointer(line[TOTALS]), 3, np.int64)
        shape = line[SHAPE]
        removed = 0
        if anew:
            before = totals[PAIRS_TOTAL]
            for i in range(old.size):
                gone[i] = row_kind[old[i]]
                # who had conflicts is asked where there were some
                if before > 0 and gone[i] >= 0 and pairs[group_of(kinds, gone[i])] > 0:
                    if listed < hits.size:
                        hits[listed] = ~i
                    listed += 1
            grouped = carray(pointer(grouping[USED]), 1, np.int64)[0]
            used = carray(pointer(line[USED]), 1, np.int64)[0]
            cleared(core, pairs, extra, kinds, grouped, used, totals)
            for slot in range(first):
                if alive[slot] != 0 and row_kind[slot] >= 0:
                    _in(core, pairs, extra, kinds, values, row_kind[slot], totals)
            removed = before - totals[PAIRS_TOTAL]
        for start in range(0, 0 if anew else old.size, PART):
            end = min(start + PART, old.size)
            for i in range(start, end):
                gone[i] = row_kind[old[i]]
            for i in range(start, end):
                if gone[i] >= 0:
                    read += np.uint64(core[gone[i], N] if shape < SINGLE else kinds[gone[i], GROUP])
            if shape >= SINGLE:
                for i in range(start, end):
                    if gone[i] >= 0:
                        read += np.uint64(core[kinds[gone[i], GROUP], N])
            for i in range(start, end):
                if gone[i] >= 0:
                    found = _out(core, pairs, extra, kinds, values, gone[i], totals)
                    if found > 0:
                        removed += found
                        if listed < hits.size:
                            hits[listed] = ~i
                        listed += 1
        if not placed:
            read += _place(line, groups, columns, lanes, members[check], first, 0, new, row_kind)
        kept = 0
        if removed > 0:
            for i in range(old.size):
                if twin[i] >= 0:
                    kept += kept_of(core, extra, kinds, values, gone[i], row_kind[twin[i]])
        added = 0
        for i in range(new):
            kind = row_kind[first + i]
            if kind >= 0:
                found = _in(core, pairs, extra, kinds, values, kind, totals)
                if found > 0:
                    added += found
                    if listed < hits.size:
                        hits[listed] = i
                    listed += 1
        out[check, ADDED] = added
        out[check, REMOVED] = removed
        out[check, KEPT] = kept
        out[check, LISTED] = listed
    return read
