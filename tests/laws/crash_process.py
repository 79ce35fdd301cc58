"""A process whose children do work on states until they are killed.

    with CrashProcess() as process:
        outcome = process.run("step", place, die=3)       # dies at its third call to the file system
        with process.begun("step", place, endpoint) as child:   # somebody else kills `child.pid`
            ...

The process has loaded everything, so that a child is there in milliseconds. It is told what to do by a line of JSON and
answers by lines of JSON: the child's number, what the child says on the way, and how it ended.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest import mock

TESTS = Path(__file__).parents[1]
LONGEST = 300.0
"""Seconds after which a child that does not end is given up; they take tenths of one."""


@dataclass
class Child:
    """A child that is at work, or was."""

    done: int = 0
    """Batches that it says are applied."""
    code: int | None = None
    """Its exit code when it has ended, negative for a signal."""
    trouble: str = ""
    numbers: dict[str, int] = field(default_factory=dict)
    """By name its process, and the one that writes a checkpoint beside it."""

    def __post_init__(self) -> None:
        self._known = {"child": threading.Event(), "beside": threading.Event()}

    def number(self, name: str = "child") -> int:
        """The number of a process, as soon as it is known."""
        assert self._known[name].wait(LONGEST), f"{name} never started"
        return self.numbers[name]

    def hear(self, line: Mapping[str, Any]) -> None:
        """Take in what was said."""
        if "done" in line:
            self.done = line["done"]
        elif "trouble" in line:
            self.trouble = line["trouble"]
        for name, known in self._known.items():
            if name in line:
                self.numbers[name] = line[name]
                known.set()


class CrashProcess:
    """The process, from the outside."""

    def __enter__(self) -> Self:
        paths = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "laws.crash_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": paths},
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def run(self, work: str, place: str, child: Child | None = None, **how: Any) -> Child:
        """Let a child do some work, and wait until it and everything that it started has ended.

        Parameters
        ----------
        how
            What `_obey` takes.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        child = Child() if child is None else child
        self._process.stdin.write(json.dumps({"work": work, "place": place, **how}) + "\n")
        self._process.stdin.flush()
        for text in self._process.stdout:
            line = json.loads(text)
            child.hear(line)
            if "code" in line:
                child.code = line["code"]
                return child
        raise AssertionError(f"the process of children ended with {self._process.wait()}")


# --- inside --------------------------------------------------------------------------------------


def serve() -> None:
    """Obey, line by line."""
    _warm()
    for text in sys.stdin:
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                os.close(read)
                _obey(functools.partial(_say, write), **json.loads(text))
                code = 0
            except BaseException as error:  # noqa: BLE001  the parent must not go on twice
                _say(write, trouble=f"{type(error).__name__}: {error}")
            finally:
                os._exit(code)
        os.close(write)
        print(json.dumps({"child": pid}), flush=True)
        # ends when nobody is left who could say anything: a checkpoint that is being written outlives the child
        with os.fdopen(read) as said:
            for line in said:
                print(line, end="", flush=True)
        print(json.dumps({"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}), flush=True)


def _say(write: int, **what: Any) -> None:
    os.write(write, json.dumps(what).encode() + b"\n")


def _obey(
    say: Any,
    work: str,
    place: str,
    env: Mapping[str, str] | None = None,
    die: int | None = None,
    after: bool = False,
    beside: str | None = None,
) -> None:
    """Do some work.

    Parameters
    ----------
    env
        More variables of the environment.
    die
        The call to the file system at which it is killed, before or `after` it is done.
    beside
        Calls are counted in the process that writes a checkpoint, which dies ("dies"); or the address at which
        that process finds the store.
    """
    from fault_calls import Die, FaultCalls
    from laws.beside import Forked
    from laws.crashes import WORKS

    os.environ.update(env or {})
    done = 0

    def told() -> None:
        nonlocal done
        done += 1
        say(done=done)

    calls = FaultCalls(place if "://" not in place else "/nowhere")

    def prepare() -> None:
        calls.plan({die: Die(after)} if beside == "dies" and die is not None else {})
        if beside not in (None, "dies"):
            os.environ["AWS_ENDPOINT_URL"] = beside
        say(beside=os.getpid())

    with calls, mock.patch("holdstrue.monitor.checkpoint.subprocess.Popen", functools.partial(Forked, prepare=prepare)):
        if beside is None and die is not None:
            calls.plan({die: Die(after)})
        WORKS[work].run(place, [], told)


def _warm() -> None:
    """Load and compile everything that works need."""
    from laws.beside import Played
    from laws.crashes import WORKS
    from places import Folders

    with tempfile.TemporaryDirectory() as folder, mock.patch("holdstrue.monitor.checkpoint.subprocess.Popen", Played):
        places = Folders(Path(folder))
        for work in WORKS.values():
            place = places.fresh()
            work.prepare(place)
            work.run(place, [], lambda: None)
            work.look(place)


if __name__ == "__main__":
    serve()
