"""Rows by the values of their equality columns: the group each row belongs to, and the rows in each group.

One grouping serves every rule that equates the same columns. A rule that equates different columns
of its two rows (`t.origin = s.destination`) gives each row two groups, one for each role, in one
numbering. Memory: 4 bytes a row and role, and the numbering's bytes a distinct group; for the lists
4 bytes a row and 4 a group, from the first time rows are asked for.
"""

from __future__ import annotations

import numpy as np

from holdstrue.index.arrays import Numbering, Snapshot, nested, room, with_slack
from holdstrue.index.checked import Checked
from holdstrue.kernels import groups as kernels
from holdstrue.typing import I32, U64, Mask


class Grouping:
    """Groups of rows by slot; `two_sided` when the two roles of a rule equate different columns.

    Examples
    --------
    Five rows by a key of one word each; the last has NULL there:

    >>> words = np.array([7, 9, 7, 7, 0], dtype=np.uint64)
    >>> grouping = Grouping()
    >>> grouping.insert(0, (np.zeros(5, np.uint64), words, np.array([True, True, True, True, False])))
    >>> grouping.t_groups[:5].tolist(), len(grouping)
    ([0, 1, 0, 0, -1], 2)
    """

    def __init__(self, *, two_sided: bool = False) -> None:
        self.two_sided = two_sided
        self._numbers = Numbering()
        self.t_groups = np.full(64, -1, dtype=np.int32)
        """By slot: the group of the row as t, -1 when an equality column is NULL."""
        self.s_groups = np.full(64, -1, dtype=np.int32) if two_sided else self.t_groups
        """By slot: the group of the row as s."""

    def __len__(self) -> int:
        return len(self._numbers)

    def insert(self, first: int, t_key: tuple[U64, U64, Mask], s_key: tuple[U64, U64, Mask] | None = None) -> None:
        """Give rows `first, first + 1, ...` their groups. Complexity: O(rows) expected."""
        end = first + t_key[0].size
        self.t_groups = room(self.t_groups, end, fill=-1)
        self.t_groups[first:end] = self._numbers.assign(*t_key)
        if self.two_sided:
            if s_key is None:
                raise ValueError("a two-sided grouping needs both keys")
            self.s_groups = room(self.s_groups, end, fill=-1)
            self.s_groups[first:end] = self._numbers.assign(*s_key)
        else:
            self.s_groups = self.t_groups

    def place(self, slots: I32, rows: int, key: tuple[U64, U64, Mask]) -> None:
        """Give some of so many rows their groups; the others have none. Complexity: O(rows)."""
        self.t_groups = np.full(rows, -1, dtype=np.int32)
        self.t_groups[slots] = self._numbers.assign(*key)
        self.s_groups = self.t_groups

    def reserve(self, rows: int, more: int = 1) -> None:
        """Make room for rows in so many slots, and for the groups of so many more."""
        self._numbers.reserve(2 * more if self.two_sided else more)
        self.t_groups = room(self.t_groups, rows, fill=-1)
        self.s_groups = room(self.s_groups, rows, fill=-1) if self.two_sided else self.t_groups

    @property
    def numbers(self) -> Numbering:
        """The numbers of the groups."""
        return self._numbers

    def size_bytes(self) -> int:
        """Memory held."""
        sides = self.t_groups.nbytes + (self.s_groups.nbytes if self.two_sided else 0)
        return self._numbers.size_bytes() + sides

    def snapshot(self, rows: int) -> Snapshot:
        """The arrays that make up the state of the first `rows` slots."""
        arrays: Snapshot = nested("numbers", self._numbers.snapshot())
        arrays["t"] = with_slack(self.t_groups, rows, fill=-1)
        if self.two_sided:
            arrays["s"] = with_slack(self.s_groups, rows, fill=-1)
        return arrays

    def restore(self, arrays: Checked, rows: int) -> None:
        """Take over the arrays of a snapshot of so many slots."""
        self._numbers.restore(arrays.part("numbers"))
        self.t_groups = arrays.index("t", -1, len(self) - 1, rows)
        self.s_groups = arrays.index("s", -1, len(self) - 1, rows) if self.two_sided else self.t_groups


class RowLists:
    """Linked lists of slots, extended when they are read; no state holds them, as the numbers of the rows tell them.

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

    def retract(self, slot: int, number: int) -> None:
        """Forget the last slot, which has this number (-1: none)."""
        if self._listed > slot:
            self._listed = slot
            if number >= 0:
                self._head[number] = self._next[slot]

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
