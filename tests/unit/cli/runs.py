"""Running the command line in a test: in this process, or as a real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from holdstrue.cli.main import app

PEOPLE = """id,zip,city,state,salary,rate
1,10001,NYC,NY,5000,3
2,10001,New York,NY,6000,2
3,10001,NYC,NY,7000,5
4,60601,Chicago,IL,4000,2
"""

RULES = """\
table: people
key: id
rules:
  - {name: zips, rule: 'zip -> city'}
  - {name: pay, rule: 'not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)', severity: warn}
  - {name: ids, rule: key(id)}
"""


def run(*args: object, sent: bytes | None = None) -> Result:
    """One command in this process, to which some bytes are sent."""
    return CliRunner().invoke(app, [str(arg) for arg in args], input=sent)


def run_json(*args: object, code: int = 0, sent: bytes | None = None) -> Any:
    """The JSON that a command answers, with the exit code it must have."""
    result = run(*args, "--format", "json", sent=sent)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def process(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
    """One command as a process of its own, as people run it."""
    return subprocess.run(
        [sys.executable, "-c", "from holdstrue.cli.main import run; run()", *map(str, args)],
        capture_output=True, text=True, check=False, timeout=120, env=os.environ | env,
    )  # fmt: skip


def write(path: Path, text: str) -> Path:
    """A small file."""
    path.write_text(text, encoding="utf-8")
    return path
