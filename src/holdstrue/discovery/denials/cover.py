"""The minimal denial constraints of a set of evidences, found by search and kept current.

A denial constraint holds when every evidence lacks one of its atoms: it is a hitting set of what evidences
lack. Search is MMCS (see `kernels.hitting_sets`). Evidences that come extend the constraints they contain, as in
IncDC (Qian, Li, Tan, Ran, Ma: Incremental discovery of denial constraints, Section 8). Evidences that go,
which that paper leaves open, end the constraints that have an atom without a critical evidence left, and
what is new lies inside an evidence that went, so that the search is cut off outside of them.

Sets of atoms that no values satisfy (t.A < s.A beside t.A > s.A, or a cycle through several columns) are
never entered: the paper removes them at the end, when they have already displaced others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from holdstrue.discovery.denials.space import Space
from holdstrue.discovery.work import Work
from holdstrue.kernels import hitting_sets as kernels
from holdstrue.kernels.approximate_hitting_sets import search_approximate
from holdstrue.rules.model import Op
from holdstrue.typing import I64, U64, Mask

STEPS = 1 << 14
"""Atoms tried between two looks at the clock. Chosen, not tuned."""

DEEPEST = 64
"""Atoms of a set at most; a search that meets a longer one says that it is not complete."""

_ROOM = 1 << 12
_OUTCOMES = {Op.LE: 0b011, Op.GE: 0b110, Op.NE: 0b101, Op.EQ: 0b010}


@dataclass(frozen=True)
class Cover:
    """Minimal sets of atoms, in no order; where `complete` is False all of up to `length` predicates, and some others.

    `bounded` says that longer ones were looked away from.
    """

    sets: U64
    complete: bool = True
    length: int = 0
    bounded: bool = False


class CoverSearch:
    """Finds and updates covers over one space; at most so many predicates of a constraint, and constraints in all."""

    def __init__(self, space: Space, most_predicates: int | None = None, most_rules: int | None = None) -> None:
        self._space = space
        self._most = len(space.comparisons) if most_predicates is None else most_predicates
        self._most_rules = most_rules
        about = []
        for i, op in space.atoms:
            c = space.comparisons[i]
            about.append((i, _OUTCOMES[op], 2 * c.left, 2 * c.right + 1, int(space.linked[i])))
        self._about: I64 = np.array(about, dtype=np.int64).reshape(len(about), 5)
        """By atom: comparison, outcomes, the two values compared as nodes, whether the comparison is on a cycle."""
        self._scratch = np.zeros((2 * DEEPEST + 2,) * 2, dtype=np.int64)

    @property
    def most(self) -> int:
        """The most predicates of a constraint."""
        return self._most

    def up_to(self, length: int) -> CoverSearch:
        """The same for constraints of at most so many predicates."""
        bounded = copy(self)
        bounded._most = min(self._most, length)
        return bounded

    def search(self, evidences: U64, work: Work, *, inside: U64 | None = None) -> Cover:
        """All minimal sets; with `inside` only those that lie within one of these evidences.

        Without evidences the empty set is the only one: nothing was compared.
        Complexity: O(atoms tried x evidences / 64), see `kernels.hitting_sets.search`.
        """
        width = self._space.width
        if not evidences.shape[0]:
            return Cover(np.zeros((1, width), dtype=np.uint64))
        if inside is not None:
            inside = np.ascontiguousarray(inside[violated(inside, evidences) < 0])
            if not inside.shape[0]:
                return Cover(np.zeros((0, width), dtype=np.uint64))
        return self._gathered(self._enumerated(evidences, inside), work)

    def approximate(self, evidences: U64, counts: I64, allowed: int, work: Work) -> Cover:
        """All minimal sets that evidences of at most `allowed` pairs in all contain.

        Complexity: O(atoms tried x evidences), see `kernels.approximate_hitting_sets`.
        """
        if int(counts.sum()) <= allowed:
            return Cover(np.zeros((1, self._space.width), dtype=np.uint64))
        order = np.argsort(-counts, kind="stable")
        return self._gathered(self._enumerated_approximately(evidences[order], counts[order], allowed), work)

    def _gathered(self, parts: Iterator[Cover], work: Work) -> Cover:
        found, complete, count = [np.zeros((0, self._space.width), dtype=np.uint64)], True, 0
        bounded = False
        for part in parts:
            found.append(part.sets)
            count += len(part.sets)
            bounded = part.bounded
            work.tell(0.0, f"searching: {count} rules so far")
            complete = complete and part.complete
            if work.over or (self._most_rules is not None and count >= self._most_rules):
                complete = False
                break
        return Cover(np.concatenate(found)[: self._most_rules], complete, bounded=bounded)

    def extended(self, cover: Cover, evidences: U64, work: Work | None = None) -> Cover:
        """The cover after these evidences have come.

        Complexity: O(evidences x sets), and O(sets) for each set that an evidence contains.

        Raises
        ------
        OutOfTimeError
            When the deadline of the work passes.
        """
        sets, count = cover.sets.copy(), len(cover.sets)
        out = np.empty((_ROOM, sets.shape[1]), dtype=np.uint64)
        places = np.empty(count + 1, dtype=np.int64)
        # others contain none of the extensions either
        hit = np.empty(evidences.shape[0], dtype=np.bool_)
        kernels.containing(evidences, cover.sets, hit)
        for evidence in np.ascontiguousarray(evidences[hit]):
            if work is not None:
                work.require_time()
            if places.size <= count:
                places = np.empty(2 * count + 1, dtype=np.int64)
            made = self._extend(sets, count, evidence, out, places)
            if made < 0:
                out = np.empty((-made, sets.shape[1]), dtype=np.uint64)
                made = self._extend(sets, count, evidence, out, places)
            going = places[1 : places[0] + 1]
            if not going.size:
                continue
            keep = np.ones(count, dtype=np.bool_)
            keep[going] = False
            sets = np.concatenate([sets[:count][keep], out[:made]])
            count = sets.shape[0]
        return replace(cover, sets=np.ascontiguousarray(sets[:count]))

    def clashing(self, sets: U64) -> Mask:
        """Which sets no values satisfy. Complexity: O(atoms^2) a set, more where columns are compared crosswise."""
        found = np.empty(sets.shape[0], dtype=np.bool_)
        kernels.clashing(np.ascontiguousarray(sets), self._about, self._scratch, found)
        return found

    def touching(self, cover: Cover, evidences: U64, pairs: I64) -> tuple[U64, I64]:
        """The evidences, with their pairs, that contain a set. Complexity: O(evidences x sets)."""
        hit = np.empty(evidences.shape[0], dtype=np.bool_)
        kernels.containing(np.ascontiguousarray(evidences), cover.sets, hit)
        return np.ascontiguousarray(evidences[hit]), pairs[hit]

    def _extend(self, sets: U64, count: int, evidence: U64, out: U64, places: I64) -> int:
        made: int = kernels.extend(sets, count, evidence, self._about, self._most, self._scratch, out, places)
        return made

    def reduced(self, cover: Cover, remaining: U64, removed: U64, work: Work) -> Cover:
        """The cover after evidences have gone.

        Complexity: O(sets x evidences), and a search cut off outside of the removed evidences.
        """
        if not remaining.shape[0]:
            return self.search(remaining, work)
        criticals = np.empty_like(cover.sets)
        kernels.critical_atoms(cover.sets, removed, criticals)
        shaken = np.flatnonzero(criticals.any(axis=1))
        doubtful = np.ascontiguousarray(cover.sets[shaken])
        criticals = np.empty_like(doubtful)
        kernels.critical_atoms(doubtful, remaining, criticals)
        keep = np.ones(len(cover.sets), dtype=np.bool_)
        keep[shaken] = (criticals == doubtful).all(axis=1)
        born = self.search(remaining, work, inside=removed)
        sets = np.concatenate([cover.sets[keep], born.sets])
        return replace(cover, sets=sets, complete=cover.complete and born.complete)

    def _enumerated(self, evidences: U64, inside: U64 | None) -> Iterator[Cover]:
        """The search, some steps at a time."""
        space, atoms = self._space, len(self._space.atoms)
        everything = space.mask(range(atoms))
        edges = np.ascontiguousarray(~_maximal(evidences) & everything)
        lacks = _transposed(edges, atoms)
        words = lacks.shape[1]
        depth = min(2 * min(self._most, len(space.comparisons)), DEEPEST)
        allowed = np.zeros((atoms, 0), dtype=np.uint64)
        within = np.zeros((depth + 2, 0), dtype=np.uint64)
        if inside is not None:
            allowed = _transposed(inside, atoms)
            within = np.zeros((depth + 2, allowed.shape[1]), dtype=np.uint64)
            within[0] = np.bitwise_or.reduce(allowed, axis=0)
        uncovered = np.empty((depth + 2, words), dtype=np.uint64)
        uncovered[0] = np.bitwise_or.reduce(lacks, axis=0)
        critical = np.empty((depth + 2, depth + 1, words), dtype=np.uint64)
        candidates = np.zeros((depth + 2, space.width), dtype=np.uint64)
        branch = np.zeros_like(candidates)
        shortest = edges[int(np.argmin(np.bitwise_count(edges).sum(axis=1)))]
        branch[0], candidates[0] = shortest, everything & ~shortest
        chosen = np.zeros(depth, dtype=np.int64)
        out = np.empty((_ROOM, space.width), dtype=np.uint64)
        state = np.zeros(3, dtype=np.int64)
        while state[0] >= 0:
            found = kernels.search(
                lacks, edges, self._about, allowed, self._most, self._scratch, uncovered, critical, candidates,
                branch, within, chosen, out, state, STEPS,
            )  # fmt: skip
            yield Cover(out[:found].copy(), complete=not state[1], bounded=bool(state[2]))

    def _enumerated_approximately(self, evidences: U64, counts: I64, allowed: int) -> Iterator[Cover]:
        space, atoms = self._space, len(self._space.atoms)
        everything = space.mask(range(atoms))
        edges = np.ascontiguousarray(~evidences & everything)
        lacks = _transposed(edges, atoms)
        words = lacks.shape[1]
        depth = min(2 * min(self._most, len(space.comparisons)), DEEPEST)
        uncovered = np.empty((depth + 2, words), dtype=np.uint64)
        uncovered[0] = _transposed(np.full((edges.shape[0], 1), 1, dtype=np.uint64), 1)[0]
        critical = np.empty((depth + 2, depth + 1, words), dtype=np.uint64)
        candidates = np.zeros((atoms + 3, space.width), dtype=np.uint64)
        branch = np.zeros_like(candidates)
        branch[0], candidates[0] = edges[0], everything & ~edges[0]
        levels = np.zeros((atoms + 3, 2), dtype=np.int64)
        weights = np.zeros(64 * words, dtype=np.int64)
        weights[: counts.size] = counts
        chosen = np.zeros(depth, dtype=np.int64)
        out = np.empty((_ROOM, space.width), dtype=np.uint64)
        state = np.zeros(3, dtype=np.int64)
        while state[0] >= 0:
            found = search_approximate(
                lacks, edges, weights, self._about, self._most, allowed, self._scratch, uncovered, critical, candidates,
                branch, levels, chosen, out, state, STEPS,
            )  # fmt: skip
            yield Cover(out[:found].copy(), complete=not state[1], bounded=bool(state[2]))


TRIED = 0.1
"""The share of the time in which all constraints are looked for before the search goes by length."""


def deepened(search: CoverSearch, find: Callable[[CoverSearch, Work], Cover], work: Work) -> Cover:
    """All constraints; or, where that takes too long, those of one predicate, of two, ... as far as time allows.

    What the last search found in part are constraints too, and are given beside the others.
    """
    found = find(search, work.first(TRIED))
    if found.complete or work.deadline is None:
        return found
    tried, known = found.sets, found.sets[:0]
    for length in range(1, search.most + 1):
        found = find(search.up_to(length), work)
        if not found.complete:
            both = np.concatenate([known, found.sets])
            # rather than none those that were tried, which may be long
            sets = np.unique(both, axis=0) if both.shape[0] else tried
            return Cover(sets, complete=False, length=length - 1)
        if not found.bounded or length == search.most:
            return found
        known = found.sets
    return Cover(known, complete=False)


def minimal_among(cover: Cover, evidences: U64) -> Cover:
    """The sets of an incomplete cover of which every atom is needed. Complexity: O(sets x evidences)."""
    criticals = np.empty_like(cover.sets)
    kernels.critical_atoms(cover.sets, np.ascontiguousarray(evidences), criticals)
    return Cover(np.ascontiguousarray(cover.sets[(criticals == cover.sets).all(axis=1)]), cover.complete)


def violated(sets: U64, evidences: U64) -> I64:
    """For each set an evidence that contains it, -1 where none does. Complexity: O(sets x evidences)."""
    out = np.empty(sets.shape[0], dtype=np.int64)
    kernels.first_violated(sets, evidences, out)
    return out


def _transposed(rows: U64, columns: int) -> U64:
    """Bit sets by row as bit sets by column."""
    padded = -(-rows.shape[0] // 64) * 64
    bits = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little")[:, :columns]
    flipped = np.zeros((columns, padded), dtype=np.uint8)
    flipped[:, : rows.shape[0]] = bits.T
    return np.packbits(flipped, axis=1, bitorder="little").view(np.uint64)


_FILTERED = 1 << 27
"""Comparisons of evidences up to which those that lie in others are left out: half a second."""


def _maximal(evidences: U64) -> U64:
    """Evidences that lie in no larger one. Only those with unknown outcomes can; the others come first."""
    sizes = np.bitwise_count(evidences).sum(axis=1)
    small = np.flatnonzero(sizes < sizes.max())
    if not small.size or small.size * evidences.shape[0] > _FILTERED:
        return evidences
    order = np.argsort(-sizes.astype(np.int64), kind="stable")
    ordered = np.ascontiguousarray(evidences[order])
    keep = np.empty(ordered.shape[0], dtype=np.bool_)
    kernels.maximal(ordered, keep)
    return np.ascontiguousarray(ordered[keep])
