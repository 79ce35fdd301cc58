"""The journal: versions, ids that were seen, facts that come and go, and whose state it is."""

from __future__ import annotations

import errno
import itertools
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from fault_calls import Fail, FaultCalls
from holdstrue import Monitor, discover
from holdstrue.errors import StateError
from holdstrue.state import files as state_files
from holdstrue.state import old_formats
from holdstrue.state.files import StateFiles, UncommittedError
from holdstrue.state.journal import BATCHES, READ_WITH, Journal, Kind, Written, manifest_of
from holdstrue.state.manifest import FORMAT, files_of
from holdstrue.state.runs import MOST_RUNS
from holdstrue.state.store import UnsureError
from places import Buckets, Folders

ROWS = pa.table({"id": [1, 2, 3], "zip": ["1", "1", "2"], "city": ["Bonn", "Ulm", "Kiel"]})
NONE = BATCHES.schema.empty_table()


def made(path: str | Path, kind: Kind = "site") -> Journal:
    journal = Journal.create(path, kind)
    journal.commit(journal.write_checkpoint({}, NONE, {"rows": 0}))
    return journal


def test_every_batch_is_remembered_over_checkpoints_and_reopening(place: str) -> None:
    with made(place) as journal:
        for number in range(7):
            line = journal.line(f"b{number}")
            if number % 3 == 2:
                journal.commit(journal.write_checkpoint({}, line, {"rows": number}))
                assert not journal.runs.log
            else:
                journal.commit(journal.write_batch([pa.table({"x": [number]})], 1, line, {"rows": number}))
            assert journal.seen(f"b{number}")
            assert not journal.seen(f"b{number + 1}")
    with Journal.open(place, "site", read_only=True) as again:
        assert again.history().column("batch").to_pylist() == [f"b{number}" for number in range(7)]
        assert (again.version, again.facts["rows"], len(again.runs.log), again.runs.log_rows) == (7, 6, 1, 1)
        [lines, rows] = again.files.read_tables(again.runs.log[0])
        assert lines.column("batch").to_pylist() == ["b6"]
        assert rows.column("x").to_pylist() == [6]


def test_facts_stay_until_they_are_given_or_taken_away(place: str) -> None:
    with made(place) as journal:
        journal.commit(journal.write_batch([], 0, journal.line("a"), {"more": {"x": 1}}))
        journal.commit(journal.write_batch([], 0, journal.line("b"), {"rows": 3}))
        assert (journal.facts["more"], journal.facts["rows"]) == ({"x": 1}, 3)
        journal.commit(journal.written(journal.runs, {"more": None}))
        assert "more" not in journal.facts
    assert "more" not in manifest_of(place, "site")


def test_what_is_written_counts_only_when_it_is_named(place: str) -> None:
    with made(place) as journal:
        journal.write_batch([ROWS], 3, journal.line("given up"), {"rows": 3})
        written = journal.write_batch([ROWS], 3, journal.line("kept"), {"rows": 3})
        journal.commit(written)
        assert journal.seen("kept") and not journal.seen("given up")
        assert journal.committed == 1
        with pytest.raises(StateError, match="already has version 1"):
            journal.files.commit(written.draft)


