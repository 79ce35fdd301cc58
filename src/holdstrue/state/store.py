"""The state directory: immutable checksummed runs, numbered manifests, one atomic commit a batch.

A manifest names every file of its version. Files are written under fresh names first, then the
manifest `v + 1` is created in one step that fails if it exists; so a crash leaves version v or
v + 1, never between, and what a lost attempt wrote is never named. Everything is data: Arrow IPC
and JSON.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import mmap
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.closing import Closing
from holdstrue.data.validity import same_columns, validate_table
from holdstrue.errors import StateError
from holdstrue.kernels.digest import checksum
from holdstrue.location import local_path
from holdstrue.state.shape import FILE, RUNS, unlike

FORMAT = 3
READ_FORMATS = (2, 3)
"""Format 2 does not say whose state it is, which shows for monitors and discoveries."""
KEPT_MANIFESTS = 2
"""The newest manifest and the one before it, for readers that opened just before a commit."""

SHAPE = {
    "version": int,
    "kind?": {"monitor", "discovery", "inclusions", "site"},
    "delta?": [FILE],
    "shards?": {str: RUNS},
    **RUNS,
    "log_rows": int,
}
"""The shape of a manifest, whatever kind of state it is of."""

JOINT = "joint"
"""Starts the names of files that several runs share."""

Arrays = dict[str, NDArray[np.generic]]
_MANIFEST = "manifest-{:012d}.json"


@dataclass(frozen=True)
class RunFile:
    """An immutable file, or a part of one, as a manifest names it."""

    name: str
    size: int
    checksum: str
    start: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        part = {"start": self.start} if self.start else {}
        return {"name": self.name, "bytes": self.size, "checksum": self.checksum, **part}

    @staticmethod
    def of(data: Mapping[str, Any]) -> RunFile:
        """From plain JSON data."""
        return RunFile(str(data["name"]), int(data["bytes"]), str(data["checksum"]), int(data.get("start", 0)))


class Joint:
    """A file that several runs share, so that many small ones cost one file; none counts before it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sink = pa.OSFile(str(path), "wb")
        self._end = 0

    def add(self, tables: Sequence[pa.Table]) -> RunFile:
        """Write tables one after the other as IPC streams."""
        data = pa.BufferOutputStream()
        _write_streams(data, tables)
        part = data.getvalue()
        self._sink.write(part)
        start, self._end = self._end, self._end + part.size
        return RunFile(self._path.name, part.size, _checksum(bytearray(part)), start)

    def close(self) -> None:
        """Make sure that it is on disk."""
        self._sink.close()
        _sync(self._path)


