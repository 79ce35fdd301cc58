"""The files of a state, checked when they are read: runs of tables and arrays, and versions that name them.

Runs are written under fresh names first; then the entry of version v + 1 is created in one step that fails if it
exists. So a crash leaves version v or v + 1, never between, and what a lost attempt wrote is never named.
Everything is data: Arrow IPC and JSON.
"""

from __future__ import annotations

import datetime as dt
import mmap
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.closing import Closing
from holdstrue.data.validity import same_columns, validate_table
from holdstrue.errors import StateError
from holdstrue.kernels.digest import checksum
from holdstrue.state import old_formats
from holdstrue.state.entry import BrokenError, Entry, decode, encode
from holdstrue.state.manifest import FORMAT, RUN_NAME, Manifest, RunFile, checked, files_of, folded
from holdstrue.state.moment import At, told
from holdstrue.state.store import LOG, RUNS, Listed, Missing, Taken, UnsureError, store_at

JOINT = "joint"
"""Starts the names of files that several runs share."""
INLINE_BYTES = 1 << 20
"""Tables of a batch up to this size are written into its entry, larger ones to a file. Chosen, not tuned."""
VERIFIERS = 4
"""Threads that compare files with their checksums; they wait for the disk as much as for a core."""
MOST_STEPS = 1 << 20
"""Steps from one whole entry to the next; far more than there ever are."""
FETCHERS = 16
"""Entries and runs of an object store that are fetched at once."""
GRACE = 3600.0
"""Seconds for which files that nobody names are left alone where there is no lock: a writer may still name them."""

ENTRY_GRACE = 1800.0
"""Seconds for which entries stay in an object store, needed or not. Were they gone sooner, a writer that does not know
of them could create one of the same name, which nobody would ever look at."""
TRUST = 600.0
"""Seconds after which a writer no longer trusts that its version is the newest, and looks before it commits. The rest
of `ENTRY_GRACE` is for clocks that differ, and for requests on their way: stores refuse what was signed 900 s ago."""

_LONGER = "keep versions longer with: holdstrue vacuum STATE --keep 7d"

Arrays = dict[str, NDArray[np.generic]]

_last_read: dict[str, tuple[tuple[str, int, str | None], Manifest]] = {}
"""The manifest that this process read last, for the stages of one batch that follow each other."""


@dataclass(frozen=True)
class Draft:
    """An entry that is to make a version."""

    version: int
    header: Mapping[str, Any]
    payload: bytes = b""


class GoneError(StateError):
    """A version that was there is no longer kept."""


class UncommittedError(StateError):
    """A version that was not made: whatever it would have added is not in the state, and its message says so.

    Parameters
    ----------
    why
        What went wrong, without that.
    """

    def __init__(self, why: str, *, hint: str | None) -> None:
        super().__init__(f"{why}; nothing was committed", hint=hint)
        self.why = why


class OvertakenError(UncommittedError):
    """Another writer made the version first."""


class Joint:
    """A file that several runs share, so that many small ones cost one file; none counts before it is closed."""

    def __init__(self, files: StateFiles, name: str) -> None:
        self._files = files
        self._name = name
        self._sink: pa.NativeFile | None = None
        self._end = 0

    def add(self, tables: Sequence[pa.Table]) -> RunFile:
        """Write tables one after the other as IPC streams."""
        part = streams(tables)
        if self._sink is None:
            self._sink = pa.OSFile(str(self._files.store.draft(RUNS + self._name)), "wb")
        self._sink.write(part)
        start, self._end = self._end, self._end + len(part)
        return RunFile(self._name, len(part), _checksum(bytearray(part)), start)

    def close(self) -> None:
        """Make sure that it is kept; there is no file where nothing was added."""
        if self._sink is not None:
            self._sink.close()
            self._files.store.publish(RUNS + self._name)


