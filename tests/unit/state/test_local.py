"""Entries of a directory: appended, cut short, damaged, removed, and confined to it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import holdstrue
from fault_calls import Fail, FaultCalls, Short, Torn
from holdstrue.errors import StateError
from holdstrue.state import segment
from holdstrue.state.local import LocalStore
from holdstrue.state.lock import WriterLock
from holdstrue.state.store import LOG, Missing, Taken, UnsureError


def name(version: int) -> str:
    return f"{LOG}{version:012d}"


def filled(root: Path, count: int = 5) -> LocalStore:
    store = LocalStore(root)
    store.lock()
    for version in range(count):
        store.create(name(version), b"entry %d" % version)
    return store


def versions(store: LocalStore) -> list[int]:
    return [int(listed.name.removeprefix(LOG)) for listed in store.list(LOG)]


def test_entries_are_read_back_by_writers_and_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "SEGMENT_ENTRIES", 3)
    store, reader = filled(tmp_path), LocalStore(tmp_path)
    assert versions(reader) == [0, 1, 2, 3, 4]
    store.create(name(5), b"later")
    for each in (store, reader, LocalStore(tmp_path)):
        assert versions(each) == list(range(6))
        assert [each.read(name(v)) for v in (0, 4, 5)] == [b"entry 0", b"entry 4", b"later"]
        assert each.read_range(name(4), 2, 3) == b"try"
    with pytest.raises(Missing):
        reader.read(name(6))
    assert len(list((tmp_path / "log").iterdir())) == 2


def test_a_version_is_made_once(tmp_path: Path) -> None:
    store = filled(tmp_path)
    for version in (0, 4):
        with pytest.raises(Taken):
            store.create(name(version), b"again")
    with pytest.raises(RuntimeError, match="lock"):
        LocalStore(tmp_path).create(name(5), b"not mine")
    with pytest.raises(StateError, match="being written by another process"):
        LocalStore(tmp_path).lock()
    store.close()
    other = LocalStore(tmp_path)
    assert versions(other) == [0, 1, 2, 3, 4]
    other.lock()
    other.create(name(5), b"mine now")
    assert versions(store) == [0, 1, 2, 3, 4, 5]


def test_a_note_that_is_not_written_fails_no_commit(tmp_path: Path) -> None:
    """It is made after the commit: without it less is known, and nothing else."""
    with FaultCalls(tmp_path) as calls:
        store = filled(tmp_path)
        calls.plan({3: Fail(errno.EIO)})
        store.create(name(5), b"there")
        assert calls.made == ["write log/000000000000.log", "fdatasync log/000000000000.log", "write lock"]
    store.close()
    assert versions(LocalStore(tmp_path)) == list(range(6))


@pytest.mark.parametrize("length", range(22))
def test_half_a_note_is_none(tmp_path: Path, length: int) -> None:
    """199 and the start of 200 must not look like 299, which would be a version that was lost."""
    filled(tmp_path).close()
    lock = WriterLock(tmp_path / "lock")
    lock.take()
    lock.note(199)
    before = (tmp_path / "lock").read_bytes()
    lock.note(200)
    assert lock.noted() == 200
    after = (tmp_path / "lock").read_bytes()
    lock.release()
    (tmp_path / "lock").write_bytes(after[:length] + before[length:])
    assert lock.noted() in (-1, 199, 200)


def test_entries_are_removed_by_one_byte(tmp_path: Path) -> None:
    """A removal that is cut short must not look like damage, beyond which nothing is read."""
    with FaultCalls(tmp_path) as calls:
        store = filled(tmp_path)
        calls.plan({1: Short(), 2: Torn(errno.ENOSPC)})
        store.delete([name(0)])
        with pytest.raises(OSError, match="No space left"):
            store.delete([name(1)])
    for each in (store, LocalStore(tmp_path)):
        assert versions(each)[-3:] == [2, 3, 4]
        assert 0 not in versions(each)


@pytest.mark.parametrize("cut", [0, 1, 8, 20, 33, 39])
@pytest.mark.parametrize("zeros", [0, 100])
@pytest.mark.parametrize("count", [0, 5])
def test_an_entry_that_was_cut_short_is_none_and_is_cut_off(tmp_path: Path, cut: int, zeros: int, count: int) -> None:
    store = filled(tmp_path, count)
    start = sum(file.stat().st_size for file in (tmp_path / "log").iterdir())
    note = (tmp_path / "lock").read_bytes()
    store.create(name(count), b"the next one")
    store.close()
    [file] = (tmp_path / "log").iterdir()
    file.write_bytes(file.read_bytes()[: start + cut] + bytes(zeros))
    (tmp_path / "lock").write_bytes(note)  # a crash came before it was written
    reader, writer = LocalStore(tmp_path), LocalStore(tmp_path)
    assert versions(reader) == list(range(count))
    writer.lock()
    writer.create(name(count), b"sixth")
    assert reader.read(name(count)) == b"sixth"
    assert file.stat().st_size == start + 40


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("at", [0, 5, 9])
@pytest.mark.parametrize("count", [1, 5])
def test_what_is_damaged_is_never_taken_away(tmp_path: Path, at: int, count: int, noted: bool) -> None:
    filled(tmp_path, count).close()
    [file] = (tmp_path / "log").iterdir()
    data = bytearray(file.read_bytes())
    data[at] ^= 0x80
    file.write_bytes(data)
    if not noted:
        (tmp_path / "lock").unlink()
    for _ in range(2):
        store = LocalStore(tmp_path)
        store.lock()
        with pytest.raises(StateError, match=r"000000000000\.log is damaged"):
            store.create(name(count), b"more")
        with pytest.raises(StateError, match=r"is damaged"):
            store.list(LOG)
        store.close()
    assert file.read_bytes() == data


@pytest.mark.parametrize("what", ["pipe", "folder", "link"])
@pytest.mark.parametrize("place", ["lock", "log/000000000000.log"])
def test_what_is_no_file_is_refused(tmp_path: Path, what: str, place: str) -> None:
    filled(tmp_path / "s").close()
    path = tmp_path / "s" / place
    path.unlink()
    match what:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match=f"{path.name} is damaged"):
        versions(LocalStore(tmp_path / "s"))


@pytest.mark.parametrize("at", [3, 40, 70, 150, 190])
def test_a_damaged_entry_is_told_from_one_that_was_cut_short(tmp_path: Path, at: int) -> None:
    filled(tmp_path).close()
    [file] = (tmp_path / "log").iterdir()
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    with pytest.raises(StateError, match=r"000000000000\.log is damaged"):
        versions(LocalStore(tmp_path))
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(StateError, match=r"damaged: version 4 was written and cannot be read"):
        versions(LocalStore(tmp_path))


def test_removed_entries_are_gone_and_their_files_with_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "SEGMENT_ENTRIES", 3)
    store = filled(tmp_path, 8)
    LocalStore(tmp_path).delete([name(v) for v in (0, 1, 2, 3)])
    assert versions(LocalStore(tmp_path)) == [4, 5, 6, 7]
    assert sorted(file.name for file in (tmp_path / "log").iterdir()) == ["000000000003.log", "000000000006.log"]
    for version in (1, 3):
        with pytest.raises(Missing):
            LocalStore(tmp_path).read(name(version))
    store.create(name(8), b"goes on")
    assert versions(LocalStore(tmp_path)) == [4, 5, 6, 7, 8]


@pytest.mark.parametrize("fails", ["write", "sync"])
def test_a_write_that_fails_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    store = filled(tmp_path)
    before = sum(file.stat().st_size for file in (tmp_path / "log").iterdir())

    def failing(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(segment, "write_at" if fails == "write" else "_sync_data", failing)
        with pytest.raises(OSError, match="No space"):
            store.create(name(5), b"x" * 100)
        patch.setattr(os, "ftruncate", failing)
        with pytest.raises(UnsureError, match="nor brought back"):
            store.create(name(5), b"x" * 100)
    store.close()
    other = LocalStore(tmp_path)
    other.lock()
    expected = [0, 1, 2, 3, 4] if fails == "write" else [0, 1, 2, 3, 4, 5]
    assert versions(other) == expected
    if fails == "write":
        assert sum(file.stat().st_size for file in (tmp_path / "log").iterdir()) == before


def test_a_writer_who_stays_writes_zeros_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others do not see them, nor is a torn entry taken for more because of them."""
    monkeypatch.setattr(segment, "ROOM_AFTER", 2)
    monkeypatch.setattr(segment, "ROOM_BYTES", 5000)
    store = LocalStore(tmp_path)
    store.lock()
    sizes = []
    for version in range(12):
        store.create(name(version), b"entry %d " % version * 100)
        sizes.append((tmp_path / "log" / "000000000000.log").stat().st_size)
        reader = LocalStore(tmp_path)
        assert versions(reader) == list(range(version + 1))
        assert reader.read(name(version)) == b"entry %d " % version * 100
        assert reader.survey().problems == [] and "log" not in str(reader.survey().others)
    assert len(set(sizes)) < 8, "the file grew with every entry"
    shutil.copytree(tmp_path / "log", tmp_path / "crashed" / "log")
    store.close()
    [file] = (tmp_path / "log").iterdir()
    assert file.stat().st_size < sizes[-1] and versions(LocalStore(tmp_path)) == list(range(12))
    [file] = (tmp_path / "crashed" / "log").iterdir()
    data = file.read_bytes()
    end = len(data.rstrip(b"\0"))
    file.write_bytes(data[: end + 40] + b"hrec1234" + data[end + 48 :])
    other = LocalStore(tmp_path / "crashed")
    other.lock()
    assert versions(other) == list(range(12))
    other.create(name(12), b"goes on")
    assert versions(LocalStore(tmp_path / "crashed")) == list(range(13))


