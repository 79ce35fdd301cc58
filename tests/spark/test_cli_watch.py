"""`watch` on Spark: files that arrive, each one batch, taken once, stopped and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdstrue.state.files import StateFiles
from spark.checkpoints import forget_last
from spark.conftest import MODE
from spark.test_cli import HEAD, standing
from spark.test_cli import MASTER as ON_MASTER
from unit.cli.runs import run, write

MASTER = ("--engine", "spark", *ON_MASTER)

pytestmark = [
    pytest.mark.skipif(MODE != "local", reason="the commands make a session of their own"),
    pytest.mark.usefixtures("session_of_commands"),
]


@pytest.fixture
def state(tmp_path: Path, people: Path, rules: Path) -> Path:
    """A state that watches the people."""
    assert run("init", tmp_path / "state", "--rules", rules, "--data", people).exit_code == 0
    return tmp_path / "state"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where change files arrive."""
    place = tmp_path / "in coming"
    place.mkdir()
    return place


def put(folder: Path, name: str, *lines: str, age: int = 0) -> None:
    """A change file, so many seconds older than now."""
    file = write(folder / ".being-written", HEAD + "".join(f"{line}\n" for line in lines))
    stamp = int(time.time()) - age
    os.utime(file, (stamp, stamp))
    file.rename(folder / name)


def lines_of(*args: object) -> list[dict[str, Any]]:
    """What `watch` says, as JSON."""
    result = run("watch", *args, "--format", "jsonl", *MASTER)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_state_at_a_url_is_watched(bucket: str, folder: Path, tmp_path: Path, people: Path, rules: Path) -> None:
    assert run("init", bucket, "--rules", rules, "--data", people).exit_code == 0
    put(folder, "a.csv", "insert,8,60601,Chikago,IL,1,1", age=50)
    nowhere = run("watch", bucket, folder, "--once", *MASTER)
    assert (nowhere.exit_code, "hint: give --checkpoint a directory" in nowhere.stderr) == (2, True)
    where = ("--checkpoint", tmp_path / "where")
    [line] = lines_of(bucket, folder, "--once", *where)
    assert line["counts"]["zips"] == {"added": 1, "removed": 0, "open": 3}
    put(folder, "b.csv", "delete,8,,,,,", age=40)
    [line] = lines_of(bucket, folder, "--once", *where)
    assert line["files"] == ["b.csv"]
    assert lines_of(bucket, folder, "--once", *where) == []
    assert standing(bucket)["batches"] == 3


def test_each_file_is_one_batch_and_taken_once(state: Path, folder: Path) -> None:
    put(folder, "b.csv", "insert,7,60601,Chicago,IL,1,1", age=50)
    put(folder, "a.csv", "insert,8,60601,Chikago,IL,1,1", age=50)
    put(folder, "z.csv", "insert,6,60601,Chicago,IL,1,1", age=10**7)
    for name in ("x.csv.tmp", "_x.csv", ".x.csv", "x.csv._COPYING_", "notes.md"):
        put(folder, name, "nonsense")
    said = lines_of(state, folder, "--once")
    assert [line["files"] for line in said] == [["z.csv"], ["a.csv"], ["b.csv"]]
    assert [line["counts"]["zips"] for line in said] == [
        {"added": 0, "removed": 0, "open": 2},
        {"added": 2, "removed": 0, "open": 4},
        {"added": 1, "removed": 0, "open": 5},
    ]
    assert lines_of(state, folder, "--once") == []
    # older than all that were read, and still new
    put(folder, "late.csv", "delete,8,,,,,", age=10**8)
    assert [line["counts"]["zips"]["removed"] for line in lines_of(state, folder, "--once")] == [3]
    assert [line["batch"] for line in standing(state)["history"]][3::3] == [line["batch"] for line in said] + [
        standing(state)["last_batch"]
    ]


