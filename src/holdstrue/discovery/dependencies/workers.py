"""Threads that share out work: kernels run without the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """Runs a function over items, in as many threads as were asked for (by default one for each processor).

    Examples
    --------
    >>> Workers(2)(lambda number: number * number, [1, 2, 3])
    [1, 4, 9]
    """

    def __init__(self, threads: int | None) -> None:
        self.threads = threads or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None

    def __call__(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """The results in the order of the items. The function must not share out work itself."""
        if self._pool is None:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))
