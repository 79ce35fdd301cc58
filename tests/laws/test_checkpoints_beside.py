"""Checkpoints that another process writes while batches go on: what is opened is what was left, whenever it is done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue import Monitor
from holdstrue.monitor import checkpoint, one_piece
from holdstrue.state import journal
from holdstrue.state.journal import manifest_of
from laws.test_state import RULES, everything, table
from places import Buckets


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are due after a few rows, and never written in this process because of them."""
    monkeypatch.setattr(journal, "CHECKPOINT_FROM", 30)
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
            begun += beside.running
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


def test_one_that_another_writer_overtook_is_given_up(buckets: Buckets) -> None:
    """Every batch is in, and the other writer's version stands: closing is no error."""
    place = buckets.fresh()
    with Monitor.create(place, RULES, key="id", data=table(0, 400)) as monitor:
        for step in range(2):
            monitor.apply(changes(step), op_column="_op")
        beside = monitor._here()._beside
        assert beside is not None and beside._listener is not None
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
        assert beside is not None and beside.running
        monitor.apply(pa.table({"id": [500, 501], "zip": ["z", "z"], "city": ["Bonn", "Ulm"]}))
        left = everything(monitor)
        assert left[1]["zip -> city"].pairs == 1
    with Monitor.open(tmp_path / "s", read_only=True) as again:
        assert everything(again) == left
