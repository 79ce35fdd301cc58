"""Sieves: which rows cannot be in a violation of a key or an FD, told without numbering groups.

Rows fall by a word that stands for their left side into buckets, more than there are rows. A bucket remembers whether
a second row fell into it (keys), or whether its rows have different right sides (FDs). Rows that agree on the left
side share a bucket, so the rows of every other bucket are in no violation; those of the buckets that are left are
looked at again, exactly. Tables of several threads are joined.
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.digest import mix
from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import U64, Mask

EMPTY, DIFFERING = np.uint64(0), np.uint64(1)
"""What a bucket of an FD holds beside right sides. A right side that is one of these makes its bucket differ, which is
never wrong: so right sides go through a bijection first, after which few are."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
_SPICE = np.uint64(0xA0761D6478BD642F)
_ONE, _TWO = np.uint64(1), np.uint64(2)
_LOW5 = np.uint64(31)
_S5 = np.uint64(5)


@inline
def _shift(buckets: int) -> np.uint64:
    """By how much a word is shifted to be the number of one of so many buckets, a power of two."""
    bits = 0
    while (1 << bits) < buckets:
        bits += 1
    return np.uint64(64 - bits)


@kernel
def extend_words(words: U64, values: U64) -> None:
    """Append one more value to the words that stand for tuples. Complexity: O(n).

    Of one value no two share a word; of several two may, which sieves allow.

    >>> words = np.zeros(3, dtype=np.uint64)
    >>> extend_words(words, np.array([4, 5, 4], dtype=np.uint64))
    >>> bool(words[0] == words[2]), bool(words[0] == words[1])
    (True, False)
    """
    for i in range(words.size):
        words[i] = mix(words[i] * _ODD + values[i])


@kernel
def note_repeats(words: U64, factor: np.uint64, cells: U64) -> None:
    """Note in each bucket (two bits, 32 in a cell) that a row fell into it, and that a second did. Complexity: O(n)."""
    shift = _shift(cells.size * 32)
    for i in range(words.size):
        at = (words[i] * factor) >> shift
        bit = (at & _LOW5) * _TWO
        cell = cells[at >> _S5]
        cells[at >> _S5] = cell | ((_ONE + _TWO * ((cell >> bit) & _ONE)) << bit)


@kernel
def repeated(words: U64, factor: np.uint64, cells: U64, out: Mask) -> None:
    """Which rows share their bucket with another. Complexity: O(n).

    Examples
    --------
    Rows with the words 1, 2 and 1 again, in the 64 buckets of two cells:

    >>> words, cells = np.array([1, 2, 1], dtype=np.uint64), np.zeros(2, dtype=np.uint64)
    >>> factor, out = np.uint64(0x9E3779B97F4A7C15), np.empty(3, dtype=np.bool_)
    >>> note_repeats(words, factor, cells)
    >>> repeated(words, factor, cells, out)
    >>> out.tolist()
    [True, False, True]
    """
    shift = _shift(cells.size * 32)
    for i in range(words.size):
        at = (words[i] * factor) >> shift
        out[i] = (cells[at >> _S5] >> ((at & _LOW5) * _TWO + _ONE)) & _ONE != 0


@kernel
def join_repeats(cells: U64, others: U64) -> None:
    """Bring what other rows noted into the same buckets: one of each are two. Complexity: O(cells)."""
    once = np.uint64(0x5555555555555555)
    for i in range(cells.size):
        cells[i] |= others[i] | ((cells[i] & others[i] & once) << _ONE)


@kernel
def note_differing(words: U64, values: U64, known: Mask, factor: np.uint64, cells: U64) -> None:
    """Note in each bucket the right side of its rows, or that they differ; unknown right sides do not count.

    `known` is empty where all are. Complexity: O(n).
    """
    shift = _shift(cells.size)
    for i in range(words.size):
        if known.size > 0 and not known[i]:
            continue
        value = (values[i] ^ _SPICE) * _ODD
        at = (words[i] * factor) >> shift
        cell = cells[at]
        if cell == EMPTY:
            cells[at] = value if value != EMPTY else DIFFERING
        elif cell != value:
            cells[at] = DIFFERING


@kernel
def differing(words: U64, factor: np.uint64, cells: U64, out: Mask) -> None:
    """Add to `out` the rows of buckets whose right sides differ. Complexity: O(n).

    Examples
    --------
    zip -> city of (1, 7), (2, 7), (1, 8), (2, 7):

    >>> words, cities = np.array([1, 2, 1, 2], dtype=np.uint64), np.array([7, 7, 8, 7], dtype=np.uint64)
    >>> factor, cells, out = np.uint64(0x9E3779B97F4A7C15), np.zeros(64, np.uint64), np.zeros(4, np.bool_)
    >>> note_differing(words, cities, np.empty(0, np.bool_), factor, cells)
    >>> differing(words, factor, cells, out)
    >>> out.tolist()
    [True, False, True, False]
    """
    shift = _shift(cells.size)
    for i in range(words.size):
        if cells[(words[i] * factor) >> shift] == DIFFERING:
            out[i] = True


@kernel
def join_differing(cells: U64, others: U64) -> None:
    """Bring what other rows noted into the same buckets. Complexity: O(cells)."""
    for i in range(cells.size):
        if cells[i] == EMPTY:
            cells[i] = others[i]
        elif others[i] != EMPTY and others[i] != cells[i]:
            cells[i] = DIFFERING
