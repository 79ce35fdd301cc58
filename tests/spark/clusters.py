"""Spark servers as processes of this machine: a Connect server, a standalone master with its workers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from holdstrue.spark.session import settings
from servers import LOOPBACK, Process, answers, free_port, launch

HOME = Path(pyspark.__file__).parent
SOON = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a Java process that is to start at once rather than to run fast later: queries of a few rows are hardly
ever the same, and Java takes longer to compile them well than they run."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


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
    chosen[_JAVA_OPTIONS] = f"{chosen[_JAVA_OPTIONS]} {SOON}"
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
