"""Scenarios of `faulty`, each a process of its own with a driver in it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
PATIENCE = 200.0
"""Seconds until a scenario that does not end is given up; the longest takes 40."""


@dataclass
class Scenario:
    """A process of its own with a driver in it, and the files of what it prints."""

    popen: subprocess.Popen[bytes]
    folder: Path

    def said(self) -> list[dict[str, Any]]:
        """What it has said."""
        lines = (self.folder / "said").read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Return when something has come to be; fail when it ends before, or takes too long."""
        limit = time.monotonic() + PATIENCE
        while not ready():
            assert self.popen.poll() is None and time.monotonic() < limit, (self.folder / "errors").read_text()[-5000:]
            time.sleep(0.1)

    def end(self, code: int = 0) -> list[dict[str, Any]]:
        """What it said until it ended as it should."""
        self.popen.wait(PATIENCE)
        assert self.popen.returncode == code, (self.folder / "errors").read_text()[-5000:]
        return self.said()


@pytest.fixture
def scenario(tmp_path: Path) -> Iterator[Callable[..., Scenario]]:
    """Starts scenarios, which find the tests' modules, and so do their workers."""
    started: list[Scenario] = []

    def run(*arguments: object, **more: str) -> Scenario:
        # pyspark leaves word of a Connect session to child processes, which then have no other
        env = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")} | more
        env["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, [env.get("PYTHONPATH")])])
        folder = tmp_path / f"scenario{len(started)}"
        folder.mkdir()
        command = [sys.executable, "-m", "spark.faulty", *map(str, arguments)]
        # into files: a Java process that outlives its driver for a moment would keep a pipe open
        with (folder / "said").open("wb") as out, (folder / "errors").open("wb") as errors:
            popen = subprocess.Popen(command, stdout=out, stderr=errors, env=env, start_new_session=True)
        started.append(Scenario(popen, folder))
        return started[-1]

    yield run
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.popen.pid, signal.SIGKILL)
        one.popen.wait()
