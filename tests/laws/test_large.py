"""Laws at sizes where runs merge, chains form and fences skip: the same answers as comparing every pair."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from holdstrue import Monitor, check
from holdstrue.index import blocks, spine
from holdstrue.index import rows as index_rows

Mask = NDArray[np.bool_]
OPS = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
COLUMNS = ("g", "a", "b", "c", "d")
TREND = [("g", "=", "g"), ("a", ">", "a"), ("b", "<", "b")]
SHAPES: dict[str, list[tuple[str, str, str]]] = {
    "trend": TREND,
    "trend with ties": [("g", "=", "g"), ("a", ">=", "a"), ("b", "<", "b")],
    "both up": [("g", "=", "g"), ("a", ">", "a"), ("b", ">=", "b"), ("c", "!=", "c")],
    "no equality": [("a", "<", "a"), ("d", ">", "d")],
    "one order": [("g", "=", "g"), ("c", "=", "c"), ("a", "<", "a")],
    "cross": [("g", "=", "c"), ("a", ">", "d"), ("b", "<=", "a")],
    "cross and unequal": [("g", "=", "c"), ("c", "=", "g"), ("a", "!=", "a")],
    "three orders": [("g", "=", "g"), ("a", ">", "a"), ("b", "<", "b"), ("d", ">=", "d")],
    "two unequal": [("g", "=", "g"), ("c", "!=", "c"), ("b", "!=", "b")],
    "fd": [("a", "=", "a"), ("b", "!=", "b")],
    "key": [("a", "=", "a"), ("d", "=", "d")],
    "only unequal": [("c", "!=", "c")],
}


def rule(shape: list[tuple[str, str, str]]) -> str:
    return f"not({' and '.join(f't.{left} {op} s.{right}' for left, op, right in shape)})"


def rows(dice: np.random.Generator, keys: NDArray[np.int64], dirt: float) -> dict[str, NDArray[Any]]:
    """Mostly clean: b follows a inside a group, but for some dirty rows."""
    size = keys.size
    a = dice.integers(0, 300, size)
    b = np.where(dice.random(size) < dirt, dice.integers(0, 100, size), a // 3)
    return {
        "id": keys,
        "g": dice.integers(0, 3, size),
        "a": a,
        "b": b,
        "c": dice.integers(0, 4, size),
        "d": dice.integers(0, 200, size),
    }


def truth(shape: list[tuple[str, str, str]], table: dict[str, NDArray[Any]]) -> set[tuple[int, int]]:
    """Every pair compared."""
    size = table["id"].size
    hold: Mask = ~np.eye(size, dtype=np.bool_)
    for left, op, right in shape:
        hold &= OPS[op](table[left][:, None], table[right][None, :])
    t, s = np.nonzero(hold)
    keys = table["id"]
    symmetric = all(left == right and op in ("=", "!=") for left, op, right in shape)
    pairs = zip(keys[t].tolist(), keys[s].tolist())
    return {pair for pair in pairs if not symmetric or pair[0] < pair[1]}


def named(violations: Any) -> set[tuple[int, int]]:
    listed = [(v.t, v.s) for v in violations]
    assert len(listed) == len(set(listed))
    return set(listed)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dirt", [0.0, 0.05])
def test_from_scratch(name: str, dirt: float) -> None:
    dice = np.random.default_rng(len(name))
    table = rows(dice, np.arange(5000), dirt)
    report = check(pa.table(table), rule(SHAPES[name]), key="id", limit=2000)
    size = table["id"].size
    counted = np.zeros(size, dtype=np.int64)
    total = 0
    for start in range(0, size, 500):
        part = {column: values[start : start + 500] for column, values in table.items()}
        hold: Mask = part["id"][:, None] != table["id"][None, :]
        for left, op, right in SHAPES[name]:
            hold &= OPS[op](part[left][:, None], table[right][None, :])
        total += int(hold.sum())
        counted[start : start + 500] += hold.sum(axis=1)
        counted += hold.sum(axis=0)
    symmetric = all(left == right and op in ("=", "!=") for left, op, right in SHAPES[name])
    [result] = report.results
    assert result.counts.pairs == (total // 2 if symmetric else total)
    assert result.counts.rows == np.count_nonzero(counted)
    listed = named(report.listed())
    assert len(listed) == min(2000, result.counts.pairs)
    for t, s in itertools.islice(listed, 200):
        assert all(OPS[op](table[left][t], table[right][s]) for left, op, right in SHAPES[name])


@pytest.mark.parametrize("index", ["blocks", "lt_tree", "chains"])
@pytest.mark.parametrize("few", [128, 4])
def test_under_changes(monkeypatch: pytest.MonkeyPatch, index: Any, few: int) -> None:
    """Batches of all sizes, updates and deletes among them, on some hundred rows in few groups."""
    monkeypatch.setattr(blocks, "MOST_UNSORTED", few)
    if few < 128:
        # runs are merged beside the work, small parts of rows joined, and large ones not
        monkeypatch.setattr(spine, "BESIDE_FROM", 16)
        monkeypatch.setattr(spine, "SQUEEZED_FROM", 8)
        monkeypatch.setattr(index_rows, "LARGE_PART", 64)
        monkeypatch.setattr(index_rows, "MOST_PARTS", 2)
    dice = np.random.default_rng(few)
    monitor = Monitor([{"name": name, "rule": rule(shape)} for name, shape in SHAPES.items()], key="id", index=index)
    table = {name: np.empty(0, dtype=np.int64) for name in ("id", *COLUMNS)}
    before: dict[str, set[tuple[int, int]]] = {name: set() for name in SHAPES}
    for size in (350, 1, 40, 150, 3, 90, 5, 30):
        present = table["id"]
        gone = dice.choice(present, size=min(size // 3, present.size), replace=False)
        changed = dice.choice(np.setdiff1d(present, gone), size=min(size // 3, present.size - gone.size), replace=False)
        fresh = np.arange(size) + (present.max() + 1 if present.size else 0)
        new, updated = rows(dice, fresh, 0.05), rows(dice, changed, 0.05)
        nothing = np.zeros(gone.size, dtype=np.int64)
        batch = {name: np.concatenate((new[name], updated[name], nothing)) for name in COLUMNS}
        batch["id"] = np.concatenate((fresh, changed, gone))
        ops = pa.array(["insert"] * size + ["update"] * changed.size + ["delete"] * gone.size, pa.string())
        delta = monitor.apply(pa.table(batch | {"op": ops}), limit=None, op_column="op", feed="ops")
        keep = ~np.isin(present, np.concatenate((gone, changed)))
        table = {name: np.concatenate((table[name][keep], new[name], updated[name])) for name in table}
        added, removed = list(delta.added), list(delta.removed)
        for name, shape in SHAPES.items():
            after = truth(shape, table)
            step = delta.counts[name]
            assert (step.added, step.removed, step.open) == (
                len(after - before[name]),
                len(before[name] - after),
                len(after),
            ), name
            assert named(v for v in added if v.rule == name) == after - before[name], name
            assert named(v for v in removed if v.rule == name) == before[name] - after, name
            assert monitor.counts()[name].rows == len({key for pair in after for key in pair}), name
            assert named(monitor.violations(name)) == after, name
            before[name] = after
