"""What commands say beside their answer: --quiet, --verbose, --log, and how far they are."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holdstrue.cli.output import Working
from holdstrue.progress import LISTENER, LOG, Doing, each
from unit.cli.runs import run, write


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write(tmp_path / "t.csv", "id,zip,city\n1,1,Bonn\n1,1,Ulm\n")


def test_nothing_but_errors(table: Path) -> None:
    checked = ("check", table, "--rule", "zip -> city", "--key", "id")
    assert "note: the key is not unique" in run(*checked).stderr
    assert run(*checked, "--quiet").stderr == ""
    assert run(*checked, "-f", "csv", "--limit", 0).stderr.splitlines()[1] == "… 1 more (--limit to see more)"
    assert run(*checked, "-f", "csv", "--limit", 0, "--quiet").stderr == ""
    assert "no key column 'no'" in run(*checked[:-1], "no", "--quiet").stderr


def test_every_step_with_its_time(table: Path, tmp_path: Path) -> None:
    said = run("check", table, "--rule", "zip -> city", "--verbose").stderr.splitlines()
    assert [line.partition(": ")[0] for line in said] == [f"reading {table}", "checking 1 rule", "check"]
    assert said[-1].startswith("check: exit code 1 after ")
    log = tmp_path / "log.txt"
    assert run("init", tmp_path / "s", "--rule", "zip -> city", "--key", "id", "--log", log).stderr == ""
    refused = run("apply", tmp_path / "s", table, "--log", log)
    assert refused.exit_code == 2
    lines = log.read_text().splitlines()
    assert [line.split()[2] for line in lines if line[0] != " "].count("ERROR") == 1
    assert any(line.startswith("    hint: ") for line in lines)
    assert lines[-1].endswith("s") and " INFO apply: exit code 2 after " in lines[-1]
    assert LOG.level == logging.NOTSET and len(LOG.handlers) == 1


def test_lines_cannot_be_forged(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    name = r'"a\n2026-01-01 00:00:00,000 INFO all is well\x1b[2J"'
    rules = write(tmp_path / "r.yaml", f"rules: [{{name: {name}, rule: not(t.id < 0)}}]")
    assert run("check", write(tmp_path / "t.csv", "id\n1\n"), "--rules", rules, "--log", log).exit_code == 0
    text = log.read_text()
    assert "all is well" in text
    assert not any(line.startswith("2026-01-01") for line in text.splitlines())
    assert "\x1b" not in text


def test_wrong_arguments(table: Path, tmp_path: Path) -> None:
    for arguments, said in (
        (("--quiet", "--verbose"), "say the opposite"),
        (("--log", tmp_path), "cannot write"),
        (("--log", tmp_path / "no" / "log"), "cannot write"),
    ):
        answer = run("check", table, "--rule", "zip -> city", *arguments)
        assert (answer.exit_code, said in answer.stderr) == (2, True), answer.stderr


def test_parts_are_told_only_to_listeners() -> None:
    items = ["a", "b"]
    assert each(items, str, 7) is items
    heard: list[tuple[str, int, int, int]] = []
    listening = LISTENER.set(lambda work: heard.append((work.what, work.rows, work.done, work.parts)))
    try:
        assert list(each(items, "checking {}".format, 7)) == items
    finally:
        LISTENER.reset(listening)
    assert heard == [("checking a", 7, 0, 2), ("checking b", 7, 1, 2)]


def test_a_bar_says_rows_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    working = Working("checking")
    now = iter([10.0, 10.0, 12.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(now))
    working.hear(Doing("checking a", 1000, 0, 4))
    assert working._what == "checking a (1 of 4) · 1,000 rows"
    working.hear(Doing("checking b", 1000, 1, 4))
    assert (working._share, working._what) == (0.25, "checking b (2 of 4) · 1,000 rows · 125 rows/s")
    monkeypatch.undo()
    working.hear(Doing("reading\x1b[2J"))
    assert (working._share, working._what) == (None, "'reading\\x1b[2J'")
