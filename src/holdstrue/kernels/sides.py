"""Right sides of groups: how often each occurs among the rows that several CFDs look at.

Nearly always all rows of a group have one right side. It is kept with the group as its *common* side; others are
*kinds* of their own, in a list that starts at their group. `main[group]` is 0 before the group has a common side (a
word that is 0 counts as 1), `first[group]` 0 while there is no other, else 1 + the last of the others. A row's side is
0 for the common one, 1 + kind for another, -1 where no CFD looks at it. `members[row]` has a bit for each CFD that
looks at the row.

Five rows with (X, B) = (x, 7), (x, 8), (x, 7), (y, 7), (z, 9); the second of two CFDs looks at the last three only.

>>> import numpy as np
>>> def ints(*values): return np.array(values, dtype=np.int32)
>>> group, value = ints(0, 0, 0, 1, 2), np.array([7, 8, 7, 7, 9], np.uint64)
>>> main, first, side = np.zeros(3, np.uint64), ints(0, 0, 0), ints(0, 0, 0, 0, 0)
>>> members = np.array([[1], [1], [3], [3], [3]], np.uint8)
>>> int(place_sides(group, value, members, main, side)), side.tolist(), main.tolist()
(1, [0, 1, 0, 0, 0], [7, 7, 9])
>>> kind_group, following = ints(0), ints(-1)  # the second row is of the first other kind
>>> link_sides(kind_group, first, following, 0, 1)
>>> first.tolist()
[1, 0, 0]
>>> count, others, kind_count = np.zeros((3, 2), np.int32), np.zeros((3, 2), np.int32), np.zeros((1, 2), np.int32)
>>> shift_sides(group, side, members, 1, count, others, kind_count)
>>> count.tolist(), others.tolist()
([[2, 1], [1, 1], [1, 1]], [[1, 0], [0, 0], [0, 0]])
>>> state, found = np.zeros(3, np.uint8), np.zeros(3, np.uint64)
>>> values = np.array([8], np.uint64)
>>> sole_sides(ints(0, 1, 2), 0, count, others, main, first, following, kind_count, values, state, found)
>>> state.tolist(), found.tolist()
([2, 1, 1], [0, 7, 9])
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I32, U8, U64

NONE, ONE, MANY = 0, 1, 2
"""How many right sides a group has."""


@kernel
def place_sides(group: I32, value: U64, members: U8, main: U64, side: I32) -> int:
    """Give rows the common side of their group, a new group that of its first row; 1 stands for any other.

    Returns how many rows have another. Complexity: O(rows).
    """
    found = 0
    for i in range(group.size):
        some = False
        for w in range(members.shape[1]):
            some |= members[i, w] != 0
        g = group[i]
        word = value[i] if value[i] != 0 else np.uint64(1)
        if g < 0 or not some:
            side[i] = -1
        elif main[g] == 0:
            main[g] = word
            side[i] = 0
        elif main[g] == word:
            side[i] = 0
        else:
            side[i] = 1
            found += 1
    return found


@kernel
def link_sides(kind_group: I32, first: I32, following: I32, start: int, end: int) -> None:
    """Put the kinds `start, ..., end - 1` into the lists of their groups. Complexity: O(kinds)."""
    for kind in range(start, end):
        group = kind_group[kind]
        following[kind] = first[group] - 1
        first[group] = kind + 1


@kernel
def shift_sides(group: I32, side: I32, members: U8, sign: int, count: I32, others: I32, kind_count: I32) -> None:
    """Count rows in (`sign` 1) or out (-1), for every CFD that looks at them. Complexity: O(rows x CFDs)."""
    for i in range(group.size):
        kind = side[i]
        if kind < 0:
            continue
        g = group[i]
        for w in range(members.shape[1]):
            bits = members[i, w]
            cfd = 8 * w
            while bits != 0:
                if bits & 1 != 0:
                    if kind == 0:
                        count[g, cfd] += sign
                    else:
                        before = kind_count[kind - 1, cfd]
                        kind_count[kind - 1, cfd] = before + sign
                        if before == 0:
                            others[g, cfd] += 1
                        elif before + sign == 0:
                            others[g, cfd] -= 1
                bits >>= 1
                cfd += 1


@kernel
def sole_sides(
    groups: I32, cfd: int, count: I32, others: I32, main: U64, first: I32, following: I32, kind_count: I32,
    values: U64, state: U8, found: U64,
) -> None:  # fmt: skip
    """For each group NONE, ONE or MANY, and where it is ONE the right side. Unknown groups are negative.

    Complexity: O(groups), and of groups that have only other sides the length of their lists.
    """
    for i in range(groups.size):
        g = groups[i]
        state[i] = NONE
        found[i] = 0
        if g < 0:
            continue
        sides = others[g, cfd] + (1 if count[g, cfd] > 0 else 0)
        if sides == 0:
            continue
        state[i] = ONE if sides == 1 else MANY
        if sides == 1 and count[g, cfd] > 0:
            found[i] = main[g]
        elif sides == 1:
            kind = first[g] - 1
            while kind >= 0 and kind_count[kind, cfd] == 0:
                kind = following[kind]
            found[i] = values[kind]


@kernel
def list_members(groups: I32, head: I32, after: I32, alive: U8, members: U8, cfd: int, out: I32) -> int:
    """The living rows of groups that a CFD looks at; returns how many, of which the first `out.size` are written.

    Complexity: O(rows and removed rows of the groups).
    """
    size = 0
    word, bit = cfd // 8, 1 << (cfd % 8)
    for i in range(groups.size):
        row = head[groups[i]]
        while row >= 0:
            if alive[row] != 0 and members[row, word] & bit != 0:
                if size < out.size:
                    out[size] = row
                size += 1
            row = after[row]
    return size
