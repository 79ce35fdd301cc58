"""Runs a small monitor through every kind of check, so that all kernels are loaded before the first real batch."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

LOADED = 5000
"""Rows of the first batch: above the 2,048 from which a kernel sorts and the 4,096 from which pairs are swept."""

ADDED = 300
"""Rows of the second batch: above the 128 that wait unsorted, so that runs are built, probed and merged."""

LISTED = 10
"""Violations listed of each rule: enough to run the code that lists."""

RULES = (
    "key(n, x)",
    "c -> d",
    "n, c -> d, e",
    "[n=1, c] -> [d]",
    "[n=2] -> [d='d1']",
    "not(t.n < 0)",
    "not null(c)",
    "not(t.n = s.n and t.c = s.c and t.d != s.d)",
    "not(t.n = s.n and t.d != s.d and t.e != s.e)",
    "not(t.n != s.n and t.day < s.day)",
    "not(t.n = s.n and t.x < s.x)",
    "not(t.n = s.n and t.e <= s.e)",
    "not(t.n = s.n and t.x > s.x and t.y < s.y)",
    "not(t.n = s.n and t.x >= s.x and t.y >= s.y)",
    "not(t.n = s.n and t.x > s.x and t.y < s.y and t.day > s.day)",
    "not(t.x > s.x and t.y < s.y)",
    "not(t.n = s.m and t.x > s.y)",
    "not(t.n > s.m)",
    "data.n in other.n",
    "data.(n, c) in other.(n, c)",
)
"""One rule for each way through the kernels: keys, (conditional) FDs, DCs with none to three inequalities,
with and without an equality, within a column and across columns, on numbers, text and dates, inclusions."""


def settle_cache() -> None:
    """Give numba a place for compiled code where neither the package nor the home folder can be written.

    Importing a kernel would fail there. To be called before numba is imported.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    beside = Path(__file__).parents[1] / "kernels" / "__pycache__"
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    if not _writable(beside) and not _writable(home / "numba"):
        os.environ["NUMBA_CACHE_DIR"] = str(_own_folder())


def _writable(folder: Path) -> bool:
    """Whether files can be made in a folder, found out as numba does."""
    try:
        folder = folder.expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError):  # RuntimeError: this user has no home folder
        return False
    return True


def _own_folder() -> Path:
    """A folder of this user for temporary files that outlive the process."""
    folder = Path(tempfile.gettempdir()) / f"holdstrue-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    # what lies in the cache is executed: a folder that somebody else made or may write is not used
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
        return folder
    return Path(tempfile.mkdtemp(prefix="holdstrue-"))


def warm() -> None:
    """Load every kernel from numba's cache on disk, or compile it and leave it there.

    Takes a second when the cache is filled, up to a minute when it is empty.
    """
    settle_cache()
    import numpy as np
    import pyarrow as pa

    from holdstrue.kernels import bounds, jit
    from holdstrue.monitor.check import check
    from holdstrue.monitor.monitor import Monitor

    jit.BUDGET.left = 0  # what is small is compiled too
    first = _rows(0, LOADED)
    other = first.slice(5).select(["id", "n", "c"])
    check(first, RULES, key="id", tables={"other": other}, limit=LISTED)
    monitor = Monitor(RULES, {"data": "id", "other": "id"}, data={"data": first, "other": other})
    updated = _rows(5, 20).append_column("op", pa.array(["update"] * 20))
    deleted = pa.table({"id": range(60), "op": ["delete"] * 60})
    for changes in (_rows(LOADED, ADDED), _rows(LOADED + ADDED, 20), updated, deleted):
        monitor.apply(changes, limit=LISTED)
    monitor.apply({"other": deleted.slice(30)}, limit=LISTED)
    monitor.apply(_rows(LOADED + ADDED + 20, 1), limit=LISTED)
    Monitor(RULES[1:2], "id", data=first.slice(0, 5)).preview(first.slice(5, 1), limit=LISTED)
    for rule in monitor.rules:
        list(monitor.violations(rule.name, limit=LISTED))
    for name in RULES[:5]:
        list(monitor.groups(name, limit=LISTED))
    monitor.offenders()
    bounds.unsorted(np.zeros(2, dtype=np.int64), False)  # offsets of long texts, which few tables have
    _through_files(first)


def _through_files(rows: pa.Table) -> None:
    """What only a monitor with a state directory runs; without a folder for it, that is left for later."""
    from holdstrue.monitor.monitor import Monitor

    try:
        folder = tempfile.TemporaryDirectory(prefix="holdstrue-warm-")
    except OSError:
        return
    with folder as place:
        with Monitor.create(Path(place) / "state", RULES[1:2], key="id", data=rows.slice(0, 5)) as monitor:
            monitor.apply(rows.slice(5, 1))
        Monitor.open(Path(place) / "state").close()


def _rows(start: int, count: int) -> pa.Table:
    """Rows that violate each rule now and then, with NULLs among them."""
    import numpy as np
    import pyarrow as pa

    number = np.arange(start, start + count)
    rare = number % 97 == 5
    n, y = number // 3, number * 0.5
    return pa.table(
        {
            "id": number,
            "n": n,
            "m": np.where(rare, n, 10**6),
            "c": pa.array([None if i % 89 == 0 else f"c{i // 4}" for i in number.tolist()], type=pa.string()),
            "d": [f"d{i % 2 if odd else 1}" for i, odd in zip(number.tolist(), rare.tolist(), strict=True)],
            "e": [f"e{i // 3:06d}" for i in number.tolist()],
            "x": number,
            "y": np.where(rare, y - 3, y),
            "day": pa.array(np.where(rare, 20001, 20000).astype(np.int32)).cast(pa.date32()),
        }
    )
