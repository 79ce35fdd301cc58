"""Laws of processes: writers of one state wait for each other, readers see versions of it, whole, all the while.

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
from laws import crowd

STEPS = int(os.environ.get("HOLDSTRUE_PROCESS_STEPS", "4"))
TESTS = Path(__file__).parents[1]


def started(*args: Any) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "laws.crowd_process", *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path})


@pytest.mark.parametrize(("writers", "readers", "checkpoint_from"), [(1, 1, 10_000), (3, 2, 20)])
def test_every_reader_sees_versions(tmp_path: Path, writers: int, readers: int, checkpoint_from: int) -> None:
    state = tmp_path / "state"
    Monitor.create(state, crowd.RULES, key="id", data=crowd.table(crowd.FIRST)).close()
    crowd_of = [started("read", state, writers, STEPS) for _ in range(readers)]
    crowd_of += [started("write", state, writer, STEPS, checkpoint_from) for writer in range(writers)]
    said = [process.communicate(timeout=900)[0] for process in crowd_of]
    assert [process.returncode for process in crowd_of] == [0] * len(crowd_of)
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
