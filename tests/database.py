"""A PostgreSQL server of this machine's packages, for tests that read through ADBC and JDBC."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from servers import free_port, launch

JAR = Path("/usr/share/java/postgresql.jar")
"""Where Debian's libpostgresql-jdbc-java puts the driver."""

USER = "holdstrue"


@dataclass(frozen=True)
class Postgres:
    """A running server."""

    port: int
    psql: Path
    user: str = USER
    jar: Path = JAR
    driver: str = "org.postgresql.Driver"

    @property
    def url(self) -> str:
        """The JDBC address of its database."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    @property
    def address(self) -> str:
        """Its address as libpq takes it."""
        return f"postgresql://{self.user}@127.0.0.1:{self.port}/postgres"

    def sql(self, statements: str) -> str:
        """Run statements, and return what they print, one row a line, columns parted by `|`."""
        command = [str(self.psql), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"]
        done = subprocess.run(
            [*command, "-p", str(self.port), "-U", self.user, "-d", "postgres"],
            input=statements,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout


def programs() -> Path | None:
    """The folder of the newest server's programs; Debian keeps them off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def missing() -> str | None:
    """What keeps the server from being started, if anything."""
    if programs() is None:
        return "no PostgreSQL server (Debian: postgresql)"
    if os.geteuid() == 0 and (_account() is None or shutil.which("setpriv") is None):
        return "PostgreSQL does not run as root, and there is no other account for it"
    return None


def _account() -> pwd.struct_passwd | None:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    return None


@contextlib.contextmanager
def postgres_server() -> Iterator[Postgres]:
    """A new, empty database server on a free port, gone with its files afterwards."""
    where = programs()
    if where is None:
        raise RuntimeError(missing())
    with tempfile.TemporaryDirectory(prefix="holdstrue-postgres-") as place:
        folder = Path(place)
        as_other: list[str] = []
        account = _account()
        if os.geteuid() == 0 and account is not None:
            # the server refuses to run as root; this drops root's rights, and ends the server with this process
            os.chown(folder, account.pw_uid, account.pw_gid)
            as_other = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        data = folder / "data"
        made = subprocess.run(
            [*as_other, where / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"],
            capture_output=True,
            text=True,
            cwd=folder,
            check=False,
        )
        if made.returncode:
            raise RuntimeError(made.stdout + made.stderr)
        port = free_port()
        served = ["-D", str(data), "-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        guard = [*as_other, "--pdeathsig", "INT"] if as_other else []
        process = launch(
            [*guard, str(where / "postgres"), *served, "-c", f"unix_socket_directories={folder}"],
            folder / "postgres.log",
        )
        # on SIGTERM it would wait for its clients to leave
        process.farewell = signal.SIGINT
        try:
            ready = [str(where / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
            process.wait_until(lambda: subprocess.run(ready, check=False).returncode == 0)
            yield Postgres(port, where / "psql")
        finally:
            process.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """An empty PostgreSQL database; the test is skipped where its packages are not installed."""
    lacking = missing()
    if lacking is not None:
        pytest.skip(lacking)
    with postgres_server() as server:
        yield server
