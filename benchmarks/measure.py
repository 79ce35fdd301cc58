"""Clocks, memory and the machine: CPU time counts all threads of the process."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Span:
    """Time of one piece of work in milliseconds."""

    cpu_ms: float
    wall_ms: float


def timed(work: Callable[[], T]) -> tuple[T, Span]:
    """The result of some work and how long it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, Span((time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3)


def median(values: Sequence[float]) -> float:
    """The median, rounded to a microsecond."""
    return round(statistics.median(values), 3)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)


def rss_mb() -> float:
    """Memory of this process that is resident now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def peak_rss_mb() -> float:
    """The most memory this process ever had. `ru_maxrss` would also count that of the process which started it."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return round(int(line.split()[1]) / 2**10, 1)


def children_cpu_ms() -> float:
    """CPU time of the processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e3


def machine() -> dict[str, str | int]:
    """What the figures depend on, without the machine's name or paths."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    packages = ("holdstrue", "numpy", "numba", "pyarrow", "duckdb", "polars", "pyroaring", "desbordante")
    found: dict[str, str | int] = {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="minutes"),
        "cpu": model,
        "cores": os.cpu_count() or 0,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load": " ".join(f"{part:.1f}" for part in os.getloadavg()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def search_figures(found: Iterable[str], reads: Sequence[Span], searches: Sequence[Span]) -> dict[str, Any]:
    """What a search for rules reports: a digest of the rules, how many, and its times."""
    rules = sorted(found)
    return {
        "answer": hashlib.sha256("\n".join(rules).encode()).hexdigest(),
        "rules": len(rules),
        "read_ms": [span.wall_ms for span in reads],
        "cpu_ms": [span.cpu_ms for span in searches],
        "wall_ms": [span.wall_ms for span in searches],
        "peak_rss_mb": peak_rss_mb(),
    }
