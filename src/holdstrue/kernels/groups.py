"""Counters of functional dependencies: per group of equal left sides, how often each right side occurs.

A row's right side is a *kind*: a number that stands for (group, right-hand values). Kinds whose
values are all known are full; a kind with an unknown value (NULL, or not asked for by the row's
pattern) is partial. Two kinds of one group conflict when some value is known in both and differs:
full kinds always conflict, only partial ones must be compared value by value.

The counters are five arrays:

- `core[group]`: N rows, D distinct full kinds in use
- `pairs[group]`: conflicting pairs
- `extra[group]`: FULL and PARTIAL heads of the two lists of kinds, P partial kinds in use, ROWS in
  conflict; only FULL when a rule has a single right-hand column, where nothing is partial
- `kinds[kind]`: GROUP, COUNT, NEXT in its list, MASK of unknown values
- `values[i, kind]`: the i-th right-hand value; no lines when there is a single one

For a key every two rows of a group conflict: `kinds` is empty then, and a row's kind is its group.
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I32, I64, U8

N, D = range(2)
FULL, PARTIAL, P, ROWS = range(4)
GROUP, COUNT, NEXT, MASK = range(4)
PAIRS_TOTAL, ROWS_TOTAL, GROUPS_TOTAL = range(3)


@inline
def group_of(kinds: I32, kind: int) -> int:
    """The group a kind belongs to."""
    return kind if kinds.shape[0] == 0 else kinds[kind, GROUP]


@inline
def kinds_conflict(kinds: I32, values: I64, a: int, b: int) -> bool:
    """Whether two distinct rows of these kinds, of one group, differ in a value that both know."""
    if kinds.shape[0] == 0:
        return True
    if a == b:
        return False
    unknown = kinds[a, MASK] | kinds[b, MASK]
    if unknown == 0:
        return True
    for i in range(values.shape[0]):
        if (unknown >> i) & 1 == 0 and values[i, a] != values[i, b]:
            return True
    return False


@inline
def conflicts(core: I32, extra: I32, kinds: I32, values: I64, kind: int) -> int:
    """Rows that conflict with one of this kind, which is counted. Complexity: O(1), O(kinds) with unknown values."""
    if kinds.shape[0] == 0:
        return core[kind, N] - 1
    group = kinds[kind, GROUP]
    if values.shape[0] == 0 or (extra[group, P] == 0 and kinds[kind, MASK] == 0):
        return core[group, N] - kinds[kind, COUNT]
    total = 0
    for head in (FULL, PARTIAL):
        other = extra[group, head]
        while other >= 0:
            if kinds[other, COUNT] > 0 and kinds_conflict(kinds, values, kind, other):
                total += kinds[other, COUNT]
            other = kinds[other, NEXT]
    return total


@inline
def _rows_in_conflict(core: I32, pairs: I64, extra: I32, kinds: I32, values: I64, group: int) -> int:
    """Rows of the group with a conflict. Complexity: O(1), O(partial kinds * kinds) where values are unknown."""
    if pairs[group] == 0:
        return 0
    if values.shape[0] == 0 or extra[group, P] == 0:
        return core[group, N]
    total = 0
    for head in (FULL, PARTIAL):
        kind = extra[group, head]
        while kind >= 0:
            if kinds[kind, COUNT] > 0:
                surely = head == FULL and core[group, D] > 1
                if surely or conflicts(core, extra, kinds, values, kind) > 0:
                    total += kinds[kind, COUNT]
            kind = kinds[kind, NEXT]
    return total


@inline
def change(core: I32, pairs: I64, extra: I32, kinds: I32, values: I64, kind: int, step: int, totals: I64) -> int:
    """Count one row of `kind` in (+1) or out (-1) and bring the totals along; returns its conflicts."""
    group = group_of(kinds, kind)
    before = pairs[group]
    simple = values.shape[0] == 0
    if simple:
        rows_before = core[group, N] if before > 0 else 0
    else:
        rows_before = extra[group, ROWS]
    if step < 0:
        found = conflicts(core, extra, kinds, values, kind)
    core[group, N] += step
    if kinds.shape[0] > 0:
        kinds[kind, COUNT] += step
        if kinds[kind, COUNT] == (1 if step > 0 else 0):
            if kinds[kind, MASK] == 0:
                core[group, D] += step
            else:
                extra[group, P] += step
    if step > 0:
        found = conflicts(core, extra, kinds, values, kind)
    after = before + step * found
    pairs[group] = after
    if before > 0 or after > 0:
        rows = _rows_in_conflict(core, pairs, extra, kinds, values, group)
        totals[PAIRS_TOTAL] += after - before
        totals[ROWS_TOTAL] += rows - rows_before
        totals[GROUPS_TOTAL] += (1 if after > 0 else 0) - (1 if before > 0 else 0)
        if not simple:
            extra[group, ROWS] = rows
    return found


@kernel
def enlist_kinds(extra: I32, kinds: I32, first: int, end: int) -> None:
    """Put new kinds into their group's list of full or partial kinds. Complexity: O(end - first)."""
    for kind in range(first, end):
        head = FULL if kinds[kind, MASK] == 0 else PARTIAL
        group = kinds[kind, GROUP]
        kinds[kind, NEXT] = extra[group, head]
        extra[group, head] = kind


