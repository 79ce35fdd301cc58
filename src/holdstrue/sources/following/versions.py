"""Lakehouse tables by their versions: which there are, and what changed between two of them, as a changelog.

Delta Lake is asked for its change data feed. Where that cannot tell (it was off for a part of the time), and of Iceberg
always, the data files (and what is deleted from them) of two versions are compared, and only those that differ are
read. Rows that a rewritten file holds as before are left out.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.errors import ChangeError, DataError
from holdstrue.sources.feeds.changelog import LOGS, number_rows
from holdstrue.sources.fit import plain_table
from holdstrue.sources.lakehouse import NO_SNAPSHOT, LakeTable, guarded, marked
from holdstrue.sources.read import TableSource

MOST_BEHIND = 100_000
"""TableVersions that are looked through for the one that was applied last. Chosen, not tuned."""


@dataclass(frozen=True)
class VersionLog:
    """Changes between two versions, as a feed that `read_changes` knows."""

    table: pa.Table
    feed: str
    note: str | None = None


def with_version(data: Any, read: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Rows to start a monitor with, and the id of the version that they are where they are one of a lakehouse table."""
    several = isinstance(data, Mapping) and not hasattr(data, "__arrow_c_stream__")
    parts = list(data.items()) if several else [(None, data)]
    if len(parts) != 1 or not isinstance(parts[0][1], str | os.PathLike | list | tuple | TableSource):
        return data, None
    [(name, one)] = parts
    try:
        source = TableSource.of(one, read.get("format"))
        version = source.version
    except DataError as error:
        raise ChangeError(error.message, hint=error.hint) from error
    return ({name: source} if several else source), version


def followed(source: Any) -> TableVersions | None:
    """The versions of the lakehouse table that a source names, as they are now; None where it names something else."""
    given = TableSource.of(source)
    table = given.outer
    if not isinstance(table, LakeTable):
        return None
    return DeltaVersions(table, given) if table.format == "delta" else IcebergVersions(table, given)


class TableVersions(ABC):
    """The versions of a table."""

    def __init__(self, table: LakeTable, source: TableSource) -> None:
        self.table = table
        self.source = source
        """The rows of the newest one."""
        self.identity, _, named = table.version().rpartition(":")
        """What the ids of all its versions begin with."""
        self.newest = self.version_of(named)
        """The version that it has now."""

    def __str__(self) -> str:
        return str(self.table)

    def id_of(self, version: str) -> str:
        """The id of the batch that brings a monitor to a version."""
        return f"{self.identity}:{version}"

    def ids_of(self, version: str) -> tuple[str, ...]:
        """All ids that such a batch may have, if earlier releases made it."""
        return (self.id_of(version),)

    def version_of(self, named: str) -> str:
        """The version that an id names, which follows the identity of the table there."""
        return named.split(":", maxsplit=1)[0]

    def is_same(self, named: str) -> bool:
        """Whether the version that an id names is the one that the table has under that name now."""
        return True

    def knows(self, version: str) -> bool:
        """Whether the table still has a version, although the present one may not follow from it."""
        return True

    @abstractmethod
    def backwards(self) -> Iterator[str]:
        """All versions that are known, the newest first."""

    def before(self, version: str) -> str:
        """The version before one; an error where that is not a version of the table."""
        known = list(islice(self.backwards(), MOST_BEHIND))
        if version not in known:
            raise DataError(
                f"{self} has no version {version!r}", hint=f"the newest is {self.newest}, the oldest known {known[-1]}"
            )
        at = known.index(version)
        return known[at + 1] if at + 1 < len(known) else NO_SNAPSHOT

    @abstractmethod
    def changes(self, after: str, upto: str) -> VersionLog:
        """What happened after one version up to another."""


