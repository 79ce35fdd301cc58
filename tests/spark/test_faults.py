"""Exactly once, whatever dies: tasks, copies of tasks, drivers, machines. What a lost attempt wrote is never named."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from fault_proxy import FaultProxy, Kill
from holdstrue.spark import Monitor
from holdstrue.state import files as state_files
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import Journal
from holdstrue.state.manifest import files_of
from holdstrue.state.object_url import is_object_url
from holdstrue.state.store import LOG, RUNS
from laws.test_detection import assert_counts, found, nonempty
from spark import faulty
from spark.clusters import HOME, Standalone, launch, standalone
from spark.frames import listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(__file__).parents[1]
PATIENCE = 200.0
"""Seconds until a scenario that does not end is given up; the longest takes 40."""


@dataclass
class Scenario:
    """A process of its own with a driver in it, and the files of what it prints."""

    popen: subprocess.Popen[bytes]
    folder: Path

    def end(self, code: int = 0) -> list[dict[str, Any]]:
        """What it said until it ended as it should."""
        self.popen.wait(PATIENCE)
        assert self.popen.returncode == code, (self.folder / "errors").read_text()[-5000:]
        return [json.loads(line) for line in (self.folder / "said").read_text().splitlines()]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Scenario]]:
    """Starts scenarios, which find the tests' modules, and so do their workers."""
    started: list[Scenario] = []

    def run(*arguments: object, **more: str) -> Scenario:
        # pyspark leaves word of a Connect session to child processes, which then have no other
        env = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")} | more
        env["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, [env.get("PYTHONPATH")])])
        folder = tmp_path / f"scenario{len(started)}"
        folder.mkdir()
        command = [sys.executable, "-m", "spark.faulty", *map(str, arguments)]
        # into files: a Java process that outlives its driver for a moment would keep a pipe open
        with (folder / "said").open("wb") as out, (folder / "errors").open("wb") as errors:
            popen = subprocess.Popen(command, stdout=out, stderr=errors, env=env, start_new_session=True)
        started.append(Scenario(popen, folder))
        return started[-1]

    yield run
    for scenario in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(scenario.popen.pid, signal.SIGKILL)
        scenario.popen.wait()


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """Where attempts leave word that they were there."""
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def runs_at(place: str) -> set[str]:
    """The names of all runs that are there."""
    with StateFiles(place) as files:
        return {one.name.removeprefix(RUNS) for one in files.store.list(RUNS)}


def collected(place: str) -> set[str]:
    """Clear the state of what no manifest names; returns what that was."""
    # in a store young files are left alone, since there is no lock
    with mock.patch.object(state_files, "GRACE", 0.0), Journal.open(place, "monitor") as journal:
        return {gone.name.removeprefix(RUNS) for gone in journal.vacuum()}


def assert_only_named_files(place: str) -> None:
    """Every file there is is named, and every file that is named is there."""
    assert not faulty.lost_files(place)
    named = {file.name for file in files_of(StateFiles(place).manifest())}
    assert {name for name in named if not name.startswith(LOG)} <= runs_at(place)


def assert_attempts(path: str, lines: list[dict[str, Any]], first: int) -> None:
    """Each batch met its fault, left files of a lost attempt, and did what it should all the same."""
    for number, line in enumerate(lines, start=first):
        assert line["met"], line["fault"]
        assert line["lost"], f"no attempt was lost when a task {line['fault']}"
        before, after = faulty.truth(number), faulty.truth(number + 1)
        assert line["added"] == sum(len(after[rule] - before[rule]) for rule in after) > 0
        assert line["removed"] == sum(len(before[rule] - after[rule]) for rule in after) > 0
        assert line["again"], "the batch came again and was taken for another"
        assert line["standing"] == faulty.wanted(number + 1), line["fault"]
    last = StateFiles(path).manifest()
    lost = {name for line in lines for name in line["lost"]}
    assert not lost & {file.name for file in files_of(last)}
    assert lost <= collected(path) | (lost - runs_at(path))
    assert_only_named_files(path)


def test_tasks_that_die_or_run_twice(place: str, start: Callable[..., Scenario], marks: Path) -> None:
    """A worker is killed in the middle of a file, or after the last one; a copy of a task writes everything too."""
    lines = start("tasks", place, marks).end()
    assert [line["fault"] for line in lines] == [f"{fault} in {stage.__name__}" for stage, fault in faulty.FAULTS]
    assert_attempts(place, lines, 1)


def test_a_driver_that_is_killed(
    spark: SparkSession, place: str, start: Callable[..., Scenario], tmp_path: Path, to_stores: FaultProxy
) -> None:
    """Before the commit nothing happened; after it the batch is in, and the sinks get it when the stream goes on.

    In a store the commit is one request, which finds no server before it, and after it is not answered.
    """
    state, source, kept, called = place, *(tmp_path / name for name in ("source", "kept", "called"))
    source.mkdir()
    for number in range(4):
        rows = [{"op": op} | image for op, image in faulty.batch(number)]
        (source / f"{number}.json").write_text("\n".join(json.dumps(row) for row in rows))
        os.utime(source / f"{number}.json", (1_700_000_000 + number, 1_700_000_000 + number))

    def killed(when: str, batches: int) -> None:
        driver: list[Scenario] = []
        if is_object_url(state):
            # version 0 holds no batch
            entry = rf"PUT .*/log/{batches + 1:012d}"
            to_stores.plan({1: Kill(lambda: driver[0].popen.pid, after=when == "after")}, counting=entry)
            when = "by others"
        driver.append(start("stream", state, source, kept, called, when, batches))
        driver[0].end(-signal.SIGKILL)

    killed("before", 1)
    assert StateFiles(state).manifest()["batches"] == 1
    assert faulty.standing(state) == faulty.wanted(1)
    lost = set(faulty.lost_files(state))
    assert lost, "all tasks of the second batch had written"

    killed("after", 2)
    assert StateFiles(state).manifest()["batches"] == 3
    assert faulty.standing(state) == faulty.wanted(3)
    assert lost <= set(faulty.lost_files(state)), "what was lost stays lost"
    assert len(called.read_text().splitlines()) == 2, "nobody heard of the third batch"

    def hear(done: Any) -> None:
        with called.open("a") as lines:
            lines.write(done.delta.batch + "\n")

    monitor = Monitor(spark, state)
    files = spark.readStream.schema(faulty.DDL).option("maxFilesPerTrigger", 1).json(str(source))
    monitor.stream(files, [hear], checkpoint=kept, trigger={"availableNow": True}).awaitTermination()
    assert monitor.batches == 4
    names = called.read_text().splitlines()
    assert names == list(dict.fromkeys(line.batch for line in monitor.history()))
    assert [name.rsplit("-", 1)[1] for name in names] == ["0", "1", "2", "3"]
    assert found(listed(monitor.violations())) == nonempty(faulty.truth(4))
    assert_counts(monitor.counts(), faulty.truth(4))
    assert lost <= collected(state)
    assert_only_named_files(state)


def test_killed_at_every_moment(place: str, start: Callable[..., Scenario]) -> None:
    """One process does the work of all tasks and is killed after each file that it writes, and after the manifest.

    In a store it is killed after each request that changes it.
    """
    lines = start("everywhere", place).end()
    assert [line["killed"] for line in lines] == [True] * (len(lines) - 1) + [False]
    assert len(lines) > 4, "a file a task and stage, and the entry"


def add_machine(cluster: Standalone, host: str) -> None:
    """A worker at an address of its own: Spark does not run two copies of a task on one machine."""
    process = launch(
        [
            *(str(HOME / "bin" / "spark-class"), "org.apache.spark.deploy.worker.Worker"),
            *("--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"),
            *("--work-dir", str(cluster.folder / f"work at {host}")),
            cluster.url,
        ],
        cluster.folder / f"worker at {host}.log",
        {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": host, "PYSPARK_PYTHON": sys.executable},
    )
    cluster.processes.append(process)
    process.wait_until_said("Successfully registered with master")


@pytest.mark.soak  # a cluster at two addresses, and tasks that hang until Spark gives them up: scripts/faults runs it
def test_copies_of_tasks_and_lost_machines(start: Callable[..., Scenario], tmp_path: Path, marks: Path) -> None:
    """Spark itself runs a task twice at a time; then a machine goes, and its tasks run elsewhere."""
    path = str(tmp_path / "state")
    with standalone(workers=1) as cluster:
        add_machine(cluster, "127.0.0.2")
        lines = start("cluster", path, marks, cluster.url, "copied").end()
        assert [line["fault"] for line in lines] == ["hangs in Homes", "hangs in Routes"]
        assert_attempts(path, lines, 1)

        driver = start("cluster", path, marks, cluster.url, "lost")
        mark = marks / "3"
        limit = time.monotonic() + PATIENCE
        while not (mark.exists() and mark.read_text()):
            assert driver.popen.poll() is None and time.monotonic() < limit, "the task never came"
            time.sleep(0.1)
        sessions = [process.popen.pid for process in cluster.processes]
        cluster.kill_worker(sessions.index(int(mark.read_text())))
        lines = driver.end()
        assert_attempts(path, lines, 3)
        # Spark sees that a task run again says something else (its files have other names) and may give the job up
        assert lines[0]["failed"] is None or "indeterminate output" in lines[0]["failed"]
