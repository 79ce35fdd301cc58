"""How much this process may hold: what its limits say, as Spark sets them for its workers."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from functools import cache
from pathlib import Path

from holdstrue.threads import available

UNLIMITED_SHARE = 2
"""Where nobody limits a worker, one part in so many of the machine's memory is for open shards, by cores: a batch of
1,000 rows on ten million under four rules (2.7 GB of open shards a worker) took 5.3 times an empty one where a worker
kept 2 GiB of them, and 1.2 times where it keeps all."""
SCARCE = 8
"""Where less than one part in so many of the machine's memory is available, open shards of unlimited workers are let go
of, half of them at a time: others need it more. Chosen, not tuned."""
SHARE = 4
"""Of the memory that is free for rows, one part in so many is for open shards: the rest is for the batch at hand."""
LOADED = 320 << 20
"""What a worker holds before it has rows: Python, Arrow, and all kernels. 273 MiB were measured."""

WORKER = "HOLDSTRUE_WORKER_MB"
"""What Spark's daemon tells its workers of the memory they may hold, which their limit of addresses does not show."""

ROWS_A_SHARD = 2_000_000
"""Rows that a shard should hold: a few hundred megabytes of arrays. Chosen, not tuned."""
LEAST_ROWS = 20_000
"""Smaller shards cost more for being many than they save."""
ROW_BYTES = 1200
"""What a row may take while the shard of a route is loaded: as it came, as it is kept, its place in the indexes,
and the checkpoint that is written. 140 to 200 beside the rows as they came were measured; the rest is margin."""


def allowed_bytes() -> int | None:
    """The memory that this process may hold, where that is limited.

    Spark sets this limit in each worker, to its share of `spark.executor.pyspark.memory`.
    """
    told = os.environ.get(WORKER, "")
    if told.isdigit():
        return int(told) << 20
    if sys.platform == "win32":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def free_bytes(worker: int | None) -> int | None:
    """What a worker that may hold so much has for rows.

    >>> free_bytes(None), free_bytes(1 << 30) >> 20, free_bytes(256 << 20) >> 20
    (None, 704, 64)
    """
    return None if worker is None else max(worker - LOADED, worker // 4)


def pooled_bytes(worker: int | None) -> int:
    """What the open shards of a worker that may hold so much may take.

    >>> pooled_bytes(1 << 30) >> 20, pooled_bytes(512 << 20) >> 20, pooled_bytes(None) > 0
    (176, 48, True)
    """
    free = free_bytes(worker)
    if free is not None:
        return free // SHARE
    return machine_bytes() // UNLIMITED_SHARE // available()


@cache
def machine_bytes() -> int:
    """The memory of this machine, or of the container that this process is in."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for place in _CONTAINER_LIMITS:
        if place.is_file() and (said := place.read_text().strip()).isdigit():
            found.append(int(said))
    return min(found)


def is_scarce() -> bool:
    """Whether little of the machine's memory, or of the container's, is left for anybody. Complexity: O(1), 50 us."""
    return available_bytes() < machine_bytes() // SCARCE


def available_bytes() -> int:
    """The memory that processes can get without others losing theirs; all of it where the system does not tell."""
    found = [machine_bytes()]
    if _MEMORY.is_file():
        told = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines())
        found += [int(told["MemAvailable"].split()[0]) << 10] if "MemAvailable" in told else []
    limit, used, parts = (_CONTAINER / name for name in ("memory.max", "memory.current", "memory.stat"))
    if limit.is_file() and (most := limit.read_text().strip()).isdigit():
        # files that were read and are not used any more count as the container's, and go when room is asked for
        cached = next((int(line.split()[1]) for line in parts.read_text().splitlines() if "inactive_file" in line), 0)
        found.append(int(most) - int(used.read_text()) + cached)
    return min(found)


_MEMORY, _CONTAINER = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
"""Where Linux tells what is free, of the machine and of a container."""

_CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where Linux tells the limit of a container, by its version of control groups; `max` where there is none."""


def rows_a_shard(worker: int | None) -> int:
    """How many rows a shard should have, so that a worker that may hold so much can load it.

    >>> rows_a_shard(None), rows_a_shard(4 << 30), rows_a_shard(512 << 20)
    (2000000, 2000000, 134217)
    """
    free = free_bytes(worker)
    if free is None:
        return ROWS_A_SHARD
    return max(LEAST_ROWS, min(ROWS_A_SHARD, int(free / (1 + 1 / SHARE) / ROW_BYTES)))


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
            # what is large goes back when it is freed, however often as much is asked for again
            mallopt(_M_MMAP_THRESHOLD, _LARGE)


_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3
"""Of glibc's `malloc.h`."""
_LARGE = 256 << 10


def give_back() -> None:
    """Free what nobody uses any more, structures that know each other included. Complexity: O(objects)."""
    gc.collect()
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    trim_heap()


def trim_heap() -> None:
    """Let the system have memory that is freed and that the allocator keeps. Complexity: O(free pages)."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def untouched_bytes() -> int:
    """Addresses that this process has and no memory is behind: mostly libraries, of which few parts are used."""
    if sys.platform != "linux":
        return 0
    with Path("/proc/self/statm").open() as file:
        size, resident, *_ = map(int, file.read().split())
    return (size - resident) * os.sysconf("SC_PAGE_SIZE")
