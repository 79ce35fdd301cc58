"""What is commonest inside groups of rows, and how far apart two texts are.

Five rows in two groups, (0, 1, 2) and (3, 4), and a column that holds 7, 7, 8 in one, 9 and nothing in the other:

>>> import numpy as np
>>> rows, starts = np.array([0, 1, 2, 3, 4], dtype=np.int32), np.array([0, 3, 5], dtype=np.int64)
>>> column, own = np.array([7, 7, 8, 9, -1], dtype=np.int32), np.zeros(5, dtype=np.int32)
>>> groups = np.zeros((2, 4), dtype=np.int32)
>>> tally(rows, starts, column, np.zeros(10, dtype=np.int32), groups, own)
>>> groups.tolist(), own.tolist()
([[7, 2, 1, 3], [9, 1, 0, 1]], [2, 2, 1, 1, 0])
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I32, I64

TOP, FIRST, SECOND, KNOWN = range(4)
"""What `tally` says of a group: its commonest code (-1: none), how often it and the next occur, rows with a code."""


@kernel
def place(of: I64, places: I64, rows: I32) -> None:
    """Rows in the order of their groups, which begin at `places[g + 1]`; -1 is a group too.

    Complexity: O(rows).

    >>> import numpy as np
    >>> rows = np.zeros(4, dtype=np.int32)
    >>> place(np.array([1, -1, 0, 1]), np.array([0, 1, 2]), rows)
    >>> rows.tolist()
    [1, 2, 0, 3]
    """
    for row in range(of.size):
        group = of[row] + 1
        rows[places[group]] = row
        places[group] += 1


@kernel
def tally(rows: I32, starts: I64, column: I32, counts: I32, groups: I32, own: I32) -> None:
    """For each group the counts of `TOP`, `FIRST`, `SECOND`, `KNOWN`; for each row how often its code is in its group.

    `rows[starts[g]:starts[g + 1]]` are the rows of group g, `counts` is a zero for every code, and is zeros again at
    the end. Of equally common codes the first that is met is the top: `FIRST` equals `SECOND` then.

    Complexity: O(rows).
    """
    for g in range(starts.size - 1):
        top, first, second, known = -1, 0, 0, 0
        for at in range(starts[g], starts[g + 1]):
            code = column[rows[at]]
            if code >= 0:
                counts[code] += 1
                known += 1
        for at in range(starts[g], starts[g + 1]):
            row = rows[at]
            code = column[row]
            own[row] = counts[code] if code >= 0 else 0
        for at in range(starts[g], starts[g + 1]):
            code = column[rows[at]]
            if code >= 0 and counts[code] > 0:
                many = counts[code]
                counts[code] = 0
                if many > first:
                    top, first, second = code, many, first
                elif many > second:
                    second = many
        groups[g, 0] = top
        groups[g, 1] = first
        groups[g, 2] = second
        groups[g, 3] = known


@kernel
def edits(letters: I32, ends: I64, left: I64, right: I64, scratch: I64, out: I64) -> None:
    """How many letters must be put in, left out, changed, or change places with the next to make one text of another.

    Text k is `letters[ends[k]:ends[k + 1]]`; `left` and `right` are numbers of texts; `scratch` has room for three
    lines of the longest text and one more.

    Complexity: O(product of the lengths) a pair.

    >>> import numpy as np
    >>> letters = np.array([ord(c) for c in "bonnbnonulm"], dtype=np.int32)
    >>> out = np.zeros(2, dtype=np.int64)
    >>> ends, scratch = np.array([0, 4, 8, 11]), np.zeros((3, 6), dtype=np.int64)
    >>> edits(letters, ends, np.array([0, 0]), np.array([1, 2]), scratch, out)
    >>> out.tolist()
    [1, 4]
    """
    for pair in range(left.size):
        a = letters[ends[left[pair]] : ends[left[pair] + 1]]
        b = letters[ends[right[pair]] : ends[right[pair] + 1]]
        now, last, before = 0, 1, 2
        for j in range(b.size + 1):
            scratch[last, j] = j
        for i in range(a.size):
            scratch[now, 0] = i + 1
            for j in range(b.size):
                best = scratch[last, j] + (a[i] != b[j])
                best = min(best, scratch[last, j + 1] + 1)
                best = min(best, scratch[now, j] + 1)
                if i > 0 and j > 0 and a[i] == b[j - 1] and a[i - 1] == b[j] and scratch[before, j - 1] + 1 < best:
                    best = scratch[before, j - 1] + 1
                scratch[now, j + 1] = best
            now, last, before = before, now, last
        out[pair] = scratch[last, b.size]


@kernel
def longest_chains(values: I64, lengths: I64) -> None:
    """For each place how long a chain of values that never fall can be that ends there, and one that starts there.

    Complexity: O(values log values).

    >>> import numpy as np
    >>> lengths = np.zeros((2, 4), dtype=np.int64)
    >>> longest_chains(np.array([10, 99, 20, 30]), lengths)
    >>> lengths.tolist()
    [[1, 2, 2, 3], [3, 1, 2, 1]]
    """
    size = values.size
    ends = np.empty(size, dtype=np.int64)
    for way in range(2):
        many = 0
        for step in range(size):
            at = step if way == 0 else size - 1 - step
            value = values[at] if way == 0 else -values[at]
            low, high = 0, many
            while low < high:
                middle = (low + high) // 2
                if ends[middle] <= value:
                    low = middle + 1
                else:
                    high = middle
            ends[low] = value
            if low == many:
                many += 1
            lengths[way, at] = low + 1
