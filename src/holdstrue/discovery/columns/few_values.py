"""How often each value occurs, as long as there are few different ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from holdstrue.typing import I64

MOST = 1000
"""Different values up to which they are counted: a column with more has no form, and is not an enumeration."""


class FewValues:
    """A multiset that gives up where it gets too large.

    One that gave up knows how many different values there are at least. Where rows went away so that they may be few
    again, it is `stale`: only a look at all values can tell.

    Examples
    --------
    >>> import numpy as np
    >>> tally = FewValues(most=2)
    >>> tally.change((pa.array(["a", "b"]), np.array([3, 1])))
    >>> tally.change((pa.array([], pa.string()), np.array([], dtype=np.int64)), (pa.array(["b"]), np.array([1])))
    >>> tally.counts
    {'a': 3}
    >>> tally.change((pa.array(["b", "c"]), np.array([1, 1])))
    >>> tally.counts, tally.stale
    (None, False)
    >>> tally.change((pa.array([], pa.string()), np.array([], dtype=np.int64)), (pa.array(["c"]), np.array([1])))
    >>> tally.stale
    True
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.counts: dict[Any, int] | None = {}
        """None where there are too many different values."""
        self._least = 0

    @property
    def stale(self) -> bool:
        """Whether nobody knows if there are few values again."""
        return self.counts is None and self._least <= self._most

    def change(self, came: tuple[pa.Array, I64], went: tuple[pa.Array, I64] | None = None) -> None:
        """Take in different values with how often each came and went. Complexity: O(different values)."""
        if self.counts is None:
            self._least -= 0 if went is None else len(went[0])
            return
        if len(came[0]) > self._most + (0 if went is None else len(went[0])):
            self.give_up(len(came[0]) - (0 if went is None else len(went[0])))
            return
        for part, sign in ((came, 1), (went, -1)):
            if part is not None:
                for value, count in zip(part[0].to_pylist(), part[1].tolist(), strict=True):
                    left = self.counts.get(value, 0) + sign * count
                    if left:
                        self.counts[value] = left
                    else:
                        self.counts.pop(value, None)
        if len(self.counts) > self._most:
            self.give_up(len(self.counts))

    def give_up(self, least: int) -> None:
        """Count no more: there are at least so many different values."""
        self.counts, self._least = None, least
