"""The files of a state, written and cleared up: runs of tables and arrays, and versions that name them.

Runs are written under fresh names first; then the entry of version v + 1 is created in one step that fails if it
exists. So a crash leaves version v or v + 1, never between, and what a lost attempt wrote is never named.
Everything is data: Arrow IPC and JSON. How they are read: `state/versions.py`, `state/run_reader.py`.
"""

from __future__ import annotations

import datetime as dt
import mmap
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.buffers import arrow_of
from holdstrue.errors import StateError
from holdstrue.state import few_rows, old_formats
from holdstrue.state.entry import encode
from holdstrue.state.manifest import FORMAT, RUN_NAME, RunFile, files_of
from holdstrue.state.packing import packed as shortened
from holdstrue.state.run_reader import JOINT, Arrays, RunReader, checksum_of
from holdstrue.state.store import LOG, RUNS, Listed, Taken, UnsureError
from holdstrue.state.versions import GoneError, named_by, number

__all__ = [
    "INLINE_BYTES",
    "Arrays",
    "Draft",
    "GoneError",
    "Joint",
    "LogTable",
    "OvertakenError",
    "StateFiles",
    "UncommittedError",
    "as_table",
    "fresh_name",
    "streams",
]

INLINE_BYTES = 1 << 20
"""Tables of a batch up to this size are written into its entry, larger ones to a file. Chosen, not tuned."""
GRACE = 3600.0
"""Seconds for which files that nobody names are left alone where there is no lock: a writer may still name them."""

ENTRY_GRACE = 1800.0
"""Seconds for which entries stay in an object store, needed or not. Were they gone sooner, a writer that does not know
of them could create one of the same name, which nobody would ever look at (see `state/trust.py`)."""


@dataclass(frozen=True)
class Draft:
    """An entry that is to make a version."""

    version: int
    header: Mapping[str, Any]
    payload: bytes = b""
    beside: tuple[RunFile, ...] = ()
    """Files that a new page of it names."""

    @property
    def named(self) -> list[RunFile]:
        """The files that it names, but for those of pages that are there already."""
        return [*named_by(self.header), *self.beside]


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
        return RunFile(self._name, len(part), checksum_of(bytearray(part)), start)

    def close(self) -> None:
        """Make sure that it is kept; there is no file where nothing was added."""
        if self._sink is not None:
            self._sink.close()
            self._files.store.publish(RUNS + self._name)


