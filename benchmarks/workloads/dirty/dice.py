"""Choices drawn from a seed, given as plain Python values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class Dice:
    """A seeded source of choices; `salt` keeps the tables of one seed apart.

    Examples
    --------
    >>> Dice(1, 7).some("abcde", 3) == Dice(1, 7).some("abcde", 3)
    True
    """

    def __init__(self, seed: int, salt: int) -> None:
        self._draws = np.random.default_rng([seed, salt])

    def whole(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return int(self._draws.integers(low, high + 1))

    def real(self, low: float = 0.0, high: float = 1.0) -> float:
        """A number from low to high, all equally likely."""
        return float(self._draws.uniform(low, high))

    def normal(self, mean: float, deviation: float) -> float:
        """A number of a bell curve."""
        return float(self._draws.normal(mean, deviation))

    def lognormal(self, mean: float, deviation: float) -> float:
        """A number whose logarithm is of a bell curve: a long tail to the right."""
        return float(self._draws.lognormal(mean, deviation))

    def chance(self, share: float) -> bool:
        """True in so large a share of the cases."""
        return bool(self._draws.random() < share)

    def pick(self, items: Sequence[T]) -> T:
        """One of the items, all equally likely."""
        return items[int(self._draws.integers(len(items)))]

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        """One of the items, each as likely as its weight says."""
        return items[self._place(_summed(tuple(weights)))]

    def skewed(self, items: Sequence[T], power: float) -> T:
        """One of the items with weights as Zipf's: the first come most often."""
        return items[self._place(_zipf(len(items), power))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """So many of the items, none twice, in any order."""
        return [items[int(at)] for at in self._draws.permutation(len(items))[:count]]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All items in any order."""
        return self.some(items, len(items))

    def digits(self, count: int) -> str:
        """A text of so many digits."""
        return "".join(str(self.whole(0, 9)) for _ in range(count))

    def day(self, first: dt.date, last: dt.date) -> dt.date:
        """A day from the first to the last, both included."""
        return first + dt.timedelta(days=self.whole(0, (last - first).days))

    def _place(self, summed: NDArray[np.float64]) -> int:
        return int(summed.searchsorted(self._draws.random(), side="right"))


@cache
def _zipf(count: int, power: float) -> NDArray[np.float64]:
    return _summed(tuple(1.0 / (at + 1) ** power for at in range(count)))


@cache
def _summed(weights: tuple[float, ...]) -> NDArray[np.float64]:
    """Up to which number between 0 and 1 each item is meant."""
    shares = np.asarray(weights, dtype=float)
    summed: NDArray[np.float64] = (shares / shares.sum()).cumsum()
    return summed / summed[-1]
