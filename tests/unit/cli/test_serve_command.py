"""`holdstrue serve` as people run it: it says where, serves while others write, and ends when it is told to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from unit.cli.runs import process, run, write


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_from_start_to_end(state: Path, tmp_path: Path, ending: int) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", "from holdstrue.cli.main import run; run()", "serve", str(state), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert server.stdout is not None
        first, second = server.stdout.readline(), server.stdout.readline()
        assert first.startswith(f"{state} at http://127.0.0.1:") and first.endswith("/states/state\n")
        address = second.split()[1]
        with urllib.request.urlopen(f"{address}healthz", timeout=60) as heard:
            assert heard.status == 200
        changes = write(tmp_path / "more.csv", "id,zip,city,state,salary,rate\n9,10001,Rom,NY,1,1\n")
        assert run("apply", state, changes).exit_code == 1, "the state is not locked"
    finally:
        server.send_signal(ending)
        _, said = server.communicate(timeout=60)
    assert server.returncode == 0 and said == ""


def test_wrong_arguments(state: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, said in (
            ((state, "--every", "0s"), "--every '0s' is not a time"),
            ((state, "--token", "short", "--port", "0"), "the token has 5 characters"),
            ((state, "--port", port), f"cannot listen on 127.0.0.1 port {port}"),
            ((state, "--port", "65536"), "65535"),
            ((), "STATE"),
        ):
            result = run("serve", *arguments)
            assert result.exit_code == 2 and said in result.stderr, result.stderr


def test_help_tells_all() -> None:
    said = process("serve", "--help", COLUMNS="200", TERM="dumb").stdout
    for option in ("--host", "--port", "--token", "--every"):
        assert option in said
