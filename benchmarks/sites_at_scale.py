"""Sites as processes over loopback at the paper's sizes: a load, then batches of growing size, for one kind of them.

    python -m benchmarks.sites_at_scale --rows 10000000 --shape vertical --series 2000,100000,1000000

Rows are made and written in parts, each site reads its own file and keeps its own state, so that no process holds more
than a site. CPU times are those of the sites' processes; ten of them share what cores there are, so that the clock
says little. Memory is what all of them have at once, shared pages counted once (Pss); the run ends above `--most-mb`.
What is printed last, a checksum of how many rows violate each rule, must be the same for both kinds. With `--lock FILE`
every measured call waits until it has the file to itself.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent))

from competitors.split_relation import INSERTS, _holds, sites_of
from sites_apart import Caller, Proxy, _wait, cpu_of, free_port
from workloads.joined import _mix, cfds, joined

HEAD = (
    "step", "changes", "wall s", "CPU s, all sites", "CPU s, busiest", "bytes on sockets a row", "shipped a row",
    "peak MB, all sites", "load",
)  # fmt: skip
SPREAD = 7_919_999
"""Rows are deleted in steps of so many, the first again after the last: no batch deletes what another did."""


def main() -> None:
    """Load once, apply the series."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--shape", default="vertical")
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--cfds", type=int, default=50)
    parser.add_argument("--series", default="2000,2000,10000,100000")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--lock", default=None)
    parser.add_argument("--most-mb", type=int, default=1 << 20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdstrue-scale-", dir=asked.folder) as folder:
        measure(asked, Path(folder))


@contextmanager
def alone(asked: Any) -> Iterator[None]:
    """The block has the machine's lock of measurements, where there is one."""
    if asked.lock is None:
        yield
        return
    with Path(asked.lock).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Memory:
    """What processes have together, looked at now and then; ends them when it is too much."""

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]], most: float) -> None:
        self._processes, self._most = processes, most
        self._peak = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while any(process.poll() is None for process in self._processes):
            now = sum(map(has_mb, self._processes))
            self._peak = max(self._peak, now)
            if now > self._most:
                print(f"{now:,.0f} MB are more than {self._most:,.0f}: the run ends", flush=True)
                for process in self._processes:
                    process.kill()
                os._exit(1)
            time.sleep(0.3)

    def peak(self) -> float:
        """The most since this was last asked."""
        found, self._peak = self._peak, 0.0
        return found


def measure(asked: Any, folder: Path) -> None:
    """Write the sources, start the sites, load, apply, print."""
    from holdstrue.fragments.declaration import load_declaration

    options = {"rows": asked.rows, "sites": asked.sites, "shape": asked.shape, "folder": str(folder)}
    # in a process of its own: what was made to be written is not this one's memory
    code = f"import sys; sys.path[:0] = {sys.path[:1]!r}; import competitors.split_relation as made"
    code += f"; made.written({options!r})"
    subprocess.run([sys.executable, "-c", code], check=True)
    sites = sites_of(asked.shape, asked.sites, joined(10))
    ports = [free_port() for _ in sites]
    proxies = [Proxy(port) for port in ports]
    told = []
    for site, proxy in zip(sites, proxies, strict=True):
        own = {"name": site.name, "source": f"{site.name}.parquet", "address": f"127.0.0.1:{proxy.port}"}
        told.append(own | ({} if site.where is None else {"where": site.where}))
    file = folder / "relation.yaml"
    file.write_text(json.dumps({"key": "id", "state": "state", "rules": cfds(asked.cfds), "sites": told}))
    command = [sys.executable, "-m", "holdstrue", "site", "serve", str(file)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [
        subprocess.Popen([*command, "--name", site.name, "--listen", f"127.0.0.1:{port}"], **quiet)  # type: ignore[call-overload]
        for site, port in zip(sites, ports, strict=True)
    ]
    try:
        for port in ports:
            _wait(port)
        caller, memory = Caller(load_declaration(file)), Memory(processes, asked.most_mb)
        print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")

        def step(name: str, rows: int, work: Callable[[], dict[str, Any]]) -> None:
            with alone(asked):
                before, began = sum(p.bytes for p in proxies), [cpu_of(p) for p in processes]
                start = time.perf_counter()
                memory.peak()
                told = work()
                wall = time.perf_counter() - start
                spent = [cpu_of(p) - at for p, at in zip(processes, began, strict=True)]
                crossed = sum(p.bytes for p in proxies) - before
            shipped = sum(one[-1] for one in told["shipped"])
            peak = memory.peak()
            figures = f"{wall:.2f} | {sum(spent):.2f} | {max(spent):.2f} | {crossed / rows:.0f} | {shipped / rows:.0f}"
            print(f"| {name} | {rows:,} | {figures} | {peak:,.0f} | {os.getloadavg()[0]:.1f} |", flush=True)

        step("load", asked.rows, lambda: caller.call(sites[0].name, {"verb": "load"}))
        fresh, gone = asked.rows, 0
        for number, count in enumerate(map(int, asked.series.split(","))):
            batch = batch_of(asked.rows, fresh, count, gone)
            fresh, gone = fresh + count, gone + count - round(count * INSERTS)
            for site in sites:
                caller.offer(site.name, part_of(site, batch), f"b{number}")
            apply = {"verb": "apply", "batch": f"b{number}"}
            del batch
            step("batch", count, lambda apply=apply: caller.call(sites[0].name, apply))  # type: ignore[misc]
        counts = caller.counts(sites)
        sum_ = hashlib.blake2b(json.dumps(sorted(counts.items())).encode(), digest_size=6).hexdigest()
        print(f"\n{asked.shape}: {len(counts)} rules violated by {sum(counts.values()):,} rows, checksum {sum_}")
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def batch_of(base: int, fresh: int, count: int, done: int) -> pa.Table:
    """New rows from number `fresh` on, and deletes spread over the base, of which so many rows are gone."""
    inserts = round(count * INSERTS)
    new = joined(inserts, start=fresh, scale=base).append_column("op", pa.array(["i"] * inserts))
    spread = next(step for step in range(SPREAD, SPREAD + base) if math.gcd(step, base) == 1)
    gone = np.arange(done, done + count - inserts, dtype=np.int64) * spread % base
    kept = pa.array((_mix(gone.astype(np.uint64), 13) % np.uint64(10)).astype(np.int64))
    kept = kept.cast(new.schema.field("warehouse").type)
    deletes = pa.table({"id": gone, "warehouse": kept, "op": ["d"] * gone.size})
    return pa.concat_tables([new, deletes], promote_options="default")


def part_of(site: Any, batch: pa.Table) -> pa.Table:
    """What a site is offered: its columns of all changes, or the changes of its rows."""
    if site.where is None:
        return batch.select(["op", "id", *(name for name in site.columns if name != "id")])
    return batch.filter(_holds(site.where, batch))


def has_mb(process: subprocess.Popen[bytes]) -> float:
    """The memory of a process; pages that it shares with others are divided between them."""
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0  # it has ended
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    main()
