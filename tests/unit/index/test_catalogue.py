"""Indexes by name: each keeps the protocol, and an unknown name is refused with the known ones."""

from __future__ import annotations

import numpy as np
import pytest

from holdstrue.errors import HoldstrueError
from holdstrue.index.checked import Checked
from holdstrue.index.protocol import INDEXES, T_ROLE, PairIndex, Shape, Term, index_type
from holdstrue.operators import Op
from holdstrue.typing import I32, I64

VERBS = [name for name, member in vars(PairIndex).items() if callable(member) and not name.startswith("_")]
SHAPE = Shape((Term(0, Op.EQ, 0), Term(1, Op.GT, 1), Term(2, Op.LT, 2)))


class Rows:
    """Five rows of one state but the third, which pay and are taxed so: (10, 1), (20, 2), (10, 1), (30, 3), (40, 1)."""

    alive = np.ones(5, dtype=np.uint8)
    roles = (np.full(5, 3, dtype=np.uint8),)
    lopsided = (False,)

    def codes(self, column: int) -> I64:
        codes: I64 = np.array([[7, 7, 8, 7, 7], [10, 20, 10, 30, 40], [1, 2, 1, 3, 1]])[column]
        return codes

    def groups(self, check: int) -> tuple[I32, I32]:
        groups = np.array([0, 0, 1, 0, 0], dtype=np.int32)
        return groups, groups


@pytest.mark.parametrize("name", INDEXES)
def test_every_index_answers_alike(name: str) -> None:
    kind = index_type(name)
    assert [verb for verb in VERBS if not callable(getattr(kind, verb, None))] == []
    assert {type(getattr(kind, wish)) for wish in ("reads_equalities", "takes_keys", "keeps_arrays")} == {bool}
    everyone, asked = np.arange(5, dtype=np.int32), np.array([4], dtype=np.int32)
    index = kind([SHAPE], Rows())
    index.insert(everyone)
    assert sorted(slot for hits in index.probe(0, asked, T_ROLE) for slot in hits.partners.tolist()) == [1, 3]
    among = [(q, p) for h in index.probe_among(0, everyone) for q, p in zip(h.queries, h.partners, strict=True)]
    assert sorted(among) == [(4, 1), (4, 3)]
    assert index.unsearched(0) == ()
    again = kind([SHAPE], Rows())
    again.restore(Checked(index.snapshot()), 5)
    if not kind.keeps_arrays:
        again.insert(everyone)
    assert sorted(slot for hits in again.probe(0, asked, T_ROLE) for slot in hits.partners.tolist()) == [1, 3]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(HoldstrueError, match="no index 'btree'") as caught:
        index_type("btree")
    assert caught.value.hint == "choose blocks, lt_tree or chains"
