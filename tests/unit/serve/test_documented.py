"""What docs/serve.md shows: its commands make a state, and the server answers as the page says."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from live import Live, serving
from unit.cli.runs import run

PAGE = Path(__file__).parents[3] / "docs" / "serve.md"


def commands() -> Iterator[tuple[str, str]]:
    """Commands of the page, and what they print."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        for command in re.findall(r"^\$ (.*\n(?:(?!\$ ).*\n)*)", block, re.M):
            line, _, printed = command.partition("\n")
            yield line, printed


def answer(live: Live, line: str) -> str:
    """What curl would print."""
    words = shlex.split(line)
    path = words[words.index("-s") + 1].removeprefix("localhost:8765")
    body = words[words.index("-d") + 1].encode() if "-d" in words else None
    heard = live.ask(path, body)
    assert heard.status == 200, heard.body
    return heard.body.decode().rstrip("\n") + "\n"


def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = []
    for line, _ in commands():
        if line.startswith("printf "):
            subprocess.run(["bash", "-c", line], check=True, timeout=60)
        elif line.startswith(("holdstrue init", "holdstrue apply")):
            words = shlex.split(line.partition(" > ")[0])
            assert run(*words[1:]).exit_code in (0, 1)
    with serving("people") as live:
        for line, printed in commands():
            if line.startswith("curl "):
                found = answer(live, line)
                pattern = re.escape(printed).replace(r"\.\.\.", ".*")
                assert re.fullmatch(pattern, found, re.S), f"{line}\n{found}"
                asked.append(line)
    assert len(asked) == 7
