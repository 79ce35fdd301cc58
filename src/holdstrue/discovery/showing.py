"""Which sets of atoms are shown as rules: of two that differ in the order of the rows one, of implied ones none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdstrue.discovery.predicates import Space

U64 = NDArray[np.uint64]


def shown(space: Space, sets: U64) -> U64:
    """The sets to show, each once, in a fixed order.

    Minimal sets imply each other only through several columns (t.a = s.b and t.b = s.b and t.b = s.a make
    t.a = s.a), so only sets with three such comparisons or more are compared with others.

    Complexity: O(sets log sets), and O(sets) for each with three comparisons on a cycle.
    """
    kept = canonical(space, sets)
    kept = kept[(kept != 0).any(axis=1)]
    if not space.linked.any():
        return kept
    linked = np.flatnonzero(space.linked)
    uses = np.array([[bool(_comparison(space, mask, int(i))) for i in linked] for mask in kept]).reshape(
        -1, linked.size
    )
    general = [space.predicates_of(mask) for mask in kept]
    implied = np.zeros(kept.shape[0], dtype=np.bool_)
    for i in np.flatnonzero(uses.sum(axis=1) >= 3):
        others = (j for j in np.flatnonzero(uses.any(axis=1)) if j != i and not implied[j])
        implied[i] = any(space.follows(general[i], general[j]) for j in others)
    return np.ascontiguousarray(kept[~implied])


def canonical(space: Space, sets: U64) -> U64:
    """The sets in a fixed order, of two that are each other with t and s exchanged the smaller one."""
    return np.unique(canonical_each(space, sets), axis=0) if sets.shape[0] else sets


def canonical_each(space: Space, sets: U64) -> U64:
    """Each set, or with t and s exchanged if that is the smaller one."""
    exchanged, possible = _exchanged(space, sets)
    smaller = np.zeros(sets.shape[0], dtype=np.bool_)
    undecided = possible.copy()
    for w in range(sets.shape[1]):
        smaller |= undecided & (exchanged[:, w] < sets[:, w])
        undecided &= exchanged[:, w] == sets[:, w]
    return np.where(smaller[:, None], exchanged, sets)


def _exchanged(space: Space, sets: U64) -> tuple[U64, NDArray[np.bool_]]:
    out, possible = np.zeros_like(sets), np.ones(sets.shape[0], dtype=np.bool_)
    for atom, twin in enumerate(space.twins.tolist()):
        has = (sets[:, atom // 64] >> np.uint64(atom % 64)) & np.uint64(1)
        if twin < 0:
            possible &= has == 0
        else:
            out[:, twin // 64] |= has << np.uint64(twin % 64)
    return out, possible


def _comparison(space: Space, mask: U64, comparison: int) -> int:
    first = space.offsets[comparison]
    return sum(
        int(mask[atom // 64]) >> (atom % 64) & 1
        for atom in range(first, first + len(space.comparisons[comparison].atoms))
    )
