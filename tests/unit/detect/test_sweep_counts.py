"""Counts by sweeps, which large tables get, against every pair compared with numpy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from holdstrue import check
from holdstrue.detect.pair import COUNT_FROM

ROWS = COUNT_FROM + 37
COLUMNS = {
    "g": np.arange(ROWS) % 3,
    "l": (np.arange(ROWS) * 7 // 5) % 3 + 1,
    "h": np.arange(ROWS) % 29,
    "m": (np.arange(ROWS) * 31) % 17,
}
COMPARE = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


@pytest.mark.parametrize(
    "terms",
    [
        ("g != l", "h = h"),
        ("g != l",),
        ("g != l", "l != g", "h = h"),
        ("l != g", "g != g", "l != l", "h = h"),
        ("g != l", "m < m"),
        ("g != l", "m < h"),
        ("g != l", "m < m", "h >= h"),
        ("g = l", "m != h", "h > m"),
        ("g = l", "m != m"),
        ("g > g", "h > h", "m > m"),
        ("g >= l", "h < h", "m <= m"),
        ("g != l", "l <= l", "h > m", "m >= m"),
        ("g = g", "l > l", "h < h", "m <= h"),
        ("g <= g", "l > l", "h <= h", "m >= m"),
        ("g <= g", "l > g", "h <= h", "m >= m", "m < h"),
        ("h >= h", "m >= h"),
    ],
)
def test_as_many_as_there_are(terms: tuple[str, ...]) -> None:
    holds = np.ones((ROWS, ROWS), dtype=np.bool_)
    for term in terms:
        left, op, right = term.split()
        holds &= COMPARE[op](COLUMNS[left][:, None], COLUMNS[right][None, :])
    np.fill_diagonal(holds, val=False)
    rule = " and ".join(f"t.{a} {op} s.{b}" for a, op, b in (term.split() for term in terms))
    [result] = check(pa.table(COLUMNS), f"not({rule})", limit=0).results
    symmetric = all(a == b and op in ("=", "!=") for a, op, b in (term.split() for term in terms))
    assert result.counts.pairs == int(holds.sum()) // (2 if symmetric else 1)
    assert result.counts.rows == int((holds.any(axis=0) | holds.any(axis=1)).sum())
