"""What columns share, from how many rows of each have a value."""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I32, I64, U64


@kernel
def count_shared(owners: U64, counts: U64, groups: I32, made: int, counted: I64) -> None:
    """Add to each two columns: values that both have, rows of the first with such a value, the sum of the fewer rows.

    A line says how many rows of a column (`owners`) have a value (`groups`), once for each column and value.
    Complexity: O(lines x columns that share a value).

    Examples
    --------
    Value 0 is in two rows of column 0 and three of column 1, value 1 in one row of column 0.

    >>> counted = np.zeros((3, 2, 2), dtype=np.int64)
    >>> owners, counts = np.array([0, 1, 0], dtype=np.uint64), np.array([2, 3, 1], dtype=np.uint64)
    >>> count_shared(owners, counts, np.array([0, 0, 1], dtype=np.int32), 2, counted)
    >>> counted.tolist()
    [[[2, 1], [1, 1]], [[3, 2], [3, 3]], [[3, 2], [2, 3]]]
    """
    starts = np.zeros(made + 1, dtype=np.int64)
    for g in groups:
        starts[g + 1] += 1
    for g in range(made):
        starts[g + 1] += starts[g]
    order = np.empty(groups.size, dtype=np.int32)
    filled = starts[:-1].copy()
    for i in range(groups.size):
        order[filled[groups[i]]] = i
        filled[groups[i]] += 1
    for g in range(made):
        for i in range(starts[g], starts[g + 1]):
            a = np.int64(owners[order[i]])
            n = np.int64(counts[order[i]])
            for j in range(starts[g], starts[g + 1]):
                b = np.int64(owners[order[j]])
                m = np.int64(counts[order[j]])
                counted[0, a, b] += 1
                counted[1, a, b] += n
                counted[2, a, b] += n if n < m else m
