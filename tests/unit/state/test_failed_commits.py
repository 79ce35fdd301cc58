"""What fails while a state is made or changed lets go of it, says what became of the batch, and can be done again."""

from __future__ import annotations

import errno
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from fault_calls import Fail, FaultCalls
from holdstrue import Monitor, discover
from holdstrue.discovery.inclusions.attributes import RowChanges
from holdstrue.discovery.inclusions.durable import DurableInclusions
from holdstrue.discovery.inclusions.unary import UnaryInclusions
from holdstrue.errors import StateError
from holdstrue.state import runs as state_runs
from holdstrue.state.files import StateFiles, UncommittedError
from holdstrue.state.journal import Journal
from holdstrue.state.store import UnsureError
from places import Folders
from unit.cli.runs import run_json

ROWS = pa.table({"id": [1, 2, 3], "zip": ["1", "1", "2"], "city": ["Bonn", "Ulm", "Kiel"]})
MORE = pa.table({"id": [4], "zip": ["2"], "city": ["Bonn"]})


def monitor(place: str) -> Any:
    return Monitor.create(place, "zip -> city", key="id", data=ROWS)


def discovery(place: str) -> Any:
    found = discover(ROWS, kinds=("fd",), key="id")
    found.save(place)
    return found


def inclusions(place: str) -> Any:
    return DurableInclusions.create(place, UnaryInclusions.load({"t": ROWS}))


@pytest.mark.parametrize("make", [monitor, discovery, inclusions])
def test_a_state_that_could_not_be_made_can_be_made_again(folders: Folders, make: Callable[[str], Any]) -> None:
    """At whatever call it fails, in the same process and though the error is still at hand."""
    with FaultCalls(folders.fresh()) as calls:
        make(calls.folder).close()
        made = len(calls.made)
    for at in range(1, made + 1):
        with FaultCalls(folders.fresh()) as calls:
            calls.plan({at: Fail(errno.ENOSPC)})
            try:
                make(calls.folder).close()
                continue  # a note that says less than it could
            except UncommittedError as error:
                kept = error
            assert "No space left on device" in kept.message and "nothing was committed" in kept.message
            assert kept.hint in ("make the state again", "see that you may write there, and that there is room")
            make(calls.folder).close()


@pytest.mark.parametrize("kind", ["monitor", "discovery", "inclusions"])
def test_what_stopped_half_way_says_so_until_the_state_is_opened_again(folders: Folders, kind: str) -> None:
    place = folders.fresh()
    make = {"monitor": monitor, "discovery": discovery, "inclusions": inclusions}[kind]
    change = {"t": RowChanges(added=MORE)} if kind == "inclusions" else MORE
    with FaultCalls(place) as calls:
        held = make(place)
        calls.plan({1: Fail(errno.ENOSPC)})
        with pytest.raises(UncommittedError, match="No space left on device; nothing was committed") as told:
            held.apply(change)
        assert told.value.hint == "open the state again, and apply the batch again"
        for _ in range(2):
            with pytest.raises(StateError, match="an earlier batch stopped half-way in memory") as told_again:
                held.apply(change)
            assert "open the state again: its history says whether that batch is in" in str(told_again.value.hint)
        assert [what.split()[0] for what in calls.made] == ["write", "ftruncate", "fsync"], "as it was before"
        if kind == "monitor":
            assert repr(held) == "Monitor(a batch stopped half-way)"
            for ask in (held.counts, held.history, held.report, lambda: held.rows, lambda: list(held.violations())):
                with pytest.raises(StateError, match="stopped half-way"):
                    ask()
        held.close()


@pytest.mark.parametrize(
    ("place", "batch"),
    [
        ("detect.one_row.RowProgram.apply", MORE),
        ("shards.shard.Shard.apply", pa.concat_tables([MORE, MORE.set_column(0, "id", [[5]])])),
    ],
)
def test_a_monitor_in_memory_that_stopped_half_way_has_no_state_to_open(
    monkeypatch: pytest.MonkeyPatch, place: str, batch: pa.Table
) -> None:
    held = Monitor("zip -> city", key="id", data=ROWS)

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"holdstrue.{place}", interrupted)
        with pytest.raises(KeyboardInterrupt):
            held.apply(batch)
    with pytest.raises(StateError, match="stopped half-way") as told:
        held.counts()
    assert told.value.hint == "make the monitor anew from its data"


