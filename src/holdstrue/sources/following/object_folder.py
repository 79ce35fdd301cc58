"""A folder in an object store that change files are put into: which of them are new, by name, and the id of each.

Objects appear whole, so none is ever half written. The id of a batch is the object's name and its tag (ETag), which
the store tells without the content: at a start nothing is read that is known.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from holdstrue.errors import DataError
from holdstrue.sources.following.folder import is_change_name
from holdstrue.sources.object_files import DataObjects, as_data, copied_objects
from holdstrue.sources.read import TableSource
from holdstrue.state.store import Listed, Missing


@dataclass(frozen=True)
class ChangeObject:
    """An object of changes as it was listed."""

    store: DataObjects
    listed: Listed
    format: str | None

    @property
    def name(self) -> str:
        """What it is called."""
        return self.listed.name

    @property
    def batch(self) -> str:
        """The id of its batch: without a tag its size and time stand for what it holds."""
        one = self.listed
        told = one.tag or f"{one.size} bytes at {one.modified}"
        return f"object:{one.name}:{hashlib.sha256(told.encode()).hexdigest()[:16]}"

    @property
    def changes(self) -> TableSource:
        """Its content, copied now: that of the tag that was listed, or an error."""
        with as_data():
            try:
                files = copied_objects(self.store, [self.listed])
                now = self.store.described(self.name)
            except Missing:
                raise self._replaced("is gone") from None
        if (now.tag, now.size) != (self.listed.tag, self.listed.size):
            raise self._replaced("was replaced")
        return TableSource.of_files(files, self.format)

    def _replaced(self, what: str) -> DataError:
        error = DataError(f"{self.store.url}/{self.name} {what} while it was read", hint="put objects under new names")
        # the next look lists it as it is
        error.passing = True
        return error


@dataclass
class ObjectFolder:
    """What was seen in a folder of an object store so far."""

    store: DataObjects
    format: str | None = None
    """That of the objects, whatever their names end in."""
    _done: set[str] = field(default_factory=set)

    def complete(self) -> tuple[list[ChangeObject], bool]:
        """The objects directly in the folder that are not done with, by name; none is half written."""
        with as_data():
            there = self.store.list_folder()
        any_name = self.format is not None
        found = [ChangeObject(self.store, one, self.format) for one in there if is_change_name(one.name, any_name)]
        return [one for one in found if one.batch not in self._done], False

    def is_current(self, file: ChangeObject) -> bool:
        """True: `changes` looks at it."""
        return True

    def done(self, file: ChangeObject) -> None:
        """It was taken, now or before."""
        self._done.add(file.batch)
