"""The one decorator under which every kernel is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numba

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile on first call, without the GIL, and keep the machine code on disk for later processes.

    Compiled code lies beside the module, or in the user's cache directory where that is not
    writable. Arrays are passed C-contiguous, aligned and writable: any other layout would compile
    the kernel again.

    >>> @kernel
    ... def total(values):
    ...     found = 0
    ...     for i in range(values.size):
    ...         found += values[i]
    ...     return found
    >>> import numpy as np
    >>> total(np.array([1, 2, 3, 4, 5]))
    15
    """
    compiled: F
    try:
        compiled = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:
        # neither place is writable, as on some clusters: every process then compiles for itself
        compiled = numba.njit(nogil=True)(function)
    return compiled


inline = kernel
"""The same, for a small function that only kernels call; the compiler below puts it in their place."""
