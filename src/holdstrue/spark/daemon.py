"""Spark's Python daemon with everything a worker needs loaded beforehand, so that forked workers start at once.

Spark runs `python -m holdstrue.spark.daemon pyspark.worker` once on each executor where
`spark.python.daemon.module` names this module; the daemon forks a worker whenever a task wants one.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from contextlib import redirect_stdout
from importlib import import_module

from holdstrue.shards.memory import WORKER, address_little, untouched_bytes

LIMITED = "PYSPARK_EXECUTOR_MEMORY_MB"
"""What Spark tells the daemon where `spark.executor.pyspark.memory` limits its workers."""


def prepare() -> None:
    """Import the worker and load all kernels; what fails here is reported and left to the worker."""
    # a worker is one task on one core; and threads of the daemon would not survive its forks
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if os.environ.get(LIMITED):
        address_little()
    # Spark reads the daemon's port from standard output: nothing else may be written there
    with redirect_stdout(sys.stderr):
        try:
            from holdstrue.spark.warm import warm

            import_module("pyspark.worker")
            warm()
        except Exception:  # noqa: BLE001  without a daemon no job would run at all, with a cold one it does
            traceback.print_exc()
    _limit_memory()
    # workers collect garbage after each task: what is there now stays, and its pages stay shared
    gc.collect()
    gc.freeze()


def _limit_memory() -> None:
    """Have Spark's limit count memory, which is meant, where it counts addresses.

    Every worker has some 350 MiB of addresses for libraries of which it never touches a page: with a limit of 512 MiB
    none would have room for a single row.
    """
    limit = os.environ.get(LIMITED, "")
    if limit.isdigit():
        os.environ[LIMITED] = str(int(limit) + (untouched_bytes() >> 20))
        os.environ[WORKER] = limit


if __name__ == "__main__":
    from pyspark.daemon import manager

    prepare()
    manager()
