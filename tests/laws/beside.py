"""Processes that write checkpoints beside the work, as tests have them: started by a fork, or played by this one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from holdstrue.errors import StateError
from holdstrue.monitor import checkpoint
from holdstrue.state.files import UncommittedError


class Forked:
    """A process that is there at once, and that does what `prepare` says before it begins."""

    def __init__(self, command: Sequence[str], prepare: Callable[[], None] = lambda: None, **_: Any) -> None:
        self.returncode: int | None = None
        self._read, write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                os.close(self._read)
                prepare()
                with os.fdopen(write, "w") as out:
                    out.write(_written(command))
                code = 0
            finally:
                os._exit(code)
        os.close(write)

    def communicate(self) -> tuple[bytes, bytes]:
        """What it said, when it has ended."""
        with os.fdopen(self._read, "rb") as said:
            answer = said.read()
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return answer, b""

    def kill(self) -> None:
        """End it."""
        os.kill(self.pid, signal.SIGKILL)


class Played:
    """No process at all: this one does its work, when it is started."""

    def __init__(self, command: Sequence[str], **_: Any) -> None:
        self._said, self._trouble = b"", b""
        try:
            self._said = _written(command).encode()
            self.returncode = 0
        except StateError as error:
            self._trouble = (error.why if isinstance(error, UncommittedError) else error.message).encode()
            self.returncode = 1
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  as an interpreter that ends with a traceback
            self._trouble = f"{type(error).__name__}: {error}".encode()
            self.returncode = 1

    def communicate(self) -> tuple[bytes, bytes]:
        """What it said."""
        return self._said, self._trouble

    def kill(self) -> None:
        """It has ended before."""


def _written(command: Sequence[str]) -> str:
    """Do what `python -m holdstrue.monitor.checkpoint PLACE VERSION` does."""
    place, version = command[-2:]
    files = {name: file.to_dict() for name, file in checkpoint.write(place, int(version)).items()}
    return f"said at the start\n{checkpoint._ANSWER.decode()}{json.dumps(files)}\n"
