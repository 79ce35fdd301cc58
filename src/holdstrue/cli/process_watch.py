"""`watch` in one process: looks at a source again and again, and applies what is new as batches."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from holdstrue.cli.alerting import send_alert
from holdstrue.cli.bad_files import BadFiles
from holdstrue.cli.failures import tell
from holdstrue.cli.output import tell_notes
from holdstrue.errors import ChangeError, DataError, HoldstrueError, StateError
from holdstrue.location import shown
from holdstrue.progress import LOG
from holdstrue.sources.following.folder import ChangeFolder
from holdstrue.sources.following.object_folder import ObjectFolder
from holdstrue.sources.following.polling import look, name_of, position
from holdstrue.sources.following.versions import followed
from holdstrue.sources.lakehouse import format_of_directory
from holdstrue.sources.object_files import folder_of
from holdstrue.sources.passing import may_pass
from holdstrue.sources.ways import require_local, way_of
from holdstrue.state.object_url import is_object_url

if TYPE_CHECKING:
    from holdstrue.alerts import Alert
    from holdstrue.cli.output import Output
    from holdstrue.cli.watching import Stop
    from holdstrue.detect.delta import Delta
    from holdstrue.monitor.monitor import Monitor

LOOK_AGAIN = 1.0
"""Seconds after which `--once` looks whether a file that was just written is complete. Chosen, not tuned."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before the next look after a fault; they double with each further one. Chosen, not tuned."""


@dataclass(frozen=True)
class Applied:
    """What a batch did, and what it is called."""

    delta: Delta
    name: str


class Watched(Protocol):
    """Something that is looked at."""

    def look(self, monitor: Monitor, table: str, limit: int) -> Iterator[Applied]:
        """Apply what is new, a batch at a time, of which so many violations are listed."""

    @property
    def unfinished(self) -> bool:
        """Whether there is something that was not taken because it may still be written."""


class ChangeFiles(Protocol):
    """A place that change files are put into."""

    def complete(self) -> tuple[Sequence[Any], bool]:
        """The files that are complete and not done with, in their order, and whether others may still be written."""

    def is_current(self, file: Any) -> bool:
        """Whether one is still as it was seen."""

    def done(self, file: Any) -> None:
        """One was taken, now or before."""


@dataclass
class WatchedFolder:
    """A directory or a folder of an object store with change files, each a batch."""

    folder: ChangeFiles
    options: Mapping[str, Any]
    bad: BadFiles
    unfinished: bool = False

    def look(self, monitor: Monitor, table: str, limit: int) -> Iterator[Applied]:
        """Apply the files that are complete, in their order."""
        files, self.unfinished = self.folder.complete()
        for file in files:
            batch = file.batch
            if not self.folder.is_current(file):
                self.unfinished = True
                return  # those that follow wait for it
            name = batch if table == monitor.facts.main else f"{table}:{batch}"
            if not monitor.seen(name):
                changes = file.changes
                try:
                    delta = monitor.apply({table: changes}, name, limit=limit, **self.options)
                except (ChangeError, DataError) as error:
                    if may_pass(error):
                        raise
                    delta = self.bad.passed(monitor, name, file.name, changes, error)
                yield Applied(delta, file.name)
            self.folder.done(file)


@dataclass
class WatchedVersions:
    """A table of Delta Lake or Iceberg, of which every version is a batch."""

    source: str
    since: str | None
    unfinished: bool = False

    def look(self, monitor: Monitor, table: str, limit: int) -> Iterator[Applied]:
        """Apply the versions that are new."""
        from holdstrue.monitor.following import follow

        for delta in follow(monitor, self.source, table=table, since=self.since, one_batch=False, limit=limit):
            if not delta.duplicate:
                yield Applied(delta, delta.batch)


@dataclass
class WatchedSnapshot:
    """Any source that holds all rows of the table as it is."""

    source: str
    options: Mapping[str, Any]
    unfinished: bool = False

    def look(self, monitor: Monitor, table: str, limit: int) -> Iterator[Applied]:
        """Apply what differs from the state."""
        delta = monitor.apply({table: [self.source]}, limit=limit, snapshot=True, **self.options)
        if any((delta.changed or {}).values()):
            yield Applied(delta, shown(self.source))


@dataclass
class WatchedColumn:
    """A table of a database, by a column that grows."""

    source: str
    by: str
    since: str | None
    unfinished: bool = False
    _at: str | None = field(default=None, repr=False)

    def look(self, monitor: Monitor, table: str, limit: int) -> Iterator[Applied]:
        """Apply the rows that are new or differ, from the largest value of the last look on."""
        name, facts = name_of(self.source, self.by), monitor.facts
        if self._at is None:
            self._at = position(name, (line.batch for line in monitor.history()))
        if self._at is None and self.since is not None:
            self._at = "'" + self.since.replace("'", "''") + "'"
        kept = facts.kept_names(table)
        found = look(self.source, self.by, kept, self._at)
        if found is None:
            return
        delta = monitor.refresh({table: found.rows}, None if monitor.seen(found.batch) else found.batch, limit=limit)
        self._at = found.batch.removeprefix(name)
        if any((delta.changed or {}).values()):
            yield Applied(delta, f"{shown(self.source)} up to {self._at}")


