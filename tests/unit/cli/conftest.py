"""Small tables, rules and a state directory for the command line's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.cli.runs import PEOPLE, RULES, run, write


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Four people, of whom three live in two cities of one zip."""
    return write(tmp_path / "people.csv", PEOPLE)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """An FD, a warning about pay, and a key."""
    return write(tmp_path / "rules.yaml", RULES)


@pytest.fixture
def state(tmp_path: Path, people: Path, rules: Path) -> Path:
    """A state directory that watches the people."""
    path = tmp_path / "state"
    result = run("init", path, "--rules", rules, "--data", people)
    assert result.exit_code == 0, result.output
    return path
