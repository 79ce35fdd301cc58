"""Copies of states as the README says to make them, and the two ways to start the command line as a module."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from holdstrue import Monitor
from unit.cli.runs import run, run_json
from unit.cli.test_versions import often

_ = often

ROWS = pa.table({"id": [1, 2, 3], "zip": ["1", "1", "2"], "city": ["Bonn", "Ulm", "Kiel"]})


def copied(state: Path, copy: Path) -> None:
    """A copy in the order of the README."""
    copy.mkdir()
    shutil.copy2(state / "lock", copy)
    for name in ("log", "runs"):
        shutil.copytree(state / name, copy / name)


@pytest.mark.usefixtures("often")
def test_a_copy_that_is_made_while_batches_come_is_whole(tmp_path: Path) -> None:
    state, done, copies = tmp_path / "state", threading.Event(), 0

    def write() -> None:
        try:
            with Monitor.open(state) as monitor:
                for number in range(60):
                    monitor.apply(pa.table({"id": [number + 10], "zip": ["1"], "city": [str(number)]}), f"b{number}")
        finally:
            done.set()

    Monitor.create(state, "zip -> city", "id", data=ROWS).close()
    assert run("vacuum", state, "--keep", "1h").exit_code == 0
    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set() or not copies:
        copies += 1
        copied(state, tmp_path / f"copy{copies}")
    writer.join()
    with Monitor.open(state) as monitor:
        assert monitor.batches == 61
    for number in range(1, copies + 1, max(1, copies // 5)):
        answer = run_json("verify", copy := tmp_path / f"copy{number}")
        with Monitor.open(copy) as monitor:
            assert monitor.batches == answer["versions"][-1]
            monitor.apply(pa.table({"id": [4], "zip": ["2"], "city": ["Bonn"]}))


def test_who_holds_the_lock_keeps_writers_out(tmp_path: Path) -> None:
    """As flock(1) does while it runs a command."""
    fcntl = pytest.importorskip("fcntl")
    Monitor.create(tmp_path / "state", "zip -> city", "id", data=ROWS).close()
    with (tmp_path / "state" / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        result = run("vacuum", tmp_path / "state")
        assert "is being written by another process" in result.stderr
        assert run("status", tmp_path / "state").exit_code == 0
    assert run("vacuum", tmp_path / "state").exit_code == 0


def test_without_the_lock_file_a_lost_end_is_not_noticed(tmp_path: Path) -> None:
    """Which is why it belongs to a copy."""
    with Monitor.create(tmp_path / "state", "zip -> city", "id", data=ROWS) as monitor:
        monitor.apply(pa.table({"id": [4], "zip": ["2"], "city": ["Bonn"]}))
    [segment] = (tmp_path / "state" / "log").iterdir()
    os.truncate(segment, segment.stat().st_size - 8)
    assert run_json("verify", tmp_path / "state", code=1)["problems"][0]["file"] == f"log/{segment.name}"
    (tmp_path / "state" / "lock").unlink()
    assert run_json("verify", tmp_path / "state")["versions"] == [0]


@pytest.mark.parametrize("module", ["holdstrue", "holdstrue.cli.main"])
def test_the_command_line_as_a_module(module: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.startswith("holdstrue ")
