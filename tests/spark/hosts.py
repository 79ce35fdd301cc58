"""Machines that share no folder, as processes of this one: each with its own folders, or its own network, too."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import holdstrue
from objects import environment
from servers import LOOPBACK
from spark.clusters import Standalone

PREFIX = "10.213.77"
"""The first three numbers of all addresses of the network that is made."""


@dataclass(frozen=True)
class Host:
    """A machine: what is called its own here, and how something is run on it."""

    name: str
    folder: Path
    address: str = LOOPBACK
    within: tuple[str, ...] = ()

    @property
    def cache(self) -> Path:
        """Its copies of files."""
        return self.folder / "cache"

    def copies(self) -> list[str]:
        """The names of the files in its cache."""
        found = (name for _, _, names in os.walk(self.cache) for name in names)
        return sorted(name for name in found if name.endswith(".arrow"))

    def env(self, store: str) -> dict[str, str]:
        """What its processes find in their environment: a store, their own credentials for it, their own folders."""
        return {
            **environment(store),
            "AWS_ACCESS_KEY_ID": self.name,
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "HOLDSTRUE_CACHE": str(self.cache),
            "PYTHONPATH": str(Path(holdstrue.__file__).parents[1]),
        }

    def join(self, cluster: Standalone, store: str) -> None:
        """Run a worker of a cluster."""
        cluster.add_worker(self.address, self.folder, self.env(store), self.within)


def made(name: str, folder: Path, address: str = LOOPBACK, within: Sequence[str] = ()) -> Host:
    """A machine with empty folders."""
    own = folder / name
    (own / "tmp").mkdir(parents=True)
    return Host(name, own, address, tuple(within))


def hidden(*folders: Path) -> tuple[str, ...]:
    """A command in whose surroundings folders are empty; none where only root may do that."""
    try:
        subprocess.run(["unshare", "--mount", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    mounts = " && ".join(f"mount -t tmpfs none {str(folder)!r}" for folder in folders)
    return "unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh"


@contextlib.contextmanager
def network(count: int) -> Iterator[list[str]]:
    """So many network namespaces, joined by a bridge whose address is the first; yields the names of the namespaces.

    Namespace i (from 0) has the address `PREFIX.(11 + i)`, this machine `PREFIX.1`. Only root can make them.
    """
    bridge = f"hs{os.getpid()}"
    names = [f"{bridge}n{number}" for number in range(count)]
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{PREFIX}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for number, name in enumerate(names):
            here, there = f"{name}a", f"{name}b"
            _ip("netns", "add", name)
            _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
            _ip("link", "set", here, "master", bridge, "up")
            _ip("-n", name, "addr", "add", f"{PREFIX}.{11 + number}/24", "dev", there)
            for link in (there, "lo"):
                _ip("-n", name, "link", "set", link, "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", bridge], check=False, capture_output=True)


@contextlib.contextmanager
def cut_off(space: str) -> Iterator[None]:
    """A namespace without its way to the others: what runs there runs on, and nobody hears of it."""
    _ip("link", "set", f"{space}a", "down")
    try:
        yield
    finally:
        _ip("link", "set", f"{space}a", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