class StateFiles(Closing):
    """Runs and versions of one state, on this machine or in an object store."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.place = path
        self.store = store_at(path)
        self._verifying: dict[str, Future[mmap.mmap]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._payloads: dict[int, memoryview] = {}
        """Of steps that were read for their headers, until they are asked for."""
        self._seen = -1
        """The version that was read last, to tell a damaged file from one that is no longer kept."""
        self._looked = _clocks(), -2
        """When it was last certain which version is the newest, and which one it was."""

    @property
    def url(self) -> str:
        """The place as people are told it."""
        return self.store.url

    # --- writing -------------------------------------------------------------------------------

    def vacant(self) -> None:
        """Refuse a place where something is."""
        started = _clocks()
        self.store.vacant()
        self._looked = started, -1

    def lock(self) -> None:
        """Become the one writer."""
        try:
            self.store.lock()
        except OSError as error:
            raise UncommittedError(
                f"{self.url} cannot be written: {error}", hint="see that you may write there, and that there is room"
            ) from error

    def close(self) -> None:
        """Let go of the lock and wait for pending checks of files."""
        try:
            self.verified()
        finally:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None
            self.store.close()

    def write_tables(self, kind: str, version: int, tables: Sequence[pa.Table], *, packed: bool = False) -> RunFile:
        """Write tables one after the other as IPC streams in one file; `packed` ones are compressed, and not mapped."""
        name = _fresh(kind, version)
        options = pa.ipc.IpcWriteOptions(compression="zstd" if packed else None)
        with self._writing(name, version) as path:
            with pa.OSFile(path, "wb") as sink:
                _write_streams(sink, tables, options)
            return self._sealed(name)

    def joint(self, version: int) -> Joint:
        """A new file for several runs."""
        return Joint(self, _fresh(JOINT, version))

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
        with self._writing(name, version) as path:
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
                writer.write_batch(pa.record_batch(columns, schema=schema))
            return self._sealed(name)

    @contextmanager
    def _writing(self, name: str, version: int) -> Iterator[str]:
        """Where a run is written: what goes wrong there leaves the state as it is."""
        try:
            yield str(self.store.draft(RUNS + name))
        except (OSError, StateError) as error:
            raise _uncommitted(f"{self.url}/{RUNS}{name} could not be written", version, error) from error

    def _sealed(self, name: str) -> RunFile:
        with (
            self.store.draft(RUNS + name).open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped,
        ):
            run = RunFile(name, len(mapped), _checksum(mapped))
        self.store.publish(RUNS + name)
        return run

    def inline(self, version: int, tables: Sequence[pa.Table]) -> tuple[RunFile, bytes]:
        """Tables that are to be the payload of a version's entry, and how they are named."""
        data = streams(tables)
        return RunFile(f"{LOG}{version:012d}", len(data), _checksum(bytearray(data))), data

    def commit(self, draft: Draft) -> None:
        """Create a version in one step; the error of one that fails says whether it is there nevertheless."""
        version, name = draft.version, f"{LOG}{draft.version:012d}"
        time = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        # the mark tells our entry from another writer's that says the same
        about = {"format": FORMAT, "version": version, "time": time, "writer": os.urandom(16).hex()}
        try:
            self._look_again(version)
            started = _clocks()
            self.store.create(name, encode({**draft.header, **about}, draft.payload))
            self._looked = started, version
        except Taken as error:
            first = "another state was made there first: open it, or choose another place"
            raise OvertakenError(
                f"{self.url} already has version {version}, of another writer",
                hint=_again(version) if version else first,
            ) from error
        except UnsureError as error:
            raise UnsureError(
                f"{error.message}; whether version {version} of {self.url} was made is not known",
                hint=f"{error.hint}; open the state again: its history says whether the batch is in, and a batch with"
                " an id can be applied again in either case",
            ) from error
        except (OSError, StateError) as error:
            raise _uncommitted(f"{self.url} could not be written", version, error) from error
        self._seen = version

    def _look_again(self, version: int) -> None:
        """Where no lock keeps others away, make sure after some time that a version is still the next one."""
        looked, newest = self._looked
        fresh = all(abs(now - then) < TRUST for now, then in zip(_clocks(), looked, strict=True))
        if not self.store.shared or (fresh and newest == version - 1):
            return
        if self.versions()[-1:] != ([version - 1] if version else []):
            raise Taken(f"{LOG}{version:012d}")

    def collect(self, needed: Iterable[RunFile], since: int, version: int, keep: float = 0) -> list[Listed]:
        """Remove entries before a version and runs that are not needed; returns what was removed.

        Only runs that were written for the version that needs these, or for one before it, can go: no attempt to
        write such a version will be committed any more, while later ones may need other files.

        Parameters
        ----------
        needed
            What this version needs, and the one before its checkpoint.
        since
            The first version whose entry is kept.
        keep
            Seconds for which versions are kept with all they need.
        """
        entries = self.store.list(LOG)
        versions = [v for listed in entries if (v := _number(listed)) <= version]
        if keep and versions:
            since, needed = self._kept_for(versions, since, keep)
        named = {f"{RUNS}{file.name}" if RUN_NAME.fullmatch(file.name) else file.name for file in needed}
        now = dt.datetime.now(dt.UTC).timestamp()
        before, entries_before = (now - GRACE, now - ENTRY_GRACE) if self.store.shared else (now, float("inf"))
        gone = [
            listed
            for listed in entries
            if _number(listed) < since and listed.name not in named and listed.modified <= entries_before
        ]
        for listed in self.store.list(RUNS):
            match = RUN_NAME.fullmatch(listed.name.removeprefix(RUNS))
            if match and listed.name not in named and int(match[1]) <= version and listed.modified <= before:
                gone.append(listed)
        # entries first, and the oldest first, so that what an interruption leaves is told from damage
        self.store.delete([listed.name for listed in gone if listed.name.startswith(LOG)])
        self.store.delete([listed.name for listed in gone if not listed.name.startswith(LOG)])
        return [*gone, *old_formats.collect(self.store, keep=not any(v >= since for v in versions))]

    def erase(self) -> None:
        """Remove every version and every run, where a state could not be made."""
        self.store.delete([listed.name for prefix in (LOG, RUNS) for listed in self.store.list(prefix)])

    def _kept_for(self, versions: Sequence[int], since: int, keep: float) -> tuple[int, list[RunFile]]:
        """The first version to keep so that those of the last seconds can be read, and the files of all from there."""
        when = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=keep)
        oldest = versions[max(0, self._made_by(versions, when) - 1)]
        since = min(since, self._entry(oldest).header.get("since", oldest))
        kept = [version for version in versions if version >= since]
        return since, [file for entry in self._entries(kept) for file in named_by(entry.header)]

    # --- versions ------------------------------------------------------------------------------

    def versions(self) -> list[int]:
        """The versions that are kept, oldest first."""
        return [_number(listed) for listed in self.store.list(LOG)]

    def any(self) -> bool:
        """Whether there is a state."""
        return bool(self.versions()) or old_formats.newest(self.store) is not None

    def newest(self) -> int:
        """The newest version; raises where there is no state. Complexity: O(entries that are kept)."""
        started = _clocks()
        versions = self.versions()
        if versions:
            self._looked = started, versions[-1]
            return versions[-1]
        older = old_formats.newest(self.store)
        if older is None:
            nothing = f"no state directory at {self.url}"
            raise StateError(
                f"{self.url} is not a state directory: it holds no version" if self.store.exists else nothing,
                hint="make one with: holdstrue init STATE --rules FILE --key COLS, or discover DATA --state STATE",
            )
        return older

    def manifest(self, version: int | None = None, writer: str | None = None) -> Manifest:
        """What a version says, the newest unless told. Complexity: O(its size, and the batches since a checkpoint).

        Parameters
        ----------
        writer
            The mark of a whole entry, where it is known: what this process read last is then not read again.
        """
        wanted = self.newest() if version is None else version
        key = self.url, wanted, writer
        if writer is not None and (held := _last_read.get("manifest")) is not None and held[0] == key:
            self._seen = wanted
            return held[1]
        older = old_formats.manifest(self.store, wanted)
        if older is not None:
            return older
        entry = self._entry(wanted)
        since = entry.header.get("since", wanted)
        if not isinstance(since, int) or not max(0, wanted - MOST_STEPS) <= since <= wanted:
            raise self.broken(wanted, f"it builds on version {since!r}, which cannot be")
        versions = range(since, wanted)
        steps = list(self._entries(versions, wanted))
        self._payloads = {v: step.payload for v, step in zip(versions, steps, strict=True) if step.payload}
        try:
            manifest = folded([*(step.header for step in steps), entry.header])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self.broken(wanted, f"it cannot be read ({type(error).__name__}: {error})") from error
        manifest = checked(manifest, f"{self.url}: the entry of version {wanted}")
        if manifest["version"] != wanted:
            raise self.broken(wanted, f"it says that it is version {manifest['version']}")
        self._seen = wanted
        if writer is not None and writer == entry.header.get("writer") and since == wanted:
            _last_read["manifest"] = key, manifest
        return manifest

    def _entries(self, versions: Sequence[int], wanted: int | None = None) -> Iterator[Entry]:
        """Entries, read for themselves or for a version that builds on them."""
        if self.store.shared and len(versions) > 1:
            with ThreadPoolExecutor(max_workers=FETCHERS, thread_name_prefix="holdstrue-fetch") as pool:
                yield from pool.map(lambda version: self._entry(version, wanted), versions)
        else:
            for version in versions:
                yield self._entry(version, wanted)

    def _entry(self, version: int, wanted: int | None = None) -> Entry:
        """The entry of a version, which is read for itself or for one that builds on it."""
        try:
            return decode(self.store.read(f"{LOG}{version:012d}"))
        except Missing as error:
            raise self._lost(f"{LOG}{version:012d}", version if wanted is None else wanted) from error
        except (BrokenError, ValueError) as error:
            raise self.broken(version, str(error)) from error

    def time(self, version: int) -> dt.datetime:
        """When a version was made."""
        try:
            return dt.datetime.fromisoformat(self._entry(version).header["time"])
        except (KeyError, TypeError, ValueError) as error:
            raise self.broken(version, "it does not say when it was made") from error

    def version_at(self, at: At | None) -> int:
        """The version that is meant, the newest for None. Complexity: O(log versions) reads."""
        newest = self.newest()
        if at is None:
            return newest
        if isinstance(at, int):
            if at > newest:
                raise StateError(
                    f"{self.url} has no version {at} yet: the newest is {newest}", hint="give one up to that, or a time"
                )
            return at
        versions = self.versions()
        if not versions:
            raise StateError(
                f"the versions of {self.url} do not say when they were made: it is of an earlier format",
                hint=f"give a version, of which the newest is {newest}",
            )
        before = self._made_by(versions, at)
        if not before:
            raise GoneError(
                f"no version of {self.url} is kept that was there at {told(at)}: {self._kept_said()}", hint=_LONGER
            )
        return versions[before - 1]

    def _made_by(self, versions: Sequence[int], when: dt.datetime) -> int:
        """How many versions were made up to a time."""
        low, high = 0, len(versions)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.time(versions[middle]) <= when else (low, middle)
        return low

    def kept(self) -> list[int]:
        """The versions that can be read, oldest first. Complexity: O(entries).

        An entry may also be kept because a later version needs the rows of its batch.
        """
        versions = self.versions()
        there = {listed.name for prefix in (LOG, RUNS) for listed in self.store.list(prefix)}
        found: list[int] = []
        for version, entry in zip(versions, self._entries(versions), strict=True):
            since, header = entry.header.get("since", version), entry.header
            needed = {file.name if file.name.startswith(LOG) else RUNS + file.name for file in named_by(header)}
            if needed <= there and (since == version or (found[-1:] == [version - 1] and since <= version - 1)):
                found.append(version)
        return found

    def _kept_said(self) -> str:
        kept = self.kept()
        if not kept:
            return "none is"
        since = f", from {told(self.time(kept[0]))} on"
        return (f"versions {kept[0]} to {kept[-1]} are" if len(kept) > 1 else f"version {kept[0]} is") + since

    # --- reading runs --------------------------------------------------------------------------

    def read_tables(self, file: RunFile) -> list[pa.Table]:
        """The tables of a run, checked before they are used."""
        for last in (False, True):
            data = self._bytes(file)
            if len(data) == file.size and _checksum(bytearray(data)) == file.checksum:
                return self._tables(file, pa.py_buffer(data))
            if last or file.name.startswith(LOG) or not self.store.drop(RUNS + file.name):
                break
        raise self.damaged(file, "its checksum does not match")

    def _bytes(self, file: RunFile) -> bytes | memoryview:
        if file.name.startswith(LOG):
            version = int(file.name.removeprefix(LOG))
            known = self._payloads.pop(version, None)
            return self._entry(version).payload if known is None else known
        if not file.name.startswith(JOINT):
            with self._opened(file) as handle:
                return handle.read()
        try:
            return self.store.read_range(RUNS + file.name, file.start, file.size)
        except Missing as error:
            raise self._lost(RUNS + file.name, self._seen) from error

    def read_each(self, files: Sequence[RunFile]) -> list[list[pa.Table]]:
        """The tables of each run, several read at a time where reading waits for a network."""
        if not self.store.shared or len(files) < 2:
            return [self.read_tables(file) for file in files]
        with ThreadPoolExecutor(min(FETCHERS, len(files)), thread_name_prefix="holdstrue-fetch") as pool:
            return list(pool.map(self.read_tables, files))

    def bring(self, files: Iterable[RunFile]) -> None:
        """Fetch what this machine does not have of the files of some runs, several at a time.

        A file that several runs share comes whole: who reads one of a shard's runs reads those of the others too.
        """
        if not self.store.shared:
            return
        wanted = list({file.name: file for file in files if RUN_NAME.fullmatch(file.name)}.values())
        if len(wanted) > 1:
            with ThreadPoolExecutor(min(FETCHERS, len(wanted)), thread_name_prefix="holdstrue-fetch") as pool:
                list(pool.map(self._brought, wanted))

    def _brought(self, file: RunFile) -> None:
        try:
            self.store.file(RUNS + file.name, None if file.name.startswith(JOINT) else file.size)
        except Missing as error:
            raise self._lost(RUNS + file.name, self._seen) from error

    def map_table(self, file: RunFile, schema: pa.Schema) -> pa.Table:
        """The one table of a run, of these columns, mapped into memory."""
        tables = self._tables(file, pa.py_buffer(self._map(file)))
        if len(tables) != 1 or not same_columns(tables[0].schema, schema):
            raise self.damaged(file, f"it does not hold the columns {', '.join(schema.names)}")
        return tables[0]

    def _tables(self, file: RunFile, data: pa.Buffer) -> list[pa.Table]:
        source, tables = pa.BufferReader(data), []
        try:
            while source.tell() < data.size:
                tables.append(pa.ipc.open_stream(source).read_all())
                validate_table(tables[-1])  # Arrow's readers look at no buffer
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
        self.verify(file)
        return self._verifying.pop(file.name).result()

    def verify(self, *files: RunFile) -> None:
        """Start to compare whole files with their checksums, beside other work (see `verified`)."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=VERIFIERS, thread_name_prefix="holdstrue-verify")
        for file in files:
            if file.name not in self._verifying and RUN_NAME.fullmatch(file.name):
                self._verifying[file.name] = self._pool.submit(self._verify, file)

    def _verify(self, file: RunFile) -> mmap.mmap:
        """The bytes that were compared, to be used: to map them once more would cost as much as to look at them."""
        for last in (False, True):
            with self._opened(file) as handle:
                mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)
            if _checksum(mapped) == file.checksum:
                return mapped
            mapped.close()
            if last or not self.store.drop(RUNS + file.name):
                break
        raise self.damaged(file, "its checksum does not match")

    def verified(self) -> None:
        """Wait until every file under way has been read and compared with its checksum; raises for a damaged one."""
        pending, self._verifying = self._verifying, {}
        for future in pending.values():
            future.result()

    def _opened(self, file: RunFile) -> BinaryIO:
        """The file of a run, opened at once: it may be removed a moment later."""
        try:
            handle = self.store.file(RUNS + file.name, file.size).open("rb")
        except (Missing, FileNotFoundError) as error:
            raise self._lost(RUNS + file.name, self._seen) from error
        size = os.fstat(handle.fileno()).st_size
        if size != file.size:
            handle.close()
            raise self.damaged(file, f"it has {size} bytes instead of {file.size}")
        return handle

    # --- what to say ---------------------------------------------------------------------------

    def damaged(self, file: RunFile, why: str) -> StateError:
        """What to say of a file that cannot be what was written."""
        name = file.name if file.name.startswith(LOG) else RUNS + file.name
        return _damaged(f"{self.url}/{name}", why)

    def broken(self, version: int, why: str) -> StateError:
        """What to say of a version whose entry cannot be what was written."""
        return _damaged(f"{self.url}: the entry of version {version}", why)

    def _lost(self, name: str, version: int) -> StateError:
        """What to say of an object that is not there: the state went on without it, or it was taken away."""
        versions = self.versions()
        if versions and version < versions[-1] and (version < versions[0] or not self._needs(version, name)):
            return GoneError(
                f"version {version} of {self.url} is no longer kept: {self._kept_said()}",
                hint=f"open it again, or one of those; {_LONGER}",
            )
        return _damaged(f"{self.url}/{name}", "it is missing")

    def _needs(self, version: int, name: str) -> bool:
        """Whether an object should be there for the sake of a version: those that the newest one builds on stay."""
        newest = self.newest()
        since = self._entry(newest, newest).header.get("since", newest)
        return bool((int(name.removeprefix(LOG)) if name.startswith(LOG) else version) >= since)


def named_by(header: Mapping[str, Any]) -> list[RunFile]:
    """The files that an entry itself names."""
    return [RunFile.of(header["run"])] if "since" in header else files_of(header)


def streams(tables: Sequence[pa.Table]) -> bytes:
    """Tables as IPC streams one after the other."""
    data = pa.BufferOutputStream()
    _write_streams(data, tables, None)
    return bytes(data.getvalue().to_pybytes())


def _write_streams(sink: pa.NativeFile, tables: Sequence[pa.Table], options: pa.ipc.IpcWriteOptions | None) -> None:
    for table in tables:
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)


def _array(mapped: mmap.mmap, buffer: pa.Buffer, field: pa.Field, column: pa.Array) -> NDArray[np.generic]:
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


def _fresh(kind: str, version: int) -> str:
    return f"{kind}-{version:012d}-{uuid.uuid4().hex[:12]}.arrow"


def _number(listed: Listed) -> int:
    """The version of an entry."""
    return int(listed.name.removeprefix(LOG))


def _checksum(data: mmap.mmap | bytearray) -> str:
    whole = len(data) - len(data) % 8
    words = np.frombuffer(data, dtype=np.uint64, count=whole // 8)
    tail = np.zeros(1, dtype=np.uint64)
    tail.view(np.uint8)[: len(data) - whole] = np.frombuffer(data, dtype=np.uint8, offset=whole)
    total = checksum(np.concatenate((np.array([checksum(words)], dtype=np.uint64), tail)))
    del words
    return f"{int(total):016x}"


def _clocks() -> tuple[float, float]:
    """Seconds by two clocks: one stops while the machine sleeps, the other may be set."""
    return time.monotonic(), time.time()


def matches(file: RunFile, data: mmap.mmap | bytearray) -> bool:
    """Whether bytes are those that were written."""
    return len(data) == file.size and _checksum(data) == file.checksum


def _uncommitted(what: str, version: int, error: OSError | StateError) -> UncommittedError:
    why, hint = (error.message, error.hint) if isinstance(error, StateError) else (str(error), None)
    return UncommittedError(f"{what}: {why}", hint="; then ".join(filter(None, (hint, _again(version)))))


def _again(version: int) -> str:
    """What to do when a version was not made."""
    return "open the state again, and apply the batch again" if version else "make the state again"


def _damaged(what: str, why: str) -> StateError:
    return StateError(
        f"{what} is damaged: {why}",
        hint="restore the state from a copy, or make it anew; holdstrue verify STATE checks all its files",
    )
