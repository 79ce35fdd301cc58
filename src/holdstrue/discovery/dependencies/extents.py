"""How far left sides reach: rows that have a partner with the same values, and the groups they form.

Remembered from the last time a left side was tested on the whole table, for ranking; after many changes
all are forgotten and counted again when asked for.

Memory: some 200 bytes a left side.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from holdstrue.discovery.dependencies.validation import Tested, Validator
from holdstrue.kernels.partitions import GATHERED, SUPPORT

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

LASTING = 0.1
"""Extents are kept until this share of the rows has changed. Chosen, not tuned."""


class Extents:
    """Rows and groups of left sides, by their words."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, int]] = {}
        self._changed = 0

    def note(self, sets: U64, tested: Tested) -> None:
        """Remember the extents of left sides that were tested on the whole table and failed for no target."""
        for i in np.flatnonzero(tested.done & ~tested.broken.any(axis=1)):
            self._known[sets[i].tobytes()] = int(tested.extent[i, 0]), int(tested.extent[i, 1])

    def age(self, changed: int, rows: int) -> None:
        """Rows came or went."""
        self._changed += changed
        if self._changed > LASTING * rows:
            self._known.clear()
            self._changed = 0

    def of(self, sets: U64, validated: Callable[[], Validator]) -> I64:
        """Rows and groups of each set, counted where they are not known."""
        lines = [line.tobytes() for line in sets]
        missing = np.array([i for i, line in enumerate(lines) if line not in self._known], dtype=np.int64)
        if missing.size:
            validator = validated()
            key = np.full(missing.size, validator.many, dtype=np.int64)
            limits = np.full(4, np.iinfo(np.int64).max, dtype=np.int64)
            counts, _ = validator.weigh(sets[missing], key, limits, None)
            for i, count in zip(missing, counts, strict=True):
                self._known[lines[i]] = int(count[SUPPORT]), int(count[GATHERED])
        return np.array([self._known[line] for line in lines], dtype=np.int64).reshape(-1, 2)

    def snapshot(self, words: int) -> dict[str, NDArray[np.generic]]:
        """The arrays that make up the state."""
        lines = np.frombuffer(b"".join(self._known), dtype=np.uint64).reshape(-1, words)
        extents = np.array(list(self._known.values()), dtype=np.int64).reshape(-1, 2)
        return {"lines": lines, "extents": extents, "changed": np.array([self._changed], dtype=np.int64)}

    def restore(self, arrays: dict[str, NDArray[np.generic]]) -> None:
        """Take over the arrays of a snapshot."""
        lines = np.ascontiguousarray(arrays["lines"])
        self._known = {
            line.tobytes(): (int(rows), int(groups))
            for line, (rows, groups) in zip(lines, arrays["extents"].tolist(), strict=True)
        }
        self._changed = int(arrays["changed"][0])