class DeltaVersions(TableVersions):
    """Of a table of Delta Lake: numbers from 0, in ids with what tells their commits from others."""

    def backwards(self) -> Iterator[str]:
        """All versions that are known, the newest first."""
        return (str(number) for number in range(int(self.newest), -1, -1))

    def id_of(self, version: str) -> str:
        """The id of the batch that brings a monitor to a version."""
        return f"{self.identity}:{marked(int(version), self.table.commit_digest(int(version)))}"

    def ids_of(self, version: str) -> tuple[str, ...]:
        """All ids that such a batch may have: at first they named the number alone."""
        return self.id_of(version), f"{self.identity}:{version}"

    def version_of(self, named: str) -> str:
        """The number that an id names."""
        return super().version_of(named).split("-")[0]

    def is_same(self, named: str) -> bool:
        """Whether the commit of that number is still the same, as far as the id and the table's log tell."""
        number, _, digest = super().version_of(named).partition("-")
        now = self.table.commit_digest(int(number)) if digest else None
        return now is None or now == digest

    def changes(self, after: str, upto: str) -> VersionLog:
        """What happened after one version up to another: by the change feed, or by comparing the two."""
        doubt = self._doubt(after, upto)
        if doubt is None:
            first = 0 if after == NO_SNAPSHOT else int(after) + 1
            table = self.table.delta()

            def read() -> pa.Table:
                return plain_table(pa.table(table.load_cdf(starting_version=first, ending_version=int(upto))))

            try:
                return VersionLog(guarded(self.table, read), "delta")
            except DataError as error:
                doubt = (
                    f"the change data feed of {self} does not tell what happened up to version {upto} "
                    f"({error.message.split(': ', 1)[-1]})"
                )
        note = f"{doubt}: rows of the files that came and went are compared"
        left, came = (
            _read(self, lambda one=one, other=other: self._rows(one, other), after)
            for one, other in ((after, upto), (upto, after))
        )
        return _compared(left, came, "delta", note)

    def _doubt(self, after: str, upto: str) -> str | None:
        """Why the change feed cannot be asked; None where it can."""
        kept = [self._at(version) for version in (after, upto) if version != NO_SNAPSHOT]
        with_feed = [
            str(one.metadata().configuration.get("delta.enableChangeDataFeed", "")).lower() == "true" for one in kept
        ]
        if not any(with_feed):
            return f"{self} keeps no change data feed"
        if not all(with_feed):
            return f"{self} kept a change data feed for a part of the time up to version {upto}"
        return None

    def _at(self, version: str) -> Any:
        """The table as deltalake knows it, at a version."""
        if version == self.newest:
            return self.table.delta()
        return self.table.delta_at(int(version))

    def _rows(self, version: str, other: str) -> pa.Table:
        """The rows of the files that a version has and another has not."""
        from pyarrow.dataset import FileSystemDataset

        if version == NO_SNAPSHOT:
            return self._at(other).to_pyarrow_dataset().schema.empty_table()
        there = set() if other == NO_SNAPSHOT else set(self._at(other).file_uris())
        table = self._at(version)
        data = table.to_pyarrow_dataset()
        # fragments and files are named relative to the table and in full, in orders of their own
        gone = {uri.rpartition("/")[2] for uri in set(table.file_uris()) - there}
        parts = [part for part in data.get_fragments() if part.path.rpartition("/")[2] in gone]
        return plain_table(FileSystemDataset(parts, data.schema, data.format, data.filesystem).to_table())


class IcebergVersions(TableVersions):
    """Of a table of Iceberg: the snapshots from which the present one follows."""

    def backwards(self) -> Iterator[str]:
        """All versions that are known, the newest first."""
        metadata = self.table.iceberg().metadata
        snapshots = {one.snapshot_id: one for one in metadata.snapshots}
        at = metadata.current_snapshot_id
        while at in snapshots:
            yield str(at)
            at = snapshots[at].parent_snapshot_id
        if at is None:
            yield NO_SNAPSHOT

    def knows(self, version: str) -> bool:
        """Whether the snapshot has not been expired."""
        return version in (NO_SNAPSHOT, *(str(one.snapshot_id) for one in self.table.iceberg().metadata.snapshots))

    def changes(self, after: str, upto: str) -> VersionLog:
        """What happened after one version up to another."""
        old, new = (_read(self, lambda version=version: self._files(version), after) for version in (after, upto))
        left = self._rows([task for name, task in old.items() if name not in new])
        came = self._rows([task for name, task in new.items() if name not in old])
        return _compared(left, came, "iceberg")

    def _files(self, version: str) -> dict[tuple[str, ...], Any]:
        """The parts of a snapshot: a data file with what is deleted from it."""
        if version == NO_SNAPSHOT:
            return {}
        tasks = self.table.iceberg().scan(snapshot_id=int(version)).plan_files()
        return {(task.file.file_path, *sorted(one.file_path for one in task.delete_files)): task for task in tasks}

    def _rows(self, tasks: list[Any]) -> pa.Table:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        table = self.table.iceberg()
        scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
        return guarded(self.table, lambda: plain_table(scan.to_table(tasks)))


def _compared(left: pa.Table, came: pa.Table, feed: str, note: str | None = None) -> VersionLog:
    """The log of rows that went and came between two versions, as a feed has it."""
    layout = LOGS[feed]
    both = pa.concat_tables([left, came], promote_options="permissive")
    kinds = pa.array(["delete"] * left.num_rows + ["insert"] * came.num_rows, pa.string())
    log = both.append_column(layout.kind_column, kinds)
    log = log.append_column(layout.order_column, pa.array(np.zeros(log.num_rows, np.int64)))
    return VersionLog(without_unchanged(log, feed) if left.num_rows else log, feed, note)


def _read(versions: TableVersions, read: Any, after: str) -> Any:
    try:
        return guarded(versions.table, read)
    except DataError as error:
        raise DataError(
            f"what happened to {versions} after version {after} cannot be read: {error.message.split(': ', 1)[-1]}"
        ) from error


def without_unchanged(log: pa.Table, feed: str) -> pa.Table:
    """A changelog without rows that left and came again as they were in one commit, as rewriting a file makes them.

    >>> log = pa.table({"id": [1, 1, 2], "_change_type": ["delete", "insert", "delete"], "_change_ordinal": [0, 0, 0]})
    >>> without_unchanged(log, "iceberg").column("id").to_pylist()
    [2]
    """
    layout = LOGS[feed]
    columns = [name for name in log.column_names if name not in (layout.kind_column, *layout.other_columns)]
    if not log.num_rows or any(pa.types.is_nested(log.schema.field(name).type) for name in columns):
        return log
    numbers = number_rows([log.column(name) for name in columns])
    left = np.asarray(pc.equal(log.column(layout.kind_column), "delete").to_numpy(), bool)
    came = np.asarray(pc.equal(log.column(layout.kind_column), "insert").to_numpy(), bool)
    same = np.intersect1d(numbers[left], numbers[came])
    if not same.size:
        return log
    return log.filter(pa.array(~(np.isin(numbers, same) & (left | came))))
