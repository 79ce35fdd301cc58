"""Laws of readers that stay open while a state goes on: they tell of their version, or that it is no longer kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from holdstrue import Monitor
from holdstrue.state import files as state_files
from holdstrue.state import runs as state_runs
from holdstrue.state import segment
from holdstrue.state.files import GoneError, StateFiles
from holdstrue.state.journal import Journal
from laws.crashes import RULES, rows
from laws.test_detection import found
from places import Places

ALL = os.environ.get("HOLDSTRUE_CRASHES") == "all"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many checkpoints, many files of the log, and what is not needed goes at once."""
    monkeypatch.setattr(state_runs, "CHECKPOINT_FROM", 40)
    monkeypatch.setattr(segment, "SEGMENT_ENTRIES", 25)
    monkeypatch.setattr(state_files, "GRACE", -5.0)
    monkeypatch.setattr(state_files, "ENTRY_GRACE", -5.0)


def batch(number: int) -> pa.Table:
    """Two rows come, and from some time on two of long ago go."""
    come = rows(1000 + 2 * number, 2)
    return come if number < 30 else pa.concat_tables([come, rows(1000 + 2 * (number - 30), 2, "delete")])


def now(monitor: Monitor) -> Any:
    """What is kept in memory."""
    return found(monitor.violations()), monitor.counts(), monitor.rows, monitor.batches


def lines(monitor: Monitor) -> list[tuple[str, str, int, int, int]]:
    return [(line.batch, line.rule, line.added, line.removed, line.open) for line in monitor.history()]


def checked(readers: dict[int, tuple[Monitor, Any, Any]]) -> tuple[int, int]:
    """Every reader says what was there when it was opened; how many know their history, and how many say it is gone."""
    knowing = gone = 0
    for at, (reader, then, history) in readers.items():
        assert now(reader) == then, f"opened after {at} batches"
        try:
            assert lines(reader) == history
            knowing += 1
        except GoneError as error:
            assert "no longer kept" in error.message
            gone += 1
    return knowing, gone


def went_on(place: str, batches: int, every: int) -> Iterator[dict[int, tuple[Monitor, Any, Any]]]:
    """Batches of two rows, and now and then somebody opens the state and does not let go of it."""
    readers: dict[int, tuple[Monitor, Any, Any]] = {}
    with Monitor.create(place, RULES, key="id", data=rows(0, 300).drop_columns(["op"])) as writer:
        for number in range(batches):
            if number % every == 0 or number == batches - 2:
                reader = Monitor.open(place, read_only=True)
                readers[number] = reader, now(writer), lines(writer)
                assert now(reader) == now(writer)
                if number % (2 * every) == 0:
                    assert lines(reader) == lines(writer), "asked before, they are not asked of the files again"
            writer.apply(batch(number), limit=0)
            if number == 2:
                yield readers
        yield readers


def test_what_readers_say_stays(places: Places) -> None:
    """After three batches, and after many with checkpoints in between."""
    batches = {"local": 4000 if ALL else 250, "s3": 1200 if ALL else 80}[places.kind]
    stages = went_on(places.fresh(), batches, batches // 6)
    assert checked(next(stages)) == (1, 0), "three batches take nothing from a reader"
    readers = next(stages)
    knowing, gone = checked(readers)
    assert knowing and gone, "of old versions some history is gone, of the last ones it is there"
    assert checked(readers) == (knowing, gone), "asked again, they say the same"
    for reader, _, _ in readers.values():
        reader.close()
        assert now(reader)[2], "who let go can still be read"
    assert next(stages, None) is None


def test_versions_that_are_gone_are_told_from_damage(places: Places) -> None:
    """Every version that ever was is whole, or it is said that it is no longer kept; reading again works."""
    place = places.fresh()
    with Monitor.create(place, RULES, key="id", data=rows(0, 300).drop_columns(["op"])) as writer:
        for number in range(60):
            writer.apply(batch(number), limit=0)
        last = now(writer)
    with StateFiles(place) as files:
        newest = files.newest()
    kept = []
    for version in range(newest + 1):
        try:
            with Journal.open(place, "monitor", at=version) as one:
                for file in [*one.runs.base.values(), *one.runs.log]:
                    one.files.read_tables(file) if file in one.runs.log else one.files.verify(file)
                one.files.verified()
            kept.append(version)
        except GoneError as error:
            assert "no longer kept" in error.message
    assert kept and kept == list(range(kept[0], newest + 1)), "those that are kept are the last ones"
    with Monitor.open(place, read_only=True) as reader:
        assert now(reader) == last
