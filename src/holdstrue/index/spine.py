"""A spine: immutable runs of geometrically growing size, small ones merged at once, large ones beside the work.

Until a merged run is taken, those it is made of stay in use, so that nobody waits for it. When that is depends on the
rows that came since and not on the clock: the same changes give the same runs, and the same order of answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from holdstrue.index.arrays import MOST_SLOTS
from holdstrue.index.protocol import Slots
from holdstrue.index.run import UnsortedRun
from holdstrue.typing import U8

RATIO = 4
"""A run is merged with the one before it unless that is this many times larger. Chosen, not tuned."""
BESIDE_FROM = 1 << 14
"""Rows from which on a run is merged beside the work: a batch waits 5 ms for as many, and 130 for 400,000."""
SQUEEZED_FROM = 1024
"""Fewer rows than this are never merged only because most of them were removed. Chosen, not tuned."""
TAKEN_AFTER = 8
"""A merged run is taken when an eighth as many rows came in: half a second of batches of a thousand, for what takes
an eighth of one."""


class Sorted(Protocol):
    """What a spine knows of a run."""

    @property
    def slots(self) -> Slots:
        """Its rows."""
        ...

    def __len__(self) -> int: ...


AnyRun = TypeVar("AnyRun", bound=Sorted)

Build: TypeAlias = Callable[[Slots], AnyRun]
"""Sorts rows into a run."""


class Merging(Generic[AnyRun]):
    """A run that is being built in a thread of its own."""

    def __init__(self, build: Build[AnyRun], living: Slots, start: int, stop: int, wait: int | None = None) -> None:
        self.start, self.stop = start, stop
        """Which runs of the spine it will replace."""
        self._wait = living.size // TAKEN_AFTER if wait is None else wait
        self._build, self._living = build, living
        self._run: AnyRun | None = None
        self._thread: threading.Thread | None = threading.Thread(target=self._work, name="holdstrue-merge", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no thread can be had: who takes the run builds it
            self._thread = None

    def _work(self) -> None:
        with suppress(MemoryError):  # who takes the run tries again, and may fail
            self._run = self._build(self._living)

    def due(self, came: int) -> bool:
        """Whether enough rows came in since, with these."""
        self._wait -= came
        return self._wait <= 0

    def take(self) -> AnyRun:
        """The run, when it is done."""
        if self._thread is not None:
            self._thread.join()
        # in a process that was forked meanwhile the thread has come to nothing
        return self._build(self._living) if self._run is None else self._run


@dataclass
class Spine(Generic[AnyRun]):
    """The rows of one role (or of both) in runs, largest first."""

    runs: list[AnyRun] = field(default_factory=list)
    unsorted: UnsortedRun | None = None
    held: int = 0
    dead: int = 0
    _merging: Merging[AnyRun] | None = None

    @staticmethod
    def of(run: AnyRun) -> Spine[AnyRun]:
        """A spine of one run, of living rows."""
        return Spine([run], held=len(run))

    def living(self, alive: U8) -> Slots:
        """The living rows of all parts. Complexity: O(rows)."""
        slots = np.concatenate([np.empty(0, dtype=np.int32), *(part.slots for part in self.parts)])
        living: Slots = slots[alive[slots] != 0]
        return living

    @property
    def parts(self) -> list[AnyRun | UnsortedRun]:
        """Everything that must be probed."""
        return [*self.runs] if self.unsorted is None else [*self.runs, self.unsorted]

    def append(self, run: AnyRun, alive: U8, build: Build[AnyRun]) -> None:
        """Add a run, and merge what is not much larger into it. Complexity: O(rows * log(held / rows)) amortised."""
        if self._merging is not None and self._merging.due(len(run)):
            self._take()
        self.runs.append(run)
        size, first = len(run), len(self.runs) - 1
        # while large runs are merged, those that come are merged among themselves as long as that is soon done
        fixed, most = (0, MOST_SLOTS) if self._merging is None else (self._merging.stop, BESIDE_FROM)
        while first > fixed and len(self.runs[first - 1]) < min(RATIO * size, most - size):
            first -= 1
            size += len(self.runs[first])
        if first < len(self.runs) - 1:
            self._merge(first, size, alive, build)

    def load(self, living: Slots, build: Build[AnyRun], wait: int) -> None:
        """Let many rows, at least one, into an empty spine beside the work, `loading` until `wait` others came."""
        self.held += living.size
        self._merging = Merging(build, living, 0, 0, wait)

    @property
    def loading(self) -> bool:
        """Whether rows that were loaded are not in any run yet."""
        return self._merging is not None and self._merging.stop == 0

    def squeeze(self, alive: U8, build: Build[AnyRun]) -> None:
        """Merge everything, where more rows were removed than are left."""
        if self.dead * 2 > self.held > SQUEEZED_FROM and self._merging is None:
            if self.unsorted is not None:
                self.runs.append(build(self.unsorted.slots))
                self.unsorted = None
            self._merge(0, self.held, alive, build)

    def settle(self, alive: U8, build: Build[AnyRun]) -> None:
        """Merge everything into one run of living rows, at once."""
        # rows that a run under way leaves out are no longer counted, and still in those it is made of
        anew, self._merging = self._merging is not None, None
        if self.unsorted is not None:
            self.runs.append(build(self.unsorted.slots))
            self.unsorted = None
        if self.runs and (anew or self.dead or len(self.runs) > 1):
            living = self._living(0, alive)
            self.runs = [build(living)] if living.size else []
            self.held, self.dead = living.size, 0

    def _merge(self, first: int, size: int, alive: U8, build: Build[AnyRun]) -> None:
        """Merge the runs from one on, which hold so many rows."""
        living = self._living(first, alive)
        if living.size and size >= BESIDE_FROM:
            self._merging = Merging(build, living, first, len(self.runs))
        else:
            self.runs[first:] = [build(living)] if living.size else []

    def _take(self) -> None:
        if self._merging is not None:
            self.runs[self._merging.start : self._merging.stop] = [self._merging.take()]
            self._merging = None

    def _living(self, first: int, alive: U8) -> Slots:
        """The rows of the runs from one on that live; the others are no longer counted."""
        slots = np.concatenate([run.slots for run in self.runs[first:]])
        living: Slots = slots[alive[slots] != 0]
        self.held -= slots.size - living.size
        self.dead = max(0, self.dead - (slots.size - living.size))
        return living
