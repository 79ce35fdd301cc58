"""How close the evidences of a table come to breaking rules.

A rule of two predicates, atoms 0 and 1. Four pairs satisfy the first alone, two both (and break it), three none: four
pairs miss one predicate, seven miss any, and these satisfy four, plus one each.

>>> import numpy as np
>>> evidences, counts = np.array([[0b01], [0b11], [0b00]], dtype=np.uint64), np.array([4, 2, 3])
>>> close, broken = np.empty((1, 3), dtype=np.int64), np.empty(1, dtype=np.int64)
>>> closeness(np.array([[[0b01], [0b10]]], dtype=np.uint64), np.array([2]), evidences, counts, close)
>>> breaking(np.array([[0b11]], dtype=np.uint64), evidences, counts, broken)
>>> close.tolist(), broken.tolist()
([[4, 7, 11]], [2])
"""

from __future__ import annotations

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I64, U64


@kernel
def closeness(predicates: U64, sizes: I64, evidences: U64, counts: I64, out: I64) -> None:
    """For each rule: pairs that miss one predicate; pairs that miss any; their satisfied predicates, plus one each.

    `predicates[r, p]` is the p-th predicate of rule r as a set of atoms, of which the first `sizes[r]` count.

    Complexity: O(rules x predicates x evidences) words.
    """
    for r in range(predicates.shape[0]):
        size = sizes[r]
        close = 0
        kept = 0
        total = 0
        for e in range(evidences.shape[0]):
            held = 0
            for p in range(size):
                true = True
                for w in range(evidences.shape[1]):
                    if predicates[r, p, w] & ~evidences[e, w] != 0:
                        true = False
                        break
                held += true
            if held < size:
                kept += counts[e]
                total += counts[e] * (held + 1)
                if held == size - 1:
                    close += counts[e]
        out[r, 0] = close
        out[r, 1] = kept
        out[r, 2] = total


@kernel
def breaking(sets: U64, evidences: U64, counts: I64, out: I64) -> None:
    """For each set of atoms the number of pairs whose evidence contains it. Complexity: O(sets x evidences) words."""
    for i in range(sets.shape[0]):
        total = 0
        for e in range(evidences.shape[0]):
            contained = True
            for w in range(sets.shape[1]):
                if sets[i, w] & ~evidences[e, w] != 0:
                    contained = False
                    break
            if contained:
                total += counts[e]
        out[i] = total