@pytest.mark.parametrize("folder", ["runs", "log"])
def test_a_link_leads_out_of_the_state_and_is_refused(tmp_path: Path, folder: str) -> None:
    filled(tmp_path / "s").close()
    (tmp_path / "s" / folder).rename(tmp_path / "elsewhere")
    (tmp_path / "s" / folder).symlink_to(tmp_path / "elsewhere")
    store = LocalStore(tmp_path / "s")
    with pytest.raises(StateError, match=f"{folder} is a link"):
        store.list(f"{folder}/")


def test_a_run_that_is_a_link_is_damage(tmp_path: Path) -> None:
    store = filled(tmp_path / "s")
    (tmp_path / "precious").write_text("x")
    run = "runs/arrays-000000000001-0123456789ab.arrow"
    (tmp_path / "s" / run).symlink_to(tmp_path / "precious")
    assert not store.list("runs/")
    with pytest.raises(StateError, match="is damaged: it is no plain file"):
        store.file(run, 1)
    with pytest.raises(StateError, match="is damaged: it is no plain file"):
        store.read(run)


def test_a_process_that_goes_elsewhere_writes_where_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another directory may hold another state of the same name."""
    rows = pa.table({"id": [1, 2], "zip": ["a", "a"], "city": ["x", "x"]})
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        holdstrue.Monitor.create("st", "zip -> city", key="id", data=rows).close()
    monkeypatch.chdir(tmp_path / "one")
    with holdstrue.Monitor.open("st") as monitor:
        monkeypatch.chdir(tmp_path / "other")
        monitor.apply([{"id": 3, "zip": "a", "city": "y"}])
    for folder, count in (("one", 3), ("other", 2)):
        with holdstrue.Monitor.open(tmp_path / folder / "st") as monitor:
            assert monitor.rows == {"data": count}
