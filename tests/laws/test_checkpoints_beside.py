"""Checkpoints that another process writes while batches go on: what is opened is what was left, whenever it is done."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue import Monitor
from holdstrue.monitor import checkpoint, one_piece, renewal
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards import shard
from holdstrue.state import runs as state_runs
from holdstrue.state.journal import manifest_of
from laws.beside import Played
from laws.kept_states import STATES
from laws.kept_states import table as kept_table
from laws.shards import Loops
from laws.test_state import RULES, everything, table
from places import Buckets


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are due after a few rows, and never written in this process because of them."""
    monkeypatch.setattr(state_runs, "CHECKPOINT_FROM", 30)
    monkeypatch.setattr(one_piece, "BESIDE_FROM", 0)


def changes(step: int) -> pa.Table:
    """Rows that come, change and go."""
    rows = pa.concat_tables(
        [table(1000 + 10 * step, 10), table(20 * step, 10, size=[step] * 10), table(20 * step + 10, 10)]
    )
    return rows.append_column("_op", pa.array(["insert"] * 10 + ["update"] * 10 + ["delete"] * 10))


@pytest.mark.parametrize("waits", [True, False])
def test_batches_go_on_while_one_is_written(tmp_path: Path, waits: bool) -> None:
    """Whether each is done before the next batch, or batches pile up meanwhile: the same as in memory."""
    memory = Monitor(RULES, key="id", data=table(0, 400))
    with Monitor.create(tmp_path / "s", RULES, key="id", data=table(0, 400)) as monitor:
        beside = monitor._here()._beside
        assert beside is not None
        bases, begun = set(), 0
        for step in range(12):
            batch = {"changes": changes(step), "batch_id": f"b{step}", "op_column": "_op", "limit": 0}
            assert monitor.apply(**batch).counts == memory.apply(**batch).counts
            begun += beside._listener is not None
            if waits and beside._listener is not None:
                beside._listener.join()
            bases.add(manifest_of(tmp_path / "s", "monitor")["base"]["arrays"]["name"])
            assert everything(monitor)[:3] == everything(memory)[:3]
            with Monitor.open(tmp_path / "s", read_only=True) as reader:
                assert everything(reader) == everything(monitor)
        assert begun
        assert not waits or len(bases) > 3
    with Monitor.open(tmp_path / "s") as again:
        assert everything(again)[:3] == everything(memory)[:3]
        assert manifest_of(tmp_path / "s", "monitor")["base"]["arrays"]["name"] not in bases or waits
        assert [line.batch for line in again.history()][:: len(RULES)] == ["#1", *(f"b{step}" for step in range(12))]
        assert all(again.apply(changes(step), batch_id=f"b{step}", op_column="_op").duplicate for step in range(12))


@pytest.mark.parametrize("stop", ["never", "closed", "left"])
def test_removed_versions_go_beside_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: str) -> None:
    """Rows move to other slots in the state, then in memory; whoever opens it in between finds the same."""
    monkeypatch.setattr(shard, "COMPACT_FROM", 0)
    monkeypatch.setattr(renewal, "FEW_RUNS", 0)
    monkeypatch.setattr(subprocess, "Popen", Played)
    memory = Monitor(RULES, key="id", data=table(0, 60))
    monitor = Monitor.create(tmp_path / "s", RULES, key="id", data=table(0, 60))
    met, there = Counter[str](), set(range(60))
    for step in range(70):
        ids = [(step * 5 + i) % 60 for i in range(12)]
        ops = ["update" if id_ in there else "insert" for id_ in ids]
        ops[0] = "delete" if ids[0] in there else "insert"
        there = (there | set(ids)) - ({ids[0]} if ops[0] == "delete" else set())
        rows = table(0, 60, size=[(i * 31 + step) % 97 - 1 for i in range(60)]).take(ids)
        batch = {"changes": rows.append_column("_op", pa.array(ops)), "op_column": "_op", "batch_id": f"b{step}"}
        assert monitor.apply(**batch).counts == memory.apply(**batch).counts
        piece = monitor._here()
        assert piece.journal is not None and piece.shard is not None and piece._beside is not None
        if piece._beside._renewal is not None:
            piece._beside._renewal.join()
        met["moved in the state"] += piece.journal.runs.renumbering
        met["moved in memory"] += piece.journal.runs.moved is not None
        assert everything(monitor)[:3] == everything(memory)[:3]
        assert piece.shard.engine.tables["data"].rows.size < 8 * 60, "removed versions stay"
        with Monitor.open(tmp_path / "s", read_only=True) as reader:
            assert everything(reader)[:3] == everything(memory)[:3]
        if step % 5 == 4 and stop != "never":
            monitor.close() if stop == "closed" else piece.journal.close()  # as when the process ends
            monitor = Monitor.open(tmp_path / "s")
    assert met["moved in the state"] and met["moved in memory"], met
    assert not monitor.apply(table(1000, 1)).notes
    monitor.close()


