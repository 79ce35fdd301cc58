"""Parts of sites that a worker keeps open between batches and between the stages of one.

What lies in the pool is worth something only if it was made of the very files that the driver says the part has now,
or of those of one batch before. Files have fresh names in every attempt, so what took in a batch that was never
committed fits nothing and is opened anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

from holdstrue.fragments.batch_record import BatchRecord
from holdstrue.fragments.indexed_rows import IndexedRows
from holdstrue.fragments.parts import SitePart
from holdstrue.fragments.site_runs import record_of, replayed, restored, write_record, write_rows
from holdstrue.fragments.site_work import SiteWork
from holdstrue.shards.memory import allowed_bytes, pooled_bytes
from holdstrue.state.files import StateFiles
from holdstrue.state.manifest import RunFile
from holdstrue.state.runs import Runs

Progress = tuple[str, int]
"""An attempt to apply a batch, and the stage of it that was done last."""


_TURNS = 16
"""Logs of parts, by turns, get up to twice as long before they cause a checkpoint: ten of two million rows each take
five seconds together, where a batch of 1,000 changes takes one. Chosen, not tuned."""


@dataclass(frozen=True)
class Standing:
    """The version of a part's state that a batch comes after, as its driver knows it."""

    version: int = -1
    name: str = ""
    """Of the newest file: it tells versions apart."""
    before: str = ""
    """The same of one batch before."""
    last: Mapping[str, Any] | None = None
    """The file of the last batch."""
    batch: str | None = None
    """The name of the last batch."""
    logged: tuple[int, int] = (0, 0)
    """Batches and rows since the checkpoint."""


def newest(runs: Runs) -> str:
    """The name of the newest file of a state, empty where there is none."""
    return runs.log[-1].name if runs.log else runs.base["arrays"].name if runs.base else ""


class PartState:
    """The state of a part as a task sees it: read at one version, written for the next; its driver commits."""

    def __init__(self, part: SitePart, standing: Standing) -> None:
        self._path, self._spec, self._turn = part.state, part.spec, part.number % _TURNS
        self.standing = standing
        self.written: tuple[RunFile, dict[str, RunFile]] | None = None
        """The batch that was written last, and the checkpoint after it where there is one."""
        self.count = 0

    def restore(self, indexed: IndexedRows) -> BatchRecord | None:
        """Bring what is held to the state on disk."""
        if self.standing.version < 0:
            return None
        with StateFiles(self._path) as files:
            return restored(files, Runs.of(files.manifest(self.standing.version)), indexed, self.standing.batch)

    def last(self) -> BatchRecord:
        """All that is written of the last batch."""
        with StateFiles(self._path) as files:
            return record_of(files, RunFile.of(dict(self.standing.last or {})), self._spec)

    def seen(self, batch: str) -> bool:
        """The driver knows which batches were committed."""
        return False

    def prepare(self, record: BatchRecord) -> RunFile:
        """Write a batch."""
        with StateFiles(self._path) as files:
            run = write_record(files, self.standing.version + 1, record)
        self.written = run, {}
        return run

    def prepare_load(self, record: BatchRecord, indexed: IndexedRows) -> RunFile:
        """Write a first load, and the checkpoint after it."""
        with StateFiles(self._path) as files:
            run = write_record(files, self.standing.version + 1, record)
            self.written = run, write_rows(files, self.standing.version + 1, indexed)
        return run

    def commit(self, prepared: Any) -> None:
        """The driver commits: what is held goes on as if it had, and fits nothing where it does not."""

    def tidy(self, indexed: IndexedRows) -> None:
        """Write a checkpoint where the batches since the last one are many."""
        runs, rows = self.standing.logged
        # parts that have as many rows would else write theirs in one batch
        total = indexed.rows.living * (_TURNS + self._turn) // _TURNS
        if self.written is None or not Runs(log_rows=rows, log=(self.written[0],) * runs).due(self._rows, total):
            return
        with StateFiles(self._path) as files:
            self.written = self.written[0], write_rows(files, self.standing.version + 1, indexed)

    _rows = 0

    def expect(self, rows: int) -> None:
        """The batch that is written next has so many rows."""
        self._rows = rows

    def close(self) -> None:
        """Nothing is kept open."""


@dataclass
class OpenPart:
    """A part that a worker holds."""

    work: SiteWork
    state: PartState
    name: str
    """The newest file of those it was made of."""
    token: str = ""
    progress: Progress | None = None
    size: int = 0
    sized: int = -1
    """How many rows there were when its size was found out."""

    def measure(self) -> int:
        """About how many bytes it holds, found out anew when it has grown by an eighth."""
        rows = self.work.held
        if self.sized < 0 or abs(rows - self.sized) > max(self.sized, 1000) // 8:
            self.size, self.sized = self.work.held_bytes(), rows
        return self.size


class PartPool:
    """Open parts by the places of their states; threads may share it, and who takes a part has it alone."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: OrderedDict[tuple[str, str], OpenPart] = OrderedDict()

    def resume(self, part: SitePart, purpose: str, progress: Progress) -> OpenPart | None:
        """A part that did the last stage of an attempt here."""
        found = self._pop(part, purpose)
        if found is not None and found.progress == progress:
            return found
        if found is not None:
            self.put(part, found, purpose)
        return None

    def take(self, part: SitePart, standing: Standing, *, remembering: bool = False) -> OpenPart:
        """A part at a version, without a batch under way; `remembering` its last batch, and not the name of it only."""
        found = self._taken(part, standing)
        if remembering and standing.version >= 0:
            found.work.remember(found.state.last)
        return found

    def _taken(self, part: SitePart, standing: Standing) -> OpenPart:
        found = self._pop(part, "")
        if found is not None:
            if found.progress is not None:
                found.work.ask("abort")
                found.progress = None
            if found.name == standing.name or self._follow(found, part, standing):
                found.state.standing = standing
                return found
        state = PartState(part, standing)
        return OpenPart(SiteWork(part.spec, state=state), state, standing.name, part.token)

    def _follow(self, found: OpenPart, part: SitePart, standing: Standing) -> bool:
        """Take in the batches that are missing, where they are all that is: not those before another checkpoint."""
        if not found.name or standing.last is None:
            return False
        with StateFiles(part.state) as files:
            if found.name == standing.before:
                missing = [RunFile.of(dict(standing.last))]
            else:
                runs = Runs.of(files.manifest(standing.version))
                names = [newest(Runs(runs.base)), *(run.name for run in runs.log)]
                if found.name not in names:
                    return False
                missing = [*runs.log[names.index(found.name) :]]
            for run in missing:
                found.work.follow(partial(replayed, files, run))
        found.name = standing.name
        return True

    def put(self, part: SitePart, held: OpenPart, purpose: str = "") -> None:
        """Keep a part for the next stage, or for the next batch."""
        held.measure()
        with self._lock:
            self._open[part.state, purpose] = held
            self._open.move_to_end((part.state, purpose))
            allowed = allowed_bytes()
            most = pooled_bytes(allowed)
            total = sum(one.size for one in self._open.values())
            while total > most and len(self._open) > (allowed is None):
                total -= self._open.popitem(last=False)[1].size

    def empty(self) -> None:
        """Forget all parts."""
        with self._lock:
            self._open.clear()

    def _pop(self, part: SitePart, purpose: str) -> OpenPart | None:
        with self._lock:
            found = self._open.pop((part.state, purpose), None)
        # a state that was made anew at the same place is another one
        return found if found is not None and found.token == part.token else None


POOL = PartPool()
