"""What stretches of an array hold, one after the other: rows that ranges of positions select, for many queries."""

from __future__ import annotations

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I32, I64


@kernel
def take_stretches(low: I64, counts: I64, asked: I64, rows: I32, queries: I64, found: I32) -> None:
    """Write `rows[low[i] : low[i] + counts[i]]` of every query behind each other, with the query beside each row.

    Complexity: O(result).

    Examples
    --------
    >>> import numpy as np
    >>> queries, found = np.empty(5, np.int64), np.empty(5, np.int32)
    >>> rows = np.array([7, 3, 9, 4, 8], np.int32)
    >>> take_stretches(np.array([1, 0]), np.array([3, 2]), np.array([4, 6]), rows, queries, found)
    >>> queries.tolist(), found.tolist()
    ([4, 4, 4, 6, 6], [3, 9, 4, 7, 3])
    """
    at = 0
    for i in range(low.size):
        stretch = rows[low[i] : low[i] + counts[i]]
        query = asked[i]
        for j in range(stretch.size):
            queries[at + j] = query
            found[at + j] = stretch[j]
        at += stretch.size
