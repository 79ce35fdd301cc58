"""A state in a directory of this machine: `runs/` holds files, `log/` the entries, many to a file.

An entry is appended to the newest file of the log and synced: one write and one sync make a commit. A record that
a crash cut short is no entry; the next writer cuts it off. Whether the last record was cut short or damaged later
tells the note in the lock file (see `WriterLock`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from holdstrue.errors import StateError
from holdstrue.state.lock import NOFOLLOW, WriterLock
from holdstrue.state.segment import Segment, damaged, sync
from holdstrue.state.store import LOG, NOT_PLAIN, RUNS, Glance, Listed, Missing, Problem, Survey, Taken

_ENTRY = re.compile(re.escape(LOG) + r"(\d{12})")
_SEGMENT = re.compile(r"(\d{12})\.log")
_RUN = re.compile(r"[a-z]+-\d{12}-[0-9a-f]{12}\.arrow")

DRAFT = ".manifest.tmp"
"""Where a file is written that becomes a manifest (see `old_formats.bar`)."""


class LocalStore:
    """The objects of a state in a directory."""

    def __init__(self, root: Path, url: str | None = None) -> None:
        self.root = root
        self.url = str(root) if url is None else url
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

    def glance(self) -> Glance:
        """The sizes and times of the log files, and what the writer noted: two commits may be of one time.

        Complexity: O(log files).
        """
        log = self._folder("log")
        stats = [(entry.name, entry.stat(follow_symlinks=False)) for entry in os.scandir(log)] if log.is_dir() else []
        found = sorted((name, stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
        older = sorted(path.name for path in self.root.glob("manifest-*.json"))
        return self.exists, self._lock.noted(), *found, *older

    def inner(self) -> list[str]:
        """The folders that hold a log, or manifests of an earlier format."""
        if not self.root.is_dir():
            return []
        found = []
        for entry in os.scandir(self.root):
            with suppress(StateError, OSError):  # one that may not be looked into
                if entry.is_dir(follow_symlinks=False) and LocalStore(Path(entry.path)).begun:
                    found.append(entry.name)
        return sorted(found)

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
            sync(self.root.parent)
        self._lock.take()
        self._segments = {}  # others may have written since they were looked at
        for name in ("runs", "log"):
            if not self._folder(name).is_dir():
                (self.root / name).mkdir()
                sync(self.root)

    def close(self) -> None:
        """Let go of the lock."""
        try:
            for segment in self._segments.values():
                segment.close()
        finally:  # also where somebody interrupts it
            self._lock.release()

    def _folder(self, name: str) -> Path:
        """A folder of the state, which must not lead out of it."""
        path = self.root / name
        if path.is_symlink():
            raise StateError(
                f"{path} is a link: a state is confined to its directory",
                hint="copy what it leads to into the directory, or make the state anew",
            )
        if path.exists() and not path.is_dir():
            raise damaged(path, "it is no folder")
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
            sync(self.root / "runs")
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
        self._folder("runs")  # which nothing that only reads the log would look at
        newest = self._scanned()
        if newest < 0 and self._log_lost(noted):
            raise damaged(self.root / "log", _lost_said(noted))
        if newest < noted and (newest := self._scanned()) < noted:
            raise damaged(self._last_path(), f"version {noted} was written and cannot be read")
        for segment in [segment for segment in self._segments.values() if segment.newest >= newest]:
            if not segment.torn:
                raise damaged(segment.path, f"what comes after version {segment.newest} is no entry")
            if self._lock.held:
                self._mend(segment)
        return newest

    def _log_lost(self, noted: int) -> bool:
        """Where there are no log files, whether there were some: a creation that was given up leaves a lock."""
        if self._segments or any(self.root.glob("manifest-*.json")):
            return False
        return noted >= 0 or not ((self.root / "lock").exists() or not self.list(RUNS))

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
        with self._opened(name) as file:
            return file.read()

    def read_range(self, name: str, start: int, size: int) -> bytes:
        """A part of an object."""
        if name.startswith(LOG):
            return self.read(name)[start : start + size]
        with self._opened(name) as file:
            file.seek(start)
            return file.read(size)

    def _opened(self, name: str) -> BinaryIO:
        try:
            return os.fdopen(os.open(self.file(name, None), os.O_RDONLY | NOFOLLOW), "rb")
        except FileNotFoundError as error:
            raise Missing(name) from error

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
        sync(self._run(name))
        if self._lock.held:
            self._unsynced = True
        else:
            # somebody else is the writer, who does not know that there is a new name
            sync(self.root / "runs")

    def file(self, name: str, size: int | None) -> Path:  # of any size, it is here
        """The file of a run."""
        path = self._run(name)
        try:
            about = path.lstat()
        except FileNotFoundError as error:
            raise Missing(name) from error
        if not stat.S_ISREG(about.st_mode):
            raise StateError(
                f"{path} is damaged: {NOT_PLAIN}",
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
        for name, look in (("lock", self._lock.noted), ("log", self._found), ("runs", lambda: self._folder("runs"))):
            try:
                look()
            except StateError as error:
                why = error.message.removeprefix(f"{self.root / name} is ").removeprefix("damaged: it is ")
                survey.problems.append(Problem(name, f"it is {why}"))
        if survey.problems:
            return survey
        found = [Segment(known.path, known.first) for known in self._found()]
        self._segments = {segment.first: segment for segment in found}
        survey.runs.extend(self.list(RUNS))
        if self._lock.garbled:
            survey.problems.append(
                Problem("lock", "it does not say which version was the last: later ones may be lost")
            )
        if not found and self._log_lost(noted := self._lock.noted()):
            survey.problems.append(Problem("log", _lost_said(noted)))
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
            elif last and not segment.torn:
                survey.problems.append(Problem(name, f"what comes after version {segment.newest} is no entry"))
            elif last and rest:
                survey.others.append(f"{name}: its last {rest} bytes are of an entry that was cut short")
            elif rest:
                survey.problems.append(Problem(name, f"its last {rest} bytes are no entries"))
        survey.entries.extend(segment.listed())

    def _names(self) -> set[str]:
        """What belongs into the directory itself."""
        return {"lock", "log", "runs", "streams", DRAFT} | {path.name for path in self.root.glob("manifest-*.json")}

    def reread(self, name: str) -> bytes:
        """Nothing is a copy here."""
        return self.read(name)

    @contextmanager
    def examine(self, name: str) -> Iterator[Path]:
        """The file of a run."""
        yield self.file(name, 0)


def _lost_said(noted: int) -> str:
    return "it is missing" + ("" if noted < 0 else f", and with it every version up to {noted}")


def _version(name: str) -> int:
    match = _ENTRY.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no entry of a log")
    return int(match[1])