class Store(Closing):
    """Files and manifests of one state directory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(local_path(path, "state"))
        self._lock: int | None = None
        self._verifying: list[Future[None]] = []
        self._pool: ThreadPoolExecutor | None = None

    # --- writers -------------------------------------------------------------------------------

    def vacant(self) -> None:
        """Refuse a place where something is; a directory that was given up before its first commit counts as empty."""
        there = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()
        given_up = there == {"lock", "runs"} and all(map(_is_run, (self.path / "runs").iterdir()))
        if self.path.exists() and not (self.path.is_dir() and (not there or given_up)):
            kept = any(name.startswith("manifest-") for name in there)
            raise StateError(
                f"{self.path} exists and is not an empty directory" + (": it holds a state" if kept else ""),
                hint="choose another place" + ("" if kept else ", or remove it"),
            )

    def create(self) -> None:
        """Make the directory, which must be vacant."""
        self.vacant()
        (self.path / "runs").mkdir(parents=True, exist_ok=True)

    def lock(self) -> None:
        """Become the one writer; the lock ends with the process, however it ends."""
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise StateError(
                f"{self.path} is being written by another process",
                hint="wait for that to finish, or close the monitor that has it open",
            ) from error
        self._lock = handle

    def close(self) -> None:
        """Let go of the lock and wait for pending checks of files."""
        try:
            self.verified()
        finally:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def write_tables(self, kind: str, version: int, tables: Sequence[pa.Table]) -> RunFile:
        """Write tables one after the other as IPC streams in one file."""
        name = _fresh(kind, version)
        with pa.OSFile(str(self._run(name)), "wb") as sink:
            _write_streams(sink, tables)
        return self._seal(name)

    def joint(self, version: int) -> Joint:
        """A new file for several runs."""
        return Joint(self._run(_fresh(JOINT, version)))

    def write_arrays(self, kind: str, version: int, arrays: Arrays) -> RunFile:
        """Write named arrays as one Arrow record batch of one row, a list a column, so that it can be mapped."""
        name = _fresh(kind, version)
        fields, columns = [], []
        for key, array in arrays.items():
            # Arrow packs truth values into bits, which cannot be mapped as numpy's
            plain = array.view(np.uint8) if array.dtype == np.bool_ else array
            flat = pa.array(np.ascontiguousarray(plain).reshape(-1))
            offsets = pa.array([0, len(flat)], type=pa.int64())
            columns.append(pa.LargeListArray.from_arrays(offsets, flat))
            shape = ",".join(str(size) for size in array.shape)
            fields.append(pa.field(key, columns[-1].type, metadata={"shape": shape, "dtype": array.dtype.name}))
        schema = pa.schema(fields)
        with pa.OSFile(str(self._run(name)), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(pa.record_batch(columns, schema=schema))
        return self._seal(name)

    def commit(self, version: int, content: Mapping[str, Any]) -> None:
        """Create manifest `version` in one step; fails when it exists."""
        body = dict(content) | {"format": FORMAT, "version": version}
        text = json.dumps(body | {"checksum": _sum(body)}, separators=(",", ":"))
        temporary = self.path / f".manifest-{uuid.uuid4().hex}.tmp"
        temporary.write_text(text, encoding="utf-8")
        _sync(temporary)
        try:
            os.link(temporary, self.path / _MANIFEST.format(version))
        except FileExistsError as error:
            raise StateError(
                f"{self.path} already has version {version}",
                hint="another writer committed first: open the state again",
            ) from error
        finally:
            temporary.unlink()
        _sync(self.path)

    def collect(self) -> list[str]:
        """Remove old manifests and every file that no kept manifest names; returns what was removed."""
        manifests = self._manifests()
        removed = [path.name for path in manifests[:-KEPT_MANIFESTS]]
        for path in manifests[:-KEPT_MANIFESTS]:
            path.unlink()
        named = {file.name for path in manifests[-KEPT_MANIFESTS:] for file in files_of(self._read(path))}
        for path in (self.path / "runs").iterdir():
            if path.name not in named and _is_run(path):
                path.unlink()
                removed.append(path.name)
        for path in self.path.glob(".manifest-*.tmp"):
            path.unlink()
            removed.append(path.name)
        return removed

    def _run(self, name: str) -> Path:
        return self.path / "runs" / name

    def _seal(self, name: str) -> RunFile:
        path = self._run(name)
        _sync(path)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
            return RunFile(name, len(mapped), _checksum(mapped))

    # --- readers -------------------------------------------------------------------------------

    def manifest(self, version: int | None = None) -> dict[str, Any]:
        """The newest manifest, or the one of a version. Complexity: O(its size)."""
        if version is not None:
            path = self.path / _MANIFEST.format(version)
            if not path.is_file():
                raise StateError(
                    f"{self.path} no longer has version {version}", hint="the state went on since: read it again"
                )
            return self._read(path)
        return self._read(self.newest())

    def newest(self) -> Path:
        """The newest manifest, which is not read; raises where there is no state."""
        if not self.path.is_dir():
            raise StateError(
                f"no state directory at {self.path}",
                hint="make one with: holdstrue init STATE --rules FILE --key COLS, or discover DATA --state STATE",
            )
        manifests = self._manifests()
        if not manifests:
            raise StateError(
                f"{self.path} is not a state directory: it holds no manifest",
                hint="make one with: holdstrue init STATE --rules FILE --key COLS, or discover DATA --state STATE",
            )
        return manifests[-1]

    def _manifests(self) -> list[Path]:
        return sorted(self.path.glob("manifest-*.json"))

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            told = body.pop("checksum")
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise _damaged(path, "it cannot be read") from error
        if told != _sum(body):
            raise _damaged(path, "its checksum does not match")
        said = body.get("format")
        if said not in READ_FORMATS or (said != FORMAT and {"fixed", "site"} & body.keys()):
            raise StateError(
                f"{path} has format {said!r}, this version reads {FORMAT}",
                hint="make the state anew; only monitors and discoveries of format 2 are read by this version",
            )
        why = unlike(body, SHAPE)
        if why is None and path.name != _MANIFEST.format(body["version"]):
            why = f"it is of version {body['version']}"
        if why is not None:
            raise _damaged(path, why)
        return body

    def read_tables(self, file: RunFile) -> list[pa.Table]:
        """The tables of a run, checked before they are used."""
        path = self._checked(file)
        with path.open("rb") as source_file:
            source_file.seek(file.start)
            data = source_file.read(file.size)
        if _checksum(bytearray(data)) != file.checksum:
            raise _damaged(path, "its checksum does not match")
        return self._tables(file, pa.py_buffer(data))

    def map_table(self, file: RunFile, schema: pa.Schema) -> pa.Table:
        """The one table of a run, of these columns, mapped into memory; see `verified` about its checksum."""
        tables = self._tables(file, pa.py_buffer(self._map(file)))
        if len(tables) != 1 or not same_columns(tables[0].schema, schema):
            raise self.damaged(file, f"it does not hold the columns {', '.join(schema.names)}")
        return tables[0]

    def _tables(self, file: RunFile, data: pa.Buffer) -> list[pa.Table]:
        """Tables of which every buffer was looked at: Arrow's readers check none."""
        source, tables = pa.BufferReader(data), []
        try:
            while source.tell() < data.size:
                tables.append(pa.ipc.open_stream(source).read_all())
                validate_table(tables[-1])
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise self.damaged(file, str(error)) from error
        return tables

    def map_arrays(self, file: RunFile) -> Arrays:
        """The arrays of a run, mapped copy-on-write: writing to them changes memory, never the file."""
        mapped = self._map(file)
        buffer = pa.py_buffer(mapped)
        try:
            batch = pa.ipc.open_file(pa.BufferReader(buffer)).get_batch(0)
            batch.validate()
            return {
                field.name: _array(mapped, buffer, field, batch.column(at)) for at, field in enumerate(batch.schema)
            }
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, MemoryError) as error:
            raise self.damaged(file, str(error)) from error

    def _map(self, file: RunFile) -> mmap.mmap:
        """The file, copy-on-write. It is compared with its checksum meanwhile: nobody writes before `verified`."""
        with self._checked(file).open("rb") as handle:
            mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)
        self._verify_beside(file, mapped)
        return mapped

    def verify(self, file: RunFile) -> None:
        """Start to compare a file with its checksum, beside other work (see `verified`)."""
        self._map(file)

    def _verify_beside(self, file: RunFile, mapped: mmap.mmap) -> None:
        def compare() -> None:
            if _checksum(mapped) != file.checksum:
                raise _damaged(self._run(file.name), "its checksum does not match")

        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdstrue-verify")
        self._verifying.append(self._pool.submit(compare))

    def verified(self) -> None:
        """Wait until every file under way has been read and compared with its checksum; raises for a damaged one."""
        pending, self._verifying = self._verifying, []
        for future in pending:
            future.result()

    def broken(self, version: int, why: str) -> StateError:
        """What to say of a version whose manifest cannot be what was written."""
        return _damaged(self.path / _MANIFEST.format(version), why)

    def damaged(self, file: RunFile, why: str) -> StateError:
        """What to say of a file that cannot be what was written; raises where its checksum does not match either."""
        self.verified()
        return _damaged(self._run(file.name), why)

    def _checked(self, file: RunFile) -> Path:
        path = self._run(file.name)
        if not path.is_file():
            raise _damaged(path, "it is missing")
        size = path.stat().st_size
        if not file.size:
            raise _damaged(path, "it is said to be empty")
        if size < file.start + file.size or (size > file.size and not file.start and not file.name.startswith(JOINT)):
            raise _damaged(path, f"it has {size} bytes instead of {file.start + file.size}")
        return path


