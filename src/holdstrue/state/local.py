"""A state in a directory of this machine: `runs/` holds files, `log/` the entries, many to a file.

An entry is appended to the newest file of the log and synced: one write and one sync make a commit. A record that
a crash cut short is no entry; the next writer cuts it off. Whether the last record was cut short or damaged later
tells the note in the lock file (see `WriterLock`).
"""

from __future__ import annotations

import io
import os
import re
import stat
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from holdstrue.errors import StateError
from holdstrue.state.lock import NOFOLLOW, WriterLock, refuse_strange
from holdstrue.state.store import LOG, RUNS, Listed, Missing, Problem, Survey, Taken, UnsureError

SEGMENT_BYTES = 8 << 20
SEGMENT_ENTRIES = 1024
"""A log file that holds so much is followed by another, so that old entries can be removed. Chosen, not tuned."""

_MARK = b"hrec"
_DEAD = b"drec"
"""Takes the place of the mark of an entry that was removed while its file is still needed: one byte, written or not."""
_FRAME = struct.Struct("<4sIQQII")
"""Mark, checksum of the rest of the frame, version, bytes, checksum of the bytes, 0."""
_ENTRY = re.compile(re.escape(LOG) + r"(\d{12})")
_SEGMENT = re.compile(r"(\d{12})\.log")
_RUN = re.compile(r"[a-z]+-\d{12}-[0-9a-f]{12}\.arrow")

_sync_data = getattr(os, "fdatasync", os.fsync)


