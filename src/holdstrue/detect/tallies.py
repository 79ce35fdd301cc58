"""What is kept of the rows of one measure while they come and go: a count, an exact sum, or the largest values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from holdstrue.data.digests import doubles
from holdstrue.data.exact import float_total, total, words_of
from holdstrue.index.arrays import Snapshot
from holdstrue.index.checked import Checked
from holdstrue.index.extremes import Extremes
from holdstrue.plan.measures import Aggregate, Part
from holdstrue.typing import U64

_LONGEST = 512
"""Bytes of a sum: one of doubles has 2098 bits, and 32 more for as many rows."""


class Tally(ABC):
    """What is kept of a measure; `Aggregate` says what follows from it."""

    @abstractmethod
    def change(self, came: pa.Array, went: pa.Array) -> None:
        """Known values that came in and that went. Complexity: O(values)."""

    @property
    @abstractmethod
    def part(self) -> Part:
        """The numbers that are kept."""

    def size_bytes(self) -> int:
        """Memory held."""
        return 64

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""

    @abstractmethod
    def restore(self, arrays: Checked, living: int) -> None:
        """Take over the arrays of a snapshot of so many rows."""


class Counted(Tally):
    """How many there are."""

    def __init__(self) -> None:
        self.count = 0

    def change(self, came: pa.Array, went: pa.Array) -> None:
        """Known values that came in and that went."""
        self.count += len(came) - len(went)

    @property
    def part(self) -> Part:
        """The count."""
        return (self.count,)

    def snapshot(self) -> Snapshot:
        """The count."""
        return {"count": np.array([self.count], dtype=np.int64)}

    def restore(self, arrays: Checked, living: int) -> None:
        """Take over a count of so many rows at most."""
        [self.count] = arrays.few("count", 0, living, 1)


class Summed(Tally):
    """How many there are, and their sum."""

    def __init__(self, nothing: Part) -> None:
        self._numbers = [number or 0 for number in nothing]

    def change(self, came: pa.Array, went: pa.Array) -> None:
        """Known values that came in and that went."""
        for values, step in ((came, 1), (went, -1)):
            if len(values):
                for at, number in enumerate(self._sums(values)):
                    self._numbers[at] += step * number

    def _sums(self, values: pa.Array) -> tuple[int, ...]:
        if len(self._numbers) == 2:
            return len(values), total(words_of(values))
        return len(values), *float_total(doubles(values))

    @property
    def part(self) -> Part:
        """Count and sum; of floats also how many are NaN, infinite, and minus infinite."""
        return tuple(self._numbers)

    def snapshot(self) -> Snapshot:
        """The counts, and the sum as bytes."""
        count, whole, *special = self._numbers
        held = whole.to_bytes(whole.bit_length() // 8 + 1, "little", signed=True)
        return {
            "counts": np.array([count, *special], dtype=np.int64),
            "sum": np.frombuffer(held, dtype=np.uint8).copy(),
        }

    def restore(self, arrays: Checked, living: int) -> None:
        """Take over the sum of so many rows at most."""
        count, *special = arrays.few("counts", 0, living, len(self._numbers) - 1)
        held = arrays.array("sum", np.uint8, (1,), grows=0)
        whole = int.from_bytes(held[:_LONGEST].tobytes(), "little", signed=True)
        possible = held.size <= _LONGEST and sum(special) <= count and (count > sum(special) or whole == 0)
        arrays.require(possible, f"it has a sum of {count} values that they cannot have")
        self._numbers = [count, whole, *special]


class Extreme(Tally):
    """How many there are, and the largest or the smallest."""

    def __init__(self, everything: Callable[[], pa.Array], *, smallest: bool) -> None:
        self._smallest = smallest
        self._found = Extremes(lambda: self._words(everything()))

    def _words(self, values: pa.Array) -> U64:
        """Whole numbers of which the largest is looked for."""
        words = words_of(values)
        return ~words if self._smallest else words

    def change(self, came: pa.Array, went: pa.Array) -> None:
        """Known values that came in and that went."""
        self._found.insert(self._words(came))
        self._found.remove(self._words(went))

    @property
    def part(self) -> Part:
        """Count and extreme."""
        top = self._found.top()
        return self._found.count, ~top if self._smallest and top is not None else top

    def size_bytes(self) -> int:
        """Memory held."""
        return self._found.size_bytes()

    def snapshot(self) -> Snapshot:
        """The kept values."""
        return self._found.snapshot()

    def restore(self, arrays: Checked, living: int) -> None:
        """Take over the kept values of so many rows at most."""
        self._found.restore(arrays, living)


def tally_of(aggregate: Aggregate, everything: Callable[[], pa.Array]) -> Tally:
    """What is to be kept of a measure; `everything` are its known values as they are when it is called."""
    if aggregate.function == "count" or aggregate.family == "null":
        return Counted() if aggregate.function == "count" else Unknown(aggregate.nothing)
    if aggregate.is_extreme:
        return Extreme(everything, smallest=aggregate.function == "min")
    return Summed(aggregate.nothing)


class Unknown(Tally):
    """Of a column of which no value is known yet."""

    def __init__(self, nothing: Part) -> None:
        self._nothing = nothing

    def change(self, came: pa.Array, went: pa.Array) -> None:
        """There are none."""

    @property
    def part(self) -> Part:
        """What is kept of nothing."""
        return self._nothing

    def snapshot(self) -> Snapshot:
        """Nothing."""
        return {}

    def restore(self, arrays: Checked, living: int) -> None:
        """There is nothing to take over."""
