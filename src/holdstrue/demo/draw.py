"""Draws that are the same on every machine and Python: only `random()` of a seeded generator is promised to stay."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """Numbers and choices from a seed.

    >>> Draws(7).below(100) == Draws(7).below(100), Draws(7).one_of("ab") in "ab"
    (True, True)
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 (data to try things on, no secret)

    def below(self, limit: int) -> int:
        """A whole number from 0 to before `limit`."""
        return int(self._random.random() * limit)

    def one_of(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[self.below(len(choices))]
