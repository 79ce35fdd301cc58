"""Rows that order terms leave a chance of a partner, found in two passes before anything is sorted.

Most tables are mostly in order: of a million rows few have anybody above them in one column and below them in another.
`kernels/order_sieve.py` tells the others by the extremes of ranges; sorting and sweeping see what is left.
"""

from __future__ import annotations

import numpy as np

from holdstrue.index.order_screen import ScreenedRows
from holdstrue.index.protocol import Shape, Term
from holdstrue.kernels import order_sieve as kernels
from holdstrue.operators import BELOW, EQUAL
from holdstrue.typing import I32, I64, Mask

SIEVED_FROM = 1 << 14
"""Rows from which on it is worth the calls. Chosen, not tuned."""
MOST_CELLS = 1 << 20
"""Cells in all, of 16 bytes, which the groups share: a million rows of 52 groups left 53% with 2^17 of them, 20% with
2^20 and 1% with 2^21, which took three times as long, being twice what a cache holds."""
FEWEST_CELLS = 32
"""Cells a group below which they are too coarse to tell anything. Chosen, not tuned."""
SAMPLE = 1 << 11
"""Rows that say over which values cells are spread, and whether most rows are in order at all."""
TAIL = 10
"""Of those the rows at either end that share a range with all beyond them, so that odd values do not widen the rest."""


def with_chance(shape: Shape, rows: ScreenedRows, check: int, slots: I32) -> Mask | None:
    """Which rows may have a partner among the same rows; None where most have, or where it cannot be told cheaply.

    Complexity: O(rows).
    """
    ordered = [term for term in shape.terms if term.op.is_order][:2]
    if len(ordered) < 2 or slots.size < max(1, SIEVED_FROM):
        return None
    sample = slots[:: max(1, slots.size // SAMPLE)]
    sieve = _Sieve(rows, check, ordered, slots, sample)
    width = sieve.width(min(MOST_CELLS, slots.size))
    if width < FEWEST_CELLS or _mostly(sieve.left(sample, sieve.width(8 * sample.size))):
        return None
    left = sieve.left(slots, width)
    return None if _mostly(left) else left


class _Sieve:
    """One check's rows and terms, the values of which are cut into ranges as a sample has them."""

    def __init__(self, rows: ScreenedRows, check: int, ordered: list[Term[int]], slots: I32, sample: I32) -> None:
        t_groups, s_groups = rows.groups(check)
        sides = [t_groups[slots]] if t_groups is s_groups else [t_groups[slots], s_groups[slots]]
        self._rows = rows.roles[check], t_groups, s_groups, rows.every_code
        self._first = min(int(side.min()) for side in sides)
        self._groups = 1 + max(int(side.max()) for side in sides) - self._first
        self._terms = [_words(term) for term in ordered]
        self._ranges = [_range(words, rows.every_code, sample) for words in self._terms]

    def width(self, cells: int) -> int:
        """Of so many cells in all those of a group, a power of two."""
        return 1 << max(0, (cells // self._groups).bit_length() - 1)

    def left(self, slots: I32, width: int) -> Mask:
        """Which rows may have a partner among the same rows, told by so many cells a group."""
        told = self._cut(width), self._first, width
        cells = np.empty((self._groups * width, 2), dtype=np.int64)
        cells[:] = kernels.HIGHEST, kernels.LOWEST
        flat = cells.reshape(-1)
        kernels.note_extremes(slots, *self._rows, *told, flat)
        kernels.run_extremes(flat, width)
        out = np.empty(slots.size, dtype=np.bool_)
        kernels.may_have_partners(slots, *self._rows, *told, flat, out)
        return out

    def _cut(self, width: int) -> I64:
        """The terms as the kernels read them; values of the first fall into so many ranges."""
        first, second = zip(self._terms, self._ranges, strict=True)
        # values that have a range each are told apart exactly
        if second[1][1] < min(width, first[1][1]):
            first, second = second, first
        low, span = first[1]
        shift = max(0, span.bit_length() - (width.bit_length() - 1))
        return np.array([[*first[0], low, shift], [*second[0], 0, 0]], dtype=np.int64)


def _mostly(rows: Mask) -> bool:
    return bool(2 * np.count_nonzero(rows) > rows.size)


def _words(term: Term[int]) -> list[int]:
    """A term's columns, whether it is turned to read `s <= t`, and whether equal values do not satisfy it."""
    return [term.left, term.right, -1 if BELOW in term.op.outcomes else 0, int(EQUAL not in term.op.outcomes)]


def _range(words: list[int], codes: I64, sample: I32) -> tuple[int, int]:
    """Where the values of a term begin and how far they reach, without a few at either end."""
    values = np.sort(codes[words[kernels.RIGHT]][sample] ^ words[kernels.FLIP])
    tail = min(TAIL, (values.size - 1) // 2)
    low, high = int(values[tail]), int(values[-tail - 1])
    return low, high - low
