"""The lock of the one writer of a directory, on every system; it ends with the process, however that ends."""

from __future__ import annotations

import os
import stat
import sys
import zlib
from pathlib import Path

from holdstrue.errors import StateError

if sys.platform == "win32":
    import msvcrt

    FAR = 1 << 30
    """Locked bytes cannot be read by others there, so one is locked that is never written."""

    def _take(handle: int) -> None:
        os.lseek(handle, FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class HeldError(StateError):
    """Another process writes the state just now, and nothing was done."""


class WriterLock:
    """A file that one writer holds locked, and in which it notes the last version it knows to be on disk.

    The note is written after a commit and never waited for. It may be behind; where it is ahead of what the log
    holds, the log was damaged rather than cut short by a crash.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    @property
    def held(self) -> bool:
        """Whether this process is the writer."""
        return self._handle is not None

    def take(self) -> None:
        """Become the writer, or raise at once."""
        if self._handle is not None:
            return
        refuse_strange(self._path)
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | NOFOLLOW, 0o644)
        try:
            _take(handle)
        except OSError as error:
            os.close(handle)
            raise HeldError(
                f"{self._path.parent} is being written by another process",
                hint="wait for that to finish, or close the monitor that has it open",
            ) from error
        self._handle = handle

    def release(self) -> None:
        """Let others write."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def note(self, version: int) -> None:
        """Remember that a version is on disk."""
        if self._handle is not None:
            try:
                write_at(self._handle, _note(version), 0)
            except OSError:
                return  # the version is made: the note may be behind

    def noted(self) -> int:
        """The last version that was noted; -1 where none is, or one that is just being written."""
        refuse_strange(self._path)
        try:
            text = self._path.read_bytes()
        except OSError:
            return -1
        version = int(text[:12]) if text[:12].isdigit() else -1
        return version if text == _note(version) else -1

    @property
    def garbled(self) -> bool:
        """Whether the file holds something else than a note."""
        try:
            return bool(self._path.read_bytes()) and self.noted() < 0
        except OSError:
            return False


def _note(version: int) -> bytes:
    """A version with a checksum, since what is half written may look like another.

    >>> _note(12)
    b'000000000012 536bfb9a\\n'
    """
    text = b"%012d" % version
    return b"%s %08x\n" % (text, zlib.crc32(text))


def write_at(handle: int, data: bytes | memoryview, at: int) -> int:
    """Write at a place of a file; returns how many bytes were."""
    if sys.platform == "win32":
        os.lseek(handle, at, os.SEEK_SET)
        return os.write(handle, data)
    return os.pwrite(handle, data, at)


NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
"""A link inside a state leads out of it, so none is followed."""


def refuse_strange(path: Path) -> None:
    """Refuse what is there in the place of a file: a link leads out of the state, a pipe never ends."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        what = "a link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no file"
        raise StateError(
            f"{path} is damaged: it is {what}", hint="restore the state directory from a copy, or make it anew"
        )
