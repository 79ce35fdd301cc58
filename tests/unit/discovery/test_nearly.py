"""Rules that errors alone break stand in one list with those that hold, and rule files pass on their own table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from dirty_tables import orders
from holdstrue.report.forms import render
from holdstrue.rules.model import FD
from lookalikes import HOSPITAL_RULES, hospital


def test_known_rules_of_a_dirty_table_come_first_or_follow_from_those_that_do() -> None:
    found = holdstrue.discover(hospital(seed=3).dirty, ("fd", "key"))
    first = [rule.body for rule in found.best[:40] if isinstance(rule.body, FD)]

    def reached(left: tuple[str, ...]) -> set[str]:
        known, before = set(left), 0
        while len(known) > before:
            before = len(known)
            known |= {rule.rhs[0] for rule in first if known.issuperset(rule.lhs)}
        return known

    follow = [right in reached(left) for left, right in HOSPITAL_RULES]
    assert sum(follow) >= len(follow) - 3


@pytest.mark.parametrize("options", [{}, {"error": 0.05, "measure": "rows"}, {"error": 0.01}])
def test_a_rule_file_passes_on_the_table_that_it_came_from(options: dict[str, Any]) -> None:
    table = orders(rows=400, errors=25, seed=2).dirty
    found = holdstrue.discover(table, ("fd", "key"), key="order", max_predicates=3, **options)
    rules = found.ruleset(nearly=True)
    assert any(rule.tolerance is not None for rule in rules)
    assert holdstrue.check(table, rules).ok


def test_orders_inside_of_groups() -> None:
    rates = {"N": (1, 2, 3, 4), "S": (2, 4, 6, 9)}
    rows = [(land, pay, rates[land][pay // 25]) for land in rates for pay in range(100) for _ in range(3)]
    land, pay, rate = (list(part) for part in zip(*rows, strict=True))
    rate[7] = 9
    found = holdstrue.discover(pa.table({"land": land, "pay": pay, "rate": rate}), ("fd", "dc"), max_predicates=2)
    texts = [rule.text for rule in found.nearly()]
    assert "land, pay -> rate" in texts
    assert "not(t.land = s.land and t.pay > s.pay and t.rate < s.rate)" in texts


def areas(broken: int) -> pa.Table:
    """Areas inside of lands, which have a rate that rises with the pay, but for some rows."""
    rates = {"N": (1, 2, 3, 4), "S": (2, 4, 6, 9)}
    rows = [
        (land, f"{land}{area}", pay, rates[land][pay // 25]) for land in rates for area in "ab" for pay in range(100)
    ]
    land, area, pay, rate = (list(part) for part in zip(*(row for row in rows for _ in range(3)), strict=True))
    for at in range(broken):
        land[40 + 300 * at], rate[7 + 300 * at] = "S" if land[40 + 300 * at] == "N" else "N", 9 - at
    return pa.table({"land": land, "area": area, "pay": pay, "rate": rate})


def test_rules_by_a_finer_column_follow_from_those_by_a_coarser_one() -> None:
    texts = [rule.text for rule in holdstrue.discover(areas(2), ("fd", "dc"), max_predicates=2).nearly()]
    assert {"area -> land", "land, pay -> rate"} <= set(texts)
    assert "area, pay -> rate" not in texts
    assert [text for text in texts if text.startswith("not")] == [
        "not(t.land = s.land and t.pay > s.pay and t.rate < s.rate)"
    ]


def test_orders_that_no_row_breaks_are_not_told_as_nearly_true() -> None:
    assert not [rule.text for rule in holdstrue.discover(areas(0), ("fd", "dc"), max_predicates=2).nearly()]


def test_kinds_text_and_files_say_what_they_should() -> None:
    table = pa.table({"one": ["x"] * 30, "id": range(30), "a" * 120: [number // 2 for number in range(30)]})
    found = holdstrue.discover(table, "fd", key="id")
    assert {rule.kind for rule in found.telling} <= {"fd"}
    assert "…" not in render(found, limit=100)
