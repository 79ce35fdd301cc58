"""A checkpoint of a site, written in a thread beside its batches.

The thread opens the state at a version like any reader, takes in its log and writes everything anew; it knows nothing
of what the site holds and holds nobody up: what takes long are kernels and files, for which Python's lock is let go
of. When it is done the site commits its files in place of the log up to that version.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from holdstrue.errors import StateError
from holdstrue.fragments.indexed_rows import IndexedRows
from holdstrue.fragments.site_runs import restored, write_rows
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.state.journal import Journal
from holdstrue.state.manifest import RunFile
from holdstrue.state.runs import Mark

BESIDE_FROM = 50_000
"""Rows from which on a checkpoint is written beside the work, as a monitor's: fewer are written in some 20 ms. Of ten
sites of two million rows in one process a batch of 1,000 changes waited 5.4 s for theirs, where others took 160 ms."""
PATIENCE = 16
"""A log that is so many times as long as one that causes a checkpoint waits until the one under way is done, as a
monitor's does."""

_ONE_AT_A_TIME = threading.Lock()
"""What is opened to be written anew takes as much memory as the site's indexes: of several sites in one process one is
written after the other."""


class SiteCheckpoint:
    """The checkpoint of one version, under way.

    Parameters
    ----------
    mark
        The version.
    last
        The file of its last batch, which stays readable.
    """

    def __init__(self, place: str | os.PathLike[str], spec: SiteSpec, mark: Mark, last: RunFile) -> None:
        self.mark = mark
        self.base: Mapping[str, RunFile] | None = None
        """Its files, once they are written."""
        self.trouble: StateError | OSError | MemoryError | None = None
        """Why they could not be."""
        self._place, self._spec, self._last = place, spec, last
        self._thread = threading.Thread(target=self._work, name="holdstrue-site-checkpoint", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            with _ONE_AT_A_TIME, Journal.open(self._place, "site", at=self.mark.version) as journal:
                self.base = {**self._written(journal), "last": self._last, **journal.memory()}
        except (StateError, OSError, MemoryError) as error:
            self.trouble = error

    def _written(self, journal: Journal) -> dict[str, RunFile]:
        indexed = IndexedRows(self._spec)
        restored(journal.files, journal.runs, indexed, "")
        return write_rows(journal.files, journal.version + 1, indexed)

    @property
    def running(self) -> bool:
        """Whether it is still being written."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Until it is done."""
        self._thread.join()
