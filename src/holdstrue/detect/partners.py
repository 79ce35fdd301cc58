"""How many partners each row has, without finding them: dominance, and inclusion and exclusion for !=.

A pair differs in a column unless it agrees there, so the pairs that satisfy a != term are all pairs
less those that agree on it, which are the pairs of a finer grouping. Pairs that violate a rule before and
after an update satisfy the terms of both versions: twice the terms, of which those that ask the same of one of
the two rows become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from holdstrue.data.seed import PROCESS
from holdstrue.index.arrays import Numbering
from holdstrue.index.protocol import S_ROLE, T_ROLE, PairRows, Shape, Term
from holdstrue.kernels import digest
from holdstrue.kernels.dominance import count_dominance
from holdstrue.operators import BELOW, EQUAL, Op
from holdstrue.typing import I32, I64, Mask

FEW_UNEQUAL = 3
"""Each != term doubles the sweeps; a first load takes up to eight of them without an estimate of the other way."""
MOST_UNEQUAL = 8
"""Beyond 256 sweeps, of one image of the table or of both, pairs are found through the index, whatever that costs."""


@dataclass(frozen=True)
class SweepSide:
    """Rows that play one role: their slots, and the versions in which they must satisfy the terms too."""

    slots: I32
    twins: I32 | None = None

    def at(self, places: I64) -> SweepSide:
        """Some of the rows."""
        return SweepSide(self.slots[places], None if self.twins is None else self.twins[places])

    @property
    def images(self) -> tuple[I32, ...]:
        """The versions, one image of the table after the other."""
        return (self.slots,) if self.twins is None else (self.slots, self.twins)


@dataclass(frozen=True)
class Axis:
    """An order term as `point <= query`: values of s and of t."""

    points: I64
    queries: I64


def unequal_terms(shape: Shape) -> int:
    """How many != terms there are."""
    return sum(term.op is Op.NE for term in shape.terms)


def count_partners(shape: Shape, rows: PairRows, check: int, slots: I32) -> tuple[I64, I64]:
    """Per row: its violating pairs as t, and as s, among the given rows.

    Complexity: that of `count_dominance` a sweep, 2 ** (number of != terms) sweeps.
    """
    side = SweepSide(slots)
    return count_between(shape, rows, check, side, side)


def count_between(shape: Shape, rows: PairRows, check: int, t: SweepSide, s: SweepSide) -> tuple[I64, I64]:
    """Per row of t its violating pairs with the rows of s, and the other way round; nobody is paired with itself.

    Both sides have twins or none has, and `t is s` where they are the same rows. Complexity: as `count_partners`.
    """
    own = _with_itself(shape, rows, check, t) if t is s else np.zeros(1, dtype=np.int64)
    t_at, s_at = _able(rows, check, t, T_ROLE), _able(rows, check, s, S_ROLE)
    queries, points = t.at(t_at), s.at(s_at)
    as_t, as_s = np.zeros(t.slots.size, dtype=np.int64), np.zeros(s.slots.size, dtype=np.int64)
    axes, possible, straight = _axes(shape, rows, queries, points)
    first = next((term for term in shape.terms if term.op.is_order), None)
    alike = t is s and t.twins is None and np.array_equal(t_at, s_at) and not rows.lopsided[check]
    alike = alike and bool(possible.all()) and (first is None or (straight and first.left == first.right))
    if not possible.all():
        t_at, queries = t_at[possible], queries.at(np.flatnonzero(possible))
        axes = [Axis(axis.points, axis.queries[possible]) for axis in axes]
    if not t_at.size or not s_at.size:
        return as_t, as_s
    pairs = list(zip(queries.images, points.images, strict=True))
    t_groups, s_groups = rows.groups(check)
    same: list[tuple[Any, Any]] = [(t_groups[a], s_groups[b]) for a, b in pairs]
    unequal = [
        ((rows.codes(term.left)[a], rows.codes(term.right)[b]), term.left == term.right)
        for a, b in pairs
        for term in shape.terms
        if term.op is Op.NE
    ]
    for size in range(len(unequal) + 1):
        for agreed in combinations(unequal, size):
            t_group, s_group = _grouped([*same, *(columns for columns, _ in agreed)])
            # terms across columns put t and s into different groups, so that one order does not serve both
            per_t, per_s = count_dominance(
                s_group,
                [axis.points for axis in axes],
                t_group,
                [axis.queries for axis in axes],
                aligned=alike and all(own_column for _, own_column in agreed),
            )
            sign = -1 if size % 2 else 1
            as_t[t_at] += sign * per_t
            as_s[s_at] += sign * per_s
    return as_t - own, as_s - own


def partners_about(terms: Sequence[Term[int]], rows: PairRows, check: int, few: I32, others: I32) -> float:
    """How many of some other rows each of a few rows satisfies such terms with, as t, on average.

    Complexity: O(few * others * terms).
    """
    t, s = few[:, np.newaxis], others[np.newaxis]
    t_groups, s_groups = rows.groups(check)
    met = (t_groups[t] == s_groups[s]) & (t_groups[t] >= 0) & (t != s)
    for term in terms:
        if term.op is not Op.EQ:
            met &= term.op.on_codes(rows.codes(term.left)[t], rows.codes(term.right)[s])
    return float(np.count_nonzero(met)) / few.size


def _able(rows: PairRows, check: int, side: SweepSide, role: int) -> I64:
    able = np.ones(side.slots.size, dtype=np.bool_)
    for slots in side.images:
        able &= (rows.roles[check][slots] & role) != 0
    return np.flatnonzero(able)


def _axes(shape: Shape, rows: PairRows, t: SweepSide, s: SweepSide) -> tuple[list[Axis], Mask, bool]:
    """The order terms of every image, which t can have a partner at all, and whether the first stayed as it was.

    `t.a >= s.a and t.b >= s.a` becomes one axis, whose queries do not order as its points do.
    """
    axes: list[Axis] = []
    possible = np.ones(t.slots.size, dtype=np.bool_)
    for t_slots, s_slots in zip(t.images, s.images, strict=True):
        for term in shape.terms:
            if term.op.is_order:
                axis, can = _axis(term, rows, t_slots, s_slots)
                axes.append(axis)
                possible &= can
    joined = _joined(axes)
    return joined, possible, not axes or joined[0] is axes[0]


def _axis(term: Term[int], rows: PairRows, t_slots: I32, s_slots: I32) -> tuple[Axis, Mask]:
    query, point = rows.codes(term.left)[t_slots], rows.codes(term.right)[s_slots]
    possible = np.ones(t_slots.size, dtype=np.bool_)
    if BELOW in term.op.outcomes:
        # t < s is ~s < ~t
        query, point = ~query, ~point
    if EQUAL not in term.op.outcomes:
        possible = query != np.iinfo(np.int64).min
        query = query - 1
    return Axis(point, query), possible


def _joined(axes: Sequence[Axis]) -> list[Axis]:
    """Axes with the same points become one with the lower queries, those with the same queries one with higher points.

    >>> one, low, high = np.array([5]), np.array([2]), np.array([7])
    >>> [(axis.points.tolist(), axis.queries.tolist()) for axis in _joined([Axis(one, low), Axis(one, high)])]
    [([5], [2])]
    """
    kept: list[Axis] = []
    for axis in axes:
        for i, other in enumerate(kept):
            if np.array_equal(axis.points, other.points):
                kept[i] = Axis(other.points, np.minimum(other.queries, axis.queries))
            elif np.array_equal(axis.queries, other.queries):
                kept[i] = Axis(np.maximum(other.points, axis.points), other.queries)
            else:
                continue
            break
        else:
            kept.append(axis)
    return kept


def _grouped(columns: Sequence[tuple[Any, Any]]) -> tuple[I32, I32]:
    """Numbers for t and s that are equal exactly when the two agree on every column."""
    first, *others = columns
    # the groups of two images are mostly the same
    columns = [first, *(own for own in others if not all(map(np.array_equal, own, first)))]
    if len(columns) == 1:
        return first[0], first[1]
    numbers = Numbering()
    sides = []
    for side in (0, 1):
        size = columns[0][side].size
        hi, lo = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.uint64)
        hi[:], lo[:] = PROCESS.start
        for column in columns:
            words = np.ascontiguousarray(column[side], dtype=np.int64).view(np.uint64)
            digest.extend_key_by_words(hi, lo, words, PROCESS.keys)
        sides.append(numbers.assign(hi, lo, np.ones(size, dtype=np.bool_)))
    return sides[0], sides[1]


def _with_itself(shape: Shape, rows: PairRows, check: int, side: SweepSide) -> I64:
    """1 for rows that satisfy every term with themselves, which the sweeps count and the rule does not mean."""
    if any(term.left == term.right and EQUAL not in term.op.outcomes for term in shape.terms):
        return np.zeros(1, dtype=np.int64)  # nobody is above itself
    t_groups, s_groups = rows.groups(check)
    own = np.ones(side.slots.size, dtype=np.bool_)
    for slots in side.images:
        own &= (rows.roles[check][slots] == T_ROLE | S_ROLE) & (t_groups[slots] == s_groups[slots])
        for term in shape.terms:
            if term.op is not Op.EQ:
                own &= term.op.on_codes(rows.codes(term.left)[slots], rows.codes(term.right)[slots])
    return own.astype(np.int64)
