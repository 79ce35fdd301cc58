"""Servers as processes of this machine, for tests that need one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"
PATIENCE = 90.0
"""Seconds until a server that does not answer is given up; a Java process starts in 3 to 10."""


@dataclass
class Process:
    """A server process in a process group of its own, and the file of what it prints."""

    popen: subprocess.Popen[bytes]
    log: Path
    farewell: signal.Signals = signal.SIGTERM
    """The signal on which it ends in good order."""

    def said(self) -> str:
        """Everything it has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Return when it is ready; raise, with the end of its log, when it ends or takes too long."""
        limit = time.monotonic() + PATIENCE
        while not ready():
            if self.popen.poll() is not None or time.monotonic() > limit:
                state = "is not ready" if self.popen.poll() is None else f"ended with {self.popen.returncode}"
                raise RuntimeError(f"{self.log.stem} {state}:\n{self.said()[-3000:]}")
            time.sleep(0.1)

    def wait_until_said(self, words: str) -> None:
        """Return when it has printed certain words."""
        self.wait_until(lambda: words in self.said())

    def kill(self) -> None:
        """End it and its children now, as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def stop(self) -> None:
        """Ask it to end, and end it if it does not."""
        if self.popen.poll() is None:
            self.popen.send_signal(self.farewell)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(10)
        self.kill()


def launch(
    command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> Process:
    """Start a server that ends with this process, however that ends."""
    guard = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    with log.open("wb") as out:
        popen = subprocess.Popen(
            [*guard, *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=folder,
            start_new_session=True,
        )
    return Process(popen, log)


def free_port(host: str = LOOPBACK) -> int:
    """A port of an address of this machine that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def answers(port: int, host: str = LOOPBACK) -> bool:
    """Whether something listens on a port of an address."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False
