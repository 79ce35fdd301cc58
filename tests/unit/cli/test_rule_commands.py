"""`holdstrue rules` and `holdstrue explain`."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdstrue.rules import load_rules
from unit.cli.runs import RULES, run, run_json, write


def test_rules_in_every_form(tmp_path: Path) -> None:
    file = write(tmp_path / "r.yaml", RULES + "  - {name: dup, rule: 'zip, id -> city', tolerance: 1%}\n")
    text = run("rules", file)
    assert text.exit_code == 0
    assert "implied: 'dup' holds whenever 'zips' does" in text.stdout
    assert "lists what must never hold together" in text.stdout
    assert "tolerates 1% of the rows" in text.stdout
    answer = run_json("rules", file)
    assert [set(rule) >= {"name", "kind", "text", "normal", "fingerprint"} for rule in answer["rules"]] == [True] * 4
    assert answer["findings"][0]["others"] == ["zips"]
    yaml = run("rules", file, "--format", "yaml").stdout
    again = load_rules(yaml)
    assert [rule.name for rule in again] == ["zips", "pay", "ids", "dup"]
    assert again.key == ("id",)


def test_weever_rules_need_columns(tmp_path: Path) -> None:
    file = write(tmp_path / "w.json", '[[{"colIdx1": 1, "colIdx2": 1, "op": "EQUAL"}]]')
    assert run("rules", file).exit_code == 2
    assert "not(t.phone = s.phone)" in run("rules", file, "--columns", "id,phone").stdout


@pytest.mark.parametrize("index", ["blocks", "lt_tree", "chains"])
def test_explain(people: Path, rules: Path, index: str) -> None:
    for data in ((), (people,)):
        result = run("explain", *data, "--rules", rules, "--index", index)
        assert result.exit_code == 0, result.output
        assert index in result.stdout
        assert "pay" in result.stdout


def test_explain_holds_rules_against_the_data(people: Path, tmp_path: Path) -> None:
    result = run("explain", people, "--rule", "zipp -> city")
    assert result.exit_code == 2
    assert "has no column 'zipp'" in result.stderr
    target = tmp_path / "plan.txt"
    assert run("explain", "--rule", "a.x in b.y", "--output", target).exit_code == 0
    assert "reference check" in target.read_text()
