"""What the daemon loads before it forks: all kernels, from a cache that nobody else can write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdstrue.spark import warm

SCRIPT = """
import sys
import datetime as dt
from decimal import Decimal
import pyarrow as pa
from holdstrue.kernels.jit import Kernel
from holdstrue.spark.warm import warm

def loaded():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("holdstrue.kernels.")]
    found = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, Kernel)}
    return {(d.__module__, d.__name__, str(s)) for d in found.values() for s in d.signatures}

warm()
before = loaded()
assert before

from holdstrue import Monitor, check
from holdstrue.rules import load_rules

def rows(start, count):
    numbers = range(start, start + count)
    return pa.table({
        "id": [f"k{i}" for i in numbers],
        "g": [None if i % 7 == 0 else i // 5 for i in numbers],
        "flag": [i % 2 == 0 for i in numbers],
        "price": pa.array([Decimal(i % 50) for i in numbers], pa.decimal128(10, 2)),
        "at": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=i) for i in numbers],
        "name": pa.array([f"n{i // 2}" for i in numbers], pa.large_string()),
    })

rules = load_rules('''
nulls: equal
rules:
- rule: key(g, name)
- rule: g -> flag, price
- rule: not(t.g = s.g and t.price < s.price and t.at > s.at)
- rule: not(t.name = s.name and t.flag != s.flag)
- rule: not(t.name < s.name and t.at > s.at and t.g = s.g)
''')
check(rows(0, 6000), rules, key="id")
monitor = Monitor(rules, "id", data=rows(0, 6000))
monitor.apply(rows(6000, 500))
monitor.apply(rows(7000, 5))
monitor.apply(rows(10, 30).append_column("op", pa.array(["update"] * 30)))
monitor.apply(pa.table({"id": [f"k{i}" for i in range(100)], "op": ["delete"] * 100}))
list(monitor.violations(limit=1000))
print(*sorted(loaded() - before), sep="\\n", end="")
"""


def test_nothing_is_left_to_compile() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_cache_that_was_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "chosen")
    warm.settle_cache()
    assert os.environ["NUMBA_CACHE_DIR"] == "chosen"


def test_where_nothing_can_be_written_the_cache_is_a_folder_of_this_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # set and taken away again, so that what settle_cache sets is undone
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setattr(warm, "_writable", lambda folder: False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    warm.settle_cache()
    folder = Path(os.environ["NUMBA_CACHE_DIR"])
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700
    # the next process finds what this one compiled
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    warm.settle_cache()
    assert Path(os.environ["NUMBA_CACHE_DIR"]) == folder


def test_a_folder_that_others_can_write_is_not_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    planted = tmp_path / f"holdstrue-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    assert warm._own_folder() != planted


def test_a_folder_under_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not warm._writable(tmp_path / "file" / "cache")
    assert warm._writable(tmp_path / "cache")


LIMITED = """
import os
import resource
from holdstrue.spark.daemon import prepare

prepare()
# as Spark's worker does after the fork
limit = int(os.environ["PYSPARK_EXECUTOR_MEMORY_MB"]) << 20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

import pyarrow as pa
from holdstrue import check
from holdstrue.shards.memory import allowed_bytes, pooled_bytes

print(pooled_bytes(allowed_bytes()) >> 20)
rows = 200_000
table = pa.table({"id": range(rows), "g": [i % 500 for i in range(rows)], "x": [-i for i in range(rows)]})
report = check(table, ["g -> x", "not(t.g = s.g and t.id < s.id and t.x < s.x)"], key="id", limit=0)
print([result.counts.open for result in report.results])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit addresses")
@pytest.mark.parametrize(("memory", "pooled"), [(1024, 176), (512, 48)])
def test_a_limited_worker_has_room_for_rows(memory: int, pooled: int) -> None:
    """With `spark.executor.pyspark.memory` a worker may address so much, and allocators like to reserve more."""
    environment = {**os.environ, "PYSPARK_EXECUTOR_MEMORY_MB": str(memory)}
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, f"{pooled}\n[39900000, 0]\n"), done.stderr