@kernel
def load_rows(core: I32, pairs: I64, extra: I32, kinds: I32, values: I64, rows: I32, totals: I64) -> None:
    """Count rows into empty counters, where no kind is partial. Complexity: O(rows + kinds + groups).

    Examples
    --------
    zip -> city on five rows: (10, NY), (10, NY), (10, LA), (20, SF), (20, SF). Kinds 0 and 1 are the two cities of
    group 0, kind 2 is the city of group 1. Each of the two rows with NY conflicts with the one with LA.

    >>> core, pairs, extra = np.zeros((2, 2), np.int32), np.zeros(2, np.int64), np.full((2, 1), -1, np.int32)
    >>> kinds, values, totals = np.zeros((3, 4), np.int32), np.zeros((0, 3), np.int64), np.zeros(3, np.int64)
    >>> kinds[:, GROUP] = 0, 0, 1
    >>> load_rows(core, pairs, extra, kinds, values, np.array([0, 0, 1, 2, 2], np.int32), totals)
    >>> core[:, N].tolist(), core[:, D].tolist(), pairs.tolist()
    ([3, 2], [2, 1], [2, 0])
    >>> dict(pairs=int(totals[PAIRS_TOTAL]), rows=int(totals[ROWS_TOTAL]), groups=int(totals[GROUPS_TOTAL]))
    {'pairs': 2, 'rows': 3, 'groups': 1}
    """
    if kinds.shape[0] == 0:
        for i in range(rows.size):
            if rows[i] >= 0:
                core[rows[i], N] += 1
        for group in range(core.shape[0]):
            n = np.int64(core[group, N])
            pairs[group] = n * (n - 1) // 2
    else:
        for i in range(rows.size):
            if rows[i] >= 0:
                kinds[rows[i], COUNT] += 1
        for kind in range(kinds.shape[0]):
            count = np.int64(kinds[kind, COUNT])
            if count > 0:
                group = kinds[kind, GROUP]
                # pairs with the kinds counted before
                pairs[group] += count * core[group, N]
                core[group, N] += count
                core[group, D] += 1
    for group in range(core.shape[0]):
        if pairs[group] > 0:
            totals[PAIRS_TOTAL] += pairs[group]
            totals[ROWS_TOTAL] += core[group, N]
            totals[GROUPS_TOTAL] += 1
            if values.shape[0] > 0:
                extra[group, ROWS] = core[group, N]


