"""Classes of equal ids: walks over the kinds of a group and the rows of a kind.

A kind is an id of X and B together; `first[group]` starts the list of a group's kinds, `following[kind]` goes
on; `head[kind]` starts the list of a kind's rows, `after[row]` goes on.
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
