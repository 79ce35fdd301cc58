"""Every file of every version that is kept, read and compared with what was written.

Damage is told apart from what is merely left over. Versions are removed from the oldest on; an entry may outlive the
rest of its version, where a later one needs the rows of its batch and for a while in object stores, and what is missing
of such a version is not missed. What the newest version needs, and those of the time that is to be kept, must be there.
"""

from __future__ import annotations

import datetime as dt
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdstrue.errors import StateError
from holdstrue.state import old_formats
from holdstrue.state.entry import BrokenError, decode
from holdstrue.state.files import StateFiles
from holdstrue.state.manifest import RunFile, checked, files_of, folded, step_problems
from holdstrue.state.run_reader import JOINT, matches
from holdstrue.state.store import LOG, NOT_PLAIN, RUNS, Listed, Missing, Problem
from holdstrue.state.versions import MOST_STEPS, named_by, object_of

MISSING = "it is missing"

_ODD = (StateError, ValueError, KeyError, TypeError, AttributeError)
"""What is raised by a header that is not one of ours."""


@dataclass(frozen=True)
class Examined:
    """What there is of a state."""

    kind: str | None
    """Whose state it is; None where no entry says so."""
    versions: tuple[int, ...]
    """Those that are whole, and as they were written."""
    files: int
    """Files and entries that were read."""
    bytes: int
    problems: tuple[Problem, ...]
    strays: tuple[Listed, ...]
    """Runs that no entry names: of batches that were given up, or are being written."""
    others: tuple[str, ...]
    """What is no part of a state."""


def examine(files: StateFiles) -> Examined:
    """Read and compare everything, past this machine's cache. Complexity: O(bytes of the state)."""
    return _Examination(files).run()


