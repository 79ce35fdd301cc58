"""`watch --alert`: every batch of a stream that breaks something is told, with examples."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from spark.conftest import MODE
from spark.test_cli import SPARK
from spark.test_cli_watch import folder, put, state
from unit.cli.runs import run, write

__all__ = ["folder", "state"]

pytestmark = [
    pytest.mark.skipif(MODE != "local", reason="the commands make a session of their own"),
    pytest.mark.usefixtures("session_of_commands"),
]


def test_batches_that_break_something_are_told(state: Path, folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "told.jsonl"
    script = write(tmp_path / "tell.py", f"import sys\nopen({str(kept)!r}, 'a').write(sys.stdin.read() + '\\n')\n")
    put(folder, "a.csv", "insert,8,60601,Chikago,IL,1,1", age=50)
    put(folder, "b.csv", "insert,9,7,X,WA,1,1", age=40)
    put(folder, "c.csv", "delete,8,,,,,", age=30)
    done = run("watch", state, folder, "--once", "--alert", f"'{sys.executable}' '{script}'", *SPARK)
    assert done.exit_code == 0, done.output
    [message] = [json.loads(line) for line in kept.read_text().splitlines()]
    assert message["rules"] == [{"name": "zips", "severity": "error", "added": 1, "removed": 0, "open": 3}]
    assert message["examples"] == [{"rule": "zips", "t": 4, "s": 8}]
    refused = run("watch", state, folder, "--once", "--alert", "no-such-program", *SPARK)
    assert refused.exit_code == 2 and "there is no program" in refused.stderr
