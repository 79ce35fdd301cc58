"""The LT-tree keeps its red-black and LT-set invariants; the index over it answers as the reference."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue.errors import HoldstrueError
from holdstrue.index.protocol import S_ROLE, T_ROLE, Shape, Term
from holdstrue.papers import bitmaps
from holdstrue.papers.bitmaps import LTTreeIndex
from holdstrue.papers.lt_tree import LTTree
from holdstrue.papers.operands import RunningOperand
from holdstrue.rules.model import Op
from unit.papers.pair_reference import History, Table, histories, probed, replay

BitMap = pytest.importorskip("pyroaring").BitMap

changes = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 200)), max_size=120)


@settings(max_examples=80, deadline=None)
@given(changes, st.lists(st.integers(-1, 41), min_size=1, max_size=6))
def test_tree_is_a_sorted_map_with_ranges(steps: list[tuple[int, int]], asked: list[int]) -> None:
    tree, model = LTTree(), dict[int, set[int]]()
    for value, row in steps:
        rows = model.setdefault(value, set())
        if row in rows:
            rows.discard(row)
            tree.remove(value, BitMap([row]))
            if not rows:
                del model[value]
        else:
            rows.add(row)
            for other, others in list(model.items()):  # a row has one value
                if other != value and row in others:
                    others.discard(row)
                    tree.remove(other, BitMap([row]))
                    if not others:
                        del model[other]
            tree.insert(value, BitMap([row]))
        tree._check()
    assert {value: set(rows) for value, rows in tree.items()} == model
    for value in asked:
        assert set(tree.equal(value)) == model.get(value, set())
        assert set(tree.smaller(value)) == {r for v, rows in model.items() if v < value for r in rows}
        for high in asked:
            expected = {r for v, rows in model.items() if value <= v < high for r in rows}
            assert set(tree.between(value, high)) == expected
    running = RunningOperand(tree)
    for value in sorted(asked):
        assert set(running.advance(value)) == set(tree.smaller(value))


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 300)), st.sets(st.integers(0, 300)))
def test_bulk_build_is_a_red_black_tree(first: set[int], second: set[int]) -> None:
    tree = LTTree()
    tree.insert_many([(value, BitMap([value])) for value in sorted(first)])
    tree._check()
    tree.insert_many([(value, BitMap([1000 + value])) for value in sorted(second)])
    tree._check()
    assert [value for value, _ in tree.items()] == sorted(first | second)
    for value in sorted(first):
        tree.remove(value, BitMap([value]))
        tree._check()
    assert len(tree) == len(second)


def test_height_is_logarithmic_and_unknown_values_are_refused() -> None:
    tree = LTTree()
    for value in range(2000):
        tree.insert(value, BitMap([value]))
    tree._check()
    height, level = 0, [tree._root]
    while level:
        height += 1
        level = [c for x in level for c in (x.left, x.right) if c is not tree._nil]
    assert height <= 2 * math.log2(2001)
    with pytest.raises(KeyError):
        tree.remove(5000, BitMap([1]))


@settings(max_examples=150, deadline=None)
@given(histories())
def test_index_answers_as_the_reference(history: History) -> None:
    index = LTTreeIndex(history.shapes, history.table)
    replay(history, index, index._check)


@settings(max_examples=40, deadline=None)
@given(histories())
def test_answers_are_the_same_without_memo(history: History) -> None:
    index = LTTreeIndex(history.shapes, history.table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bitmaps, "MEMO_IDS", -1)
        replay(history, index, index._check)


def _example() -> tuple[LTTreeIndex, Table]:
    rng = np.random.default_rng(7)
    table = Table.of(rng.integers(0, 40, (300, 3)).tolist(), checks=2)
    shapes = [
        Shape((Term(0, Op.EQ, 0), Term(1, Op.GT, 1), Term(2, Op.LT, 2))),
        Shape((Term(0, Op.EQ, 0), Term(1, Op.GT, 1), Term(2, Op.NE, 2))),
    ]
    return LTTreeIndex(shapes, table), table


def test_answers_are_kept_for_the_same_slots_until_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    index, _ = _example()
    index.insert(np.arange(200, dtype=np.int32))
    runs = 0
    original = LTTreeIndex._detect_all

    def counted(self: LTTreeIndex, slots: Any) -> Any:
        nonlocal runs
        runs += 1
        return original(self, slots)

    monkeypatch.setattr(LTTreeIndex, "_detect_all", counted)
    for check in (0, 1):
        for role in (T_ROLE, S_ROLE):
            probed(index, check, [250, 251, 252], role)
    assert runs == 1
    index.insert(np.array([250], dtype=np.int32))
    probed(index, 0, [250, 251, 252], T_ROLE)
    assert runs == 2


def test_explain_size_and_order_follow_the_data() -> None:
    index, table = _example()
    table.values[0] %= 3
    empty = index.size_bytes()
    index.insert(np.arange(300, dtype=np.int32))
    assert index.size_bytes() > empty
    text = index.explain()
    assert text[0] == "predicate t.0 = s.0: UNI_EQUAL, 3 values"
    assert text[-1].startswith("prefix t.0 = s.0, t.1 > s.1 of rule 0 for rule 1: benefit 1, potential 0")
    assert [line for line in index.explain(1) if line.startswith("rule")] == [
        "rule 1: t.0 = s.0 -> t.2 != s.2 -> t.1 > s.1"
    ]
    index._check()


def test_missing_package_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "pyroaring":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(HoldstrueError, match=r"pip install 'holdstrue\[lt-tree\]'"):
        LTTreeIndex([], Table.of([[1]], 0))
