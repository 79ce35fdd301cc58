"""The largest values while rows come and go."""

from __future__ import annotations

import random

import numpy as np
import pytest

from holdstrue.errors import StateError
from holdstrue.index.checked import Checked
from holdstrue.index.extremes import Extremes
from holdstrue.typing import U64


def words(*numbers: int) -> U64:
    return np.array(numbers, dtype=np.int64).view(np.uint64).reshape(-1, 1)


class Watched:
    """Numbers, and how often all of them were looked at."""

    def __init__(self, kept: int) -> None:
        self.numbers: list[int] = []
        self.looks = 0
        self.found = Extremes(self._everything, kept)

    def _everything(self) -> U64:
        self.looks += 1
        return words(*self.numbers)

    def change(self, came: list[int], went: list[int]) -> None:
        self.numbers += came
        for number in went:
            self.numbers.remove(number)
        self.found.insert(words(*came))
        self.found.remove(words(*went))
        assert self.found.top() == max(self.numbers, default=None)
        assert self.found.count == len(self.numbers)


@pytest.mark.parametrize("kept", [1, 3, 1024])
def test_against_a_list(kept: int) -> None:
    chance = random.Random(kept)
    watched = Watched(kept)
    for _ in range(300):
        came = [chance.randint(-5, 5) for _ in range(chance.randint(0, 4))]
        there = watched.numbers + came
        watched.change(came, chance.sample(there, chance.randint(0, min(4, len(there)))))


def test_all_are_looked_at_only_when_those_that_are_kept_have_gone() -> None:
    watched = Watched(100)
    watched.change(list(range(1000)), [])
    for number in reversed(range(500, 1000)):
        watched.change([], [number])
    assert watched.looks == 5, "once for a hundred that went"
    for number in range(500, 1000):
        watched.change([number], [number - 500])
    assert watched.looks == 5, "what comes is among the largest, and what goes is not"


def test_a_snapshot_is_taken_over_and_looked_at() -> None:
    watched = Watched(4)
    watched.change([-(2**63), 3, 7, 2**63 - 1, 7], [])
    arrays = watched.found.snapshot()
    again = Extremes(words, 4)
    again.restore(Checked(arrays), 5)
    assert (again.top(), again.count) == (2**63 - 1, 5)
    for wrong in (
        {"count": np.array([6])},
        {"count": np.array([2])},
        {"kept": arrays["kept"][::-1].copy()},
        {"kept": arrays["kept"][:0]},
        {"kept": arrays["kept"][:, :8].copy()},
    ):
        with pytest.raises(StateError):
            Extremes(words, 4).restore(Checked({**arrays, **wrong}), 5)
