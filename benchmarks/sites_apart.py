"""Sites as processes of their own over loopback: what a batch takes, and what crosses the sockets between them.

    python -m benchmarks.sites_apart --rows 100000 --changes 1000 --sites 2,6,10
    python -m benchmarks.sites_apart --each --rows 20000 --changes 20000 --sites 2,4,6,8,10   # Exp-4 and 9

With `--each` rows and changes are those of a site, so that they grow with the sites. Scale-up is the CPU time of the
busiest process at the first number of sites by that at another: ten processes on two cores say nothing by the clock.
The first site brings the batch, and its process is among those.

Every byte between sites goes through a proxy here that counts it, Flight's own frames and the caller's words included.
Violations are compared with those of one process before a figure counts.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent))

from competitors.split_relation import _holds, changes, sites_of
from workloads.joined import cfds, joined

BATCHES = 3
HEAD = (
    "load s", "batch ms", "CPU ms, busiest site", "CPU ms, all sites", "bytes on sockets a change",
    "of these shipped, counted by the channel", "scale-up",
)  # fmt: skip
TICKS = os.sysconf("SC_CLK_TCK")


class Proxy:
    """Listens for a site and hands on what comes, both ways, counting it."""

    def __init__(self, target: int) -> None:
        self.bytes = 0
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()  # the site is not there yet, or not any more
                continue
            threading.Thread(target=self._pump, args=(near, far), daemon=True).start()

    def _pump(self, near: socket.socket, far: socket.socket) -> None:
        other = {near: far, far: near}
        with selectors.DefaultSelector() as ready:
            for one in other:
                ready.register(one, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    try:
                        data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                    except ConnectionResetError:
                        data = b""
                    if not data:
                        near.close()
                        far.close()
                        return
                    self.bytes += len(data)
                    other[key.fileobj].sendall(data)  # type: ignore[index]


def main() -> None:
    """Measure both shapes with growing numbers of sites."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000, help="of all sites")
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--cfds", type=int, default=50)
    parser.add_argument("--sites", default="2,6,10")
    parser.add_argument("--shapes", default="vertical,horizontal")
    parser.add_argument("--each", action="store_true", help="rows and changes are those of each site")
    asked = parser.parse_args()
    print("| shape | sites | rows | changes | " + " | ".join(HEAD) + " |")
    print("|---" * (4 + len(HEAD)) + "|")
    for shape in asked.shapes.split(","):
        first = 0.0
        for count in map(int, asked.sites.split(",")):
            own = argparse.Namespace(**vars(asked))
            if asked.each:
                own.rows, own.changes = asked.rows * count, asked.changes * count
            with tempfile.TemporaryDirectory(prefix="holdstrue-apart-") as folder:
                cells, busiest = measure(own, shape, count, Path(folder))
            first = first or busiest
            told = [shape, str(count), f"{own.rows:,}", f"{own.changes:,}", *cells, f"{first / busiest:.2f}"]
            print("| " + " | ".join(told) + " |", flush=True)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def cpu_of(process: subprocess.Popen[bytes]) -> float:
    """Seconds of processor time that a process has taken, ended threads included."""
    told = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) / TICKS