def test_a_bad_file_stops_it_until_it_is_mended_or_removed(state: Path, folder: Path) -> None:
    put(folder, "1.csv", "insert,7,60601,Chicago,IL,1,1", age=9)
    put(folder, "2.csv", "insert,8,60601,Chicago,IL,1,1", "insert,1,60601,Chicago,IL,1,1", age=8)
    put(folder, "3.csv", "update,8,60601,Chicago,IL,2,2", age=7)
    put(folder, "4.csv", "insert,9,60601,Chicago,IL,much,1", age=6)
    stopped = run("watch", state, folder, "--once", *MASTER)
    assert stopped.exit_code == 2
    assert stopped.stdout.split(" ", 1)[1] == "1.csv: +0 new, -0 resolved, 3 open\n"
    assert f"row 2 of {folder / '2.csv'}: insert of id=1, which exists already; nothing was applied" in stopped.stderr
    assert "--on-conflict upsert" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    put(folder, "2.csv", "insert,8,60601,Chicago,IL,1,1")
    stopped = run("watch", state, folder, "--once", *MASTER)
    assert stopped.exit_code == 2
    assert [line.split()[1] for line in stopped.stdout.splitlines()] == ["2.csv:", "3.csv:"]
    assert f"row 1 of {folder / '4.csv'}: column 'salary' holds 'much'" in stopped.stderr
    (folder / "4.csv").unlink()
    put(folder, "5.csv", "delete,9,,,,,", age=5)
    assert run("watch", state, folder, "--once", "--on-conflict", "ignore", *MASTER).exit_code == 0
    assert standing(state)["tables"]["people"]["rows"] == 6


@pytest.fixture
def survival() -> Iterator[None]:
    """A signal that comes when `watch` no longer listens does not end the tests."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("survival")
def test_a_signal_stops_it_after_the_running_batch(state: Path, folder: Path) -> None:
    for number in range(20, 26):
        put(folder, f"{number}.csv", f"insert,{number},60601,Chicago,IL,1,1")

    def stop() -> None:
        limit = time.monotonic() + 60
        while StateFiles(state).manifest()["batches"] < 3 and time.monotonic() < limit:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    first = lines_of(state, folder, "--every", "100ms")
    rest = lines_of(state, folder, "--once")
    assert 2 <= len(first) < 6
    assert [line["files"][0] for line in first + rest] == [f"{number}.csv" for number in range(20, 26)]
    assert standing(state)["batches"] == 7
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_files_that_come_again_are_not_told_again(state: Path, folder: Path) -> None:
    """As after a crash before Spark took note: the sinks had each before the next was begun, and know the last."""
    for number in range(20, 23):
        put(folder, f"{number}.csv", f"insert,{number},60601,Chicago,IL,1,1")
    assert [line["files"][0] for line in lines_of(state, folder, "--once")] == ["20.csv", "21.csv", "22.csv"]
    [checkpoint] = (state / "streams").iterdir()
    forget_last(checkpoint)
    assert lines_of(state, folder, "--once") == []
    assert standing(state)["batches"] == 4


def test_as_a_process(state: Path, folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from holdstrue.cli.main import run; run()", "watch", str(state), str(folder)]
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        process = subprocess.Popen([*command, "--every", "200ms", *MASTER], stdout=out, stderr=err)
    try:
        for number in (20, 21):
            put(folder, f"{number}.csv", f"insert,{number},60601,Chicago,IL,1,1")
            limit = time.monotonic() + 90
            while f"{number}.csv" not in (tmp_path / "out").read_text() and time.monotonic() < limit:
                assert process.poll() is None, (tmp_path / "err").read_text()
                time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
    assert [line.split()[1] for line in (tmp_path / "out").read_text().splitlines()] == ["20.csv:", "21.csv:"]
    assert (tmp_path / "err").read_text() == ""


def test_a_table_without_a_change_log_is_refused(state: Path) -> None:
    refused = run("watch", state, "table:people", "--once", *MASTER)
    assert refused.exit_code == 2
    assert "no changes of table 'people' can be read" in refused.stderr
    assert "its catalog must keep a change log" in refused.stderr
