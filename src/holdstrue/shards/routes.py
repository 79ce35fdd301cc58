"""The second half of a batch: the shards of the routes take in their rows, write their runs and say what changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.closing import Closing
from holdstrue.data.changes import DELETE, Changes
from holdstrue.detect.detector import Outcome
from holdstrue.detect.engine import Incoming
from holdstrue.detect.measure import MeasureDetector
from holdstrue.errors import HoldstrueError
from holdstrue.plan.compile import Plan
from holdstrue.plan.measures import written
from holdstrue.shards.hot import CROWDED, SPREAD_FROM
from holdstrue.shards.layout import HOME, Job, Layout, Spot
from holdstrue.shards.lists import ADDED, ENTERED, LEFT_BEHIND, REMOVED, by_table, crossing, listing
from holdstrue.shards.moved import kept_pairs
from holdstrue.shards.passing import picked_up
from holdstrue.shards.ranged_rows import CellSums
from holdstrue.shards.shard import POOL, Shard
from holdstrue.shards.wire import (
    CELLS,
    ERROR,
    LAID,
    LEFT,
    MOVED,
    OP,
    ROWS,
    SHARD,
    SUMMARY,
    Message,
    by_number,
    failure,
    pack,
    raised,
    receive,
    say,
    send,
)
from holdstrue.state.files import Joint, StateFiles
from holdstrue.state.runs import Runs
from holdstrue.typing import I32

LISTED_MORE = 4
"""A cell of a grid lists so many times the limit, since it drops the pairs of rows of one block, about half of all."""

LISTED_APART = 1 << 20
"""Lists of more bytes have a file of their own, which goes with the next batch; others share that of the runs."""

MOST = 2**31 - 1
"""What detectors list at most: slots are numbers of 32 bits."""


class Worker(Closing):
    """What a task holds while it works on the shards it owns."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._files = StateFiles(job.path) if job.path else None
        self._runs: Mapping[str, Any] = {}
        self._lists: list[pa.Table] = []
        self._joint: Joint | None = None
        self._plans: dict[int, Plan] = {HOME: job.layout.home_plan}
        if self._files is not None and job.version >= 0:
            self._runs = self._files.manifest(job.version, job.writer).get("shards", {})

    def close(self) -> None:
        """Make sure that what was written is on disk, and let go of the files."""
        if self._joint is not None:
            self._joint.close()
        if self._files is not None:
            self._files.close()

    def picked_up(self, message: Message) -> Message:
        """A message with the rows that it is about."""
        return message if self._files is None else picked_up(self._files, message)

    def take(self, number: int) -> Shard:
        """A shard as the manifest has it, for this task alone."""
        route = self.job.layout.spots[number].route
        if route not in self._plans:
            self._plans[route] = self.job.layout.route_plan(route)
        plan = self._plans[route]
        known = self._runs.get(str(number))
        if self._files is None or known is None:
            return Shard(plan, self.job.layout.keys)
        return POOL.take(self._files, number, plan, self.job.layout.keys, Runs.of(known))

    def applied(
        self, number: int, shard: Shard, incoming: Mapping[str, Incoming], checks: Sequence[int], spare: int = 0
    ) -> Message:
        """Take a batch into a shard, write it, and say what came of it; `spare` of what it lists may be taken off."""
        spot = self.job.layout.spots[number]
        limit = min(self.job.limit * (LISTED_MORE if spot.crosses else 1) + spare, MOST)
        outcomes = shard.apply(incoming, limit)
        self._list(number, shard, outcomes, checks, self.job.limit + spare)
        said: dict[str, Any] = {
            "shard": number,
            "rows": shard.living(),
            "tallies": {
                str(check): [tally.rows, tally.pairs, tally.groups]
                for check, tally in zip(checks, shard.counts(), strict=True)
                if tally.rows or tally.pairs
            },
            "steps": {
                str(check): [outcome.added, outcome.removed]
                for check, outcome in zip(checks, outcomes, strict=True)
                # what the part of a home would break or not is nobody's question
                if (outcome.added or outcome.removed) and self.job.layout.plan.checks[check].width
            },
        }
        measured = {
            str(check): written(detector.parts)
            for check, detector in zip(checks, shard.engine.detectors, strict=True)
            if isinstance(detector, MeasureDetector)
        }
        if measured and self._files is not None:  # where nothing is kept, rows are measured when they are read
            said["measures"] = measured
        if self._files is not None:
            version = self.job.version + 1
            self._joint = self._joint or self._files.joint(version)
            said["runs"] = shard.write(self._files, version, incoming, self._joint).to_dict()
            self._files.verified()
            POOL.put(self._files, number, shard)
        return say(SUMMARY, said)

    def _list(self, number: int, shard: Shard, outcomes: list[Outcome], checks: Sequence[int], most: int) -> None:
        spot, layout = self.job.layout.spots[number], self.job.layout
        for at, (check, outcome) in enumerate(zip(checks, outcomes, strict=True)):
            if layout.plan.checks[check].width == 0:
                continue
            for change, slots in ((ADDED, outcome.added_list), (REMOVED, outcome.removed_list)):
                own = crossing(shard, spot, layout.blocks, layout.plan.checks[check].table, slots)[:most]
                if own.shape[0]:
                    self._lists.append(listing(layout, check, change, *shard.named(at, own)))

    def list_missing(self, shard: Shard, checks: Sequence[int], slots: I32, change: int) -> int:
        """List the rows among these whose reference is missing; returns how many violations that are."""
        total = 0
        for at, check in enumerate(checks):
            missing = slots[shard.engine.detectors[at].degrees(slots) > 0]
            total += missing.size
            if missing.size:
                self._lists.append(listing(self.job.layout, check, change, *shard.named(at, missing[:, None])))
        return total

    def keep(self, route: int, rows: pa.Table) -> Message:
        """Find the violations of rows that moved together."""
        kept = {}
        for check, table in kept_pairs(self.job.layout, route, rows):
            kept[str(check)] = table.num_rows
            self._lists.append(table)
        return say(SUMMARY, {"kept": kept})

    def listed(self) -> Iterator[Message]:
        """Hand over the lists: as a file beside the runs, or as they are where nothing is kept."""
        tables = by_table(self._lists)
        if not tables:
            return
        if self._files is None:
            for table in tables:
                yield Message(0, SUMMARY, 0, "list", pack(table))
            return
        version = self.job.version + 1
        if sum(table.nbytes for table in tables) > LISTED_APART:
            file = self._files.write_tables("delta", version, tables)
        else:
            self._joint = self._joint or self._files.joint(version)
            file = self._joint.add(tables)
        yield say(SUMMARY, {"list": file.to_dict()})


