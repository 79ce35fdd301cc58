"""`verify`: every file of every version, damage told from what is left over, counts made anew."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards.facts import HISTORY
from holdstrue.shards.runner import Sizing
from holdstrue.state import journal
from holdstrue.state import runs as state_runs
from holdstrue.state.cache import Cache
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import Journal
from holdstrue.state.manifest import files_of
from holdstrue.state.objects import ObjectStore
from holdstrue.state.store import LOG, RUNS
from laws.shards import Loops
from objects import Moto
from unit.cli.runs import PEOPLE, RULES, run, run_json, write
from unit.cli.test_kinds_of_state import kept
from unit.cli.test_versions import HEAD, follow, often

__all__ = ["kept", "often"]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state that keeps its versions, of which some have files of their own."""
    folder = tmp_path_factory.mktemp("made")
    data, rules = write(folder / "people.csv", PEOPLE), write(folder / "rules.yaml", RULES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_runs, "MOST_RUNS", 2)
        assert run("init", folder / "state", "--rules", rules, "--data", data, "--keep", "7d").exit_code == 0
        follow(str(folder / "state"), folder, 5)
    return folder / "state"


@pytest.fixture
def versions(made_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made_once, tmp_path / "state"))


def test_every_kind_is_all_right(kept: tuple[journal.Kind, Path]) -> None:
    kind, path = kept
    answer = run_json("verify", path)
    assert (answer["kind"], answer["ok"], answer["problems"], answer["strays"]) == (kind, True, [], [])
    assert answer["versions"] == [0]
    opened = {"monitor": "opened: 3 rules counted anew from 4 rows, all as", "discovery": "opened: "}
    assert answer["opened"].startswith(opened.get(kind, "not opened: "))
    assert run("verify", path).stdout.startswith(f"{path} ({kind}): version 0, ")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-8])


def grown(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"x")


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def linked(file: Path) -> None:
    target = file.parents[2] / "elsewhere"
    shutil.move(file, target)
    file.symlink_to(target)


@pytest.mark.parametrize("harm", [cut, grown, flipped, emptied, linked, Path.unlink])
def test_a_damaged_file_of_any_version_is_named(versions: Path, harm: Callable[[Path], None]) -> None:
    assert run("verify", versions).exit_code == 0
    files = sorted((versions / "runs").iterdir())
    with StateFiles(versions) as state:
        newest = state.newest()
        now = {file["name"] for file in state.manifest()["base"].values()}
    assert now < {file.name for file in files}
    for file in files:
        copy = shutil.copy(file, versions.parent / "copy")
        harm(file)
        answer = run_json("verify", versions, code=1)
        assert [problem["file"] for problem in answer["problems"]] == [f"runs/{file.name}"]
        assert (file.name not in now) == (max(answer["versions"], default=-1) == newest)
        file.unlink(missing_ok=True)
        shutil.move(copy, file)
    assert run("verify", versions).exit_code == 0


def test_a_damaged_log_is_named(versions: Path) -> None:
    [log] = (versions / "log").iterdir()
    data = log.read_bytes()
    before = run_json("verify", versions)
    found = 0
    for at in range(0, len(data), 41):
        log.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        result = run("verify", versions, "--format", "json")
        if result.exit_code == 0:
            # what fills a record up to eight bytes is looked at by nobody
            assert data[at] == 0
            assert run_json("verify", versions)["versions"] == before["versions"]
        else:
            found += 1
            assert result.exit_code == 1
            assert f"log/{log.name}" in result.stdout
    assert found > len(data) / 41 * 0.9
    log.write_bytes(data[:-100])
    assert f"version {before['versions'][-1]} was written and cannot be read" in run("verify", versions).stdout
    log.write_bytes(data)
    (versions / "lock").unlink()
    log.write_bytes(data[:-100])
    # without its note this is what a crash leaves
    result = run("verify", versions)
    assert result.exit_code == 0
    assert "bytes are of an entry that was cut short" in result.stdout


def test_entries_that_say_something_else(versions: Path) -> None:
    """Entries whose checksums somebody has repaired."""
    with StateFiles(versions) as files:
        headers = {version: files._entry(version).header for version in files.versions()}
    [step] = [version for version, header in headers.items() if "since" in header][:1]
    for change in ({"since": 99}, {"run": {"name": "../x"}}, {"facts": 7}, {"batches": [1]}, {"version": 9}):
        copy = versions.parent / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        _rewritten(versions, copy, step, {**headers[step], **change})
        result = run("verify", copy)
        assert result.exit_code == 1
        assert f"log/{step:012d}: " in result.stdout


