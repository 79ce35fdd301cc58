"""A command that is given the state of something else says what it is and which command reads it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdstrue.state.journal import READ_WITH, Journal, Kind
from unit.cli.runs import run

STATED = {"monitor": "a monitor", "discovery": "a discovery", "inclusions": "inclusions", "site": "a site"}

OF_MONITORS = (
    ("status", "{state}"),
    ("violations", "{state}"),
    ("apply", "{state}", "{data}"),
    ("watch", "{state}", "."),
)
OF_DISCOVERIES = (("discover", "--state", "{state}"), ("discover", "--state", "{state}", "--apply", "{data}"))


@pytest.fixture(params=list(READ_WITH))
def kept(request: pytest.FixtureRequest, tmp_path: Path, people: Path, rules: Path) -> tuple[Kind, Path]:
    """A state of each kind there is."""
    kind: Kind = request.param
    path = tmp_path / "kept"
    if kind == "monitor":
        assert run("init", path, "--rules", rules, "--data", people).exit_code == 0
    elif kind == "discovery":
        assert run("discover", people, "--kind", "key", "--state", path).exit_code == 0
    else:
        with Journal.create(path, kind) as journal:
            journal.commit(journal.write_checkpoint({}, pa.table({"batch": ["1"]}), {}))
    return kind, path


@pytest.mark.parametrize("command", [*OF_MONITORS, *OF_DISCOVERIES], ids=lambda words: " ".join(words[:3:2]))
def test_the_state_of_something_else_is_named(
    kept: tuple[Kind, Path], command: tuple[str, ...], people: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kind, path = kept
    wanted = "monitor" if command in OF_MONITORS else "discovery"
    if kind == wanted:
        return
    monkeypatch.chdir(tmp_path)
    result = run(*(word.format(state=path, data=people) for word in command))
    assert result.exit_code == 2
    assert f"is the state of {STATED[kind]}, not of {STATED[wanted]}" in result.stderr
    assert f"hint: {READ_WITH[kind].replace('STATE', str(path))}" in result.stderr


def test_the_hints_lead_to_commands_that_read_the_state(kept: tuple[Kind, Path]) -> None:
    kind, path = kept
    hint = READ_WITH[kind].replace("STATE", str(path))
    if hint.startswith("holdstrue ") and str(path) in hint:
        words = hint.split(" shows it")[0].split()[1:]
        assert run(*words).exit_code == 0, words


def test_a_state_is_not_made_where_another_is(kept: tuple[Kind, Path], people: Path, rules: Path) -> None:
    for command in (("init", kept[1], "--rules", rules), ("discover", people, "--kind", "key", "--state", kept[1])):
        result = run(*command)
        assert (result.exit_code, "exists and is not an empty directory" in result.stderr) == (2, True), result.stderr


def test_a_place_that_was_given_up(tmp_path: Path) -> None:
    """One process takes it over; on Spark, where the state is moved there when it is whole, it is refused by name."""
    place = tmp_path / "state"
    (place / "runs").mkdir(parents=True)
    (place / "lock").touch()
    rules = tmp_path / "r.yaml"
    rules.write_text("rules: [zip -> city]\n")
    refused = run("init", place, "--rules", rules, "--key", "id", "--engine", "spark")
    assert refused.exit_code == 2
    assert "was given up by an earlier init" in refused.stderr
    assert run("init", place, "--rules", rules, "--key", "id").exit_code == 0
