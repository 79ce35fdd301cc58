"""One row in, out or replaced, in one call over the key, the groups and the counters of all rules of a table.

What a call works on are arrays of many structures, which a kernel cannot take one by one: a line of the *frame* says
where those of one structure lie and how long they are. Whoever makes the frame holds on to the arrays and makes it
anew when one of them is replaced.

A row comes as *words*, four for each compared column: two lanes of its digest, its code, and its state, which also
says how the first three are still to be made of what is given (a place in `text`, the bits of a double).
"""

from __future__ import annotations

import numpy as np
from numba import carray

from holdstrue.kernels.digest import NULL as NULL_KEY
from holdstrue.kernels.digest import START, extended, string_digest
from holdstrue.kernels.floats import NAN
from holdstrue.kernels.groups import COUNT, FULL, GROUP, MASK, NEXT, PARTIAL, change, kept_of
from holdstrue.kernels.hashing import add_at, place_of
from holdstrue.kernels.jit import inline, kernel
from holdstrue.kernels.wide import pointer
from holdstrue.typing import I32, I64, U8, U64

UPPER, LOWER, CODE, STATE = range(4)
"""The words of a value."""
NULL, KNOWN, TEXT, BYTES, DOUBLE = range(5)
"""States: no value; a value; one that is given as bytes of `text` from UPPER on, LOWER many; as the bits of UPPER."""

INSERT, UPDATE, DELETE, UPSERT = range(4)
DONE, CLASH, FULL_UP = range(3)
"""What became of a row: it is in; its key is or is not there already; some structure has no room for it."""

WIDTH = 24
"""Entries of a line of the frame."""

# the first line: the rows
ALIVE, SLOTS, CODES, CODE_STRIDE, CODE_FIRST, CODE_COUNT, CURRENT, KEYS, KEY_FIRST, KEY_COUNT = range(10)
GROUPINGS, CHECKS, PAIRS = 10, 11, 12

# a numbering (the second line is that of the keys)
CELLS, CELL_COUNT, HI, LO, NUMBERS, USED = range(6)

# a grouping, from where its numbering stands
T_GROUPS, S_GROUPS, GROUPED, TWO_SIDED, T_FIRST, T_COUNT, S_FIRST, S_COUNT, NULLS_EQUAL = range(6, 15)

# the counters of a key or an FD, from where the numbering of its kinds stands
CORE, COUNTED, EXTRA, EXTRA_WIDTH, KINDS, KIND_ROWS, VALUES, VALUE_ROWS, ROW_KIND, PLACED = range(6, 16)
TOTALS, GROUPING, SHAPE, RIGHT_FIRST, RIGHT_COUNT, NULL_VALUES, PAIR_COUNTS, VALUE_STRIDE = range(16, 24)
ALIASED, UNIQUE, SINGLE, SEVERAL = range(4)
"""Shapes: a key of all rows, a key of some, an FD with one right-hand column, one with several."""

# a two-row check: the roles that a row may play
ROLES, ROLE_SLOTS, OF_GROUPING, AS_T_FIRST, AS_T_COUNT, AS_S_FIRST, AS_S_COUNT, TWO_ROLES = range(8)

OLD, NEW, TOUCHED = range(3)
"""The first line of what comes out: slots, and how many lines follow of checks with changed counters."""
CHECK, LOST, WON, KEPT, NEW_PARTIAL = range(5)
"""Such a line: which, conflicts that went, that came, that do both, and whether a kind with unknown values is new."""

_BYTES_SORT = np.uint64(22)
_REST = np.int64(0x7FFF_FFFF_FFFF_FFFF)
_S32 = np.uint64(32)
NULL_VALUE = np.uint64(2**64 - 0x2545F4914F6CDD1D)
MOST_RHS = 24