@kernel
def add_rows(core: I32, pairs: I64, extra: I32, kinds: I32, values: I64, rows: I32, totals: I64, found: I64) -> int:
    """Count rows in, given their kinds (-1: not a member); `found[i]` gets the conflicts with rows before it.

    Returns their sum. Complexity: O(rows), times the kinds of a group where values are unknown.
    """
    added = 0
    for i in range(rows.size):
        found[i] = change(core, pairs, extra, kinds, values, rows[i], 1, totals) if rows[i] >= 0 else 0
        added += found[i]
    return added


@kernel
def remove_rows(core: I32, pairs: I64, extra: I32, kinds: I32, values: I64, rows: I32, totals: I64, found: I64) -> int:
    """Count rows out again; `found[i]` gets the conflicts with the rows that are left or go after it.

    Returns their sum. Complexity: as `add_rows`.
    """
    removed = 0
    for i in range(rows.size):
        found[i] = change(core, pairs, extra, kinds, values, rows[i], -1, totals) if rows[i] >= 0 else 0
        removed += found[i]
    return removed


@inline
def kept_of(core: I32, extra: I32, kinds: I32, values: I64, a: int, b: int) -> int:
    """Conflicts with unchanged rows that a row has before and after it goes from kind `a` to kind `b`."""
    if a < 0 or b < 0 or group_of(kinds, a) != group_of(kinds, b):
        return 0
    group = group_of(kinds, a)
    if kinds.shape[0] == 0:
        return core[group, N]
    if values.shape[0] == 0 or (extra[group, P] == 0 and kinds[a, MASK] == 0 and kinds[b, MASK] == 0):
        return core[group, N] - kinds[a, COUNT] - (kinds[b, COUNT] if a != b else 0)
    kept = 0
    for head in (FULL, PARTIAL):
        other = extra[group, head]
        while other >= 0:
            if (
                kinds[other, COUNT] > 0
                and kinds_conflict(kinds, values, a, other)
                and kinds_conflict(kinds, values, b, other)
            ):
                kept += kinds[other, COUNT]
            other = kinds[other, NEXT]
    return kept


@inline
def cleared(core: I32, pairs: I64, extra: I32, kinds: I32, groups: int, used: int, totals: I64) -> None:
    """Counters of so many groups and kinds as if there were no rows: groups and kinds stay known. O(groups + kinds)."""
    for group in range(groups):
        core[group, N] = 0
        core[group, D] = 0
        pairs[group] = 0
    if kinds.shape[0] > 0:
        for kind in range(used):
            kinds[kind, COUNT] = 0
        if extra.shape[1] > P:
            for group in range(groups):
                extra[group, P] = 0
                extra[group, ROWS] = 0
    for i in range(totals.size):
        totals[i] = 0


@kernel
def count_anew(
    core: I32,
    pairs: I64,
    extra: I32,
    kinds: I32,
    values: I64,
    row_kind: I32,
    alive: U8,
    groups: int,
    used: int,
    totals: I64,
    old: I32,
    lost: I64,
) -> int:
    """Count those of the rows by slot that are alive, instead of counting old ones out.

    `old` are the kinds of the old rows; `lost[i]` says whether the i-th is in a group with conflicts. Returns how many
    conflicts went. Complexity: O(rows + groups + kinds), times the kinds of a group where values are unknown.

    Examples
    --------
    A key, of which rows 0, 1 and 2 are in one group and row 3 alone in another; row 1 goes, and takes two along:

    >>> core, pairs, totals = np.array([[3, 0], [1, 0]], np.int32), np.array([3, 0]), np.array([3, 3, 1])
    >>> none, values, lost = np.zeros((1, 1), np.int32), np.zeros((0, 1), np.int64), np.zeros(1, np.int64)
    >>> group, alive = np.array([0, 0, 0, 1], np.int32), np.array([1, 0, 1, 1], np.uint8)
    >>> old = np.array([0], np.int32)
    >>> count_anew(core, pairs, none, none[:0], values, group, alive, 2, 0, totals, old, lost)
    2
    >>> core[:, N].tolist(), pairs.tolist(), totals.tolist(), lost.tolist()
    ([2, 1], [1, 0], [1, 2, 1], [1])
    """
    before = totals[PAIRS_TOTAL]
    for i in range(old.size):
        lost[i] = 1 if before > 0 and old[i] >= 0 and pairs[group_of(kinds, old[i])] > 0 else 0
    cleared(core, pairs, extra, kinds, groups, used, totals)
    for slot in range(row_kind.size):
        if alive[slot] != 0 and row_kind[slot] >= 0:
            change(core, pairs, extra, kinds, values, row_kind[slot], 1, totals)
    return before - totals[PAIRS_TOTAL]


