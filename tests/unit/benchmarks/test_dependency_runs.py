"""The generated order lines, and a small run of keys and FDs under batches."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv

import holdstrue
from jobs import Job, run_job
from workloads.orders import orders


def test_order_lines_are_the_same_in_any_part() -> None:
    table = orders(300)
    assert table.num_columns == 30
    assert orders(100, start=120).equals(table.slice(120, 100))
    rules = ["key(order_id, line)", "zip -> city", "city -> state", "product_id -> price", "store_id -> manager"]
    assert holdstrue.check(table, rules).ok


def test_batches_agree_with_from_scratch(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    pyarrow.csv.write_csv(orders(900), path)
    options = {"batch": 30, "batches": 2, "max_lhs": 2}
    answer = run_job(Job("dependency_changes", "holdstrue", ("orders",), str(path), (), 0, 0, options), timeout=120)
    assert answer.failure == ""
    assert answer.figures["agrees"]
    assert answer.figures["rules"] > 100