@inline
def read_words(words: U64, text: U8, keys: U64) -> None:
    """Bring every word to its value's digest and code."""
    for c in range(words.shape[0]):
        state = words[c, STATE]
        if state in (TEXT, BYTES):
            start = np.int64(words[c, UPPER])
            hi, lo = string_digest(text, start, start + np.int64(words[c, LOWER]), keys)
            if state == BYTES:
                hi, lo = extended(_BYTES_SORT, hi, keys, 0), extended(_BYTES_SORT, lo, keys, 1)
            words[c, UPPER] = hi
            words[c, LOWER] = lo
            words[c, CODE] = lo
            words[c, STATE] = KNOWN
        elif state == DOUBLE:
            bits = np.int64(words[c, UPPER])
            rest = bits & _REST
            code = bits ^ _REST if bits < 0 else bits
            if rest > 0x7FF0_0000_0000_0000:
                code = NAN
            elif rest == 0:
                code = np.int64(0)
            words[c, UPPER] = np.uint64(code)
            words[c, LOWER] = np.uint64(code)
            words[c, CODE] = np.uint64(code)
            words[c, STATE] = KNOWN


@inline
def _tuple_of(
    words: U64, columns: I32, first: int, count: int, nulls_equal: bool, keys: U64
) -> tuple[np.uint64, np.uint64, bool]:
    """The digest of some of the values, and whether all of them are known."""
    hi = keys[0, START]
    lo = keys[1, START]
    known = True
    for i in range(first, first + count):
        c = columns[i]
        upper = words[c, UPPER]
        lower = words[c, LOWER]
        if words[c, STATE] == NULL:
            known = nulls_equal
            upper = keys[0, NULL_KEY]
            lower = keys[1, NULL_KEY]
            if not known:
                break
        hi = extended(hi, upper, keys, 0)
        lo = extended(lo, lower, keys, 1)
    return hi, lo, known


@inline
def _find(line: I64, hi: np.uint64, lo: np.uint64) -> np.int64:
    """The number of a key, -1 where it has none."""
    cells = carray(pointer(line[CELLS]), line[CELL_COUNT], np.uint64)
    key_hi = carray(pointer(line[HI]), line[NUMBERS], np.uint64)
    key_lo = carray(pointer(line[LO]), line[NUMBERS], np.uint64)
    return place_of(cells, key_hi, key_lo, hi, lo)[0]


@inline
def _assign(line: I64, hi: np.uint64, lo: np.uint64) -> tuple[np.int64, bool]:
    """The number of a key, and whether it is new."""
    cells = carray(pointer(line[CELLS]), line[CELL_COUNT], np.uint64)
    key_hi = carray(pointer(line[HI]), line[NUMBERS], np.uint64)
    key_lo = carray(pointer(line[LO]), line[NUMBERS], np.uint64)
    number, at = place_of(cells, key_hi, key_lo, hi, lo)
    if number >= 0:
        return number, False
    used = carray(pointer(line[USED]), 1, np.int64)
    number = used[0]
    add_at(cells, key_hi, key_lo, at, number, hi, lo)
    used[0] = number + 1
    return number, True


@inline
def has_room(line: I64, more: int) -> bool:
    """Whether a numbering takes so many more keys."""
    wanted = carray(pointer(line[USED]), 1, np.int64)[0] + more
    return wanted <= line[NUMBERS] and wanted * 4 <= line[CELL_COUNT] * 3


@inline
def _roomy(frame: I64, slot: int) -> bool:
    """Whether every structure has room for a row in this slot."""
    head = frame[0]
    used = carray(pointer(frame[1, USED]), 1, np.int64)[0]
    if slot >= head[SLOTS] or used >= head[KEYS] or not has_room(frame[1], 1):
        return False
    at = 2
    for _ in range(head[GROUPINGS]):
        # as `Grouping.reserve` makes it: two roles may make two groups
        if slot >= frame[at, GROUPED] or not has_room(frame[at], 2 if frame[at, TWO_SIDED] != 0 else 1):
            return False
        at += 1
    for _ in range(head[CHECKS]):
        line = frame[at]
        groups = carray(pointer(frame[line[GROUPING], USED]), 1, np.int64)[0]
        if groups >= line[COUNTED] or slot >= line[PLACED]:
            return False
        if line[SHAPE] >= SINGLE:
            kinds = carray(pointer(line[USED]), 1, np.int64)[0]
            if kinds >= line[KIND_ROWS] or not has_room(line, 1):
                return False
        at += 1
    for _ in range(head[PAIRS]):
        if slot >= frame[at, ROLE_SLOTS]:
            return False
        at += 1
    return True


