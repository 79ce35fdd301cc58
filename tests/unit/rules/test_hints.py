"""What people write first is answered with the rule to copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdstrue.errors import RuleError
from holdstrue.rules import load_rules
from unit.cli.runs import run, write

FIRST = [
    ("unique(zip)", "write key(zip)"),
    ("UNIQUE (a, b)", "write key(a, b)"),
    ("primary key(id)", "write key(id)"),
    ("zip is unique", "write key(zip)"),
    ("not_null(zip)", "write not null(zip)"),
    ("notnull(zip)", "write not null(zip)"),
    ("zip not null", "write not null(zip)"),
    ("zip is not null", "write not null(zip)"),
    ("t.zip > 0", "what every row must have is written without t: a >= 0"),
    ("not(t.state = CA)", "not(t.state = 'CA')"),
    ("!(t.State == NY and t.Rate > s.Rate)", "!(t.State == 'NY' and t.Rate > s.Rate)"),
    ("not(t.city = New York)", "'New York'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "hint"), FIRST)
def test_the_hint_is_the_rule_to_write(text: str, hint: str) -> None:
    with pytest.raises(RuleError) as caught:
        load_rules([text])
    assert hint in str(caught.value.hint), caught.value


@pytest.mark.parametrize(("text", "hint"), FIRST)
def test_what_the_hint_says_is_read(text: str, hint: str) -> None:
    written = hint.partition("write ")[2] or hint.rpartition(": ")[2]
    if "New York" not in written:
        assert len(load_rules([written])) == 1


def test_on_the_command_line(tmp_path: Path) -> None:
    data = write(tmp_path / "t.csv", "id,zip\n1,10\n")
    result = run("check", data, "--rule", "unique(zip)")
    assert result.exit_code == 2
    assert "write key(zip)" in result.stderr
