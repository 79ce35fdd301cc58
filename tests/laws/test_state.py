"""Laws of the state directory: what is opened is what was left, whatever happened in between."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue import HoldstrueError, Monitor
from holdstrue.state import journal
from holdstrue.state.files import StateFiles
from holdstrue.state.manifest import files_of
from laws import worlds
from laws.test_detection import INDEXES, draw_rules, found, nonempty
from translate import expected

RULES = ["zip -> city", "key(code)", "not(t.zip = s.zip and t.size > s.size and t.cost < s.cost)", "not(t.size < 0)"]


def table(start: int, count: int, **changed: Any) -> pa.Table:
    rows = range(start, start + count)
    return pa.table(
        {
            "id": list(rows),
            "zip": [f"z{i % 7}" for i in rows],
            "city": [f"c{i % 7 if i % 50 else 99}" for i in rows],
            "code": [i if i % 40 else 0 for i in rows],
            "size": [(i * 37) % 101 - (3 if i % 60 == 0 else 0) for i in rows],
            "cost": [float((i * 37) % 101) for i in rows],
        }
        | changed
    )


def everything(monitor: Monitor) -> tuple[Any, ...]:
    return (
        found(monitor.violations()),
        monitor.counts(),
        monitor.rows,
        [(line.batch, line.rule, line.added, line.removed, line.open) for line in monitor.history()],
    )


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("checkpoints", [True, False])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_reopened_is_as_left(tmp_path_factory: Any, index: Any, checkpoints: bool, data: st.DataObject) -> None:
    """After any sequence of batches, closing and opening, with and without checkpoints, nothing is different."""
    path = tmp_path_factory.mktemp("state") / "s"
    rules = draw_rules(data)
    rows: dict[int, worlds.Row] = {}
    before = journal.CHECKPOINT_FROM
    journal.CHECKPOINT_FROM = 0 if checkpoints else 10_000
    try:
        monitor = Monitor.create(path, rules, key="id", index=index)
        for _ in range(data.draw(st.integers(1, 5))):
            batch = data.draw(worlds.changes(set(rows)))
            monitor.apply(worlds.as_table(batch), op_column="_op", feed="ops")
            rows = worlds.applied(rows, batch)
            left = everything(monitor)
            if data.draw(st.booleans()):
                monitor.close()
                monitor = Monitor.open(path)
                assert everything(monitor) == left
                truth = expected(monitor.rules, list(rows.values()), list(rows))
                assert left[0] == nonempty(truth)
        monitor.close()
    finally:
        journal.CHECKPOINT_FROM = before


def test_larger_state_goes_through_checkpoints_and_compaction(tmp_path: Path) -> None:
    memory = Monitor(RULES, key="id", data=table(0, 2000))
    with Monitor.create(tmp_path / "s", RULES, key="id", data=table(0, 2000)):
        pass
    for step in range(14):
        rows = table(0, 2000, size=[(i * 31 + step) % 97 - 1 for i in range(2000)])
        batch = rows.append_column("_op", pa.array(["update"] * 2000))
        with Monitor.open(tmp_path / "s") as monitor:
            delta = monitor.apply(batch, limit=50)
            same = memory.apply(batch, limit=50)
            assert delta.counts == same.counts
            assert found(monitor.violations("not(t.size < 0)")) == found(memory.violations("not(t.size < 0)"))
            assert monitor.counts() == memory.counts()
    runs = list((tmp_path / "s" / "runs").iterdir())
    assert len(runs) < 40, "old files are collected"
    assert sum(file.stat().st_size for file in runs) < 40_000_000


def test_same_batch_twice_is_a_no_op(tmp_path: Path) -> None:
    Monitor.create(tmp_path / "s", RULES, key="id", data=table(0, 50)).close()
    with Monitor.open(tmp_path / "s") as monitor:
        first = monitor.apply(table(50, 20), batch_id="b1")
        left = everything(monitor)
        again = monitor.apply(table(50, 20), batch_id="b1")
        assert not first.duplicate and again.duplicate and again.added == ()
        monitor.apply(table(70, 5), batch_id="b2")
    with Monitor.open(tmp_path / "s") as monitor:
        assert monitor.apply(table(50, 20), batch_id="b1").duplicate
        assert monitor.apply(table(70, 5), batch_id="b2").duplicate
        assert monitor.rows == {"data": 75}
        assert everything(monitor)[3][: len(left[3])] == left[3]


def test_second_writer_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    with Monitor.create(tmp_path / "s", RULES, key="id", data=table(0, 50)) as writer:
        with pytest.raises(HoldstrueError, match="another process"):
            Monitor.open(tmp_path / "s")
        with Monitor.open(tmp_path / "s", read_only=True) as reader:
            assert reader.counts() == writer.counts()
            with pytest.raises(HoldstrueError, match="read-only"):
                reader.apply(table(50, 1))


def test_a_failed_batch_changes_nothing(tmp_path: Path) -> None:
    with Monitor.create(tmp_path / "s", RULES, key="id", data=table(0, 50)) as monitor:
        left = everything(monitor)
        with pytest.raises(HoldstrueError, match="row 3"):
            monitor.apply(table(48, 10).slice(0).take([5, 6, 0]))
        assert everything(monitor) == left
        monitor.apply(table(50, 3))
    with Monitor.open(tmp_path / "s") as monitor:
        assert monitor.rows == {"data": 53}


@pytest.mark.parametrize("damage", ["flip", "cut", "grow", "remove"])
def test_every_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    """Each file of a state, damaged in turn, stops opening with an error that names it."""
    with Monitor.create(tmp_path / "s", RULES, key="id", data=table(0, 300)) as monitor:
        monitor.apply(table(300, 20))
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / "s", kept)
    with StateFiles(kept) as files:
        named = files_of(files.manifest())
    victims = [f"runs/{file.name}" for file in named if not file.name.startswith("log/")]
    victims += [f"log/{file.name}" for file in (kept / "log").iterdir()]
    assert len(victims) == 4
    for victim in victims:
        path = tmp_path / "broken"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(kept, path)
        file = path / victim
        if damage == "grow" and victim.startswith("log/"):
            continue  # what a crash leaves: see test_killed_at_any_moment_leaves_before_or_after
        content = bytearray(file.read_bytes())
        match damage:
            case "flip":
                content[len(content) * 2 // 3] ^= 0x10
            case "cut":
                content = content[: len(content) // 2]
            case "grow":
                content += b"x"
        file.unlink()
        if damage != "remove":
            file.write_bytes(content)
        told = Path(victim).name if damage != "remove" or victim.startswith("runs/") else "log"
        with pytest.raises(HoldstrueError, match=f"{told}.* is damaged"):
            Monitor.open(path).close()


KILLED = """
    import os, signal, sys
    from laws.test_state import table, RULES
    from holdstrue import Monitor
    from holdstrue.state import local

    point, path = int(sys.argv[1]), sys.argv[2]
    calls = 0

    def dying(function):
        def call(*args, **kwargs):
            global calls
            calls += 1
            if calls == point:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)
        return call

    # every step between "nothing written" and "committed" is a place to die
    for name in ("fsync", "write", "close"):
        setattr(os, name, dying(getattr(os, name)))
    local._sync_data = os.fsync
    monitor = Monitor.open(path)
    monitor.apply(table(100, 30), batch_id="b", limit=0)
    monitor.close()
    print("done", calls)
