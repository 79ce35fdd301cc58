"""Rows as what one left side compares: its key, where the row is, and what may depend on it, as words.

Columns of words, a row each: `KEY` and the one after it are the left side, exact for up to two lanes and else a digest;
`PLACE` says which row it is, `COUNT` how many rows it stands for, `TOGETHER` is one digest of all right sides that are
never unknown. Behind it are a right side each that may be unknown, after the bits (`GAPS`) that say which are.

Where all rows of a group have equal words, each right side depends on the left side.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from holdstrue.kernels.digest import FIRST, SECOND, START, extended, keyed, mix
from holdstrue.kernels.hashing import hashed
from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I32, I64, U64, Mask

KEY, LOWER, PLACE, COUNT, TOGETHER, GAPS, APART = range(7)
"""Words of a row; those from `GAPS` on only where right sides may be unknown."""

SUPPORT, GATHERED, DISTINCT, KNOWN, MOST, VALUED = range(6)
"""What is counted of a left side: rows that have a partner, their groups, all groups and rows, rows of the largest
group, and whether some value is none that stands for NULL."""

Shape: TypeAlias = tuple[I64, I64, I64, I64]
"""Lanes and columns of a left side, lanes of its right sides that are never unknown, and of each other right side its
column and its lanes, -1 where it has one."""

_CHOICE = np.uint64(0x5851F42D4C957F2D)
"""Whatever chooses a part of the groups has nothing to do with what chooses their place."""
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@kernel
def written(
    lanes: U64, known: Mask, shape: Shape, keys: U64, part: int, first: int, start: int, out: U64, used: int
) -> tuple[int, int]:
    """Write the rows from `start` on that know the left side, behind the `used` ones; stops where `out` is full.

    Of the groups one in `part` is written; `first` is the place of the first row. Returns the row to go on with, and
    how many rows are written by now. Complexity: O(rows x lanes).

    Examples
    --------
    Rows 1, 1, NULL of a left side and 7, 8, 9 of a right side: two rows of one group that differ.

    >>> lanes = np.array([[1, 1, 0], [7, 8, 9]], dtype=np.uint64)
    >>> known = np.array([[True, True, False], [True, True, True]])
    >>> shape = tuple(np.array(own, dtype=np.int64) for own in ([0], [0], [1])) + (np.empty((0, 3), dtype=np.int64),)
    >>> keys, out = np.arange(3, 27, 2, dtype=np.uint64).reshape(2, 6), np.zeros((5, 4), dtype=np.uint64)
    >>> written(lanes, known, shape, keys, 1, 100, 0, out, 0), out[KEY, :2].tolist(), out[PLACE, :2].tolist()
    ((3, 2), [1, 1], [100, 101])
    >>> bool(out[TOGETHER, 0] == out[TOGETHER, 1])
    False
    """
    left, columns, together, apart = shape
    room = out.shape[1]
    for i in range(start, lanes.shape[1]):
        if used == room:
            return i, used
        is_known = True
        for c in columns:
            is_known = is_known and known[c, i]
        if not is_known:
            continue
        a = _ZERO
        b = _ZERO
        if left.size <= 2:
            if left.size > 0:
                a = lanes[left[0], i]
            if left.size > 1:
                b = lanes[left[1], i]
        else:
            a = keys[0, START]
            b = keys[1, START]
            for lane in left:
                a = extended(a, lanes[lane, i], keys, 0)
                b = extended(b, lanes[lane, i], keys, 1)
        if part > 1 and mix(hashed(a, b) ^ _CHOICE) % np.uint64(part) != _ZERO:
            continue
        out[KEY, used] = a
        out[LOWER, used] = b
        out[PLACE, used] = np.uint64(first + i)
        out[COUNT, used] = _ONE
        word = keys[0, START]
        for lane in together:
            word = extended(word, lanes[lane, i], keys, 0)
        out[TOGETHER, used] = word
        if apart.shape[0] > 0:
            gaps = _ZERO
            for k in range(apart.shape[0]):
                if known[apart[k, 0], i]:
                    own = keyed(lanes[apart[k, 1], i], keys[0, FIRST], keys[0, SECOND])
                    if apart[k, 2] >= 0:
                        own = extended(own, lanes[apart[k, 2], i], keys, 0)
                    out[APART + k, used] = own
                else:
                    gaps |= _ONE << np.uint64(k)
                    out[APART + k, used] = _ZERO
            out[GAPS, used] = gaps
        used += 1
    return lanes.shape[1], used


@inline
def _same(rows: U64, i: int, j: int) -> bool:
    """Whether two rows have equal words, but for where they are and how many they stand for."""
    if rows[KEY, i] != rows[KEY, j] or rows[LOWER, i] != rows[LOWER, j]:
        return False
    for word in range(TOGETHER, rows.shape[0]):
        if rows[word, i] != rows[word, j]:
            return False
    return True


@kernel
def joined(rows: U64, used: int, cells: I32) -> int:
    """Let one of several equal rows stand for them; returns how many are left, which come first.

    `cells` are zero, and twice as many as rows or more, a power of two. Complexity: O(rows x words) expected.

    Examples
    --------
    >>> rows = np.array([[1, 2, 1], [0, 0, 0], [100, 101, 102], [1, 1, 1], [7, 7, 7]], dtype=np.uint64)
    >>> joined(rows, 3, np.zeros(8, dtype=np.int32)), rows[:, :2].tolist()
    (2, [[1, 2], [0, 0], [100, 101], [2, 1], [7, 7]])
    """
    mask = np.uint64(cells.size - 1)
    left = 0
    for i in range(used):
        word = rows[TOGETHER, i]
        for more in range(APART, rows.shape[0]):
            word = mix(word) ^ rows[more, i]
        at = np.int64(hashed(rows[KEY, i], rows[LOWER, i] ^ mix(word)) & mask)
        while cells[at] != 0 and not _same(rows, i, cells[at] - 1):
            at = np.int64(np.uint64(at + 1) & mask)
        if cells[at] != 0:
            rows[COUNT, cells[at] - 1] += rows[COUNT, i]
            continue
        for own in range(rows.shape[0]):
            rows[own, left] = rows[own, i]
        left += 1
        cells[at] = left
    return left


@kernel
def merged(rows: U64, used: int, cells: I32, targets: int) -> int:
    """Let one row stand for each group; returns how many are left, which come first.

    Of each right side apart the first known word is kept, and `TOGETHER` has a bit where another word was met. Words
    behind those of the right sides, where there are any, are added up. `cells` as for `joined`.
    Complexity: O(rows x words) expected.

    Examples
    --------
    Three rows of a group, of which the first lacks its right side and the others differ in it.

    >>> rows = np.array([[1, 1, 1], [0, 0, 0], [5, 5, 5], [1, 1, 1], [0, 0, 0], [1, 0, 0], [0, 8, 9]], dtype=np.uint64)
    >>> merged(rows, 3, np.zeros(8, dtype=np.int32), 1), rows[:, 0].tolist()
    (1, [1, 0, 5, 3, 1, 0, 8])
    """
    mask = np.uint64(cells.size - 1)
    left = 0
    for i in range(used):
        a = rows[KEY, i]
        b = rows[LOWER, i]
        at = np.int64((hashed(a, b) >> np.uint64(20)) & mask)
        while cells[at] != 0 and (rows[KEY, cells[at] - 1] != a or rows[LOWER, cells[at] - 1] != b):
            at = np.int64(np.uint64(at + 1) & mask)
        if cells[at] == 0:
            for own in range(rows.shape[0]):
                rows[own, left] = rows[own, i]
            left += 1
            cells[at] = left
            continue
        j = cells[at] - 1
        rows[COUNT, j] += rows[COUNT, i]
        broken = rows[TOGETHER, j] | rows[TOGETHER, i]
        gaps = rows[GAPS, j]
        for target in range(targets):
            bit = _ONE << np.uint64(target)
            if rows[GAPS, i] & bit != _ZERO:
                continue
            if gaps & bit != _ZERO:
                rows[APART + target, j] = rows[APART + target, i]
                gaps ^= bit
            elif rows[APART + target, j] != rows[APART + target, i]:
                broken |= bit
        rows[TOGETHER, j] = broken
        rows[GAPS, j] = gaps
        for own in range(APART + targets, rows.shape[0]):
            rows[own, j] += rows[own, i]
    return left


@kernel
def dealt(rows: U64, used: int, starts: I64, out: U64) -> None:
    """Sort rows by the part that their group belongs to: part p is `out[:, starts[p]:starts[p + 1]]`.

    Complexity: O(rows x words + parts).

    Examples
    --------
    >>> rows = np.array([[5, 6, 5], [0, 0, 0], [0, 1, 2], [1, 1, 1], [0, 0, 0]], dtype=np.uint64)
    >>> starts, out = np.zeros(3, dtype=np.int64), np.zeros((5, 3), dtype=np.uint64)
    >>> dealt(rows, 3, starts, out)
    >>> sorted(out[PLACE].tolist()), int(starts[-1])
    ([0, 1, 2], 3)
    """
    parts = np.uint64(starts.size - 1)
    starts[:] = 0
    for i in range(used):
        starts[np.int64(hashed(rows[KEY, i], rows[LOWER, i]) % parts) + 1] += 1
    for p in range(1, starts.size):
        starts[p] += starts[p - 1]
    for i in range(used):
        part = np.int64(hashed(rows[KEY, i], rows[LOWER, i]) % parts)
        at = starts[part]
        starts[part] += 1
        for own in range(rows.shape[0]):
            out[own, at] = rows[own, i]
    for p in range(starts.size - 1, 0, -1):
        starts[p] = starts[p - 1]
    starts[0] = 0


@kernel
def grouped(rows: U64, cells: I32, groups: I32, firsts: I32) -> int:
    """Number rows by their group, and say which comes first in each; returns how many groups there are.

    `cells` as for `joined`. Complexity: O(rows) expected.

    Examples
    --------
    >>> rows, groups, firsts = np.array([[5, 6, 5], [0, 0, 0]], dtype=np.uint64), *np.zeros((2, 3), dtype=np.int32)
    >>> grouped(rows, np.zeros(8, dtype=np.int32), groups, firsts), groups.tolist(), firsts[:2].tolist()
    (2, [0, 1, 0], [0, 1])
    """
    mask = np.uint64(cells.size - 1)
    made = 0
    for i in range(rows.shape[1]):
        a = rows[KEY, i]
        b = rows[LOWER, i]
        # the lower bits chose the part
        at = np.int64((hashed(a, b) >> np.uint64(20)) & mask)
        while cells[at] != 0 and (rows[KEY, firsts[cells[at] - 1]] != a or rows[LOWER, firsts[cells[at] - 1]] != b):
            at = np.int64(np.uint64(at + 1) & mask)
        if cells[at] == 0:
            firsts[made] = i
            made += 1
            cells[at] = made
        groups[i] = cells[at] - 1
    return made


@kernel
def tallied(rows: U64, groups: I32, firsts: I32, made: int, facts: I64) -> None:
    """Count the groups of a left side; `facts` are numbered from `SUPPORT` on. Complexity: O(rows).

    Examples
    --------
    >>> rows = np.array([[5, 6, 5], [0, 0, 0], [0, 1, 2], [1, 3, 4], [7, 8, 7]], dtype=np.uint64)
    >>> facts = np.zeros(6, dtype=np.int64)
    >>> tallied(rows, np.array([0, 1, 0], np.int32), np.array([0, 1], np.int32), 2, facts)
    >>> facts.tolist()
    [8, 2, 2, 8, 5, 1]
    """
    sizes = np.zeros(made, dtype=np.int64)
    for i in range(rows.shape[1]):
        sizes[groups[i]] += np.int64(rows[COUNT, i])
    for g in range(made):
        size = sizes[g]
        if size > 1:
            facts[SUPPORT] += size
            facts[GATHERED] += 1
        facts[DISTINCT] += 1
        facts[KNOWN] += size
        facts[MOST] = max(facts[MOST], size)
        if not (rows[KEY, firsts[g]] == _ZERO and rows[LOWER, firsts[g]] == _ONE):
            facts[VALUED] = 1


@kernel
def broken_pairs(rows: U64, groups: I32, made: int, word: int, pairs: U64) -> int:
    """Places of two rows of some groups that differ in a word, a pair a group; returns how many were found.

    `word` is `TOGETHER`, one from `APART` on, or `PLACE`: any two rows of a group. Complexity: O(rows).

    Examples
    --------
    >>> rows = np.array([[5, 6, 5], [0, 0, 0], [10, 11, 12], [1, 1, 1], [7, 8, 9]], dtype=np.uint64)
    >>> pairs = np.zeros((4, 2), dtype=np.uint64)
    >>> broken_pairs(rows, np.array([0, 1, 0], np.int32), 2, TOGETHER, pairs), pairs[0].tolist()
    (1, [10, 12])
    """
    seen = np.full(made, -1, dtype=np.int32)
    found = 0
    for i in range(rows.shape[1]):
        if found == pairs.shape[0]:
            break
        if word >= APART and (rows[GAPS, i] >> np.uint64(word - APART)) & _ONE != _ZERO:
            continue
        g = groups[i]
        if seen[g] == -1:
            seen[g] = i
        elif seen[g] >= 0 and rows[word, seen[g]] != rows[word, i]:
            pairs[found, 0] = rows[PLACE, seen[g]]
            pairs[found, 1] = rows[PLACE, i]
            found += 1
            seen[g] = -2
    return found


@kernel
def commonest(rows: U64, groups: I32, facts: I64) -> None:
    """Of each group the rows that lack its commonest right side, all rows, and that right side: the lines of `facts`.

    Each row stands for all of its group with its right side. Complexity: O(rows).

    Examples
    --------
    >>> rows = np.array([[5, 6, 5], [0, 0, 0], [0, 1, 2], [1, 3, 4], [7, 8, 9]], dtype=np.uint64)
    >>> facts = np.zeros((3, 2), dtype=np.int64)
    >>> commonest(rows, np.array([0, 1, 0], dtype=np.int32), facts)
    >>> facts.tolist()
    [[1, 0], [5, 3], [9, 8]]
    """
    most = np.zeros(facts.shape[1], dtype=np.int64)
    for i in range(rows.shape[1]):
        g = groups[i]
        count = np.int64(rows[COUNT, i])
        facts[1, g] += count
        if count > most[g]:
            most[g] = count
            facts[2, g] = np.int64(rows[TOGETHER, i])
    for g in range(most.size):
        facts[0, g] = facts[1, g] - most[g]
