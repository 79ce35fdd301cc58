"""Competitors that take turns: each lives in a process of its own and works only while it is told to.

So all of them see the same disk under the same load. The driver starts a `Turns` for each and lets it do a few
changes, round after round; the process (this file as a script) reads from standard input how many to do next, answers
each line with one, and gives its figures when the input ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

MARK = "/no-such-place/mark-"
"""Asking for a file of this name marks a place in a trace of system calls."""
NOISE = 0.1
"""Share of rows that break a rule, so that the answers that are compared say something."""


class Turns:
    """The driver's end of one competitor's process."""

    def __init__(self, competitor: str, folder: Path, rows: int, changes: int, under: Sequence[str] = ()) -> None:
        self.competitor = competitor
        folder.mkdir()
        given = {"competitor": competitor, "folder": str(folder), "rows": rows, "changes": changes}
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            [*under, sys.executable, str(Path(__file__)), json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )

    def ready(self) -> None:
        """Wait until it has taken in the base table."""
        self._answer()

    def play(self, changes: int) -> None:
        """Let it do so many changes."""
        self._tell(str(changes))

    def mark(self, name: str) -> None:
        """Mark this moment in its trace."""
        self._tell(f"mark {name}")

    def figures(self) -> dict[str, Any]:
        """End it; what it measured."""
        _pipe(self._process.stdin).close()
        figures: dict[str, Any] = json.loads(self._answer())
        self._process.wait()
        return figures

    def _tell(self, line: str) -> None:
        stdin = _pipe(self._process.stdin)
        stdin.write(line + "\n")
        stdin.flush()
        self._answer()

    def _answer(self) -> str:
        line = _pipe(self._process.stdout).readline()
        if not line:
            code = self._process.wait()
            self._said.seek(0)
            raise RuntimeError(f"{self.competitor} ended with {code}: {self._said.read()[-500:].strip()}")
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._said):
            _pipe(pipe).close()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise RuntimeError("the process has no such pipe")
    return pipe


def play(given: dict[str, Any], lines: Iterable[str]) -> None:
    """The competitor's end."""
    from competitors.one_row import COLUMNS, COMPETITORS
    from measure import timed
    from workloads.changing import ChangingTable

    table = ChangingTable(given["rows"], COLUMNS, changes=given["changes"], noise=NOISE)
    competitor = COMPETITORS[given["competitor"]](Path(given["folder"]), table.base)
    print("ready", flush=True)
    answers, kinds, cpu, wall = [], [], [], []
    for line in lines:
        if line.startswith("mark "):
            os.access(MARK + line.split()[1], os.F_OK)
        else:
            for _ in range(int(line)):
                change = table.batch(1)
                grown, span = timed(competitor.ready(change))
                answers.append(grown)
                kinds.append(change.column("op")[0].as_py())
                cpu.append(span.cpu_ms)
                wall.append(span.wall_ms)
        print("done", flush=True)
    competitor.close()
    answer = None if None in answers else hashlib.sha256(json.dumps(answers).encode()).hexdigest()[:16]
    broken = sum(1 for grown in answers if grown and any(grown))
    print(json.dumps({"answer": answer, "broken": broken, "kinds": kinds, "cpu_ms": cpu, "wall_ms": wall}), flush=True)


if __name__ == "__main__":
    play(json.loads(sys.argv[1]), sys.stdin)