"""


@pytest.mark.parametrize("checkpoint", [False, True])
def test_killed_at_any_moment_leaves_before_or_after(tmp_path: Path, checkpoint: bool) -> None:
    """SIGKILL at each step of a commit: the state is the one before the batch or the one after it."""
    base = tmp_path / "base"
    extra = "journal.CHECKPOINT_FROM = 0\n" if checkpoint else ""
    Monitor.create(base, RULES, key="id", data=table(0, 100)).close()
    with Monitor.open(base, read_only=True) as monitor:
        before = monitor.counts()
    memory = Monitor(RULES, key="id", data=table(0, 100))
    memory.apply(table(100, 30))
    script = textwrap.dedent(KILLED)
    if checkpoint:
        script = script.replace(
            "monitor = Monitor.open", "from holdstrue.state import journal\n" + extra + "monitor = Monitor.open"
        )
    seen = set()
    for point in range(1, 40):
        path = tmp_path / f"s{point}"
        shutil.copytree(base, path)
        run = subprocess.run(
            [sys.executable, "-c", script, str(point), str(path)],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": f"{Path(__file__).parents[1]}:{Path(__file__).parents[2] / 'src'}"},
        )
        finished = run.returncode == 0
        assert finished or run.returncode == -signal.SIGKILL, run.stderr
        with Monitor.open(path) as monitor:
            after = monitor.rows == {"data": 130}
            seen.add(after)
            assert monitor.counts() == (memory.counts() if after else before)
            delta = monitor.apply(table(100, 30), batch_id="b")
            assert delta.duplicate == after
            assert monitor.counts() == memory.counts()
        shutil.rmtree(path)
        if finished:
            break
    assert finished and seen == {False, True}