class LocalStore:
    """The objects of a state in a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = str(root)
        self.shared = False
        self._lock = WriterLock(root / "lock")
        self._segments: dict[int, Segment] = {}
        self._unsynced = False
        """Whether `runs/` has new names that are not surely on disk."""

    # --- the place -----------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether there is a directory."""
        return self.root.is_dir()

    @property
    def begun(self) -> bool:
        """Whether there are log files, or manifests of an earlier format."""
        log = self._folder("log")
        return (log.is_dir() and any(os.scandir(log))) or any(self.root.glob("manifest-*.json"))

    def vacant(self) -> None:
        """Refuse a place where something is; a directory that was given up before its first commit counts as empty."""
        there = {entry.name for entry in self.root.iterdir()} if self.root.is_dir() else set()
        given_up = "lock" in there and there <= {"lock", "runs", "log"} and not self._kept()
        if self.root.exists() and not (self.root.is_dir() and (not there or given_up)):
            kept = "log" in there or any(name.startswith("manifest-") for name in there)
            raise StateError(
                f"{self.root} exists and is not an empty directory" + (": it holds a state" if kept else ""),
                hint="choose another place" + ("" if kept else ", or remove it"),
            )

    def _kept(self) -> bool:
        """Whether there is anything that a creation which was given up would not have left."""
        runs, log = self._folder("runs"), self._folder("log")
        strange = any(not _RUN.fullmatch(entry.name) for entry in os.scandir(runs)) if runs.is_dir() else False
        return strange or (
            log.is_dir() and (any(not _SEGMENT.fullmatch(e.name) for e in os.scandir(log)) or self._any())
        )

    def _any(self) -> bool:
        return any(segment.scan() for segment in self._found())

    def lock(self) -> None:
        """Become the one writer, and make the folders there should be."""
        if not self.root.is_dir():
            self.root.mkdir(parents=True, exist_ok=True)
            _sync(self.root.parent)
        self._lock.take()
        self._segments = {}  # others may have written since they were looked at
        for name in ("runs", "log"):
            if not self._folder(name).is_dir():
                (self.root / name).mkdir()
                _sync(self.root)

    def close(self) -> None:
        """Let go of the lock."""
        for segment in self._segments.values():
            segment.close()
        self._lock.release()

    def _folder(self, name: str) -> Path:
        """A folder of the state, which must not lead out of it."""
        path = self.root / name
        if path.is_symlink():
            raise StateError(
                f"{path} is a link: a state is confined to its directory",
                hint="copy what it leads to into the directory, or make the state anew",
            )
        return path

    # --- the log -------------------------------------------------------------------------------

    def create(self, name: str, data: bytes) -> None:
        """Append an entry to the log, durably; raises `Taken` when there is one of its number or a later one."""
        version = _version(name)
        if not self._lock.held:
            raise RuntimeError("only the holder of the lock may write")
        newest = self._newest()
        if version <= newest:
            raise Taken(name)
        if self._unsynced:
            _sync(self.root / "runs")
            self._unsynced = False
        last = self._segments[max(self._segments)] if self._segments else None
        if last is None or last.full or version != newest + 1:
            last = self._segments[version] = Segment.new(self.root / "log" / f"{version:012d}.log", version)
        last.append(version, data)
        self._lock.note(version)

    def _newest(self) -> int:
        """The number of the last entry, -1 where there is none."""
        if self._lock.held and self._segments:
            return self._segments[max(self._segments)].newest
        try:
            return self._examined()
        except StateError:
            self._segments = {}  # nobody goes on from what is damaged
            raise

    def _examined(self) -> int:
        """The same, from what the log files hold now."""
        noted = self._lock.noted()
        newest = self._scanned()
        if newest < noted and (newest := self._scanned()) < noted:
            raise _damaged(self._last_path(), f"version {noted} was written and cannot be read")
        for segment in [segment for segment in self._segments.values() if segment.newest >= newest]:
            if not segment.torn:
                raise _damaged(segment.path, f"what comes after version {segment.newest} is no entry")
            if self._lock.held:
                self._mend(segment)
        return newest

    def _scanned(self) -> int:
        """Look which log files there are, and what the last of them holds."""
        found = self._found()
        self._segments = {segment.first: segment for segment in found}
        for segment in reversed(found):
            if segment.scan():
                return segment.newest
        return -1

    def _mend(self, segment: Segment) -> None:
        """Take away what a crash left of an entry that was being written, and nothing else."""
        if segment.places:
            segment.repair()
        else:
            segment.path.unlink()
            del self._segments[segment.first]

    def _found(self) -> list[Segment]:
        folder = self._folder("log")
        if not folder.is_dir():
            return []
        names = sorted(match[1] for entry in os.scandir(folder) if (match := _SEGMENT.fullmatch(entry.name)))
        return [self._segments.get(int(name)) or Segment(folder / f"{name}.log", int(name)) for name in names]

    def _last_path(self) -> Path:
        return self._segments[max(self._segments)].path if self._segments else self.root / "log"

    def _segment_of(self, version: int) -> Segment:
        for again in (False, True):
            if again or not self._segments:
                self._scanned()
            before = [first for first in self._segments if first <= version]
            if before:
                segment = self._segments[max(before)]
                if version <= segment.newest or (segment.scan() and version <= segment.newest):
                    return segment
        raise Missing(f"{LOG}{version:012d}")

    # --- reading -------------------------------------------------------------------------------

    def read(self, name: str) -> bytes:
        """The whole of an object."""
        if name.startswith(LOG):
            return self._segment_of(_version(name)).read(_version(name))
        try:
            handle = os.open(self._run(name), os.O_RDONLY | NOFOLLOW)
        except FileNotFoundError as error:
            raise Missing(name) from error
        with os.fdopen(handle, "rb") as file:
            return file.read()

    def read_range(self, name: str, start: int, size: int) -> bytes:
        """A part of an object."""
        if name.startswith(LOG):
            return self.read(name)[start : start + size]
        try:
            handle = os.open(self._run(name), os.O_RDONLY | NOFOLLOW)
        except FileNotFoundError as error:
            raise Missing(name) from error
        with os.fdopen(handle, "rb") as file:
            file.seek(start)
            return file.read(size)

    def list(self, prefix: str) -> list[Listed]:
        """The objects whose names start so: `log/` or `runs/`."""
        if prefix == LOG:
            self._newest()
            return [listed for first in sorted(self._segments) for listed in self._listed(self._segments[first])]
        folder = self._folder(prefix.rstrip("/"))
        if not folder.is_dir():
            return []
        found = []
        for entry in os.scandir(folder):
            if _RUN.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # removed just now
                    about = entry.stat(follow_symlinks=False)
                    found.append(Listed(prefix + entry.name, about.st_size, about.st_mtime))
        return sorted(found, key=lambda listed: listed.name)

    def _listed(self, segment: Segment) -> Iterable[Listed]:
        segment.scan()
        return segment.listed()

    def delete(self, names: Sequence[str]) -> None:
        """Remove entries, and log files that have none left, and then files of runs."""
        gone = {_version(name) for name in names if name.startswith(LOG)}
        if gone:
            self._newest()
        for first, segment in list(self._segments.items()) if gone else ():
            segment.scan()
            if first != max(self._segments) and gone >= set(segment.living):
                segment.close()
                segment.path.unlink(missing_ok=True)
                del self._segments[first]
            else:
                segment.forget(gone.intersection(segment.living))
        for name in names:
            if name.startswith(RUNS):
                self._run(name).unlink(missing_ok=True)

    # --- files ---------------------------------------------------------------------------------

    def _run(self, name: str) -> Path:
        return self._folder("runs") / name.removeprefix(RUNS)

    def draft(self, name: str) -> Path:
        """Where to write the file of a run: at once where it belongs, since nothing names it yet."""
        return self._run(name)

    def publish(self, name: str) -> None:
        """Make sure that the file is on disk; its name will be when the next entry is."""
        _sync(self._run(name))
        if self._lock.held:
            self._unsynced = True
        else:
            # somebody else is the writer, who does not know that there is a new name
            _sync(self.root / "runs")

    def file(self, name: str, size: int | None) -> Path:  # of any size, it is here
        """The file of a run."""
        path = self._run(name)
        try:
            about = path.lstat()
        except FileNotFoundError as error:
            raise Missing(name) from error
        if not stat.S_ISREG(about.st_mode):
            raise StateError(
                f"{path} is damaged: it is no file of the state but a link or a folder",
                hint="restore the state directory from a copy, or make it anew",
            )
        return path

    def drop(self, name: str) -> bool:
        """Nothing is a copy here."""
        return False

    # --- looking at everything -----------------------------------------------------------------

    def survey(self) -> Survey:
        """Look through all files of the log, and everything else there is."""
        survey = Survey([], [], [], [])
        try:
            found = [Segment(known.path, known.first) for known in self._found()]
            self._segments = {segment.first: segment for segment in found}
            survey.runs.extend(self.list(RUNS))
        except StateError as error:  # a folder that is a link
            survey.problems.append(Problem(str(self.root), error.message))
            return survey
        for segment in found:
            self._survey(segment, survey, last=segment is found[-1])
        known = {listed.name for listed in survey.runs} | {LOG + segment.path.name for segment in found}
        for folder, names in ((self.root, self._names()), (self.root / "runs", None), (self.root / "log", None)):
            for entry in os.scandir(folder) if folder.is_dir() else ():
                name = entry.name if names is not None else f"{folder.name}/{entry.name}"
                if name not in (names or known):
                    survey.others.append(name)
        survey.others.sort()
        return survey

    def _survey(self, segment: Segment, survey: Survey, *, last: bool) -> None:
        name = LOG + segment.path.name
        try:
            segment.scan()
        except (StateError, OSError) as error:
            why = error.message.partition("damaged: ")[2] if isinstance(error, StateError) else str(error)
            survey.problems.append(Problem(name, why))
        else:
            rest = segment.rest()
            if last and segment.newest < self._lock.noted():
                survey.problems.append(Problem(name, f"version {self._lock.noted()} was written and cannot be read"))
            elif last and rest:
                survey.others.append(f"{name}: its last {rest} bytes are of an entry that was cut short")
            elif rest:
                survey.problems.append(Problem(name, f"its last {rest} bytes are no entries"))
        survey.entries.extend(segment.listed())

    def _names(self) -> set[str]:
        """What belongs into the directory itself."""
        return {"lock", "log", "runs", "streams"} | {path.name for path in self.root.glob("manifest-*.json")}

    def reread(self, name: str) -> bytes:
        """Nothing is a copy here."""
        return self.read(name)

    @contextmanager
    def examine(self, name: str) -> Iterator[Path]:
        """The file of a run."""
        yield self.file(name, 0)