class StateFiles(RunReader):
    """Runs and versions of one state, on this machine or in an object store."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._attempt: list[str] = []
        """Runs written here for a version that is not made yet."""
        self._discarded: set[str] = set()
        """Runs of attempts that failed, which were removed."""
        self._barred = False
        """Whether earlier versions of this package are kept from going on beside the log."""

    # --- writing -------------------------------------------------------------------------------

    def vacant(self) -> None:
        """Refuse a place where something is."""
        began = self._trust.begin()
        self.store.vacant()
        self._trust.put(began, -1)

    def lock(self) -> None:
        """Become the one writer."""
        try:
            self.store.lock()
        except OSError as error:
            raise UncommittedError(
                f"{self.url} cannot be written: {error}", hint="see that you may write there, and that there is room"
            ) from error

    def write_tables(self, kind: str, version: int, tables: Sequence[pa.Table], *, packed: bool = False) -> RunFile:
        """Write tables one after the other as IPC streams in one file; `packed` ones are compressed, and not mapped."""
        name = fresh_name(kind, version)
        options = pa.ipc.IpcWriteOptions(compression="zstd") if packed else _PLAIN
        with self._writing(name, version) as path:
            with pa.OSFile(path, "wb") as sink:
                _write_streams(sink, tables, options)
            return self._sealed(name)

    def joint(self, version: int) -> Joint:
        """A new file for several runs."""
        return Joint(self, fresh_name(JOINT, version))

    def write_arrays(
        self, kind: str, version: int, arrays: Mapping[str, NDArray[Any]], *, packed: bool = False
    ) -> RunFile:
        """Write named arrays as one Arrow record batch of one row, a list a column, so that it can be mapped.

        Where they are `packed`, numbers are as short as they can be, and are widened when they are read.
        """
        name = fresh_name(kind, version)
        fields, columns = [], []
        parts = (
            (key, array, whole.dtype.name)
            for of, whole in arrays.items()
            for key, array in (shortened(of, whole) if packed else ((of, whole),))
        )
        for key, array, dtype in parts:
            # Arrow packs truth values into bits, which cannot be mapped as numpy's
            plain = array.view(np.uint8) if array.dtype == np.bool_ else array
            flat = arrow_of(np.ascontiguousarray(plain).reshape(-1))
            offsets = arrow_of(np.array([0, len(flat)], dtype=np.int64))
            columns.append(pa.LargeListArray.from_arrays(offsets, flat))
            shape = ",".join(str(size) for size in array.shape)
            fields.append(pa.field(key, columns[-1].type, metadata={"shape": shape, "dtype": dtype}))
        schema = pa.schema(fields)
        with self._writing(name, version) as path:
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
                writer.write_batch(pa.record_batch(columns, schema=schema))
            return self._sealed(name)

    @contextmanager
    def _writing(self, name: str, version: int) -> Iterator[str]:
        """Where a run is written: what goes wrong there leaves the state as it is, and nothing that takes room."""
        self._attempt.append(name)
        try:
            yield str(self.store.draft(RUNS + name))
        except (OSError, StateError) as error:
            self._give_up()
            raise _uncommitted(f"{self.url}/{RUNS}{name} could not be written", version, error) from error
        except BaseException:
            self._give_up()
            raise

    def _give_up(self, draft: Draft | None = None, *, reachable: bool = False) -> None:
        """Remove what was written, here or by tasks, for a version that will certainly not be made.

        Parameters
        ----------
        reachable
            An object store is; while it is not, to ask it would take long, and its vacuum removes them later.
        """
        names = set(self._attempt)
        if draft is not None:
            matches = (RUN_NAME.fullmatch(file.name) for file in draft.named)
            names |= {match[0] for match in matches if match and int(match[1]) == draft.version}
        self._attempt = []
        if names and (reachable or not self.store.shared):
            self._discarded |= names
            with suppress(OSError, StateError):  # what failed before says more, and vacuum removes the rest
                self.store.delete([RUNS + name for name in sorted(names)])

    def _sealed(self, name: str) -> RunFile:
        with (
            self.store.draft(RUNS + name).open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped,
        ):
            run = RunFile(name, len(mapped), checksum_of(mapped))
        self.store.publish(RUNS + name)
        return run

    def inline(self, version: int, tables: Sequence[LogTable]) -> tuple[RunFile, bytes]:
        """Tables that are to be the payload of a version's entry, and how they are named."""
        few = [table for table in tables if isinstance(table, few_rows.FewRows)]
        data = few_rows.encode(few) if len(few) == len(tables) else streams([as_table(table) for table in tables])
        return RunFile(f"{LOG}{version:012d}", len(data), checksum_of(bytearray(data))), data

    def commit(self, draft: Draft) -> None:
        """Create a version in one step; the error of one that fails says whether it is there nevertheless."""
        version, name = draft.version, f"{LOG}{draft.version:012d}"
        time = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        # the mark tells our entry from another writer's that says the same
        about = {"format": FORMAT, "version": version, "time": time, "writer": os.urandom(16).hex()}
        if self._discarded and (gone := self._discarded.intersection(file.name for file in draft.named)):
            raise UncommittedError(
                f"{self.url}: {min(gone)} was removed when version {version} could not be made", hint=_again(version)
            )
        try:
            self._look_again(version)
            if not self._barred:
                old_formats.bar(self.store)
                self._barred = True
            began = self._trust.begin()
            self.store.create(name, encode({**draft.header, **about}, draft.payload))
            self._trust.put(began, version)
        except Taken as error:
            self._give_up(draft, reachable=True)
            first = "another state was made there first: open it, or choose another place"
            raise OvertakenError(
                f"{self.url} already has version {version}, of another writer",
                hint=_again(version) if version else first,
            ) from error
        except UnsureError as error:
            self._attempt = []  # they may be needed
            raise UnsureError(
                f"{error.message}; whether version {version} of {self.url} was made is not known",
                hint=f"{error.hint}; open the state again: its history says whether the batch is in, and a batch with"
                " an id can be applied again in either case",
            ) from error
        except (OSError, StateError) as error:
            self._give_up(draft)
            raise _uncommitted(f"{self.url} could not be written", version, error) from error
        self._seen, self._attempt = version, []

    def _look_again(self, version: int) -> None:
        """Where no lock keeps others away, make sure after some time that a version is still the next one."""
        if not self.store.shared or self._trust.holds(version - 1):
            return
        if self.versions()[-1:] != ([version - 1] if version else []):
            raise Taken(f"{LOG}{version:012d}")

    # --- clearing up ---------------------------------------------------------------------------

    def collect(
        self, needed: Iterable[RunFile], since: int, version: int, keep: float = 0, *, alone: bool = False
    ) -> list[Listed]:
        """Remove entries before a version and runs that are not needed; returns what was removed.

        Unless nobody else writes, only runs that were written for the version that needs these, or for one before it,
        can go: no attempt to write such a version will be committed any more, while later ones may need other files.

        Parameters
        ----------
        needed
            What this version needs, and the one before its checkpoint.
        since
            The first version whose entry is kept.
        keep
            Seconds for which versions are kept with all they need.
        alone
            Nothing is being written for this state: the caller holds the lock, where there is one, and neither tasks
            nor a checkpoint beside the work (`monitor/checkpoint.py`) write for it.
        """
        entries = self.store.list(LOG)
        versions = [v for listed in entries if (v := number(listed)) <= version]
        older = self._old_kept(versions, version, keep)
        if keep and versions:
            since, needed = self._kept_for(versions, since, keep)
        needed = [*needed, *(file for old in older for file in files_of(self.manifest(old)))]
        named = {f"{RUNS}{file.name}" if RUN_NAME.fullmatch(file.name) else file.name for file in needed}
        now = dt.datetime.now(dt.UTC).timestamp()
        before, entries_before = (now - GRACE, now - ENTRY_GRACE) if self.store.shared else (now, float("inf"))
        gone = [
            listed
            for listed in entries
            if number(listed) < since and listed.name not in named and listed.modified <= entries_before
        ]
        for listed in self.store.list(RUNS):
            match = RUN_NAME.fullmatch(listed.name.removeprefix(RUNS))
            if match is None or listed.name in named:
                continue
            given_up = (alone and not self.store.shared) or (int(match[1]) <= version and listed.modified <= before)
            if given_up:
                gone.append(listed)
        # versions first, and the oldest first, so that what an interruption leaves is told from damage
        if versions:
            old_formats.bar(self.store)
        old = old_formats.collect(self.store, old_formats.listed(self.store).keys() - older)
        self.store.delete([listed.name for listed in gone if listed.name.startswith(LOG)])
        self.store.delete([listed.name for listed in gone if not listed.name.startswith(LOG)])
        return [*old, *gone]

    def discard(self, kind: str, version: int) -> None:
        """Remove the runs of a kind that attempts to make a version wrote and that no version names."""
        start = f"{RUNS}{kind}-{version:012d}-"
        self.store.delete([listed.name for listed in self.store.list(RUNS) if listed.name.startswith(start)])

    def erase(self) -> None:
        """Remove every version and every run, where a state could not be made."""
        self.store.delete([listed.name for prefix in (LOG, RUNS) for listed in self.store.list(prefix)])

    def _kept_for(self, versions: Sequence[int], since: int, keep: float) -> tuple[int, list[RunFile]]:
        """The first version to keep so that those of the last seconds can be read, and the files of all from there."""
        when = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=keep)
        oldest = versions[max(0, self._made_by(versions, when) - 1)]
        since = min(since, self._entry(oldest).header.get("since", oldest))
        kept = [version for version in versions if version >= since]
        headers = [entry.header for entry in self._entries(kept)]
        return since, [file for header in headers for file in (*named_by(header), *self.paged(header))]

    def _old_kept(self, versions: Sequence[int], version: int, keep: float) -> set[int]:
        """The versions of an earlier format to keep, beside those of the log."""
        older = old_formats.listed(self.store)
        if not versions:
            return {v for v in older if v >= version}
        when = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=keep)
        if not keep or self._made_by(versions, when):
            return set()
        before = [v for v, listed in older.items() if listed.modified <= when.timestamp()]
        return {v for v in older if not before or v >= before[-1]}


