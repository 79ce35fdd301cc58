"""`watch` on databases and lakehouse tables, killed at any of its calls to the file system: batches come once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from holdstrue import Monitor
from unit.cli.runs import run
from unit.cli.test_process_watch import watched
from unit.sources.test_following import FIRST, Delta, Iceberg, Lake, rows

RULE = "zip -> city"

Words = tuple[str, ...]
"""What `watch` is told beside the state."""


def of_duckdb(*how: str) -> Callable[[Path, Path], Words]:
    """A table of a DuckDB file, followed by a column or as snapshots."""

    def made(folder: Path, state: Path) -> Words:
        path = str(folder / "shop.db")
        with duckdb.connect(path) as shop:
            first = FIRST
            shop.execute("create table t as select *, 1 as seen from first")
        source = f"duckdb:{path}?table=t"
        init(state, source)
        with duckdb.connect(path) as shop:
            shop.execute("insert into t values (4, 'a', 'other', 9, 2), (5, 'b', 'z', 9, 3)")
            shop.execute("update t set city = 'else', seen = 4 where id = 1")
        assert first is FIRST
        return source, *how

    return made


def of_lake(make: Callable[[Path], Lake]) -> Callable[[Path, Path], Words]:
    """A lakehouse table with two versions that the state has not seen."""

    def made(folder: Path, state: Path) -> Words:
        lake = make(folder)
        init(state, lake.source)
        lake.append(rows((4, "a", "other", 9)))
        lake.delete(2)
        return (lake.source,)

    return made


def init(state: Path, source: str) -> None:
    result = run("init", state, "--rule", RULE, "--key", "id", "--data", source)
    assert result.exit_code in (0, 1), result.output


SOURCES = {
    "a column of DuckDB": of_duckdb("--by", "seen"),
    "snapshots of DuckDB": of_duckdb("--snapshot"),
    "Delta Lake with a feed": of_lake(lambda folder: Delta(str(folder / "lake"), feed=True)),
    "Iceberg": of_lake(Iceberg),
}


@pytest.mark.parametrize("source", SOURCES)
def test_killed_at_any_call(source: str, tmp_path: Path) -> None:
    """Whoever goes on finds what was committed, applies the rest, and ends as if nobody had been killed."""
    state, copies = tmp_path / "state", tmp_path / "copies"
    words = SOURCES[source](tmp_path, state)
    tests = Path(__file__).parents[2]
    paths = os.pathsep.join([str(tests), str(tests.parent / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "unit.cli.killed_watch", str(state), str(copies), *words],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    killed = re.search(r"^(\d+) killed, then 0$", done.stdout, re.MULTILINE)
    assert killed is not None, done.stdout + done.stderr
    left, wanted = everything(state), everything(copies / killed[1])
    assert len(wanted[-1]) > len(left[-1])
    reached = set()
    for number in range(int(killed[1])):
        copy = copies / str(number)
        before = everything(copy)[-1]
        assert before == wanted[-1][: len(before)], "a batch was applied in part"
        reached.add(len(before))
        lines = watched(copy, *words)
        assert len(before) + len(lines) == len(wanted[-1])
        assert everything(copy) == wanted
        assert watched(copy, *words) == []
        assert run("verify", copy).exit_code == 0
    # some were killed before the first batch was in, some after the last
    assert {len(left[-1]), len(wanted[-1])} <= reached


def everything(state: Path) -> tuple[Any, ...]:
    """Rows, violations, and what every batch did."""
    with Monitor.open(state, read_only=True) as monitor:
        lines = [(line.batch, line.added, line.removed, line.open) for line in monitor.history()]
        table: pa.Table = monitor.to_arrow()
        return monitor.rows, sorted(map(str, table.to_pylist())), lines