def test_checkpoints_are_due_by_rows_and_by_runs(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with made(place) as journal:
        assert not journal.runs.due(10_000, 0)
        assert journal.runs.due(10_001, 0)
        assert not journal.runs.due(10_001, 16 * 10_001)
        file = journal.files.write_tables("batch", 1, [NONE])
        runs = journal.runs
        for _ in range(MOST_RUNS):
            assert not runs.due(0, 0)
            runs = runs.appended(file, 0)
        assert runs.due(0, 0)


def test_a_place_that_was_given_up_is_vacant(place: str) -> None:
    with Journal.create(place, "site") as journal:
        journal.write_batch([ROWS], 3, journal.line("given up"), {}, apart=True)
    with made(place):
        pass
    with pytest.raises(StateError, match=r"(not an empty directory|is not empty): it holds a state"):
        Journal.create(place, "site")


@pytest.mark.parametrize(("asked", "found"), list(itertools.permutations(READ_WITH, 2)))
def test_a_state_of_another_kind_says_what_it_is_and_how_to_read_it(place: str, asked: Kind, found: Kind) -> None:
    made(place, found).close()
    for read_only in (True, False):
        with pytest.raises(StateError) as caught:
            Journal.open(place, asked, read_only=read_only)
        assert f"is the state of {'' if found == 'inclusions' else 'a '}{found}" in caught.value.message
        assert ("holdstrue fragments" if found == "site" else place) in (caught.value.hint or "")
    with Journal.open(place, found):
        pass


def as_format(number: int, path: Path) -> None:
    """The newest version as formats 2 and 3 wrote it: a manifest in a file, all runs beside it."""
    with StateFiles(path) as files:
        body = files.manifest()
        moved = {}
        for file in files_of(body):
            if file.name.startswith("log/"):
                run = files.write_tables("batch", body["version"], files.read_tables(file))
                moved[file.name] = run.to_dict()
    body["log"] = [moved.get(file["name"], file) for file in body["log"]]
    body["base"] = {
        key.split(".")[0] if key.startswith("history") else key: file
        for key, file in body["base"].items()
        if not key.startswith("ids.")
    }
    for name in ("since", "recent", "committed", "time", "writer", *(["kind"] if number == 2 else [])):
        del body[name]
    body["format"] = number
    shutil.rmtree(path / "log")
    (path / "lock").write_text("")
    text = json.dumps(body | {"checksum": old_formats._sum(body)})
    (path / f"manifest-{body['version']:012d}.json").write_text(text)


@pytest.mark.parametrize("number", [2, 3])
def test_earlier_formats_are_read_and_go_on_in_the_present_one(tmp_path: Path, number: int) -> None:
    with Monitor.create(tmp_path / "m", "zip -> city", key="id", data=ROWS) as made:
        made.apply(pa.table({"id": [3], "op": ["delete"]}), batch_id="a")
        history = made.history()
    as_format(number, tmp_path / "m")
    with Monitor.open(tmp_path / "m", read_only=True) as monitor:
        assert [v.t for v in monitor.violations()] == [1]
        assert monitor.history() == history
    with Monitor.open(tmp_path / "m") as monitor:
        assert monitor.apply(pa.table({"id": [3], "op": ["delete"]}), batch_id="a").duplicate
        monitor.apply(pa.table({"id": [2], "op": ["delete"]}), batch_id="b")
        assert monitor.rows == {"data": 1}
    with Monitor.open(tmp_path / "m") as monitor:
        assert monitor.rows == {"data": 1}
        assert monitor.batches == 3
        for batch in ("a", "b"):
            assert monitor.apply(pa.table({"id": [1], "op": ["delete"]}), batch_id=batch).duplicate
        assert [line.batch for line in monitor.history()] == ["#1", "a", "b"]
    assert manifest_of(tmp_path / "m", "monitor")["format"] == FORMAT
    with discover(ROWS, kinds=("fd",), key="id") as found:
        found.save(tmp_path / "d")
    as_format(number, tmp_path / "d")
    with type(found).open(tmp_path / "d") as again:
        again.apply(pa.table({"id": [4], "zip": ["7"], "city": ["Bonn"]}))
        assert [rule.text for rule in again] != []
    assert manifest_of(tmp_path / "d", "discovery")["format"] == FORMAT


def test_files_of_others_are_never_taken_over_or_removed(tmp_path: Path) -> None:
    for names in (["runs/results.txt"], ["lock", "runs/results.txt"], ["runs/exp/a.arrow"], ["lock", "runs/exp/a"]):
        place = tmp_path / "-".join(names).replace("/", "_")
        for name in names:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text("precious")
        with pytest.raises(StateError, match="not an empty directory"):
            Journal.create(place, "site")
        assert all((place / name).read_text() == "precious" for name in names)
    with made(tmp_path / "s") as journal:
        (tmp_path / "s" / "runs" / "notes.txt").write_text("precious")
        journal.vacuum()
    assert (tmp_path / "s" / "runs" / "notes.txt").exists()


def test_objects_of_others_are_never_taken_over_or_removed(buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_files, "GRACE", -5.0)
    for names in (["runs/results.txt"], ["runs/exp/a.arrow"], ["results.txt", f"runs/batch-{0:012d}-{0:012x}.arrow"]):
        place = buckets.filled(dict.fromkeys(names, b"precious"))
        with pytest.raises(StateError, match="is not empty: it holds "):
            Journal.create(place, "site")
        assert buckets.objects(place) == dict.fromkeys(names, b"precious")
    with made(place := buckets.fresh()) as journal:
        buckets.put(place, "runs/notes.txt", b"precious")
        buckets.put(place, f"runs/batch-{0:012d}-{0:012x}.arrow", b"given up")
        journal.vacuum()
    assert buckets.objects(place).keys() >= {"runs/notes.txt", "log/000000000000"}
    assert f"runs/batch-{0:012d}-{0:012x}.arrow" not in buckets.objects(place)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_ids_of_batches_that_were_not_committed_are_not_known(folders: Folders, checkpoint: bool) -> None:
    """Whatever fails, the same journal takes the batch again."""
    place = folders.fresh()
    with FaultCalls(place) as calls, made(place) as journal:

        def write(batch: str) -> Written:
            if checkpoint:
                return journal.write_checkpoint({}, journal.line(batch), {"rows": 1})
            return journal.write_batch([ROWS], 3, journal.line(batch), {"rows": 1})

        calls.plan()
        journal.commit(write("a"))
        for at in range(1, len(calls.made) + 1):
            calls.plan({at: Fail(errno.ENOSPC)})
            try:
                journal.commit(write(f"b{at}"))
            except UncommittedError as error:
                assert "No space left" in error.message and "nothing was committed" in error.message
                assert not journal.seen(f"b{at}")
                calls.plan()
                journal.commit(write(f"b{at}"))
            assert journal.seen(f"b{at}")
        assert at > 2
    with Journal.open(place, "site", read_only=True) as again:
        assert again.history().column("batch").to_pylist() == ["a", *(f"b{number}" for number in range(1, at + 1))]


def test_a_version_that_may_have_been_made_is_said_to_be_one(folders: Folders) -> None:
    place = folders.fresh()
    with FaultCalls(place) as calls, made(place) as journal:
        calls.plan(dict.fromkeys(range(1, 100), Fail(errno.EIO)))
        with pytest.raises(UnsureError, match=r"whether version 1 of .* was made is not known") as told:
            journal.commit(journal.write_batch([ROWS], 3, journal.line("b"), {}))
        assert "open the state again: its history says whether the batch is in" in str(told.value.hint)


def test_what_later_versions_need_outlives_a_late_look_for_what_is_not_needed(place: str) -> None:
    """Files are removed beside the work, when versions were made that nobody knew of as it began."""
    with made(place) as journal:
        asked = journal._needed(), 0, journal.version
        for number in range(3):
            file = journal.files.write_tables("values", journal.version + 1, [ROWS])
            journal.commit(journal.write_checkpoint({"values": file}, journal.line(f"b{number}"), {}))
            assert journal._collecting is not None
            journal._collecting.join()
            journal.files.collect(*asked)
        assert journal.files.read_tables(journal.runs.base["values"])[0].equals(ROWS)


def test_a_mark_from_before_another_checkpoint_is_refused(place: str) -> None:
    with made(place) as journal:
        journal.commit(journal.write_batch([pa.table({"x": [1]})], 1, journal.line("a"), {"rows": 1}))
        mark = journal.mark()
        journal.commit(journal.write_checkpoint({}, journal.line("b"), {"rows": 2}))
        journal.commit(journal.write_batch([pa.table({"x": [3]})], 1, journal.line("c"), {"rows": 3}))
        with pytest.raises(StateError, match="was overtaken by another one"):
            journal.rebase({}, mark, {"rows": 1})
        assert journal.runs.log_rows == 1
