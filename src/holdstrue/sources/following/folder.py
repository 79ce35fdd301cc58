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
"""Seconds since a file was last changed after which it is taken for complete at first sight. Chosen, not tuned."""
_UNFINISHED = (".tmp", "._COPYING_")


@dataclass(frozen=True)
class ChangeFile:
    """A file of changes as it was seen."""

    path: Path
    size: int
    modified: int
    """Nanoseconds since 1970."""

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
    _seen: dict[Path, tuple[int, int]] = field(default_factory=dict)
    _done: set[ChangeFile] = field(default_factory=set)

    def complete(self) -> tuple[list[ChangeFile], bool]:
        """The files that are complete and not done with, oldest first, and whether others may still be written.

        A file is complete when its size and time are those of the look before, or were set some time ago.
        """
        now, ready, more = time.time(), [], False
        for path in self.path.iterdir():
            if not self._is_change_file(path):
                continue
            try:
                stat = path.stat()
            except FileNotFoundError:  # removed meanwhile
                continue
            file, how = ChangeFile(path, stat.st_size, stat.st_mtime_ns), (stat.st_size, stat.st_mtime_ns)
            if file in self._done:
                continue
            if self._seen.get(path) == how or now - SETTLED - stat.st_mtime >= 0:
                ready.append(file)
            else:
                more = True
            self._seen[path] = how
        return sorted(ready, key=lambda file: (file.modified, file.path.name)), more

    def done(self, file: ChangeFile) -> None:
        """It was taken, now or before."""
        self._done.add(file)

    def _is_change_file(self, path: Path) -> bool:
        name = path.name
        if name.startswith((".", "_")) or name.endswith(_UNFINISHED) or not path.is_file():
            return False
        return self.any_name or format_by_name(name) is not None
