"""Hospitals and their measures under 15 denial constraints, against the oracle: made ones and HoloClean's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lookalikes
from holdstrue import Monitor, RuleSet, check, load_rules
from holdstrue.sources.read import read_table
from laws.test_detection import found, nonempty
from translate import expected


def load_made(folder: Path) -> tuple[pa.Table, RuleSet]:
    path = folder / "rules.txt"
    path.write_text(lookalikes.HOSPITAL_TEXT)
    return lookalikes.hospital().dirty, load_rules(path)


def load_published(folder: Path) -> tuple[pa.Table, RuleSet]:
    return read_table(folder / "hospital.csv"), load_rules(folder / "constraints.txt")


@pytest.fixture(
    scope="module",
    # the oracle looks at every pair of the 1,000 rows
    params=["made", pytest.param("published", marks=pytest.mark.soak)],
)
def hospital(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[pa.Table, RuleSet, dict[str, set[Any]]]:
    if request.param == "made":
        table, rules = load_made(tmp_path_factory.mktemp("hospital"))
    else:
        table, rules = load_published(request.getfixturevalue("whole_data") / "hospital")
    assert len(rules) == 15
    rows = table.to_pylist()
    return table, rules, expected(rules, rows, list(range(len(rows))))


@pytest.mark.parametrize("index", ["blocks", "lt_tree", "chains"])
def test_equal_to_the_oracle(hospital: Any, index: Any) -> None:
    table, rules, truth = hospital
    report = check(table, rules, limit=None, index=index)
    assert {r.rule.name: r.counts.open for r in report.results} == {name: len(some) for name, some in truth.items()}
    assert found(report) == nonempty(truth)
    assert report.total > 1000


def test_row_by_row_is_the_whole_table(hospital: Any) -> None:
    table, rules, truth = hospital
    numbered = table.append_column("row", [list(range(table.num_rows))])
    monitor = Monitor(rules, key="row")
    for start in range(0, table.num_rows, 100):
        monitor.apply(numbered.slice(start, 100), limit=0)
    assert found(monitor.violations()) == nonempty(truth)


def test_every_violation_has_a_wrong_cell_and_repairs_end_them_all(tmp_path: Path) -> None:
    made = lookalikes.hospital()
    rules = load_made(tmp_path)[1]
    assert check(made.true, rules).ok
    columns = {rule.name: {*left, right} for rule, (left, right) in zip(rules, lookalikes.HOSPITAL_RULES, strict=True)}
    report = check(made.dirty, rules, limit=None)
    for violation in report:
        assert any((row, name) in made.wrong for row in (violation.t, violation.s) for name in columns[violation.rule])
    numbers = list(range(made.true.num_rows))
    monitor = Monitor(rules, key="row", data=made.dirty.append_column("row", [numbers]))
    spoiled = sorted({row for row, _ in made.wrong})
    feed = made.true.append_column("row", [numbers]).take(spoiled).append_column("op", [["update"] * len(spoiled)])
    delta = monitor.apply(feed, limit=None)
    assert found(delta.removed) == found(report)
    assert not list(monitor.violations())