@inline
def _kind_of(
    line: I64, group: int, columns: I32, words: U64, unasked: int, keys: U64, extra: I32, kinds: I32, values: I64
) -> tuple[int, bool]:
    """The kind of a row of a group (-1: no right-hand value is known), and whether one with unknown values is new."""
    unknown = unasked
    null = 0
    count = line[RIGHT_COUNT]
    lower = keys[1, START]
    for i in range(count):
        c = columns[line[RIGHT_FIRST] + i]
        value = words[c, LOWER]
        if words[c, STATE] == NULL:
            value = np.uint64(0)
            if line[NULL_VALUES] != 0:
                null |= 1 << i
                value = NULL_VALUE
            else:
                unknown |= 1 << i
        if (unknown >> i) & 1 == 1:
            value = np.uint64(0)
        lower = extended(lower, value, keys, 1) if line[SHAPE] == SEVERAL else value
    if unknown == (1 << count) - 1:
        return -1, False
    if line[SHAPE] == SEVERAL:
        lower = extended(lower, np.uint64(null), keys, 1)
    flag = 1 if null != 0 else 0
    upper = np.uint64(group | (unknown << 32) | (flag << (32 + MOST_RHS)))
    kind, new = _assign(line, upper, lower)
    if new:
        kinds[kind, COUNT] = 0
        kinds[kind, GROUP] = group
        kinds[kind, MASK] = unknown
        for i in range(values.shape[0]):
            c = columns[line[RIGHT_FIRST] + i]
            value = words[c, LOWER]
            if words[c, STATE] == NULL:
                value = NULL_VALUE if line[NULL_VALUES] != 0 else np.uint64(0)
            values[i, kind] = np.int64(np.uint64(0) if (unknown >> i) & 1 == 1 else value)
        head = FULL if unknown == 0 else PARTIAL
        kinds[kind, NEXT] = extra[group, head]
        extra[group, head] = kind
    return kind, new and unknown != 0  # type: ignore[return-value]


@inline
def _count(
    line: I64, grouping: I64, old: int, new: int, columns: I32, words: U64, chosen: I64, keys: U64, out: I64
) -> bool:
    """Count a row's old version out of a check and its new one in; returns whether anything but they changed."""
    groups = line[COUNTED]
    core = carray(pointer(line[CORE]), (groups, 2), np.int32)
    pairs = carray(pointer(line[PAIR_COUNTS]), groups, np.int64)
    extra = carray(pointer(line[EXTRA]), (groups, line[EXTRA_WIDTH]), np.int32)
    kinds = carray(pointer(line[KINDS]), (line[KIND_ROWS], 4), np.int32)
    values = carray(pointer(line[VALUES]), (line[VALUE_ROWS], line[VALUE_STRIDE]), np.int64)
    row_kind = carray(pointer(line[ROW_KIND]), line[PLACED], np.int32)
    totals = carray(pointer(line[TOTALS]), 3, np.int64)
    a = row_kind[old] if old >= 0 else -1
    b = -1
    partial = False
    if new >= 0:
        b = carray(pointer(grouping[T_GROUPS]), grouping[GROUPED], np.int32)[new]
        if line[SHAPE] != ALIASED:
            if b >= 0 and chosen[0] == 0:
                b = -1
            if b >= 0 and line[SHAPE] >= SINGLE:
                b, partial = _kind_of(line, b, columns, words, chosen[1], keys, extra, kinds, values)
            row_kind[new] = b
    sum_before = totals[0] + totals[1] + totals[2]
    out[LOST] = change(core, pairs, extra, kinds, values, a, -1, totals) if a >= 0 else 0
    sum_between = totals[0] + totals[1] + totals[2]
    out[KEPT] = kept_of(core, extra, kinds, values, a, b)
    out[WON] = change(core, pairs, extra, kinds, values, b, 1, totals) if b >= 0 else 0
    out[NEW_PARTIAL] = partial
    after = totals[0] + totals[1] + totals[2]
    return partial or out[LOST] != 0 or out[WON] != 0 or sum_before != sum_between or after != sum_between


@inline
def _able(words: U64, columns: I32, first: int, count: int) -> bool:
    """Whether all of some values are known."""
    for i in range(first, first + count):
        if words[columns[i], STATE] == NULL:
            return False
    return True


