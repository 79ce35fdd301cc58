"""A hash table from keys of 128 bits to the slots of their living rows, in 8 bytes a cell and 8 a slot.

Open addressing with linear probing over any number of cells. A cell holds `slot + 1` in its upper half and 32 bits of
the key's first word in the lower; 0 is empty, GONE a key that went. The second word lies by slot, so that a cell's key
is known by 96 bits, and larger tables are filled without the keys.

Three rows, of which the second goes:

>>> import numpy as np
>>> hi, lo = np.array([5, 6, 7], np.uint64) << np.uint64(32), np.array([50, 60, 70], np.uint64)
>>> cells, words = np.zeros(5, np.uint64), lo.copy()
>>> place_slots(cells, hi, lo, 0), find_slots(cells, words, hi, lo, out := np.empty(3, np.int32)), out.tolist()
(None, None, [0, 1, 2])
>>> drop_slots(cells, words, hi[1:2], lo[1:2]), find_slots(cells, words, hi, lo, out), out.tolist()
(None, None, [0, -1, 2])
>>> larger = np.zeros(8, np.uint64)
>>> move_slots(cells, words, larger, 0, 5), find_slots(larger, words, hi, lo, out), out.tolist()
(None, None, [0, -1, 2])
>>> find_slots(cells, words, hi, lo, out), out.tolist()
(None, [-1, -1, -1])
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.digest import mix
from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I32, U64

GONE = np.uint64(0xFFFFFFFF00000000)
_S32 = np.uint64(32)
_TAG = np.uint64(0xFFFFFFFF)


@inline
def _home(lo: np.uint64, cells: int) -> np.int64:
    """Where the search for a key begins."""
    return np.int64(((mix(lo) >> _S32) * np.uint64(cells)) >> _S32)


@inline
def _next(at: np.int64, cells: int) -> np.int64:
    return at + np.int64(1) if at + 1 < cells else np.int64(0)


@kernel
def place_slots(cells: U64, hi: U64, lo: U64, first: int) -> None:
    """Put the keys of slots `first, first + 1, ...` in, which are not there. Complexity: O(keys) expected."""
    for i in range(hi.size):
        at = _home(lo[i], cells.size)
        while cells[at] != 0:
            at = _next(at, cells.size)
        cells[at] = (np.uint64(first + i + 1) << _S32) | (hi[i] >> _S32)


@kernel
def find_slots(cells: U64, words: U64, hi: U64, lo: U64, out: I32) -> None:
    """The slots of keys, -1 for those that are not there. Complexity: O(keys) expected."""
    for i in range(hi.size):
        out[i] = -1
        tag = hi[i] >> _S32
        at = _home(lo[i], cells.size)
        while cells[at] != 0:
            cell = cells[at]
            if cell & _TAG == tag and cell < GONE:
                slot = np.int64(cell >> _S32) - 1
                if words[slot] == lo[i]:
                    out[i] = slot
                    break
            at = _next(at, cells.size)


@kernel
def drop_slots(cells: U64, words: U64, hi: U64, lo: U64) -> None:
    """Take keys out, as far as they are there. Complexity: O(keys) expected."""
    for i in range(hi.size):
        tag = hi[i] >> _S32
        at = _home(lo[i], cells.size)
        while cells[at] != 0:
            cell = cells[at]
            if cell & _TAG == tag and cell < GONE and words[np.int64(cell >> _S32) - 1] == lo[i]:
                cells[at] = GONE
                break
            at = _next(at, cells.size)


@kernel
def move_slots(cells: U64, words: U64, larger: U64, start: int, end: int) -> None:
    """Move the keys of some cells to a larger table; here they are gone. Complexity: O(cells) expected."""
    for i in range(start, end):
        cell = cells[i]
        if cell == 0 or cell >= GONE:
            continue
        at = _home(words[np.int64(cell >> _S32) - 1], larger.size)
        while larger[at] != 0:
            at = _next(at, larger.size)
        larger[at] = cell
        cells[i] = GONE
