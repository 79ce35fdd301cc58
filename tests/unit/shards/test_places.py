"""Sharded states in directories and stores, without Spark: what is fetched, kept, and told from what was there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from fault_proxy import FaultProxy
from holdstrue.cli.any_state import vacuum
from holdstrue.errors import StateError
from holdstrue.monitor import in_shards
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards import shard
from holdstrue.shards.runner import Sizing
from holdstrue.shards.shard import POOL
from holdstrue.state.files import StateFiles
from holdstrue.state.object_url import is_object_url
from laws.shards import Loops
from laws.test_detection import found, nonempty
from laws.test_shards import listed
from translate import expected

RULES = holdstrue.load_rules(["zip -> city", "not(t.zip = s.zip and t.size < s.size and t.cost > s.cost)"])
Row = dict[str, Any]


def rows_of(city: str, count: int = 30) -> list[Row]:
    """Rows of which every seventh has another city than those it shares a zip with."""
    return [
        {"id": i, "zip": f"z{i % 4}", "city": f"{city}{i % 7 == 0}", "size": i, "cost": float(i % 11)}
        for i in range(count)
    ]


def made(place: str, rows: list[Row]) -> Sharded:
    monitor = Sharded(Loops(2), place, RULES, key="id", sizing=Sizing(shards=3, blocks=1, tasks=2))
    monitor.apply([pa.Table.from_pylist(rows)], limit=0)
    return monitor


def truth(rows: list[Row]) -> dict[str, set[tuple[Any, ...]]]:
    return expected(RULES, rows, [row["id"] for row in rows])


def change(monitor: Sharded, rows: list[Row], number: int) -> list[Row]:
    """Change two rows, and hold what the monitor says to the oracle's answer; returns all rows."""
    changed = [rows[number] | {"city": "Ulm"}, rows[number + 1] | {"zip": "z9"}]
    batch = [row | {"op": "update"} for row in changed]
    delta = monitor.apply([pa.Table.from_pylist(batch)], f"b{number}", limit=None)
    after = [next((new for new in changed if new["id"] == row["id"]), row) for row in rows]
    was, now = truth(rows), truth(after)
    assert found(delta.added) == nonempty({rule: now[rule] - was[rule] for rule in now})
    assert found(delta.removed) == nonempty({rule: was[rule] - now[rule] for rule in now})
    return after


