"""A damaged state is refused by an error that names the file, or answered: it never ends or stops the process.

`HOLDSTRUE_DAMAGE=all` tries every damage to every state instead of some, and a number so many of each state.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laws.kept_states import STATES

TESTS = Path(__file__).parents[1]
TRIED = os.environ.get("HOLDSTRUE_DAMAGE", "15")
SECONDS = 20.0
"""Of work that a case may take, where whole ones take a tenth: a loop without end is told from a slow machine."""


class User:
    """Another process, in which damaged states are used one after the other; it is started again when it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
        self._start = [sys.executable, "-m", "laws.state_damage", str(folder), str(SECONDS)]
        self._settings = os.environ | {"PYTHONPATH": path}
        self._process: subprocess.Popen[str] | None = None

    def ask(self, line: str) -> Any:
        """What comes of a line; how the process ended, if it did."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self._settings
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if answer:
            return json.loads(answer)
        ended, self._process = self._process.wait(), None
        how = "hung" if ended == -signal.SIGPROF else "crashed"
        return {"label": line, "outcome": how, "said": f"ended with {ended}", "repaired": True}

    def close(self) -> None:
        """Let the process end."""
        if self._process is not None:
            self._process.communicate()


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """One process for all states: it takes longer to start than to meet a damaged state."""
    user = User(tmp_path_factory.mktemp("states"))
    yield user
    user.close()


@pytest.mark.parametrize("name", STATES)
def test_damaged_states(name: str, user: User) -> None:
    STATES[name].make(user.folder / name)
    total = user.ask(name)
    chosen = range(total) if TRIED == "all" else random.Random(0).sample(range(total), min(total, int(TRIED)))
    found = [user.ask(f"{name} {number}") for number in chosen]
    outcomes = Counter(one["outcome"] for one in found)
    print(f"\n{name}: {dict(outcomes)} of {total}")
    assert not [one for one in found if one["outcome"] in ("crashed", "hung", "failed")]
    # what its checksum tells is never used; parts of joint files that list violations are not read here
    damaged = [one for one in found if not one["repaired"] and ": joint " not in one["label"]]
    assert not [one for one in damaged if one["outcome"] not in ("refused", "unread")]
    assert outcomes["refused"]
