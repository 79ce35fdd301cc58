"""The arrays that indexes are made of: how they grow, how a state holds them, and keys numbered in them."""

from __future__ import annotations

import itertools
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdstrue.index.checked import Checked
from holdstrue.index.rehashing import Rehashing
from holdstrue.kernels import bounds, hashing
from holdstrue.typing import I32, U64, Mask

Array = TypeVar("Array", bound=NDArray[Any])

GROWTH = 1.5
"""A grown array has this much room: copying stays below two writes a row at two thirds mean filling."""

SLACK = 16
"""What is loaded or kept in a snapshot has room for a sixteenth more rows, so that it takes changes without being
copied."""

_STEPS = 8
turns = itertools.cycle(range(_STEPS))
"""For structures that hold as many rows as others: each takes one, so that they do not grow in the same batch."""
STAGGERED_FROM = 1 << 16
"""Entries from which on the arrays of a structure get up to an eighth more room by its turn. Of a million rows and four
rules a batch waited 170 ms where all grew, and 40 for the largest. Arrays that kernels walk side by side have one
turn, so that those which start alike stay alike."""


def _with_room(needed: int, size: int, turn: int) -> int:
    """How many entries an array that has `size` gets, to hold `needed`."""
    wanted = max(needed + needed // SLACK, int(size * GROWTH) + 16)
    return wanted if wanted < STAGGERED_FROM else wanted + wanted * turn // (_STEPS * _STEPS)


def room(
    array: Array, needed: int, *, fill: int | None = None, axis: int = 0, times: float = 1.0, turn: int = 0
) -> Array:
    """`array` itself when it holds `needed` entries along `axis`, else a larger copy (new entries = `fill`).

    Where it is long, `times` as much room is made, of which only what is written to takes memory, and more by the
    `turn` of its structure.

    >>> room(np.array([3, 4]), 3, fill=-1)[:4].tolist()
    [3, 4, -1, -1]
    """
    size = array.shape[axis]
    if needed <= size:
        return array
    shape = list(array.shape)
    shape[axis] = _with_room(needed, size, turn)
    if fill is None and shape[axis] >= STAGGERED_FROM:
        shape[axis] = int(shape[axis] * times)
    # zeros that nobody touches take no memory
    larger = np.zeros(shape, dtype=array.dtype) if fill == 0 else np.empty(shape, dtype=array.dtype)
    if fill:
        larger[(slice(None),) * axis + (slice(size, None),)] = fill
    larger[(slice(None),) * axis + (slice(0, size),)] = array
    return larger  # type: ignore[return-value]


def with_slack(array: Array, used: int, *, fill: int = 0, axis: int = 0, turn: int = 0) -> Array:
    """The first `used` entries and some room, for a snapshot."""
    wanted = _with_room(used, 0, turn) + 1024
    before = (slice(None),) * axis
    if array.shape[axis] >= wanted:
        return array[(*before, slice(0, wanted))]  # type: ignore[return-value]
    shape = list(array.shape)
    shape[axis] = wanted
    padded = np.full(shape, fill, dtype=array.dtype)
    padded[(*before, slice(0, used))] = array[(*before, slice(0, used))]
    return padded  # type: ignore[return-value]


class _Same:
    """Views of one array of equal values: making a new one for each small batch would cost more than using it."""

    def __init__(self, value: int, dtype: type[np.generic]) -> None:
        self._value, self._dtype = value, dtype
        self._array = np.full(1024, value, dtype=dtype)

    def __call__(self, size: int) -> NDArray[Any]:
        array = self._array  # other threads may put another one in its place
        if size > array.size:
            self._array = array = np.full(2 * size, self._value, dtype=self._dtype)
        return array[:size]


all_true = _Same(1, np.bool_)
"""A mask that is true everywhere; never written to."""

no_slots = _Same(-1, np.int32)
"""Slots that are all -1; never written to."""


Snapshot: TypeAlias = dict[str, NDArray[Any]]
"""The arrays that make up the state of a structure, by name."""

_SMALLEST = 64

MOST_SLOTS = 2**31 - 1
"""Rows, groups and kinds are numbered by 32 bits."""

BESIDE_FROM = 1 << 19
"""Cells from which on a larger hash table is filled beside the work: a batch waits 15 ms for the keys of so many, and
74 for two million keys."""
EARLY = 0.9
"""It is begun when the cells in use are so full, and small batches come: a whole table that is loaded needs none. The
tenth that is left of a million keys are a hundred batches of a thousand, of some milliseconds each."""

FIRST_PART = 1 << 15
"""Rows of a batch that are numbered before it is guessed how many new keys the rest brings."""


KNOWN = 1 / 16
"""Where fewer keys of the last part were new, those of the next are looked up first: room for as many new ones as there
are rows would have a hash table made larger for nothing."""


class Numbering:
    """Keys of two 64-bit words, numbered in the order of their first appearance.

    Examples
    --------
    >>> numbers = Numbering()
    >>> hi = np.zeros(3, dtype=np.uint64); lo = np.array([7, 9, 7], dtype=np.uint64)
    >>> numbers.assign(hi, lo, np.ones(3, dtype=bool)).tolist(), len(numbers)
    ([0, 1, 0], 2)
    """

    def __init__(self) -> None:
        self._cells = np.zeros(_SMALLEST, dtype=np.uint64)
        self.hi = np.empty(_SMALLEST, dtype=np.uint64)
        """By number the first word of the key."""
        self.lo = np.empty(_SMALLEST, dtype=np.uint64)
        """By number the second word of the key."""
        self.count = np.zeros(1, dtype=np.int64)
        """How many keys there are, where kernels can write it."""
        self._turn = next(turns)
        self._beside: Rehashing | None = None
        """The next hash table, where this one is nearly full."""

    @property
    def _used(self) -> int:
        return int(self.count[0])

    @_used.setter
    def _used(self, keys: int) -> None:
        self.count[0] = keys

    def __len__(self) -> int:
        return self._used

    def assign(self, hi: U64, lo: U64, member: Mask) -> I32:
        """Numbers of the members' keys, new ones for new keys; -1 for the others. Complexity: O(n) expected."""
        return self.assign_new(hi, lo, member)[0]

    def assign_new(self, hi: U64, lo: U64, member: Mask) -> tuple[I32, I32]:
        """The same, and the row in which each new key came first."""
        size = hi.size
        out = np.empty(size, dtype=np.int32)
        if size <= FIRST_PART:
            self._reserve(self._used + size)
            origin = np.empty(size, dtype=np.int32)
            before = self._used
            self._used = hashing.find_or_add(self._cells, self.hi, self.lo, before, hi, lo, member, out, origin)
            self._look_ahead()
            return out, origin[: self._used - before]
        origins: list[I32] = []
        start, fresh = 0, 1.0
        while start < size:
            # a large batch goes in parts: how many keys of a part are new tells how many to make room for
            end = min(start + (max(FIRST_PART, len(self)) if start else FIRST_PART), size)
            part = slice(start, end)
            among, wanted = member[part], end - start
            if fresh < KNOWN:
                out[part] = self.find(hi[part], lo[part], among)
                among = among & (out[part] < 0)
                wanted = int(np.count_nonzero(among))
            if wanted:
                before = self._used
                self._reserve(before + wanted + int((fresh if start else 0.0) * (size - end)))
                origin, numbers = np.empty((2, end - start), dtype=np.int32)
                self._used = hashing.find_or_add(
                    self._cells, self.hi, self.lo, before, hi[part], lo[part], among, numbers, origin
                )
                out[part] = numbers if fresh >= KNOWN else np.where(among, numbers, out[part])
                origins.append(origin[: self._used - before] + np.int32(start))
                fresh = (self._used - before) / (end - start)
            start = end
        return out, np.concatenate(origins)

    def find(self, hi: U64, lo: U64, member: Mask) -> I32:
        """Numbers of known keys, -1 for unknown ones and non-members. Complexity: O(n) expected."""
        out = np.empty(hi.size, dtype=np.int32)
        hashing.find(self._cells, self.hi, self.lo, hi, lo, member, out)
        return out

    def keys(self) -> tuple[U64, U64]:
        """The keys in the order of their numbers; views that last until the next key is added."""
        return self.hi[: self._used], self.lo[: self._used]

    def reserve(self, more: int) -> None:
        """Make room for so many more keys."""
        self._reserve(self._used + more)
        self._look_ahead()

    @property
    def cells(self) -> U64:
        """The hash table (see `kernels/hashing.py`)."""
        return self._cells

    def _reserve(self, keys: int) -> None:
        self.hi = room(self.hi, keys)
        self.lo = room(self.lo, keys)
        size = self._cells.size
        if keys > self._most(size):
            while keys > self._most(size):
                size *= 2
            beside, self._beside = self._beside, None
            if beside is not None and beside.size >= size:
                self._cells = beside.take(self.hi, self.lo, self._used)
            else:
                self._cells = np.zeros(size, dtype=np.uint64)
                hashing.rehash(self._cells, self.hi, self.lo, 0, self._used)

    def _look_ahead(self) -> None:
        """Have the next hash table filled beside the work, where this one is nearly full."""
        size = self._cells.size
        if self._beside is None and size >= BESIDE_FROM and self._used > self._most(size) * EARLY:
            self._beside = Rehashing(self.hi, self.lo, self._used, 2 * size)

    def _most(self, cells: int) -> int:
        """Keys that so many cells may hold: three quarters, and of large tables up to a ninth less, by turn.

        Numberings of a million keys, which a batch waits 30 ms for, would else be made larger in the same batch.
        """
        return cells * 3 // 4 - (0 if cells < STAGGERED_FROM else cells * self._turn // (_STEPS * _STEPS))

    def size_bytes(self) -> int:
        """Memory held."""
        return self._cells.nbytes + self.hi.nbytes + self.lo.nbytes

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        return {
            "cells": self._cells,
            "hi": with_slack(self.hi, self._used),
            "lo": with_slack(self.lo, self._used),
            "used": np.array([self._used], dtype=np.int64),
        }

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot (they will be written to). Complexity: O(cells)."""
        [used] = arrays.few("used", 0, MOST_SLOTS, 1)
        if "cells" not in arrays:
            # a packed state leaves out what follows from the keys
            self.hi, self.lo = (arrays.array(name, np.uint64, (used,), grows=0) for name in ("hi", "lo"))
            self._cells, self._used, self._beside = np.zeros(_SMALLEST, dtype=np.uint64), 0, None
            self._reserve(used)
            hashing.rehash(self._cells, self.hi, self.lo, 0, used)
            self._used = used
            return
        cells = arrays.array("cells", np.uint64, (_SMALLEST,), grows=0)
        # a search ends at a free cell, and starts where a mask of bits says
        roomy = cells.size.bit_count() == 1 and used * 4 <= cells.size * 3
        arrays.require(roomy, f"{cells.size} cells for {used} keys")
        arrays.require(bounds.filled(cells, used) == used, f"its cells do not hold the numbers below {used}")
        self.hi, self.lo = (arrays.array(name, np.uint64, (used,), grows=0) for name in ("hi", "lo"))
        self._cells, self._used, self._beside = cells, used, None


def nested(prefix: str, arrays: Snapshot) -> Snapshot:
    """A part's arrays under names of their own in the whole's snapshot."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}
