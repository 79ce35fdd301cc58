"""How much this process may hold: what its limits say, as Spark sets them for its workers."""

from __future__ import annotations

import ctypes
import os
import sys

MOST_POOLED = 2 << 30
"""What the open shards of one worker hold at most beside mapped files. Chosen, not tuned."""
SHARE = 8
"""Of the memory that is allowed, one part in so many is for open shards: the rest is for the batch at hand."""
TASK_ROWS = 1_000_000
"""Rows that a task of a check is for, where nothing limits its memory: what waits for it lies in the files of Spark's
shuffle, and not in memory."""
_LOADED = 700 << 20
"""What a worker addresses with Arrow and all kernels loaded."""
_ROW_BYTES = 1000
"""Of a row that is checked: some 300, and three times that, since keys do not fall evenly on tasks."""
_LEAST_ROWS = 50_000


def task_rows(allowed: int | None) -> int:
    """How many rows a task of a check is for, if its worker may address so much.

    >>> task_rows(None), task_rows(2 << 30), task_rows(1 << 30), task_rows(512 << 20)
    (1000000, 1000000, 339738, 50000)
    """
    if allowed is None:
        return TASK_ROWS
    return max(_LEAST_ROWS, min(TASK_ROWS, (allowed - _LOADED) // _ROW_BYTES))


def allowed_bytes() -> int | None:
    """The memory that this process may address, where that is limited.

    Spark sets this limit in each worker, to its share of `spark.executor.pyspark.memory`.
    """
    if sys.platform == "win32":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def pooled_bytes(allowed: int | None) -> int:
    """What open shards may hold.

    >>> pooled_bytes(None) >> 20, pooled_bytes(1 << 30) >> 20
    (2048, 128)
    """
    return MOST_POOLED if allowed is None else min(MOST_POOLED, allowed // SHARE)


def address_little() -> None:
    """Have allocators reserve no more addresses than they use, which a limit counts as if they were memory.

    Arrow's own allocator sets a gibibyte aside, and glibc 64 MiB for each thread: a worker with all kernels loaded had
    1,936 MiB of addresses for 278 MiB of memory, and has 592 after this. To be called before Arrow is imported.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # another C library has no arenas
            mallopt(_M_ARENA_MAX, 1)


_M_ARENA_MAX = -8
"""Of glibc's `malloc.h`."""
