"""Files of object stores on this machine's disk: bounded, shared by its processes, least recently used go first.

    FOLDER/objects/DIGEST/runs/arrays-...arrow    an object of the store whose identity has this digest
    FOLDER/objects/DIGEST/runs/....part           one that is being fetched or written
    FOLDER/objects/locks/                         held while a file is fetched, so that it is fetched once

Objects never change, so a file that is there with its size needs no asking. Nothing in it is trusted all the same: who
reads a file compares its checksum, and drops it here when it is damaged.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from holdstrue.errors import StateError

try:
    import fcntl
except ImportError:  # Windows, where two processes may fetch the same file
    fcntl = None  # type: ignore[assignment]

LIMIT = 10 << 30
"""Bytes kept unless HOLDSTRUE_CACHE_BYTES says otherwise. Chosen, not tuned."""
RECENT = 300.0
"""Seconds after its last use for which a file stays, unless there is twice as much as may be."""
IN_USE = 30.0
"""Seconds for which it stays whatever there is: who was just told its path may not have opened it yet."""
ABANDONED = 86400.0
"""Seconds after which a file that nobody finished is removed."""
SLICE = 32
"""The folder is looked through when a process has added this part of the limit; 10,000 files take 50 ms."""
_LOCKS = 64


class Upstream(Protocol):
    """Where files come from: `ObjectStore`."""

    @property
    def identity(self) -> str:
        """What tells it from others."""
        ...

    def fetch(self, name: str, path: Path, size: int | None = None) -> None:
        """Download an object."""
        ...


class Cache:
    """The cache of a machine's user.

    Parameters
    ----------
    folder
        Where it lies; otherwise HOLDSTRUE_CACHE names it, or it is the system's folder for caches.
    limit
        Its bytes; otherwise HOLDSTRUE_CACHE_BYTES.
    """

    def __init__(self, folder: Path | None = None, limit: int | None = None) -> None:
        self.folder = folder_of(os.environ) if folder is None else folder
        self.limit = limit_of(os.environ) if limit is None else limit
        self._files = self.folder / "objects"
        self._added: int | None = None  # nothing is known before the first look
        self._lock = threading.Lock()

    def fetch(self, store: Upstream, name: str, size: int | None) -> Path:
        """The file of an object, brought here if it is missing; used now, so it stays for a while.

        Parameters
        ----------
        size
            Of the object; None where it is not known, so that a file of any size will do.
        """
        path = self._path(store, name)
        if _use(path, size):
            return path
        with self._writing(path), self._alone(path):
            if _use(path, size):  # another process was faster
                return path
            part = _part(path)
            try:
                store.fetch(name, part, size)
                fetched = part.stat().st_size
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
        self._account(fetched)
        return path

    def find(self, store: Upstream, name: str) -> Path | None:
        """The file of an object if it is here; used now, so it stays for a while."""
        path = self._path(store, name)
        return path if _use(path, None) else None

    def place(self, store: Upstream, name: str) -> Path:
        """Where to write a file that will be an object of this name; `keep` puts it in its place."""
        path = self._path(store, name)
        with self._writing(path):
            return _part(path)

    def keep(self, store: Upstream, name: str, part: Path) -> Path:
        """Put a written file in its place, where `fetch` finds it."""
        path = self._path(store, name)
        with self._writing(path):
            part.replace(path)
            size = path.stat().st_size
        self._account(size)
        return path

    def drop(self, store: Upstream, name: str) -> None:
        """Remove a file, because it is damaged or its object was deleted; one that is not here is fine."""
        path = self._path(store, name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StateError(
                f"{path} cannot be removed from the cache: {error.strerror}", hint="close what uses it, and try again"
            ) from error

    def trim(self) -> list[Path]:
        """Remove files until the rest fits, least recently used first; returns those. O(n log n) in files."""
        now = time.time()
        found = []
        for path in self._walk():
            with suppress(FileNotFoundError):  # another process trims too
                told = path.stat()
                found.append((told.st_mtime, told.st_size, path))
        total = sum(size for _, size, _ in found)
        removed = []
        for used, size, path in sorted(found, key=lambda one: one[0]):
            # a clock that was set back must not keep a file forever
            age = abs(now - used)
            young = age < (RECENT if total <= 2 * self.limit else IN_USE)
            unfinished = path.suffix == ".part"
            if (unfinished and age < ABANDONED) or (not unfinished and (total <= self.limit or young)):
                continue
            try:
                path.unlink()
            except FileNotFoundError:
                total -= size
                continue
            except PermissionError:  # mapped, on Windows
                continue
            total -= size
            removed.append(path)
        with self._lock:
            self._added = 0
        return removed

    def _account(self, size: int) -> None:
        with self._lock:
            self._added = None if self._added is None else self._added + size
            due = self._added is None or self._added * SLICE >= self.limit
        if due:
            self.trim()

    def _walk(self) -> Iterator[Path]:
        """Every file of an object, whole or not."""
        for folder, _, names in os.walk(self._files):
            if Path(folder).name != "locks":
                for name in names:
                    yield Path(folder, name)

    def _path(self, store: Upstream, name: str) -> Path:
        digest = hashlib.blake2b(store.identity.encode(), digest_size=12).hexdigest()
        return self._files.joinpath(digest, *name.split("/"))

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        """Make the folder of a file, for nobody but the user, and say what to do where nothing can be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self._files.mkdir(mode=0o700)
            _check_private(self._files)
            path.parent.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            raise StateError(
                f"the cache {self.folder} cannot be written: {error.strerror or error}",
                hint="make room there, or let HOLDSTRUE_CACHE name a folder that you may write to",
            ) from error

    @contextmanager
    def _alone(self, path: Path) -> Iterator[None]:
        """One process and thread at a time for a file (and for some others); ends with the process."""
        if fcntl is None:
            yield
            return
        folder = self._files / "locks"
        folder.mkdir(exist_ok=True)
        number = int.from_bytes(hashlib.blake2b(str(path).encode(), digest_size=2).digest(), "big") % _LOCKS
        handle = os.open(folder / f"{number:02d}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with suppress(OSError):  # a file system without locks: the file may be fetched twice
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            with suppress(OSError):
                # a process that was forked meanwhile holds the handle too
                fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)


