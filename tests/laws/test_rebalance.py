"""A state laid out anew holds what it held, and its files say when they are damaged."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdstrue import HoldstrueError, Monitor
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards import hot
from holdstrue.shards.runner import Sizing
from holdstrue.shards.shard import POOL
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import Journal
from holdstrue.state.manifest import files_of
from laws.shards import Loops
from laws.test_shards import listed

RULES = ["a -> b", "not(t.x < s.x and t.y > s.y)", "not(t.x < 0)"]


def rows(first: int, count: int) -> pa.Table:
    """Half of all rows have one value of a."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": list(numbers),
            "a": ["hot" if n % 2 else f"k{n % 7}" for n in numbers],
            "b": [f"v{n % 97 == 0}" for n in numbers],
            "x": list(numbers),
            "y": [n + (40 if n % 31 == 0 else 0) for n in numbers],
        }
    )


def test_rebalance_changes_nothing_but_the_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "SEEN_AT_LEAST", 2)
    one = Monitor(RULES, key="id", data=rows(0, 300))
    monitor = Sharded(Loops(3), tmp_path / "state", RULES, key="id", sizing=Sizing(shards=2, blocks=1))
    monitor.apply([rows(0, 300)])
    assert "hot places on grids of 1 blocks" in monitor.explain()
    before = monitor.counts()
    assert before == one.counts()
    monitor.rebalance(shards=4, blocks=3)
    assert "hot places on grids of 3 blocks" in monitor.explain()
    assert monitor.counts() == before
    assert set(listed(monitor)) == set(one.violations())
    assert dict(monitor.apply([rows(300, 50)]).counts) == dict(one.apply(rows(300, 50)).counts)
    assert monitor.counts() == one.counts()
    assert [line.batch for line in monitor.history()][::3] == ["#1", "#2"]


def test_many_batches_leave_few_files(tmp_path: Path) -> None:
    monitor = Sharded(Loops(2), tmp_path / "state", RULES, key="id", sizing=Sizing(shards=2, blocks=1))
    one = Monitor(RULES, key="id")
    for start in range(0, 400, 10):
        monitor.apply([rows(start, 10)])
        one.apply(rows(start, 10))
    POOL.empty()
    assert monitor.counts() == one.counts()
    with Journal.open(tmp_path / "state", "monitor") as journal:
        journal.vacuum()
    with StateFiles(tmp_path / "state") as store:
        manifest = store.manifest()
        named = {file.name for file in files_of(manifest) if not file.name.startswith("log/")}
    assert max(len(shard["log"]) for shard in manifest["shards"].values()) <= 12
    assert {path.name for path in (tmp_path / "state" / "runs").iterdir()} == named


@pytest.mark.parametrize("how", ["cut", "flip", "gone"])
def test_a_damaged_joint_file_is_named(tmp_path: Path, how: str) -> None:
    monitor = Sharded(Loops(1), tmp_path / "state", ["a -> b"], key="id", sizing=Sizing(shards=3, blocks=1))
    monitor.apply([rows(0, 100)])
    monitor.apply([rows(100, 30)])
    POOL.empty()
    [path, *_] = sorted((tmp_path / "state" / "runs").glob("joint-*2-*"))
    data = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes(data if how == "flip" else data[: len(data) // 2])
    with pytest.raises(HoldstrueError, match=path.name):
        monitor.apply([rows(130, 30)])
    assert monitor.batches == 2
