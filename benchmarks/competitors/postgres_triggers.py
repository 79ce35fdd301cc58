"""A PostgreSQL server with a trigger for each rule, as the database of paper 003: a new row is joined with the table.

The server is started for the run, on loopback, without syncs, and is gone with its files afterwards.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from rules import BenchRule

PATIENCE = 60.0
USER = "bench"


def programs() -> Path | None:
    """The folder of the newest server's programs; Debian keeps them off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The address of a new, empty server."""
    where = programs()
    if where is None:
        raise RuntimeError("no PostgreSQL server (Debian: postgresql)")
    with tempfile.TemporaryDirectory(prefix="bench-postgres-") as place:
        folder, as_other = Path(place), list[str]()
        if os.geteuid() == 0:
            # the server refuses to run as root
            account = pwd.getpwnam("postgres")
            os.chown(folder, account.pw_uid, account.pw_gid)
            as_other = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        data = folder / "data"
        initdb = [
            *as_other,
            str(where / "initdb"),
            "-D",
            str(data),
            "-U",
            USER,
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
        ]
        subprocess.run(initdb, capture_output=True, cwd=folder, check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", f"unix_socket_directories={folder}"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*as_other, where / "postgres", "-D", data, "-p", str(port), *options], stdout=log, stderr=log
            )
        try:
            limit = time.monotonic() + PATIENCE
            ready = [str(where / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
            while subprocess.run(ready, check=False).returncode:
                if process.poll() is not None or time.monotonic() > limit:
                    raise RuntimeError((folder / "log").read_text()[-2000:])
                time.sleep(0.1)
            yield f"postgresql://{USER}@127.0.0.1:{port}/postgres"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)


class Triggers:
    """A table with an index and a trigger for one rule; violations are written to a table of their own."""

    def __init__(self, address: str, rule: BenchRule, base: pa.Table) -> None:
        from adbc_driver_postgresql import dbapi

        self._connection = dbapi.connect(address, autocommit=True)
        self._names = ["id", *rule.columns]
        cursor = self._cursor = self._connection.cursor()
        cursor.execute("DROP TABLE IF EXISTS rows, violations")
        cursor.adbc_ingest("rows", base.select(self._names), mode="create")
        cursor.execute("CREATE TABLE violations (t bigint, s bigint)")
        columns = [a for a, _ in rule.equal] + [a for a, op, _ in rule.other if op != "!="]
        cursor.execute(f"CREATE INDEX ON rows ({', '.join(columns)})")
        cursor.execute("ANALYZE rows")
        found = [("NEW", "s"), *([] if rule.symmetric else [("s", "NEW")])]
        queries = "\n".join(
            f"INSERT INTO violations SELECT {t}.id, {s}.id FROM rows s WHERE {_where(rule, t, s)};" for t, s in found
        )
        body = f"BEGIN\n{queries}\nRETURN NEW; END"
        cursor.execute(f"CREATE OR REPLACE FUNCTION told() RETURNS trigger AS $$ {body} $$ LANGUAGE plpgsql")
        cursor.execute("CREATE TRIGGER watch BEFORE INSERT ON rows FOR EACH ROW EXECUTE FUNCTION told()")

    def insert(self, rows: Sequence[dict[str, Any]]) -> float:
        """Insert rows one by one; the seconds that it took."""
        marks = ", ".join(f"${i + 1}" for i in range(len(self._names)))
        start = time.perf_counter()
        for row in rows:
            self._cursor.execute(f"INSERT INTO rows VALUES ({marks})", tuple(row[name] for name in self._names))
        return time.perf_counter() - start

    def found(self) -> int:
        """How many violations there are."""
        self._cursor.execute("SELECT count(*) FROM violations")
        [count] = self._cursor.fetchone() or [0]
        return int(count)

    def close(self) -> None:
        """Let go of the server."""
        self._cursor.close()
        self._connection.close()


def _where(rule: BenchRule, t: str, s: str) -> str:
    terms = [f"{t}.{a} = {s}.{b}" for a, b in rule.equal]
    return " AND ".join([*terms, *(f"{t}.{a} {op} {s}.{b}" for a, op, b in rule.other)])