class _Examination:
    def __init__(self, files: StateFiles) -> None:
        self._files = files
        self._survey = files.store.survey()
        self._problems = {problem.name: problem for problem in self._survey.problems}
        self._there = {listed.name: listed for listed in (*self._survey.entries, *self._survey.runs)}
        self._headers: dict[int, Mapping[str, Any]] = {}
        self._older: dict[int, Mapping[str, Any]] = {}
        """What manifests of earlier formats say."""
        self._named: dict[str, set[RunFile]] = {}
        """By name the files, or parts of files, as entries have them."""
        self._lasting: set[str] = set()
        """Entries that later ones name."""

    def run(self) -> Examined:
        for listed in self._survey.entries:
            self._read(listed.name)
        self._read_older()
        if not (self._headers or self._older or self._problems):
            self._files.newest()  # says that there is no state
        for name, parts in self._named.items():
            self._compare(name, parts)
        return self._answer((*self._older_whole(), *self._whole()))

    def _answer(self, versions: tuple[int, ...]) -> Examined:
        looked = [one for name, one in self._there.items() if name in self._named or name.startswith(LOG)]
        headers = [*sorted(self._older.items()), *sorted(self._headers.items())]
        kinds = [header["kind"] for _, header in headers if "kind" in header]
        return Examined(
            next(reversed(kinds), None),
            versions,
            len(looked),
            sum(listed.size for listed in looked),
            tuple(self._problems.values()),
            tuple(self._strays()),
            tuple(name for name in self._survey.others if name not in self._problems),
        )

    def _strays(self) -> Iterator[Listed]:
        """Runs that no entry names; none where an entry that cannot be read may name them."""
        if not any(problem.name.startswith(("log", "manifest-")) for problem in self._problems.values()):
            yield from (listed for listed in self._survey.runs if listed.name not in self._named)

    def _absent(self, name: str) -> None:
        self._wrong(name, NOT_PLAIN if name in self._survey.others else MISSING)

    def _wrong(self, name: str, why: str) -> None:
        self._problems.setdefault(name, Problem(name, why))

    def _read(self, name: str) -> None:
        """Read an entry and the rows in it."""
        version = _number(name)
        try:
            entry = decode(self._files.store.reread(name))
        except Missing:
            del self._there[name]  # removed meanwhile
            return
        except (BrokenError, ValueError) as error:
            self._wrong(name, str(error))
            return
        for problem in _problems(entry.header, version):
            self._wrong(name, problem)
            return
        self._headers[version] = entry.header
        for file in self._all_named(entry.header):
            self._named.setdefault(object_of(file), set()).add(file)
            if file.name == name and not matches(file, bytearray(entry.payload)):
                self._wrong(name, "its rows do not match their checksum")
            elif file.name.startswith(LOG) and file.name != name:
                self._lasting.add(file.name)

    def _all_named(self, header: Mapping[str, Any]) -> list[RunFile]:
        """The files that an entry names, itself and by those of its pages that can be read."""
        found = named_by(header)
        for page in header.get("pages", ()):
            try:
                found += self._files.paged({"pages": [page]})
            except StateError as error:
                name = object_of(RunFile.of(page))
                if name in self._there:  # else it is missing, which is told where it matters
                    self._wrong(name, error.message.partition("damaged: ")[2] or error.message)
        return found

    def _compare(self, name: str, parts: set[RunFile]) -> None:
        """Compare a file that is there with all that is said of it."""
        if name.startswith(LOG):
            if len(parts) > 1:
                self._wrong(name, "later versions say something else of its rows")
            return
        if name not in self._there:
            return
        try:
            with self._files.store.examine(name) as path, path.open("rb") as handle:
                size = path.stat().st_size
                mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY) if size else bytearray()
                for part in sorted(parts, key=lambda part: part.start):
                    if not self._fits(name, part, mapped):
                        break
                if isinstance(mapped, mmap.mmap):
                    mapped.close()
        except Missing:
            del self._there[name]
        except OSError as error:
            self._wrong(name, f"it cannot be read: {error.strerror}")
        except StateError as error:
            if "damaged: " not in error.message:
                raise  # the store cannot be reached
            self._wrong(name, error.message.partition("damaged: ")[2])

    def _fits(self, name: str, part: RunFile, data: mmap.mmap | bytearray) -> bool:
        joint = name.startswith(RUNS + JOINT)
        if not joint and len(data) != part.size:
            self._wrong(name, f"it has {len(data)} bytes instead of {part.size}")
        elif joint and len(data) < part.start + part.size:
            self._wrong(name, f"it has {len(data)} bytes, fewer than {part.start + part.size}")
        elif not matches(part, bytearray(data[part.start : part.start + part.size]) if joint else data):
            self._wrong(name, "its checksum does not match")
        return name not in self._problems

    def _whole(self) -> Iterator[int]:
        """The versions of which everything is there; says what others lack."""
        newest = max((_number(name) for name in self._there if name.startswith(LOG)), default=-1)
        oldest = min((v for v in self._headers if _entry(v) not in self._lasting), default=0)
        secured = self._secured(newest)
        chain: list[int] = []
        for version, header in sorted(self._headers.items()):
            since = header.get("since", version)
            if since == version:
                yield from self._folded(chain)
                chain = []
            named = [object_of(file) for file in self._all_named(header)]
            lacking = [*named]
            if since != version and chain[-1:] != [version - 1]:
                lacking += [_entry(v) for v in range(max(since, version - MOST_STEPS), version)]
            lacking = [name for name in lacking if name not in self._there]
            for gone in lacking:
                # in a directory entries go first, the oldest first
                left_over = _entry(version) in self._lasting or (gone.startswith(LOG) and _number(gone) < oldest)
                if version >= secured or not (self._files.store.shared or left_over):
                    self._absent(gone)
            sound = not lacking and not self._problems.keys() & {_entry(version), *named}
            if sound and (since == version or chain[-1:] == [version - 1]):
                chain.append(version)
        yield from self._folded(chain)

    def _secured(self, newest: int) -> int:
        """The first version of which nothing may be missing."""
        header = self._headers.get(newest, {})
        since: int = header.get("since", newest)
        keep = self._headers.get(since, {}).get("keep", 0)
        if not keep:
            return since
        when = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=keep)
        for version, header in sorted(self._headers.items(), reverse=True):
            # an entry that says everything also says how long versions were kept from then on
            if ("since" not in header and header.get("keep", 0) < keep) or _made(header) < when:
                break
            since = min(since, version)
        return since

    def _folded(self, chain: list[int]) -> Iterator[int]:
        """The versions of a chain, up to the first that does not go with those before it."""
        if not chain or self._folds(chain):
            yield from chain
            return
        for end in range(1, len(chain) + 1):
            if not self._folds(chain[:end], tell=True):
                yield from chain[: end - 1]
                return

    def _folds(self, chain: list[int], *, tell: bool = False) -> bool:
        try:
            checked(folded([self._headers[version] for version in chain]), _entry(chain[-1]))
        except _ODD as error:
            if tell:
                self._wrong(_entry(chain[-1]), f"it does not go with the versions before it: {error}")
            return False
        return True

    def _read_older(self) -> None:
        """Read the manifests of earlier formats."""
        store = self._files.store
        first = min((_number(listed.name) for listed in self._survey.entries), default=None)
        beside = {} if first is None else old_formats.beside(store, first)
        for version, listed in old_formats.listed(store).items():
            try:
                manifest = old_formats.manifest(store, version)
            except StateError as error:
                self._wrong(listed.name, error.message.partition("damaged: ")[2] or error.message)
                continue
            if version in beside:
                self._wrong(listed.name, f"it is of another history than log/, which goes on from version {first}, too")
            if manifest is not None:
                self._older[version] = manifest
                for file in files_of(manifest):
                    self._named.setdefault(object_of(file), set()).add(file)

    def _older_whole(self) -> Iterator[int]:
        """The versions of earlier formats of which everything is there; says what others lack."""
        for version, manifest in self._older.items():
            named = {object_of(file) for file in files_of(manifest)}
            for name in sorted(named - self._there.keys()):
                self._absent(name)
            if not self._problems.keys() & named:
                yield version


def _made(header: Mapping[str, Any]) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(header["time"]).astimezone()
    except (KeyError, TypeError, ValueError):
        return dt.datetime.now(dt.UTC)


def _problems(header: Mapping[str, Any], version: int) -> Iterator[str]:
    if header.get("version") != version:
        yield f"it says that it is version {header.get('version')!r}"
    elif "since" in header:
        yield from step_problems(header)
    else:
        try:
            checked(folded([header]), "its header")
        except _ODD as error:
            yield error.message if isinstance(error, StateError) else f"its header is not what was written ({error})"


def _entry(version: int) -> str:
    return f"{LOG}{version:012d}"


def _number(entry: str) -> int:
    return int(entry.removeprefix(LOG))
