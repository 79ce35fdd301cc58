"""One durable row at a time: a monitor, SQLite with a full sync, and the bare disk.

Each is handed one change and returns the work to be timed. Those that look at the rules return by how many pairs
the violations of the key and of the FD grew or shrank, so that their answers can be compared.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

KEY, FD = "key(area_code, phone)", "zip -> city"
COLUMNS = ("id", "area_code", "phone", "city", "zip")

Grown: TypeAlias = tuple[int, int] | None
Work: TypeAlias = Callable[[], Grown]


class OneRow(Protocol):
    """Takes one change after the other."""

    def ready(self, change: pa.Table) -> Work:
        """The work of one change, its input made beforehand."""

    def close(self) -> None:
        """Let go of the files."""


class Watched:
    """A monitor of a key and an FD, given Arrow tables or lists of dicts; without a folder in memory."""

    def __init__(self, folder: Path | None, base: pa.Table, *, dicts: bool = False) -> None:
        import holdstrue

        rules = [{"name": "key", "rule": KEY}, {"name": "fd", "rule": FD}]
        if folder is None:
            self._monitor = holdstrue.Monitor(rules, key="id", data=base)
        else:
            self._monitor = holdstrue.Monitor.create(folder / "state", rules, key="id", data=base)
        self._durable, self._dicts = folder is not None, dicts

    def ready(self, change: pa.Table) -> Work:
        """An insert or update with all its columns, a delete with its key."""
        if change.column("op")[0].as_py() == "delete":
            change = change.select(["id", "op"])
        given: Any = change.to_pylist() if self._dicts else change
        return lambda: self._apply(given)

    def _apply(self, given: Any) -> Grown:
        counts = self._monitor.apply(given).counts
        return counts["key"].added - counts["key"].removed, counts["fd"].added - counts["fd"].removed

    def close(self) -> None:
        """Close the state, if there is one."""
        if self._durable:
            self._monitor.close()


PAIRS = (
    "select (select count(*) from t b where b.area_code = a.area_code and b.phone = a.phone and b.id <> a.id), "
    "(select count(*) from t b where b.zip = a.zip and b.city <> a.city) from t a where a.id = ?"
)
"""With how many rows a row violates the key, and the FD."""
STATEMENTS = {
    "insert": "insert into t values (:id, :area_code, :phone, :city, :zip)",
    "update": "update t set area_code = :area_code, phone = :phone, city = :city, zip = :zip where id = :id",
    "delete": "delete from t where id = :id",
}


class SQLite:
    """One transaction a change, synced in full. With `checked` it also counts the pairs a row violates the rules with.

    Without, there is only the primary key and nothing is asked: the least that a durable change can cost there.
    """

    def __init__(self, folder: Path, base: pa.Table, *, journal: str, checked: bool) -> None:
        self._checked = checked
        self._base = sqlite3.connect(folder / "rows.sqlite", isolation_level=None)
        if self._base.execute(f"pragma journal_mode = {journal}").fetchone() != (journal,):
            raise RuntimeError(f"SQLite did not take journal_mode {journal}")
        self._base.execute("pragma synchronous = FULL")
        self._base.execute(
            "create table t (id integer primary key, area_code integer, phone text, city text, zip text)"
        )
        self._base.execute("begin")
        self._base.executemany(STATEMENTS["insert"], base.to_pylist())
        if checked:
            self._base.execute("create index by_phone on t (area_code, phone)")
            self._base.execute("create index by_zip on t (zip, city)")
        self._base.execute("commit")

    def ready(self, change: pa.Table) -> Work:
        """The parameters of its statement."""
        row = change.to_pylist()[0]
        kind = row.pop("op")
        return lambda: self._apply(kind, row)

    def _apply(self, kind: str, row: dict[str, Any]) -> Grown:
        self._base.execute("begin immediate")
        old = self._pairs(row["id"]) if self._checked and kind != "insert" else (0, 0)
        self._base.execute(STATEMENTS[kind], row)
        new = self._pairs(row["id"]) if self._checked and kind != "delete" else (0, 0)
        self._base.execute("commit")
        return (new[0] - old[0], new[1] - old[1]) if self._checked else None

    def _pairs(self, row: int) -> tuple[int, int]:
        key, fd = self._base.execute(PAIRS, (row,)).fetchone()
        return key, fd

    def close(self) -> None:
        """Close the database."""
        self._base.close()


class Appended:
    """A change appended to one file and synced: the least a log can cost on this disk."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)

    def ready(self, change: pa.Table) -> Work:
        """The row as an Arrow stream."""
        data = _stream(change)
        return lambda: self._append(data)

    def _append(self, data: bytes) -> Grown:
        os.write(self._file, data)
        os.fdatasync(self._file)
        return None

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Created:
    """A new file a change, it and its directory synced: the least a file a batch can cost on this disk."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._made = folder, 0

    def ready(self, change: pa.Table) -> Work:
        """The row as an Arrow stream."""
        data = _stream(change)
        return lambda: self._create(data)

    def _create(self, data: bytes) -> Grown:
        self._made += 1
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        for path, mode in ((self._folder / f"{self._made:06d}", flags), (self._folder, os.O_RDONLY)):
            handle = os.open(path, mode, 0o644)
            if mode == flags:
                os.write(handle, data)
            os.fsync(handle)
            os.close(handle)
        return None

    def close(self) -> None:
        """Nothing stays open."""


def _stream(change: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, change.schema) as writer:
        writer.write_table(change)
    return bytes(sink.getvalue().to_pybytes())


COMPETITORS: dict[str, Callable[[Path, pa.Table], OneRow]] = {
    "holdstrue, Arrow table": Watched,
    "holdstrue, list of dicts": lambda folder, base: Watched(folder, base, dicts=True),
    "holdstrue in memory": lambda _, base: Watched(None, base),
    "SQLite WAL, checked": lambda folder, base: SQLite(folder, base, journal="wal", checked=True),
    "SQLite WAL, commit only": lambda folder, base: SQLite(folder, base, journal="wal", checked=False),
    "SQLite DELETE, checked": lambda folder, base: SQLite(folder, base, journal="delete", checked=True),
    "SQLite DELETE, commit only": lambda folder, base: SQLite(folder, base, journal="delete", checked=False),
    "append + fdatasync": lambda folder, _: Appended(folder),
    "create + fsync + fsync of the directory": lambda folder, _: Created(folder),
}
