"""Rows by number: for each group (or kind) the rows in it, newest first.

Removed rows stay in their list until the next rebuild; readers skip them. Memory: 4 bytes a row and
4 a number, from the first time rows are asked for.
"""

from __future__ import annotations

import numpy as np

from holdstrue.index.arrays import room, with_slack
from holdstrue.index.numbering import Snapshot
from holdstrue.kernels import groups as kernels
from holdstrue.typing import I32


class RowLists:
    """Linked lists of slots, extended when they are read.

    Examples
    --------
    >>> lists = RowLists()
    >>> head, following = lists.upto(np.array([0, 1, 0, 0, -1], dtype=np.int32), distinct=2, rows=5)
    >>> lists.read(0).tolist(), lists.read(1).tolist()
    ([0, 2, 3], [1])
    """

    def __init__(self) -> None:
        self._head = np.full(0, -1, dtype=np.int32)
        self._next = np.full(0, -1, dtype=np.int32)
        self._listed = 0

    def upto(self, numbers: I32, distinct: int, rows: int) -> tuple[I32, I32]:
        """First slot by number and next slot by slot, for slots below `rows` with these numbers.

        Complexity: O(slots that came since the last call).
        """
        self._head = room(self._head, distinct, fill=-1)
        if self._listed < rows:
            self._next = room(self._next, rows, fill=-1)
            kernels.chain_rows(numbers[self._listed : rows], self._listed, self._head, self._next)
            self._listed = rows
        return self._head, self._next

    def read(self, number: int) -> I32:
        """Slots with this number in slot order, removed ones included; `upto` was called before."""
        slots = []
        slot = int(self._head[number])
        while slot >= 0:
            slots.append(slot)
            slot = int(self._next[slot])
        return np.array(slots[::-1], dtype=np.int32)

    def size_bytes(self) -> int:
        """Memory held."""
        return self._head.nbytes + self._next.nbytes

    def snapshot(self, distinct: int) -> Snapshot:
        """The arrays that make up the state; empty when rows were never asked for."""
        return {
            "head": with_slack(self._head, min(distinct, self._head.size), fill=-1) if self._listed else self._head,
            "next": with_slack(self._next, self._listed, fill=-1) if self._listed else self._next,
            "listed": np.array([self._listed], dtype=np.int64),
        }

    def restore(self, arrays: Snapshot) -> None:
        """Take over the arrays of a snapshot."""
        self._head, self._next = arrays["head"], arrays["next"]
        self._listed = int(arrays["listed"][0])
