"""Classes of equal ids: walks over the kinds of a group and the rows of a kind.

A kind is an id of X and B together; `first[group]` starts the list of a group's kinds, `following[kind]` goes
on; `head[kind]` starts the list of a kind's rows, `after[row]` goes on.

Five rows with (X, B) = (x, 1), (x, 2), (x, 1), (y, 3), (z, 4) are of the kinds 0, 1, 0, 2, 3 in the groups 0, 0, 1, 2
by kind. All come, the last one goes again: group 0 has two kinds, so its rows violate X -> B; group 2 is empty.

>>> import numpy as np
>>> def ints(*values): return np.array(values, dtype=np.int32)
>>> group, first, following = ints(0, 0, 1, 2), ints(-1, -1, -1), ints(-1, -1, -1, -1)
>>> link_kinds(group, first, following, 0, 4)
>>> first.tolist(), following.tolist()
([1, 2, 3], [-1, 0, -1, -1])
>>> count, sides, place = ints(0, 0, 0, 1), ints(0, 0, 1), ints(-1, -1, -1, -1)
>>> kinds, groups = np.empty((2, 5), np.int32), np.empty((4, 5), np.int32)
>>> shift_counts(ints(3), ints(0, 1, 0, 2), group, count, sides, place, kinds, groups)
(4, 3)
>>> count.tolist(), sides.tolist(), groups[0, :3].tolist(), groups[3, :3].tolist()
([2, 1, 1, 0], [2, 1, 0], [2, 0, 1], [1, 0, 0])
>>> sole = ints(0, 0, 0); sole_kinds(ints(0, 1, 2), first, following, count, sole); sole.tolist()
[-2, 2, -1]
>>> head, after, alive = ints(2, 1, 3, 4), ints(-1, -1, 0, -1, -1), np.array([1, 1, 1, 1, 0], np.uint8)
>>> rows = ints(0, 0, 0, 0, 0); size = list_rows(ints(0), first, following, head, after, alive, rows)
>>> rows[:size].tolist()
[1, 2, 0]
"""

from __future__ import annotations

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I32, U8

NO_KIND = -1
MANY_KINDS = -2


@kernel
def link_kinds(group: I32, first: I32, following: I32, start: int, end: int) -> None:
    """Put the kinds `start, ..., end - 1` into the lists of their groups. Complexity: O(kinds)."""
    for kind in range(start, end):
        following[kind] = first[group[kind]]
        first[group[kind]] = kind


@kernel
def shift_counts(
    gone: I32, come: I32, kind_group: I32, count: I32, sides: I32, place: I32, kinds: I32, groups: I32
) -> tuple[int, int]:
    """Count rows of kinds out and in; returns how many kinds and groups were touched.

    `kinds[0]` lists the touched kinds, `kinds[1]` their counts before; `groups[0]` the touched groups,
    `groups[1]` their numbers of kinds before, `groups[2]` and `groups[3]` whether they gained and lost one.
    `place` is scratch by kind and by group, all -1 before and after. Complexity: O(rows).
    """
    size = 0
    for part in range(2):
        rows = gone if part == 0 else come
        for i in range(rows.size):
            kind = rows[i]
            if kind < 0:
                continue
            if place[kind] < 0:
                place[kind] = size
                kinds[0, size] = kind
                kinds[1, size] = count[kind]
                size += 1
            count[kind] += 2 * part - 1
    for i in range(size):
        place[kinds[0, i]] = -1
    found = 0
    for i in range(size):
        kind = kinds[0, i]
        group = kind_group[kind]
        at = place[group]
        if at < 0:
            at = found
            place[group] = at
            groups[0, at] = group
            groups[1, at] = sides[group]
            groups[2, at] = 0
            groups[3, at] = 0
            found += 1
        if kinds[1, i] == 0 and count[kind] > 0:
            groups[2, at] = 1
            sides[group] += 1
        elif kinds[1, i] > 0 and count[kind] == 0:
            groups[3, at] = 1
            sides[group] -= 1
    for i in range(found):
        place[groups[0, i]] = -1
    return size, found


@kernel
def sole_kinds(groups: I32, first: I32, following: I32, count: I32, out: I32) -> None:
    """For each group its only kind that has rows; NO_KIND without rows, MANY_KINDS with several kinds.

    Unknown groups are negative. Complexity: O(kinds of the groups, emptied ones included).
    """
    for i in range(groups.size):
        out[i] = NO_KIND
        if groups[i] < 0:
            continue
        kind = first[groups[i]]
        while kind >= 0:
            if count[kind] > 0:
                if out[i] != NO_KIND:
                    out[i] = MANY_KINDS
                    break
                out[i] = kind
            kind = following[kind]


@kernel
def list_rows(
    groups: I32,
    first: I32,
    following: I32,
    head: I32,
    after: I32,
    alive: U8,
    out: I32,
) -> int:
    """The living rows of groups; returns how many, of which the first `out.size` are written.

    Complexity: O(rows and removed rows of the groups).
    """
    size = 0
    for i in range(groups.size):
        kind = first[groups[i]]
        while kind >= 0:
            row = head[kind]
            while row >= 0:
                if alive[row] != 0:
                    if size < out.size:
                        out[size] = row
                    size += 1
                row = after[row]
            kind = following[kind]
    return size
