"""Minimal sets of atoms that at most so many pairs break, by length: every set is counted, or known to be broken more.

What breaks a set breaks its parts, so that a set is looked at only where all that it has without one of its atoms are
broken too often. All of one comparison are settled first, then all of two, and so on (TANE's lattice, Huhtala et al.
1999, over atoms): a search whose time ends knows up to which length it is complete. Sets that say the same with
the rows exchanged are one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from holdstrue.discovery.bitsets import keys, set_of
from holdstrue.discovery.denials.cover import Cover, CoverSearch
from holdstrue.discovery.denials.space import Space, canonical, canonical_each, exchanged
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.typing import U64, Mask

TOGETHER = 2048
"""Sets that are counted before it is looked whether there are enough rules. Chosen, not tuned."""

ROOM = 1 << 28
"""Bytes of the sets that are thought of at a time, before those are left out that say more than others."""

Judge: TypeAlias = Callable[[U64, Work], Mask]
"""Tells which sets are within the limit; OutOfTimeError where it cannot for want of time."""


class CountedSearch:
    """The lattice over one space.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from holdstrue.discovery.denials.choose_space import choose_space
    >>> from holdstrue.discovery.options import DiscoveryOptions
    >>> space = choose_space(pa.table({"a": ["x", "y"], "b": ["p", "q"]}), DiscoveryOptions(cross=False))
    >>> within = lambda sets, _: np.array(["t.a = s.a" in space.body(one).text for one in sets])
    >>> found = CountedSearch(space, CoverSearch(space)).search(within, Work())
    >>> sorted(space.body(one).text for one in found.sets), found.complete
    (['not(t.a = s.a)'], True)
    """

    def __init__(self, space: Space, search: CoverSearch, most_rules: int | None = None) -> None:
        self._space, self._search = space, search
        self._most_rules = most_rules
        self._atoms = [set_of([atom], space.width) for atom in range(len(space.atoms))]

    def search(self, judge: Judge, work: Work) -> Cover:
        """All minimal sets within the limit, the empty one left out; those that were found, where time ends.

        Complexity: O(sets that are broken too often x atoms), and what `judge` takes.
        """
        empty = np.zeros((1, self._space.width), dtype=np.uint64)
        found: list[U64] = [empty[:0]]
        shorter: dict[int, U64] = {0: empty}
        for length in range(1, self._search.most + 1):
            longer: dict[int, U64] = {}
            atoms = length
            # sets of as many comparisons have up to two atoms of each
            while atoms <= 2 * length:
                refuted = [empty[:0]]
                try:
                    for part in self._parts(self._candidates(shorter, longer, atoms, length)):
                        work.tell(0.0, f"counting rules of {length} predicates")
                        work.require_time()
                        good = judge(part, work)
                        found.append(part[good])
                        refuted.append(part[~good])
                        if self._most_rules is not None and sum(map(len, found)) >= self._most_rules:
                            sets = np.concatenate(found)[: self._most_rules]
                            return Cover(sets, complete=False, length=length - 1)
                except OutOfTimeError:
                    return Cover(np.concatenate(found), complete=False, length=length - 1)
                longer[atoms] = np.concatenate(refuted)
                atoms += 1
            if not any(sets.shape[0] for sets in longer.values()):
                break
            shorter = longer
        return Cover(np.concatenate(found))

    def _parts(self, sets: U64) -> Iterator[U64]:
        return (np.ascontiguousarray(sets[start : start + TOGETHER]) for start in range(0, sets.shape[0], TOGETHER))

    def _candidates(self, shorter: dict[int, U64], longer: dict[int, U64], atoms: int, length: int) -> U64:
        """Sets of so many atoms and comparisons of which nothing less is within the limit.

        Raises
        ------
        OutOfTimeError
            When there is no room for them: no search would come to their end.
        """
        none = np.zeros((0, self._space.width), dtype=np.uint64)
        # one comparison more, or one atom more of the same
        bases = [broken[atoms - 1] for broken in (shorter, longer) if atoms - 1 in broken]
        both = np.concatenate([none, *bases])
        turned, possible = exchanged(self._space, both)
        both = np.unique(np.concatenate([both, turned[possible]]), axis=0)
        # each set once: from what it is without its last atom
        bits = self._bits(both)
        last = np.where(bits.any(axis=1), bits.shape[1] - 1 - bits[:, ::-1].argmax(axis=1), -1)
        if int((len(self._atoms) - 1 - last).sum()) * both.itemsize * both.shape[1] > ROOM:
            raise OutOfTimeError
        made = [none, *(both[last < number] | atom for number, atom in enumerate(self._atoms))]
        sets = canonical(self._space, np.concatenate(made))
        # one operator for each comparison, of which it has an atom or two
        compared = np.logical_or.reduceat(self._bits(sets), self._space.offsets, axis=1).sum(axis=1)
        sets = np.ascontiguousarray(sets[compared == length])
        sets = np.ascontiguousarray(sets[~self._search.clashing(sets)])
        refuted = np.unique(keys(np.concatenate([none, *bases])))
        bits, keep = self._bits(sets), np.ones(sets.shape[0], dtype=np.bool_)
        for number, atom in enumerate(self._atoms):
            mine = np.flatnonzero(bits[:, number] & keep)
            if mine.size:
                keep[mine] = np.isin(keys(canonical_each(self._space, sets[mine] & ~atom)), refuted)
        return np.ascontiguousarray(sets[keep])

    def _bits(self, sets: U64) -> Mask:
        """By set which atoms it has."""
        packed = np.ascontiguousarray(sets).view(np.uint8)
        return np.unpackbits(packed, axis=1, bitorder="little")[:, : len(self._atoms)].astype(np.bool_)
