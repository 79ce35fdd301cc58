"""Sets of small numbers (columns, atoms) as rows of 64-bit words: their members, and which rows are among others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from holdstrue.typing import U64


def set_of(numbers: Iterable[int], words: int) -> U64:
    """A set of numbers in so many words.

    Examples
    --------
    >>> members(set_of([3, 64], 2))
    [3, 64]
    """
    found = [0] * words
    for number in numbers:
        found[number >> 6] |= 1 << (number & 63)
    return np.array(found, dtype=np.uint64)


def members(words: U64) -> list[int]:
    """The numbers in a set, ascending."""
    found = []
    for at, word in enumerate(words.tolist()):
        rest = word
        while rest:
            found.append(64 * at + (rest & -rest).bit_length() - 1)
            rest &= rest - 1
    return found


def without(rows: U64, others: U64) -> U64:
    """Rows that are not among the others, in their order.

    Examples
    --------
    >>> rows = np.array([[1], [2], [3]], dtype=np.uint64)
    >>> without(rows, rows[1:2]).ravel().tolist()
    [1, 3]
    """
    if not rows.shape[0] or not others.shape[0]:
        return rows
    return np.ascontiguousarray(rows[~np.isin(keys(rows), keys(others))])


def keys(rows: U64) -> NDArray[np.void]:
    """Each row as one value that can be looked up."""
    kind = np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))
    return np.ascontiguousarray(rows).view(kind).ravel()
