"""Packed, ranked and counted evidences equal those of plain loops, whatever the packing."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.discovery.bitsets import members
from holdstrue.discovery.denials import evidence, word_layout
from holdstrue.discovery.denials.breaking_pairs import breaking_pairs
from holdstrue.discovery.denials.choose_space import choose_space
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.evidence import (
    Evidence,
    evidence_between,
    evidence_within,
    merged,
    tile_evidence,
)
from holdstrue.discovery.denials.pair_words import PairWords
from holdstrue.discovery.denials.space import Space
from holdstrue.discovery.dependencies.left_sides import LeftSides
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from oracle_denial import holds

ONE = Work(threads=1)


def table_of(columns: int, rows: int, values: int, seed: int, nulls: float = 0.2) -> pa.Table:
    chance = random.Random(seed)
    data: dict[str, Any] = {}
    for i in range(columns):
        column = [None if chance.random() < nulls else chance.randrange(values) for _ in range(rows)]
        data[f"c{i}"] = column if i % 2 else [None if v is None else f"v{v}" for v in column]
    return pa.table({name: pa.array(v, pa.int64() if int(name[1:]) % 2 else pa.string()) for name, v in data.items()})


def coded(table: pa.Table, **options: Any) -> tuple[Space, CodedRows]:
    space = choose_space(table, DiscoveryOptions(**options))
    rows = CodedRows(space)
    rows.insert(table)
    return space, rows


def plain(space: Space, table: pa.Table, pairs: list[tuple[int, int]]) -> Counter[frozenset[int]]:
    rows = table.to_pylist()
    found: Counter[frozenset[int]] = Counter()
    for t, s in pairs:
        held = [
            number
            for number, (i, op) in enumerate(space.atoms)
            if holds(
                rows[t][space.columns[space.comparisons[i].left]],
                str(op),
                rows[s][space.columns[space.comparisons[i].right]],
                space.nulls,
            )
        ]
        found[frozenset(held)] += 1
    return found


def counter(space: Space, found: Evidence) -> Counter[frozenset[int]]:
    words = [frozenset(members(mask)) for mask in found.words]
    assert len(set(words)) == len(words)
    return Counter(dict(zip(words, found.counts.tolist())))


def ordered_pairs(one: range, other: range) -> list[tuple[int, int]]:
    return [pair for i in one for j in other if i != j for pair in ((i, j), (j, i))]


CASES = [
    {"columns": 3, "rows": 60, "values": 3},
    {"columns": 3, "rows": 60, "values": 3, "nulls": 0.0},
    {"columns": 40, "rows": 30, "values": 3},
    {"columns": 8, "rows": 70, "values": 50, "nulls": 0.0},
    {"columns": 2, "rows": 90, "values": 2},
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("nulls", ["unknown", "equal"])
@pytest.mark.parametrize("narrow", [1 << 16, 0])
def test_within_and_between(case: Any, nulls: str, narrow: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_layout, "_NARROW", narrow)
    monkeypatch.setattr(evidence, "TASK_PAIRS", 100)
    table = table_of(seed=1, **case)
    space, rows = coded(table, nulls=nulls, cross=case["columns"] < 10)
    n = table.num_rows
    everything = np.arange(n, dtype=np.int64)
    found = evidence_within(space, rows.codes, rows.known, everything, Work(threads=2))
    expected = plain(space, table, [(t, s) for t in range(n) for s in range(n) if t != s])
    assert counter(space, found) == expected
    t, s = found.pairs.T
    assert (PairWords(rows).words(t, s) == found.words).all() and (t != s).all()
    third = n // 3
    apart = evidence_between(space, rows.codes, rows.known, everything[third:], everything[:third], ONE)
    assert counter(space, apart) == plain(space, table, ordered_pairs(range(third), range(third, n)))
    blocks = [(rows.codes[:, a:b], rows.known[:, a:b]) for a, b in ((0, third), (third, n))]
    parts = [tile_evidence(space, blocks[0]), tile_evidence(space, blocks[1]), tile_evidence(space, *blocks)]
    words, counts = merged(space, parts)
    assert counter(space, Evidence(words, counts, np.zeros((counts.size, 2), dtype=np.int64))) == expected


def test_many_distinct_words_grow_the_table() -> None:
    table = table_of(13, 120, 3, seed=3, nulls=0.0)
    space, rows = coded(table, cross=False)
    found = evidence_within(space, rows.codes, rows.known, np.arange(120), ONE)
    assert len(found.counts) > 5000 and found.counts.sum() == 120 * 119
    assert counter(space, found) == plain(space, table, [(t, s) for t in range(120) for s in range(120) if t != s])


@pytest.mark.parametrize("nulls", ["unknown", "equal"])
def test_listed_pairs(nulls: str) -> None:
    table = table_of(6, 40, 4, seed=5)
    space, rows = coded(table, nulls=nulls)
    t, s = np.meshgrid(np.arange(40), np.arange(40))
    t, s = t[t != s], s[t != s]
    words = PairWords(rows).words(t, s)
    for mask, i, j in zip(words[::50], t[::50].tolist(), s[::50].tolist()):
        assert plain(space, table, [(i, j)]) == {frozenset(members(mask)): 1}
    both, pairs = PairWords(rows).distinct(t, s)
    assert (PairWords(rows).words(pairs[:, 0], pairs[:, 1]) == both).all()
    assert {mask.tobytes() for mask in both} == {mask.tobytes() for mask in words}
    chosen = [
        words[3] & space.mask([0, 1, 2, 3, 4, 5, 6, 7]),
        words[700] & space.mask([1, 4, 5, 9]),
        space.mask([2, 3, 4]),
    ]
    listed = breaking_pairs(rows, chosen, ONE)
    for mask, all_pairs in zip(chosen, listed):
        hit = ((words & mask) == mask).all(axis=1)
        assert sorted(all_pairs) == sorted(zip(t[hit].tolist(), s[hit].tolist()))
    for mask, one_pair in zip(chosen, breaking_pairs(rows, chosen, ONE, most=1)):
        hit = ((words & mask) == mask).all(axis=1)
        assert len(one_pair) == int(hit.any())


def test_counts_that_no_time_is_left_for_are_not_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of wide tables that takes longer than the counting."""

    def put_together(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(word_layout.PairCounter, "into", put_together)
    rows = CodedRows(space := choose_space(table := table_of(4, 50, 3, 1), DiscoveryOptions()))
    slots = rows.insert(table)
    found = evidence_within(space, rows.codes, rows.known, slots, Work.lasting(-1.0, threads=1))
    assert (found.complete, found.words.shape[0]) == (False, 0)


@pytest.mark.parametrize("columns", [1, 63, 64, 65, 128])
def test_columns_that_are_not_compared_with_others_stand_alone(columns: int) -> None:
    table = pa.table({f"c{i}": pa.array([i], pa.int64()) for i in range(columns)})
    assert choose_space(table, DiscoveryOptions()).components == tuple((i,) for i in range(columns))
    for target in range(columns + 1):
        left = LeftSides(target, columns)
        assert members(left.allowed) == [i for i in range(columns) if i != target]
