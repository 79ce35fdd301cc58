"""Strings made by the million: pools of names, and digits written straight into Arrow buffers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

I64 = NDArray[np.int64]

_SYLLABLES = ("ba", "ker", "dan", "el", "for", "gus", "hil", "ing", "jo", "kan", "lo", "mar", "nor", "o", "pe", "ry")


def names(count: int, rng: np.random.Generator) -> pa.Array:
    """Distinct made-up names of three to five syllables. Complexity: O(count)."""
    made: dict[str, None] = {}
    while len(made) < count:
        for picks in rng.integers(len(_SYLLABLES), size=(count, 5)).tolist():
            made["".join(_SYLLABLES[pick] for pick in picks[: 3 + picks[0] % 3]).title()] = None
    return pa.array(list(made)[:count])


def pick(pool: pa.Array, at: I64) -> pa.Array:
    """The pool's strings at these places, as plain strings."""
    return pool.take(pa.array(at))


def digits(values: I64, pattern: str) -> pa.Array:
    """Numbers written with leading zeros where the pattern has a 0, e.g. `000-0000`.

    Examples
    --------
    >>> digits(np.array([42, 9876543]), "000-0000").to_pylist()
    ['000-0042', '987-6543']
    """
    width = len(pattern)
    text = np.empty((values.size, width), dtype=np.uint8)
    rest = values.astype(np.int64)
    for place in range(width - 1, -1, -1):
        if pattern[place] == "0":
            text[:, place] = rest % 10 + ord("0")
            rest = rest // 10
        else:
            text[:, place] = ord(pattern[place])
    # 32-bit offsets of strings of one width; 268 million phone numbers fit
    offsets = np.arange(0, (values.size + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(values.size, pa.py_buffer(offsets), pa.py_buffer(text))