def assert_stands(monitor: Sharded, rows: list[Row]) -> None:
    assert found(listed(monitor)) == nonempty(truth(rows))


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new state can be made."""
    return str(tmp_path / "state") if request.param == "local" else str(request.getfixturevalue("s3"))


def test_a_state_made_anew_at_its_place(place: str) -> None:
    """Shards of the first are open here, and copies of its files are there: another process makes the second."""
    first, second = rows_of("Bonn"), rows_of("Kiel")
    monitor = made(place, first)
    assert_stands(monitor, change(monitor, first, 0))
    with StateFiles(place) as files:
        before = files.manifest()
        files.erase()
    if not is_object_url(place):
        shutil.rmtree(place)
    held = POOL._open.copy()
    POOL.empty()
    again = made(place, second)
    POOL._open.update(held)
    now = StateFiles(place).manifest()
    assert len(now["shards"].keys() & before["shards"].keys()) >= 3, "shards of the same numbers"
    assert_stands(again, second)
    second = change(again, second, 0)
    assert StateFiles(place).manifest()["version"] == before["version"]
    assert_stands(again, second)
    assert_stands(again, change(again, second, 2))


def test_another_state_in_the_middle_of_a_batch(s3: str) -> None:
    """What the tasks of a batch read is the version that the driver told them of, or they say so."""
    monitor = made(s3, rows_of("Bonn"))
    now = monitor.current()
    assert now is not None and now.job.writer
    with StateFiles(s3) as files:
        assert files.manifest(now.job.version, now.job.writer)["writer"] == now.job.writer
        files.erase()
    made(s3, rows_of("Kiel"))
    with StateFiles(s3) as files:
        other = files.manifest()
        assert (other["version"], other["writer"] != now.job.writer) == (now.job.version, True)
        # a process that has not read it before finds the other one, whose files have other names
        assert files.manifest(now.job.version, other["writer"])["writer"] == other["writer"]


def test_stages_of_one_process_read_a_manifest_once(s3: str, proxy: FaultProxy) -> None:
    rows = rows_of("Bonn")
    monitor = made(s3, rows)
    rows = change(monitor, rows, 0)
    proxy.plan()
    change(monitor, rows, 2)
    asked = [str(request) for request in proxy.requests]
    assert sum("list-type" in one for one in asked) == 1
    # the driver's copy goes by the tag that was listed; tasks are told the version alone
    assert sum("GET" in one and "/log/" in one for one in asked) == 2
    assert sum("PUT" in one for one in asked) == len(asked) - 3 <= 5
    assert not any("GET" in one and "/runs/" in one for one in asked), "what was written here is here"
    # one connection for creating, one for reading
    assert proxy.connections <= 2


def test_a_machine_without_anything_fetches_each_file_once(
    s3: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = rows_of("Bonn")
    monitor = made(s3, rows)
    for number in (0, 2, 4):
        rows = change(monitor, rows, number)
    POOL.empty()
    monkeypatch.setenv("HOLDSTRUE_CACHE", str(tmp_path / "another machine"))
    proxy.plan()
    for number in (6, 8, 10):
        rows = change(monitor, rows, number)
    assert_stands(monitor, rows)
    fetched = [one.path for one in proxy.requests if one.method == "GET" and "/runs/" in one.path]
    assert len(fetched) == len(set(fetched)) > 6, "files that shards share come once for all of them"
    assert any("joint" in one for one in fetched)


def test_a_damaged_copy_is_fetched_again(s3: str, tmp_path: Path) -> None:
    rows = rows_of("Bonn")
    monitor = made(s3, rows)
    for number in (0, 2):
        rows = change(monitor, rows, number)
    POOL.empty()
    copies = [Path(folder, name) for folder, _, names in os.walk(tmp_path / "cache") for name in names]
    joint = [path for path in copies if path.name.startswith("joint-")]
    assert len(joint) >= 4
    for number, path in enumerate(joint):
        data = path.read_bytes()
        half = data[: len(data) // 2]
        # cut off, of the same size, empty
        path.write_bytes((half, half + bytes(len(data) - len(half)), b"")[number % 3])
    assert_stands(monitor, rows)
    assert_stands(monitor, change(monitor, rows, 4))


def test_versions_ids_and_upkeep(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions are read while they are kept, ids are known for long, and old history is joined."""
    monkeypatch.setattr(in_shards, "HISTORY_RUNS", 4)
    rows = rows_of("Bonn")
    monitor = made(place, rows)
    vacuum(place, 3600.0)
    stood, last = {}, 0
    for number in range(0, 20, 2):
        with StateFiles(place) as files:
            last = files.manifest()["version"]
        stood[last] = rows
        rows = change(monitor, rows, number)
    for version, then in list(stood.items())[-3:]:
        POOL.empty()
        earlier = Sharded(Loops(2), place, at=version)
        assert_stands(earlier, then)
    again = [rows[0] | {"city": "never", "op": "update"}]
    assert all(monitor.apply([pa.Table.from_pylist(again)], f"b{number}").duplicate for number in range(0, 20, 2))
    assert_stands(monitor, rows)
    with StateFiles(place) as files:
        runs = files.manifest()
    assert len(runs["log"]) <= 4, "history is gathered"
    assert {line.batch for line in monitor.history()} >= {f"b{number}" for number in range(0, 20, 2)}
    vacuum(place, 0.0)
    assert_stands(monitor, rows)
    if not is_object_url(place):
        # entries of an object store stay for a while
        with pytest.raises(StateError, match=f"version {last}"):
            Sharded(Loops(2), place, at=last)


def test_a_pool_that_is_too_small_still_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards are asked for in turn: some stay open from batch to batch, and those of other states go first."""
    rows = rows_of("Bonn")
    made(str(tmp_path / "other"), rows)
    monitor = made(str(tmp_path / "state"), rows)
    POOL.empty()
    made(str(tmp_path / "another"), rows)
    sizes = [size for _, size in POOL._open.values()]
    monkeypatch.setattr(shard, "pooled_bytes", lambda _: 3 * max(sizes))
    for number in range(0, 8, 2):
        rows = change(monitor, rows, number)
    assert_stands(monitor, rows)
    assert {place for place, _ in POOL._open} == {str(tmp_path / "state")}
    kept = set(POOL._open)
    change(monitor, rows, 10)
    assert set(POOL._open) & kept, "some are still there"


def test_where_memory_is_scarce_shards_are_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of("Bonn")
    monitor = made(str(tmp_path / "state"), rows)
    POOL.empty()
    for number in range(0, 8, 2):
        rows = change(monitor, rows, number)
    held = len(POOL._open)
    assert held > 2
    monkeypatch.setattr(shard, "is_scarce", lambda: True)
    for number in range(8, 14, 2):
        rows = change(monitor, rows, number)
    assert_stands(monitor, rows)
    assert 1 <= len(POOL._open) < held