def _rewritten(place: Path, copy: Path, version: int, header: dict[str, Any]) -> None:
    from holdstrue.state.entry import decode, encode
    from holdstrue.state.local import LocalStore

    shutil.copytree(place, copy)
    shutil.rmtree(copy / "log")
    (copy / "lock").unlink()
    store, other = LocalStore(place), LocalStore(copy)
    other.lock()
    for listed in store.list(LOG):
        data = store.read(listed.name)
        mine = int(listed.name[-12:]) == version
        other.create(listed.name, encode(header, bytes(decode(data).payload)) if mine else data)
    other.close()


def test_counts_that_do_not_follow_from_the_rows(state: Path) -> None:
    with Journal.open(state, "monitor", HISTORY) as opened:
        # values that the indexes beside them were not made of
        [values] = opened.files.read_tables(opened.runs.base["values.0"])
        at = values.column_names.index("city")
        other = values.set_column(at, "city", pa.array(["NYC", "NYC", "NYC", "Bonn"]))
        file = opened.files.write_tables("values", opened.version + 1, [other])
        opened.commit(opened.written(replace(opened.runs, base={**opened.runs.base, "values.0": file}), {}))
    result = run("verify", state)
    assert result.exit_code == 1
    assert "rule 'zips' is kept with rows 3, pairs 2, groups 1, open 2, and its rows make rows 0" in result.stdout
    with Journal.open(state, "monitor", HISTORY) as opened:
        counts = opened.facts["counts"] | {"zips": opened.facts["counts"]["zips"] | {"open": 7}}
        opened.commit(opened.written(opened.runs, {"counts": counts}))
    assert "it tells of other violations than its files" in run("verify", state).stdout


def test_what_is_left_over_is_not_damage(state: Path) -> None:
    given_up = state / "runs" / f"batch-{1:012d}-0123456789ab.arrow"
    given_up.write_bytes(b"x" * 1234)
    (state / "runs" / "notes.txt").touch()
    (state / "streams").mkdir()
    answer = run_json("verify", state)
    assert answer["strays"] == [{"file": f"runs/{given_up.name}", "bytes": 1234}]
    assert answer["others"] == ["runs/notes.txt"]
    text = run("verify", state).stdout
    assert "1 file that no version names, 1.2 kB" in text
    assert "1 thing that no state needs: runs/notes.txt" in text


def test_versions_that_are_half_removed_are_not_damage(versions: Path) -> None:
    """A vacuum that was interrupted has removed some of the oldest entries, and no files yet."""
    with Journal.open(versions, "monitor", HISTORY) as opened:
        opened.commit(opened.written(opened.runs, {"keep": None}))
    with StateFiles(versions) as files:
        files.store.lock()
        names = [listed.name for listed in files.store.list(LOG)]
        for gone in names[:3]:
            files.store.delete([gone])
            answer = run_json("verify", versions)
            assert answer["ok"], answer["problems"]
    # one that is missing among others was taken away
    with StateFiles(versions) as files:
        files.store.lock()
        files.store.delete(names[5:6])
    assert names[5] in run("verify", versions).stdout


def test_a_state_in_shards(tmp_path: Path) -> None:
    path = tmp_path / "state"
    monitor = Sharded(Loops(2), path, ["a -> b", "not(t.a = s.a and t.c < s.c and t.d > s.d)"], key="id",
                      sizing=Sizing(shards=3, blocks=2))  # fmt: skip
    for start in range(0, 200, 10):
        ids = range(start, start + 10)
        monitor.apply([pa.table({"id": ids, "a": [i % 7 for i in ids], "b": [i % 5 for i in ids],
                                 "c": [i % 3 for i in ids], "d": [i % 11 for i in ids]})])  # fmt: skip
    answer = run_json("verify", path)
    assert answer["ok"], answer["problems"]
    assert answer["versions"][-1] == 20
    assert answer["opened"].startswith("opened: 2 rules counted anew from 200 rows, all")
    with StateFiles(path) as files:
        shards = files.manifest()["shards"].values()
        name = max(shard["log"][-1]["name"] for shard in shards if shard["log"])
    flipped(path / "runs" / name)
    assert f"runs/{name}: its checksum does not match" in run("verify", path).stdout
    (path / "runs" / name).unlink()
    assert f"runs/{name}: it is missing" in run("verify", path).stdout


