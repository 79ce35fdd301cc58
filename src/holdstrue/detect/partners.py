"""How many partners each row has, without finding them: sweeps, and inclusion and exclusion for !=.

A pair differs in a column unless it agrees there, so the pairs that satisfy a != term are all pairs
less those that agree on it, which are the pairs of a finer grouping.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from holdstrue.data.seed import PROCESS
from holdstrue.index.arrays import Numbering
from holdstrue.index.protocol import S_ROLE, T_ROLE, PairRows, Shape, Term
from holdstrue.kernels import digest
from holdstrue.kernels.sweep import dominance_counts
from holdstrue.operators import BELOW, EQUAL, Op
from holdstrue.typing import I32, I64, Mask

MOST_UNEQUAL = 3
"""Each != term doubles the sweeps; beyond eight sweeps pairs are found through the index instead."""


def count_partners(shape: Shape, rows: PairRows, check: int, slots: I32) -> tuple[I64, I64]:
    """Per row: its violating pairs as t, and as s, among the given rows (at most two order terms).

    Complexity: O(n log n) a sweep, 2 ** (number of != terms) sweeps.
    """
    roles = rows.roles[check][slots]
    t_at, s_at = np.flatnonzero(roles & T_ROLE), np.flatnonzero(roles & S_ROLE)
    ordered = [*(term for term in shape.terms if term.op.is_order), None, None][:2]
    unequal = [term for term in shape.terms if term.op is Op.NE]
    t_slots, s_slots = slots[t_at], slots[s_at]
    query_a, point_a, possible_a = _axis(ordered[0], rows, t_slots, s_slots)
    query_b, point_b, possible_b = _axis(ordered[1], rows, t_slots, s_slots)
    possible = possible_a & possible_b
    everyone = bool(possible.all())
    term = ordered[0]
    same = t_at.size == s_at.size and (term is None or term.left == term.right) and not rows.lopsided[check]
    as_t, as_s = np.zeros(t_at.size, dtype=np.int64), np.zeros(s_at.size, dtype=np.int64)
    for size in range(len(unequal) + 1):
        for agreed in combinations(unequal, size):
            t_group, s_group = _finer(rows, check, t_slots, s_slots, agreed)
            # terms across columns put t and s into different groups, so that one order does not serve both
            aligned = same and all(term.left == term.right for term in agreed)
            if everyone:
                queries, points = dominance_counts(
                    s_group, point_a, point_b, t_group, query_a, query_b, aligned=aligned
                )
            else:
                queries = np.zeros(t_at.size, dtype=np.int64)
                queries[possible], points = dominance_counts(
                    s_group, point_a, point_b, t_group[possible], query_a[possible], query_b[possible]
                )
            sign = -1 if size % 2 else 1
            as_t += sign * queries
            as_s += sign * points
    own = _with_itself(shape, rows, check, slots)
    return _spread(slots.size, t_at, as_t) - own, _spread(slots.size, s_at, as_s) - own


def _axis(term: Term[int] | None, rows: PairRows, t_slots: I32, s_slots: I32) -> tuple[I64, I64, Mask]:
    """A term as `point <= query`: values of t, values of s, and which t can have a partner at all."""
    possible = np.ones(t_slots.size, dtype=np.bool_)
    if term is None:
        return np.zeros(t_slots.size, dtype=np.int64), np.zeros(s_slots.size, dtype=np.int64), possible
    query, point = rows.codes(term.left)[t_slots], rows.codes(term.right)[s_slots]
    if BELOW in term.op.outcomes:
        # t < s is ~s < ~t
        query, point = ~query, ~point
    if EQUAL not in term.op.outcomes:
        possible = query != np.iinfo(np.int64).min
        query = query - 1
    return query, point, possible


def _finer(rows: PairRows, check: int, t_slots: I32, s_slots: I32, agreed: tuple[Term[int], ...]) -> tuple[I32, I32]:
    """Groups of rows that agree on the check's equality columns and on the given terms."""
    t_groups, s_groups = rows.groups(check)
    t_group, s_group = t_groups[t_slots], s_groups[s_slots]
    if not agreed:
        return t_group, s_group
    numbers = Numbering()
    parts = []
    for group, slots, columns in (
        (t_group, t_slots, [term.left for term in agreed]),
        (s_group, s_slots, [term.right for term in agreed]),
    ):
        hi, lo = np.empty(slots.size, dtype=np.uint64), np.empty(slots.size, dtype=np.uint64)
        hi[:], lo[:] = PROCESS.start
        for codes in (group.astype(np.int64), *(rows.codes(column)[slots] for column in columns)):
            digest.extend_key_by_words(hi, lo, codes.view(np.uint64), PROCESS.keys)
        parts.append(numbers.assign(hi, lo, np.ones(slots.size, dtype=np.bool_)))
    return parts[0], parts[1]


def _with_itself(shape: Shape, rows: PairRows, check: int, slots: I32) -> I64:
    """1 for rows that satisfy every term with themselves, which the sweeps count and the rule does not mean."""
    t_groups, s_groups = rows.groups(check)
    own = (rows.roles[check][slots] == T_ROLE | S_ROLE) & (t_groups[slots] == s_groups[slots])
    for term in shape.terms:
        if term.op is not Op.EQ:
            own &= term.op.on_codes(rows.codes(term.left)[slots], rows.codes(term.right)[slots])
    return own.astype(np.int64)


def _spread(size: int, at: I64, values: I64) -> I64:
    spread = np.zeros(size, dtype=np.int64)
    spread[at] = values
    return spread
