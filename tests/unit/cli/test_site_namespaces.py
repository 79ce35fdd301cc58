"""Sites as hosts apart in network namespaces, cut off from each other in the middle of a batch and joined again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.apart_relation import ApartDelta
from holdstrue.fragments.flight import Credentials, Wires
from holdstrue.fragments.frames import framed
from holdstrue.fragments.remote_host import called
from holdstrue.shards.wire import pack
from holdstrue.sources.feeds import read_changes
from spark.hosts import PREFIX, cut_off, network

FILE = """
key: id
rules: [a -> b]
state: state
sites:
- {name: s0, where: "company = 's0'", source: s0.csv, address: "%s.11:7001"}
- {name: s1, where: "company = 's1'", source: s1.csv, address: "%s.12:7001"}
"""
NAMES = ("s0", "s1")
TOKEN = Credentials(token="open sesame")


def is_root() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0 and shutil.which("ip") is not None


def told(wires: Wires, name: str, verb: str, body: bytes = b"", **fields: Any) -> Any:
    head, found = called(wires.carry, name, framed({"verb": verb, **fields}, body), 30.0)
    if head["kind"] == "delta":
        return ApartDelta.of(head, pa.ipc.open_stream(pa.BufferReader(found)).read_all())
    return head["answer"]


def offer(wires: Wires, name: str, key: str, batch: str) -> None:
    read = read_changes(pa.table({"op": ["i"], "id": [key], "company": [name], "a": ["x"], "b": [key]}), key=("id",))
    told(wires, name, "offer", pack(read.rows.append_column(":op", pa.array(read.ops))).to_pybytes(), batch=batch)


@pytest.mark.soak  # a word to a host that is cut off waits a minute; only root may make namespaces
@pytest.mark.skipif(not is_root(), reason="only root makes network namespaces")
def test_hosts_that_are_cut_off(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(FILE % (PREFIX, PREFIX))
    for name in NAMES:
        (tmp_path / f"{name}.csv").write_text(f"id,company,a,b\n{name},{name},x,{name}\n")
    with network(2) as spaces:
        running = []
        wires = Wires({name: f"{PREFIX}.{11 + at}:7001" for at, name in enumerate(NAMES)}, TOKEN, timeout=120.0)
        try:
            for space, name in zip(spaces, NAMES, strict=True):
                words = [sys.executable, "-m", "holdstrue", "site", "serve", "r.yaml", "--name", name]
                words = ["ip", "netns", "exec", space, *words, "--token", str(TOKEN.token)]
                running.append(subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE))
                out = running[-1].stdout
                assert out is not None and b"listens" in out.readline()
            expected = {name: {name} for name in NAMES}
            told(wires, "s0", "load")
            for number, after in enumerate((0.0, 0.02, 0.1)):
                for name in NAMES:
                    offer(wires, name, f"{name}-{number}", str(number))
                before = {name: set(keys) for name, keys in expected.items()}
                expected = {name: keys | {f"{name}-{number}"} for name, keys in expected.items()}
                cut_in_the_middle(wires, spaces[1], str(number), after)
                found = {name: told(wires, name, "violations of all").added_keys("a -> b") for name in NAMES}
                assert found in (before, expected), "everywhere or nowhere"
                told(wires, "s1", "apply", batch=str(number))
                assert told(wires, "s0", "apply", batch=str(number)).repeated
                found = {name: told(wires, name, "violations of all").added_keys("a -> b") for name in NAMES}
                assert found == expected
        finally:
            wires.close()
            for process in running:
                process.kill()
                process.wait()


def cut_in_the_middle(wires: Wires, space: str, batch: str, after: float) -> None:
    """The first site brings a batch, and the second is cut off some time after that, for a while."""

    def bring() -> None:
        try:
            told(wires, "s0", "apply", batch=batch)
        except HoldstrueError as error:
            failed.append(error)

    failed: list[HoldstrueError] = []
    bringing = threading.Thread(target=bring)
    if after:
        bringing.start()
        time.sleep(after)
    with cut_off(space):
        if not after:
            bringing.start()
        time.sleep(3)
    bringing.join(180)
    assert not bringing.is_alive()
