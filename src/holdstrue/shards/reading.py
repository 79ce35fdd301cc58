"""Stages that read a state: its rows for a new layout, its violations, the rows that violate."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdstrue.data.changes import Changes
from holdstrue.errors import HoldstrueError
from holdstrue.shards.facts import Facts
from holdstrue.shards.layout import HOME, Columns, Job
from holdstrue.shards.ledger import Distinct, Ledger
from holdstrue.shards.lists import ADDED, crossing, listing, whole_tables
from holdstrue.shards.memory import allowed_bytes, give_back
from holdstrue.shards.routes import Worker
from holdstrue.shards.scatter import Scatter
from holdstrue.shards.shard import Shard, completed
from holdstrue.shards.wire import Message, failure, send
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import Journal
from holdstrue.state.runs import Runs
from holdstrue.typing import U64

LISTED_AT_ONCE = 65_536


def tasks_in(batches: Iterable[pa.RecordBatch]) -> list[int]:
    """The numbers of the tasks whose work is asked for."""
    return [number for batch in batches for number in batch.column(0).to_pylist()]


@dataclass(frozen=True)
class Reload:
    """All rows of a state sent to the homes and routes of a new layout."""

    job: Job
    """The new layout."""
    before: Job | None
    """The layout it has; None for the state of one process, which one task reads."""
    path: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers of tasks in, messages out."""
        return send(self._messages(tasks_in(batches)))

    def _messages(self, tasks: list[int]) -> Iterator[Message]:
        try:
            for table, rows in self.rows(tasks):
                scatter = Scatter(self.job, table, "append", first=True)
                wanted = self.job.layout.plan.schemas[table]
                yield from scatter.sent(Changes.append(completed(rows, wanted)), None, 0)
        except HoldstrueError as error:
            yield failure(error, HOME)

    def rows(self, tasks: list[int], homes: int | None = None) -> Iterator[tuple[str, pa.Table]]:
        """The rows that these tasks read, of all homes or of the first ones, table by table."""
        if self.before is None:
            if 0 in tasks:
                yield from _one_process(self.path)
            return
        with Worker(self.before) as worker:
            for number in range(homes or self.before.layout.shards):
                # as many tasks run as the new layout has, which may be fewer than the old one had
                if number % self.job.tasks in tasks:
                    for name, table in worker.take(number).engine.tables.items():
                        yield name, table.rows.take(table.rows.living_slots())


def _one_process(path: str) -> Iterator[tuple[str, pa.Table]]:
    with Journal.open(path, "monitor", read_only=True) as journal:
        # as it was written: the new layout may know other types, or keep more columns
        facts = journal.read(Facts.of)
        shard = Shard.open(journal.files, facts.plan(), facts.all_keys, journal.runs)
    for name, table in shard.engine.tables.items():
        slots = table.rows.living_slots()
        for start in range(0, max(1, slots.size), LISTED_AT_ONCE):
            yield name, table.rows.take(slots[start : start + LISTED_AT_ONCE])


@dataclass(frozen=True)
class Listing:
    """The violations of some rules, chunk by chunk."""

    job: Job
    checks: tuple[int, ...]
    broken: tuple[int, ...] = ()
    """Those of the checks of whole tables that are violated, which the ledger knows."""

    def shards(self, tasks: list[int]) -> Iterator[tuple[int, Shard, tuple[int, ...]]]:
        """The open shards of these tasks that have violations, each with its checks.

        Who is done with one lets go of it (`del`), so that two need not fit at a time.
        """
        layout = self.job.layout
        with StateFiles(self.job.path) as files:
            known = files.manifest(self.job.version, self.job.writer).get("shards", {})
            for number, said in known.items():
                spot = layout.spots[int(number)]
                own = layout.home_checks if spot.route == HOME else layout.routes[spot.route].checks
                if int(number) % self.job.tasks in tasks and any(str(c) in said["tallies"] for c in own):
                    plan = layout.home_plan if spot.route == HOME else layout.route_plan(spot.route)
                    yield int(number), Shard.open(files, plan, layout.keys, Runs.of(said)), own
                    if allowed_bytes() is not None:
                        give_back()

    def tables(self, tasks: list[int]) -> Iterator[pa.Table]:
        """Violations as tables."""
        if 0 in tasks:
            yield from whole_tables(self.job.layout, self.broken, ADDED)
        for number, shard, own in self.shards(tasks):
            yield from self.of_shard(number, shard, own)
            del shard

    def of_shard(self, number: int, shard: Shard, own: tuple[int, ...]) -> Iterator[pa.Table]:
        """The violations that one shard is to list."""
        spot, layout = self.job.layout.spots[number], self.job.layout
        for at, check in enumerate(own):
            if check in self.checks and layout.plan.checks[check].width:
                table = layout.plan.checks[check].table
                for slots in shard.listed(at):
                    listed = crossing(shard, spot, layout.blocks, table, slots)
                    if listed.shape[0]:
                        yield listing(layout, check, ADDED, *shard.named(at, listed))


@dataclass(frozen=True)
class Violating:
    """Digests of the rows that violate some rules, and of the groups of some checks in hot places.

    Each comes with a number: the rule's for a row, for a group the check's, after those of all rules.
    """

    listing: Listing
    rules: Mapping[int, int]
    """The rule of each check whose rows are asked for."""
    groups: tuple[int, ...] = ()
    """The checks whose groups are asked for."""

    @staticmethod
    def of(ledger: Ledger, job: Job, also: Container[int] = ()) -> Violating:
        """What the ledger cannot count: rows and groups that several shards hold, and rows of the rules in `also`."""
        wanted = [i for i in range(len(ledger.layout.plan.rules.rules)) if i in also or ledger.scattered(i)]
        rules = {check: i for i in wanted for check in ledger.checks_of(i)}
        return Violating(Listing(job, tuple(rules)), rules, tuple(check for check in rules if ledger.divided(check)))

    def counted(self, numbers: Mapping[int, int]) -> Distinct:
        """How many distinct rows and groups there are, from how many distinct digests each number has."""
        rows = {rule: numbers.get(rule, 0) for rule in self.rules.values()}
        return Distinct(rows, {check: numbers.get(self._group_number(check), 0) for check in self.groups})

    def _group_number(self, check: int) -> int:
        return len(self.listing.job.layout.plan.rules.rules) + check

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers of tasks in, (number, hi, lo) out; a row may occur in several shards."""
        for number, shard, own in self.listing.shards(tasks_in(batches)):
            yield from self.of_shard(number, shard, own)
            del shard

    def of_shard(self, number: int, shard: Shard, own: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
        """The violating rows and groups of one shard."""
        layout = self.listing.job.layout
        for at, check in enumerate(own):
            if check not in self.rules:
                continue
            table = layout.plan.checks[check].table
            slots = shard.engine.detectors[at].violating()
            values = shard.engine.tables[table].rows.take(slots, layout.keys[table])
            _, _, (hi, lo) = layout.home(table, Columns(values))
            yield digests(self.rules[check], hi, lo)
            if check in self.groups and layout.spots[number].hot >= 0:
                yield digests(self._group_number(check), *shard.groups(at))


def digests(number: int, hi: U64, lo: U64) -> pa.RecordBatch:
    """Digests of rows or groups, with the number of the rule or check that they are counted for."""
    numbers = pa.array(np.full(hi.size, number, dtype=np.int32))
    return pa.record_batch({"rule": numbers, "hi": pa.array(hi.view(np.int64)), "lo": pa.array(lo.view(np.int64))})
