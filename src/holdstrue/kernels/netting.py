"""What a batch does to the rows there are, where every key of it changes once."""

from __future__ import annotations

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I32, U8

INSERT, UPDATE, DELETE, UPSERT = range(4)
"""As in `data/changes.py`, which a test holds equal."""

REFUSE, MAKE_FIT, SKIP = range(3)
"""What becomes of an insert whose row is there, and of an update or delete whose row is not."""


@kernel
def net_once(ops: U8, slots: I32, conflicts: int, came: I32, went: I32) -> tuple[int, int, int]:
    """Which changes bring a row and which take one along, given the slots their rows have now (-1: none).

    Returns the first change that does not fit where such are refused (-1: none), and how many are written to `came`
    and `went`. Complexity: O(changes).

    Examples
    --------
    >>> import numpy as np

    An insert, an update of the row at slot 7, a delete of the one at slot 5, a delete of nothing, which is skipped:

    >>> ops, slots = np.array([0, 1, 2, 2], np.uint8), np.array([-1, 7, 5, -1], np.int32)
    >>> came, went = np.empty(4, np.int32), np.empty(4, np.int32)
    >>> net_once(ops, slots, SKIP, came, went), came[:2].tolist(), went[:2].tolist()
    ((-1, 2, 2), [0, 1], [1, 2])
    >>> net_once(ops, slots, REFUSE, came, went)[0]
    3
    """
    coming, going = 0, 0
    for i in range(ops.size):
        op = ops[i]
        there = slots[i] >= 0
        if op != UPSERT and there == (op == INSERT):
            if conflicts == REFUSE:
                return i, coming, going
            if conflicts == SKIP or op == DELETE:
                continue
        if op != DELETE:
            came[coming] = i
            coming += 1
        if there:
            went[going] = i
            going += 1
    return -1, coming, going


@kernel
def by_slot(slots: I32, went: I32, place: I32, ordered: I32) -> None:
    """Order the changes that take rows along by the slots of these; `place` is -1 at every slot.

    Complexity: O(slots).

    >>> import numpy as np
    >>> slots, went = np.array([7, -1, 2, 5], np.int32), np.array([0, 2, 3], np.int32)
    >>> place, ordered = np.full(8, -1, np.int32), np.empty(3, np.int32)
    >>> by_slot(slots, went, place, ordered)
    >>> ordered.tolist()
    [2, 3, 0]
    """
    for i in range(went.size):
        place[slots[went[i]]] = went[i]
    found = 0
    for slot in range(place.size):
        if place[slot] >= 0:
            ordered[found] = place[slot]
            found += 1
