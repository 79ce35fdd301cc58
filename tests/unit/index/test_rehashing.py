"""Keys are found and numbered alike while a larger hash table is filled beside the work, and after it was taken."""

from __future__ import annotations

import numpy as np
import pytest

from holdstrue.index import arrays
from holdstrue.index.arrays import Numbering, all_true


@pytest.mark.parametrize("more", [1, 7, 300])
def test_numbers_do_not_depend_on_it(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lo = np.random.default_rng(1).permutation(5000).astype(np.uint64)
    hi = np.zeros(5000, dtype=np.uint64)
    plain, ahead = Numbering(), Numbering()
    ahead._turn = plain._turn
    begun = 0
    for start in range(0, 5000, more):
        part = slice(start, start + more)
        monkeypatch.setattr(arrays, "BESIDE_FROM", 1 << 40)
        wanted = plain.assign(hi[part], lo[part], all_true(lo[part].size))
        monkeypatch.setattr(arrays, "BESIDE_FROM", 1)
        assert ahead.assign(hi[part], lo[part], all_true(lo[part].size)).tolist() == wanted.tolist()
        begun += ahead._beside is not None
        if start % 1400 == 0:
            known = ahead.find(hi, lo, all_true(5000))
            assert known.tolist() == plain.find(hi, lo, all_true(5000)).tolist()
    assert begun > 0 and len(ahead) == len(plain) == 5000
    # linear probing of the same keys in the same order: the cells are those of a table filled at once
    assert ahead.cells.tolist() == plain.cells.tolist()


def test_a_whole_table_begins_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "BESIDE_FROM", 1)
    lo = np.arange(arrays.FIRST_PART + 10, dtype=np.uint64)
    numbers = Numbering()
    numbers.assign(np.zeros_like(lo), lo, all_true(lo.size))
    assert numbers._beside is None