@kernel
def kept_with_unchanged(core: I32, extra: I32, kinds: I32, values: I64, old: I32, new: I32) -> int:
    """Pairs of an updated and an unchanged row that conflict before and after the update.

    Called between `remove_rows` and `add_rows`, when the counters hold the unchanged rows alone.
    Complexity: O(updates), times the kinds of a group where values are unknown.
    """
    kept = 0
    for i in range(old.size):
        kept += kept_of(core, extra, kinds, values, old[i], new[i])
    return kept


@kernel
def kept_between_updated(kinds: I32, values: I64, old: I64, new: I64, move: I64) -> int:
    """Pairs of two updated rows that conflict before and after; `move`, ascending, is where from and where to.

    Complexity: O(sum over moves of updated rows squared); only for rules with several right-hand columns.
    """
    kept = 0
    for i in range(old.size):
        for j in range(i + 1, old.size):
            if move[i] != move[j]:
                break
            if kinds_conflict(kinds, values, old[i], old[j]) and kinds_conflict(kinds, values, new[i], new[j]):
                kept += 1
    return kept


@kernel
def chain_rows(kinds: I32, first: int, head: I32, following: I32) -> None:
    """Put rows `first, first + 1, ...` at the front of their kind's list (-1: none). Complexity: O(rows)."""
    for i in range(kinds.size):
        kind = kinds[i]
        if kind >= 0:
            following[first + i] = head[kind]
            head[kind] = first + i


@kernel
def list_conflicts(
    extra: I32,
    kinds: I32,
    values: I64,
    row_kind: I32,
    head: I32,
    following: I32,
    seeds: I32,
    found: I64,
    twins: I32,
    image: U8,
    twin: I32,
    backwards: bool,
    once: bool,
    out: I32,
) -> int:
    """List the pairs of seeds with rows of one image of the table (before or after a batch).

    `image[slot]` is 1 for rows in the image that are not seeds, 2 for seeds, 0 for others; seeds
    ascend, and of two seeds the later lists the pair when `backwards`, else the earlier. With `once`
    a seed lists only pairs with later rows (every row in conflict is a seed then). Seeds with
    `found[i] == 0` have no pairs. A row's twin is its version in the other image (itself when
    unchanged, -1 when it has none); `twin` is by slot and read for seeds only. Pairs that conflict
    in the other image too are left out. Returns the pairs written, at most what `out` holds.
    Complexity: O(pairs and removed rows met).
    """
    size = 0
    for i in range(seeds.size):
        if found[i] == 0:
            continue
        seed = seeds[i]
        kind = row_kind[seed]
        unique = kinds.shape[0] == 0
        lists = 1 if unique or values.shape[0] == 0 else 2
        for which in range(lists):
            other = kind if unique else extra[kinds[kind, GROUP], which]
            while other >= 0:
                row = head[other] if kinds_conflict(kinds, values, kind, other) else -1
                while row >= 0:
                    here = image[row]
                    if (here == 1 and (row > seed or not once)) or (
                        here == 2 and row != seed and (row < seed) == backwards
                    ):
                        a = twins[i]
                        b = row if here == 1 else twin[row]
                        still = False
                        if a >= 0 and b >= 0 and row_kind[a] >= 0 and row_kind[b] >= 0:
                            if group_of(kinds, row_kind[a]) == group_of(kinds, row_kind[b]):
                                still = kinds_conflict(kinds, values, row_kind[a], row_kind[b])
                        if not still:
                            if size == out.shape[0]:
                                return size
                            out[size, 0] = seed
                            out[size, 1] = row
                            size += 1
                    row = following[row]
                other = -1 if unique else kinds[other, NEXT]
    return size


