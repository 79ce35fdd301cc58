"""States of format 1, written by the tree that had it (`make_format_1.py`): read, and upgraded by the next commit."""

from __future__ import annotations

import base64
import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue import Monitor, discover
from holdstrue.discovery.discovery import Discovery
from holdstrue.errors import StateError
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards.runner import Sizing
from holdstrue.state.files import StateFiles
from holdstrue.state.manifest import FORMAT, files_of
from laws.shards import Loops
from unit.cli.runs import run, run_json
from unit.state.make_format_1 import BATCHES, FIRST, MORE, RULES, orders

NAMES = ("monitor", "sharded")


@pytest.fixture
def states(tmp_path: Path) -> Path:
    """The three states as they were written."""
    packed = base64.decodebytes(Path(__file__).with_name("format_1.txt").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:xz") as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path


def anew(name: str) -> Monitor:
    """The same batches in a monitor of today."""
    if name == "sharded":
        monitor = Monitor(RULES, "id", data=FIRST)
        monitor.apply(BATCHES["monday"]["orders"], "monday")
        return monitor
    tables = {"orders": FIRST, "people": pa.table({"name": ["ada", "bob", "kim"]})}
    monitor = Monitor(RULES + MORE, {"orders": "id"}, data=tables)
    for batch, changes in BATCHES.items():
        monitor.apply(changes, batch)
    return monitor


def same(old: Monitor, new: Monitor) -> None:
    assert old.counts() == new.counts()
    assert old.rows == new.rows
    assert old.batches == new.batches
    assert old.rules == new.rules
    assert sorted(map(str, old.violations())) == sorted(map(str, new.violations()))
    told = [(line.batch, line.rule, line.added, line.removed, line.open) for line in old.history()]
    assert told == [(line.batch, line.rule, line.added, line.removed, line.open) for line in new.history()]


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def format_of(path: Path) -> int:
    with StateFiles(path) as state:
        found: int = state.manifest()["format"]
        return found


@pytest.mark.parametrize("name", NAMES)
def test_a_monitor_is_read_as_it_is(states: Path, name: str) -> None:
    before = files(states / name)
    same(Monitor.open(states / name, read_only=True), anew(name))
    assert files(states / name) == before
    counts = {rule: count.open for rule, count in anew(name).counts().items()}
    answer = run_json("status", states / name, "--history")
    assert {rule["name"]: rule["open"] for rule in answer["rules"]} == counts
    assert [line["batch"] for line in answer["history"]][:: len(counts)][1] == "monday"
    assert run_json("violations", states / name)["open"] == counts
    answer = run_json("verify", states / name)
    assert (answer["ok"], answer["kind"]) == (True, "monitor")
    assert format_of(states / name) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_next_batch_writes_the_present_format(states: Path, name: str) -> None:
    old, new = Monitor.open(states / name), anew(name)
    assert old.apply(BATCHES["monday"], "monday").duplicate
    assert format_of(states / name) == 1
    more = orders((20, "10", "Genf", "7", 8, "eve"), (21, "40", "Rom", "-1", 9, "ada"))
    assert old.apply(more, "later").counts == new.apply(more, "later").counts
    same(old, new)
    old.close()
    assert format_of(states / name) == FORMAT
    with Monitor.open(states / name) as again:
        same(again, new)
        assert again.apply(more, "later").duplicate
        assert again.apply(BATCHES["monday"], "monday").duplicate
        assert (
            again.apply(orders((22, "10", "Bonn", "1", 1, "bob"))).counts
            == new.apply(orders((22, "10", "Bonn", "1", 1, "bob"))).counts
        )
    assert run("vacuum", states / name).exit_code == 0
    # but for what tells earlier versions of the package to stop
    assert [json.loads(path.read_text())["format"] for path in (states / name).glob("manifest-*")] == [4]
    same(Monitor.open(states / name, read_only=True), new)
    assert run_json("verify", states / name)["ok"]


@pytest.mark.parametrize("name", NAMES)
def test_in_shards(states: Path, name: str) -> None:
    monitor, new = Sharded(Loops(2), states / name, sizing=Sizing(shards=2, blocks=1)), anew(name)
    assert format_of(states / name) == FORMAT
    more = orders((20, "10", "Genf", "7", 8, "eve"))
    assert monitor.apply([more], "later").counts == new.apply(more, "later").counts
    assert monitor.counts() == new.counts()
    assert monitor.apply([more], "later").duplicate


@pytest.mark.parametrize("name", [*NAMES, "discovery"])
def test_vacuum_upgrades(states: Path, name: str) -> None:
    assert run_json("vacuum", states / name, "--keep", "1h")["kept"]["seconds"] == 3600
    assert format_of(states / name) == FORMAT
    # but for what tells earlier versions of the package to stop
    assert [json.loads(path.read_text())["format"] for path in (states / name).glob("manifest-*")] == [4]
    assert run_json("verify", states / name)["ok"]
    if name != "discovery":
        same(Monitor.open(states / name, read_only=True), anew(name))


def test_a_discovery(states: Path) -> None:
    rows = FIRST.select(["id", "zip", "city"])
    new = discover(rows, ("fd", "key"), key="id")
    new.apply(pa.table({"op": ["insert"], "id": [9], "zip": ["30"], "city": ["Ulm"]}), batch_id="monday")
    before = files(states / "discovery")
    read = Discovery.open(states / "discovery", read_only=True)
    assert [rule.text for rule in read] == [rule.text for rule in new]
    assert files(states / "discovery") == before
    more = pa.table({"op": ["insert", "delete"], "id": [10, 1], "zip": ["40", None], "city": ["Genf", None]})
    with Discovery.open(states / "discovery") as old:
        assert old.apply(more, batch_id="monday").duplicate
        assert old.options.kinds == ("fd", "key")
        died = {died.text for died in old.apply(more, batch_id="later").died}
        assert died == {died.text for died in new.apply(more, batch_id="later").died}
        assert [line["batch"] for line in old.history()] == ["monday", "later"]
    assert format_of(states / "discovery") == FORMAT
    with Discovery.open(states / "discovery") as again:
        assert [rule.text for rule in again] == [rule.text for rule in new]
        assert again.apply(more, batch_id="later").duplicate


def test_earlier_versions_by_number_alone(states: Path) -> None:
    newest = 3
    assert run_json("status", states / "monitor", "--at", newest)["time"] is None
    wrong = run("status", states / "monitor", "--at", "1h ago")
    assert (wrong.exit_code, "do not say when they were made" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("name", [*NAMES, "discovery"])
def test_damaged_files_are_named(states: Path, name: str) -> None:
    with StateFiles(states / name) as state:
        named = {f"runs/{file.name}" for file in files_of(state.manifest())}
        named.add(f"manifest-{state.newest():012d}.json")
    for file in (states / name / each for each in sorted(named)):
        copy = states / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(states / name, copy)
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 4
        (copy / file.relative_to(states / name)).write_bytes(data)
        answer = run_json("verify", copy, code=1)
        assert [problem["file"] for problem in answer["problems"]] == [str(file.relative_to(states / name))]


def test_states_that_cannot_be_read(states: Path) -> None:
    """Of format 1 only monitors and discoveries are read."""
    [path] = [states / "monitor" / f"manifest-{3:012d}.json"]
    body: dict[str, Any] = json.loads(path.read_text())
    from holdstrue.state.old_formats import _sum

    del body["checksum"]
    body["site"] = "x"
    path.write_text(json.dumps({**body, "checksum": _sum(body)}))
    with pytest.raises(StateError, match="has format 1"):
        Monitor.open(states / "monitor")
