"""Workers of 512 MB: what does not fit lies in Spark's shuffle and in the files of shards, and answers are the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
import holdstrue.spark

rows = int(sys.argv[2])
spark = holdstrue.spark.start("local[2]", {"spark.executor.pyspark.memory": "512m", "spark.driver.memory": "512m"})
columns = ("id", "concat('Z', id % 9000) as zip", "concat('C', id % 9000 + if(id % 10007 = 3, 1, 0)) as city",
           "concat('S', id % 5) as state", "id * 10 as salary", "id * 10 + if(id % 200003 = 5, -65, 0) as rate")
base = spark.range(rows).selectExpr(*columns)
rules = ["key(id)", "zip -> city", "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)"]
monitor = holdstrue.spark.Monitor(spark, sys.argv[1], rules, key="id", data=base)
print(monitor.explain().splitlines()[0])
new = spark.range(rows, rows + 1000).selectExpr(*columns)
more = monitor.apply(new.selectExpr("id", "zip", "'elsewhere' as city", "state", "salary", "rate"), limit=0)
print([more.counts[rule].added for rule in more.counts])
gone = monitor.apply(new.selectExpr("id", "'delete' as op"), limit=0, feed="ops", op_column="op")
print([gone.counts[rule].removed for rule in gone.counts])
counts = [(c.open, c.rows) for c in monitor.counts().values()]
print(counts)
spark.stop()
"""


@pytest.mark.soak  # 700,000 rows in a session of its own take a minute
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit addresses")
def test_states_of_small_workers(tmp_path: Path) -> None:
    rows = 700_000
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "state"), str(rows)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    homes, added, removed, counts = done.stdout.splitlines()
    assert homes.startswith("6 homes"), "by the memory, not by the two tasks"
    assert (added, removed, counts) == expected(rows)


def expected(rows: int) -> tuple[str, str, str]:
    """What the batches add and remove, and how the rules stand, by the way in which the rows are made."""
    wrong = [i for i in range(rows) if i % 10007 == 3]
    groups: dict[int, list[int]] = {}
    for i in wrong:
        groups.setdefault(i % 9000, []).append(i)
    size = [len(range(z, rows, 9000)) for z in range(9000)]
    pairs = sum(len(own) * (size[z] - len(own)) for z, own in groups.items())
    in_groups = sum(size[z] for z in groups)
    # a rate that is too low by 65 is below that of the row before it in its state, which is 50 less, and of no other
    low = sum(1 for i in range(5, rows) if i % 200003 == 5)
    new = sum(size[i % 9000] for i in range(rows, rows + 1000))
    return f"[0, {new}, 0]", f"[0, {new}, 0]", f"[(0, 0), ({pairs}, {in_groups}), ({low}, {2 * low})]"