LogTable: TypeAlias = pa.Table | few_rows.FewRows
"""What an entry of the log can hold."""


def as_table(rows: LogTable) -> pa.Table:
    """Rows as Arrow."""
    return rows.table() if isinstance(rows, few_rows.FewRows) else rows


def streams(tables: Sequence[pa.Table]) -> bytes:
    """Tables as IPC streams one after the other."""
    if all(table.num_rows and all(column.num_chunks == 1 for column in table.columns) for table in tables):
        # the same bytes in half the time, which counts for a row
        messages = ((table.schema.serialize(), table.to_batches()[0].serialize(), _END) for table in tables)
        return b"".join(part for table in messages for part in table)
    data = pa.BufferOutputStream()
    _write_streams(data, tables, _PLAIN)
    return bytes(data.getvalue().to_pybytes())


_END = b"\xff\xff\xff\xff\0\0\0\0"
"""How an IPC stream ends."""

_PLAIN = pa.ipc.IpcWriteOptions()
"""Made once: without it pyarrow asks the environment, several times a table."""


def _write_streams(sink: pa.NativeFile, tables: Sequence[pa.Table], options: pa.ipc.IpcWriteOptions) -> None:
    for table in tables:
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)


def fresh_name(kind: str, version: int) -> str:
    """A name that no other run has."""
    return f"{kind}-{version:012d}-{uuid.uuid4().hex[:12]}.arrow"


def _uncommitted(what: str, version: int, error: OSError | StateError) -> UncommittedError:
    why, hint = (error.message, error.hint) if isinstance(error, StateError) else (str(error), None)
    return UncommittedError(f"{what}: {why}", hint="; then ".join(filter(None, (hint, _again(version)))))


def _again(version: int) -> str:
    """What to do when a version was not made."""
    return "open the state again, and apply the batch again" if version else "make the state again"
