"""Dirty tables of the benchmarks: one seed one table, and the wrong cells are those that differ."""

from __future__ import annotations

import pytest

from workloads.dirty import TABLES, dirty_tables


@pytest.mark.parametrize("name", TABLES)
def test_one_seed_makes_one_table_and_wrong_cells_are_those_that_differ(name: str) -> None:
    true, dirty, wrong = TABLES[name](3)
    again = TABLES[name](3)
    assert true.equals(again.true)
    assert dirty.equals(again.dirty)
    assert wrong == again.wrong
    assert true.schema == dirty.schema
    differ = {
        (row, column)
        for column in true.column_names
        for row, (right, said) in enumerate(zip(true.column(column).to_pylist(), dirty.column(column).to_pylist()))
        if right != said
    }
    assert wrong == differ
    assert 0.01 < len({row for row, _ in wrong}) / len(true) < 0.12


def test_another_seed_makes_another_table() -> None:
    assert TABLES["laureates"](3).wrong != TABLES["laureates"](4).wrong


def test_all_tables_come_with_their_names() -> None:
    tables = dirty_tables(3)
    name, *made = next(tables)
    assert name == "beers"
    assert tuple(made) == TABLES["beers"](3)
