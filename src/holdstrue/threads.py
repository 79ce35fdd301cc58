"""Threads that share out work: kernels and Arrow run without the interpreter's lock, so that all cores are used."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def available(threads: int | None = None) -> int:
    """How many threads to use: as many as asked for, or one for each core that the process may use."""
    if threads:
        return threads
    # not every system tells which cores a process may use
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(function: Callable[[T], R], items: Iterable[T], threads: int, *, tasks: bool = False) -> list[R]:
    """Results in the order of the items, made in threads.

    The function must not share out work itself, unless the items are `tasks`: these have threads of their own, which
    wait for those that do the parts.

    >>> each(abs, [-1, 2], 2)
    [1, 2]
    """
    return list(results(function, items, threads, tasks=tasks))


def results(function: Callable[[T], R], items: Iterable[T], threads: int, *, tasks: bool = False) -> Iterator[R]:
    """The same as they are there; all is begun at once."""
    parts = list(items)
    if threads == 1 or len(parts) < 2:
        return map(function, parts)
    return _pool(threads, tasks).map(function, parts)


@cache
def _pool(threads: int, tasks: bool) -> ThreadPoolExecutor:
    """Threads are kept: a small batch ends before they would start."""
    return ThreadPoolExecutor(threads, "task" if tasks else "part")


if hasattr(os, "register_at_fork"):
    # a child has the pool, but not its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
