"""The journal of a state: whose it is, a checkpoint, the batches since, and what each of them did.

Monitors, discoveries, inclusions and sites all keep one. A batch is one entry of the log, in which small ones lie
whole; when the batches since the checkpoint add up, everything is written anew instead. What a kind of state says of
itself beside its files (rules, options, counts) are its facts: plain JSON in the entries.

>>> import tempfile
>>> with Journal.create(tempfile.mkdtemp(), "site") as journal:
...     first = journal.write_checkpoint({}, journal.line("monday"), {"rows": 2})
...     journal.commit(first)
...     second = journal.write_batch([pa.table({"id": [1, 2]})], 2, journal.line("tuesday"), {"rows": 4})
...     journal.commit(second)
...     journal.version, journal.facts["rows"], journal.seen("monday"), journal.seen("friday"), len(journal.runs.log)
(1, 4, True, False, 1)
"""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias, TypeVar

import pyarrow as pa

from holdstrue.closing import Closing
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.state.few_rows import FewRows
from holdstrue.state.files import INLINE_BYTES, Draft, LogTable, StateFiles, as_table
from holdstrue.state.history import Lines, history_files, read_lines, write_history
from holdstrue.state.ids import BatchIds
from holdstrue.state.manifest import FIRST_LOGGED, FORMAT, Manifest, RunFile, files_of, files_of_shards
from holdstrue.state.moment import At, Moment
from holdstrue.state.pages import KIND, Page, divided, listed, remember
from holdstrue.state.runs import Mark, Runs
from holdstrue.state.store import Listed

FEW_ROWS = 64
"""Up to so many rows are written out before it is asked how many bytes they are."""
COLLECT_EVERY = 16
"""Commits between two looks for files of batches that were given up, where tasks write them."""

Read = TypeVar("Read")

Kind: TypeAlias = Literal["monitor", "discovery", "inclusions", "site"]

READ_WITH: dict[Kind, str] = {
    "monitor": "holdstrue status STATE shows it, holdstrue apply STATE CHANGES goes on with it",
    "discovery": "holdstrue discover --state STATE shows it, and with --apply CHANGES goes on with it",
    "inclusions": "holdstrue.spark.Inclusions(spark, 'STATE') reads it, and its apply goes on with it",
    "site": "holdstrue fragments check FILE shows it, FILE being the declaration of its relation",
}
"""How the state of each kind is read."""

_ARTICLE = {"monitor": "a monitor", "discovery": "a discovery", "inclusions": "inclusions", "site": "a site"}

BATCHES = Lines(pa.schema({"batch": pa.string()}))
"""The history of a state that only remembers which batches it has."""


@dataclass(frozen=True)
class Written:
    """A version whose files are written and that no entry makes yet."""

    draft: Draft
    facts: Manifest
    runs: Runs
    lines: LogTable | None
    """The batch's lines of history, where the log keeps them."""
    batches: tuple[str, ...]
    """The batches that it adds to those since the checkpoint."""
    frees: bool
    """Whether files of earlier versions are no longer needed."""

    rest: int = 0
    """How many of the batches before it are still told apart one by one: all unless there is a new checkpoint."""

    pages: tuple[Page, ...] = ()

    @property
    def version(self) -> int:
        """The version that it makes."""
        return self.draft.version