def watched(
    source: str,
    *,
    since: str | None,
    by: str | None,
    snapshot: bool,
    read: Mapping[str, Any],
    feed: Mapping[str, Any],
    bad: BadFiles,
) -> Watched:
    """What a command names, and how it is looked at."""
    if by is not None and snapshot:
        raise HoldstrueError("--by and --snapshot are two ways to look at a table", hint="give one of them")
    changed = [name for name, value in feed.items() if value not in (None, "auto", "error", {})]
    changed += [] if bad.on_bad_batch == "stop" else ["on_bad_batch"]
    if source == "-":
        raise HoldstrueError("standard input ends, so that it cannot be watched", hint="holdstrue apply STATE -")
    if by is not None:
        _refuse(changed, "--by")
        if way_of(source) is None:
            require_local(source)
        return WatchedColumn(source, by, since)
    if snapshot:
        _refuse([*changed, *(["since"] if since is not None else [])], "--snapshot")
        return WatchedSnapshot(source, read)
    path = None if way_of(source) else Path(require_local(source))
    if path is not None and not path.exists():
        raise DataError(
            f"there is no directory {source!r}",
            hint="give a directory of change files, a table of Delta Lake or Iceberg, or a URL; table:NAME needs "
            "--engine spark",
        )
    objects = None if path is not None or not is_object_url(source) else folder_of(source)
    if objects is None and (path is None or format_of_directory(path) is not None) and followed(source) is not None:
        _refuse([*changed, *(name for name in read if name != "encoding")], f"the change log of {shown(source)}")
        return WatchedVersions(source, since)
    if objects is None and (path is None or not path.is_dir()):
        raise HoldstrueError(
            f"{shown(source)} does not say what changes in it",
            hint="--snapshot compares all of it at every look; --by COLUMN asks a database for what is new by a "
            "column that grows",
        )
    if since is not None:
        raise HoldstrueError("--since is about tables", hint="files are all read once")
    if objects is not None:
        return WatchedFolder(ObjectFolder(objects, read.get("format")), {**read, **feed}, bad)
    assert path is not None
    return WatchedFolder(ChangeFolder(path.resolve(), read.get("format") is not None), {**read, **feed}, bad)


def _refuse(options: list[str], where: str) -> None:
    if options:
        raise HoldstrueError(f"--{options[0].replace('_', '-')} is not for {where}", hint="leave it out")


@dataclass
class Pauses:
    """Bears faults that may pass: says them, and waits before the next look, longer every time.

    With `--once` no fault is borne: who started the command starts it again.
    """

    stop: Stop
    once: bool
    first: float = FIRST_PAUSE
    _next: float = field(default=0.0, init=False)

    def bear(self, error: HoldstrueError) -> None:
        """Wait; raises the error where it will not pass."""
        if self.once or not may_pass(error):
            raise error
        self._next = min(LONGEST_PAUSE, max(self.first, 2 * self._next))
        LOG.warning("%s; trying again in %g s", error.message, self._next)
        tell(f"warning: {error.message}; trying again in {self._next:g} s")
        self.stop.wait(self._next)

    def over(self) -> None:
        """The source answered."""
        if self._next:
            self._next = 0.0
            tell("note: it answers again")


def watch_here(
    state: str,
    find: Callable[[], Watched],
    *,
    table: str | None,
    once: bool,
    every: float,
    out: Output,
    form: str,
    stop: Stop,
    alert: Alert | None = None,
) -> None:
    """Look at a source until the end is asked for, or once; faults that may pass are said and waited for."""
    from holdstrue.monitor.monitor import Monitor

    pauses = Pauses(stop, once)
    source: Watched | None = None
    with stop.on_signals():
        while not stop:
            try:
                source = source or find()
                with Monitor.open(state) as monitor:
                    teller = partial(_tell, out, form, alert, set())
                    _look_again(source, monitor, table, every, pauses, teller, listed=alert is not None)
                    return
            except (DataError, StateError) as error:
                # a state whose store failed is opened again, which shows whether the last batch is in it
                pauses.bear(error)


def _look_again(
    source: Watched,
    monitor: Monitor,
    table: str | None,
    every: float,
    pauses: Pauses,
    teller: Callable[[Applied], None],
    *,
    listed: bool,
) -> None:
    from holdstrue.alerts.alert import EXAMPLES

    own = monitor.facts.known_table(table or monitor.facts.main)
    limit = EXAMPLES * len(monitor.rules) if listed else 0
    stop = pauses.stop
    while not stop:
        try:
            for applied in source.look(monitor, own, limit):
                pauses.over()
                teller(applied)
                if stop:
                    return
            pauses.over()
        except DataError as error:
            pauses.bear(error)
            continue
        if pauses.once and not source.unfinished:
            return
        stop.wait(min(every, LOOK_AGAIN) if pauses.once else every)


def _tell(out: Output, form: str, alert: Alert | None, told: set[str], applied: Applied) -> None:
    """Say what a batch did; a note is said once."""
    from holdstrue.report.answers import BatchLine
    from holdstrue.report.forms import parts

    tell_notes([note for note in applied.delta.notes if note not in told])
    told.update(applied.delta.notes)
    out.write(parts(BatchLine(applied.delta, (applied.name,), dt.datetime.now(dt.UTC)), form))
    if alert is not None:
        send_alert(alert, applied.delta)
