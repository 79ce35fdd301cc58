"""Counters that grow past the size from which on structures get room in turns: every turn counts alike."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from holdstrue import Monitor, check
from holdstrue.index import arrays

ROWS = 9000
RULES = ["key(a)", "a -> b", "a -> b, c", "a, b -> c", "not(t.a = s.a and t.b != s.b)", "not(t.a < s.a and t.b > s.b)"]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "STAGGERED_FROM", 256)


def rows(first: int, count: int) -> pa.Table:
    """Unique left sides: as many groups as rows."""
    numbers = np.arange(first, first + count)
    return pa.table({"id": numbers, "a": numbers, "b": np.zeros(count, np.int64), "c": numbers % 7})


@pytest.mark.parametrize("several", range(1, 9))
def test_many_groups_without_a_violation(several: int) -> None:
    """As many detectors as there are turns, made one after the other."""
    for _ in range(3):
        found = check(rows(0, ROWS), [f"r{i} := {RULES[i % len(RULES)]}" for i in range(several)])
        assert [(r.counts.pairs, r.counts.rows, r.counts.groups) for r in found.results] == [(0, 0, 0)] * several


def test_under_changes_and_reopened(tmp_path: object) -> None:
    table = rows(0, ROWS)
    doubled = pa.concat_tables([table, rows(ROWS, 10).set_column(1, "a", pa.array(range(10)))])
    truth = [(r.counts.pairs, r.counts.rows, r.counts.groups) for r in check(doubled, RULES, key="id").results]
    assert truth[0] == (10, 20, 10)
    with Monitor.create(f"{tmp_path}/s", RULES, key="id", data=table.slice(0, 300)) as monitor:
        for start in range(300, doubled.num_rows, 1500):
            monitor.apply(doubled.slice(start, 1500), limit=0)
    with Monitor.open(f"{tmp_path}/s") as monitor:
        assert [(c.pairs, c.rows, c.groups) for c in monitor.counts().values()] == truth
        gone = pa.table({"id": range(ROWS, ROWS + 10), "op": ["delete"] * 10})
        monitor.apply(gone)
        assert [c.pairs for c in monitor.counts().values()] == [0] * len(RULES)
