"""Classes of equal ids: walks over the kinds of a group and the rows of a kind.

A kind is an id of X and B together; `first[group]` starts the list of a group's kinds, `following[kind]` goes
on; `head[kind]` starts the list of a kind's rows, `after[row]` goes on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdstrue.kernels.jit import kernel

I32 = NDArray[np.int32]

NO_KIND = -1
MANY_KINDS = -2


@kernel
def link_kinds(group: I32, first: I32, following: I32, start: int, end: int) -> None:
    """Put the kinds `start, ..., end - 1` into the lists of their groups. Complexity: O(kinds)."""
    for kind in range(start, end):
        following[kind] = first[group[kind]]
        first[group[kind]] = kind


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
    alive: NDArray[np.uint8],
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
