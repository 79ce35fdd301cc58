"""Threads of the driver on one state: batches wait for each other, and every answer is of one version.

`tests/laws/test_threads.py` asks the same without Spark, and more.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdstrue.spark import Monitor
from laws import crowd
from spark.frames import frame, listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_threads_of_one_driver(spark: SparkSession, tmp_path: Path) -> None:
    state = tmp_path / "state"
    monitor = Monitor(spark, state, crowd.RULES, key="id", data=frame(spark, crowd.table(crowd.FIRST)))

    def write(writer: int, own: Monitor) -> None:
        for name in crowd.names(writer, 2):
            own.apply(frame(spark, crowd.table(crowd.changes(name))), name)

    def read() -> list[tuple[str, Any]]:
        # asked twice: an answer that is repeated would be older than what was read in between
        return [
            (what, answer())
            for _ in range(2)
            for what, answer in (
                ("counts", monitor.counts),
                ("history", lambda: [line.batch for line in monitor.history()]),
            )
        ]

    with ThreadPoolExecutor(3) as pool:
        # two of one monitor, and one with a monitor of its own, as a stream has
        writing = [pool.submit(write, 0, monitor), pool.submit(write, 1, Monitor(spark, state))]
        seen = pool.submit(read)
        for job in writing:
            job.result(300)
    order = list(dict.fromkeys(line.batch for line in monitor.history()))[1:]
    assert sorted(order) == sorted([*crowd.names(0, 2), *crowd.names(1, 2)])
    crowd.assert_in_order(seen.result(300), list(crowd.versions(order)))
    crowd.assert_last(monitor.counts(), listed(monitor.violations()), order)
