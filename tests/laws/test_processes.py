"""Laws of processes: writers of one state wait for each other, or are told that another one was first and try again;
readers see versions of it, whole, all the while.

HOLDSTRUE_PROCESS_STEPS sets how many batches a writer applies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdstrue import Monitor
from holdstrue.state.files import StateFiles
from laws import crowd
from places import Places

STEPS = int(os.environ.get("HOLDSTRUE_PROCESS_STEPS", "4"))
TESTS = Path(__file__).parents[1]


def started(cache: Path, *args: Any) -> subprocess.Popen[str]:
    """A process, on a machine of its own as far as copies of objects go."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "laws.crowd_process", *map(str, args)]
    env = os.environ | {"PYTHONPATH": path, "HOLDSTRUE_CACHE": str(cache)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


CROWDS = [("local", 1, 1, 10_000), ("local", 3, 2, 20), ("s3", 2, 1, 10_000), ("s3", 5, 1, 20)]


@pytest.mark.parametrize(("places", "writers", "readers", "checkpoint_from"), CROWDS, indirect=["places"], ids=str)
def test_every_reader_sees_versions(
    places: Places, tmp_path: Path, writers: int, readers: int, checkpoint_from: int
) -> None:
    state = places.fresh()
    Monitor.create(state, crowd.RULES, key="id", data=crowd.table(crowd.FIRST)).close()
    crowd_of = [started(tmp_path / f"r{i}", "read", state, writers, STEPS) for i in range(readers)]
    crowd_of += [started(tmp_path / f"w{i}", "write", state, i, STEPS, checkpoint_from) for i in range(writers)]
    said = [process.communicate(timeout=900)[0] for process in crowd_of]
    assert [process.returncode for process in crowd_of] == [0] * len(crowd_of)
    print(f"{places.kind}, {writers} writers:", *said[readers:])
    with StateFiles(state) as files:
        versions, newest = files.versions(), files.manifest()
        assert versions[-1] == newest["version"] >= writers * STEPS
        assert set(range(newest["since"], versions[-1] + 1)) <= set(versions), "no version is missing"
        assert newest["committed"] == 1 + writers * STEPS
    with Monitor.open(state) as monitor:
        order = list(dict.fromkeys(line.batch for line in monitor.history()))[1:]
        assert sorted(order) == sorted(name for writer in range(writers) for name in crowd.names(writer, STEPS))
        crowd.assert_last(monitor.counts(), monitor.violations(), order)
    known = list(crowd.versions(order))
    for text in said[:readers]:
        seen = [json.loads(line) for line in text.splitlines()]
        assert [one["batches"] for one in seen] == sorted(one["batches"] for one in seen)
        assert seen[-1]["batches"] == 1 + len(order)
        for one in seen:
            version = known[one["batches"] - 1]
            assert one["counts"] == {rule: vars(counts) for rule, counts in version["counts"].items()}
            assert [tuple(violation) for violation in one["violations"]] == version["violations"]
            assert one["history"] == version["history"]
