"""What a sieve leaves to be swept, against every pair compared with numpy: tables that are mostly in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdstrue import Monitor, check
from holdstrue.detect import order_sieve, recount
from holdstrue.detect.pair import COUNT_FROM

ROWS = COUNT_FROM + 371
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
ENDS = np.iinfo(np.int64)


@pytest.fixture
def sieved(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What shares of the rows sieves left, of all that answered."""
    shares: list[float] = []
    with_chance = order_sieve.with_chance

    def noted(*args: Any) -> Any:
        left = with_chance(*args)
        if left is not None:
            shares.append(float(left.mean()))
        return left

    monkeypatch.setattr(recount, "with_chance", noted)
    monkeypatch.setattr(recount, "SHARED_FROM", 64)
    monkeypatch.setattr(order_sieve, "SIEVED_FROM", 64)
    monkeypatch.setattr(order_sieve, "SAMPLE", 256)
    monkeypatch.setattr(order_sieve, "TAIL", 2)
    return shares


def _columns(seed: int) -> dict[str, Any]:
    """Two columns that rise together in each of four groups, but for a few rows, and a third that falls."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-250, 250, ROWS) * 8
    b, c, d = a // 3, -a // 7, a + rng.integers(0, 3, ROWS)
    odd = rng.integers(0, ROWS, 12)
    # not in the first column, where they would leave nobody in order
    b[odd[:8]] += rng.integers(-40, 40, 8)
    c[odd[8:]] += rng.integers(-9, 9, 4)
    a[odd[0]], b[odd[0]] = ENDS.max, ENDS.max
    a[odd[1]], b[odd[1]] = ENDS.min, ENDS.min
    return {"g": rng.integers(0, 4, ROWS), "a": a, "b": b, "c": c, "d": d}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "terms",
    [
        ("g = g", "a > a", "b < b"),
        ("g = g", "b < b", "a > a"),
        ("a > a", "b < b"),
        ("g = g", "a >= a", "b < b"),
        ("g = g", "a > a", "b <= b"),
        ("g = g", "a < a", "c < c"),
        ("g != g", "a > a", "b < b"),
        ("g = g", "a > a", "b < b", "c >= c"),
        ("a > a", "b < b", "g > g"),
        ("g = g", "a > d", "b < b"),
        ("d < a", "b > b"),
    ],
)
def test_as_many_as_there_are(terms: tuple[str, ...], threads: int, sieved: list[float]) -> None:
    columns = _columns(len(" ".join(terms)))
    holds = np.ones((ROWS, ROWS), dtype=np.bool_)
    for term in terms:
        left, op, right = term.split()
        holds &= COMPARE[op](columns[left][:, None], columns[right][None, :])
    np.fill_diagonal(holds, val=False)
    rule = " and ".join(f"t.{a} {op} s.{b}" for a, op, b in (term.split() for term in terms))
    [result] = check(pa.table(columns), f"not({rule})", limit=0, threads=threads).results
    assert result.counts.pairs == int(holds.sum())
    assert result.counts.rows == int((holds.any(axis=0) | holds.any(axis=1)).sum())
    assert sieved
    assert sieved[0] < 0.5


def test_unknown_values_and_chosen_rows(sieved: list[float]) -> None:
    columns = _columns(1)
    unknown, chosen = columns["a"] % 11 == 0, columns["d"] % 2 == 0
    table = pa.table({**columns, "e": chosen.astype(np.int64)}).set_column(1, "a", pa.array(columns["a"], mask=unknown))
    able = ~unknown
    holds = (
        (columns["g"][:, None] == columns["g"])
        & (columns["a"][:, None] > columns["a"])
        & (columns["b"][:, None] < columns["b"])
        & (able & chosen)[:, None]
        & able
    )
    rule = "not(t.g = s.g and t.a > s.a and t.b < s.b and t.e = 1)"
    [result] = check(table, rule, limit=0).results
    assert result.counts.pairs == int(holds.sum())
    assert sieved


def test_in_no_order_nothing_is_sieved(sieved: list[float]) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.permutation(ROWS), rng.permutation(ROWS)
    [result] = check(pa.table({"a": a, "b": b}), "not(t.a > s.a and t.b < s.b)", limit=0).results
    assert result.counts.pairs == int(((a[:, None] > a) & (b[:, None] < b)).sum())
    assert not sieved


def test_a_batch_that_starts_over(sieved: list[float]) -> None:
    columns = _columns(5)
    table = pa.table({"id": np.arange(ROWS), **columns})
    monitor = Monitor("not(t.g = s.g and t.a > s.a and t.b < s.b)", key="id")
    monitor.apply(table, limit=0)
    moved = np.random.default_rng(6).permutation(ROWS)[: ROWS // 3]
    b = columns["b"].copy()
    b[moved[:5]] += 1_000
    batch = table.set_column(3, "b", pa.array(b)).take(pa.array(moved))
    monitor.apply(batch.append_column("_op", pa.array(["update"] * moved.size)), limit=0, op_column="_op", feed="ops")
    g, a = columns["g"], columns["a"]
    holds = (g[:, None] == g) & (a[:, None] > a) & (b[:, None] < b)
    [counts] = monitor.counts().values()
    assert counts.pairs == int(holds.sum())
    assert sieved
