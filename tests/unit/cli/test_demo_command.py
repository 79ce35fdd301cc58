"""`holdstrue demo`: the walk ends well, and every command it shows works by hand as it is shown."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

from unit.cli.runs import run


def test_the_walk_is_what_its_commands_do_by_hand(tmp_path: Path) -> None:
    shown = run("demo", tmp_path / "walked")
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "walked" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")

    made = run("demo", "--data-only", tmp_path / "by hand")
    assert made.exit_code == 0, made.output
    assert not (tmp_path / "by hand" / "state").exists()

    _, *blocks = shown.stdout.split("\n$ holdstrue ")
    assert len(blocks) >= 12
    for block in blocks:
        line, _, printed = block.partition("\n")
        with contextlib.chdir(tmp_path / "by hand"):
            result = run(*shlex.split(line))
        assert result.exit_code in (0, 1), (line, result.output)
        assert printed.partition("\n# ")[0].strip() == result.stdout.strip(), line


def test_a_place_that_is_taken_is_refused(tmp_path: Path) -> None:
    assert run("demo", "--data-only", tmp_path / "shop").exit_code == 0
    again = run("demo", "--data-only", tmp_path / "shop")
    assert again.exit_code == 2
    assert "not an empty directory" in again.stderr
    assert "hint: name another one" in again.stderr


def test_a_url_is_no_place(tmp_path: Path) -> None:
    result = run("demo", "s3://bucket/shop")
    assert result.exit_code == 2
    assert "s3://bucket/shop" in result.stderr
