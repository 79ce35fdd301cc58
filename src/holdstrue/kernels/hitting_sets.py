"""Minimal hitting sets: sets of atoms of which every evidence lacks at least one, and none could be left out.

MMCS of Murakami and Uno: Efficient algorithms for dualizing large-scale hypergraphs, on bit sets over the
evidences. `lacks[a]` has a bit for every evidence that lacks atom a (that a hits, as the algorithm's
authors say). Kernels keep their search in arrays and return now and then, so that a caller can look at the
clock and go on.

Atoms are bits. Pairs of rows have the evidences {0, 1} and {1, 2}. The set {1} lies in the first one, so its rule is
broken there; {0, 2} lies in none, so its rule holds, and minimally: each of its atoms is all that some evidence lacks.

>>> evidences, sets = (np.array(words, dtype=np.uint64)[:, None] for words in ([0b011, 0b110], [0b010, 0b101]))
>>> broken, critical = np.empty(2, dtype=np.int64), np.empty((2, 1), dtype=np.uint64)
>>> first_violated(sets, evidences, broken)
>>> critical_atoms(sets, evidences, critical)
>>> broken.tolist(), [f"{word:03b}" for word in critical[:, 0].tolist()]
([0, -1], ['000', '101'])
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.assignment import assign
from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I64, U64, Mask

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_M1 = np.uint64(0x5555555555555555)
_M2 = np.uint64(0x3333333333333333)
_M4 = np.uint64(0x0F0F0F0F0F0F0F0F)
_H = np.uint64(0x0101010101010101)

LOOKED_AT = 64
"""Uncovered evidences among which the one with the fewest candidate atoms is taken. Chosen, not tuned."""


@inline
def _ones(x: np.uint64) -> int:
    """The number of bits set."""
    x -= (x >> _ONE) & _M1
    x = (x & _M2) + ((x >> np.uint64(2)) & _M2)
    x = (x + (x >> np.uint64(4))) & _M4
    return int((x * _H) >> np.uint64(56))


@inline
def _lowest(x: np.uint64) -> int:
    """The position of the lowest bit set."""
    return _ones((x & (~x + _ONE)) - _ONE)


@inline
def _has(words: U64, bit: int) -> bool:
    return (words[bit >> 6] >> np.uint64(bit & 63)) & _ONE != _ZERO


@inline
def _set(words: U64, bit: int) -> None:
    words[bit >> 6] |= _ONE << np.uint64(bit & 63)


@inline
def _clear(words: U64, bit: int) -> None:
    words[bit >> 6] &= ~(_ONE << np.uint64(bit & 63))


@inline
def _rarest(uncovered: U64, edges: U64, candidates: U64) -> int:
    """Among the first uncovered evidences the one that the fewest candidates hit; -1 when none is uncovered."""
    best = -1
    fewest = 1 << 30
    seen = 0
    for w in range(uncovered.size):
        word = uncovered[w]
        while word != _ZERO:
            edge = 64 * w + _lowest(word)
            word &= word - _ONE
            count = 0
            for k in range(candidates.size):
                count += _ones(edges[edge, k] & candidates[k])
            if count < fewest:
                fewest = count
                best = edge
                if count == 0:
                    return best
            seen += 1
            if seen >= LOOKED_AT:
                return best
    return best


@inline
def _predicates(chosen: I64, depth: int, atom: int, comparison: I64) -> int:
    """How many comparisons a set uses when `atom` joins it: each is one predicate."""
    total = 1
    for i in range(depth):
        fresh = comparison[chosen[i]] != comparison[atom]
        for j in range(i):
            if comparison[chosen[j]] == comparison[chosen[i]]:
                fresh = False
                break
        total += fresh
    return total


@inline
def _clashes(chosen: I64, depth: int, atom: int, about: I64, scratch: I64) -> bool:
    """Whether no values satisfy the chosen atoms and this one.

    `about` has for each atom: comparison, outcomes allowed (1 below, 2 equal, 4 above), left node, right
    node, linked. A comparison with no outcome left clashes by itself; linked comparisons also through others.
    """
    allowed = about[atom, 1]
    linked = about[atom, 4]
    for i in range(depth):
        if about[chosen[i], 0] == about[atom, 0]:
            allowed &= about[chosen[i], 1]
        elif about[chosen[i], 4] == 1:
            linked += about[atom, 4]
    if allowed == 0:
        return True
    if linked < 4:
        return False
    return _cyclic(chosen, depth, atom, about, scratch)


@inline
def _cyclic(chosen: I64, depth: int, atom: int, about: I64, scratch: I64) -> bool:
    """Whether `<`, `<=`, `=` and `!=` between the values of two rows contradict each other: closes the order."""
    nodes = np.empty(2 * (depth + 1), dtype=np.int64)
    count = 0
    size = scratch.shape[0]
    for i in range(depth + 1):
        a = chosen[i] if i < depth else atom
        if about[a, 4] == 0:
            continue
        for side in range(2, 4):
            known = False
            for k in range(count):
                known = known or nodes[k] == about[a, side]
            if not known:
                nodes[count] = about[a, side]
                count += 1
    if count > size:
        return False
    below = scratch[:count, :count]  # bits: 1 at most, 2 below; 4 different
    below[:, :] = 0
    for i in range(depth + 1):
        a = chosen[i] if i < depth else atom
        if about[a, 4] == 0:
            continue
        x = 0
        y = 0
        for k in range(count):
            if nodes[k] == about[a, 2]:
                x = k
            if nodes[k] == about[a, 3]:
                y = k
        allowed = about[a, 1]
        if allowed & 4 == 0:
            below[x, y] |= 1
        if allowed & 1 == 0:
            below[y, x] |= 1
        if allowed & 2 == 0:
            below[x, y] |= 4
            below[y, x] |= 4
    changed = True
    while changed:
        changed = False
        for x in range(count):
            for y in range(count):
                if below[x, y] & 5 == 5 and below[x, y] & 2 == 0:
                    below[x, y] |= 2
                    changed = True
        for k in range(count):
            for x in range(count):
                if below[x, k] & 1:
                    for y in range(count):
                        if below[k, y] & 1:
                            joined = 1 | ((below[x, k] | below[k, y]) & 2)
                            if below[x, y] | joined != below[x, y]:
                                below[x, y] |= joined
                                changed = True
                        # equal to one side of a difference: different from the other side too
                        if below[k, x] & 1 and below[k, y] & 4 and below[x, y] & 4 == 0:
                            below[x, y] |= 4
                            below[y, x] |= 4
                            changed = True
        for x in range(count):
            if below[x, x] & 6:
                return True
    return False


@kernel
def search(
    lacks: U64, edges: U64, about: I64, inside: U64, most: int, scratch: I64,
    uncovered: U64, critical: U64, candidates: U64, branch: U64, within: U64, chosen: I64, out: U64, state: I64,
    steps: int,
) -> int:  # fmt: skip
    """Go on with the search for minimal hitting sets; returns how many were written to `out`.

    `lacks[a]` and `edges[e]` are the two directions of "atom a is missing in evidence e" as bit sets.
    `inside[a]` are bits of the sets of which one must contain the whole answer (no columns: no such
    wish). `most` bounds the predicates. By depth of the search: `uncovered` evidences, `critical[d, i]`
    those that only the i-th chosen atom hits, `candidates`, `branch` atoms still to try, `within`.
    `state` is the depth, which is -1 when the search has ended, whether a set became too long for the
    arrays, and whether one had too many predicates; the search stops early after `steps` atoms tried or
    when `out` is full.

    Complexity: O(evidences / 64 x size) an atom tried.
    """
    depth = state[0]
    found = 0
    words = uncovered.shape[1]
    for _ in range(steps):
        if depth < 0 or found == out.shape[0]:
            break
        atom = -1
        for w in range(branch.shape[1]):
            if branch[depth, w] != _ZERO:
                atom = 64 * w + _lowest(branch[depth, w])
                break
        if atom < 0:
            depth -= 1
            if depth >= 0:
                # back from the atom chosen here: later branches may use it as well
                _set(candidates[depth], chosen[depth])
            continue
        _clear(branch[depth], atom)
        if _predicates(chosen, depth, atom, about[:, 0]) > most:
            state[2] = 1
            continue
        if _clashes(chosen, depth, atom, about, scratch):
            continue
        if depth == chosen.size:
            state[1] = 1
            continue
        reachable = inside.shape[1] == 0
        for w in range(inside.shape[1]):
            within[depth + 1, w] = within[depth, w] & inside[atom, w]
            reachable = reachable or within[depth + 1, w] != _ZERO
        if not reachable:
            continue
        needed = True
        for i in range(depth):
            any_left = _ZERO
            before = critical[depth, i]
            after = critical[depth + 1, i]
            mine = lacks[atom]
            for w in range(words):
                after[w] = before[w] & ~mine[w]
                any_left |= after[w]
            if any_left == _ZERO:
                needed = False
                break
        if not needed:
            continue
        rest = _ZERO
        own = critical[depth + 1, depth]
        before = uncovered[depth]
        after = uncovered[depth + 1]
        mine = lacks[atom]
        for w in range(words):
            own[w] = before[w] & mine[w]
            after[w] = before[w] & ~mine[w]
            rest |= after[w]
        chosen[depth] = atom
        if rest == _ZERO:
            out[found, :] = _ZERO
            for i in range(depth + 1):
                _set(out[found], chosen[i])
            found += 1
            _set(candidates[depth], atom)
            continue
        assign(candidates[depth + 1], candidates[depth])
        edge = _rarest(uncovered[depth + 1], edges, candidates[depth + 1])
        for w in range(branch.shape[1]):
            branch[depth + 1, w] = edges[edge, w] & candidates[depth + 1, w]
            candidates[depth + 1, w] &= ~branch[depth + 1, w]
        depth += 1
    state[0] = depth
    return found


@kernel
def clashing(sets: U64, about: I64, scratch: I64, out: Mask) -> None:
    """Which sets no values satisfy; `about` as for `_clashes`. Complexity: O(atoms^2) a set, more for linked ones."""
    chosen = np.empty(about.shape[0], dtype=np.int64)
    for i in range(sets.shape[0]):
        depth = 0
        out[i] = False
        for atom in range(about.shape[0]):
            if not _has(sets[i], atom):
                continue
            if _clashes(chosen, depth, atom, about, scratch):
                out[i] = True
                break
            chosen[depth] = atom
            depth += 1


@kernel
def first_violated(sets: U64, evidences: U64, out: I64) -> None:
    """For each set the first evidence that contains it, or -1. Complexity: O(sets x evidences) words."""
    for i in range(sets.shape[0]):
        out[i] = -1
        for e in range(evidences.shape[0]):
            contained = True
            for w in range(sets.shape[1]):
                if sets[i, w] & ~evidences[e, w] != _ZERO:
                    contained = False
                    break
            if contained:
                out[i] = e
                break


@kernel
def containing(evidences: U64, sets: U64, out: Mask) -> None:
    """Which evidences contain one of the sets. Complexity: O(sets x evidences) words."""
    for e in range(evidences.shape[0]):
        out[e] = False
        for i in range(sets.shape[0]):
            contained = True
            for w in range(sets.shape[1]):
                if sets[i, w] & ~evidences[e, w] != _ZERO:
                    contained = False
                    break
            if contained:
                out[e] = True
                break


@kernel
def maximal(evidences: U64, out: Mask) -> None:
    """Which of the (distinct, larger ones first) evidences lie in no other one. Complexity: O(evidences^2) words."""
    for e in range(evidences.shape[0]):
        out[e] = True
        for f in range(e):
            contained = True
            for w in range(evidences.shape[1]):
                if evidences[e, w] & ~evidences[f, w] != _ZERO:
                    contained = False
                    break
            if contained:
                out[e] = False
                break


@kernel
def critical_atoms(sets: U64, evidences: U64, out: U64) -> None:
    """For each set the atoms that alone are missing in some evidence; stops at a set when all are found.

    Complexity: O(sets x evidences) words.
    """
    for i in range(sets.shape[0]):
        out[i, :] = _ZERO
        wanted = 0
        for w in range(sets.shape[1]):
            wanted += _ones(sets[i, w])
        for e in range(evidences.shape[0]):
            if wanted == 0:
                break
            missing = 0
            for w in range(sets.shape[1]):
                missing += _ones(sets[i, w] & ~evidences[e, w])
                if missing > 1:
                    break
            if missing != 1:
                continue
            for w in range(sets.shape[1]):
                lone = sets[i, w] & ~evidences[e, w]
                if lone & ~out[i, w] != _ZERO:
                    out[i, w] |= lone
                    wanted -= 1


@kernel
def extend(sets: U64, count: int, evidence: U64, about: I64, most: int, scratch: I64, out: U64, places: I64) -> int:
    """Sets that this evidence contains give way to what is left of them with one atom more (IncDC, lines 5 to 18).

    The first `count` rows of `sets` are the sets before; `places` receives which of them go. Extensions that
    contain another set are not minimal; two extensions never contain each other. Returns the number of
    extensions in `out`, or minus the room needed. `places[0]` is the number of sets that go.

    Complexity: O(sets that go x sets) words.
    """
    width = sets.shape[1]
    atoms = about.shape[0]
    going = 0
    for i in range(count):
        contained = True
        for w in range(width):
            if sets[i, w] & ~evidence[w] != _ZERO:
                contained = False
                break
        if contained:
            going += 1
            places[going] = i
    places[0] = going
    if going == 0:
        return 0
    free = 0
    for a in range(atoms):
        free += not _has(evidence, a)
    if going * free > out.shape[0]:
        return -going * free
    made = 0
    chosen = np.empty(atoms, dtype=np.int64)
    allowed = np.empty(width, dtype=np.uint64)
    for g in range(1, going + 1):
        one = sets[places[g]]
        for w in range(width):
            allowed[w] = ~evidence[w]
        for i in range(count):
            # another set that lacks just one atom of this one forbids that atom
            missing = 0
            for w in range(width):
                missing += _ones(sets[i, w] & ~one[w])
                if missing > 1:
                    break
            if missing == 1:
                for w in range(width):
                    allowed[w] &= ~(sets[i, w] & ~one[w])
        depth = 0
        for a in range(atoms):
            if _has(one, a):
                chosen[depth] = a
                depth += 1
        for a in range(atoms):
            if not _has(allowed, a) or _predicates(chosen, depth, a, about[:, 0]) > most:
                continue
            if _clashes(chosen, depth, a, about, scratch):
                continue
            assign(out[made], one)
            _set(out[made], a)
            made += 1
    return made
