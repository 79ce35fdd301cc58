"""A monitor that follows a table: which versions it has not seen, and one batch for each of them or for all."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import pyarrow.compute as pc

from holdstrue.data.buffers import python_rows
from holdstrue.detect.delta import Delta, Step
from holdstrue.errors import ChangeError, DataError, HoldstrueError
from holdstrue.monitor.monitor import LIMIT, Monitor
from holdstrue.monitor.sharded import Sharded
from holdstrue.sources.datafiles import ReadOptions
from holdstrue.sources.following.versions import MOST_BEHIND, TableVersions, followed
from holdstrue.sources.lakehouse import NAMES
from holdstrue.sources.read import load


def follow(
    monitor: Monitor,
    source: Any,
    *,
    table: str | None = None,
    since: str | None = None,
    one_batch: bool = True,
    limit: int | None = LIMIT,
) -> Iterator[Delta]:
    """Apply what happened to a Delta Lake or Iceberg table since the monitor last saw it, and tell what that did.

    Where one stopped is told by the ids of the batches (`delta:TABLE:VERSION`), so that a version is applied once,
    whatever happens in between. A monitor without rows of the table starts with the table as it is.

    Parameters
    ----------
    table
        The table of the monitor that is meant, if not the main one.
    since
        The first version (of Iceberg: snapshot) whose changes are applied, where the monitor has seen none yet.
    one_batch
        Whether all that is new is one batch; otherwise every version is.
    """
    if isinstance(monitor, Sharded):
        raise HoldstrueError(
            "a table is followed in one process", hint="open the state with holdstrue.Monitor.open(path)"
        )
    versions = followed(source)
    if versions is None:
        raise HoldstrueError(
            "only tables of Delta Lake and Iceberg can be followed",
            hint=f"{', '.join(NAMES.values())}: a directory, a URL, or iceberg:CATALOG.DATABASE.TABLE; of other tables "
            "a snapshot can be applied",
        )
    own = monitor.facts.main if table is None else monitor.facts.known_table(table)
    steps = list(_unseen(monitor, versions, own, since))
    if not steps:
        still = {rule: Step(0, 0, counts.open) for rule, counts in monitor.counts().items()}
        yield Delta(versions.id_of(versions.newest), (), (), still, duplicate=True)
        return
    if one_batch:
        steps = [(steps[0][0], steps[-1][1])]
    for after, upto in steps:
        name = versions.id_of(upto)
        if after is None:
            yield monitor.apply({own: versions.source}, name, limit=limit, feed="append")
            continue
        try:
            log = versions.changes(after, upto)
        except DataError as error:
            hint = f"were old versions removed? {catch_up(monitor, versions)}"
            raise DataError(error.message, hint=hint) from error
        try:
            delta = monitor.apply({own: log.table}, name, limit=limit, feed=log.feed)
        except ChangeError as error:
            if error.hint is None or not error.hint.startswith("on conflict "):
                raise
            _require_key(versions, monitor.facts.keys[own])
            # what a log tells is not to be bent until it fits
            why = f"the state does not hold version {after} of {versions}, or several rows had one key for a while"
            hint = f"{why}: {catch_up(monitor, versions)}"
            raise ChangeError(error.message, hint=hint) from error
        yield delta if log.note is None else replace(delta, notes=(log.note, *delta.notes))


def _unseen(
    monitor: Monitor, versions: TableVersions, table: str, since: str | None
) -> Iterator[tuple[str | None, str]]:
    """The steps from the version that was applied last to the newest; None to begin with nothing."""
    last = _last_applied(monitor, versions)
    found: list[str] = []
    for version in islice(versions.backwards(), MOST_BEHIND):
        found.append(version)
        if version == last or (last is None and any(map(monitor.seen, versions.ids_of(version)))):
            return pairwise(reversed(found))
    if last is not None and not versions.knows(last):
        raise DataError(
            f"version {last} of {versions}, the one that was applied last, is no longer among its versions: what "
            "happened since is not known",
            hint=f"old snapshots were expired; {catch_up(monitor, versions)}",
        )
    if last is not None:
        raise DataError(
            f"{versions} is at version {versions.newest}, which does not follow from {last}, "
            "the one that was applied last",
            hint=f"was it rolled back? {catch_up(monitor, versions)}",
        )
    if since is not None:
        before = versions.before(since)
        return pairwise([before, *reversed(found[: found.index(since) + 1])])
    if not monitor.rows[table]:
        return iter([(None, versions.newest)])
    raise DataError(
        f"which version of {versions} the rows of {table!r} are of is not known",
        hint=f"give --since VERSION, the first whose changes are applied (the newest is {versions.newest}), or "
        f"{catch_up(monitor, versions)}",
    )


def _require_key(versions: TableVersions, key: Sequence[str]) -> None:
    """Refuse a table in which several rows have one key, whose changes then do not fit whatever the state holds."""
    rows = load(versions.source, ReadOptions(columns=tuple(key))).table
    counted = rows.group_by(list(key)).aggregate([([], "count_all")])
    doubled = counted.filter(pc.greater(counted.column("count_all"), 1))
    if doubled.num_rows:
        first = python_rows(doubled.slice(0, 1))[0]
        many = first.pop("count_all")
        named = ", ".join(f"{name}={value!r}" for name, value in first.items())
        raise ChangeError(
            f"{many:,} rows of {versions} have the key {named}; nothing was applied",
            hint="a key names one row: remove the others from the table, or make a state with another key",
        )


def _last_applied(monitor: Monitor, versions: TableVersions) -> str | None:
    """The version that the monitor was brought to last; None where its history names none.

    Refuses a table that has another commit of that number, as one does that was put back from a backup.
    """
    named = monitor.last_of(versions.identity)
    if named is None:
        return None
    version = versions.version_of(named)
    if not versions.is_same(named):
        raise DataError(
            f"version {version} of {versions} is not the one that was applied: it was committed anew",
            hint=f"was the table put back from a backup? {catch_up(monitor, versions)}",
        )
    return version


def catch_up(monitor: Monitor, versions: TableVersions) -> str:
    """What to do where a table cannot be followed, as a command."""
    state = "STATE" if monitor.place is None else shlex.quote(monitor.place)
    return (
        f"bring the state to the table as it is, and follow it from there: holdstrue apply {state} "
        f"{shlex.quote(str(versions))} --snapshot"
    )
