"""Which sets of atoms are shown as rules: of two that differ in the order of the rows one, of implied ones none."""

from __future__ import annotations

import numpy as np

from holdstrue.discovery.denials.space import Space
from holdstrue.rules.model import Column, Predicate, Var
from holdstrue.rules.order import Order
from holdstrue.typing import U64, Mask

MOST_ENTAILED = 100_000
"""Atoms that are asked whether they follow from others, at most: some seconds. Spaces of thousands of predicates,
which no search ends on, would ask for hours; what is left unasked there is shown, and holds."""

_ORDERS: tuple[tuple[Var, Var], ...] = (("t", "s"), ("s", "t"))


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
    return np.ascontiguousarray(kept[~_implied(space, kept)])


def _implied(space: Space, kept: U64) -> Mask:
    """Which sets follow from another one through comparisons on a cycle.

    Sets are taken apart: what comparisons on a cycle entail is found once for each combination of them, and
    other comparisons follow only from themselves.
    """
    cyclic = np.bitwise_or.reduce(np.array([_atoms(space, int(i)) for i in np.flatnonzero(space.linked)]), axis=0)
    on, off = kept & cyclic, kept & ~cyclic
    off_exchanged = _exchanged(space, off)[0]
    implied = np.zeros(kept.shape[0], dtype=np.bool_)
    patterns, which = np.unique(on, axis=0, return_inverse=True)
    a_pattern = max(1, len(space.members(cyclic)))
    for number, pattern in enumerate(patterns[: MOST_ENTAILED // a_pattern]):
        if len(space.predicates_of(pattern)) < 3:
            continue
        ways = []
        for entailed, other in zip(_entailed(space, pattern, cyclic), (off, off_exchanged), strict=True):
            if (entailed != pattern).any() and entailed.any():
                near = np.flatnonzero(on.any(axis=1) & ((on & ~entailed) == 0).all(axis=1))
                ways.append((near, other[near]))
        for i in np.flatnonzero(which.ravel() == number).tolist() if ways else []:
            for near, others in ways:
                general = near[((others & ~off[i]) == 0).all(axis=1)]
                implied[i] |= bool((~implied[general] & (general != i)).any())
    return implied


def _entailed(space: Space, pattern: U64, among: U64) -> tuple[U64, U64]:
    """Atoms on cycles that hold where those of a pattern do; and those that hold with the rows exchanged."""
    order = Order(space.predicates_of(pattern))
    found: tuple[list[int], list[int]] = ([], [])
    for atom in space.members(among):
        i, op = space.atoms[atom]
        left, right = space.columns[space.comparisons[i].left], space.columns[space.comparisons[i].right]
        for held, (t, s) in zip(found, _ORDERS, strict=True):
            if order.entails(Predicate(Column(t, left), op, Column(s, right))):
                held.append(atom)
    return space.mask(found[0]), space.mask(found[1])


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


def _exchanged(space: Space, sets: U64) -> tuple[U64, Mask]:
    out, possible = np.zeros_like(sets), np.ones(sets.shape[0], dtype=np.bool_)
    for atom, twin in enumerate(space.twins.tolist()):
        has = (sets[:, atom // 64] >> np.uint64(atom % 64)) & np.uint64(1)
        if twin < 0:
            possible &= has == 0
        else:
            out[:, twin // 64] |= has << np.uint64(twin % 64)
    return out, possible


def _atoms(space: Space, comparison: int) -> U64:
    first = space.offsets[comparison]
    return space.mask(range(first, first + len(space.comparisons[comparison].atoms)))
