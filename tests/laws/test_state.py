"""Laws of the state directory: what is opened is what was left, whatever happened in between."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue import HoldstrueError, Monitor
from holdstrue.index import blocks, spine
from holdstrue.state import files, trust
from holdstrue.state import runs as state_runs
from holdstrue.state.files import OvertakenError, StateFiles
from holdstrue.state.journal import manifest_of
from laws import worlds
from laws.test_detection import INDEXES, draw_rules, found, nonempty
from places import Buckets, Folders, Places
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
def test_reopened_is_as_left(folders: Folders, index: Any, checkpoints: bool, data: st.DataObject) -> None:
    """After any sequence of batches, closing and opening, with and without checkpoints, nothing is different."""
    reopened(folders, index, checkpoints, data)


@pytest.mark.parametrize("checkpoints", [True, False])
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_reopened_is_as_left_in_an_object_store(buckets: Buckets, checkpoints: bool, data: st.DataObject) -> None:
    reopened(buckets, "blocks", checkpoints, data)


def reopened(places: Places, index: Any, checkpoints: bool, data: st.DataObject) -> None:
    few = data.draw(st.sampled_from([1, 4, 1 << 14]))
    small: list[tuple[Any, str, int]] = [(spine, "BESIDE_FROM", few), (spine, "SQUEEZED_FROM", few // 4)]
    with ExitStack() as stack:
        for module, name, value in [*small, (blocks, "MOST_UNSORTED", min(few // 4, 128))]:
            stack.enter_context(mock.patch.object(module, name, value))
        reopened_so(places, index, checkpoints, data)


def reopened_so(places: Places, index: Any, checkpoints: bool, data: st.DataObject) -> None:
    path = places.fresh()
    rules = draw_rules(data)
    rows: dict[int, worlds.Row] = {}
    before = state_runs.CHECKPOINT_FROM
    state_runs.CHECKPOINT_FROM = 0 if checkpoints else 10_000
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
        state_runs.CHECKPOINT_FROM = before


def test_larger_state_goes_through_checkpoints_and_compaction(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    # where no lock keeps others away, files stay for an hour
    monkeypatch.setattr(files, "GRACE", -5.0)
    place = places.fresh()
    memory = Monitor(RULES, key="id", data=table(0, 2000))
    with Monitor.create(place, RULES, key="id", data=table(0, 2000)):
        pass
    for step in range(14):
        rows = table(0, 2000, size=[(i * 31 + step) % 97 - 1 for i in range(2000)])
        batch = rows.append_column("_op", pa.array(["update"] * 2000))
        with Monitor.open(place) as monitor:
            delta = monitor.apply(batch, limit=50)
            same = memory.apply(batch, limit=50)
            assert delta.counts == same.counts
            assert found(monitor.violations("not(t.size < 0)")) == found(memory.violations("not(t.size < 0)"))
            assert monitor.counts() == memory.counts()
    runs = [data for name, data in places.objects(place).items() if name.startswith("runs/")]
    assert len(runs) < 40, "old files are collected"
    assert sum(map(len, runs)) < 40_000_000


def test_a_checkpoint_while_runs_are_merged(tmp_path: Path) -> None:
    """The rows that the run under way leaves out are left out of the checkpoint, too."""
    rows = pa.table({"id": range(34_000), "a": range(34_000), "b": range(34_000)})
    with Monitor.create(tmp_path / "s", "not(t.a > s.a and t.b < s.b)", key="id", data=rows) as monitor:
        for start in (0, 9000):
            monitor.apply(pa.table({"id": range(start, start + 9000), "op": ["delete"] * 9000}), op_column="op")
        assert manifest_of(tmp_path / "s", "monitor")["log"] == []
        with Monitor.open(tmp_path / "s", read_only=True) as again:
            assert again.rows == monitor.rows == {"data": 16_000}


def test_same_batch_twice_is_a_no_op(place: str) -> None:
    Monitor.create(place, RULES, key="id", data=table(0, 50)).close()
    with Monitor.open(place) as monitor:
        first = monitor.apply(table(50, 20), batch_id="b1")
        left = everything(monitor)
        again = monitor.apply(table(50, 20), batch_id="b1")
        assert not first.duplicate and again.duplicate and again.added == ()
        monitor.apply(table(70, 5), batch_id="b2")
    with Monitor.open(place) as monitor:
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


def test_a_failed_batch_changes_nothing(place: str) -> None:
    with Monitor.create(place, RULES, key="id", data=table(0, 50)) as monitor:
        left = everything(monitor)
        with pytest.raises(HoldstrueError, match="row 3"):
            monitor.apply(table(48, 10).slice(0).take([5, 6, 0]))
        assert everything(monitor) == left
        monitor.apply(table(50, 3))
    with Monitor.open(place) as monitor:
        assert monitor.rows == {"data": 53}


def test_a_second_writer_of_an_object_store_is_told_that_it_is_one(buckets: Buckets) -> None:
    """There is no lock: who commits first wins, and the other one has nothing in the state."""
    place = buckets.fresh()
    Monitor.create(place, RULES, key="id", data=table(0, 50)).close()
    with Monitor.open(place) as first, Monitor.open(place) as second:
        first.apply(table(50, 10), batch_id="first")
        with pytest.raises(OvertakenError, match="version 1, of another writer; nothing was committed"):
            second.apply(table(50, 10), batch_id="second")
        for ask in (second.counts, lambda: second.apply(table(60, 1)), lambda: list(second.violations())):
            with pytest.raises(HoldstrueError, match="stopped half-way") as told:
                ask()
            assert "open the state again: its history says" in str(told.value.hint)
        first.apply(table(60, 10), batch_id="third")
    with Monitor.open(place) as monitor:
        assert monitor.rows == {"data": 70}
        assert not monitor.apply(table(70, 10), batch_id="second").duplicate


@pytest.mark.parametrize("behind", ["a while", "a day", "after sleeping"])
def test_a_writer_cannot_take_the_place_of_a_version_that_was_removed(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch, behind: str
) -> None:
    """Names of entries that are gone are free again, so that a writer who is behind looks before it commits."""
    place = buckets.fresh()
    clock = [0.0, 0.0]
    monkeypatch.setattr(trust, "_clocks", lambda: tuple(clock))
    monkeypatch.setattr(state_runs, "MOST_RUNS", 2)
    Monitor.create(place, RULES, key="id", data=table(0, 50)).close()
    with Monitor.open(place) as slow:
        with Monitor.open(place) as fast:
            if behind != "a while":
                monkeypatch.setattr(files, "ENTRY_GRACE", -5.0)
            for number in range(12):
                fast.apply(table(100 + number, 1), batch_id=f"f{number}")
        with StateFiles(place) as kept:
            assert (1 in kept.versions()) == (behind == "a while")
        clock[:] = {"a while": [0.0, 0.0], "a day": [86400.0, 86400.0], "after sleeping": [1.0, 86400.0]}[behind]
        with pytest.raises(OvertakenError, match="version 1, of another writer; nothing was committed"):
            slow.apply(table(60, 5), batch_id="slow")
    with Monitor.open(place) as monitor:
        assert monitor.rows == {"data": 62}
        assert not monitor.apply(table(60, 5), batch_id="slow").duplicate


@pytest.mark.parametrize("damage", ["flip", "cut", "grow", "remove"])
def test_every_damaged_file_is_named(places: Places, damage: str) -> None:
    """Each object of a state, damaged in turn, stops opening with an error that names it."""
    place = places.fresh()
    with Monitor.create(place, RULES, key="id", data=table(0, 300)) as monitor:
        monitor.apply(table(300, 20))
    objects = {name: data for name, data in places.objects(place).items() if name != "lock"}
    lock = {name: data for name, data in places.objects(place).items() if name == "lock"}
    victims = sorted(objects)
    assert [name.partition("-")[0] for name in victims if name.startswith("runs/")] == [
        "runs/arrays",
        "runs/history",
        "runs/values",
    ]
    if damage == "grow" and places.kind == "local":
        victims = [name for name in victims if name.startswith("runs/")]  # what a crash leaves of an entry
    if places.kind == "s3" and damage == "remove":
        victims = [name for name in victims if name != "log/000000000001"]  # nobody knows that there was a version
    if places.kind == "s3" and damage == "grow":
        victims = ["log/000000000001"]  # of others, no more is read than there should be
    for victim in victims:
        content = bytearray(objects[victim])
        match damage:
            case "flip":
                content[len(content) * 2 // 3] ^= 0x10
            case "cut":
                content = content[: len(content) // 2]
            case "grow":
                content += b"x"
        broken = {name: data for name, data in objects.items() if name != victim} | lock
        path = places.filled(broken if damage == "remove" else broken | {victim: bytes(content)})
        told = Path(victim).name if damage != "remove" or victim.startswith("runs/") or places.kind == "s3" else "log"
        if places.kind == "s3" and victim.startswith("log/"):
            told = f"({told}|version {int(told)})"
        with pytest.raises(HoldstrueError, match=f"{told}.* is damaged"):
            Monitor.open(path).close()
