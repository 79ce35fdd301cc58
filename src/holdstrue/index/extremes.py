"""The largest values of a column while rows come and go."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

import numpy as np

from holdstrue.data.exact import at_least, largest, whole
from holdstrue.index.arrays import Snapshot
from holdstrue.index.checked import Checked
from holdstrue.typing import U64

KEPT = 1024
"""Values that are kept. All rows are looked at again only when so many of the largest went and none came after them:
of a million rows that takes 14 ms, and so 14 us a removed row at worst. Chosen by that, not tuned."""

_MOST_BYTES = 64
"""Of a value: 256 bits are 32 bytes."""


class Extremes:
    """The largest of some whole numbers, each as often as it is there.

    Always the largest that there are, but for those that are not kept: a number that goes was kept if it is not below
    the smallest that is.

    Examples
    --------
    >>> from holdstrue.data.exact import words_of
    >>> import pyarrow as pa
    >>> rows = pa.array([4, 9, 9, 1])
    >>> found = Extremes(lambda: words_of(rows), kept=2)
    >>> found.insert(words_of(rows))
    >>> found.top(), found.count
    (9, 4)
    >>> rows = pa.array([4, 1])
    >>> found.remove(words_of(pa.array([9, 9])))
    >>> found.top(), found.count
    (4, 2)
    """

    def __init__(self, everything: Callable[[], U64], kept: int = KEPT) -> None:
        self._everything = everything
        """All numbers as they are now."""
        self._most = kept
        self._kept: list[int] = []
        self.count = 0

    def insert(self, words: U64) -> None:
        """Take in numbers. Complexity: O(numbers), and O(log kept) for one of them."""
        every = self.count == len(self._kept)
        self.count += words.shape[0]
        if not words.shape[0]:
            return
        # where not all are kept, what is below those that are is not among the largest
        found = largest(words if every else at_least(words, self._kept[0]), self._most)
        if len(found) == 1:
            insort(self._kept, found[0])
        elif found:
            self._kept = sorted(self._kept + found)
        if len(self._kept) > self._most:
            del self._kept[: len(self._kept) - self._most]

    def remove(self, words: U64) -> None:
        """Forget numbers that were taken in. Complexity: O(numbers), plus a look at all when none is kept any more."""
        self.count -= words.shape[0]
        if words.shape[0] and self._kept:
            for number in whole(at_least(words, self._kept[0])):
                at = bisect_left(self._kept, number)
                if at < len(self._kept) and self._kept[at] == number:
                    del self._kept[at]
        if self.count and not self._kept:
            self._kept = largest(self._everything(), self._most)

    def top(self) -> int | None:
        """The largest; None where there is none."""
        return self._kept[-1] if self._kept else None

    def size_bytes(self) -> int:
        """Memory held, about."""
        return 40 * len(self._kept)

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state: the kept numbers as bytes."""
        kept = b"".join(number.to_bytes(_MOST_BYTES, "little", signed=True) for number in self._kept)
        return {
            "count": np.array([self.count], dtype=np.int64),
            "kept": np.frombuffer(kept, dtype=np.uint8).reshape(-1, _MOST_BYTES).copy(),
        }

    def restore(self, arrays: Checked, living: int) -> None:
        """Take over the arrays of a snapshot, of so many rows at most."""
        [self.count] = arrays.few("count", 0, living, 1)
        held = arrays.array("kept", np.uint8, (0, _MOST_BYTES), grows=0)
        self._kept = [int.from_bytes(row.tobytes(), "little", signed=True) for row in held]
        fits = len(self._kept) <= min(self._most, self.count) and (bool(self._kept) or not self.count)
        arrays.require(fits, f"{len(self._kept)} values are kept of {self.count}")
        ascending = all(a <= b for a, b in zip(self._kept, self._kept[1:], strict=False))
        arrays.require(ascending, "the kept values are not in order")
