"""A state directory whose files say whatever they are told to, with checksums that match.

All that the damage of states knows of names, logs and checksums is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.state.entry import decode, encode
from holdstrue.state.files import StateFiles
from holdstrue.state.local import LocalStore
from holdstrue.state.manifest import files_of
from holdstrue.state.run_reader import checksum_of
from holdstrue.state.store import LOG


def roots(state: Path) -> list[Path]:
    """The directories of a state: one, or one for each site."""
    return [state] if (state / "log").is_dir() else sorted(state.iterdir())


class Lying:
    """The files and the entries of one state directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        with StateFiles(root) as files:
            newest = files.newest()
            since = decode(files.store.read(_entry(newest))).header.get("since", newest)
            named = {file.name for file in files_of(files.manifest()) if is_entry(file.name)}
            names = sorted({*named, *map(_entry, range(since, newest + 1))})
            kept = {name: decode(files.store.read(name)) for name in names}
        self.headers = {name: entry.header for name, entry in kept.items()}
        """What each entry says."""
        self._payloads = {name: bytes(entry.payload) for name, entry in kept.items()}

    def names(self) -> list[str]:
        """The files, and the entries that hold rows, in an order that does not depend on chance."""
        found = {entry["name"] for entry in named_in(self.headers)}
        there = (name for name in found if is_entry(name) or self._path(name).is_file())
        return sorted(there, key=lambda name: (kind_of(name), name))

    def read(self, name: str) -> bytes:
        """What a file holds."""
        return self._payloads[name] if is_entry(name) else self._path(name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """Let a file hold something else."""
        if is_entry(name):
            self._payloads[name] = data
        else:
            self._path(name).write_bytes(data)

    def remove(self, name: str) -> None:
        """Take a file away."""
        self._path(name).unlink()

    def _path(self, name: str) -> Path:
        return self.root / "runs" / name

    def repair(self) -> None:
        """Make sizes and checksums of all files match what they hold now."""
        for entry in named_in(self.headers):
            data = self.read(entry["name"])
            start = entry.get("start", 0)
            if start or is_joint(entry["name"]):
                entry["bytes"] = max(1, min(entry["bytes"], len(data) - start))
                data = data[start : start + entry["bytes"]]
            entry["bytes"] = max(1, len(data))
            entry["checksum"] = checksum_of(bytearray(data)) if data else "0" * 16
        self.save()

    def save(self) -> None:
        """Write the log anew, with digests that match."""
        for path in [*self.logs(), self.root / "lock"]:
            path.unlink()
        store = LocalStore(self.root)
        store.lock()
        for name, header in self.headers.items():
            store.create(name, encode(header, self._payloads[name]))
        store.close()

    def logs(self) -> list[Path]:
        """The files of the log."""
        return sorted((self.root / "log").iterdir())

    def as_run(self, arrays: dict[str, NDArray[Any]]) -> bytes:
        """Arrays as the bytes of a run."""
        with StateFiles(self.root) as files:
            made = self._path(files.write_arrays("arrays", 0, arrays).name)
        data = made.read_bytes()
        made.unlink()
        return data


def _entry(version: int) -> str:
    return f"{LOG}{version:012d}"


def is_entry(name: str) -> bool:
    """Whether a file lies in an entry of the log."""
    return name.startswith(LOG)


def is_joint(name: str) -> bool:
    """Whether several runs share a file."""
    return name.startswith("joint")


def kind_of(name: str) -> str:
    """What a file holds, by its name."""
    return "batch" if is_entry(name) else name.split("-", maxsplit=1)[0]


def named_in(body: Any) -> Iterator[dict[str, Any]]:
    """Everything in what versions say that names a file."""
    if isinstance(body, dict):
        if "name" in body and "checksum" in body:
            yield body
        for part in body.values():
            yield from named_in(part)
    elif isinstance(body, list):
        for part in body:
            yield from named_in(part)


def read_arrays(data: bytes) -> dict[str, NDArray[Any]] | None:
    """The arrays of a run, if it holds arrays."""
    if not data.startswith(b"ARROW1"):
        return None
    batch = pa.ipc.open_file(pa.BufferReader(data)).get_batch(0)
    found = {}
    for at, field in enumerate(batch.schema):
        shape = [int(size) for size in field.metadata[b"shape"].decode().split(",") if size]
        flat = batch.column(at).values.to_numpy(zero_copy_only=False)
        found[field.name] = flat.astype(field.metadata[b"dtype"].decode()).reshape(shape)
    return found


def read_tables(data: bytes) -> list[pa.Table]:
    """The tables of a run."""
    source, tables = pa.BufferReader(data), []
    while source.tell() < len(data):
        tables.append(pa.ipc.open_stream(source).read_all())
    return tables
