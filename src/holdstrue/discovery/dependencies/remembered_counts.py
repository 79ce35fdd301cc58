"""Counts of left sides that outlive a batch: a row that comes or goes moves each of them by no more than is known.

A row that comes takes at most one more row to mend a dependency, and brings no more broken pairs than there are other
rows; one that goes likewise. So a count is known within bounds after every batch. Most left sides are broken far more
often than is allowed, or far less: only those whose bounds have the limit between them are counted anew. Counting ends
some way beyond the limit, so that it takes some batches until that is needed.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from holdstrue.discovery.dependencies.limited_search import NO_LIMIT
from holdstrue.discovery.dependencies.validation import Validator
from holdstrue.discovery.work import Work
from holdstrue.kernels.partitions import SURPLUS
from holdstrue.typing import I32, I64, U64, Mask

BEYOND = 4
"""Counting ends where a left side is broken by a part of the limit more than is allowed: this is the divisor."""

BEYOND_ROWS = 64
"""Rows (or pairs for each row) that are added to that, for limits of a few. Chosen, not tuned."""

MOST_KEPT = 200_000
"""Counts that are remembered: 40 MB. Chosen, not tuned."""

SCOUTS = 1 << 15
"""Rows of a part of the table on which left sides are counted first, as where nothing is remembered."""

Bounds: TypeAlias = tuple[int, int]
"""At least and at most, as they were before anything moved."""


class RememberedCounts:
    """By dependency how often it is broken, in one of the two measures.

    Memory: some 200 bytes a dependency that was looked at.

    Examples
    --------
    >>> counts = RememberedCounts(SURPLUS)
    >>> sets, targets = np.array([[1], [2]], dtype=np.uint64), np.array([0, 0])
    >>> counts.learn(sets, targets, np.array([5, 90]), np.array([True, False]))
    >>> counts.moved(2, 10, 100)
    >>> [bounds.tolist() for bounds in counts.bounds(sets, targets)]
    [[3, 88], [15, 4611686018427387904]]
    """

    def __init__(self, place: int) -> None:
        self.place = place
        self._known: dict[tuple[int, bytes], Bounds] = {}
        self._down, self._up = 0, 0

    def __len__(self) -> int:
        return len(self._known)

    def moved(self, removed: int, added: int, rows: int) -> None:
        """Rows went and came, of at most so many at any time. Complexity: O(1)."""
        a_row = 1 if self.place == SURPLUS else rows
        self._down += removed * a_row
        self._up += added * a_row

    def learn(self, sets: U64, targets: I64, counts: I64, exact: Mask) -> None:
        """Counts, of which some are exact, and the others the least there is."""
        if len(self._known) + len(sets) > MOST_KEPT:
            self._known = {}
        for line, target, count, whole in zip(sets, targets.tolist(), counts.tolist(), exact.tolist(), strict=True):
            self._known[target, line.tobytes()] = count + self._down, count - self._up if whole else NO_LIMIT

    def bounds(self, sets: U64, targets: I64) -> tuple[I64, I64]:
        """The least and the most that breaks each dependency now; 0 and `NO_LIMIT` where nothing is known."""
        nothing = self._down, NO_LIMIT
        found = [
            self._known.get((target, line.tobytes()), nothing)
            for line, target in zip(sets, targets.tolist(), strict=True)
        ]
        least, most = np.array(found, dtype=np.int64).reshape(-1, 2).T
        return np.maximum(0, least - self._down), np.where(most == NO_LIMIT, NO_LIMIT, most + self._up)

    def size_bytes(self) -> int:
        """Memory held, about."""
        return 200 * len(self._known)


class RememberingWeigher:
    """A validator that counts only what is not known well enough; it tells `within` which side of the limit.

    Counts of what is within the limit are exact or the least there is: `exactly` counts those that are told.
    """

    def __init__(self, validator: Validator, known: RememberedCounts) -> None:
        self._validator, self._known = validator, known
        self._scout = validator.scout(SCOUTS)
        self.counted = 0
        """Dependencies that were counted on the rows."""
        self._now: dict[tuple[int, bytes], I64] = {}
        """All counts of what was counted to the end just now, and is within the limit."""

    @property
    def work(self) -> Work:
        """Time and threads."""
        return self._validator.work

    @property
    def order(self) -> I32:
        """Columns by rank, the most selective first."""
        return self._validator.order

    def scout(self, rows: int) -> Validator | None:
        """None: a part of the rows is looked at here, for what is not known."""
        return None

    def weigh(self, sets: U64, targets: I64, limits: I64) -> tuple[I64, Mask]:
        """Counts on the right side of the limit, and which were known or counted in time."""
        place = self._known.place
        limit = int(limits[place])
        counts = np.zeros((sets.shape[0], 4), dtype=np.int64)
        done = np.ones(sets.shape[0], dtype=np.bool_)
        least, most = self._known.bounds(sets, targets)
        counts[:, place] = least
        doubtful = np.flatnonzero((least <= limit) & (most > limit))
        self.counted += doubtful.size
        further = limits.copy()
        further[place] = limit + limit // BEYOND + BEYOND_ROWS
        if doubtful.size and self._scout is not None:
            counts[doubtful], done[doubtful] = self._count(self._scout, sets[doubtful], targets[doubtful], further)
            doubtful = doubtful[done[doubtful] & (counts[doubtful, place] <= limit)]
        if doubtful.size:
            some = sets[doubtful]
            counts[doubtful], done[doubtful] = self._count(self._validator, some, targets[doubtful], further)
        return counts, done

    def _count(self, validator: Validator, sets: U64, targets: I64, further: I64) -> tuple[I64, Mask]:
        place = self._known.place
        counts, done = validator.weigh(np.ascontiguousarray(sets), targets, further)
        exact = done & (counts[:, place] <= further[place]) & (validator is self._validator)
        self._known.learn(sets[done], targets[done], counts[done, place], exact[done])
        self._now |= {(int(targets[at]), sets[at].tobytes()): counts[at] for at in np.flatnonzero(exact).tolist()}
        return counts, done

    def exactly(self, sets: U64, targets: I64) -> tuple[I64, Mask]:
        """All counts of some dependencies, and which there was time for."""
        counts, done = np.zeros((sets.shape[0], 4), dtype=np.int64), np.ones(sets.shape[0], dtype=np.bool_)
        unknown = []
        for at, (line, target) in enumerate(zip(sets, targets.tolist(), strict=True)):
            known = self._now.get((target, line.tobytes()))
            if known is None:
                unknown.append(at)
            else:
                counts[at] = known
        if unknown:
            limits = np.array([NO_LIMIT, NO_LIMIT], dtype=np.int64)
            counts[unknown], done[unknown] = self._validator.weigh(sets[unknown], targets[unknown], limits)
            self.counted += len(unknown)
        return counts, done
