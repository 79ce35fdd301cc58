"""Worked examples of paper 003 (Weever): the packages table, the LT-tree of Figure 1, and Table 2."""

from __future__ import annotations

import numpy as np
import pytest

from holdstrue.index.protocol import S_ROLE, T_ROLE, PairIndex, Shape, Term
from holdstrue.papers.bitmaps import LTTreeIndex
from holdstrue.papers.chains import ChainIndex
from holdstrue.papers.lt_tree import LTTree
from holdstrue.papers.schedule import PredicateClass, PredicateStat, Schedule, Share, schedule
from holdstrue.rules.model import Op
from unit.papers.pair_reference import Table, pairs, probed

CODE, ORIGIN, DESTINATION, DISTANCE, VOLUME, POSTAGE = range(6)
LONDON, CAPE_TOWN, NEW_DELHI, LIMA, MEXICO_CITY, MONACO = range(6)
PACKAGES = [
    (0, LONDON, CAPE_TOWN, 9700, 8, 100),
    (1, CAPE_TOWN, LIMA, 9700, 18, 50),
    (2, LONDON, NEW_DELHI, 6600, 30, 25),
    (3, CAPE_TOWN, LONDON, 9700, 45, 200),
    (4, NEW_DELHI, LONDON, 6700, 45, 50),
    (5, MEXICO_CITY, MONACO, 9700, 18, 10),
]
PHI1 = Shape((Term(CODE, Op.EQ, CODE),))
PHI2 = Shape((
    Term(ORIGIN, Op.EQ, DESTINATION), Term(DESTINATION, Op.EQ, ORIGIN), Term(DISTANCE, Op.NE, DISTANCE),
))  # fmt: skip
PHI3 = Shape((
    Term(DISTANCE, Op.EQ, DISTANCE), Term(VOLUME, Op.LT, VOLUME), Term(POSTAGE, Op.GT, POSTAGE),
))  # fmt: skip


def slots(*rows: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(rows, dtype=np.int32)


@pytest.mark.parametrize("kind", [LTTreeIndex, ChainIndex])
def test_packages_insert_5_and_delete_4(kind: type[ChainIndex] | type[LTTreeIndex]) -> None:
    index: PairIndex = kind([PHI1, PHI2, PHI3], Table.of(PACKAGES, checks=3))
    index.insert(slots(0, 1, 2, 3, 4))
    assert [pairs(index, check, range(5)) for check in range(3)] == [set(), {(2, 4), (4, 2)}, {(0, 1)}]
    # Section 3.2: with t5 as t nothing is left of phi3, with t5 as s {t0}.
    assert probed(index, 2, [5], T_ROLE) == [[]]
    assert probed(index, 2, [5], S_ROLE) == [[0]]
    index.insert(slots(5))
    found = [pairs(index, check, range(6)) for check in range(3)]
    assert found == [set(), {(2, 4), (4, 2)}, {(0, 1), (0, 5)}]
    index.remove(slots(4))
    left = [0, 1, 2, 3, 5]
    assert [pairs(index, check, left) for check in range(3)] == [set(), set(), {(0, 1), (0, 5)}]


def test_section_5_1_equal_distance_retains_three() -> None:
    index = LTTreeIndex([Shape((Term(DISTANCE, Op.EQ, DISTANCE),))], Table.of(PACKAGES, checks=1))
    index.insert(slots(0, 1, 2, 3, 4))
    assert probed(index, 0, [5], T_ROLE) == [[0, 1, 3]]


def test_figure_1_lt_tree_on_postage() -> None:
    bitmap = pytest.importorskip("pyroaring").BitMap
    tree = LTTree()
    for row in range(6):
        tree.insert(PACKAGES[row][POSTAGE], bitmap([row]))
        tree._check()
    # Algorithm 1 with its erratum: an exact match adds the LT-set too.
    assert [sorted(tree.smaller(v)) for v in (10, 25, 50, 100, 1000)] == [
        [], [5], [2, 5], [1, 2, 4, 5], [0, 1, 2, 3, 4, 5],
    ]  # fmt: skip
    tree.remove(50, bitmap([4]))
    tree._check()
    assert sorted(tree.smaller(100)) == [1, 2, 5] and len(tree) == 5


def table_2() -> Schedule[str, str]:
    stats = [PredicateStat(f"p{i}", PredicateClass(i), 10) for i in range(1, 7)]
    rules = {"phi4": ["p2", "p4", "p5", "p6"], "phi5": ["p2", "p3", "p4", "p5"], "phi6": ["p1", "p2", "p3"]}
    return schedule(rules, stats)


def test_table_2_execution_order() -> None:
    assert [rule for rule, _ in table_2().rules] == ["phi4", "phi5", "phi6"]


def test_table_2_common_prefixes() -> None:
    first, second = table_2().prefixes
    assert (first.owner, first.predicates, first.targets) == ("phi4", ("p2", "p4", "p5"), ("phi5",))
    assert (first.benefit, first.potential, first.shared) == (2, 0, True)
    assert (second.owner, second.predicates, second.targets) == ("phi5", ("p2", "p3"), ("phi6",))
    assert (second.benefit, second.potential, second.shared) == (1, 2, False)


def test_table_2_steps() -> None:
    steps = table_2().steps()
    assert [step.predicate if not isinstance(step, Share) else "share" for step in steps[:4]] == [
        "p2", "p4", "p5", "share",
    ]  # fmt: skip
    assert steps[3] == Share("phi4", ("p2", "p4", "p5"), ("phi5",))
    assert not isinstance(steps[0], Share) and steps[0].followers == ("phi6",)
