"""What breaks a dependency, counted from rows as words (`side_rows.py`)."""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import kernel
from holdstrue.kernels.partitions import GATHERED, OFFENDING, SUPPORT, SURPLUS
from holdstrue.kernels.side_rows import COUNT
from holdstrue.typing import I32, I64, U64


@kernel
def weighed(rows: U64, groups: I32, made: int, key: bool, facts: I64) -> None:
    """Count what breaks a dependency as `kernels.partitions.weigh` does: `OFFENDING`, `SURPLUS`, `SUPPORT`, `GATHERED`.

    Each row stands for all of its group with its right side; for a key all pairs of a group break it.
    Complexity: O(rows).

    Examples
    --------
    >>> rows = np.array([[5, 6, 5], [0, 0, 0], [0, 1, 2], [1, 3, 4], [7, 8, 9]], dtype=np.uint64)
    >>> facts, groups = np.zeros(4, dtype=np.int64), np.array([0, 1, 0], dtype=np.int32)
    >>> weighed(rows, groups, 2, False, facts)
    >>> facts.tolist()
    [4, 1, 8, 2]
    """
    sizes = np.zeros(made, dtype=np.int64)
    equal = np.zeros(made, dtype=np.int64)
    most = np.zeros(made, dtype=np.int64)
    for i in range(rows.shape[1]):
        g = groups[i]
        count = np.int64(rows[COUNT, i])
        sizes[g] += count
        equal[g] += count * (count - 1) // 2
        most[g] = max(most[g], count)
    for g in range(made):
        size = sizes[g]
        if size < 2:
            continue
        pairs = size * (size - 1) // 2
        facts[OFFENDING] += pairs if key else pairs - equal[g]
        facts[SURPLUS] += size - 1 if key else size - most[g]
        facts[SUPPORT] += size
        facts[GATHERED] += 1
