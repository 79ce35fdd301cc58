"""What breaks dependencies group by group, and summed over the groups that lie under one condition.

Rows 0 to 3 form two groups by zip; city differs in the first. Both lie in country 0, so there one row of four must go:

>>> import numpy as np
>>> cities = np.array([[0, 1, 2, 2]], dtype=np.int32)
>>> rows, starts = np.arange(4, dtype=np.int32), np.array([0, 2, 4], dtype=np.int32)
>>> surplus, known, commonest = (np.zeros((1, 2), dtype=np.int32) for _ in range(3))
>>> weigh_groups(cities, np.array([0]), rows, starts, np.zeros((2, 3), dtype=np.int32), surplus, known, commonest)
>>> surplus.tolist(), known.tolist(), commonest.tolist()
([[1, 0]], [[2, 2]], [[0, 2]])
>>> sums = np.zeros((1, 1, 3), dtype=np.int64)
>>> sum_by_condition(np.array([0, 0]), surplus, known, sums)
>>> sums.tolist()
[[[1, 4, 2]]]
"""

from __future__ import annotations

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I32, I64

BROKEN, SPEAKING, GROUPS = range(3)
"""What is summed: rows to remove, rows with a partner and a known right side, groups that they form."""


@kernel
def weigh_groups(
    codes: I32, targets: I64, rows: I32, starts: I32, scratch: I32, surplus: I32, known: I32, commonest: I32
) -> None:
    """For each target and group: rows to remove, rows with a known value, and the value that most of them have.

    Of equally common values the lowest code is told. `scratch` has two lines as long as a column has codes; the first
    is zero before and after. Complexity: O(targets * rows).
    """
    counts = scratch[0]
    seen = scratch[1]
    for t in range(targets.size):
        column = codes[targets[t]]
        for g in range(starts.size - 1):
            kinds = 0
            there = 0
            for i in range(starts[g], starts[g + 1]):
                code = column[rows[i]]
                if code >= 0:
                    if counts[code] == 0:
                        seen[kinds] = code
                        kinds += 1
                    counts[code] += 1
                    there += 1
            largest = 0
            best = -1
            for k in range(kinds):
                code = seen[k]
                if counts[code] > largest or (counts[code] == largest and code < best):
                    largest = counts[code]
                    best = code
                counts[code] = 0
            surplus[t, g] = there - largest
            known[t, g] = there
            commonest[t, g] = best


@kernel
def sum_by_condition(condition: I64, surplus: I32, known: I32, out: I64) -> None:
    """Add up, for each target, what groups say by the condition that they lie under (-1: none that matters).

    Complexity: O(targets * groups).
    """
    for t in range(surplus.shape[0]):
        for g in range(condition.size):
            at = condition[g]
            if at >= 0 and known[t, g] > 1:
                out[t, at, BROKEN] += surplus[t, g]
                out[t, at, SPEAKING] += known[t, g]
                out[t, at, GROUPS] += 1
