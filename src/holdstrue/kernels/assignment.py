"""Assigning one array to a part of another, element by element.

Numba compiles `target[:] = source` for a second, most of it for the message of an error that never comes.

>>> import numpy as np
>>> target = np.zeros(3, dtype=np.uint64)
>>> assign(target, np.array([1, 2, 3], dtype=np.uint64))
>>> target.tolist()
[1, 2, 3]
"""

from __future__ import annotations

from holdstrue.kernels.jit import inline
from holdstrue.typing import U64

__all__ = ["assign"]


@inline
def assign(target: U64, source: U64) -> None:
    """Both have one dimension and the same size. Complexity: O(size)."""
    for w in range(source.size):
        target[w] = source[w]
