"""Paper 000, the employees: CFD violations as sets of rows, and under the two updates of Examples 1 and 2."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdstrue import Monitor, check

COLUMNS = ("id", "street", "city", "zip", "CC", "AC", "grade")
ROWS = [
    (1, "Mayfield", "NYC", "EH4 8LE", 44, 131, "A"),
    (2, "Preston", "EDI", "EH2 4HF", 44, 131, "A"),
    (3, "Mayfield", "EDI", "EH4 8LE", 44, 131, "B"),
    (4, "Mayfield", "EDI", "EH4 8LE", 44, 131, "B"),
    (5, "Crichton", "EDI", "EH4 8LE", 44, 131, "C"),
    (6, "Mayfield", "EDI", "EH4 8LE", 44, 131, "C"),
]
RULES = [
    {"name": "phi1", "rule": "([CC=44, zip] -> [street])"},
    {"name": "phi2", "rule": "([CC=44, AC=131] -> [city='EDI'])"},
]


def employees(*ids: int) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS, row)) for row in ROWS if row[0] in ids])


def violating(monitor: Monitor, rule: str) -> set[int]:
    return {key for v in monitor.violations(rule) for key in (v.t, v.s) if key is not None}


def test_v_on_the_first_five_rows() -> None:
    report = check(employees(1, 2, 3, 4, 5), RULES, key="id")
    assert {key for v in report.violations("phi1") for key in (v.t, v.s)} == {1, 3, 4, 5}
    assert [v.to_dict() for v in report.violations("phi2")] == [{"rule": "phi2", "t": 1}]
    assert [(r.counts.rows, r.counts.groups) for r in report.results] == [(4, 1), (1, 0)]


def test_index_of_the_class_of_phi1() -> None:
    """The class (44, EH4 8LE) holds Mayfield {1, 3, 4} and Crichton {5}."""
    [group] = check(employees(1, 2, 3, 4, 5), RULES, key="id").groups("phi1")
    assert group.values == {"CC": 44, "zip": "EH4 8LE"}
    assert group.sides == ((1, 3, 4), (5,))


@pytest.mark.parametrize("index", ["blocks", "lt_tree", "chains"])
def test_insert_6_then_delete_4(index: str) -> None:
    monitor = Monitor(RULES, key="id", data=employees(1, 2, 3, 4, 5), index=index)  # type: ignore[arg-type]
    before = violating(monitor, "phi1")
    added = monitor.apply(employees(6))
    assert violating(monitor, "phi1") - before == {6}
    assert {(v.rule, v.t, v.s) for v in added.added} == {("phi1", 5, 6)} and not added.removed
    removed = monitor.apply(pa.table({"id": [4], "op": ["d"]}))
    assert violating(monitor, "phi1") == {1, 3, 5, 6}
    assert {(v.rule, v.t, v.s) for v in removed.removed} == {("phi1", 4, 5)} and not removed.added
    assert violating(monitor, "phi2") == {1}
