"""A directory that change files are put into: which of them are complete, the oldest first, and the id of each.

The id is the name and a digest of the content, so that a file is taken once, wherever the directory lies and whenever
it was copied there, and one that was mended is another one.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from pathlib import Path

from holdstrue.errors import DataError
from holdstrue.sources.datafiles import format_by_name

SETTLED = 2.0
"""Seconds for which a file rests before it is taken for complete, however often is looked. Chosen, not tuned."""
_UNFINISHED = (".tmp", "._COPYING_")


@dataclass(frozen=True)
class ChangeFile:
    """A file of changes as it was seen."""

    path: Path
    size: int
    modified: int
    """Nanoseconds since 1970."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.path.name

    @property
    def changes(self) -> str:
        """What a monitor is given."""
        return str(self.path)

    @property
    def batch(self) -> str:
        """The id of its batch. Complexity: O(bytes)."""
        digest = hashlib.sha256()
        try:
            with self.path.open("rb") as file:
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror}", hint="mend or remove it") from error
        return f"file:{self.path.name}:{digest.hexdigest()[:16]}"


@dataclass
class ChangeFolder:
    """What was seen in a directory so far."""

    path: Path
    any_name: bool = False
    """Whether files are taken whatever their names end in, because their format is given."""
    _seen: dict[Path, tuple[ChangeFile, float]] = field(default_factory=dict)
    """Every file as it was seen last, and since when it was so."""
    _done: set[ChangeFile] = field(default_factory=set)

    def complete(self) -> tuple[list[ChangeFile], bool]:
        """The files that are complete and not done with, oldest first, and whether others may still be written.

        A file is complete when its size and time are those of an earlier look, two seconds ago or more, or when it was
        last changed so long ago. Who pauses longer than that while writing must rename the file when it is complete.
        """
        ready, more = [], False
        for path in self.path.iterdir():
            if not self._is_change_file(path):
                continue
            file = _seen_now(path)
            if file is None or file in self._done:
                continue
            last, since = self._seen.get(path, (None, 0.0))
            if last != file:
                since = time.monotonic()
                self._seen[path] = file, since
            if time.monotonic() - since >= SETTLED or time.time() - file.modified / 1e9 >= SETTLED:
                ready.append(file)
            else:
                more = True
        return sorted(ready, key=lambda file: (file.modified, file.path.name)), more

    def is_current(self, file: ChangeFile) -> bool:
        """Whether it is still as it was seen; if not, it is being written, and the next look sees it anew."""
        return _seen_now(file.path) == file

    def done(self, file: ChangeFile) -> None:
        """It was taken, now or before."""
        self._done.add(file)

    def _is_change_file(self, path: Path) -> bool:
        return is_change_name(path.name, self.any_name) and path.is_file()


def is_change_name(name: str, any_name: bool) -> bool:
    """Whether a name is that of a complete file of changes.

    >>> is_change_name("a.csv", False), is_change_name("a.csv.tmp", True), is_change_name("_a.csv", False)
    (True, False, False)
    """
    if name.startswith((".", "_")) or name.endswith(_UNFINISHED):
        return False
    return any_name or format_by_name(name) is not None


def _seen_now(path: Path) -> ChangeFile | None:
    """A file as it is; None where it was removed meanwhile."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return ChangeFile(path, stat.st_size, stat.st_mtime_ns)
