"""Rows by what they have in all columns of few values: rules over these columns are settled class by class."""

from __future__ import annotations

import numpy as np

from holdstrue.typing import I32, I64

MOST_CLASSES = 1024
"""Classes at most: a rule looks at every pair of them, five milliseconds."""

MOST_KEYS = 1 << 22
"""Classes that another column could make, up to which it is tried: 64 MB while it is."""


class RowClasses:
    """Classes of rows that agree on as many columns as leave few classes, those of the fewest values first.

    Memory: 4 bytes a row.

    Examples
    --------
    >>> ranks = np.array([[1, 1, 2, 2], [1, 2, 3, 4], [-1, 0, 0, 0]], dtype=np.int32)
    >>> classes = RowClasses(ranks, most=3)
    >>> sorted(classes.places), classes.of.tolist(), classes.values.tolist()
    ([0, 2], [0, 1, 2, 2], [[-1, 0, 0], [1, 1, 2]])
    """

    def __init__(self, ranks: I32, most: int = MOST_CLASSES) -> None:
        tops = ranks.max(axis=1, initial=0).astype(np.int64) + 2
        self.places: dict[int, int] = {}
        """Columns, by where they are among `values`."""
        keys: I64 = np.zeros(ranks.shape[1], dtype=np.int64)
        first: I64 = np.zeros(min(1, ranks.shape[1]), dtype=np.int64)
        for column in np.argsort(tops, kind="stable").tolist():
            room = max(1, first.size) * int(tops[column])
            if room > MOST_KEYS:
                break
            found, at, number = _distinct(keys * tops[column] + ranks[column] + 1, room)
            if found > most:
                break
            keys, first = number, at
            self.places[column] = len(self.places)
        self.of: I32 = keys.astype(np.int32)
        self.values: I32 = np.ascontiguousarray(ranks[list(self.places)][:, first])

    def __len__(self) -> int:
        return self.values.shape[1]

    def size_bytes(self) -> int:
        """Memory held."""
        return self.of.nbytes + self.values.nbytes


def _distinct(keys: I64, below: int) -> tuple[int, I64, I64]:
    """How many keys there are, a row of each, and their numbers by row. Complexity: O(rows + keys that may be)."""
    first = np.full(below, -1, dtype=np.int64)
    first[keys] = np.arange(keys.size)
    there = np.flatnonzero(first >= 0)
    numbers = np.empty(below, dtype=np.int64)
    numbers[there] = np.arange(there.size)
    return there.size, first[there], numbers[keys]