class Journal(Closing):
    """Reads and writes the versions of one state; there is one writer at a time."""

    def __init__(
        self, files: StateFiles, kind: Kind, history: Lines, manifest: Manifest, *, read_only: bool = False
    ) -> None:
        self.files = files
        self.kind: Kind = kind
        self.read_only = read_only
        self.past = False
        """Whether a version was asked for, which need not be the newest."""
        self.facts = manifest
        """The manifest: what the state says of itself, beside its runs."""
        self.runs = Runs.of(manifest)
        """The files of the state as a whole."""
        self.trouble: list[str] = []
        """What went wrong after a commit, such as files that could not be removed: no batch is lost by it."""
        self._history = history
        self._ids: BatchIds | None = None
        self._lines: list[LogTable] | None = None if self.runs.log else []
        """The lines of history of each run of the log, where they were asked for or written."""
        self._collecting: threading.Thread | None = None
        self._recent: list[str] = manifest["recent"]
        """The batches since the checkpoint."""
        self._renumbered = False
        """The next entry must say that rows have the slots to which the checkpoint moved them."""
        if self.runs.renumbering and not read_only:
            self.renumber()
        if manifest.get("format", FORMAT) < FIRST_LOGGED:
            # earlier formats remember ids in the history alone
            self._recent = _names(self.history())
            self.facts = {**manifest, "committed": len(self._recent)}

    @classmethod
    def create(cls, path: str | os.PathLike[str], kind: Kind, history: Lines = BATCHES) -> Self:
        """A new directory; there is no state in it before the first commit.

        One that was given up before its first commit is taken over: nothing in it counts.
        """
        files = StateFiles(path)
        files.vacant()
        try:
            files.lock()
            return cls(files, kind, history, {"version": -1, "recent": [], "committed": 0, **Runs().to_dict()})
        except BaseException:
            files.close()
            raise

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        kind: Kind,
        history: Lines = BATCHES,
        *,
        read_only: bool = False,
        at: At | None = None,
    ) -> Self:
        """An existing one, which must be of this kind; an earlier version (`at`) can only be read."""
        files = StateFiles(path)
        read_only = read_only or at is not None
        try:
            if not read_only:
                if not files.store.shared and not files.store.begun:
                    files.newest()  # says so; else the lock would be made where no state is
                files.lock()
            # read when the lock is taken: another writer may have gone on before it was free
            manifest = files.manifest(None if at is None else files.version_at(at))
            _require_kind(files, kind, manifest)
            journal = cls(files, kind, history, manifest, read_only=read_only)
        except BaseException:
            files.close()
            raise
        journal.past = at is not None
        return journal

    def close(self) -> None:
        """Let go of the directory; raises if a file of it turned out to be damaged."""
        if self._collecting is not None:
            self._collecting.join()
        self.files.close()

    # --- reading -------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The number of the version."""
        found: int = self.facts["version"]
        return found

    @property
    def moment(self) -> Moment:
        """The version, and when it was made."""
        time = self.facts.get("time")
        return Moment(self.version, None if time is None else dt.datetime.fromisoformat(time))

    @property
    def committed(self) -> int:
        """How many batches there were."""
        found: int = self.facts["committed"]
        return found

    def read(self, reader: Callable[[Manifest], Read]) -> Read:
        """What a reader makes of the facts; facts of which nothing can be made are damaged."""
        return read_facts(self.files, self.facts, reader)

    def history(self) -> pa.Table:
        """What each batch did, oldest first, the oldest ones several to a line. Complexity: O(lines)."""
        older = [read_lines(self.files, file, self._history) for file in history_files(self.runs.base)]
        return pa.concat_tables([pa.Table.from_batches([], schema=self._history.schema), *older, *self._logged()])

    def _logged(self) -> list[pa.Table]:
        """The lines of history of the log."""
        if self._lines is None:
            self._lines = [read_lines(self.files, file, self._history) for file in self.runs.log]
        return [as_table(lines) for lines in self._lines]

    def seen(self, batch: str) -> bool:
        """Whether a batch of this id was committed, of the last million batches. Complexity: O(log batches)."""
        return batch in self._known()

    def _known(self) -> BatchIds:
        if self._ids is None:
            self._ids = BatchIds(self.files, self.runs.base, self._recent)
        return self._ids

    def line(self, batch: str) -> pa.Table:
        """The history of one batch of which nothing but its id is remembered."""
        return pa.table({"batch": [batch]}, schema=BATCHES.schema)

    # --- writing -------------------------------------------------------------------------------

    def write_batch(
        self,
        tables: Sequence[LogTable],
        size: int,
        lines: LogTable,
        facts: Mapping[str, Any],
        *,
        runs: Runs | None = None,
        whole: bool = False,
        apart: bool = False,
        run: RunFile | None = None,
    ) -> Written:
        """A batch as one entry. Complexity: O(batch).

        Parameters
        ----------
        runs
            The runs that it comes after, where there are others than those of the last version.
        whole
            The entry says everything, so that it can be read without those before it.
        apart
            Write the tables to a file now, so that the commit itself is small and certain.
        run
            Where a task has written the lines and the tables already.
        """
        version, runs = self.version + 1, runs or self.runs
        payload = b""
        if run is None:
            run, payload = self._written([lines, *tables], size, version, apart=apart)
        batches = _names(lines)
        facts = {**facts, "committed": self.committed + len(batches)}
        after, rest = runs.appended(run, size), len(self._recent)
        if whole or runs is not self.runs or self._since is None or self._renumbered or "pages" in self.facts:
            return self._whole(after, facts, lines, batches, rest, payload)
        step = {"since": self._since, "facts": facts, "run": run.to_dict(), "rows": size, "batches": batches}
        manifest = {**self.facts, **facts, "version": version}
        return Written(Draft(version, step, payload), manifest, after, lines, tuple(batches), frees=False, rest=rest)

    def _written(self, tables: Sequence[LogTable], size: int, version: int, *, apart: bool) -> tuple[RunFile, bytes]:
        """The tables of a batch as a run: a file, or where they are small what its entry is to hold."""
        # the few bytes of a few rows are not worth being counted twice
        small = not apart and (size <= FEW_ROWS or sum(as_table(table).nbytes for table in tables) <= INLINE_BYTES)
        run, payload = self.files.inline(version, tables) if small else (None, b"")
        if run is None or len(payload) > INLINE_BYTES:
            return self.files.write_tables("batch", version, [as_table(table) for table in tables]), b""
        return run, payload

    def write_checkpoint(self, base: Mapping[str, RunFile], lines: pa.Table, facts: Mapping[str, Any]) -> Written:
        """Take files that hold the whole state in place of all runs."""
        batches = _names(lines)
        facts = {**facts, "committed": self.committed + len(batches)}
        runs = Runs({**base, **self.memory(lines)})
        return replace(self._whole(runs, facts, None, [], 0), frees=True)

    def memory(self, lines: pa.Table | None = None) -> dict[str, RunFile]:
        """The files of a checkpoint that hold history and ids, with some more lines."""
        version, base = self.version + 1, self.runs.base
        nothing = pa.Table.from_batches([], schema=self._history.schema)  # `empty_table` would import pandas
        more = pa.concat_tables([nothing, *self._logged(), *([] if lines is None else [lines])])
        batches = [] if lines is None else _names(lines)
        return {
            **write_history(self.files, version, base, more, self._history),
            **self._known().write(version, batches),
        }

    def mark(self) -> Mark:
        """How far the log goes now."""
        return Mark(self.version, self.runs.base, len(self.runs.log), self.runs.log_rows, len(self._recent))

    def renumber(self) -> None:
        """From the next batch on rows are named by the slots to which the checkpoint moved them."""
        self.runs = self.runs.renumbered()
        self._renumbered = True

    def rebase(self, base: Mapping[str, RunFile], mark: Mark, facts: Mapping[str, Any]) -> Written:
        """Take files that hold the state as it was at a mark in place of all runs up to there."""
        if mark.base != self.runs.base:
            # its counts are of a log that another checkpoint has shortened since: runs would be lost
            raise StateError(
                f"the checkpoint of version {mark.version} of {self.files.url} was overtaken by another one",
                hint="every batch up to now is kept: have another checkpoint written",
            )
        runs = Runs(base, self.runs.log[mark.runs :], self.runs.log_rows - mark.rows)
        return replace(self._whole(runs, facts, None, [], len(self._recent) - mark.batches), frees=True)

    def written(self, runs: Runs, facts: Mapping[str, Any]) -> Written:
        """The next version, without a batch, of files that are written; see `_whole` about facts."""
        return self._whole(runs, facts, None, [], len(self._recent))

    def _whole(
        self,
        runs: Runs,
        facts: Mapping[str, Any],
        lines: LogTable | None,
        batches: Sequence[str],
        rest: int,
        payload: bytes = b"",
    ) -> Written:
        """An entry that says everything; facts that are not given stay, those that are None go."""
        recent = [*self._recent[len(self._recent) - rest :], *batches]
        own = dict.fromkeys(("version", "format", "time", "writer", "since"))
        content = {**self.facts, **facts, **runs.to_dict(), "moved": runs.moved}
        content |= {"kind": self.kind, "recent": recent, **own}
        content = {name: value for name, value in content.items() if value is not None and name != "pages"}
        division = divided(content.get("shards", {}), self.files.pages(self.facts))
        pages, beside = division.kept, list[RunFile]()
        if division.new is not None:
            page = self.files.write_tables(KIND, self.version + 1, [listed(division.new)])
            pages, beside = (*pages, Page(page, division.new)), files_of_shards(division.new)
        named = {"pages": [page.file.to_dict() for page in pages]} if pages else {}
        header = {**content, "shards": division.inline, **named} if pages else content
        draft = Draft(self.version + 1, header, payload, tuple(beside))
        manifest = {**content, **named, "version": draft.version}
        return Written(draft, manifest, runs, lines, tuple(batches), frees=False, rest=rest, pages=pages)

    @property
    def _since(self) -> int | None:
        """The version that steps build on; None where the next entry must be whole."""
        if self.version < 0 or self.facts.get("format", FORMAT) != FORMAT:
            return None
        found: int = self.facts.get("since", self.version)
        return found

    def commit(self, written: Written) -> None:
        """Make the version, in one step."""
        before = (self._since, self._needed()) if written.frees else None
        step = "since" in written.draft.header
        self.files.commit(written.draft)
        remember(self.files.url, written.pages)
        # what is only in memory from here on cannot fail the batch
        since = self._since if step else written.version
        if self._lines is not None:
            self._lines += [] if written.lines is None else [written.lines]
            cut = len(self._lines) - len(written.runs.log)
            if cut:
                self._lines = self._lines[cut:] if cut > 0 else None
        if written.frees:
            self._ids = None
        elif self._ids is not None:
            self._ids.add(written.batches)
        del self._recent[: len(self._recent) - written.rest]
        self._recent += written.batches
        self.facts = {**written.facts, "since": since, "format": FORMAT}
        self.runs = written.runs
        self._renumbered &= step
        if before is not None:
            self._free(*before)

    def vacuum(self, keep: float | None = None) -> list[Listed]:
        """Remove what neither this version nor those of the last seconds need; returns what was removed.

        Nothing else may write for this journal meanwhile: in a directory what nobody names goes, however new it is.

        Parameters
        ----------
        keep
            How many seconds versions are kept from now on; as it was, which is not at all, unless given.
        """
        # versions before a damaged one may be all that can still be read
        self.files.require(self._needed())
        if keep is not None and keep != self.facts.get("keep", 0):
            self.commit(self.written(self.runs, {"keep": keep or None}))
        if self._collecting is not None:
            self._collecting.join()
        since = self.version if self._since is None else self._since
        try:
            keep = self.facts.get("keep", 0)
            return self.files.collect(self._needed(), since, self.version, keep, alone=not self.read_only)
        except OSError as error:
            raise StateError(
                f"{self.files.url} could not be cleared up: {error}",
                hint="nothing that is needed was removed; try again when that is mended",
            ) from error

    def _needed(self) -> list[RunFile]:
        return files_of({**self.facts, **self.runs.to_dict()})

    def _free(self, since: int | None, needed: list[RunFile]) -> None:
        """Remove what the version before and this one do not need, beside other work."""
        if self._collecting is not None:
            self._collecting.join()
        first = self.version if since is None else since
        asked = [*needed, *self._needed()], first, self.version, self.facts.get("keep", 0)
        collecting = threading.Thread(target=self._collect, args=asked, name="holdstrue-collect", daemon=True)
        try:
            collecting.start()
        except RuntimeError as error:  # the version is made, with or without a thread
            self.trouble.append(f"files that are no longer needed were not removed: {error}")
        else:
            self._collecting = collecting

    def _collect(self, needed: list[RunFile], since: int, version: int, keep: float) -> None:
        try:
            with StateFiles(self.files.place) as files:
                files.collect(needed, since, version, keep)
        except (OSError, StateError) as error:
            self.trouble.append(f"files that are no longer needed could not be removed: {error}")


