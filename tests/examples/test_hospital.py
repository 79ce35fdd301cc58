"""HoloClean's hospital data with its 15 denial constraints, against the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdstrue import Monitor, check, load_rules
from holdstrue.sources.read import read_table
from laws.test_detection import found, nonempty
from translate import expected


@pytest.fixture(scope="module")
def hospital(real_data: Path) -> tuple[Any, Any, dict[str, set[Any]]]:
    # the oracle looks at every pair: all 1,000 rows take it four times as long
    table = read_table(real_data / "hospital.csv.gz").slice(0, 500)
    rules = load_rules(real_data / "hospital.txt")
    assert len(rules) == 15
    rows = table.to_pylist()
    return table, rules, expected(rules, rows, list(range(len(rows))))


@pytest.mark.parametrize("index", ["blocks", "lt_tree", "chains"])
def test_equal_to_the_oracle(hospital: Any, index: Any) -> None:
    table, rules, truth = hospital
    report = check(table, rules, limit=None, index=index)
    assert {r.rule.name: r.counts.open for r in report.results} == {name: len(some) for name, some in truth.items()}
    assert found(report) == nonempty(truth)
    assert report.total > 4000


def test_row_by_row_is_the_whole_table(hospital: Any) -> None:
    table, rules, truth = hospital
    numbered = table.append_column("row", [list(range(table.num_rows))])
    monitor = Monitor(rules, key="row")
    for start in range(0, table.num_rows, 100):
        monitor.apply(numbered.slice(start, 100), limit=0)
    assert found(monitor.violations()) == nonempty(truth)
