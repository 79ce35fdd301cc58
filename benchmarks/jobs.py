"""Work for one process: what to run, sent as JSON to `worker.py`, and the answer with its times."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Job:
    """One competitor, one rule set, one base table."""

    task: str
    competitor: str
    rules: tuple[str, ...]
    base: str
    batches: tuple[str, ...] = ()
    warm: int = 0
    limit: int = 1000
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What came back: a mapping of figures, or why there are none."""

    figures: dict[str, Any]
    failure: str = ""


def run_job(job: Job, timeout: float) -> Answer:
    """Run a job in a process of its own. A process that takes too long or fails gives an answer that says so."""
    command = [sys.executable, str(HERE / "worker.py")]
    try:
        done = subprocess.run(
            command, input=json.dumps(asdict(job)), capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return Answer({}, f"over {timeout:.0f} s")
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return Answer({}, lines[-1][:200] if lines else f"exit {done.returncode}")
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return Answer(figures)
