"""Exactly how many pairs break a rule, by sweeps: no pair is looked at, so that a table may have any number of them.

Where t.a stands to s.a in any way, `=` and `<` are counted: t.a > s.a in all other pairs in which both are known. So
the pairs that satisfy a set of comparisons are sums and differences of pairs that agree on some columns and rise in
others, and all rules on the same columns share these. Pairs that agree are counted by groups, those that rise in one
column by a pass over the rows in its order, in more by dominance (`kernels/dominance.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations, product
from typing import TypeAlias

import numpy as np

from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.column_terms import ColumnTerm, Equalities, equalities
from holdstrue.discovery.denials.pair_words import PairWords
from holdstrue.discovery.denials.refuter import Refuter
from holdstrue.discovery.work import Work
from holdstrue.kernels import pair_sums as kernels
from holdstrue.kernels.dominance import count_dominance
from holdstrue.rules.model import Op
from holdstrue.typing import I32, I64, U64, Mask

Sides: TypeAlias = tuple[int, int]
Basic: TypeAlias = tuple[tuple[Sides, ...], tuple[Sides, ...], tuple[Sides, ...]]
"""Columns of t and of s that are equal, in which t lies below, and that are known."""

EQUAL, BELOW, KNOWN = range(3)

SUMS = {
    Op.EQ: ((1, EQUAL),),
    Op.LT: ((1, BELOW),),
    Op.LE: ((1, BELOW), (1, EQUAL)),
    Op.GE: ((1, KNOWN), (-1, BELOW)),
    Op.GT: ((1, KNOWN), (-1, BELOW), (-1, EQUAL)),
    Op.NE: ((1, KNOWN), (-1, EQUAL)),
}

AT_ONCE = 8
"""Sums of a task, before which the clock is looked at anyway. Chosen, not tuned."""


class PairSums:
    """Numbers of ordered pairs of different rows, on the rows as they are now.

    Memory: that of `Refuter`, and some hundred bytes for each sum, of which k columns have at most 2^k.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from holdstrue.discovery.denials.choose_space import choose_space
    >>> from holdstrue.discovery.options import DiscoveryOptions
    >>> table = pa.table({"zip": [1, 1, 1, 2], "pay": [10, 20, 20, 30]})
    >>> rows = CodedRows(choose_space(table, DiscoveryOptions(cross=False)))
    >>> _ = rows.insert(table)
    >>> sums = PairSums(rows, Work(threads=1))
    >>> asked = [[(0, Op.EQ), (1, Op.NE)], [(0, Op.LT), (1, Op.GE)], [(1, Op.GT)]]
    >>> sums.counts(np.stack([rows.space.terms_mask(one) for one in asked]), Work(threads=1)).tolist()
    [4, 0, 5]
    >>> [degrees.tolist() for degrees in sums.partners(rows.space.terms_mask(asked[0]))]
    [[2, 1, 1, 0], [2, 1, 1, 0]]
    """

    def __init__(self, rows: CodedRows, work: Work) -> None:
        self._refuter = Refuter(rows, work)
        self._known: dict[Basic, int] = {}
        self.swept = 0
        """Sums that were made."""

    @property
    def live(self) -> I64:
        """The slots of the rows, which are named by their places among these."""
        return self._refuter.live

    def counts(self, sets: U64, work: Work) -> I64:
        """By set of atoms how many pairs (t, s) satisfy it.

        Complexity: O(rows log rows) for each sum of up to two orders, O(rows log^(k-1) rows) of k.

        Raises
        ------
        OutOfTimeError
            When the deadline passes; sums that were made are kept.
        """
        expanded = [list(self._expanded(self._refuter.terms(mask))) for mask in sets]
        missing = sorted({basic for sums in expanded for _, basic in sums} - self._known.keys())

        def make(some: list[Basic]) -> None:
            for basic in some:
                work.require_time()
                self._known[basic] = self._sum(basic)

        self.swept += len(missing)
        work.each(make, [missing[start : start + AT_ONCE] for start in range(0, len(missing), AT_ONCE)])
        found = [sum(sign * self._known[basic] for sign, basic in sums) for sums in expanded]
        return np.array(found, dtype=np.int64)

    def _expanded(self, terms: Sequence[ColumnTerm]) -> Iterator[tuple[int, Basic]]:
        for parts in product(*(SUMS[term.op] for term in terms)):
            sign, sides = 1, (list[Sides](), list[Sides](), list[Sides]())
            for term, (one, kind) in zip(terms, parts, strict=True):
                sign *= one
                if kind != KNOWN or not self._always_known[term.left] or not self._always_known[term.right]:
                    sides[kind].append((term.left, term.right))
            equal, below, known = (tuple(sorted(places)) for places in sides)
            yield sign, (equal, below, known)

    @cached_property
    def _always_known(self) -> list[bool]:
        return [bool((ranks >= 0).all()) for ranks in self._refuter.ranks]

    def _sum(self, basic: Basic) -> int:
        """The pairs that agree on some columns and rise in others, of rows that know these and more."""
        equal, below, known = basic
        t, s = self._members(equal, [*below, *known])
        if len(below) == 0:
            sizes = [np.bincount(side[side >= 0], minlength=1) for side in (t, s)]
            most = min(size.size for size in sizes)
            found = int(sizes[0][:most] @ sizes[1][:most])
        elif len(below) == 1:
            [(left, right)] = below
            ranks, count = self._refuter.ranks, int(max(t.max(initial=-1), s.max(initial=-1))) + 1
            t_order = self._refuter.arranged(t, count, left)
            s_order = t_order if t is s and left == right else self._refuter.arranged(s, count, right)
            found = int(kernels.rising(ranks[left], t_order, t, ranks[right], s_order, s))
        else:
            terms = [ColumnTerm(left, Op.LT, right) for left, right in below]
            found = int(self._dominated(t, s, terms)[0].sum())
        return found - int(self._with_itself(t, s, [ColumnTerm(left, Op.LT, right) for left, right in below]).sum())

    def _members(self, equal: Equalities, asked: Sequence[Sides]) -> tuple[I32, I32]:
        """Rows by group as t and as s, -1 where a value that is asked for is unknown; the same array where they can."""
        grouped, ranks = self._refuter.grouped(equal), self._refuter.ranks
        lefts = [left for left, _ in asked if not self._always_known[left]]
        rights = [right for _, right in asked if not self._always_known[right]]
        t = np.where((ranks[lefts] >= 0).all(axis=0), grouped.t, np.int32(-1)) if lefts else grouped.t
        if grouped.t is grouped.s and sorted(lefts) == sorted(rights):
            return t, t
        return t, np.where((ranks[rights] >= 0).all(axis=0), grouped.s, np.int32(-1)) if rights else grouped.s

    def _dominated(self, t: I32, s: I32, orders: Sequence[ColumnTerm]) -> tuple[I64, I64]:
        """By row its partners as t, and as s, of one group and in these orders."""
        ranks = self._refuter.ranks
        t_at, s_at = np.flatnonzero(t >= 0), np.flatnonzero(s >= 0)
        as_t, as_s = np.zeros(t.size, dtype=np.int64), np.zeros(s.size, dtype=np.int64)
        points, queries = [], []
        for term in orders:
            # at most, or at least with the signs turned; a whole number is below another where it is at most one less
            sign = 1 if term.op in (Op.LT, Op.LE) else -1
            points.append(sign * ranks[term.left][t_at].astype(np.int64))
            queries.append(sign * ranks[term.right][s_at].astype(np.int64) - int(term.op in (Op.LT, Op.GT)))
        alike = t is s and orders[0].left == orders[0].right if orders else t is s
        per_s, per_t = count_dominance(
            np.ascontiguousarray(t[t_at]), points, np.ascontiguousarray(s[s_at]), queries, aligned=alike
        )
        as_t[t_at], as_s[s_at] = per_t, per_s
        return as_t, as_s

    def _with_itself(self, t: I32, s: I32, orders: Sequence[ColumnTerm]) -> Mask:
        """Rows that stand so to themselves, which are no pairs."""
        own: Mask = (t >= 0) & (t == s)
        ranks = self._refuter.ranks
        for term in orders:
            left, right = ranks[term.left], ranks[term.right]
            below, equal = left < right, left == right
            outcomes = {Op.LT: below, Op.LE: below | equal, Op.GT: ~below & ~equal, Op.GE: ~below}
            own &= outcomes[term.op]
        return own

    def pairs(self, mask: U64, words: PairWords) -> list[tuple[int, int]]:
        """The slots of the pairs that satisfy a set of atoms: for sets that few do. Complexity: as `partners`, and
        O(rows that have a partner^2)."""
        as_t, as_s = self.partners(mask)
        t, s = (self.live[np.flatnonzero(degrees)] for degrees in (as_t, as_s))
        found = []
        for one in t.tolist():
            others = s[s != one]
            satisfied = ((words.words(np.full(others.size, one), others) & mask) == mask).all(axis=1)
            found += [(one, other) for other in others[satisfied].tolist()]
        return found

    def partners(self, mask: U64) -> tuple[I64, I64]:
        """By row how many others it breaks a rule with, as t and as s.

        Complexity: as `counts`, twice that for each inequality, which is told apart by those that agree on it.
        """
        terms = self._refuter.terms(mask)
        equal = equalities(terms)
        orders = [term for term in terms if term.op not in (Op.EQ, Op.NE)]
        unlike = [(term.left, term.right) for term in terms if term.op is Op.NE]
        asked = [*((term.left, term.right) for term in orders), *unlike]
        as_t, as_s = np.zeros(self.live.size, dtype=np.int64), np.zeros(self.live.size, dtype=np.int64)
        for size in range(len(unlike) + 1):
            for agreed in combinations(unlike, size):
                t, s = self._members(tuple(sorted((*equal, *agreed))), asked)
                per_t, per_s = self._dominated(t, s, orders)
                own = self._with_itself(t, s, orders).astype(np.int64)
                sign = -1 if size % 2 else 1
                as_t += sign * (per_t - own)
                as_s += sign * (per_s - own)
        return as_t, as_s
