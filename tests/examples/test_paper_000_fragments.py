"""Paper 000: Examples 1, 2, 5, 6, 8 and 9 over vertical and horizontal fragments of the employees."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from examples.test_paper_000_rules import RULES, employees
from holdstrue.fragments import Relation, Site

FIVE = (1, 2, 3, 4, 5)
PHI1, PHI2 = RULES


def vertical(*rules: Any, **options: Any) -> Relation:
    """V1(id, grade), V2(id, street, city, zip), V3(id, CC, AC) of the paper's Fig. 2."""
    rows = employees(*FIVE)
    parts = {"S1": ("grade",), "S2": ("street", "city", "zip"), "S3": ("CC", "AC")}
    sites = [Site(name, columns, source=rows.select(["id", *columns])) for name, columns in parts.items()]
    return Relation(sites, list(rules), key="id", **options)


def horizontal(*rules: Any, **options: Any) -> Relation:
    """By salary grade, as in Fig. 2."""
    rows = employees(*FIVE)
    sites = [
        Site(f"S{i}", where=f"grade = '{grade}'", source=rows.filter(pa.compute.field("grade") == grade))
        for i, grade in enumerate("ABC", start=1)
    ]
    return Relation(sites, list(rules), key="id", **options)


def keys(found: Any, rule: str = "phi1") -> set[Any]:
    return set(found[rule].column("id").to_pylist()) if rule in found else set()


@pytest.mark.parametrize("split", [vertical, horizontal])
def test_example_1_violations(split: Any) -> None:
    relation = split(*RULES)
    first = relation.load()
    assert (keys(first.added), keys(first.added, "phi2")) == ({1, 3, 4, 5}, {1})
    assert keys(relation.violations()) == {1, 3, 4, 5}
    whole = relation.check()
    assert (keys(whole.added), keys(whole.added, "phi2")) == ({1, 3, 4, 5}, {1})


@pytest.mark.parametrize("split", [vertical, horizontal])
def test_example_2_changes(split: Any) -> None:
    relation = split(*RULES)
    relation.load()
    inserted = relation.apply(employees(6))
    assert keys(inserted.added) == {6} and not inserted.removed and "phi2" not in inserted.added
    deleted = relation.apply(pa.table({"id": [4], "op": ["d"]}))
    assert keys(deleted.removed) == {4} and not deleted.added
    assert keys(relation.violations()) == {1, 3, 5, 6} and keys(relation.violations(), "phi2") == {1}


def test_example_5_classes() -> None:
    """The index of phi1 is at S2; the class (44, EH4 8LE) has Mayfield {1, 3, 4} and Crichton {5}."""
    relation = vertical(PHI1)
    relation.load()
    [home] = relation.plan().fragments[0].homes
    assert home.site == "S2"
    found = relation._host.ask("S2", "classes", 0, employees(*FIVE).select(["id"]))
    by_class: dict[Any, list[int]] = {}
    for key, kind in zip(FIVE, found):
        by_class.setdefault(kind, []).append(key)
    assert sorted(by_class.values()) == [[1, 3, 4], [2], [5]]
    assert keys(relation.share("S2")) == {1, 3, 4, 5} and not relation.share("S1")


def test_example_6_one_id_for_each_change() -> None:
    """As in the paper, the ids of removed rows are shipped too."""
    relation = vertical(PHI1)
    relation.load()
    inserted = relation.apply(employees(6))
    assert {pair: t.ids for pair, t in inserted.shipped.items()} == {("S3", "S2"): 1}
    assert keys(inserted.added) == {6}
    deleted = relation.apply(pa.table({"id": [4], "op": ["d"]}))
    assert {pair: t.ids for pair, t in deleted.shipped.items()} == {("S3", "S2"): 1}
    assert keys(deleted.removed) == {4}


def test_example_6_removals_ship_nothing_when_homes_recall_them() -> None:
    relation = vertical(PHI1, recall=True)
    relation.load()
    assert relation.apply(employees(6)).traffic.ids == 1
    deleted = relation.apply(pa.table({"id": [4], "op": ["d"]}))
    assert keys(deleted.removed) == {4} and deleted.traffic.messages == 0


def test_example_6_rows_that_keep_a_constant_cfd_ship_nothing_for_it() -> None:
    relation = vertical(*RULES)
    relation.load()
    assert relation.apply(employees(6)).traffic.ids == 1


def test_example_9_horizontal_ships_nothing() -> None:
    """(5, 6) is a local violation and 5 is a known one."""
    relation = horizontal(*RULES)
    relation.load()
    inserted = relation.apply(employees(6))
    assert keys(inserted.added) == {6} and inserted.traffic.messages == 0
    deleted = relation.apply(pa.table({"id": [4], "op": ["d"]}))
    assert keys(deleted.removed) == {4} and deleted.traffic.messages == 0
    assert keys(relation.share("S3")) == {5, 6}
