"""The versions of a state, as its log has them: which there are, what each says, and which of them can be read."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdstrue.closing import Closing
from holdstrue.errors import StateError
from holdstrue.location import local_path
from holdstrue.state import old_formats
from holdstrue.state.entry import BrokenError, Entry, decode
from holdstrue.state.manifest import Manifest, RunFile, checked, files_of, folded
from holdstrue.state.moment import At, told
from holdstrue.state.object_url import is_object_url
from holdstrue.state.store import LOG, RUNS, Listed, Missing, store_at
from holdstrue.state.trust import Trust

MOST_STEPS = 1 << 20
"""Steps from one whole entry to the next; far more than there ever are."""
FETCHERS = 16
"""Entries and runs of an object store that are fetched at once."""

_LONGER = "keep versions longer with: holdstrue vacuum STATE --keep 7d"

_last_read: dict[str, tuple[tuple[str, int, str | None], Manifest]] = {}
"""The manifest that this process read last, for the stages of one batch that follow each other."""


class GoneError(StateError):
    """A version that was there is no longer kept."""


class Versions(Closing):
    """The log of one state, on this machine or in an object store."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.place = os.fspath(path) if is_object_url(path) else str(Path(local_path(path, "state")).absolute())
        """The path or URL, which means the same wherever the process goes."""
        self.store = store_at(path)
        self._payloads: dict[int, memoryview] = {}
        """Of steps that were read for their headers, until they are asked for."""
        self._seen = -1
        """The version that was read last, to tell a damaged file from one that is no longer kept."""
        self._trust = Trust()

    @property
    def url(self) -> str:
        """The place as people are told it."""
        return self.store.url

    def close(self) -> None:
        """Let go of the place."""
        self.store.close()

    def versions(self) -> list[int]:
        """The versions that are kept, oldest first."""
        return [number(listed) for listed in self.store.list(LOG)]

    def any(self) -> bool:
        """Whether there is a state."""
        return bool(self.versions()) or old_formats.newest(self.store) is not None

    def newest(self) -> int:
        """The newest version; raises where there is no state. Complexity: O(entries that are kept)."""
        began = self._trust.begin()
        versions = self.versions()
        if versions:
            old_formats.refuse_beside(self.store, versions[0])
            self._trust.put(began, versions[-1])
            return versions[-1]
        older = old_formats.newest(self.store)
        if older is None:
            self._refuse_parent()
            what = "no state" if self.store.shared else "not a state directory"
            nothing = f"no state directory at {self.url}"
            raise StateError(
                f"{self.url} is {what}: it holds no version" if self.store.exists else nothing,
                hint="make one with: holdstrue init STATE --rules FILE --key COLS, or discover DATA --state STATE",
            )
        return older

    def _refuse_parent(self) -> None:
        """Say which states are in a folder that is none itself."""
        kinds = {}
        for name in self.store.inner():
            # a folder of another kind, or a damaged state, says nothing of this one
            with suppress(StateError, OSError), Versions(f"{self.url}/{name}") as inner:
                kinds[name] = inner.manifest()["kind"]
        shown = ", ".join([*kinds][:5]) + (", ..." if len(kinds) > 5 else "")
        if set(kinds.values()) == {"site"}:
            raise StateError(
                f"{self.url} is no state itself: it holds the states of the sites {shown}",
                hint="holdstrue fragments check FILE shows them, FILE being the declaration of their relation",
            )
        if kinds:
            raise StateError(
                f"{self.url} is no state itself: it holds the states {shown}",
                hint=f"name one of them: {self.url}/{next(iter(kinds))}",
            )

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
            self._seen = wanted
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

    def made(self, version: int) -> dt.datetime | None:
        """When a version was made; None where it is of an earlier format, which does not say so."""
        return None if version in old_formats.listed(self.store) else self.time(version)

    def time(self, version: int) -> dt.datetime:
        """When a version of the log was made."""
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
        older = old_formats.listed(self.store)
        found = [v for v in older if {RUNS + file.name for file in files_of(self.manifest(v))} <= there]
        for version, entry in zip(versions, self._entries(versions), strict=True):
            since, header = entry.header.get("since", version), entry.header
            if self._all_there(header, there) and (
                since == version or (found[-1:] == [version - 1] and since <= version - 1)
            ):
                found.append(version)
        return found

    def _all_there(self, header: Mapping[str, Any], there: set[str]) -> bool:
        """Whether there is every file that an entry names, itself or by its pages."""
        if not {object_of(file) for file in named_by(header)} <= there:
            return False
        try:
            return {object_of(file) for file in self.paged(header)} <= there
        except StateError:  # of a page, which says so to whoever opens the version
            return False

    def paged(self, header: Mapping[str, Any]) -> list[RunFile]:
        """The files that the pages of an entry name; none where nobody here reads pages."""
        return []

    def _kept_said(self) -> str:
        kept = self.kept()
        if not kept:
            return "none is"
        made = self.made(kept[0])
        since = "" if made is None else f", from {told(made)} on"
        return (f"versions {kept[0]} to {kept[-1]} are" if len(kept) > 1 else f"version {kept[0]} is") + since

    # --- what to say ---------------------------------------------------------------------------

    def damaged(self, file: RunFile, why: str) -> StateError:
        """What to say of a file that cannot be what was written."""
        return _damaged(f"{self.url}/{object_of(file)}", why)

    def broken(self, version: int, why: str) -> StateError:
        """What to say of a version whose entry cannot be what was written."""
        return _damaged(f"{self.url}: the entry of version {version}", why)

    def _lost(self, name: str, version: int) -> StateError:
        """What to say of an object that is not there: the state went on without it, or it was taken away."""
        older = old_formats.listed(self.store)
        versions = sorted({*older, *self.versions()})
        past = bool(versions) and version < versions[-1] and version not in older
        if past and (version < versions[0] or not self._needs(version, name)):
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


def object_of(file: RunFile) -> str:
    """The name in a store of the object that a file lies in."""
    return file.name if file.name.startswith(LOG) else RUNS + file.name


def number(listed: Listed) -> int:
    """The version of an entry."""
    return int(listed.name.removeprefix(LOG))


def _damaged(what: str, why: str) -> StateError:
    return StateError(
        f"{what} is damaged: {why}",
        hint="restore the state from a copy, or make it anew; holdstrue verify STATE checks all its files",
    )
