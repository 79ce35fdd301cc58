"""Evidences of a table that are known, each with two rows that have it: what rules were found, and refuted, with."""

from __future__ import annotations

import numpy as np

from holdstrue.discovery.bitsets import keys
from holdstrue.index.arrays import Snapshot
from holdstrue.index.checked import Checked
from holdstrue.typing import I64, U64, Mask


class Witnessed:
    """Distinct sets of atoms with a pair of slots; a pair (-1, -1) is not known, and goes when any row does.

    Memory: 8 bytes a word and 16 bytes an evidence.

    Examples
    --------
    >>> known = Witnessed(1)
    >>> known.add(np.array([[5], [6], [5]], dtype=np.uint64), np.array([[0, 1], [1, 2], [2, 0]]))
    >>> gone, left = known.leave(np.array([True, True, False]))
    >>> gone.tolist(), left.tolist(), known.words.tolist()
    ([[6]], [1], [[5]])
    """

    def __init__(self, width: int) -> None:
        self.words: U64 = np.zeros((0, width), dtype=np.uint64)
        self.pairs: I64 = np.zeros((0, 2), dtype=np.int64)

    def __len__(self) -> int:
        return self.words.shape[0]

    def add(self, words: U64, pairs: I64) -> None:
        """Keep evidences that are new. Runtime complexity: O(n log n) in all that are kept."""
        if not words.shape[0]:
            return
        _, first = np.unique(keys(words), return_index=True)
        words, pairs = words[first], pairs[first]
        if len(self):
            new = ~np.isin(keys(words), keys(self.words))
            words, pairs = words[new], pairs[new]
        self.words = np.concatenate([self.words, words])
        self.pairs = np.concatenate([self.pairs, pairs])

    def leave(self, alive: Mask) -> tuple[U64, I64]:
        """Forget evidences of which a row went; returns them, and the rows that were left alone.

        Runtime complexity: O(evidences).
        """
        stays = (self.pairs >= 0).all(axis=1) & alive[self.pairs].all(axis=1)
        gone, rows = self.words[~stays], self.pairs[~stays].ravel()
        self.words, self.pairs = np.ascontiguousarray(self.words[stays]), self.pairs[stays]
        return np.ascontiguousarray(gone), np.unique(rows[(rows >= 0) & alive[rows]])

    def size_bytes(self) -> int:
        """Memory held."""
        return self.words.nbytes + self.pairs.nbytes

    def snapshot(self) -> Snapshot:
        """Plain arrays that make up the state."""
        return {"words": self.words, "pairs": self.pairs}

    def restore(self, arrays: Checked, atoms: U64, slots: int) -> None:
        """Take over the arrays of a snapshot."""
        self.words = arrays.sets("words", atoms).copy()
        self.pairs = arrays.array("pairs", np.int64, (len(self), 2)).copy()
        arrays.within("pairs", self.pairs, -1, slots - 1)
