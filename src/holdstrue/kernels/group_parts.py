"""Rows shared out by group: each part has all rows of its groups, and about as many rows as the others."""

from __future__ import annotations

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I32, I64


@kernel
def rows_by_group(slots: I32, groups: I32, counts: I64) -> None:
    """Add to `counts` how many of some rows are in each group; those in none, -1, come first. Complexity: O(rows)."""
    for i in range(slots.size):
        counts[groups[slots[i]] + 1] += 1


@kernel
def share_out(slots: I32, groups: I32, part_of: I32, ends: I64, places: I32) -> None:
    """The places of rows by the part that their group is in, ascending in each. Complexity: O(rows).

    `ends` says where each part begins and, after it, where it ends.

    Examples
    --------
    Five rows in groups 0, 1, 0, none and 1, of which the first part has those in group 0 and in none:

    >>> import numpy as np
    >>> slots, groups = np.arange(5, dtype=np.int32), np.array([0, 1, 0, -1, 1], dtype=np.int32)
    >>> places, ends = np.empty(5, dtype=np.int32), np.array([0, 3])
    >>> share_out(slots, groups, np.array([0, 0, 1], dtype=np.int32), ends, places)
    >>> places.tolist(), ends.tolist()
    ([0, 2, 3, 1, 4], [3, 5])
    """
    for i in range(slots.size):
        part = part_of[groups[slots[i]] + 1]
        places[ends[part]] = i
        ends[part] += 1
