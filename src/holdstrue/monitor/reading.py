"""Several threads at one engine: one at a time, and lists that are read bit by bit stay on the version they began with.

Whoever reads or changes an engine holds its `Guard`. A list that is made as it is read holds it only while it makes its
next part, so that batches come in between; each of them first lets such lists draw what is still to be read, as slots,
which keep their values for good. Names are given when the list goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from threading import RLock
from typing import Generic, Protocol, Self, TypeVar
from weakref import WeakSet, WeakValueDictionary

from holdstrue.errors import HoldstrueError

MOST_DRAWN = 1_000_000
"""Violations that a list draws before a batch: 8 MB, and 50 ms by which the batch takes longer."""

Part = TypeVar("Part")
Item = TypeVar("Item")


class Reader(Protocol):
    """Somebody who is not yet done with the version of an engine that there is."""

    def draw(self) -> None:
        """Take into memory what is still to be read: a batch is about to change it."""


class Guard:
    """Lets one thread at a time at an engine, the same one also again.

    Examples
    --------
    >>> numbers, guard = [1, 2, 3], Guard()
    >>> found = guard.listed(iter(numbers), lambda part: 1, lambda part: [10 * part])
    >>> next(found)
    10
    >>> with guard.lock:
    ...     guard.change()
    ...     numbers.clear()
    >>> list(found)
    [20, 30]
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self._readers: WeakSet[Reader] = WeakSet()

    def listed(
        self, parts: Iterator[Part], size: Callable[[Part], int], named: Callable[[Part], list[Item]]
    ) -> Iterator[Item]:
        """The items of some parts, made as they are read; `size` says how much of `MOST_DRAWN` a part takes."""
        # flattened in C: a step of the reader is a part, not an item
        return chain.from_iterable(PartReader(self, parts, size, named))

    def add(self, reader: Reader) -> None:
        """Tell a reader before the engine changes, as long as somebody refers to it."""
        with self.lock:
            self._readers.add(reader)

    def drop(self, reader: Reader) -> None:
        """Forget a reader that is done."""
        with self.lock:
            self._readers.discard(reader)

    def change(self) -> None:
        """Let all readers draw what they still need; to be called before the engine is changed."""
        if self._readers:
            for reader in list(self._readers):
                reader.draw()
            self._readers.clear()


class PartReader(Generic[Part, Item]):
    """Makes lists of items out of parts, one at a step, while nobody changes what the parts are read from."""

    def __init__(
        self,
        guard: Guard,
        parts: Iterator[Part],
        size: Callable[[Part], int],
        named: Callable[[Part], list[Item]],
    ) -> None:
        self._guard = guard
        self._parts: Iterator[Part] | None = parts
        """None once the rest is lost."""
        self._size = size
        self._named = named
        guard.add(self)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> list[Item]:
        with self._guard.lock:
            if self._parts is None:
                raise HoldstrueError(
                    "a batch was applied while this list was being read, and what was still to be read was too much"
                    f" to be kept (over {MOST_DRAWN:,})",
                    hint="give a limit=, read the list before the next batch, or read it from a monitor of its own:"
                    " Monitor.open(path, read_only=True)",
                )
            for part in self._parts:
                return self._named(part)
            self._guard.drop(self)
            raise StopIteration

    def draw(self) -> None:
        """Take what is still to be read into memory, if it is not too much."""
        parts, self._parts = self._parts, None  # lost, should this end half-way
        if parts is None:
            return
        drawn, size = [], 0
        for part in parts:
            size += self._size(part)
            if size > MOST_DRAWN:
                return
            drawn.append(part)
        self._parts = iter(drawn)


_writers: WeakValueDictionary[str, RLock] = WeakValueDictionary()
_writers_guard = RLock()


def writer_lock(path: str) -> RLock:
    """The lock of the threads of this process that write the state at an absolute path: they wait for each other.

    Threads of other processes are held off by the lock of the state itself, which does not wait.
    """
    with _writers_guard:
        return _writers.setdefault(path, RLock())
