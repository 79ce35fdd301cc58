"""How a search works: until when, in how many threads, and whom it tells how far it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from holdstrue.kernels.compile_clock import CLOCK
from holdstrue.threads import available, each

if TYPE_CHECKING:
    from holdstrue.discovery.denials.evidence import CountPairs

Progress: TypeAlias = Callable[[float, str], None]
"""Called with the share of the work that is done and what is being done."""

T = TypeVar("T")
R = TypeVar("R")


class OutOfTimeError(Exception):
    """The deadline passed before the work was done."""


@dataclass(frozen=True)
class Work:
    """Time, threads and a listener.

    `deadline` is a value of `time.monotonic()`, moved by the time for which kernels are compiled from now on: the first
    search of a machine has its budget too. Without `threads` there is one a core; `count_pairs` counts the evidence of
    row pairs elsewhere.

    Examples
    --------
    >>> told = []
    >>> Work(progress=lambda share, what: told.append((share, what))).part(0.5, 0.5).tell(0.5, "half of the rest")
    >>> told, Work(threads=2).each(abs, [-1, 2]), Work.lasting(60).over
    ([(0.75, 'half of the rest')], [1, 2], False)
    """

    deadline: float | None = None
    progress: Progress | None = None
    threads: int | None = None
    count_pairs: CountPairs | None = None
    compiled: float = field(default_factory=lambda: CLOCK.seconds, compare=False)
    """Seconds for which kernels had been compiled when it began."""

    @staticmethod
    def lasting(seconds: float | None, progress: Progress | None = None, threads: int | None = None) -> Work:
        """Work that ends in so many seconds; None for no end."""
        return Work(None if seconds is None else time.monotonic() + seconds, progress, threads)

    @property
    def left(self) -> float:
        """Seconds until the deadline; infinite without one."""
        if self.deadline is None:
            return math.inf
        return self.deadline + CLOCK.seconds - self.compiled - time.monotonic()

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.left < 0

    def require_time(self) -> None:
        """Raise `OutOfTimeError` if the time is up."""
        if self.over:
            raise OutOfTimeError

    def first(self, share: float) -> Work:
        """The same work with this share of the time that is left."""
        if self.deadline is None:
            return self
        return replace(self, deadline=self.deadline - (1 - share) * self.left)

    def tell(self, share: float, what: str) -> None:
        """Report that this share of the work at hand is done."""
        if self.progress is not None:
            self.progress(share, what)

    def part(self, start: float, share: float) -> Work:
        """A part of the work, which begins when `start` of it is done and is this share of it."""
        progress = self.progress
        if progress is None:
            return self
        return replace(self, progress=lambda done, what: progress(start + share * done, what))

    @property
    def workers(self) -> int:
        """Threads to use."""
        return available(self.threads)

    def each(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Results in the order of the items, made in threads. The function must not share out work itself."""
        return each(function, items, self.workers)
