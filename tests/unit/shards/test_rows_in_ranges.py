"""Pairs by ranges: those that meet in a range and those that lie apart are all pairs, each once."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue.index.protocol import Term
from holdstrue.operators import Op
from holdstrue.plan.checks import PairCheck
from holdstrue.shards.ranges import ApartCells, is_ranged, meeting, most_cuts, range_columns

ORDERS = [op for op in Op if op.is_order]


def holds(terms: tuple[Term[str], ...], t: dict[str, int], s: dict[str, int]) -> bool:
    return all(term.op.on_values(t[term.left], s[term.right]) for term in terms)


@settings(deadline=None)
@given(st.data())
def test_every_pair_is_met_once_or_lies_apart(data: st.DataObject) -> None:
    ops = data.draw(st.lists(st.sampled_from(ORDERS), min_size=1, max_size=3))
    names = "abc"[: len(ops)]
    rows = data.draw(st.lists(st.tuples(*[st.integers(0, 9)] * len(ops)), max_size=25))
    cuts = {name: data.draw(st.lists(st.integers(0, 9), max_size=4, unique=True).map(sorted)) for name in names}
    as_t, as_s = (data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))) for _ in range(2))
    check = PairCheck(0, "data", tuple(Term(n, op, n) for n, op in zip(names, ops, strict=True)))
    columns = [range_columns(term) for term in check.terms]
    parts = meeting(check)
    shape = tuple(2 * len(cuts[name]) + 1 for name in names)
    cells = ApartCells(tuple(ops), np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64))
    known: list[tuple[dict[str, int], tuple[int, ...], bool, bool]] = []
    for row, may_t, may_s in zip(rows, as_t, as_s, strict=True):
        own = dict(zip(names, row, strict=True))
        there = tuple(sum(c < own[n] for c in cuts[n]) + sum(c <= own[n] for c in cuts[n]) for n in names)
        for column, number in zip(columns, there, strict=True):
            own |= {column.number: number, column.place: number}
        cells.t[there] += may_t
        cells.s[there] += may_s
        known.append((own, there, may_t, may_s))
    apart = 0
    flagged: set[int] = set()
    for (i, (t, t_cell, may_t, _)), (j, (s, s_cell, _, may_s)) in product(enumerate(known), repeat=2):
        if i == j or not may_t or not may_s or not holds(check.terms, t, s):
            continue
        met = sum(holds(part.terms, t, s) for part in parts)
        assert met == any(a == b for a, b in zip(t_cell, s_cell, strict=True))
        apart += not met
        flagged |= set() if met else {i, j}
    assert cells.pairs() == apart
    of_t, of_s = cells.partnered()
    assert flagged == {i for i, (_, at, t, s) in enumerate(known) if (t and of_t[at]) or (s and of_s[at])}
    most = data.draw(st.integers(1, 30))
    chosen = cells.pairs_of_cells(most)
    assert len({*chosen}) == len(chosen)
    rows_there = sum(int(cells.t.flat[t]) * int(cells.s.flat[s]) for t, s in chosen)
    assert min(most, apart) <= rows_there <= apart
    for t_at, s_at in chosen:
        spots = zip(np.unravel_index(t_at, shape), np.unravel_index(s_at, shape), ops, strict=True)
        assert all(a != b and op.on_values(a, b) for a, b, op in spots)


def test_what_is_left_to_others() -> None:
    order, equal = Term("a", Op.LT, "a"), Term("b", Op.EQ, "b")
    assert is_ranged(PairCheck(0, "data", (order,)))
    for terms in (
        (equal, order),
        (Term("a", Op.LT, "b"),),
        (Term("a", Op.NE, "a"), order),
        (order, Term("a", Op.LE, "a")),
    ):
        assert not is_ranged(PairCheck(0, "data", terms))


@pytest.mark.parametrize("terms", [1, 2, 3, 4])
def test_cells_stay_few(terms: int) -> None:
    assert (2 * most_cuts(terms) + 1) ** terms <= 1 << 16


def test_more_pairs_than_64_bits_count() -> None:
    rows = np.array([1 << 40, 1 << 40])
    assert ApartCells((Op.LT,), rows, rows).pairs() == 1 << 80
