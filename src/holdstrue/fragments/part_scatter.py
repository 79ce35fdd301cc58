"""Rows on their way to the parts of sites: changes to all that they may concern, a site's own rows to its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.changes import Changes
from holdstrue.data.coding import Domain
from holdstrue.detect.resolve import fitted
from holdstrue.errors import HoldstrueError
from holdstrue.fragments.fragment_layout import FragmentLayout
from holdstrue.fragments.ids import key_ids
from holdstrue.fragments.netting import fragment_of
from holdstrue.fragments.part_stages import FRAGMENT, START
from holdstrue.fragments.parts import SitePart, place_of
from holdstrue.shards import scatter
from holdstrue.shards.scatter import PATH, open_file
from holdstrue.shards.wire import OP, ROWS, SEQ, Message, failure, pack, send
from holdstrue.sources.feeds import read_changes
from holdstrue.sources.feeds.target import Target

_PARTITION_ROWS = 1 << 40
"""Rows are in order inside a partition, and partitions in the order of their numbers."""

FILES = "files"
"""The feed whose rows are paths of change files."""


@dataclass(frozen=True)
class Spread:
    """Where rows go: what all tasks that read know of the parts."""

    parts: tuple[SitePart, ...]
    tasks: int
    layout: FragmentLayout
    """Without sources."""
    schema: pa.Schema
    domains: Mapping[str, Domain]
    """Of the columns of the key."""
    whole: bool = False
    """Whether one task does all rounds for all parts."""

    def places(self, rows: pa.Table) -> Any:
        """By row the place of its part."""
        cut = 1 + max(part.place for part in self.parts)
        return place_of(key_ids(rows, self.layout.key, self.domains), cut)

    def changed(self, changes: Changes, at: int) -> Iterator[Message]:
        """Changes, numbered from `at` on: to the fragment that a row belongs to whole, to others its key."""
        rows = fitted(changes, self.schema, self.layout.key)
        place, fragment = self.places(rows), fragment_of(rows, self.layout)
        beside = [
            (OP, pa.array(changes.ops.astype(np.uint8))),
            (SEQ, pa.array(np.arange(at, at + rows.num_rows, dtype=np.int64))),
            (FRAGMENT, pa.array(fragment)),
        ]
        for part in self.parts:
            here, own = place == part.place, fragment == part.fragment
            whole = part.spec.kept(rows)
            for table, mask in ((whole, here & own), (whole.select([*self.layout.key]), here & ~own)):
                if mask.any():
                    for name, column in beside:
                        table = table.append_column(name, column)  # noqa: PLW2901
                    yield self._to(part, table.filter(pa.array(mask)))

    def own(self, site: str, rows: pa.Table) -> Iterator[Message]:
        """Rows of a site's source."""
        place = self.places(rows)
        for part in self.parts:
            mask = (place == part.place) if part.site == site else np.zeros(0, dtype=np.bool_)
            if mask.any():
                own = part.spec.kept(rows)
                yield self._to(part, own if mask.all() else own.filter(pa.array(mask)))

    def _to(self, part: SitePart, rows: pa.Table) -> Message:
        return Message(part.number % self.tasks, ROWS, part.number, "", pack(rows))

    def started(self) -> Iterator[Message]:
        """Something to do for every task."""
        for task in range(self.tasks):
            yield Message(task, START, -1, "", pa.py_buffer(b""))


@dataclass(frozen=True)
class Starting:
    """The stage that gives every task something to do, whatever rows there are."""

    spread: Spread

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers of tasks in, messages out."""
        numbers = {task for batch in batches for task in batch.column(0).to_pylist()}
        return send(message for message in self.spread.started() if message.task in numbers)


@dataclass(frozen=True)
class OwnRows:
    """The stage that reads the source of one site."""

    spread: Spread
    site: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, messages out."""
        return send(self._messages(batches))

    def _messages(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
        try:
            for batch in batches:
                yield from self.spread.own(self.site, pa.Table.from_batches([batch]))
        except HoldstrueError as error:
            yield failure(error, -1)


@dataclass(frozen=True)
class ChangedRows:
    """The stage that reads a data frame of changes, or of paths of change files."""

    spread: Spread
    feed: str
    op_column: str | None = None
    read: Mapping[str, Any] = field(default_factory=dict)
    seen: pa.Schema | None = None
    """All columns of the relation, for change files that have more than rules read."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of changes in, messages out."""
        return send(self._messages(batches))

    def _messages(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
        at = scatter.PARTITION.get() * _PARTITION_ROWS
        try:
            for batch in batches:
                for changes in self._changes(pa.Table.from_batches([batch])):
                    yield from self.spread.changed(changes, at)
                    at += len(changes)
        except HoldstrueError as error:
            yield failure(error, -1)

    def _changes(self, rows: pa.Table) -> Iterator[Changes]:
        key, schema = self.spread.layout.key, self.spread.schema
        if self.feed == FILES:
            target = Target(key, self.seen, "ignore", needed=frozenset(schema.names))
            for path in rows.column(PATH).to_pylist():
                yield open_file(path, target, self.read).changes()
            return
        yield read_changes(rows, key=key, schema=schema, extra="ignore", feed=self.feed, op_column=self.op_column)
