"""Minimal sets of atoms that all but a few pairs keep to.

ADCEnum of Livshits, Heidari, Ilyas, Kimelfeld: Approximate denial constraints, on the bit sets of
`kernels.hitting_sets`: beside hitting an evidence there is a branch that leaves it unhit for good.

Of ten pairs nine have the evidence {0} and one has {1}. Without exceptions {0, 1} is the only minimal set that no
evidence contains. Where one pair may break a rule, {1} takes its place: it lies in the evidence of one pair only. With
nine exceptions {0} is found beside it, and with ten the empty set is all there is.
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.hitting_sets import _clashes, _clear, _lowest, _predicates, _set
from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I64, U64

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@inline
def _weight(bits: U64, weights: I64, enough: int) -> int:
    """The weight of a bit set, as far as it matters: stops once it is above `enough`."""
    total = 0
    for w in range(bits.size):
        word = bits[w]
        while word != _ZERO:
            total += weights[64 * w + _lowest(word)]
            word &= word - _ONE
        if total > enough:
            return total
    return total


@inline
def _next_edge(uncovered: U64, edges: U64, candidates: U64, weights: I64, allowed: int) -> int:
    """The heaviest uncovered evidence that a candidate hits; -1 when those that none hits are too heavy already.

    Evidences come in order of weight.
    """
    best = -1
    lost = 0
    for w in range(uncovered.size):
        word = uncovered[w]
        while word != _ZERO:
            edge = 64 * w + _lowest(word)
            word &= word - _ONE
            hit = False
            for k in range(candidates.size):
                if edges[edge, k] & candidates[k] != _ZERO:
                    hit = True
                    break
            if hit:
                if best < 0:
                    best = edge
            else:
                lost += weights[edge]
                if lost > allowed:
                    return -1
    return best


@kernel
def search_approximate(
    lacks: U64, edges: U64, weights: I64, about: I64, most: int, allowed: int, scratch: I64,
    uncovered: U64, critical: U64, candidates: U64, branch: U64, levels: I64, chosen: I64, out: U64, state: I64,
    steps: int,
) -> int:  # fmt: skip
    """Go on with the search for minimal sets that pairs of total weight `allowed` at most satisfy.

    As `kernels.hitting_sets.search`, with evidences in order of weight. `levels[l]` is the number of chosen atoms
    at a level of the search and whether its branch of leaving the evidence unhit was taken already; a level
    without branches adds none. `state` is the level (-1 at the end), whether a set became too long, and whether
    one had too many predicates.

    Complexity: O(evidences) an atom tried.
    """
    level = state[0]
    found = 0
    words = uncovered.shape[1]
    for _ in range(steps):
        if level < 0 or found == out.shape[0]:
            break
        depth = levels[level, 0]
        if levels[level, 1] == 0:
            # the evidence is left unhit: no atom of the branch may join any more
            levels[level, 1] = 1
            edge = _next_edge(uncovered[depth], edges, candidates[level], weights, allowed)
            if edge >= 0:
                for w in range(branch.shape[1]):
                    branch[level + 1, w] = edges[edge, w] & candidates[level, w]
                    candidates[level + 1, w] = candidates[level, w] & ~branch[level + 1, w]
                levels[level + 1, 0] = depth
                levels[level + 1, 1] = 0
                level += 1
            continue
        atom = -1
        for w in range(branch.shape[1]):
            if branch[level, w] != _ZERO:
                atom = 64 * w + _lowest(branch[level, w])
                break
        if atom < 0:
            level -= 1
            if level >= 0 and levels[level, 0] < depth:
                _set(candidates[level], chosen[depth - 1])
            continue
        _clear(branch[level], atom)
        if _predicates(chosen, depth, atom, about[:, 0]) > most:
            state[2] = 1
            continue
        if _clashes(chosen, depth, atom, about, scratch):
            continue
        if depth == chosen.size:
            state[1] = 1
            continue
        mine = lacks[atom]
        own = critical[depth + 1, depth]
        before = uncovered[depth]
        after = uncovered[depth + 1]
        for w in range(words):
            own[w] = before[w] & mine[w]
            after[w] = before[w] & ~mine[w]
        left = _weight(after, weights, allowed)
        needed = left > allowed or left + _weight(own, weights, allowed - left) > allowed
        for i in range(depth):
            before = critical[depth, i]
            after = critical[depth + 1, i]
            for w in range(words):
                after[w] = before[w] & ~mine[w]
            if needed and left <= allowed:
                needed = left + _weight(after, weights, allowed - left) > allowed
        if not needed:
            continue
        chosen[depth] = atom
        if left <= allowed:
            out[found, :] = _ZERO
            for i in range(depth + 1):
                _set(out[found], chosen[i])
            found += 1
            _set(candidates[level], atom)
            continue
        edge = _next_edge(uncovered[depth + 1], edges, candidates[level], weights, allowed)
        if edge < 0:
            _set(candidates[level], atom)
            continue
        for w in range(branch.shape[1]):
            branch[level + 1, w] = edges[edge, w] & candidates[level, w]
            candidates[level + 1, w] = candidates[level, w] & ~branch[level + 1, w]
        levels[level + 1, 0] = depth + 1
        levels[level + 1, 1] = 0
        level += 1
    state[0] = level
    return found
