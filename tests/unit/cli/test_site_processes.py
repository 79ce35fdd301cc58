"""Sites as processes on loopback, killed without warning: a batch is everywhere or nowhere."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue.fragments.apart_relation import ApartDelta
from holdstrue.fragments.flight import Credentials, Wires
from holdstrue.fragments.frames import UnreachableError, framed
from holdstrue.fragments.remote_host import called
from holdstrue.shards.wire import pack
from holdstrue.sources.feeds import read_changes
from unit.cli.runs import run
from unit.fragments.test_sites_flight import Proxy

FILE = """
key: id
rules: [a -> b]
state: state
sites:
- {name: s0, where: "company = 's0'", source: s0.csv, address: "127.0.0.1:%d"}
- {name: s1, where: "company = 's1'", source: s1.csv, address: "127.0.0.1:%d"}
"""


class World:
    """Two sites that are processes; the second one is reached through a proxy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proxy = Proxy()
        self.ports = {"s0": free_port(), "s1": free_port()}
        self.proxy.target = self.ports["s1"]
        (folder / "r.yaml").write_text(FILE % (self.ports["s0"], self.proxy.port))
        for name in self.ports:
            (folder / f"{name}.csv").write_text(f"id,company,a,b\n{name},{name},x,1\n")
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        for name in self.ports:
            self.start(name)
        self.wires = Wires({name: f"127.0.0.1:{port}" for name, port in self.ports.items()}, Credentials())

    def start(self, name: str) -> None:
        words = [sys.executable, "-m", "holdstrue", "site", "serve", "r.yaml", "--name", name]
        words += ["--listen", f"127.0.0.1:{self.ports[name]}"]
        self.running[name] = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.PIPE)
        out = self.running[name].stdout
        assert out is not None and b"listens" in out.readline()

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.running[name].wait()

    def ask(self, name: str, verb: str, body: bytes = b"", **fields: Any) -> Any:
        head, found = called(self.wires.carry, name, framed({"verb": verb, **fields}, body), 0.0)
        if head["kind"] == "delta":
            return ApartDelta.of(head, pa.ipc.open_stream(pa.BufferReader(found)).read_all())
        return head["answer"]

    def offer(self, name: str, key: str, batch: str) -> None:
        read = read_changes(pa.table({"op": ["i"], "id": [key], "company": [name], "a": ["x"], "b": [2]}), key=("id",))
        self.ask(name, "offer", pack(read.rows.append_column(":op", pa.array(read.ops))).to_pybytes(), batch=batch)

    def violating(self) -> list[set[str]]:
        return [self.ask(name, "violations of all").added_keys("a -> b") for name in self.ports]

    def close(self) -> None:
        self.wires.close()
        self.proxy.close()
        for process in self.running.values():
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_what_is_not_loaded_is_not_said_to_be_clean(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        for words in (("violations",), ("apply", "--batch-id", "monday")):
            result = run("site", words[0], tmp_path / "r.yaml", *words[1:], "--name", "s0")
            assert result.exit_code == 2 and "the relation is not loaded" in result.stderr
            assert "holdstrue site load FILE --name SITE" in result.stderr
        assert run("site", "load", tmp_path / "r.yaml", "--name", "s0").exit_code == 0
        assert run("site", "violations", tmp_path / "r.yaml", "--name", "s0").exit_code == 0
        # what a person slips on is refused, and leaves nothing behind
        slip = tmp_path / "slip.csv"
        slip.write_text("op,id,company,a,b\ninser,n1,s0,x,2\n")
        refused = run("site", "offer", tmp_path / "r.yaml", slip, "--name", "s0", "--batch-id", "one")
        assert refused.exit_code == 2 and "slip.csv: unknown operation 'inser'" in refused.stderr
        slip.write_text("op,id,company,a,b\ninsert,s0,s0,x,2\n")
        refused = run("site", "apply", tmp_path / "r.yaml", slip, "--name", "s0")
        assert refused.exit_code == 2 and "exists already" in refused.stderr
        assert world.ask("s0", "status")["offered"] == []
        slip.write_text("op,id,company,a,b\ninsert,n1,s0,x,1\n")
        assert run("site", "apply", tmp_path / "r.yaml", slip, "--name", "s0", "--batch-id", "one").exit_code == 0
        again = run("site", "offer", tmp_path / "r.yaml", slip, "--name", "s0", "--batch-id", "one")
        assert again.exit_code == 0 and "batch one was applied before" in again.output
    finally:
        world.close()


def test_processes_that_are_killed(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        assert not world.ask("s0", "load").added
        world.offer("s0", "n0", "one")
        world.offer("s1", "n1", "one")
        # a site that is down: nothing is applied, and all of it when it is back
        world.kill("s1")
        world.start("s1")
        before: list[set[str]] = [set(), set()]

        # who brings the batch is killed when it tells the other site to commit
        def killing(data: bytes) -> None:
            if b'"verb":"commit"' in data:
                world.kill("s0")

        world.proxy.watched = killing
        with pytest.raises(UnreachableError):
            world.ask("s0", "apply", batch="one")
        world.proxy.watched = lambda _: None
        world.start("s0")
        time.sleep(0.1)
        after = [{"s0", "n0"}, {"s1", "n1"}]
        assert world.violating() in (before, after)
        world.ask("s1", "apply", batch="one")
        assert world.violating() == after
        assert world.ask("s0", "apply", batch="one").repeated
        assert {world.ask(name, "status")["last"] for name in world.ports} == {"one"}
    finally:
        world.close()
