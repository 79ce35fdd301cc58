"""Earlier versions: `--at` reads them, `vacuum --keep` says how long there are any."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.cli.any_state import vacuum
from holdstrue.discovery.discovery import Discovery
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards.runner import Sizing
from holdstrue.state import journal
from holdstrue.state import runs as state_runs
from holdstrue.state.files import GoneError, StateFiles
from laws.shards import Loops
from unit.cli.runs import run, run_json, write
from unit.cli.test_kinds_of_state import kept

__all__ = ["kept"]

HEAD = "op,id,zip,city,state,salary,rate\n"


@pytest.fixture(params=["directory", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a state may live; entries that are not needed go at once, whatever the clock of a store says."""
    monkeypatch.setattr("holdstrue.state.files.ENTRY_GRACE", -5.0)
    return str(tmp_path / "state") if request.param == "directory" else request.getfixturevalue("s3")


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third batch writes a checkpoint."""
    monkeypatch.setattr(state_runs, "MOST_RUNS", 2)


class Clock:
    """The time of day as states see it."""

    def __init__(self) -> None:
        self.days = 0

    def now(self, zone: dt.tzinfo | None = None) -> dt.datetime:
        return dt.datetime.now(zone) + dt.timedelta(days=self.days)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """A clock that can be put forward."""
    clock = Clock()

    class Time(dt.datetime):
        now = clock.now  # type: ignore[assignment]

    monkeypatch.setattr("holdstrue.state.files.dt", SimpleNamespace(datetime=Time, timedelta=dt.timedelta, UTC=dt.UTC))
    yield clock


def follow(place: str, tmp_path: Path, count: int) -> list[tuple[int, Any]]:
    """Batches of one row of a new city each; what status said after every one, by version."""
    said = [stood(place)]
    for number in range(count):
        batch = write(tmp_path / "batch.csv", f"{HEAD}insert,{100 + number},10001,Town {number},NY,1,1\n")
        assert run("apply", place, batch).exit_code == 1
        said.append(stood(place))
    return said


def stood(place: str, *more: object) -> tuple[int, Any]:
    answer = run_json("status", place, "--history", *more)
    answer.pop("time", None)
    return answer["version"], answer


@pytest.mark.usefixtures("often")
def test_versions_of_the_time_that_is_kept_can_be_read(place: str, tmp_path: Path, people: Path, rules: Path) -> None:
    assert run("init", place, "--rules", rules, "--data", people, "--keep", "7d").exit_code == 0
    said = follow(place, tmp_path, 9)
    assert len({version for version, _ in said}) == 10
    for version, answer in said:
        assert stood(place, "--at", version)[1] == answer
        [rule] = [rule for rule in answer["rules"] if rule["name"] == "zips"]
        listed = run_json("violations", place, "--rule", "zips", "--at", version)
        assert (len(listed["violations"]), listed["version"]) == (rule["open"], version)
        monitor = holdstrue.Monitor.open(place, at=version)
        assert {name: count.open for name, count in monitor.counts().items()}["zips"] == rule["open"]
        with StateFiles(place) as files:
            time = files.time(version)
        assert stood(place, "--at", time.isoformat())[1] == answer
        assert holdstrue.Monitor.open(place, at=time).batches == monitor.batches == answer["batches"]
    answer = run_json("vacuum", place)
    assert answer["removed"]["versions"] == 0
    assert answer["kept"] | {"since": 0} == {"first": 0, "last": said[-1][0], "since": 0, "seconds": 604800}


@pytest.mark.usefixtures("often")
def test_versions_that_nobody_asked_to_keep_go(place: str, tmp_path: Path, people: Path, rules: Path) -> None:
    assert run("init", place, "--rules", rules, "--data", people).exit_code == 0
    said = follow(place, tmp_path, 9)
    last = said[-1][0]
    wrong = run("status", place, "--at", 1)
    assert wrong.exit_code == 2
    with StateFiles(place) as files:
        first, *_ = files.kept()
    assert 1 < first < last
    assert f"version 1 of {place} is no longer kept: versions {first} to {last} are" in wrong.stderr
    assert "holdstrue vacuum STATE --keep 7d" in wrong.stderr
    for version in range(first, last + 1):
        assert stood(place, "--at", version)[1]["version"] == version
    with pytest.raises(GoneError, match="no longer kept"):
        holdstrue.Monitor.open(place, at=0)


@pytest.mark.usefixtures("often")
def test_versions_grow_old(place: str, tmp_path: Path, people: Path, rules: Path, clock: Clock) -> None:
    assert run("init", place, "--rules", rules, "--data", people, "--keep", "3d").exit_code == 0
    made = {}
    for day in range(10):
        clock.days = day
        batch = write(tmp_path / "batch.csv", f"{HEAD}insert,{100 + day},10001,Town {day},NY,1,1\n")
        assert run("apply", place, batch).exit_code == 1
        made[day] = stood(place)
    answer = run_json("vacuum", place)
    assert answer["kept"]["first"] > 3
    for day in range(6, 10):
        version, told = made[day]
        assert stood(place, "--at", version)[1] == told
        # the moment before the next day's batch
        time = (dt.datetime.now(dt.UTC) + dt.timedelta(days=day, hours=1)).isoformat()
        assert stood(place, "--at", time)[1] == told
    early = run("status", place, "--at", (dt.datetime.now(dt.UTC) - dt.timedelta(days=1)).isoformat())
    assert early.exit_code == 2
    assert f"versions {answer['kept']['first']} to {answer['kept']['last']} are, from " in early.stderr


def test_vacuum_says_what_it_removed(place: str, tmp_path: Path, people: Path, rules: Path) -> None:
    assert run("init", place, "--rules", rules, "--data", people).exit_code == 0
    follow(place, tmp_path, 4)
    result = run("vacuum", place, "--keep", "2w")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{place}: nothing to remove\n  can be read: versions 0 to 5, from ")
    assert "versions are kept for 2w\n" in result.stdout
    gone = run_json("vacuum", place, "--keep", 0)
    # the batches since the checkpoint are entries too, which stay while they are needed
    assert gone["removed"]["versions"] == 2
    assert (gone["kept"]["first"], gone["kept"]["last"], gone["kept"]["seconds"]) == (6, 6, 0)
    assert run_json("vacuum", place)["removed"] == {"files": 0, "versions": 0, "bytes": 0}
    assert stood(place)[1]["batches"] == 5


def test_files_of_batches_that_were_given_up_go(state: Path) -> None:
    stray = state / "runs" / f"batch-{0:012d}-0123456789ab.arrow"
    stray.write_bytes(b"x" * 1234)
    other = write(state / "runs" / "notes.txt", "mine")
    result = run("vacuum", state)
    assert "removed 1 file and 0 versions, 1.2 kB" in result.stdout
    assert not stray.exists()
    assert other.exists()


def test_what_comes_while_files_are_collected_stays(tmp_path: Path, people: Path) -> None:
    """Files are looked for beside the work: those of a version that came since are no business of theirs."""
    path = tmp_path / "s"
    with holdstrue.Monitor.create(path, "zip -> city", key="id", data=people) as monitor:
        assert monitor._piece is not None and monitor._piece.journal is not None
        asked: list[tuple[Any, ...]] = []
        monitor._piece.journal._collect = lambda *args: asked.append(args)  # type: ignore[method-assign]
        monitor._piece._stale = True
        monitor.apply(write(tmp_path / "a.csv", "id,zip,city\n8,1,A\n"))
        monitor._piece._stale = True
        monitor.apply(write(tmp_path / "b.csv", "id,zip,city\n9,1,B\n"))
    first, _ = asked
    with StateFiles(path) as files:
        assert files.newest() == 2
        files.collect(*first)
    assert holdstrue.Monitor.open(path, read_only=True).rows == {"data": 6}


def test_vacuum_of_every_kind(kept: tuple[journal.Kind, Path]) -> None:
    kind, path = kept
    assert run_json("vacuum", path, "--keep", "90s")["kind"] == kind
    assert run_json("vacuum", path)["kept"]["seconds"] == 90
    if kind == "discovery":
        assert run("discover", "--state", path, "--at", 0).exit_code == 0


def test_a_discovery_as_it_was(place: str, tmp_path: Path, people: Path) -> None:
    assert run("discover", people, "--kind", "fd,key", "--key", "id", "--state", place).exit_code == 0
    before = run_json("discover", "--state", place)
    batch = write(tmp_path / "b.csv", "op,id,zip,city,state,salary,rate\ninsert,9,10001,Rome,RM,5000,3\n")
    assert run("discover", "--state", place, "--apply", batch).exit_code == 1
    assert run_json("discover", "--state", place)["rules"] != before["rules"]
    past = run_json("discover", "--state", place, "--at", 0)
    assert past["rules"] == before["rules"]
    assert past["version"] == 0
    assert dt.datetime.fromisoformat(past["time"]) <= dt.datetime.now(dt.UTC)
    assert run("discover", "--state", place, "--at", 0).stdout.startswith("version 0 of ")
    assert "note: version 0 of" in run("discover", "--state", place, "--at", 0, "--format", "rules").stderr
    found = Discovery.open(place, at=0)
    with pytest.raises(StateError, match="read-only"):
        found.apply(batch)


def test_every_form_says_which_version_it_shows(state: Path) -> None:
    for command in (("status",), ("violations",), ("violations", "--groups"), ("violations", "--worst", 2)):
        text = run(*command, state, "--at", 0).stdout
        assert "version 0 of 20" in text.splitlines()[0]
        told = json.loads(run(*command, state, "--at", 0, "--format", "json").stdout)
        assert told["version"] == 0
        assert dt.datetime.fromisoformat(told["time"]).tzinfo is not None
        for form in ("jsonl", "csv"):
            result = run(*command, state, "--at", 0, "--format", form)
            assert result.stderr.startswith("note: version 0 of 20")
            assert result.stdout == run(*command, state, "--format", form).stdout
        assert "time" not in json.loads(run(*command, state, "--format", "json").stdout)


@pytest.mark.parametrize("text", ["soon", "", "-1", "12.5", "2026-13-01", "3 apples ago", "9999999w ago", "1e3"])
def test_what_is_no_version_and_no_time(state: Path, text: str) -> None:
    result = run("status", state, f"--at={text}")
    assert result.exit_code == 2
    assert f"--at {text!r} is neither a version nor a time" in result.stderr
    with pytest.raises(HoldstrueError, match="neither a version nor a time"):
        holdstrue.Monitor.open(state, at=text)


def test_versions_and_times_that_are_not_there(state: Path) -> None:
    ahead = run("status", state, "--at", 7)
    assert (ahead.exit_code, "has no version 7 yet: the newest is 0" in ahead.stderr) == (2, True)
    early = run("status", state, "--at", "2020-01-01")
    assert (early.exit_code, "that was there at 2020-01-01 00:00:00" in early.stderr) == (2, True)
    assert "version 0 is, from 20" in early.stderr
    assert run("status", state, "--at", "0s ago").exit_code == 0
    assert run("status", state, "--at", "2999-01-01T00:00Z").exit_code == 0
    for command in (("discover", "people.csv", "--at", 1), ("discover", "--at", 1)):
        assert "--at shows an earlier version of a discovery" in run(*command).stderr


def test_an_earlier_version_is_only_read(state: Path) -> None:
    monitor = holdstrue.Monitor.open(state, at=0)
    assert monitor.moment is not None
    assert monitor.moment.version == 0
    with pytest.raises(StateError, match="read-only"):
        monitor.apply("changes.csv")


def test_earlier_versions_of_a_state_in_shards(place: str) -> None:
    rows = pa.table({"id": range(40), "a": [n % 7 for n in range(40)], "b": [n % 5 for n in range(40)]})
    with holdstrue.Monitor.create(place, "a -> b", key="id", data=rows.slice(0, 5)):
        pass
    vacuum(place, 3600)
    how = Sizing(shards=2, blocks=1)
    monitor = Sharded(Loops(2), place, sizing=how)
    known = {}
    for start in range(5, 40, 5):
        monitor.apply([rows.slice(start, 5)])
        known[monitor.moment.version] = monitor.counts(), dict(monitor.rows)
    for version, (counts, count) in known.items():
        past = Sharded(Loops(2), place, sizing=how, at=version)
        assert (past.counts(), past.rows, past.moment.version) == (counts, count, version)
        assert {rule["name"]: rule["open"] for rule in run_json("status", place, "--at", version)["rules"]} == {
            "a -> b": counts["a -> b"].open
        }
        assert holdstrue.Monitor.open(place, at=version).counts() == counts
    with pytest.raises(StateError, match="can only be read"):
        past.apply([rows])
    first = Sharded(Loops(2), place, sizing=how, at=0)
    assert first.rows == {"data": 5}
    with pytest.raises(StateError, match="was written by one process"):
        first.counts()


@pytest.mark.parametrize("text", ["soon", "7", "-1d", "7y", "", "200000w"])
def test_what_is_no_time_to_keep(state: Path, text: str) -> None:
    for command in (("vacuum", state), ("init", "x", "--rule", "key(id)", "--key", "id")):
        result = run(*command, f"--keep={text}")
        assert result.exit_code == 2
        assert f"--keep {text!r} is not a time" in result.stderr
