"""Rows of words as sets of atoms: which rows are among others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdstrue.typing import U64


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
