"""Spark servers as processes of this machine: a Connect server, a standalone master with its workers."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from holdstrue.spark.session import settings

HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
SOON = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a Java process that is to start at once rather than to run fast later."""
PATIENCE = 90.0
"""Seconds until a server that does not answer is given up; a Java process starts in 3 to 10."""


@dataclass
class Process:
    """A server process in a process group of its own, and the file of what it prints."""

    popen: subprocess.Popen[bytes]
    log: Path
    farewell: signal.Signals = signal.SIGTERM
    """The signal on which it ends in good order."""

    def said(self) -> str:
        """Everything it has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Return when it is ready; raise, with the end of its log, when it ends or takes too long."""
        limit = time.monotonic() + PATIENCE
        while not ready():
            if self.popen.poll() is not None or time.monotonic() > limit:
                state = "is not ready" if self.popen.poll() is None else f"ended with {self.popen.returncode}"
                raise RuntimeError(f"{self.log.stem} {state}:\n{self.said()[-3000:]}")
            time.sleep(0.1)

    def wait_until_said(self, words: str) -> None:
        """Return when it has printed certain words."""
        self.wait_until(lambda: words in self.said())

    def kill(self) -> None:
        """End it and its children now, as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def stop(self) -> None:
        """Ask it to end, and end it if it does not."""
        if self.popen.poll() is None:
            self.popen.send_signal(self.farewell)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(10)
        self.kill()


def launch(
    command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> Process:
    """Start a server that ends with this process, however that ends."""
    guard = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    with log.open("wb") as out:
        popen = subprocess.Popen(
            [*guard, *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=folder,
            start_new_session=True,
        )
    return Process(popen, log)


def free_port(host: str = LOOPBACK) -> int:
    """A port of an address of this machine that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def answers(port: int, host: str = LOOPBACK) -> bool:
    """Whether something listens on a port of an address."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def _environment(host: str = LOOPBACK) -> dict[str, str]:
    """What Spark's scripts read: this Python for the workers, one address for everything."""
    return {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": host,
        "PYSPARK_PYTHON": sys.executable,
        # masters and workers do little and end soon
        "SPARK_DAEMON_JAVA_OPTS": SOON,
    }


def _options(conf: Mapping[str, str]) -> list[str]:
    return [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]


@dataclass
class ConnectServer:
    """A running Spark Connect server."""

    url: str
    process: Process


@contextlib.contextmanager
def connect_server(
    master: str = "local[2]", conf: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None
) -> Iterator[ConnectServer]:
    """A Spark Connect server with our settings, from the jars of the installed pyspark."""
    port = free_port()
    chosen = settings(master) | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        **(conf or {}),
    }
    service = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with tempfile.TemporaryDirectory(prefix="holdstrue-connect-") as folder:
        process = launch(
            [str(HOME / "bin" / "spark-submit"), "--master", master, *_options(chosen), *service],
            Path(folder) / "connect.log",
            {**_environment(), **(env or {})},
        )
        try:
            process.wait_until(lambda: answers(port))
            yield ConnectServer(f"sc://127.0.0.1:{port}", process)
        finally:
            process.stop()


REGISTERED = "Successfully registered with master"


@dataclass
class Standalone:
    """A running standalone cluster."""

    url: str
    folder: Path
    master: Process
    processes: list[Process] = field(default_factory=list)

    @property
    def workers(self) -> list[subprocess.Popen[bytes]]:
        """The worker processes; each has an executor as its child while an application runs."""
        return [process.popen for process in self.processes]

    def add_workers(self, count: int) -> None:
        """Start workers with one core each, and wait until the master knows them."""
        added = [self._launch_worker(LOOPBACK) for _ in range(count)]
        for process in added:
            process.wait_until_said(REGISTERED)

    def add_worker(
        self,
        host: str = LOOPBACK,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> None:
        """Start a worker with one core at an address, and wait until the master knows it.

        Parameters
        ----------
        folder
            Where it works, and all that it runs; a folder of the cluster unless told.
        within
            The command that runs it, where it does not run in this process's own surroundings.
        """
        self._launch_worker(host, folder, env, within).wait_until_said(REGISTERED)

    def _launch_worker(
        self,
        host: str,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> Process:
        number = len(self.processes)
        process = launch(
            [
                *within,
                *(str(HOME / "bin" / "spark-class"), "org.apache.spark.deploy.worker.Worker"),
                *("--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"),
                *("--work-dir", str((folder or self.folder) / f"work{number}")),
                self.url,
            ],
            self.folder / f"worker{number}.log",
            {**_environment(host), **(env or {})},
            folder,
        )
        self.processes.append(process)
        return process

    def kill_worker(self, number: int) -> None:
        """End a worker with its executor and their Python processes, as when a machine is lost."""
        self.processes[number].kill()


@contextlib.contextmanager
def standalone(workers: int = 2, host: str = LOOPBACK) -> Iterator[Standalone]:
    """A standalone master and some workers of one core and 1 GB each."""
    port = free_port(host)
    with tempfile.TemporaryDirectory(prefix="holdstrue-standalone-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        master = launch(
            [
                *(str(HOME / "bin" / "spark-class"), "org.apache.spark.deploy.master.Master"),
                *("--host", host, "--port", str(port), "--webui-port", "0"),
            ],
            folder / "master.log",
            _environment(host),
        )
        cluster = Standalone(f"spark://{host}:{port}", folder, master)
        try:
            master.wait_until(lambda: answers(port, host))
            cluster.add_workers(workers)
            yield cluster
        finally:
            for process in (*cluster.processes, master):
                process.stop()
