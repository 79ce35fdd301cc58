"""A larger hash table of numbered keys, filled in a thread while the smaller one is in use."""

from __future__ import annotations

import threading
from contextlib import suppress

import numpy as np

from holdstrue.kernels import hashing
from holdstrue.typing import U64


class Rehashing:
    """Cells for keys that are numbered already; those that come meanwhile are added when it is taken.

    Keys are only ever appended, so that what the thread reads stays, also where the arrays are replaced by longer ones.
    The cells are those that a table filled at once would have.

    Examples
    --------
    >>> hi, lo = np.zeros(3, dtype=np.uint64), np.array([7, 9, 8], dtype=np.uint64)
    >>> int(np.count_nonzero(Rehashing(hi, lo, 2, 8).take(hi, lo, 3)))
    3
    """

    def __init__(self, hi: U64, lo: U64, used: int, size: int) -> None:
        self.size = size
        self._keys, self._used = (hi, lo), used
        self._cells: U64 | None = None
        self._thread: threading.Thread | None = threading.Thread(
            target=self._work, name="holdstrue-rehash", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError:  # no thread can be had: who takes the cells fills them
            self._thread = None

    def _work(self) -> None:
        with suppress(MemoryError):  # who takes the cells tries again, and may fail
            cells = np.zeros(self.size, dtype=np.uint64)
            hashing.rehash(cells, *self._keys, 0, self._used)
            self._cells = cells

    def take(self, hi: U64, lo: U64, used: int) -> U64:
        """The cells of so many keys. Complexity: O(keys that came meanwhile), where the thread is done."""
        if self._thread is not None:
            self._thread.join()
        # in a process that was forked meanwhile the thread has come to nothing
        cells, first = self._cells, self._used
        if cells is None or used < first:
            cells, first = np.zeros(self.size, dtype=np.uint64), 0
        hashing.rehash(cells, hi, lo, first, used)
        return cells