class Segment:
    """A file of the log: entries from one version on, one after the other."""

    def __init__(self, path: Path, first: int) -> None:
        self.path = path
        self.first = first
        self.places: list[tuple[int, int]] = []
        """Where the bytes of each entry start, and how many they are."""
        self.modified = 0.0
        self.torn = True
        """Whether what follows the last entry, if anything, is the start of one that a crash cut short."""
        self._dead: set[int] = set()
        self._reading = threading.Lock()
        self._end = 0
        self._handle: int | None = None
        self._reader: io.FileIO | None = None

    @staticmethod
    def new(path: Path, first: int) -> Segment:
        """An empty one, whose name is on disk."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        _sync(path.parent)
        return Segment(path, first)

    @property
    def newest(self) -> int:
        """The version of its last entry; the one before its first where it has none."""
        return self.first + len(self.places) - 1

    @property
    def living(self) -> list[int]:
        """The versions of its entries that were not removed."""
        return [version for version in range(self.first, self.newest + 1) if version not in self._dead]

    def listed(self) -> list[Listed]:
        """The entries that were found and not removed."""
        sizes = [size for _, size in self.places]
        return [Listed(f"{LOG}{v:012d}", sizes[v - self.first], self.modified) for v in self.living]

    def rest(self) -> int:
        """How many bytes follow what could be read."""
        return max(0, self.path.stat().st_size - self._end)

    @property
    def full(self) -> bool:
        """Whether entries should go to another file from now on."""
        return self._end >= SEGMENT_BYTES or len(self.places) >= SEGMENT_ENTRIES

    def scan(self) -> bool:
        """Read what was appended since the last look; returns whether there is any entry. Complexity: O(new bytes)."""
        refuse_strange(self.path)
        try:
            handle = os.open(self.path, os.O_RDONLY | NOFOLLOW)
        except FileNotFoundError:
            return False
        with os.fdopen(handle, "rb") as file:
            self.modified = os.fstat(handle).st_mtime
            file.seek(self._end)
            data = file.read()
        at = 0
        while at + _FRAME.size <= len(data):
            mark, check, version, size, content, _ = _FRAME.unpack_from(data, at)
            start = at + _FRAME.size
            framed = mark in (_MARK, _DEAD) and zlib.crc32(data[at + 8 : start]) == check and version == self.newest + 1
            if not framed or start + size > len(data):
                break
            if zlib.crc32(data[start : start + size]) != content:
                if data[start + size :].strip(b"\0"):
                    raise _damaged(self.path, f"the entry of version {version} does not match its checksum")
                break
            if mark == _DEAD:
                self._dead.add(version)
            self.places.append((self._end + start, size))
            at = start + size + -size % 8
        self._end += at
        self.torn = _is_start(data[at:], self.newest + 1)
        return bool(self.places)

    def read(self, version: int) -> bytes:
        """The bytes of an entry."""
        if version in self._dead:
            raise Missing(f"{LOG}{version:012d}")
        start, size = self.places[version - self.first]
        if self._reader is None:
            try:
                self._reader = io.FileIO(os.open(self.path, os.O_RDONLY | NOFOLLOW))
            except FileNotFoundError as error:
                raise Missing(f"{LOG}{version:012d}") from error
        with self._reading:
            self._reader.seek(start)
            return self._reader.read(size)

    def forget(self, versions: Iterable[int]) -> None:
        """Mark entries as removed."""
        for version in sorted(versions):
            os.lseek(self._opened(), self.places[version - self.first][0] - _FRAME.size, os.SEEK_SET)
            os.write(self._opened(), _DEAD[:1])
            self._dead.add(version)

    def repair(self) -> None:
        """Cut off what a crash left of an entry that was being written."""
        if self.path.stat().st_size != self._end:
            os.ftruncate(self._opened(), self._end)
            os.fsync(self._opened())

    def append(self, version: int, data: bytes) -> None:
        """Write an entry and wait until it is on disk, or leave the file as it was."""
        frame = struct.pack("<QQII", version, len(data), zlib.crc32(data), 0)
        record = b"".join((_MARK, struct.pack("<I", zlib.crc32(frame)), frame, data, bytes(-len(data) % 8)))
        handle = self._opened()
        try:
            os.lseek(handle, self._end, os.SEEK_SET)
            left = memoryview(record)
            while left:
                left = left[os.write(handle, left) :]
            _sync_data(handle)
        except BaseException as error:
            try:
                os.ftruncate(handle, self._end)
                os.fsync(handle)
            except OSError as second:
                raise UnsureError(
                    f"{self.path} could not be written ({error}), nor brought back to what it was ({second})",
                    hint="see to it that the disk works",
                ) from error
            raise
        self.places.append((self._end + _FRAME.size, len(data)))
        self._end += len(record)

    def _opened(self) -> int:
        if self._handle is None:
            self._handle = os.open(self.path, os.O_RDWR | NOFOLLOW)
        return self._handle

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _is_start(data: bytes, version: int) -> bool:
    """Whether bytes can be the start of a version's entry, with nothing or zeros in place of the rest."""
    head = data[: _FRAME.size].rstrip(b"\0")
    if len(head) < 8 or len(data) < _FRAME.size:
        return head == _MARK[: len(head)] or head.startswith(_MARK)
    mark, check, found, *_ = _FRAME.unpack_from(data)
    if mark != _MARK:
        return False
    whole = zlib.crc32(data[8 : _FRAME.size]) == check
    return found == version if whole else not data[_FRAME.size :].strip(b"\0")


def _damaged(path: Path, why: str) -> StateError:
    return StateError(f"{path} is damaged: {why}", hint="restore the state directory from a copy, or make it anew")


def _version(name: str) -> int:
    match = _ENTRY.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no entry of a log")
    return int(match[1])


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    if os.name == "nt" and path.is_dir():
        return  # folders cannot be opened there, and need not be
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
