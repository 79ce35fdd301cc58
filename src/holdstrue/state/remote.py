"""A state in an object store: entries and runs are objects, and files are mapped from this machine's cache.

There is no lock. Whoever creates the entry of the next version first is the one who wrote it; others are told so.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdstrue.errors import StateError
from holdstrue.state.cache import Cache
from holdstrue.state.objects import ObjectStore
from holdstrue.state.store import LOG, Glance, Listed, Problem, Survey

_OWN = re.compile(r"log/\d{12}|runs/[a-z]+-\d{12}-[0-9a-f]{12}\.arrow")


class RemoteStore:
    """The objects of a state below a URL, and this machine's copies of them."""

    def __init__(self, url: str) -> None:
        self._objects = ObjectStore(url)
        self._cache = _cache()
        self._entries = _Entries(self._objects, {})
        self._joints = _Joints(self._objects)
        self._drafts: dict[str, Path] = {}
        self.url = self._objects.url
        self.shared = True
        self.exists = True
        self.begun = True
        """Nothing is made by looking, so that there is no need to ask first."""

    # --- the place -----------------------------------------------------------------------------

    def glance(self) -> Glance:
        """How many entries there are, and the last of them. Complexity: O(entries), a request for each thousand."""
        entries = self.list(LOG)
        return len(entries), *((last.name, last.tag, last.modified) for last in entries[-1:])

    def inner(self) -> list[str]:
        """Nothing: a bucket may hold millions of objects, which are not looked through to say more of an error."""
        return []

    def vacant(self) -> None:
        """Refuse a place where something is; runs alone are what a creation that was given up has left."""
        there = [listed.name for listed in self._objects.list("")]
        kept = any(name.startswith(LOG) for name in there)
        if kept or not all(_OWN.fullmatch(name) for name in there):
            raise StateError(
                f"{self.url} is not empty" + (": it holds a state" if kept else f": it holds {there[0]}"),
                hint="choose another place" + ("" if kept else ", or remove what is there"),
            )

    def lock(self) -> None:
        """Nothing: the store itself lets one writer alone create an entry."""

    def close(self) -> None:
        """Remove drafts that came to nothing."""
        for path in self._drafts.values():
            path.unlink(missing_ok=True)
        self._drafts = {}

    # --- objects -------------------------------------------------------------------------------

    def create(self, name: str, data: bytes) -> None:
        """Create an entry; raises `Taken` when there is one."""
        self._objects.create(name, data)

    def read(self, name: str) -> bytes:
        """The whole of an object; an entry that was listed is fetched once."""
        known = self._entries.listed.get(name)
        if known is None:
            return self._objects.read(name)
        return self._cache.fetch(self._entries, _stamped(known), known.size).read_bytes()

    def read_range(self, name: str, start: int, size: int) -> bytes:
        """A part of an object, out of its copy if there is one."""
        copy = self._cache.find(self._objects, name)
        if copy is None:
            return self._objects.read_range(name, start, size)
        with copy.open("rb") as file:
            file.seek(start)
            return file.read(size)

    def list(self, prefix: str) -> list[Listed]:
        """The objects whose names start so."""
        found = [listed for listed in self._objects.list(prefix) if _OWN.fullmatch(listed.name)]
        if prefix == LOG:
            self._entries.listed.update((listed.name, listed) for listed in found)
        return found

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects, and the copies of runs; copies of entries go when the cache is full."""
        self._objects.delete(names)
        for name in names:
            if not name.startswith(LOG):
                self._cache.drop(self._objects, name)

    # --- files ---------------------------------------------------------------------------------

    def draft(self, name: str) -> Path:
        """Where to write a file."""
        if name not in self._drafts:
            self._drafts[name] = self._cache.place(self._objects, name)
        return self._drafts[name]

    def publish(self, name: str) -> None:
        """Upload a file, and keep it as the copy of the object."""
        path = self._drafts[name]
        self._objects.create_from(name, path)
        self._cache.keep(self._objects, name, path)
        del self._drafts[name]

    def file(self, name: str, size: int | None) -> Path:
        """The copy of an object, fetched where it is missing."""
        return self._cache.fetch(self._objects if size is not None else self._joints, name, size)

    def drop(self, name: str) -> bool:
        """Forget a copy, which may be damaged where the object is not."""
        self._cache.drop(self._objects, name)
        return True

    # --- looking at everything -----------------------------------------------------------------

    def survey(self) -> Survey:
        """All objects below the URL."""
        there = self._objects.list("")
        own = [listed for listed in there if _OWN.fullmatch(listed.name)]
        entries = [listed for listed in own if listed.name.startswith(LOG)]
        others = [listed.name for listed in there if not _OWN.fullmatch(listed.name)]
        runs = [listed for listed in own if not listed.name.startswith(LOG)]
        problems = (
            [Problem("log", "it is missing, unless making the state was given up")] if runs and not entries else []
        )
        return Survey(entries, runs, problems, others)

    def reread(self, name: str) -> bytes:
        """The object itself."""
        return self._objects.read(name)

    @contextmanager
    def examine(self, name: str) -> Iterator[Path]:
        """The object itself, fetched for as long as the block runs."""
        path = self._cache.place(self._objects, name)
        try:
            self._objects.fetch(name, path)
            yield path
        finally:
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Entries:
    """Where copies of entries come from.

    A state that is made anew at the same place has entries of the same names: a copy goes by the object's tag, too, and
    where there is none by when it was written.
    """

    objects: ObjectStore
    listed: dict[str, Listed]

    @property
    def identity(self) -> str:
        return self.objects.identity

    def fetch(self, name: str, path: Path, size: int | None = None) -> None:
        self.objects.fetch(name.rpartition("-")[0], path, size)


@dataclass(frozen=True)
class _Joints:
    """Where copies of files come from of which only the sizes of parts are known."""

    objects: ObjectStore

    @property
    def identity(self) -> str:
        return self.objects.identity

    def fetch(self, name: str, path: Path, size: int | None = None) -> None:
        path.write_bytes(self.objects.read(name))


def _stamped(entry: Listed) -> str:
    digest = hashlib.blake2b(f"{entry.tag} {entry.modified}".encode(), digest_size=8)
    return f"{entry.name}-{digest.hexdigest()}"


_caches: dict[tuple[Path, int], Cache] = {}
"""The caches of this process, which count what they add."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_caches.clear)


def _cache() -> Cache:
    """The cache that the environment names."""
    found = Cache()
    return _caches.setdefault((found.folder, found.limit), found)
