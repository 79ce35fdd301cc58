"""`holdstrue report`: of data and of states."""

from __future__ import annotations

import json
import re
from pathlib import Path

from unit.cli.runs import run, run_json


def test_of_data_and_of_a_state(tmp_path: Path, people: Path, rules: Path) -> None:
    target = tmp_path / "report.html"
    assert run("report", people, "--rules", rules, "-o", target).exit_code == 0
    found = json.loads(re.findall(r'type="application/json">(.*?)</script>', target.read_text())[0])
    checked = json.loads(run("check", people, "--rules", rules, "-f", "json").stdout)
    assert [rule["rows"] for rule in found["rules"]] == [rule["rows"] for rule in checked["rules"]]
    assert found["title"] == str(people) and found["history"] is None and found["plan"]
    state = tmp_path / "state"
    assert run("init", state, "--rules", rules, "--data", people).exit_code == 0
    assert run("report", state, "-o", target, "--title", "people today").exit_code == 0
    found = json.loads(re.findall(r'type="application/json">(.*?)</script>', target.read_text())[0])
    assert found["title"] == "people today" and found["version"] == 0 and found["history"]["batches"] == 1
    assert run_json("report", state, "-f", "json")["open"] == found["open"]


def test_wrong_arguments(tmp_path: Path, people: Path, rules: Path) -> None:
    for arguments, said in (
        ((people,), "a report on data needs rules"),
        ((people, people), "a report on data needs rules"),
        ((people, "--rules", rules, "--at", "3"), "--at is for states"),
        ((tmp_path / "nowhere",), "no state"),
    ):
        result = run("report", *arguments)
        assert result.exit_code == 2 and said in result.stderr, result.stderr


def test_of_a_discovery(tmp_path: Path) -> None:
    lines = [f"{n},{n % 8},<i>{n % 8}" for n in range(39)] + ["39,7,?"]
    data = tmp_path / "t.csv"
    data.write_text("id,zip,city\n" + "\n".join(lines) + "\n")
    state, target = tmp_path / "found", tmp_path / "report.html"
    assert run("discover", data, "--kind", "fd,key", "--key", "id", "--state", state).exit_code == 0
    assert run("report", state, "-o", target).exit_code == 0
    found = json.loads(re.findall(r'type="application/json">(.*?)</script>', target.read_text())[0])
    assert found["rules"] == [] and found["discovered"]["tables"] == {"data": 40}
    [near] = [miss for miss in found["discovered"]["near"] if miss["rule"] == "zip -> city"]
    assert (near["violations"], "39" in " ".join(near["by"])) == (1, True)
    assert "<i>" not in target.read_text().partition("</style>")[2].partition("<script>")[0]
    text = run("report", state, "-f", "text").stdout
    assert "nearly true" in text and "zip -> city" in text
    beside = run_json("report", data, "--rule", "zip -> city", "--key", "id", "--found", state, "-f", "json")
    assert beside["discovered"]["of_rules"] == found["discovered"]["of_rules"] and beside["open"] > 0


def test_what_is_accepted_is_told(tmp_path: Path, people: Path, rules: Path) -> None:
    state, known = tmp_path / "state", tmp_path / "accepted.yaml"
    run("init", state, "--rules", rules, "--data", people)
    run("accept", state, "--rule", "zips", "--reason", "merged <b>towns</b>", "--file", known)
    found = run_json("report", state, "--accepted", known, "-f", "json")
    zips = found["rules"][0]
    assert (zips["status"], zips["accepted"], zips["new"], zips["listed"]) == ("accepted", 2, 0, [])
    assert [entry["reason"] for entry in found["accepted"]] == ["merged <b>towns</b>"]
    page = run("report", state, "--accepted", known).stdout
    assert "2 accepted" in page and "<b>towns" not in page
