"""States in an object store from the command line: every command that takes a state takes its URL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdstrue.state.objects import ObjectStore
from unit.cli.runs import run, run_json, write
from unit.cli.test_fragments_commands import DECLARED, SITES
from unit.cli.test_state_commands import changes


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_monitor_at_a_url_says_what_one_in_a_directory_says(
    s3: str, slash: str, tmp_path: Path, people: Path, rules: Path
) -> None:
    url = s3 + slash
    for place in (url, tmp_path / "state"):
        assert run("init", place, "--rules", rules, "--data", people).exit_code == 0
    batch = changes(tmp_path, "delete,2,,,,,", "insert,5,60601,Chikago,IL,4500,2")
    commands = (
        ("apply", "{}", batch, "--batch-id", "b1", "--format", "json"),
        ("apply", "{}", batch, "--batch-id", "b1", "--format", "json"),
        ("violations", "{}", "--format", "json"),
        ("violations", "{}", "--groups"),
        ("violations", "{}", "--worst", "2"),
        ("vacuum", "{}", "--format", "json"),
    )
    for command in commands:
        said = []
        for place in (url, tmp_path / "state"):
            result = run(*(str(word).replace("{}", str(place)) for word in command))
            told: Any = result.stdout
            if command[0] == "vacuum":
                answer = json.loads(told)
                told = answer["kind"], answer["kept"]["first"], answer["kept"]["last"]
            said.append((result.exit_code, told))
        assert said[0] == said[1], command
    answer = run_json("status", url)
    assert (answer["path"], answer["batches"]) == (url, 2)
    again = run("init", url, "--rules", rules)
    assert (again.exit_code, "it holds a state" in again.stderr) == (2, True)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("s3")]


def test_a_discovery_at_a_url(s3: str, tmp_path: Path, people: Path) -> None:
    assert run("discover", people, "--kind", "fd,key", "--key", "id", "--state", s3).exit_code == 0
    here = run_json("discover", people, "--kind", "fd,key", "--key", "id")
    assert run_json("discover", "--state", s3) == here
    batch = changes(tmp_path, "insert,9,10001,Rome,RM,5000,3")
    result = run("discover", "--state", s3, "--apply", batch, "--batch-id", "b1", "--format", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["died"]
    assert run("discover", "--state", s3, "--apply", batch, "--batch-id", "b1").exit_code == 0
    wrong = run("status", s3)
    assert wrong.exit_code == 2
    assert f"{s3} is the state of a discovery, not of a monitor" in wrong.stderr


@pytest.mark.parametrize("each", [False, True])
def test_sites_at_urls(s3: str, tmp_path: Path, each: bool) -> None:
    for name, text in SITES.items():
        write(tmp_path / f"{name}.csv", text)
    text = DECLARED.replace("state: state", f"state: {s3}")
    if each:
        text = DECLARED.replace("state: state\n", "")
        for number in (1, 2, 3):
            text = text.replace(f"source: s{number}.csv", f"source: s{number}.csv, state: {s3}/S{number}")
    declared = write(tmp_path / "employees.yaml", text)
    first = run("fragments", "init", declared)
    assert first.exit_code == 1, first.output
    assert "phi1: +4 -0, 4 rows violate it now" in first.output
    batch = write(tmp_path / "new.csv", "op,id,street,city,zip,CC,AC,grade\ni,6,Mayfield,EDI,E1,44,131,C\n")
    said = json.loads(run("fragments", "apply", declared, batch, "--batch-id", "b1", "--format", "json").output)
    assert said["added"] == {"phi1": [6]}
    assert "phi1: +5 -0, 5 rows violate it now" in run("fragments", "check", declared).output
    assert {listed.name.split("/")[0] for listed in ObjectStore(s3).list("")} == {"S1", "S2", "S3"}
    for number in (1, 2, 3):
        assert run_json("verify", f"{s3}/S{number}")["kind"] == "site"
    assert not (tmp_path / "state").exists()


def test_a_declaration_whose_url_cannot_be(tmp_path: Path) -> None:
    for url in ("s3://key:secret@bucket/state", "s3://bucket/state?token=secret", "hdfs://node/state", "s3://b/../x"):
        declared = write(tmp_path / "employees.yaml", DECLARED.replace("state: state", f"state: '{url}'"))
        for command in ("plan", "init", "check"):
            result = run("fragments", command, declared)
            assert (result.exit_code, "site 1 (S1): " in result.stderr) == (2, True)
            assert "secret" not in result.output
