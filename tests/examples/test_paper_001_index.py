"""Worked examples of paper 001 (Incremental discovery of denial constraints) for chains and Fetch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from holdstrue.index.pair_chains import PairChains
from holdstrue.index.protocol import S_ROLE, T_ROLE, PairIndex, Shape, Term
from holdstrue.papers.bitmaps import LTTreeIndex
from holdstrue.papers.chains import ChainIndex
from holdstrue.rules.model import Op
from unit.papers.pair_reference import Table, pairs, probed

# Tables 1 and 2, the columns that phi1 to phi5 read; strings by number, rates in hundredths.
NAME, DATE, SSN, NUM, MS, ST, ZIP, SAL, RATE, TXA, STX, CTX, PH = range(13)
TAX = [
    (0, 20140410, 719975883, 1448, 0, 0, 80612, 32000, 124, 3000, 400, 2000, 6059466),
    (1, 20140224, 303975883, 1401, 1, 0, 80612, 50000, 142, 1500, 0, 0, 5872027),
    (2, 20140413, 701178073, 1486, 1, 1, 58671, 30000, 121, 3400, 0, 0, 1638673),
    (3, 20130403, 801350874, 1386, 1, 2, 84308, 55000, 204, 1300, 0, 40, 6192334),
    (0, 20140329, 719975883, 1427, 0, 0, 80612, 7500, 121, 0, 50, 0, 6059466),
    (2, 20130404, 701178073, 1386, 0, 1, 58671, 6500, 24, 900, 0, 1000, 1638673),
    (4, 20150324, 970122634, 1547, 1, 0, 80209, 95000, 285, 1100, 0, 0, 8484643),
    (5, 20130322, 435849162, 1368, 1, 2, 84308, 40000, 143, 3300, 0, 0, 5872027),
    (2, 20140218, 701178073, 1478, 0, 1, 58671, 33000, 205, 1400, 40, 40, 1638673),
    (3, 20150213, 801350874, 1533, 0, 2, 84308, 32000, 123, 3200, 0, 1000, 6192334),
]
R1 = range(7)


def codes(rows: Sequence[int], *columns: int) -> list[NDArray[np.int64]]:
    return [np.array([TAX[row][column] for row in rows], dtype=np.int64) for column in columns]


def tax_index(first: tuple[int, Op], second: tuple[int, Op]) -> PairChains:
    index = PairChains(first[1], second[1])
    index.insert(np.array(R1, dtype=np.int32), codes(R1, first[0], second[0]))
    return index


def test_example_6_index_on_txa_and_sal() -> None:
    index = tax_index((TXA, Op.GT), (SAL, Op.LT))
    assert sorted(index.chains()) == [[4, 5], [6, 3, 1, 0, 2]]
    assert index.rank == 2


def test_example_7_fetch() -> None:
    index = tax_index((TXA, Op.GT), (SAL, Op.LT))
    t8 = [TAX[8][TXA], TAX[8][SAL]]
    assert sorted(index.fetch([Op.LT, Op.GT], t8).tolist()) == [3, 6]
    assert sorted(index.fetch([Op.GT, Op.LT], t8).tolist()) == [0, 2]


def test_example_9_index_on_date_and_num() -> None:
    index = tax_index((DATE, Op.LT), (NUM, Op.LT))
    assert sorted(index.chains()) == [[3], [6, 2, 0, 4, 1, 5]]
    assert index.rank == 2


def test_example_10_index_used_in_reverse() -> None:
    index = tax_index((DATE, Op.LT), (NUM, Op.LT))
    t8 = [TAX[8][DATE], TAX[8][NUM]]
    # T(t8; Date<, NUM>): t8.Date < t.Date and t8.NUM > t.NUM.
    assert sorted(index.fetch([Op.GT, Op.LT], t8).tolist()) == [0, 1, 4]
    assert index.fetch([Op.LT, Op.GT], t8).tolist() == []


def test_example_11_t9_goes_into_the_first_chain() -> None:
    index = tax_index((DATE, Op.LT), (NUM, Op.LT))
    index.insert(np.array([9], dtype=np.int32), codes([9], DATE, NUM))
    assert sorted(index.chains()) == [[3], [6, 9, 2, 0, 4, 1, 5]]
    index.remove(np.array([9], dtype=np.int32), codes([9], DATE, NUM))
    assert sorted(index.chains()) == [[3], [6, 2, 0, 4, 1, 5]]


# Table 8 and 9.
A, B, C, D = range(4)
R2 = [
    (7, 5, 7, 9), (8, 6, 3, 25), (30, 8, 9, 11), (40, 0, 2, 15), (15, 7, 17, 22), (25, 2, 15, 30),
    (3, 22, 20, 10),
]  # fmt: skip


def test_example_8_fetch_plus() -> None:
    rows = np.arange(6, dtype=np.int32)
    values = np.array(R2, dtype=np.int64).T
    t_side, s_side = PairChains(Op.GT, Op.LT), PairChains(Op.LT, Op.GT)
    t_side.insert(rows, [values[A][:6], values[C][:6]])
    s_side.insert(rows, [values[B][:6], values[D][:6]])
    assert t_side.rank == s_side.rank == 2
    t6 = R2[6]
    assert s_side.fetch([Op.LT, Op.GT], [t6[A], t6[C]]).tolist() == [5]
    assert sorted(t_side.fetch([Op.GT, Op.LT], [t6[B], t6[D]]).tolist()) == [2, 3]


@pytest.mark.parametrize("kind", [ChainIndex, LTTreeIndex])
def test_example_8_through_an_index(kind: type[ChainIndex] | type[LTTreeIndex]) -> None:
    index: PairIndex = kind([Shape((Term(A, Op.GT, B), Term(C, Op.LT, D)))], Table.of(R2, checks=1))
    index.insert(np.arange(6, dtype=np.int32))
    assert probed(index, 0, [6], T_ROLE) == [[5]]
    assert probed(index, 0, [6], S_ROLE) == [[2, 3]]


def same(column: int, op: Op) -> Term[int]:
    return Term(column, op, column)


PHI3 = (same(TXA, Op.GT), same(SAL, Op.LT), same(RATE, Op.GT))
RULES = [
    (same(SSN, Op.EQ), same(NAME, Op.NE)),
    (same(ZIP, Op.EQ), same(ST, Op.NE)),
    PHI3,
    (same(SSN, Op.EQ), same(DATE, Op.LT), same(NUM, Op.GE)),
    (same(STX, Op.EQ), Term(STX, Op.GT, CTX), same(MS, Op.NE)),
    (*PHI3, same(ST, Op.EQ)),
    (*PHI3, same(DATE, Op.EQ)),
    (*PHI3, same(PH, Op.EQ)),
]


@pytest.mark.parametrize("kind", [ChainIndex, LTTreeIndex])
def test_example_2_violations_before_and_after(kind: type[ChainIndex] | type[LTTreeIndex]) -> None:
    index: PairIndex = kind([Shape(terms) for terms in RULES], Table.of(TAX, checks=len(RULES)))
    index.insert(np.array(R1, dtype=np.int32))
    assert all(pairs(index, check, R1) == set() for check in range(5))
    index.insert(np.array([7, 8, 9], dtype=np.int32))
    found = [pairs(index, check, range(10)) for check in range(len(RULES))]
    assert found == [set(), set(), {(7, 1), (8, 3)}, set(), set(), set(), set(), {(7, 1)}]
