"""Files of the log of a state in a directory: many entries to a file, appended and synced one by one.

A record is a frame (mark, checksums, version, size) and the bytes of an entry. One that a crash cut short is no entry;
the next writer cuts it off.
"""

from __future__ import annotations

import io
import os
import struct
import threading
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from holdstrue.errors import StateError
from holdstrue.state.lock import NOFOLLOW, refuse_strange, write_at
from holdstrue.state.store import LOG, Listed, Missing, UnsureError

SEGMENT_BYTES = 8 << 20
SEGMENT_ENTRIES = 1024
"""A log file that holds so much is followed by another, so that old entries can be removed. Chosen, not tuned."""
ROOM_AFTER, ROOM_BYTES = 32, 1 << 18
"""After so many entries a writer writes zeros ahead: a sync then takes 105 us instead of 150 to 180."""

_MARK = b"hrec"
_DEAD = b"drec"
"""Takes the place of the mark of an entry that was removed while its file is still needed: one byte, written or not."""
_FRAME = struct.Struct("<4sIQQII")
"""Mark, checksum of the rest of the frame, version, bytes, checksum of the bytes, 0."""

_sync_data = getattr(os, "fdatasync", os.fsync)


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
        self._room = 0
        """Up to where the file holds zeros that were written ahead."""
        self._appended = 0
        self._handle: int | None = None
        self._reader: io.FileIO | None = None

    @staticmethod
    def new(path: Path, first: int) -> Segment:
        """An empty one, whose name is on disk."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        sync(path.parent)
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
        """How many bytes follow what could be read, without zeros that a writer wrote ahead."""
        with self.path.open("rb") as file:
            file.seek(self._end)
            return len(file.read().rstrip(b"\0"))

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
                    raise damaged(self.path, f"the entry of version {version} does not match its checksum")
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
            write_at(self._opened(), _DEAD[:1], self.places[version - self.first][0] - _FRAME.size)
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
            self._make_room(handle, len(record))
            written = 0
            while written < len(record):
                written += write_at(handle, memoryview(record)[written:], self._end + written)
            _sync_data(handle)
        except BaseException as error:
            self._room = 0
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
        self._appended += 1

    def _make_room(self, handle: int, needed: int) -> None:
        """Write zeros ahead for a writer who stays: a sync that need not make the file longer takes two thirds."""
        if self._appended < ROOM_AFTER or self._end + needed <= self._room:
            return
        with suppress(OSError):  # room for the entry itself may be left
            self._room = 0
            ahead = needed + ROOM_BYTES
            if write_at(handle, bytes(ahead), self._end) == ahead:
                os.fsync(handle)
                self._room = self._end + ahead

    def _opened(self) -> int:
        if self._handle is None:
            self._handle = os.open(self.path, os.O_RDWR | NOFOLLOW)
        return self._handle

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None:
            if self._room > self._end:
                with suppress(OSError):  # zeros are no entries
                    os.ftruncate(self._handle, self._end)
                self._room = 0
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


def damaged(path: Path, why: str) -> StateError:
    """What to say of a file of a state directory that cannot be what was written."""
    return StateError(f"{path} is damaged: {why}", hint="restore the state directory from a copy, or make it anew")


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    if os.name == "nt" and path.is_dir():
        return  # folders cannot be opened there, and need not be
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
