"""Order rules without equalities, checked once over large tables: which go by ranges, and what lies apart in them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product

import numpy as np
import pyarrow as pa

from holdstrue.data.cuts import Cuts
from holdstrue.plan.checks import Check, PairCheck
from holdstrue.plan.compile import Plan, part_of
from holdstrue.shards.hot import SAMPLE, blocks_for
from holdstrue.shards.layout import Layout
from holdstrue.shards.ledger import Settled
from holdstrue.shards.lists import ADDED, listing
from holdstrue.shards.memory import rows_a_shard
from holdstrue.shards.ranged_rows import CELL, CellRows, RangedRows, shaped
from holdstrue.shards.ranges import ApartCells, is_ranged, meeting, most_cuts
from holdstrue.shards.runner import Frame, Runner
from holdstrue.shards.shard import as_key
from holdstrue.shards.wire import SUMMARY, raised

LEAST_CUTS = 32
CUTS_A_TASK = 16
"""Ranges fall on tasks by chance: with so many each, the largest share is about a quarter above the mean."""


@dataclass(frozen=True)
class OrderRanges:
    """The order rules of a check that go by ranges, and how their tables are cut."""

    plan: Plan
    """With rules by ranges in the place of those that order all rows."""
    tables: Mapping[str, RangedRows]

    @staticmethod
    def of(
        runner: Runner, plan: Plan, frames: Mapping[str, Frame], counts: Mapping[str, int], tasks: int
    ) -> OrderRanges | None:
        """The order rules of large tables, each of which is sampled; None where there are none.

        Complexity: a scan of the columns that such rules order.
        """
        ordering = {check.rule: check for check in plan.checks if isinstance(check, PairCheck) and is_ranged(check)}
        most = rows_a_shard(runner.worker_bytes())
        wanted = {rule: c for rule, c in ordering.items() if _pays(len(c.terms), counts.get(c.table, 0), tasks, most)}
        tables = {}
        for table in dict.fromkeys(check.table for check in wanted.values()):
            own = {rule: check for rule, check in wanted.items() if check.table == table}
            found = _cut(runner, plan, frames[table], own, counts[table], tasks, most)
            if found is not None:
                tables[table] = found
        if not tables:
            return None
        checks: list[Check] = []
        for check in plan.checks:
            goes = isinstance(check, PairCheck) and check.table in tables and check.rule in wanted
            checks += meeting(check) if goes and isinstance(check, PairCheck) else [check]
        schemas = dict(plan.schemas)
        for table, ranged in tables.items():
            for name in ranged.columns:
                schemas[table] = schemas[table].append(pa.field(name, pa.int32()))
        return OrderRanges(part_of(plan, checks, schemas), tables)

    def apart(self, settled: Settled) -> dict[int, ApartRows]:
        """By rule the rows of each combination of ranges, as the tasks that read them counted them."""
        return {
            rule: ApartRows(
                table,
                ApartCells(
                    tuple(term.op for term in check.terms), *shaped(settled.cells.get(rule, ()), ranged.shape(rule))
                ),
            )
            for table, ranged in self.tables.items()
            for rule, check in ranged.checks.items()
        }

    def listed(
        self,
        runner: Runner,
        frames: Mapping[str, Frame],
        layout: Layout,
        apart: Mapping[int, ApartRows],
        lists: Iterable[pa.Table],
        most: int,
    ) -> Iterator[pa.Table]:
        """Pairs that lie apart, of each rule as many as the lists of those that meet leave of `most`. A job a rule."""
        there = Counter[str]()
        for table in lists:
            there.update(table.column("rule").to_pylist())
        for rule, own in apart.items():
            left = min(most - there[layout.plan.rules.rules[rule].name], own.pairs)
            if left > 0:
                yield self._named(runner, frames[own.table], layout, rule, own, left)

    def _named(self, runner: Runner, frame: Frame, layout: Layout, rule: int, own: ApartRows, most: int) -> pa.Table:
        """Some pairs of a rule that lie apart."""
        cells, ranged = own.cells, self.tables[own.table]
        chosen = cells.pairs_of_cells(most)
        wanted: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for t, s in chosen:
            there, here = int(cells.t.flat[t]), int(cells.s.flat[s])
            if len(chosen) == 1:
                # of two large cells as many rows as make up the pairs
                there = min(there, max(math.isqrt(most) + 1, -(-most // here)))
                here = min(here, -(-most // there))
            wanted[0][t], wanted[1][s] = there, here
        schema = pa.schema([field for field in layout.plan.schemas[own.table] if field.name not in ranged.columns])
        stage = CellRows(ranged, rule, schema, layout.keys[own.table], wanted)
        messages = list(runner.run([(frame, stage)], [], 1))
        raised(messages)
        keys: list[dict[int, list[int]]] = [{}, {}]
        parts: list[list[pa.Table]] = [[], []]
        for message in messages:
            if message.kind == SUMMARY:
                parts[message.route].append(message.table())
        rows = [pa.concat_tables(own_parts) for own_parts in parts]
        for role, table in enumerate(rows):
            for at, cell in enumerate(table.column(CELL).to_pylist()):
                known = keys[role].setdefault(cell, [])
                if len(known) < wanted[role][cell]:
                    known.append(at)
        pairs = list(islice((p for t, s in chosen for p in product(keys[0].get(t, ()), keys[1].get(s, ()))), most))
        [check, *_] = [n for n, one in enumerate(layout.plan.checks) if one.rule == rule]
        sides = [
            as_key(table.select(layout.keys[own.table])).take(pa.array(np.array([pair[role] for pair in pairs])))
            for role, table in enumerate(rows)
        ]
        return listing(layout, check, ADDED, *sides)

    def explain(self) -> Iterator[str]:
        """How the rules are checked, in words."""
        for ranged in self.tables.values():
            for rule in ranged.checks:
                shape = zip(ranged.names(rule), ranged.shape(rule), strict=True)
                said = ", ".join(f"{ranges} of {name}" for name, ranges in shape)
                yield f"{self.plan.rules.rules[rule].name!r} by ranges ({said}): rows meet in each, the rest is counted"


@dataclass(frozen=True)
class ApartRows:
    """The rows of a table by their combination of ranges."""

    table: str
    cells: ApartCells

    @property
    def pairs(self) -> int:
        """How many pairs lie apart."""
        return self.cells.pairs()


def _pays(terms: int, rows: int, tasks: int, most: int) -> bool:
    """Whether ranges, with a copy of each row for every term, are cheaper than a grid, or fit where it does not.

    >>> _pays(2, 10**6, 2, 2 * 10**6), _pays(3, 10**6, 2, 2 * 10**6), _pays(3, 10**6, 16, 2 * 10**6)
    (True, False, True)
    >>> _pays(2, 200_000, 2, 2 * 10**6), _pays(2, 200_000, 2, 134_217)
    (False, True)
    """
    blocks = blocks_for(tasks, rows)
    return terms < blocks or 2 * rows > most * blocks


def _cut(
    runner: Runner, plan: Plan, frame: Frame, checks: Mapping[int, PairCheck], rows: int, tasks: int, largest: int
) -> RangedRows | None:
    """A table cut into ranges by a sample; None where these would hold more rows than a task should have, `largest`."""
    most = min(most_cuts(len(check.terms)) for check in checks.values())
    if rows > largest * most:
        return None
    [table] = {check.table for check in checks.values()}
    names = list(dict.fromkeys(term.left for check in checks.values() for term in check.terms))
    sample = runner.sample(runner.select(frame, names), SAMPLE, rows)
    schema = plan.schemas[table]
    sample = sample.cast(pa.schema([schema.field(name) for name in names]))
    wanted = min(most, max(LEAST_CUTS, CUTS_A_TASK * tasks, -(-2 * rows // largest)))
    cuts = {name: Cuts.of(sample.column(name), plan.domain(table, name), wanted, name) for name in names}
    return RangedRows(cuts, checks)
