"""Where the objects of a state are kept: five verbs over names, and files for what is large.

Objects never change. A state has two kinds of them: `log/000000000012`, the entry that makes version 12, and
`runs/...`, files that entries name. Creating the next entry if it is absent is the one atomic step there is;
what no entry names does not exist.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from holdstrue.errors import StateError
from holdstrue.location import local_path
from holdstrue.state.object_url import ObjectUrl, is_object_url

LOG = "log/"
RUNS = "runs/"
NOT_PLAIN = "it is no plain file but a link, a folder or a pipe"


Glance: TypeAlias = tuple[object, ...]
"""What is compared with a later look at the same place: equal ones are of the same versions."""


class Taken(Exception):  # noqa: N818  # said of a name, and always caught
    """An object of this name is there already."""


class Missing(Exception):  # noqa: N818
    """There is no object of this name."""


class UnsureError(StateError):
    """Whether an object was created is not known."""


@dataclass(frozen=True)
class Listed:
    """An object that is there."""

    name: str
    size: int
    modified: float
    """Seconds since 1970."""
    tag: str = ""
    """What tells it from an earlier object of its name, where the store says such a thing."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with an object or a file."""

    name: str
    why: str


@dataclass(frozen=True)
class Survey:
    """Everything that is at a place, as far as it can be read."""

    entries: list[Listed]
    runs: list[Listed]
    problems: list[Problem]
    """Files of the log that are damaged."""
    others: list[str]
    """What is no part of a state, and remains of entries that a crash cut short."""


class Store(Protocol):
    """The objects of one state, in a directory of this machine or in an object store."""

    @property
    def url(self) -> str:
        """The place as people are told it, without credentials."""

    @property
    def shared(self) -> bool:
        """Whether machines share it that no lock keeps apart: an object store."""

    @property
    def exists(self) -> bool:
        """Whether there is anything at this place that objects could be in."""

    @property
    def begun(self) -> bool:
        """Whether there seems to be a state, at first sight."""

    def glance(self) -> Glance:
        """What changes with every commit, as cheaply as it can be looked at."""

    def inner(self) -> list[str]:
        """The names of folders in it that hold states of their own, as far as a look tells."""

    def vacant(self) -> None:
        """Refuse a place where something else is than what a creation that was given up has left."""

    def lock(self) -> None:
        """Become the one writer, where the place knows of writers; elsewhere the one who commits first wins."""

    def close(self) -> None:
        """Let go of the lock."""

    def create(self, name: str, data: bytes) -> None:
        """Create an object, durably, if there is none of this name; raises `Taken` if there is."""

    def read(self, name: str) -> bytes:
        """The whole of an object; raises `Missing`."""

    def read_range(self, name: str, start: int, size: int) -> bytes:
        """A part of an object, shorter where the object ends; raises `Missing`."""

    def list(self, prefix: str) -> list[Listed]:
        """The objects whose names start so, by name."""

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects; those that are not there do not matter."""

    def draft(self, name: str) -> Path:
        """Where to write the file of a new object, which nobody sees before `publish`."""

    def publish(self, name: str) -> None:
        """Make a written file an object, durably."""

    def file(self, name: str, size: int | None) -> Path:
        """A file of this machine that holds an object of so many bytes, None for any; raises `Missing`."""

    def drop(self, name: str) -> bool:
        """Forget a copy that turned out to be damaged; whether there is an original to look at."""

    def survey(self) -> Survey:
        """Look through all there is, whether or not some of it is damaged. Complexity: O(log)."""

    def reread(self, name: str) -> bytes:
        """The whole of an object itself, past any copy of it; raises `Missing`."""

    def examine(self, name: str) -> AbstractContextManager[Path]:
        """The object itself as a file, past any copy of it, while the block runs; raises `Missing`."""


def fixed_place(place: str | os.PathLike[str]) -> str:
    """A path or URL of a state in a form that means the same in any directory, for processes that run elsewhere.

    >>> fixed_place("s3a://bucket/state/"), fixed_place("/data/../state")
    ('s3a://bucket/state', '/state')
    """
    if is_object_url(place):
        return ObjectUrl.of(place).url
    return os.path.abspath(local_path(place, "state"))  # noqa: PTH100  # Path keeps ..


def store_at(place: str | os.PathLike[str]) -> Store:
    """The store that a path or URL stands for."""
    if is_object_url(place):
        from holdstrue.state.remote import RemoteStore

        return RemoteStore(os.fspath(place))
    from holdstrue.state.local import LocalStore

    given = local_path(place, "state")
    # the process may go to another directory, where another state may have the same name
    return LocalStore(Path(given).absolute(), str(Path(given)))
