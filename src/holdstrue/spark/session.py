"""The one place where a Spark session is made, with the reason for every setting beside it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdstrue.errors import HoldstrueError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
"""What Spark 4 runs on."""

OLDEST_PYSPARK = (4, 2)
"""The first with `repartitionById` and what `mapInArrow` needs here."""

CONNECT_PORT = 15002
"""Where a Spark Connect server listens unless told otherwise."""

LOGGING = Path(__file__).with_name("log4j2.properties")

_INSTALL = "pip install 'holdstrue[spark]'"
_JAVA_HINT = f"install Java {OLDEST_JAVA} or newer (on Debian: apt-get install openjdk-17-jre-headless)"
_SERVER_HINT = "is a Spark Connect server running there?"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

# the Java runtime prints these before any logging is set up; they concern modules that Spark itself asks for
_CHATTER = (b"WARNING: Using incubator modules: ", b"WARNING: package sun.security.action not in java.base")


def start(master: str = "local[*]", conf: Mapping[str, str] | None = None, *, app: str = "holdstrue") -> SparkSession:
    """A Spark session set up for holdstrue; an existing session of this process is used again.

    Parameters
    ----------
    master
        `local[N]`, `spark://host:port`, `yarn`, `k8s://...`, or `sc://host:port` for a Spark
        Connect server. On a cluster the workers need holdstrue installed, in the Python that
        `PYSPARK_PYTHON` names; a Connect server is set up by whoever starts it (see `settings`).
    conf
        Further Spark settings; they go before the ones made here. `{"spark.log.level": "INFO"}`
        shows what Spark does.
    """
    own = dict(conf or {})
    require_pyspark()
    if master.startswith("sc://"):
        return _connect(master, session_settings() | own)
    require_java()
    if on_this_machine(master):
        # workers would otherwise run whichever python3 comes first on the PATH
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return _launch({"spark.master": master, "spark.app.name": app} | _joined(settings(master), own))


def require_pyspark() -> None:
    """Refuse to go on without a PySpark that has what is used here."""
    try:
        import pyspark
    except ImportError as error:
        raise HoldstrueError("pyspark is not installed", hint=_INSTALL) from error
    found = re.match(r"(\d+)\.(\d+)", pyspark.__version__)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_PYSPARK:
        oldest = ".".join(map(str, OLDEST_PYSPARK))
        raise HoldstrueError(
            f"PySpark {pyspark.__version__} is too old: holdstrue needs {oldest} or newer", hint=_INSTALL
        )


def session_settings() -> dict[str, str]:
    """Settings that any session may change at any time, a remote one too."""
    return {
        # a task hands its rows to the kernels at once: with the default of 10,000 rows a batch, ten times as many
        # small batches are converted and joined again
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        # cells that hold many rows are handed to a task some at a time: with the default of 256 MB two tasks took all
        # that Java with 1 GB may have outside of its heap
        "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
        # mapInArrow converts nothing and takes columns by position: with this a batch whose names or types are not
        # the declared ones is refused, and both are named
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        # Spark may change a plan while it runs, e.g. join small parts after a shuffle; the n parts of
        # repartition(n, ...) stay n. Left on for the joins of a caller's own frames: a batch of 1,000 rows in two
        # parts took 0.227 s with it and 0.215 s without
        "spark.sql.adaptive.enabled": "true",
        # text is read as a timestamp, and a timestamp written as text, the same way on every machine
        "spark.sql.session.timeZone": "UTC",
    }


def settings(master: str) -> dict[str, str]:
    """Settings of a session that is made here; those of a Connect server are given to the server when it starts."""
    chosen = session_settings() | {
        # nobody looks at the web page of a short run, and its port may be taken
        "spark.ui.enabled": "false",
        # the bar would be drawn over what the command prints
        "spark.ui.showConsoleProgress": "false",
        # a Python worker stays for the next task, with its kernels loaded (Spark's default, and relied upon)
        "spark.python.worker.reuse": "true",
        # workers are forked from a process that has everything loaded
        "spark.python.daemon.module": "holdstrue.spark.daemon",
        # what Spark says at its start goes nowhere, what it says of errors goes to the console
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
    }
    if on_this_machine(master):
        # the driver talks to this machine only: no look-up of the host name, no port open to others
        chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    cores = _local_cores(master)
    if cores is not None:
        # one process does all the work: more parts than cores only cost scheduling (the default is 200)
        chosen["spark.sql.shuffle.partitions"] = str(cores)
        # driver and executor are one Java process; the tables are held by the Python workers beside it
        chosen["spark.driver.memory"] = f"{_driver_gigabytes()}g"
    return chosen


def on_this_machine(master: str) -> bool:
    """Whether driver and workers share a machine, and so its Python and its loopback address."""
    return _local_cores(master) is not None or re.match(r"spark://(localhost|127\.\d+\.\d+\.\d+):", master) is not None


def _local_cores(master: str) -> int | None:
    """How many tasks `local[N]` runs at a time; None for other masters."""
    if master == "local":
        return 1
    found = re.fullmatch(r"local(?:-cluster)?\[(\*|\d+)(?:,.*)?\]", master)
    if found is None:
        return None
    return len(os.sched_getaffinity(0)) if found[1] == "*" else int(found[1])


def _driver_gigabytes() -> int:
    """A quarter of the machine's memory, at most 8 GB: rows only pass through Java."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(8, (total >> 30) // 4))