@kernel
def find_row(frame: I64, key: I32, words: U64, text: U8, keys: U64) -> int:
    """The slot of the row whose key these words have, -1 where there is none. Complexity: O(columns)."""
    read_words(words, text, keys)
    hi, lo, _ = _tuple_of(words, key, 0, key.size, False, keys)
    number = _find(frame[1], hi, lo)
    return carray(pointer(frame[0, CURRENT]), frame[0, KEYS], np.int32)[number] if number >= 0 else -1


@kernel
def change_row(
    frame: I64, columns: I32, words: U64, text: U8, chosen: I64, keys: U64, first: int, op: int, out: I64
) -> int:
    """Let a row into slot `first`, its former version out, and count what that does to every key and FD.

    `chosen[check]` says whether the row is one of those that a check looks at (of a two-row check: as t, as s), and
    which right-hand values it is not asked for. Unless the answer is DONE nothing changed. `detect/one_row.py` makes
    the frame. Complexity: O(columns and checks), times the kinds of a group where values are unknown.
    """
    head = frame[0]
    read_words(words, text, keys)
    hi, lo, _ = _tuple_of(words, columns, head[KEY_FIRST], head[KEY_COUNT], False, keys)
    number = _find(frame[1], hi, lo)
    current = carray(pointer(head[CURRENT]), head[KEYS], np.int32)
    old = int(current[number]) if number >= 0 else -1
    out[0, OLD] = old
    out[0, NEW] = -1
    out[0, TOUCHED] = 0
    if (old >= 0 and op == INSERT) or (old < 0 and op in (UPDATE, DELETE)):
        return CLASH
    if op != DELETE and not _roomy(frame, first):
        return FULL_UP
    alive = carray(pointer(head[ALIVE]), head[SLOTS], np.uint8)
    if old >= 0:
        alive[old] = 0
        current[number] = -1
    new = -1
    at = 2
    if op != DELETE:
        new = first
        out[0, NEW] = new
        alive[new] = 1
        codes = carray(pointer(head[CODES]), (head[CODE_COUNT], head[CODE_STRIDE]), np.int64)
        for i in range(head[CODE_COUNT]):
            codes[i, new] = np.int64(words[columns[head[CODE_FIRST] + i], CODE])
        if number < 0:
            number, _ = _assign(frame[1], hi, lo)
        current[number] = new
        for g in range(at, at + head[GROUPINGS]):
            line = frame[g]
            hi, lo, known = _tuple_of(words, columns, line[T_FIRST], line[T_COUNT], line[NULLS_EQUAL] != 0, keys)
            carray(pointer(line[T_GROUPS]), line[GROUPED], np.int32)[new] = _assign(line, hi, lo)[0] if known else -1
            if line[TWO_SIDED] != 0:
                hi, lo, known = _tuple_of(words, columns, line[S_FIRST], line[S_COUNT], False, keys)
                group = _assign(line, hi, lo)[0] if known else -1
                carray(pointer(line[S_GROUPS]), line[GROUPED], np.int32)[new] = group
    at += head[GROUPINGS]
    touched = 0
    for check in range(head[CHECKS]):
        line = frame[at + check]
        if _count(line, frame[line[GROUPING]], old, new, columns, words, chosen[check], keys, out[touched + 1]):
            touched += 1
            out[touched, CHECK] = check
    out[0, TOUCHED] = touched
    at += head[CHECKS]
    if new >= 0:
        for pair in range(head[PAIRS]):
            line = frame[at + pair]
            member = chosen[head[CHECKS] + pair]
            grouping = frame[line[OF_GROUPING]]
            t = carray(pointer(grouping[T_GROUPS]), grouping[GROUPED], np.int32)[new] >= 0
            t = t and member[0] != 0 and _able(words, columns, line[AS_T_FIRST], line[AS_T_COUNT])
            s = t
            if line[TWO_ROLES] != 0:
                s = carray(pointer(grouping[S_GROUPS]), grouping[GROUPED], np.int32)[new] >= 0
                s = s and member[1] != 0 and _able(words, columns, line[AS_S_FIRST], line[AS_S_COUNT])
            roles = carray(pointer(line[ROLES]), line[ROLE_SLOTS], np.uint8)
            roles[new] = (1 if t else 0) | (2 if s else 0)
    return DONE
