"""A state of format 3, written by the tree that had it (`make_format_3.py`): one history, and every version of it."""

from __future__ import annotations

import base64
import errno
import io
import json
import os
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fault_calls import CallFault, Fail, FaultCalls, Interrupt
from holdstrue import Monitor
from holdstrue.errors import StateError
from holdstrue.state import old_formats
from holdstrue.state.files import StateFiles, UncommittedError
from unit.cli.runs import run, run_json

MORE = pa.table({"id": [6], "zip": ["3"], "city": ["Ulm"], "op": ["insert"]})
ROWS = [3, 4, 4, 5]
"""How many there are in each version."""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state as it was written."""
    packed = base64.decodebytes(Path(__file__).with_name("format_3.txt").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:xz") as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path / "state"


class Refused(Exception):  # noqa: N818
    """What the tree that wrote format 3 says of another."""


def read_by_format_3(path: Path) -> int:
    """The version that the tree that wrote format 3 goes on from: the last manifest by name, if it is of its format."""
    newest = sorted(path.glob("manifest-*.json"))[-1]
    body: dict[str, Any] = json.loads(newest.read_text(encoding="utf-8"))
    assert body.pop("checksum") == old_formats._sum(body)
    if body["format"] not in (2, 3):
        raise Refused(f"{newest} has format {body['format']}, this version reads 3")
    return int(body["version"])


def write_by_format_3(path: Path) -> Path:
    """One version more, as it wrote them."""
    version = read_by_format_3(path)
    body = json.loads((path / f"manifest-{version:012d}.json").read_text(encoding="utf-8"))
    del body["checksum"]
    body |= {"version": version + 1, "last_batch": "thursday", "batches": body["batches"] + 1}
    made = path / f"manifest-{version + 1:012d}.json"
    made.write_text(json.dumps(body | {"checksum": old_formats._sum(body)}, separators=(",", ":")), encoding="utf-8")
    return made


def test_what_goes_on_in_the_log_is_refused_by_the_tree_that_would_not_see_it(state: Path) -> None:
    assert read_by_format_3(state) == 3
    with Monitor.open(state, read_only=True) as monitor:
        assert monitor.rows == {"data": 5}
    assert read_by_format_3(state) == 3, "to read it changes nothing"
    with Monitor.open(state) as monitor:
        assert monitor.apply(MORE, batch_id="thursday")
    with pytest.raises(Refused, match="has format 4"):
        read_by_format_3(state)
    assert run("vacuum", state).exit_code == 0
    with pytest.raises(Refused, match="has format 4"):
        read_by_format_3(state)
    assert run_json("verify", state)["others"] == []
    with Monitor.open(state) as monitor:
        assert monitor.rows == {"data": 6}
        assert monitor.batches == 5


@pytest.mark.parametrize("fault", [Fail(errno.EIO), Fail(errno.EIO, after=True), Interrupt(), Interrupt(after=True)])
def test_wherever_the_first_commit_to_the_log_stops_there_is_one_history(state: Path, fault: CallFault) -> None:
    copy = state.with_name("copy")
    at, stopped, refused = 0, True, 0
    while stopped:
        at += 1
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(state, copy)
        with FaultCalls(copy) as calls, Monitor.open(copy) as monitor:
            calls.plan({at: fault})
            with suppress(UncommittedError, KeyboardInterrupt):
                monitor.apply(MORE, batch_id="thursday")
            stopped = len(calls.made) >= at
        with Monitor.open(copy, read_only=True) as monitor:
            now = monitor.batches
        try:
            assert (read_by_format_3(copy), now) == (3, 4), "the old tree may go on only where nothing is in the log"
        except Refused:
            refused += 1
        with Monitor.open(copy) as monitor:
            assert monitor.apply(MORE, batch_id="thursday").duplicate == (now == 5)
            assert (monitor.batches, monitor.rows) == (5, {"data": 6})
        assert run_json("verify", copy)["versions"] == [0, 1, 2, 3, 4]
        with pytest.raises(Refused):
            read_by_format_3(copy)
    assert at > 8 and 0 < refused < at


def test_two_histories_are_told_and_none_is_chosen(state: Path) -> None:
    with Monitor.open(state) as monitor:
        monitor.apply(MORE, batch_id="thursday")
    (state / "manifest-000000000004.json").unlink()  # as it was before there was a bar
    second = write_by_format_3(state)
    for command in ("status", "violations", "vacuum"):
        result = run(command, state)
        assert result.exit_code == 2
        assert "has two histories: log/ goes on from version 4, and so does manifest-000000000004.json" in result.output
    with pytest.raises(StateError, match="two histories"):
        Monitor.open(state)
    with pytest.raises(StateError, match="two histories"):
        Monitor.open(state, at=4)
    answer = run_json("verify", state, code=1)
    assert [problem["file"] for problem in answer["problems"]] == [second.name]
    other = state.with_name("other")
    shutil.copytree(state, other)
    second.unlink()
    with Monitor.open(state) as monitor:
        assert (monitor.batches, monitor.rows) == (5, {"data": 6})
    shutil.rmtree(other / "log")
    (other / "lock").unlink()
    with Monitor.open(other) as monitor:
        assert (monitor.batches, monitor.rows) == (5, {"data": 5})


def test_a_log_without_a_bar_gets_one_from_the_next_commit(state: Path) -> None:
    with Monitor.open(state) as monitor:
        monitor.apply(MORE, batch_id="thursday")
    (state / "manifest-000000000004.json").unlink()
    with Monitor.open(state) as monitor:
        monitor.apply(pa.table({"id": [6], "op": ["delete"]}), batch_id="friday")
    with pytest.raises(Refused):
        read_by_format_3(state)
    assert run_json("verify", state)["versions"] == [0, 1, 2, 3, 4, 5]


def test_every_version_is_verified_and_can_be_read(state: Path) -> None:
    assert run_json("verify", state)["versions"] == [0, 1, 2, 3]
    for version, rows in enumerate(ROWS):
        with Monitor.open(state, at=version) as monitor:
            assert monitor.rows == {"data": rows}
    [run_of_1] = (state / "runs").glob("batch-000000000001-*")
    run_of_1.unlink()
    answer = run_json("verify", state, code=1)
    assert answer["versions"] == [0]
    assert answer["problems"] == [{"file": f"runs/{run_of_1.name}", "problem": "it is missing"}]


def test_versions_that_are_to_be_kept_are_kept(state: Path) -> None:
    for path in state.iterdir():
        os.utime(path)
    answer = run_json("vacuum", state, "--keep", "7d")
    assert answer["removed"] == {"files": 0, "versions": 0, "bytes": 0}
    assert answer["kept"] == {"first": 0, "last": 4, "since": None, "seconds": 7 * 86400}
    for version, rows in enumerate([*ROWS, 5]):
        with Monitor.open(state, at=version) as monitor:
            assert monitor.rows == {"data": rows}
    assert run_json("verify", state)["versions"] == [0, 1, 2, 3, 4]
    # as time goes by: what was replaced more than a week ago goes, and the one that was there then stays
    for version in range(3):
        os.utime(state / f"manifest-{version:012d}.json", (0, 0))
    answer = run_json("vacuum", state)
    assert answer["removed"]["versions"] == 2
    assert (answer["kept"]["first"], answer["kept"]["last"]) == (2, 4)
    assert run_json("verify", state)["versions"] == [2, 3, 4]
    answer = run_json("vacuum", state, "--keep", "0")
    assert answer["removed"]["versions"] == 3
    assert run_json("verify", state)["strays"] == []


def test_vacuum_removes_versions_as_a_whole_and_says_so(state: Path) -> None:
    answer = run_json("vacuum", state)
    assert answer["removed"] == {"files": 0, "versions": 3, "bytes": sum(1037 + at for at in (0, 95, 188))}
    assert answer["kept"] == {"first": 3, "last": 3, "since": None, "seconds": 0}
    assert run_json("verify", state)["versions"] == [3]
    assert read_by_format_3(state) == 3
    with pytest.raises(StateError, match=r"version 1 of .* is no longer kept: version 3 is"):
        Monitor.open(state, at=1)


def test_a_bar_that_is_damaged_is_told(state: Path) -> None:
    with Monitor.open(state) as monitor:
        monitor.apply(MORE)
    bar = state / "manifest-000000000004.json"
    bar.write_bytes(bar.read_bytes().replace(b"4", b"5", 1))
    assert run_json("verify", state, code=1)["problems"][0]["file"] == bar.name
    with StateFiles(state) as files, pytest.raises(StateError, match=r"manifest-000000000004.json is damaged"):
        files.newest()