def folder_of(environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Where the cache lies.

    >>> folder_of({"HOLDSTRUE_CACHE": "/scratch/cache"}, "linux").as_posix()
    '/scratch/cache'
    >>> folder_of({"HOME": "/home/ada"}, "linux").as_posix(), folder_of({"HOME": "/Users/ada"}, "darwin").as_posix()
    ('/home/ada/.cache/holdstrue', '/Users/ada/Library/Caches/holdstrue')
    """
    if told := environment.get("HOLDSTRUE_CACHE"):
        return Path(told).absolute()
    below: tuple[str, ...]
    if platform == "win32":
        home, below = environment.get("LOCALAPPDATA"), ("holdstrue", "Cache")
    elif platform == "darwin":
        home, below = environment.get("HOME"), ("Library", "Caches", "holdstrue")
    elif environment.get("XDG_CACHE_HOME"):
        home, below = environment["XDG_CACHE_HOME"], ("holdstrue",)
    else:
        home, below = environment.get("HOME"), (".cache", "holdstrue")
    if not home:
        raise StateError(
            "there is no folder for the cache: this user has no home", hint="let HOLDSTRUE_CACHE name a folder"
        )
    return Path(home).joinpath(*below)


def limit_of(environment: Mapping[str, str]) -> int:
    """How many bytes the cache may have.

    >>> limit_of({}), limit_of({"HOLDSTRUE_CACHE_BYTES": "5000000000"})
    (10737418240, 5000000000)
    """
    told = environment.get("HOLDSTRUE_CACHE_BYTES")
    if not told:
        return LIMIT
    if not (told.isascii() and told.isdecimal() and int(told)):
        raise StateError(
            f"HOLDSTRUE_CACHE_BYTES is {told!r}, not a number of bytes",
            hint=f"give a whole number above 0, such as {LIMIT} for 10 GiB, or unset it",
        )
    return int(told)


def _use(path: Path, size: int | None) -> bool:
    """Whether a file is here in its size; marks it as used now."""
    try:
        if path.stat().st_size != size and size is not None:
            return False
        os.utime(path)
    except OSError:  # missing, or nothing that can be used: fetching it says what is wrong
        return False
    return True


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.part")


def _check_private(folder: Path) -> None:
    """Refuse a folder that another user could have prepared, or could read."""
    if not hasattr(os, "geteuid"):
        return
    told = folder.lstat()
    if not folder.is_dir() or folder.is_symlink() or told.st_uid != os.geteuid():
        raise StateError(
            f"the cache {folder} is not a folder of this user's own",
            hint="let HOLDSTRUE_CACHE name another folder, or remove it",
        )
    if told.st_mode & 0o077:
        folder.chmod(0o700)