def manifest_of(path: str | os.PathLike[str], kind: Kind, version: int | None = None) -> Manifest:
    """What a version of a state says, the newest unless told; it must be of this kind. Complexity: O(its size)."""
    with StateFiles(path) as files:
        manifest = files.manifest(version)
        _require_kind(files, kind, manifest)
        return manifest


def has_state(path: str | os.PathLike[str]) -> bool:
    """Whether there is a state that something was committed to."""
    with StateFiles(path) as files:
        return files.any()


def facts_of(path: str | os.PathLike[str], kind: Kind, reader: Callable[[Manifest], Read]) -> Read:
    """What a reader makes of the newest manifest of a state, which must be of this kind."""
    with StateFiles(path) as files:
        manifest = files.manifest()
        _require_kind(files, kind, manifest)
        return read_facts(files, manifest, reader)


def read_facts(files: StateFiles, facts: Manifest, reader: Callable[[Manifest], Read]) -> Read:
    """What a reader makes of what a version says; where it can make nothing of it, that is damaged."""
    try:
        return reader(facts)
    except (HoldstrueError, ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        if isinstance(error, StateError) and files.url in error.message:
            raise
        why = error.message if isinstance(error, HoldstrueError) else f"{type(error).__name__} {error}"
        raise files.broken(facts["version"], f"what it says cannot be: {why}") from error


def _names(lines: LogTable) -> list[str]:
    """The batches of which there are lines; their names come first in a line."""
    if isinstance(lines, FewRows):
        return list(dict.fromkeys(line[0] for line in lines.rows))
    return list(dict.fromkeys(lines.column("batch").to_pylist()))


def _require_kind(files: StateFiles, kind: Kind, manifest: Mapping[str, Any]) -> None:
    if manifest["kind"] != kind:
        raise other_kind(files.url, kind, manifest["kind"])


def other_kind(path: str, wanted: Kind, found: Kind) -> StateError:
    """What to say when a state is opened as another kind than it is."""
    return StateError(
        f"{path} is the state of {_ARTICLE[found]}, not of {_ARTICLE[wanted]}",
        hint=READ_WITH[found].replace("STATE", path),
    )
