"""A process of its own: a check of a large table by a driver of 512 MB that may be sent 4 MB, and small workers.

    python little_memory.py ROWS FOLDER WORKER_MEMORY

It prints what was found, as JSON.
"""

from __future__ import annotations

import json
import sys

from holdstrue.spark import check
from holdstrue.spark.session import start

RULES = [
    "key(id)",
    "g -> h",
    "not(t.x < 0)",
    "not null(g, y)",
    "not(t.g = s.g and t.x < s.x and t.y > s.y)",
]
COLUMNS = (
    "id",
    "cast(id % 1000 as int) as g",
    "if(id = 777, 1, 0) as h",
    "cast(id div 1000 as int) as x",
    "cast(if(id = 12345, -1, id div 1000) as int) as y",
)


def main(rows: int, folder: str, workers: str) -> None:
    """Write the table, check it, say how it stands."""
    settings = {
        "spark.driver.memory": "512m",
        "spark.driver.maxResultSize": "4m",
        "spark.executor.pyspark.memory": workers,
    }
    spark = start("local[2]", settings)
    spark.range(rows).selectExpr(*COLUMNS).write.parquet(folder)
    report = check(spark.read.parquet(folder), RULES, limit=3)
    counts = [[r.counts.rows, r.counts.pairs] for r in report.results]
    print(json.dumps({"counts": counts, "rows": report.rows["data"], "native": report.native.rules}))
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
