"""`holdstrue rules` and `holdstrue explain`."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdstrue.cli.main import app
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


def test_rules_come_through_a_pipe_whole(people: Path, tmp_path: Path) -> None:
    text = "# " + "x" * 20_000 + "\nzip -> city\nkey(id)\n"
    piped = tmp_path / "pipe"
    os.mkfifo(piped)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(piped.write_text, text)
        assert [rule["text"] for rule in run_json("check", people, "--rules", piped, code=1)["rules"]] == [
            "zip -> city", "key(id)",
        ]  # fmt: skip


def test_rules_come_from_standard_input(people: Path) -> None:
    found = CliRunner().invoke(app, ["check", str(people), "--rules", "-"], input="zip -> city\n")
    assert found.exit_code == 1, found.output
    assert "zip -> city" in found.stdout
    assert CliRunner().invoke(app, ["rules", "-"], input="rules: [key(id)]").exit_code == 0
    wrong = CliRunner().invoke(app, ["rules", "-"], input="key(id)\nzip ->\n")
    assert wrong.exit_code == 2
    assert "error: standard input: line 2: " in wrong.stderr


def test_python_m_runs_the_command_line() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "holdstrue", "--version"], capture_output=True, text=True, check=True, timeout=120
    )
    assert said.stdout.startswith("holdstrue ")
