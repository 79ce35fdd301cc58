"""Suspects: errors that were put into tables are found, clean tables have none, and a patch mends what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import holdstrue
from dirty_tables import Dirty, forms, orders, people, prices
from holdstrue.discovery.suspects.answer import Suspects
from holdstrue.discovery.suspects.verdict import LONE, confidence
from holdstrue.errors import HoldstrueError
from lookalikes import hospital

TOWNS = pa.table({"id": range(6), "zip": list("111122"), "town": ["Bonn", "Bonn", "Bonn", "Bomn", "Ulm", "Ulm"]})


def quality(found: Suspects, wrong: frozenset[tuple[int, str]]) -> tuple[float, float]:
    """Precision and recall."""
    cells = {(suspect.key, suspect.column) for suspect in found}
    return len(cells & wrong) / max(1, len(cells)), len(cells & wrong) / max(1, len(wrong))


@pytest.mark.parametrize(
    ("make", "recall"),
    [
        (lambda: orders(seed=11), 0.75),
        (lambda: orders(errors=15, seed=5), 0.75),
        (lambda: forms(seed=12), 0.9),
        (lambda: prices(seed=13), 0.9),
        (lambda: Dirty(*hospital(seed=3)), 0.85),
    ],
)
def test_errors_are_found_and_clean_tables_have_none(make: Callable[[], Dirty], recall: float) -> None:
    table = make()
    precision, found = quality(holdstrue.suspects(table.dirty), table.wrong)
    assert precision >= 0.9
    assert found >= recall
    assert len(holdstrue.suspects(table.true)) == 0


def test_rare_names_gaps_and_long_tails_are_no_errors() -> None:
    assert len(holdstrue.suspects(people())) == 0


def test_most_proposed_values_are_the_true_ones() -> None:
    table = orders(seed=11)
    found = holdstrue.suspects(table.dirty)
    right = [s for s in found if s.proposed == table.true.column(s.column)[s.key].as_py()]
    assert len(right) >= 0.9 * sum((s.key, s.column) in table.wrong for s in found)


def test_the_order_of_rows_does_not_matter() -> None:
    table = orders(rows=600, errors=60, seed=7).dirty
    order = list(range(table.num_rows))
    Random(1).shuffle(order)
    mixed = table.take(pa.array(order))
    said = [
        {(s.key, s.column, s.proposed, round(s.confidence, 9), s.why) for s in holdstrue.suspects(rows, key="order")}
        for rows in (table, mixed)
    ]
    assert said[0]
    assert said[0] == said[1]


def test_a_declared_rule_is_believed_and_explained() -> None:
    [suspect] = holdstrue.suspects(TOWNS, ["towns := zip -> town"], discover=False, key="id")
    assert (suspect.key, suspect.column, suspect.value, suspect.proposed) == (3, "town", "Bomn", "Bonn")
    assert suspect.why == ("towns",)
    assert suspect.rows == (0, 1, 2)
    assert suspect.confidence > 0.9


def test_a_usual_value_is_suspected_by_a_declared_rule() -> None:
    table = pa.table({"zip": ["1"] * 9 + ["2"] * 9, "town": ["Bonn"] * 8 + ["Ulm"] * 10})
    [suspect] = holdstrue.suspects(table, "zip -> town", discover=False)
    assert (suspect.key, suspect.column, suspect.proposed) == (8, "town", "Bonn")


def test_a_tie_says_nothing() -> None:
    table = pa.table({"zip": list("11"), "town": ["Bonn", "Ulm"]})
    assert len(holdstrue.suspects(table, "zip -> town")) == 0


def test_patterns_orders_and_missing_values() -> None:
    table = pa.table(
        {
            "id": range(30),
            "pay": range(30),
            "rate": [number // 3 for number in range(29)] + [0],
            "land": ["DE"] * 15 + ["FR"] * 15,
            "code": [49] * 14 + [33] * 16,
            "note": ["x"] * 29 + [None],
        }
    )
    rules = [
        "order := not(t.pay > s.pay and t.rate < s.rate)",
        "calls := [land = 'DE'] -> [code = 49]",
        "noted := not null(note)",
        "one := not(t.pay > 100)",
    ]
    found = holdstrue.suspects(table, rules, discover=False, key="id")
    assert {(s.key, s.column, s.proposed, s.why) for s in found} == {
        (29, "rate", None, ("order",)),
        (14, "code", 49, ("calls",)),
        (29, "note", None, ("noted",)),
    }
    assert found.notes == ("no suspects by one: it does not say which cell is wrong",)


def test_a_filter_restricts_whom_a_rule_speaks_of() -> None:
    rule = {"name": "towns", "rule": "zip -> town", "where": "id < 3"}
    assert len(holdstrue.suspects(TOWNS, [rule], discover=False)) == 0


def test_a_patch_mends_a_monitor_and_is_never_applied_by_itself() -> None:
    monitor = holdstrue.Monitor("zip -> town", key="id", data=TOWNS)
    found = monitor.suspects()
    assert monitor.report().total > 0
    monitor.apply(found.patch())
    assert monitor.report().total == 0
    assert len(monitor.suspects()) == 0


def test_a_patch_has_only_what_is_sure_and_known() -> None:
    found = holdstrue.suspects(TOWNS, "zip -> town", key="id")
    assert found.patch().to_pylist() == [{"op": "update", "id": 3, "zip": "1", "town": "Bonn"}]
    assert found.patch(least=1.0).num_rows == 0
    with pytest.raises(HoldstrueError, match="by their key"):
        holdstrue.suspects(TOWNS, "zip -> town").patch()


def test_a_discovery_has_suspects_that_follow_its_changes(tmp_path: Path) -> None:
    table = orders(rows=600, errors=30, seed=9)
    with holdstrue.discover(table.dirty, "key", key="order", state=tmp_path / "found") as found:
        before = found.suspects()
        found.apply(before.patch())
        after = found.suspects()
    assert [s.to_dict() for s in before] == [s.to_dict() for s in holdstrue.suspects(table.dirty, key="order")]
    assert len(after) < len(before)
    with holdstrue.Discovery.open(tmp_path / "found") as again:
        assert [s.to_dict() for s in again.suspects()] == [s.to_dict() for s in after]


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": pa.array([], pa.string())}),
        pa.table({"a": pa.nulls(5)}),
        pa.table({"a": [1]}),
        pa.table({"a": [[1], [2]], "b": [True, False]}),
        pa.table({"a": [float("nan"), float("inf"), None] * 50, "b": list(range(150))}),
        pa.table({"a": [b"x", b"\xff", None] * 30, "b": ["", "\x00", "ü\ufffd"] * 30}),
    ],
)
def test_odd_tables(table: pa.Table) -> None:
    assert len(holdstrue.suspects(table)) <= table.num_rows


def test_bad_input_is_named() -> None:
    with pytest.raises(HoldstrueError, match="no column 'nope'"):
        holdstrue.suspects(TOWNS, columns=["nope"])
    with pytest.raises(HoldstrueError, match="no rules"):
        holdstrue.suspects(TOWNS, discover=False)
    with pytest.raises(HoldstrueError, match="unknown option"):
        holdstrue.suspects(TOWNS, speed=3)


def test_as_tables() -> None:
    found = holdstrue.suspects(TOWNS, "zip -> town", key="id")
    assert found.to_arrow().column("proposed").to_pylist() == ["Bonn"]
    assert found.to_dict()["suspects"][0]["row"] == 3
    assert "Bomn" in found._repr_html_()


@pytest.mark.parametrize("rule", ["zip -> town", "[zip='9'] -> [town]", "[zip='9'] -> [town='Bonn']"])
def test_rules_that_speak_of_no_row_say_nothing(rule: str) -> None:
    nothing = pa.table({"zip": pa.nulls(3, pa.string()), "town": ["Bonn", "Bonn", "Ulm"]})
    assert not holdstrue.suspects(nothing, rule, discover=False)
    assert not holdstrue.suspects(TOWNS, "[zip='9'] -> [town]", discover=False)


def test_confidence_rises_with_the_score_and_keeps_what_it_promises() -> None:
    scores = [step / 50 for step in range(700)]
    told = [confidence(score) for score in scores]
    assert told == sorted(told)
    assert 0 < told[0] < told[-1] < 1
    sure: Counter[tuple[int, bool]] = Counter()
    for seed in range(20, 26):
        for table in (orders(seed=seed), forms(seed=seed)):
            for suspect in holdstrue.suspects(table.dirty):
                sure[int(suspect.confidence * 10), (suspect.key, suspect.column) in table.wrong] += 1
    for tenth in {tenth for tenth, _ in sure}:
        assert sure[tenth, True] >= tenth / 10 * (sure[tenth, True] + sure[tenth, False])


def test_one_rule_alone_must_say_more_than_several() -> None:
    """A cell of which one learned rule speaks faintly is left alone; where somebody declared the rule it is not."""
    found = holdstrue.suspects(orders(seed=11).dirty)
    lone = [s for s in found if len(s.why) == 1 and "->" in s.why[0]]
    assert lone
    assert min(s.confidence for s in lone) > confidence(LONE)