def _joined(ours: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The caller's settings over ours; options of the Java runtime are added, where the last of a name counts."""
    joined = {**ours, **own}
    if _JAVA_OPTIONS in own:
        joined[_JAVA_OPTIONS] = f"{ours[_JAVA_OPTIONS]} {own[_JAVA_OPTIONS]}"
    return joined


def require_java() -> None:
    """Refuse to go on without a Java that Spark runs on: `JAVA_HOME`'s, or the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise HoldstrueError("Spark needs Java, and there is none on the PATH", hint=_JAVA_HINT)
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr  # noqa: S603
    except (OSError, subprocess.CalledProcessError) as error:
        wrong = "unset JAVA_HOME or point it to a Java" if home else _JAVA_HINT
        raise HoldstrueError(f"{java} does not run: {error}", hint=wrong) from error
    # 1.8.0_402 was the last of the old style
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None or int(found[1]) < OLDEST_JAVA:
        told = f"Java {found[1]}" if found else "of unknown version"
        raise HoldstrueError(f"Spark needs Java {OLDEST_JAVA} or newer, {java} is {told}", hint=_JAVA_HINT)


def _launch(chosen: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
    if SparkContext._gateway is None:
        SparkContext(conf=conf, gateway=_quiet_gateway(conf))
    return SparkSession.builder.config(map=dict(chosen)).getOrCreate()


def _quiet_gateway(conf: SparkConf) -> JavaGateway:
    """The Java process, whose error stream passes through here so that the runtime's own chatter can be left out."""
    from pyspark.java_gateway import launch_gateway

    reading, writing = os.pipe()
    threading.Thread(target=_pass_on, args=(reading,), name="holdstrue-java-stderr", daemon=True).start()
    try:
        return launch_gateway(conf, popen_kwargs={"stderr": writing})
    finally:
        os.close(writing)


def _pass_on(reading: int) -> None:
    """Copy lines to the standard error stream until the Java process ends."""
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if not line.startswith(_CHATTER):
                os.write(2, line)


def _connect(url: str, chosen: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    _require_server(url)
    try:
        return SparkSession.builder.remote(url).config(map=dict(chosen)).getOrCreate()
    except ImportError as error:
        raise HoldstrueError(f"the client of Spark Connect is not complete: {error}", hint=_INSTALL) from error
    except PySparkException as error:
        raise HoldstrueError(f"no session at {url}: {error}", hint=_SERVER_HINT) from error


def _require_server(url: str) -> None:
    """Refuse an address that nobody listens on; the client would try again for minutes before it says so."""
    if any(os.environ.get(name) for name in ("grpc_proxy", "https_proxy", "http_proxy")):
        return  # the way there is not known here
    place = urlsplit(url)
    try:
        socket.create_connection((place.hostname or "localhost", place.port or CONNECT_PORT), timeout=10).close()
    except (OSError, ValueError) as error:
        raise HoldstrueError(f"no answer from {url}: {error}", hint=_SERVER_HINT) from error
