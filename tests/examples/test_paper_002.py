"""Paper 002, the salaries (Table 1) and the elevations (Table 5)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from holdstrue import check, load_rules
from holdstrue.kernels.sweep import dominance_counts
from holdstrue.plan.range import value_range

SALARY = pa.table(
    {
        "id": ["t1", "t2", "t3", "t4", "t5", "t6"],
        "Dept": [1, 1, 1, 1, 1, 1],
        "TP": [1500, 2500, 1500, 1500, 2500, 1500],
        "Title": [1, 1, 2, 3, 2, 2],
        "BP": [1000, 1000, 1000, 2000, 2000, 2000],
        "AT": [10, 10, 20, 20, 20, 30],
        "IL": [20, 20, 10, 10, 5, 10],
    }
)
ELEVATION = pa.table(
    {
        "id": ["t1", "t2", "t3", "t4", "t5", "t6"],
        "H": [2500, 2500, 1000, 1500, 3000, 2000],
        "T": [15.0, 12.5, 20.0, 17.5, 20.0, 15.0],
        "P": [77, 72, 88, 83, 77, 76],
    }
)


def rows(table: pa.Table, rule: str) -> set[str]:
    return {v.t for v in check(table, rule, key="id")}


def pairs(table: pa.Table, rule: str) -> set[tuple[str, str]]:
    return {(v.t, v.s) for v in check(table, rule, key="id")}


def test_constant_cfd() -> None:
    assert rows(SALARY, "Dept, Title -> BP, (1, 2 || 2000)") == {"t3"}


def test_fd_groups() -> None:
    [group] = check(SALARY, "Dept, Title -> BP", key="id").groups("Dept, Title -> BP")
    assert group.sides == (("t3",), ("t5", "t6"))
    report = check(SALARY, "Dept, Title, AT -> TP", key="id")
    assert [group.sides for group in report.groups(report.results[0].rule.name)] == [
        (("t1",), ("t2",)),
        (("t3",), ("t5",)),
    ]


def test_constant_dcs() -> None:
    assert rows(SALARY, "not(t.AT > 20 and t.IL >= 10)") == {"t6"}
    assert rows(SALARY, "not(t.Title >= 2 and t.BP >= 2000)") == {"t4", "t5", "t6"}


def test_variable_dc() -> None:
    assert pairs(SALARY, "not(t.AT > s.AT and t.IL > s.IL)") == {("t6", "t5")}


def test_range_reads_only_what_the_rules_mention() -> None:
    rules = load_rules(["Dept, Title -> BP", "Dept, Title -> BP, (1, 2 || 2000)", "IL -> AT, (10 || 20)"])
    assert value_range(rules) == {
        "Dept": None,
        "Title": None,
        "BP": None,
        "AT": frozenset({20}),
        "IL": frozenset({10}),
    }


FOUR = {("t5", "t1"), ("t5", "t2"), ("t5", "t4"), ("t5", "t6")}


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("t.H > s.H and t.T > s.T", FOUR),
        ("t.H > s.H and t.T >= s.T", FOUR | {("t1", "t6"), ("t5", "t3")}),
        ("t.H >= s.H and t.T > s.T", FOUR | {("t1", "t2")}),
        ("t.H >= s.H and t.T >= s.T", FOUR | {("t1", "t2"), ("t1", "t6"), ("t5", "t3")}),
        ("t.H > s.H and t.T > s.T and t.P = s.P", {("t5", "t1")}),
        (
            "t.H > s.H and t.T < s.T",
            {
                ("t1", "t3"),
                ("t1", "t4"),
                ("t2", "t3"),
                ("t2", "t4"),
                ("t2", "t6"),
                ("t4", "t3"),
                ("t6", "t3"),
                ("t6", "t4"),
            },
        ),
    ],
)
def test_elevations(rule: str, wanted: set[tuple[str, str]]) -> None:
    assert pairs(ELEVATION, f"not({rule})") == wanted


def test_relative_positions() -> None:
    """Positions of T in H (Examples 12 and 13): the pairs are the ascending pairs of that permutation."""
    height = np.array([2500, 2500, 1000, 1500, 3000, 2000])
    warmth = np.array([150, 125, 200, 175, 200, 150])
    position = np.unique(height, return_inverse=True)[1] + 1
    by_warmth = {int(value): sorted(int(p) for p in position[warmth == value]) for value in np.unique(warmth)}
    assert by_warmth == {125: [4], 150: [3, 4], 175: [2], 200: [1, 5]}
    opposite = 6 - position
    assert {int(v): sorted(int(p) for p in opposite[warmth == v]) for v in np.unique(warmth)} == {
        125: [2],
        150: [2, 3],
        175: [4],
        200: [1, 5],
    }
    one = np.zeros(6, dtype=np.int32)
    as_t, as_s = dominance_counts(one, position, warmth, one, position - 1, warmth - 1)
    assert as_t.tolist() == [0, 0, 0, 0, 4, 0]
    assert as_s.tolist() == [1, 1, 0, 1, 0, 1]
