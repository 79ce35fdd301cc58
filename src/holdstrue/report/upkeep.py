"""Answers about the files of a state: what vacuum removed and keeps, and what verify found wrong."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from holdstrue.state.store import Listed, Problem


@dataclass(frozen=True)
class Vacuumed:
    """What was removed from a state, and which versions can still be read."""

    path: str
    kind: str
    files: int
    """Files that were removed."""
    versions: int
    """Versions that were removed."""
    bytes: int
    """What the files had, and in object stores the entries of versions."""
    keep: float
    """Seconds for which versions are kept from now on; 0: only the newest and those it is made of."""
    first: int
    """The oldest version that can be read."""
    last: int
    since: dt.datetime | None
    """When the oldest was made; None where an earlier format does not say so."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data; the time is in UTC."""
        since = None if self.since is None else self.since.astimezone(dt.UTC).isoformat(timespec="milliseconds")
        return {
            "path": self.path,
            "kind": self.kind,
            "removed": {"files": self.files, "versions": self.versions, "bytes": self.bytes},
            "kept": {"first": self.first, "last": self.last, "since": since, "seconds": self.keep},
        }


@dataclass(frozen=True)
class Verified:
    """What there is of a state, and what is wrong with it."""

    path: str
    kind: str | None
    """None where no version can be read."""
    versions: tuple[int, ...]
    """Those that are whole."""
    files: int
    """Files and entries of the log that were read and compared."""
    bytes: int
    problems: tuple[Problem, ...]
    strays: tuple[Listed, ...]
    """Files of states that no version names."""
    others: tuple[str, ...]
    """What is no part of a state."""
    opened: str | None
    """What was found when the newest version was opened; None where it was not."""

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "path": self.path,
            "kind": self.kind,
            "ok": self.ok,
            "versions": list(self.versions),
            "files": self.files,
            "bytes": self.bytes,
            "problems": [{"file": problem.name, "problem": problem.why} for problem in self.problems],
            "strays": [{"file": stray.name, "bytes": stray.size} for stray in self.strays],
            "others": list(self.others),
            "opened": self.opened,
        }