def _array(mapped: mmap.mmap, buffer: pa.Buffer, field: pa.Field, column: pa.Array) -> NDArray[np.generic]:
    """An array of a run: a list of one line, whose shape and type its field tells."""
    values = column.values
    shape = tuple(int(size) for size in field.metadata[b"shape"].decode().split(",") if size)
    dtype = np.dtype(field.metadata.get(b"dtype", str(values.type).encode()).decode())
    if not pa.types.is_primitive(values.type) or dtype.hasobject or dtype.itemsize * 8 != values.type.bit_width:
        raise ValueError(f"array {field.name!r} is said to hold {dtype} and holds {values.type}")
    if len(values) == 0:
        if 0 not in shape:
            raise ValueError(f"array {field.name!r} is said to have the shape {shape} and is empty")
        return np.empty(shape, dtype=dtype)
    offset = values.buffers()[1].address - buffer.address + values.offset * dtype.itemsize
    if offset < 0:
        raise ValueError(f"array {field.name!r} lies outside of the file")
    return np.frombuffer(mapped, dtype=dtype, count=len(values), offset=offset).reshape(shape)


def _is_run(path: Path) -> bool:
    """Whether a file has a name that `_fresh` gives; nothing else is ever removed."""
    return path.is_file() and re.fullmatch(r"[a-z]+-\d{12}-[0-9a-f]{12}\.arrow", path.name) is not None


def _fresh(kind: str, version: int) -> str:
    return f"{kind}-{version:012d}-{uuid.uuid4().hex[:12]}.arrow"


def _write_streams(sink: pa.NativeFile, tables: Sequence[pa.Table]) -> None:
    for table in tables:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)


def files_of(manifest: Mapping[str, Any]) -> list[RunFile]:
    """Every file a manifest names."""
    base = manifest.get("base") or {}
    found = [*base.values(), *manifest.get("log", ()), *manifest.get("delta", ())]
    for shard in manifest.get("shards", {}).values():
        found += [*shard["base"].values(), *shard["log"]]
    return [RunFile.of(data) for data in found]


def _checksum(data: mmap.mmap | bytearray) -> str:
    whole = len(data) - len(data) % 8
    words = np.frombuffer(data, dtype=np.uint64, count=whole // 8)
    tail = np.zeros(1, dtype=np.uint64)
    tail.view(np.uint8)[: len(data) - whole] = np.frombuffer(data, dtype=np.uint8, offset=whole)
    total = checksum(np.concatenate((np.array([checksum(words)], dtype=np.uint64), tail)))
    del words
    return f"{int(total):016x}"


def _sum(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _damaged(path: Path, why: str) -> StateError:
    return StateError(
        f"{path} is damaged: {why}",
        hint="restore the state directory from a copy, or make it anew with: holdstrue init",
    )
