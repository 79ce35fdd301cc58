"""Paper 003, the packages: three rules, one insert, one delete."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdstrue import Monitor

PACKAGES = pa.table(
    {
        "code": [0, 1, 2, 3, 4],
        "origin": ["London", "Cape Town", "London", "Cape Town", "New Delhi"],
        "destination": ["Cape Town", "Lima", "New Delhi", "London", "London"],
        "distance": [9700, 9700, 6600, 9700, 6700],
        "volume": [8, 18, 30, 45, 45],
        "postage": [100, 50, 25, 200, 50],
    }
)
RULES = [
    {"name": "phi1", "rule": "key(code)"},
    {
        "name": "phi2",
        "rule": "not(t.origin = s.destination and t.destination = s.origin and t.distance != s.distance)",
    },
    {"name": "phi3", "rule": "not(t.distance = s.distance and t.volume < s.volume and t.postage > s.postage)"},
]


def pairs(violations: Any) -> set[tuple[str, int, int]]:
    return {(v.rule, v.t, v.s) for v in violations}


@pytest.mark.parametrize("index", ["blocks", "lt_tree", "chains"])
def test_insert_5_then_delete_4(index: Any) -> None:
    monitor = Monitor(RULES, key="code", data=PACKAGES, index=index)
    assert pairs(monitor.violations()) == {("phi2", 2, 4), ("phi2", 4, 2), ("phi3", 0, 1)}
    row = {"code": 5, "origin": "Mexico City", "destination": "Monaco", "distance": 9700, "volume": 18, "postage": 10}
    added = monitor.apply(pa.Table.from_pylist([row]))
    assert pairs(added.added) == {("phi3", 0, 5)} and not added.removed
    removed = monitor.apply(pa.table({"code": [4], "op": ["delete"]}))
    assert pairs(removed.removed) == {("phi2", 2, 4), ("phi2", 4, 2)} and not removed.added
    assert monitor.row(0) == {"phi3": 2}
    assert [(o.key, o.total) for o in monitor.offenders(1)] == [(0, 2)]