@kernel
def count_conflicts(core: I32, extra: I32, kinds: I32, values: I64, rows: I32, out: I64) -> None:
    """How many rows each row conflicts with, given the rows' kinds (-1: none). Complexity: as `conflicts`."""
    for i in range(rows.size):
        out[i] = conflicts(core, extra, kinds, values, rows[i]) if rows[i] >= 0 else 0


@kernel
def misfit(
    core: I32, pairs: I64, extra: I32, kinds: I32, values: I64, counted: I32, used: int, groups: int, totals: I64
) -> int:
    """What of the counters does not follow from the rows of each kind, which are `counted`; -1 when all of it does.

    The answer is the number of the first group or kind that is wrong. What partial kinds conflict with is not
    counted again: it is only looked whether it can be. Complexity: O(kinds + groups).
    """
    size = np.zeros((0 if kinds.shape[0] == 0 else groups, 3), dtype=np.int32)
    found = np.zeros(size.shape[0], dtype=np.int64)
    partial = values.shape[0] > 0
    known = 0 if kinds.shape[0] == 0 else used
    for kind in range(known):
        group = kinds[kind, GROUP]
        if group < 0 or group >= groups or kinds[kind, COUNT] != counted[kind]:
            return kind
        if kinds[kind, MASK] < 0 or kinds[kind, MASK] >= (1 << values.shape[0] if partial else 1):
            return kind
        if counted[kind] > 0:
            found[group] += np.int64(counted[kind]) * size[group, N]
            size[group, N] += counted[kind]
            size[group, 1 if kinds[kind, MASK] == 0 else 2] += 1
    totals[:] = 0
    for group in range(groups):
        rows = np.int64(counted[group] if kinds.shape[0] == 0 else size[group, N])
        sure = rows * (rows - 1) // 2
        open_ = False
        if kinds.shape[0] > 0:
            open_ = size[group, 2] > 0
            sure = sure if open_ else found[group]
            if core[group, D] != size[group, 1] or (partial and extra[group, P] != size[group, 2]):
                return group
        if core[group, N] != rows or pairs[group] < 0 or (pairs[group] > sure if open_ else pairs[group] != sure):
            return group
        conflicting = rows if pairs[group] > 0 else 0
        if partial:
            if extra[group, ROWS] > conflicting or (extra[group, ROWS] < conflicting and not open_):
                return group
            conflicting = extra[group, ROWS]
            if conflicting < 0:
                return group
        totals[PAIRS_TOTAL] += pairs[group]
        totals[ROWS_TOTAL] += conflicting
        totals[GROUPS_TOTAL] += pairs[group] > 0
    return -1


@kernel
def rows_of(groups: I32, extra: I32, kinds: I32, values: I64, head: I32, following: I32, alive: U8, out: I32) -> int:
    """Collect the living rows of some groups; returns how many. Complexity: O(rows and removed rows met)."""
    size = 0
    unique = kinds.shape[0] == 0
    lists = 1 if unique or values.shape[0] == 0 else 2
    for i in range(groups.size):
        for which in range(lists):
            kind = groups[i] if unique else extra[groups[i], which]
            while kind >= 0:
                row = head[kind]
                while row >= 0:
                    if alive[row] != 0:
                        out[size] = row
                        size += 1
                    row = following[row]
                kind = -1 if unique else kinds[kind, NEXT]
    return size