def test_objects_are_read_past_the_cache(s3: str, moto: Moto, people: Path, rules: Path) -> None:
    assert run("init", s3, "--rules", rules, "--data", people).exit_code == 0
    assert run("verify", s3).exit_code == 0
    store = ObjectStore(s3)
    for name in [listed.name for listed in store.list("")]:
        address = "/" + s3.removeprefix("s3://") + "/" + name
        data = store.read(name)
        for harmed in (data[:-4] + b"hello"[:4], data[:40], data[:50] + bytes([data[50] ^ 8]) + data[51:]):
            assert moto.request("PUT", address, harmed)[0] == 200
            answer = run_json("verify", s3, code=1)
            assert [problem["file"] for problem in answer["problems"]] == [name]
        if name.startswith(RUNS):
            # this machine's copy is right, so nobody else would notice
            assert run("violations", s3).exit_code == 0
        assert moto.request("PUT", address, data)[0] == 200
    assert run("verify", s3).exit_code == 0
    copies = list((Cache().folder / "objects").rglob("arrays-*"))
    assert copies
    for copy in copies:
        flipped(copy)
    assert run("verify", s3).exit_code == 0
    gone = "/" + s3.removeprefix("s3://") + "/" + store.list(RUNS)[0].name
    assert moto.request("DELETE", gone)[0] == 204
    assert "it is missing" in run("verify", s3).stdout


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("keep", ["0", "7d"])
def test_objects_that_went_are_told_from_those_that_were_taken(
    s3: str, tmp_path: Path, people: Path, rules: Path, monkeypatch: pytest.MonkeyPatch, keep: str
) -> None:
    """In a store entries stay a while after the files that they name."""
    monkeypatch.setattr("holdstrue.state.files.GRACE", -60.0)
    assert run("init", s3, "--rules", rules, "--data", people, "--keep", keep).exit_code == 0
    follow(s3, tmp_path, 6)  # until the first checkpoint is no longer the last but one
    answer = run_json("verify", s3)
    assert answer["ok"], answer["problems"]
    store = ObjectStore(s3)
    entries = [int(listed.name[-12:]) for listed in store.list(LOG)]
    assert (answer["versions"] == entries) == (keep == "7d")
    with StateFiles(s3) as files:
        now = {f"runs/{file.name}" for file in files_of(files.manifest())}
    earlier = [listed.name for listed in store.list(RUNS) if listed.name not in now]
    assert earlier
    store.delete(earlier[:1])
    assert run("verify", s3).exit_code == (1 if keep == "7d" else 0)
    store.delete(sorted(now & {listed.name for listed in store.list(RUNS)})[:1])
    assert run("verify", s3).exit_code == 1


def test_no_state_is_no_damage(tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (tmp_path / "nowhere", tmp_path, s3):
        result = run("verify", place)
        assert (result.exit_code, "error: " in result.stderr) == (2, True), result.output
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    result = run("verify", s3)
    assert result.exit_code == 2
    assert "cannot be reached" in result.stderr


def test_a_state_that_is_being_written_is_all_right(tmp_path: Path, people: Path, often: None) -> None:
    path = tmp_path / "state"
    over = threading.Event()
    with holdstrue.Monitor.create(path, "zip -> city", key="id", data=people) as monitor:

        def write_on() -> None:
            for number in range(10_000):
                if over.is_set():
                    return
                monitor.apply(write(tmp_path / "b.csv", f"{HEAD}insert,{100 + number},1,T{number},NY,1,1\n"))

        writer = threading.Thread(target=write_on)
        writer.start()
        try:
            answers = [run("verify", path) for _ in range(8)]
        finally:
            over.set()
            writer.join()
    assert [answer.output for answer in answers if answer.exit_code] == []
    assert len({answer.output for answer in answers}) > 1


def test_vacuum_leaves_a_damaged_state_as_it_is(versions: Path) -> None:
    """What comes before the damage may be all that can still be read."""
    with StateFiles(versions) as files:
        newest = files.manifest()
    damaged = versions / "runs" / newest["base"]["arrays"]["name"]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 0xFF
    damaged.write_bytes(data)
    before = sorted(path.name for path in versions.rglob("*"))
    for arguments in ((), ("--keep", "0")):
        result = run("vacuum", versions, *arguments)
        assert result.exit_code == 2 and f"{damaged} is damaged" in result.stderr
    assert sorted(path.name for path in versions.rglob("*")) == before


def test_a_lock_that_says_nothing_is_told(versions: Path) -> None:
    (versions / "lock").write_bytes(b"hello")
    result = run("verify", versions)
    assert result.exit_code == 1 and "lock: it does not say which version was the last" in result.stdout
