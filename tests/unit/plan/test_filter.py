"""Comparisons with constants are exact: fractions, huge numbers, NaN, dates in text."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import oracle
from holdstrue import check
from holdstrue.plan.filter import evaluate
from holdstrue.rules.model import Comparison, Constant, Op

CASES: list[tuple[pa.Array, list[Any]]] = [
    (pa.array([-(2**63), -1, 0, 1, 2, 2**63 - 1, None]), [0, 1.5, -0.5, 2**70, -(2**70), float("inf"), float("nan")]),
    (pa.array([0.0, 1.5, float("nan"), float("-inf"), None]), [1.5, 0, float("nan"), float("inf")]),
    (pa.array([Decimal("1.25"), Decimal("-3.00"), None]), [Decimal("1.255"), 1, Decimal("1.25")]),
    (pa.array(["a", "b", "", None]), ["a", "", "zz"]),
    (pa.array([True, False, None]), [True, False]),
    (pa.array([dt.date(2024, 1, 1), dt.date(2025, 1, 1), None]), [dt.date(2024, 6, 1), dt.date(2024, 1, 1)]),
    (pa.array([dt.datetime(2024, 1, 1), None]), [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1)]),
]


@pytest.mark.parametrize(("array", "constants"), CASES, ids=lambda case: str(getattr(case, "type", "")))
def test_constants(array: pa.Array, constants: list[Any]) -> None:
    for constant in constants:
        for op in Op:
            truth = evaluate(Comparison("x", op, Constant(constant)), lambda _: array)
            wanted = [oracle.compare(value, str(op), constant) for value in array.to_pylist()]
            assert truth.true.tolist() == [w is True for w in wanted], (constant, op)
            assert truth.false.tolist() == [w is False for w in wanted], (constant, op)


@pytest.mark.parametrize(
    ("column", "text", "rows"),
    [
        (pa.array(["44", "1"]), "x = 44", [0]),
        (pa.array([dt.date(2024, 1, 1), dt.date(2025, 1, 1)]), "x > '2024-06-01'", [1]),
        (pa.array([1, 2]), "x = '2'", [1]),
        (pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]), "x = '2024-01-01T01:00:00+01:00'", [0]),
    ],
)
def test_constants_are_read_as_the_column_holds_them(column: pa.Array, text: str, rows: list[int]) -> None:
    assert [v.t for v in check(pa.table({"x": column}), f"not(t.{text})")] == rows
