"""How far left sides reach: rows that have a partner with the same values, and the groups they form.

Counted when a left side is tested on the whole table, and kept exact by looking at the groups that a batch
touches. After a batch of many rows all are forgotten, and counted again when asked for.

Memory: some 200 bytes a left side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.validation import Partitions, Tested, Validator
from holdstrue.discovery.work import Work
from holdstrue.kernels.partitions import GATHERED, SUPPORT
from holdstrue.typing import I32, I64, U64

MANY = 0.1
"""A batch of more than this share of the rows touches most groups: counting anew is as quick. Chosen, not tuned."""


class Extents:
    """Rows and groups of left sides, by their words."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, int]] = {}

    def note(self, sets: U64, tested: Tested) -> None:
        """Remember the extents of left sides that were tested on the whole table and failed for no target."""
        for i in np.flatnonzero(tested.done & ~tested.broken.any(axis=1)):
            self._known[sets[i].tobytes()] = int(tested.extent[i, 0]), int(tested.extent[i, 1])

    def follow(self, codes: Codes, fresh: int, gone: I32, lasting: Iterable[U64], work: Work) -> None:
        """Rows came, from position `fresh` on, and others went, of which these are the codes.

        Extents of left sides that are not among the `lasting` are forgotten.
        Complexity: O(rows in the groups of these rows) for each left side.
        """
        found = {line.tobytes(): line for sets in lasting for line in sets}
        kept = {name: line for name, line in found.items() if name in self._known}
        before, self._known = self._known, {}
        changed = gone.shape[1] + codes.used - fresh
        if not kept or changed > MANY * codes.used:
            return
        if changed:
            members = np.concatenate((codes.members(), codes.lay_out(gone)))
            validator = Validator(Partitions(codes, fresh, members), work)
            change, done = validator.shifted(np.array(list(kept.values())), codes.used)
        else:
            change, done = np.zeros((len(kept), 2), dtype=np.int64), np.ones(len(kept), dtype=np.bool_)
        for name, (rows, groups), counted in zip(kept, change.tolist(), done, strict=True):
            if counted:
                self._known[name] = before[name][0] + rows, before[name][1] + groups

    def of(self, sets: U64, validated: Callable[[], Validator]) -> I64:
        """Rows and groups of each set, counted where they are not known."""
        lines = [line.tobytes() for line in sets]
        missing = np.array([i for i, line in enumerate(lines) if line not in self._known], dtype=np.int64)
        if missing.size:
            validator = validated()
            key = np.full(missing.size, validator.many, dtype=np.int64)
            limits = np.full(4, np.iinfo(np.int64).max, dtype=np.int64)
            counts, _ = validator.weigh(sets[missing], key, limits)
            for i, count in zip(missing, counts, strict=True):
                self._known[lines[i]] = int(count[SUPPORT]), int(count[GATHERED])
        return np.array([self._known[line] for line in lines], dtype=np.int64).reshape(-1, 2)

    def snapshot(self, words: int) -> dict[str, NDArray[np.generic]]:
        """The arrays that make up the state."""
        lines = np.frombuffer(b"".join(self._known), dtype=np.uint64).reshape(-1, words)
        extents = np.array(list(self._known.values()), dtype=np.int64).reshape(-1, 2)
        return {"lines": lines, "extents": extents}

    def restore(self, arrays: dict[str, NDArray[np.generic]]) -> None:
        """Take over the arrays of a snapshot."""
        lines = np.ascontiguousarray(arrays["lines"])
        self._known = {
            line.tobytes(): (int(rows), int(groups))
            for line, (rows, groups) in zip(lines, arrays["extents"].tolist(), strict=True)
        }
        # states of earlier versions may hold extents from some batches ago
        if "changed" in arrays and arrays["changed"].any():
            self._known = {}
