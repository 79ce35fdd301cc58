"""`holdstrue accept`, and commands that read what it wrote."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from holdstrue.rules.accepted import load_accepted
from unit.cli.runs import run, run_json, write

ROWS = "id,zip,city,x\n1,10,Bonn,1\n2,10,Ulm,2\n3,11,Kiel,3\n4,11,Kyiv,-3\n5,10,Bonn,7\n"
RULES = ("--rule", "zip -> city", "--rule", "pos := not(t.x < 0)", "--rule", "not(t.x < s.x and t.zip < s.zip)")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write(tmp_path / "t.csv", ROWS)


def test_only_new_violations_fail_a_check(tmp_path: Path, table: Path) -> None:
    report, known = tmp_path / "r.json", tmp_path / "accepted.yaml"
    assert run("check", table, *RULES, "--key", "id", "-f", "json", "-o", report).exit_code == 1
    said = run("accept", report, "--all", "--reason", "DQ-12", "--by", "anna", "--until", "30d", "--file", known)
    until = (dt.datetime.now(dt.UTC).astimezone().date() + dt.timedelta(days=30)).isoformat()
    assert said.stdout.splitlines() == [
        f"{known}: 2 conflicts of 'zip -> city' accepted until {until}",
        f"{known}: 1 row of 'pos' accepted until {until}",
        f"{known}: 2 conflicts of 'not(t.x < s.x and t.zip < s.zip)' accepted until {until}",
    ]
    again = run("check", table, *RULES, "--key", "id", "--accepted", known)
    assert again.exit_code == 0
    assert again.stdout.startswith("5 rows of data: 3 rules, 0 violated, 6 violations, 6 of them accepted\n")
    assert "DQ-12" in again.stdout
    write(table, ROWS + "6,10,Ulm,7\n")
    answer = run("check", table, *RULES, "--key", "id", "--accepted", known)
    assert answer.exit_code == 1
    assert "zip -> city: 5 violations, 6 rows, 2 of them new\n" in answer.stdout
    assert "zip 11" not in answer.stdout
    found = run_json("check", table, *RULES, "--key", "id", "--accepted", known, code=1)
    assert [(v["rule"], v["t"], v["s"]) for v in found["violations"]] == [
        ("zip -> city", 1, 6),
        ("zip -> city", 5, 6),
    ]
    assert [rule["accepted"] for rule in found["rules"]] == [3, 1, 2]
    assert {entry["reason"] for entry in found["accepted"]} == {"DQ-12"}
    assert not found["truncated"]


def test_a_state_is_accepted_added_to_and_pruned(tmp_path: Path, table: Path) -> None:
    state, known = tmp_path / "state", tmp_path / "accepted.yaml"
    run("init", state, *RULES[:4], "--key", "id", "--data", table)
    assert run("accept", state, "--rule", "pos", "--reason", "a", "--file", known).exit_code == 0
    assert [entry.rows for entry in load_accepted(str(known))] == [(4,)]
    listed = run_json("violations", state, "--accepted", known)
    assert {v["rule"] for v in listed["violations"]} == {"zip -> city"}
    run("accept", state, "--all", "--reason", "b", "--file", known)
    assert [entry.conflicts for entry in load_accepted(str(known))] == [(), ((1, 5, 2), (3, 4))]
    before = known.read_text()
    assert run("accept", state, "--all", "--reason", "b", "--file", known).stdout == "nothing new to accept\n"
    assert known.read_text() == before
    changes = write(tmp_path / "c.csv", "id,op\n4,delete\n")
    run("apply", state, changes)
    said = run("violations", state, "--accepted", known).stdout
    assert "(none is left)" in said
    run("accept", state, "--all", "--reason", "c", "--file", known, "--prune")
    assert [(entry.rule, entry.reason) for entry in load_accepted(str(known))] == [("zip -> city", "b")]


def test_what_has_expired_counts_again(tmp_path: Path, table: Path) -> None:
    known = write(tmp_path / "a.yaml", "accepted: [{rule: pos, reason: then, until: 2020-01-01, rows: [4]}]\n")
    answer = run("check", table, *RULES[2:4], "--key", "id", "--accepted", known)
    assert answer.exit_code == 1
    assert "expired: they count again" in answer.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: []", "not a file of accepted violations"),
        ("accepted: 3", "must be a list"),
        ("accepted: [3]", "entry 1: expected fields"),
        ("accepted: [{rule: pos, reason: x}]", "entry 1: no violations"),
        ("accepted: [{rule: pos, rows: [1]}]", "reason must be text, got None"),
        ("accepted: [{rule: pos, reason: x, rows: [1], until: soon}]", "until is 'soon'"),
        ("accepted: [{rule: pos, reason: x, conflicts: [[1]]}]", "is no conflict"),
        ("accepted: [{rule: pos, reason: x, conflicts: [[1, 1]]}]", "is no conflict"),
        ("accepted: [{rule: pos, reason: x, rows: [a]}]", "which holds int64"),
        ("accepted: [{rule: pos, reason: x, rows: [[1, 2]]}]", "which holds int64"),
        ("accepted: [{rule: pos, reason: x, rows: [4]}, {rule: pos, reason: y, rows: [4]}]", "accepted twice"),
        ("accepted: [{rule: nobody, reason: x, rows: [4]}]", "there is no such rule"),
        ("accepted: [{rule: pos, reason: x, rows: [4], was: 1}]", "unknown field 'was'"),
        (
            "accepted: [{rule: pos, reason: x, conflicts: [[1, 2, 3]]}, {rule: pos, reason: y, conflicts: [[3, 2]]}]",
            "twice",
        ),
    ],
)
def test_files_that_are_none(tmp_path: Path, table: Path, text: str, said: str) -> None:
    known = write(tmp_path / "a.yaml", text)
    answer = run("check", table, *RULES[2:4], "--key", "id", "--accepted", known)
    assert (answer.exit_code, said in answer.stderr) == (2, True), answer.stderr


def test_wrong_arguments(tmp_path: Path, table: Path) -> None:
    report = tmp_path / "r.json"
    run("check", table, *RULES, "-f", "json", "-o", report)
    cut = tmp_path / "cut.json"
    run("check", table, *RULES, "--key", "id", "-f", "json", "-o", cut, "--limit", "1")
    for arguments, said in (
        ((report, "--reason", "x"), "which violations are accepted?"),
        ((report, "--reason", "x", "--all", "--rule", "pos"), "both --rule and --all are given"),
        ((report, "--reason", " ", "--all"), "--reason is empty"),
        ((report, "--reason", "x", "--all"), "no key is given"),
        ((cut, "--reason", "x", "--all"), "does not list all violations"),
        ((cut, "--reason", "x", "--rule", "nobody"), "no rule called 'nobody'"),
        ((table, "--reason", "x", "--all"), "is neither a state nor a report"),
        ((tmp_path / "nowhere", "--reason", "x", "--all"), "no state"),
        ((cut, "--reason", "x", "--all", "--until", "2020-01-01"), "is over"),
        ((cut, "--reason", "x", "--all", "--until", "soon"), "is not a day"),
    ):
        answer = run("accept", *arguments, "--file", tmp_path / "a.yaml")
        assert (answer.exit_code, said in answer.stderr) == (2, True), (arguments, answer.stderr)
        assert not (tmp_path / "a.yaml").exists()
    missing = run("check", table, *RULES, "--key", "id", "--accepted", tmp_path / "a.yaml")
    assert (missing.exit_code, "a.yaml: No such file" in missing.stderr) == (2, True)


def test_a_rule_that_says_something_else_is_not_accepted(tmp_path: Path, table: Path) -> None:
    report, known = tmp_path / "r.json", tmp_path / "a.yaml"
    run("check", table, "--rule", "x := zip -> city", "--key", "id", "-f", "json", "-o", report)
    run("accept", report, "--all", "--reason", "seen", "--file", known)
    assert run("check", table, "--rule", "x := zip -> city", "--key", "id", "--accepted", known).exit_code == 0
    other = run("check", table, "--rule", "x := key(zip)", "--key", "id", "--accepted", known)
    assert (other.exit_code, "the rule says something else now" in other.stdout) == (1, True)


def test_keys_that_name_no_row_for_good(tmp_path: Path) -> None:
    """Several rows of one key, rows of further tables in a check, times of day."""
    report, known = tmp_path / "r.json", tmp_path / "a.yaml"
    rows = write(tmp_path / "t.csv", "id,x\n1,-1\n1,2\n")
    run("check", rows, "--rule", "not(t.x < 0)", "--key", "id", "-f", "json", "-o", report)
    answer = run("accept", report, "--all", "--reason", "seen", "--file", known)
    assert (answer.exit_code, "several rows have one key" in answer.stderr) == (2, True)
    other = write(tmp_path / "o.csv", "name\na\na\n")
    rules = write(tmp_path / "r.yaml", "table: t\nrules:\n- {rule: not(t.x < 0)}\n- {rule: key(name), table: o}\n")
    rows = write(tmp_path / "t.csv", "id,x\n1,-1\n2,2\n")
    run("check", rows, "--rules", rules, "--table", f"o={other}", "--key", "id", "-f", "json", "-o", report)
    answer = run("accept", report, "--all", "--reason", "seen", "--file", known)
    assert (answer.exit_code, "left out, as their rows have no key: key(name)" in answer.stderr) == (0, True)
    assert [entry.rule for entry in load_accepted(str(known))] == ["not(t.x < 0)"]
    timed = write(rows, "id,x\n10:00:00,-1\n")
    run("init", tmp_path / "s", "--rule", "not(t.x < 0)", "--key", "id", "--data", timed, "--type", "id=time")
    answer = run("accept", tmp_path / "s", "--all", "--reason", "seen", "--file", tmp_path / "b.yaml")
    assert (answer.exit_code, "has the key datetime.time(10, 0)" in answer.stderr) == (2, True)
