"""Chains stay sorted on both columns and few; the index over them answers as the reference."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from holdstrue.index import pair_chains
from holdstrue.index.pair_chains import PairChains, SortedRows
from holdstrue.index.protocol import Shape, Term
from holdstrue.papers import chains as chains_module
from holdstrue.papers.chains import ChainIndex, select
from holdstrue.rules.model import Op
from unit.papers.pair_reference import COMPARE, History, Table, histories, pairs, replay

ORDER = [Op.LT, Op.LE, Op.GT, Op.GE]
ops = st.sampled_from(ORDER)
points = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=9)


def columns(values: list[tuple[int, int]]) -> list[NDArray[np.int64]]:
    return [np.array([v[i] for v in values], dtype=np.int64) for i in (0, 1)]


def slots_of(values: list[int]) -> NDArray[np.int32]:
    return np.array(values, dtype=np.int32)


def longest_antichain(values: set[tuple[int, int]], first: Op, second: Op) -> int:
    """The largest set of distinct pairs of which none may follow another in a chain."""

    def follows(x: tuple[int, int], y: tuple[int, int]) -> bool:
        return COMPARE[first](x[0], y[0]) and COMPARE[second](x[1], y[1])

    apart = {(x, y): not (follows(x, y) or follows(y, x)) for x in values for y in values if x != y}
    for size in range(len(values), 0, -1):
        for chosen in combinations(values, size):
            if all(apart[x, y] for x, y in combinations(chosen, 2)):
                return size
    return 0


@settings(max_examples=150, deadline=None)
@given(points, ops, ops)
def test_built_index_has_the_fewest_chains(values: list[tuple[int, int]], first: Op, second: Op) -> None:
    index = PairChains(first, second)
    index.insert(slots_of(list(range(len(values)))), columns(values))
    index._check()
    assert index.rank == longest_antichain(set(values), first, second)
    for chain in index.chains():
        for t, later in combinations(chain, 2):
            assert COMPARE[first](values[later][0], values[t][0])
            assert COMPARE[second](values[later][1], values[t][1])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=40),
    st.tuples(ops, ops),
    st.tuples(*[st.sampled_from([op for op in Op if op is not Op.EQ])] * 2),
)
def test_any_index_serves_any_two_inequalities_through_updates(
    values: list[tuple[int, int]], own: tuple[Op, Op], asked: tuple[Op, Op]
) -> None:
    index = PairChains(*own)
    inside: list[int] = []
    half = len(values) // 2

    def update(rows: list[int], coming: bool) -> None:
        change = index.insert if coming else index.remove
        change(slots_of(rows), columns([values[r] for r in rows]))
        index._check()

    update(list(range(half)), True)
    inside += range(half)
    for row in range(half, len(values)):
        update([row], True)
        inside.append(row)
        if row % 3 == 0:
            update([inside.pop(row % len(inside))], False)
    queries = [(x, y) for x in (-1, 0, 3, 8) for y in (0, 4, 9)]
    together: list[list[int]] = [[] for _ in queries]
    for at, rows in index.fetch_many(asked, columns(queries)):
        for query, row in zip(at.tolist(), rows.tolist(), strict=True):
            together[query].append(row)
    for (x, y), many in zip(queries, together, strict=True):
        first, second = COMPARE[asked[0]], COMPARE[asked[1]]
        expected = [r for r in sorted(inside) if first(values[r][0], x) and second(values[r][1], y)]
        assert sorted(index.fetch(asked, [x, y]).tolist()) == expected
        assert sorted(many) == expected
    assert sorted(index.rows().tolist()) == sorted(inside)
    update(inside, False)
    assert index.rank == len(index) == 0


def test_extreme_codes_keep_their_order() -> None:
    low, high = -(2**63), 2**63 - 1
    values = [(low, high), (high, low), (0, 0), (low, low), (high, high)]
    for first in ORDER:
        index = PairChains(first, Op.LE)
        index.insert(slots_of([0, 1, 2]), columns(values[:3]))
        index.insert(slots_of([3]), columns(values[3:4]))
        index.insert(slots_of([4]), columns(values[4:]))
        index._check()
        assert sorted(index.fetch([Op.GE, Op.GE], [low, low]).tolist()) == [0, 1, 2, 3, 4]
        assert sorted(index.fetch([Op.GT, Op.LT], [low, high]).tolist()) == [1, 2]


def test_rows_that_are_not_inside_are_refused() -> None:
    index = PairChains(Op.GT, Op.GT)
    index.insert(slots_of([1, 2, 3]), columns([(5, 5), (5, 5), (6, 6)]))
    for row, value in ((9, (5, 5)), (9, (6, 6)), (1, (7, 7))):
        with pytest.raises(KeyError):
            index.remove(slots_of([row]), columns([value]))
    index._check()
    rows = SortedRows()
    rows.insert(slots_of([1]), [])
    with pytest.raises(KeyError):
        rows.remove(slots_of([2]), [])


@settings(max_examples=150, deadline=None)
@given(histories(), st.sampled_from([1, 6]), st.sampled_from([3, pair_chains.CHUNK]))
def test_index_answers_as_the_reference(history: History, vector: int, chunk: int) -> None:
    index = ChainIndex(history.shapes, history.table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains_module, "VECTOR_QUERIES", vector)
        patch.setattr(chains_module, "CHUNK", chunk)
        patch.setattr(pair_chains, "CHUNK", chunk)
        replay(history, index, index._check)


def test_chains_run_along_the_correlation() -> None:
    rng = np.random.default_rng(3)
    base = rng.permutation(500)
    noise = rng.integers(0, 500, 500)
    values = np.stack([base, 2 * base + 1, -base, noise]).astype(np.int64)
    table = Table(values, [np.full(500, 3, np.uint8)] * 2)
    up = (Term(0, Op.GT, 0), Term(3, Op.GT, 3), Term(1, Op.GT, 1))
    chosen = select(up, table, slots_of(list(range(500))))
    assert chosen.searched == (up[0], up[2]) and chosen.verified == (up[1],) and chosen.rising == (True, True)
    down = select((Term(0, Op.GT, 0), Term(2, Op.LT, 2)), table, slots_of(list(range(500))))
    assert down.rising == (False, False)
    index = ChainIndex([Shape(up), Shape((Term(0, Op.GT, 0), Term(2, Op.LT, 2)))], table)
    for row in range(500):  # one by one: chosen again as the data shows what it is like
        index.insert(slots_of([row]))
    assert index.explain() == [
        "check 0: hash [], search [t.0 > s.0, t.1 > s.1], verify [t.3 > s.3]",
        "  t and s: 1 groups of Index(0>=, 1>=), rank up to 1",
        "check 1: hash [], search [t.0 > s.0, t.2 < s.2], verify []",
        "  t and s: 1 groups of Index(0>=, 2<=), rank up to 1",
    ]
    assert index.size_bytes() > 500 * 20


def test_an_fd_and_a_key_need_no_chains() -> None:
    table = Table.of([[1, 10], [1, 10], [1, 20], [2, 20]], checks=2)
    index = ChainIndex([Shape((Term(0, Op.EQ, 0), Term(1, Op.NE, 1))), Shape((Term(1, Op.EQ, 1),))], table)
    index.insert(slots_of([0, 1, 2, 3]))
    assert pairs(index, 0, range(4)) == {(0, 2), (1, 2), (2, 0), (2, 1)}
    assert pairs(index, 1, range(4)) == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert index.explain(1) == ["check 1: hash [t.1 = s.1], search [], verify []", "  t and s: 2 groups"]
    assert index.explain(0)[1] == "  t and s: 2 groups sorted on 1"
