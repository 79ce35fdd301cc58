"""What fails while a state is made or changed lets go of it, says what became of the batch, and can be done again."""

from __future__ import annotations

import errno
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
from holdstrue.state import journal
from holdstrue.state.files import UncommittedError
from places import Folders

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


def test_a_monitor_in_memory_that_stopped_half_way_has_no_state_to_open(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Monitor("zip -> city", key="id", data=ROWS)

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("holdstrue.shards.shard.Shard.apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            held.apply(MORE)
    with pytest.raises(StateError, match="stopped half-way") as told:
        held.counts()
    assert told.value.hint == "make the monitor anew from its data"


def test_without_a_thread_to_remove_files_the_batch_is_in(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_RUNS", 0)
    with monitor(folders.fresh()) as held:

        def failing(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", failing)
            delta = held.apply(MORE)
        assert "files that are no longer needed were not removed: can't start new thread" in delta.notes
        assert held.rows == {"data": 4}
        assert not held.apply(pa.table({"id": [5], "zip": ["2"], "city": ["Bonn"]})).notes
