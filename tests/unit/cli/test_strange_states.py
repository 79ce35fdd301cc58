"""States of which a part is missing, or something else than it should be: every command says so, and of what."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from holdstrue.errors import StateError
from holdstrue.state.files import StateFiles
from holdstrue.state.objects import ObjectStore
from unit.cli.runs import PEOPLE, RULES, run, run_json, write

COMMANDS = ("status", "violations", "vacuum", "apply")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """One that has a batch."""
    rules, people = write(tmp_path / "rules.yaml", RULES), write(tmp_path / "people.csv", PEOPLE)
    assert run("init", tmp_path / "state", "--rules", rules, "--data", people).exit_code == 0
    return tmp_path / "state"


def refused(state: Path, words: str) -> None:
    """By every command, with these words."""
    changes = write(state.parent / "changes.csv", "id,op\n1,delete\n")
    for command in COMMANDS:
        result = run(command, state, *([changes] if command == "apply" else []))
        assert result.exit_code == 2, command
        assert words in result.stderr and "hint: " in result.stderr, command


@pytest.mark.parametrize("also", [(), ("lock",)])
def test_a_log_that_is_gone_is_damage(state: Path, also: tuple[str, ...]) -> None:
    shutil.rmtree(state / "log")
    for name in also:
        (state / name).unlink()
    answer = run_json("verify", state, code=1)
    told = "it is missing" + ("" if also else ", and with it every version up to 0")
    assert answer["problems"] == [{"file": "log", "problem": told}]
    assert answer["strays"] == [], "what it named may be all there is"
    refused(state, f"{state / 'log'} is damaged: {told}")
    assert list((state / "runs").iterdir())


def test_a_log_that_cannot_be_read_may_name_every_run(state: Path) -> None:
    [segment] = (state / "log").iterdir()
    segment.write_bytes(b"x" * segment.stat().st_size)
    answer = run_json("verify", state, code=1)
    assert answer["problems"][0]["file"] == f"log/{segment.name}"
    assert answer["strays"] == []


def test_a_creation_that_was_given_up_is_no_state(state: Path) -> None:
    shutil.rmtree(state / "log")
    (state / "lock").write_bytes(b"")
    assert "holds no version" in run("verify", state).stderr
    people, rules = state.with_name("people.csv"), state.with_name("rules.yaml")
    assert run("init", state, "--rules", rules, "--data", people).exit_code == 0


def test_objects_whose_log_is_gone(s3: str, tmp_path: Path) -> None:
    rules, people = write(tmp_path / "rules.yaml", RULES), write(tmp_path / "people.csv", PEOPLE)
    assert run("init", s3, "--rules", rules, "--data", people).exit_code == 0
    store = ObjectStore(s3)
    store.delete([listed.name for listed in store.list("log/")])
    answer = run_json("verify", s3, code=1)
    assert answer["problems"] == [{"file": "log", "problem": "it is missing, unless making the state was given up"}]
    assert answer["strays"] == []


@pytest.mark.parametrize("name", ["log", "runs", "lock"])
def test_a_link_in_its_place_is_named_by_every_command(state: Path, name: str) -> None:
    (state / name).rename(state.with_name("elsewhere"))
    (state / name).symlink_to(state.with_name("elsewhere"))
    refused(state, "it is a link" if name == "lock" else f"{state / name} is a link")
    [problem] = run_json("verify", state, code=1)["problems"]
    assert problem["file"] == name and problem["problem"].startswith("it is a link")


@pytest.mark.parametrize("name", ["log", "runs"])
def test_a_file_in_place_of_a_folder(state: Path, name: str) -> None:
    shutil.rmtree(state / name)
    (state / name).write_bytes(b"")
    refused(state, f"{state / name} is damaged: it is no folder")
    assert run_json("verify", state, code=1)["problems"] == [{"file": name, "problem": "it is no folder"}]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes of that kind")
def test_a_pipe_in_place_of_a_file_is_not_waited_for(state: Path) -> None:
    with StateFiles(state) as files:
        name = next(listed.name for listed in files.store.list("runs/") if "arrays" in listed.name)
    (state / name).unlink()
    os.mkfifo(state / name)
    why = "it is no plain file but a link, a folder or a pipe"
    answer = run_json("verify", state, code=1)
    assert (answer["problems"], answer["others"]) == ([{"file": name, "problem": why}], [])
    result = run("violations", state)
    assert (result.exit_code, why in result.stderr) == (2, True)
    with StateFiles(state) as files:
        with pytest.raises(StateError, match=why):
            files.store.read(name)
        with pytest.raises(StateError, match=why):
            files.store.read_range(name, 0, 8)