@pytest.mark.parametrize("last", [2, 64])
def test_a_log_that_grows_too_long_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    """At first a little in every batch, and at last until it is done."""
    waited: list[float | None] = []
    join = threading.Thread.join

    def noted(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread.name == "holdstrue-checkpoint" and thread.is_alive():
            waited.append(timeout)
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", noted)
    monkeypatch.setattr(checkpoint, "PATIENCE", 1)
    monkeypatch.setattr(checkpoint, "LAST_PATIENCE", last)
    with Monitor.create(tmp_path / "s", RULES, key="id", data=table(0, 400)) as monitor:
        for step in range(6):
            monitor.apply(changes(step), op_column="_op")
        assert waited and (last == 2 or None not in waited)
        assert all(timeout is None or 0 < timeout <= checkpoint.LONGEST_BRAKE for timeout in waited)
        left = everything(monitor)
    with Monitor.open(tmp_path / "s") as again:
        assert everything(again) == left


def test_one_that_fails_is_told_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    popen = subprocess.Popen

    def failing(command: list[str], **options: Any) -> Any:
        return popen([sys.executable, "-c", "raise SystemExit('the disk is full')"], **options)

    monkeypatch.setattr(checkpoint, "RETRY_AFTER", 2)
    with Monitor.create(tmp_path / "s", RULES, key="id", data=table(0, 400)) as monitor:
        beside = monitor._here()._beside
        assert beside is not None
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", failing)
            notes = list(monitor.apply(changes(0), op_column="_op").notes)
            notes += monitor.apply(changes(1), op_column="_op").notes
            if beside._listener is not None:
                beside._listener.join()
            notes += monitor.apply(changes(2), op_column="_op").notes
            assert notes and all("could not be written: the disk is full" in note for note in notes)
        left = everything(monitor)
    with Monitor.open(tmp_path / "s") as again:
        assert everything(again) == left
        for step in (3, 4, 5):
            assert not again.apply(changes(step), op_column="_op").notes


@pytest.mark.parametrize("error", [OSError("no more processes"), RuntimeError("can't start new thread")])
def test_one_that_cannot_be_begun_is_begun_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The batch is in, and that is no error of its."""

    def failing(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(checkpoint, "RETRY_AFTER", 2)
    monkeypatch.setattr(subprocess, "Popen", Played)
    with Monitor.create(tmp_path / "s", RULES, key="id", data=table(0, 400)) as monitor:
        beside = monitor._here()._beside
        assert beside is not None
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", failing)
            notes = [note for step in range(2) for note in monitor.apply(changes(step), op_column="_op").notes]
            assert notes == [str(error)]
        for step in range(2, 6):
            assert not monitor.apply(changes(step), op_column="_op").notes
            if beside._listener is not None:
                beside._listener.join()
        assert manifest_of(tmp_path / "s", "monitor")["since"] > 0, "none was written"


def test_one_that_another_writer_overtook_is_given_up(buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch is in, and the other writer's version stands: closing is no error."""
    monkeypatch.setattr(subprocess, "Popen", Played)
    place = buckets.fresh()
    with Monitor.create(place, RULES, key="id", data=table(0, 400)) as monitor:
        beside = monitor._here()._beside
        assert beside is not None
        for step in range(9):
            monitor.apply(changes(step), op_column="_op")
            if beside._listener is not None:
                break
        else:
            pytest.fail("none was begun")
        with Monitor.open(place) as other:
            other.apply(table(5000, 1), batch_id="other")
    with Monitor.open(place) as again:
        assert again.rows == {"data": 401}
        assert again.apply(table(5000, 1), batch_id="other").duplicate


def test_one_under_way_is_given_up_when_types_are_learned(tmp_path: Path) -> None:
    rows = pa.table({"id": range(100), "zip": ["z"] * 100, "city": pa.nulls(100)})
    with Monitor.create(tmp_path / "s", "zip -> city", key="id", data=rows) as monitor:
        monitor.apply(rows.slice(0, 50).set_column(0, "id", pa.array(range(100, 150))))
        beside = monitor._here()._beside
        assert beside is not None and beside._listener is not None
        monitor.apply(pa.table({"id": [500, 501], "zip": ["z", "z"], "city": ["Bonn", "Ulm"]}))
        left = everything(monitor)
        assert left[1]["zip -> city"].pairs == 1
    with Monitor.open(tmp_path / "s", read_only=True) as again:
        assert everything(again) == left


def test_one_that_fails_at_the_end_is_no_error_of_the_last_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    popen = subprocess.Popen

    def failing(command: list[str], **options: Any) -> Any:
        return popen([sys.executable, "-c", "raise SystemExit('the disk is full')"], **options)

    monitor = Monitor.create(tmp_path / "s", RULES, key="id", data=table(0, 400))
    monkeypatch.setattr(subprocess, "Popen", failing)
    monitor.apply(changes(0), op_column="_op")
    beside = monitor._here()._beside
    assert beside is not None and beside._listener is not None, "none was begun"
    left = everything(monitor)
    with pytest.warns(RuntimeWarning, match="the disk is full"):
        monitor.close()
    with Monitor.open(tmp_path / "s", read_only=True) as again:
        assert everything(again) == left


def test_its_process_runs_nothing_of_the_directory_it_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("open('taken', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    with Monitor.create(tmp_path / "s", RULES, key="id", data=table(0, 400)) as monitor:
        monitor.apply(changes(0), op_column="_op")
        monitor.apply(changes(1), op_column="_op")
    assert manifest_of(tmp_path / "s", "monitor")["since"] > 0, "none was written"
    assert not (tmp_path / "taken").exists()


@pytest.mark.parametrize("how", ["in one piece", "in shards"])
def test_rows_that_moved_are_read_by_all(tmp_path: Path, how: str) -> None:
    """Two tables, rules of every kind: the same as of a monitor made anew from the rows, which then goes on."""
    STATES["monitor whose rows moved"].make(tmp_path / "s")
    with Monitor.open(tmp_path / "s", read_only=True) as monitor:
        piece = monitor._here()
        assert piece.shard is not None and piece.journal is not None and piece.journal.runs.renumbering
        tables = piece.shard.engine.tables
        rows = {name: held.rows.take(held.rows.living_slots()) for name, held in tables.items()}
        anew = Monitor(monitor.rules, key={"data": "id", "zips": "zip"})
    anew.apply(rows)
    again = Sharded(Loops(1), tmp_path / "s") if how == "in shards" else Monitor.open(tmp_path / "s")
    for _ in range(2):
        assert {name: counts.open for name, counts in again.counts().items()} == {
            name: counts.open for name, counts in anew.counts().items()
        }
        assert dict(again.rows) == anew.rows
        more = kept_table(5000 + again.rows["data"], 2)
        again.apply([more] if how == "in shards" else more)
        anew.apply(more)
    again.close()


def test_a_batch_of_half_the_rows_is_followed_by_one_here(tmp_path: Path) -> None:
    """Nobody opens the state and applies the batch again, and what is opened is what was left."""
    memory = Monitor(RULES, key="id", data=table(0, 400))
    with Monitor.create(tmp_path / "s", RULES, key="id", data=table(0, 400)) as monitor:
        before = manifest_of(tmp_path / "s", "monitor")
        new = pa.concat_tables([table(100, 200, size=[7] * 200), table(300, 300)])
        delta = monitor.apply(new, "today", snapshot=True)
        assert delta.changed == {"insert": 200, "update": 198, "delete": 100}  # two had that size before
        assert delta.counts == memory.apply(new, "today", snapshot=True).counts
        beside, after = monitor._here()._beside, manifest_of(tmp_path / "s", "monitor")
        assert beside is not None and beside._listener is None
        assert after["base"]["arrays"]["name"] != before["base"]["arrays"]["name"] and not after["log"]
    with Monitor.open(tmp_path / "s") as again:
        assert everything(again)[:3] == everything(memory)[:3]
        assert again.apply(new, "today", snapshot=True).duplicate
