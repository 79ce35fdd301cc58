"""What is being done, and how far it is: told to whoever listens, and logged with the time that it took."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

LOG = logging.getLogger("holdstrue")
LOG.addHandler(logging.NullHandler())  # a library says nothing by itself

Listener: TypeAlias = Callable[["Doing"], None]
"""Called when a piece of work begins, and when a part of it is done."""

LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)
"""Who listens in this thread; nobody unless a command has something to show."""

T = TypeVar("T")


@dataclass
class Doing:
    """A piece of work: what it is, over how many rows, and how many of its parts are done."""

    what: str
    rows: int = 0
    done: int = 0
    parts: int = 0

    def tell(self) -> None:
        """Tell whoever listens."""
        listener = LISTENER.get()
        if listener is not None:
            listener(self)


@contextmanager
def doing(what: str, rows: int = 0) -> Generator[Doing]:
    """Tell that a piece of work begins, and log how long it took and how many rows it was over.

    >>> heard = []
    >>> listening = LISTENER.set(lambda work: heard.append((work.what, work.rows)))
    >>> with doing("reading orders.csv") as work:
    ...     work.rows = 3
    >>> LISTENER.reset(listening)
    >>> heard
    [('reading orders.csv', 0)]
    """
    work, start = Doing(what, rows), time.perf_counter()
    work.tell()
    yield work
    if LOG.isEnabledFor(logging.INFO):
        LOG.info("%s", took(work.what, work.rows, time.perf_counter() - start))


def each(items: Sequence[T], said: Callable[[T], str], rows: int) -> Iterable[T]:
    """The items, of which each is a part of one piece of work over so many rows; costs nothing if nobody listens."""
    if LISTENER.get() is None and not LOG.isEnabledFor(logging.DEBUG):
        return items
    return _each(items, said, rows)


def _each(items: Sequence[T], said: Callable[[T], str], rows: int) -> Iterable[T]:
    work = Doing("", rows, 0, len(items))
    for work.done, item in enumerate(items):
        work.what = said(item)
        work.tell()
        start = time.perf_counter()
        yield item
        LOG.debug("%s", took(work.what, rows, time.perf_counter() - start))


def took(what: str, rows: int, seconds: float) -> str:
    """A line about work that is done.

    >>> took("reading orders.csv", 1_000_000, 0.5), took("planning", 0, 0.01234)
    ('reading orders.csv: 1,000,000 rows in 0.500 s (2,000,000 rows/s)', 'planning: 0.012 s')
    """
    if not rows:
        return f"{what}: {seconds:.3f} s"
    speed = f" ({rows / seconds:,.0f} rows/s)" if seconds > 0 else ""
    return f"{what}: {rows:,} {'row' if rows == 1 else 'rows'} in {seconds:.3f} s{speed}"