def test_without_a_thread_to_remove_files_the_batch_is_in(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_runs, "MOST_RUNS", 0)
    with monitor(folders.fresh()) as held:

        def failing(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", failing)
            delta = held.apply(MORE)
        assert "files that are no longer needed were not removed: can't start new thread" in delta.notes
        assert held.rows == {"data": 4}
        assert not held.apply(pa.table({"id": [5], "zip": ["2"], "city": ["Bonn"]})).notes


def large(first: int) -> pa.Table:
    """Rows of more than fit into an entry."""
    return pa.table({"id": range(first, first + 1000), "zip": ["9" * 2000] * 1000, "city": ["Trier"] * 1000})


def runs_of(place: str) -> list[str]:
    return sorted(listed.name for listed in StateFiles(place).store.list("runs/"))


def test_a_large_batch_that_fails_leaves_no_file(folders: Folders) -> None:
    """At whatever call it fails."""
    place = folders.fresh()
    monitor(place).close()
    before, failed = runs_of(place), 0
    for at in itertools.count(1):
        with FaultCalls(place) as calls, Monitor.open(place) as held:
            calls.plan({at: Fail(errno.ENOSPC)})
            try:
                held.apply(large(10))
                break
            except UncommittedError:
                failed += 1
                assert runs_of(place) == before
    assert failed > 4
    with Monitor.open(place) as held:
        assert held.rows == {"data": 1003}


def test_a_file_that_may_be_needed_is_not_removed(folders: Folders) -> None:
    place = folders.fresh()
    with FaultCalls(place) as calls, Journal.create(place, "site") as made:
        made.commit(made.write_checkpoint({}, made.line("a"), {}))
        written = made.write_batch([ROWS], 3, made.line("b"), {}, apart=True)
        calls.plan({at: Fail(errno.EIO) for at in range(3, 10)})
        with pytest.raises(UnsureError):
            made.commit(written)
    assert [name for name in runs_of(place) if "batch" in name]


def test_what_was_removed_is_not_committed_later(folders: Folders) -> None:
    place = folders.fresh()
    with FaultCalls(place) as calls, Journal.create(place, "site") as made:
        made.commit(made.write_checkpoint({}, made.line("a"), {}))
        written = made.write_batch([ROWS], 3, made.line("b"), {}, apart=True)
        calls.plan({2: Fail(errno.ENOSPC)})
        with pytest.raises(UncommittedError, match="No space"):
            made.commit(written)
        with pytest.raises(UncommittedError, match="was removed when version 1 could not be made"):
            made.commit(written)
        made.commit(made.write_batch([ROWS], 3, made.line("b"), {}, apart=True))
    with Journal.open(place, "site") as again:
        assert again.files.read_tables(again.runs.log[0])[1].num_rows == 3


def test_who_comes_second_at_an_object_store_takes_its_files_away(s3: str) -> None:
    with Journal.create(f"{s3}/state", "site") as made:
        made.commit(made.write_checkpoint({}, made.line("a"), {}))
        before = runs_of(f"{s3}/state")
        with Journal.open(f"{s3}/state", "site") as other:
            written = other.write_batch([ROWS], 3, other.line("b"), {}, apart=True)
            made.commit(made.write_batch([ROWS], 3, made.line("c"), {}, apart=True))
            with pytest.raises(UncommittedError, match="of another writer"):
                other.commit(written)
    assert len(runs_of(f"{s3}/state")) == len(before) + 1


def test_vacuum_with_the_lock_removes_what_nobody_names_at_once(folders: Folders) -> None:
    """A process that was killed leaves the file of the batch it was about to commit."""
    place = folders.fresh()
    monitor(place).close()
    before = runs_of(place)
    with StateFiles(place) as files:
        files.write_tables("batch", 1, [large(10)])
        files.write_tables("batch", 7, [large(10)])
    assert len(runs_of(place)) == len(before) + 2
    answer = run_json("vacuum", place)
    assert (answer["removed"]["files"], runs_of(place)) == (2, before)