def measure(asked: Any, shape: str, count: int, folder: Path) -> tuple[list[str], float]:
    """One line, and the CPU time of the busiest site: sites are started, loaded, given batches, compared and ended."""
    from holdstrue.fragments import Relation
    from holdstrue.fragments.declaration import load_declaration

    sites = sites_of(shape, count, joined(asked.rows))
    ports = [free_port() for _ in sites]
    proxies = [Proxy(port) for port in ports]
    told = []
    for site, proxy in zip(sites, proxies, strict=True):
        pq.write_table(site.source, folder / f"{site.name}.parquet")
        own = {"name": site.name, "source": f"{site.name}.parquet", "address": f"127.0.0.1:{proxy.port}"}
        told.append(own | ({} if site.where is None else {"where": site.where}))
    file = folder / "relation.yaml"
    file.write_text(json.dumps({"key": "id", "state": "state", "rules": cfds(asked.cfds), "sites": told}))
    command = [sys.executable, "-m", "holdstrue", "site", "serve", str(file)]
    processes = [
        subprocess.Popen(
            [*command, "--name", site.name, "--listen", f"127.0.0.1:{port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for site, port in zip(sites, ports, strict=True)
    ]
    try:
        for port in ports:
            _wait(port)
        caller = Caller(load_declaration(file))
        start = time.perf_counter()
        caller.call(sites[0].name, {"verb": "load"})
        loading = time.perf_counter() - start
        plain = Relation(sites, cfds(asked.cfds), "id")
        plain.load()
        times, crossed, shipped = [], 0, 0
        spent = [[0.0] * len(processes)]
        for number in range(BATCHES):
            batch = changed(asked, number)
            plain.apply(batch)
            for site in sites:
                caller.offer(site.name, own_part(site, batch), f"b{number}")
            before, start = sum(proxy.bytes for proxy in proxies), time.perf_counter()
            began = [cpu_of(process) for process in processes]
            head = caller.call(sites[0].name, {"verb": "apply", "batch": f"b{number}"})
            times.append(time.perf_counter() - start)
            spent.append([cpu_of(process) - at for process, at in zip(processes, began, strict=True)])
            crossed = sum(proxy.bytes for proxy in proxies) - before
            shipped = sum(one[-1] for one in head["shipped"])
        counts = caller.counts(sites)
        wanted = {rule: rows for rule, rows in plain.counts().items() if rows}
        if counts != wanted:
            raise SystemExit(f"the answers differ: {counts} and {wanted}")
        # the first batch has arrays grow; ticks of ten milliseconds are summed over the others
        sums = [sum(some) for some in zip(*spent[2:], strict=True)]
        busiest = max(sums) / (BATCHES - 1)
        cells = [
            f"{loading:.1f}",
            f"{min(times) * 1e3:.0f}",
            f"{busiest * 1e3:.0f}",
            f"{sum(sums) / (BATCHES - 1) * 1e3:.0f}",
            f"{crossed / asked.changes:.0f}",
            f"{shipped / asked.changes:.0f}",
        ]
        return cells, busiest
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


class Caller:
    """Who brings batches."""

    def __init__(self, declared: Any) -> None:
        from holdstrue.fragments.flight import Credentials, Wires

        self._declared = declared
        self._wires = Wires(declared.addresses, Credentials(), timeout=600.0)

    def call(self, site: str, head: dict[str, Any], body: bytes = b"") -> dict[str, Any]:
        """One word, and the answer to it."""
        from holdstrue.fragments.frames import framed
        from holdstrue.fragments.remote_host import called

        found, _ = called(self._wires.carry, site, framed(head, body), 0.0)
        return found

    def offer(self, site: str, rows: pa.Table, batch: str) -> None:
        """Give a site its part of a batch."""
        from holdstrue.shards.wire import pack
        from holdstrue.sources.feeds import read_changes

        read = read_changes(rows, key=("id",))
        table = read.rows.append_column(":op", pa.array(read.ops))
        self.call(site, {"verb": "offer", "batch": batch}, pack(table).to_pybytes())

    def counts(self, sites: Any) -> dict[str, int]:
        """By rule how many rows violate it, as the first site tells."""
        from holdstrue.fragments.apart_relation import ApartDelta
        from holdstrue.fragments.frames import framed
        from holdstrue.fragments.remote_host import called

        head, body = called(self._wires.carry, sites[0].name, framed({"verb": "violations of all"}, b""), 0.0)
        delta = ApartDelta.of(head, pa.ipc.open_stream(pa.BufferReader(body)).read_all())
        found = {rule: rows.num_rows for rule, rows in delta.added.items()}
        for part in delta.elsewhere.values():
            for rule, (rows, _) in part.items():
                found[rule] = found.get(rule, 0) + rows
        return found


def own_part(site: Any, batch: pa.Table) -> pa.Table:
    """What a site is offered: its columns of all changes, or the changes of its rows."""
    if site.where is None:
        return batch.select(["op", "id", *(name for name in site.columns if name != "id")])
    new = pa.compute.equal(batch.column("op"), "i")
    here = pa.compute.is_in(batch.column("id"), value_set=site.source.column("id").combine_chunks())
    own = pa.compute.or_(pa.compute.and_(new, _holds(site.where, batch)), pa.compute.and_(pa.compute.invert(new), here))
    return batch.filter(own)


def changed(asked: Any, number: int) -> pa.Table:
    """The changes of one batch: other rows than those of the batches before."""
    rows = changes(asked.rows, asked.changes)
    gone = rows.filter(pa.compute.equal(rows.column("op"), "d")).select(["id", "op"])
    new = joined(asked.changes - gone.num_rows, start=asked.rows + number * asked.changes, scale=asked.rows)
    new = new.append_column("op", pa.array(["i"] * new.num_rows))
    gone = gone.slice(0, gone.num_rows - 1)  # the last row of the base has no neighbour
    gone = gone.set_column(0, "id", pa.compute.add(gone.column("id"), number))
    return pa.concat_tables([new, gone], promote_options="default")


def _wait(port: int) -> None:
    for _ in range(900):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("a site does not answer")


if __name__ == "__main__":
    main()
