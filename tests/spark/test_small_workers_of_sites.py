"""Sites of more rows than one worker may hold: cut into parts they are loaded and take batches, as in one process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
import pyarrow as pa
import holdstrue.spark
from holdstrue.errors import HoldstrueError
from holdstrue.fragments import Relation, Site

folder, rows = sys.argv[1], int(sys.argv[2])
rules = ["zip -> city", "[state='S1', zip] -> [street]", "[kind=3, zip] -> [city]"]
columns = ["id", "concat('Z', id % 9000) as zip", "concat('C', id % 9000 + if(id % 10007 = 3, 1, 0)) as city",
           "concat('S', id % 5) as state", "concat('street ', id % 9000) as street", "id % 7 as kind"]
where = ("kind < 5", "kind >= 5")
spark = holdstrue.spark.start("local[2]", {"spark.executor.pyspark.memory": "512m", "spark.driver.memory": "1g"})
base = spark.range(rows).selectExpr(*columns)

def sites(name):
    return [Site(f"S{i}", where=w, source=base.where(w), state=f"{folder}/{name}/S{i}") for i, w in enumerate(where)]

try:
    holdstrue.spark.relation(spark, sites("whole"), rules, "id", parts=1).load()
except HoldstrueError as error:
    print(error.message)
new = [*columns[:2], "'elsewhere' as city", *columns[3:], "'i' as op"]
gone = pa.table({"op": ["d"] * 500, "id": range(3, 503)})
batches = [spark.range(rows, rows + 1000).selectExpr(*new).toArrow(), gone]
found = holdstrue.spark.relation(spark, sites("parts"), rules, "id")
deltas = [found.load(), *(found.apply(batch, str(n)) for n, batch in enumerate(batches))]
changed, counts, parts = [delta.changed for delta in deltas], found.counts(), found.parts
held = {site: size["rows"] for site, size in found.sizes().items()}
own = [Site(f"S{i}", where=w, source=base.where(w).toArrow()) for i, w in enumerate(where)]
spark.stop()
plain = Relation(own, rules, "id")
wanted = [plain.load(), *(plain.apply(batch, str(n)) for n, batch in enumerate(batches))]
sums = [sum(rows.num_rows for side in (d.added, d.removed) for rows in side.values()) for d in wanted]
print(parts > 1, changed == sums and sum(sums) > 0, counts == plain.counts())
print(held == {site: size["rows"] for site, size in plain.sizes().items()})
"""


@pytest.mark.soak  # a million and a half rows in parts of few, in a session of its own, take four minutes
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit addresses")
def test_a_site_larger_than_a_worker(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), "1500000"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    *_, failed, equal, held = done.stdout.splitlines()
    assert "memory" in failed, "in one part it does not fit"
    assert (equal, held) == ("True True True", "True")