@dataclass(frozen=True)
class Routes:
    """The stage in which each task owns some shards of the routes (and homes, when a table is first loaded)."""

    job: Job

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, what the driver must know out."""
        return send(self._messages(receive(batches)))

    def _messages(self, messages: Iterable[Message]) -> Iterator[Message]:
        waiting: dict[tuple[int, int], list[Message]] = {}
        sums = CellSums()
        for message in messages:
            if message.kind in (ROWS, LAID, MOVED):
                kind = MOVED if message.kind == MOVED else ROWS
                waiting.setdefault((kind, message.route), []).append(message)
            elif message.kind == CELLS:
                sums.add(message)
            else:
                yield message
        yield from sums.messages()
        at = HOME
        try:
            with Worker(self.job) as worker:
                for kind, at in sorted(waiting):
                    # what a route got is let go of before the next one is looked at
                    own = waiting.pop((kind, at))
                    if kind == MOVED:
                        yield worker.keep(at, pa.concat_tables([message.table() for message in own]))
                        continue
                    shards = split(map(worker.picked_up, own))
                    own.clear()
                    for number in list(shards):
                        yield from self._shard(worker, number, shards.pop(number))
                yield from worker.listed()
        except HoldstrueError as error:
            yield failure(error, at)

    def _shard(self, worker: Worker, number: int, parts: dict[str, pa.Table]) -> Iterator[Message]:
        layout = self.job.layout
        route, checks = layout.spots[number].route, checks_at(layout, number)
        if not self.job.path:
            if self.job.probing and sum(rows.num_rows for rows in parts.values()) > most_rows(layout.spots[number]):
                yield say(SUMMARY, {"crowded": True})
                return
            shard = fresh(layout, number)
            yield worker.applied(number, shard, first_batch(layout, number, parts), checks)
            return
        shard = worker.take(number)
        changes, moved = {}, None
        for table, rows in parts.items():
            schema = layout.plan.schemas[table] if route == HOME else layout.travelling(route)[table]
            changes[table] = Changes(rows.select(schema.names), rows.column(OP).to_numpy().astype(np.uint8))
            if LEFT in rows.column_names and table == layout.routes[route].t.table:
                moved = rows.filter(rows.column(LEFT))
        incoming = shard.resolve(changes)
        if moved is None or not moved.num_rows:
            yield worker.applied(number, shard, incoming, checks)
        elif layout.routes[route].kind == "reference":
            yield from self._references(worker, number, shard, incoming, moved)
        else:
            spare = 0 if self.job.limit in (0, MOST) else most_kept(shard, layout, number, moved, self.job.limit)
            yield worker.applied(number, shard, incoming, checks, spare)

    def _references(
        self, worker: Worker, number: int, shard: Shard, incoming: Mapping[str, Incoming], moved: pa.Table
    ) -> Iterator[Message]:
        """Apply a batch in which referring rows came or went, and list those whose reference was or is missing."""
        layout, checks = self.job.layout, checks_at(self.job.layout, number)
        table = layout.routes[layout.spots[number].route].t.table
        digest = shard.engine.key_digest(table, moved, layout.keys[table])
        went = shard.engine.tables[table].rows.find(*digest)
        count = [worker.list_missing(shard, checks, went[went >= 0], LEFT_BEHIND)]
        said = worker.applied(number, shard, incoming, checks, moved.num_rows if self.job.limit else 0)
        came = shard.engine.tables[table].rows.find(*digest)
        count.append(worker.list_missing(shard, checks, came[came >= 0], ENTERED))
        if any(count):
            yield say(SUMMARY, {"moved": count})
        yield said


def most_kept(shard: Shard, layout: Layout, number: int, moved: pa.Table, limit: int) -> int:
    """How many violations of a check that a shard lists may turn out to be only moved: those of rows that moved.

    Complexity: O(1) where these are few enough to be listed whatever they are, else O(n log n) of rows that moved.
    """
    pairs = moved.num_rows * (moved.num_rows - 1)
    if pairs <= limit:
        return pairs
    table = layout.routes[layout.spots[number].route].t.table
    rows = shard.engine.tables[table].rows
    slots = rows.find(*shard.engine.key_digest(table, moved, layout.keys[table]))
    before = rows.take(slots[slots >= 0])
    after = moved.filter(pc.not_equal(moved.column(OP), DELETE))
    most = 0
    for image in (before, after):
        alone = fresh(layout, number)
        alone.apply(first_batch(layout, number, {table: image}), 0)
        most = max(most, *(tally.pairs for tally in alone.counts()))
    return most


def most_rows(spot: Spot) -> int:
    """How many rows a shard should have to check alone."""
    return SPREAD_FROM if spot.hot >= 0 else CROWDED


def checks_at(layout: Layout, number: int) -> tuple[int, ...]:
    """The checks that run in a shard."""
    route = layout.spots[number].route
    return layout.home_checks if route == HOME else layout.routes[route].checks


def fresh(layout: Layout, number: int) -> Shard:
    """A shard for one check, in which rows are never looked up by key."""
    route = layout.spots[number].route
    return Shard(layout.home_plan if route == HOME else layout.route_plan(route), layout.keys, keyed=False)


def first_batch(layout: Layout, number: int, parts: Mapping[str, pa.Table]) -> dict[str, Incoming]:
    """Rows as the first batch of a shard, keys repeated or not."""
    route = layout.spots[number].route
    schemas = layout.plan.schemas if route == HOME else layout.travelling(route)
    return {
        table: Incoming(
            rows.select(schemas[table].names), np.empty(0, dtype=np.int32), np.full(rows.num_rows, -1, dtype=np.int32)
        )
        for table, rows in parts.items()
    }


def loaded(job: Job, messages: Iterable[Message]) -> Iterator[tuple[int, Shard, tuple[int, ...]]]:
    """The shards of a check that keeps nothing, one after the other."""
    messages = [message for message in messages if message.kind in (ROWS, ERROR)]
    raised(messages)
    for route in sorted({message.route for message in messages}):
        for number, parts in split([message for message in messages if message.route == route]).items():
            shard = fresh(job.layout, number)
            shard.apply(first_batch(job.layout, number, parts), 0)
            yield number, shard, checks_at(job.layout, number)


def split(messages: Iterable[Message]) -> dict[int, dict[str, pa.Table]]:
    """The rows of each shard, by table. Complexity: O(rows)."""
    found: dict[int, dict[str, pa.Table]] = {}
    by_name: dict[str, list[pa.Table]] = {}
    for message in messages:
        by_name.setdefault(message.name, []).append(message.table())
    for name, tables in by_name.items():
        table = pa.concat_tables(tables)
        shards = table.column(SHARD).to_numpy()
        order = by_number(shards)
        ordered = shards[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        table = table if starts.size == 1 else table.take(pa.array(order))
        for start, end in zip(starts, [*starts[1:], ordered.size], strict=True):
            found.setdefault(int(ordered[start]), {})[name] = table.slice(start, end - start)
    return found
