"""Rows of one table with the ranges of their values: where they meet, and how many lie in which combination of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import plain
from holdstrue.data.cuts import Cuts
from holdstrue.errors import HoldstrueError
from holdstrue.plan.checks import PairCheck
from holdstrue.plan.filter import holds
from holdstrue.shards.layout import HOME
from holdstrue.shards.ranges import allows_equal, range_columns
from holdstrue.shards.wire import CELLS, SUMMARY, Message, failure, pack, send, to_tasks
from holdstrue.typing import I32, I64, Mask

CELL, AS_T, AS_S = ":cell", ":t rows", ":s rows"
"""Columns of what is counted: the number of a combination of ranges, its rows that may be t, those that may be s."""


@dataclass(frozen=True)
class RangedRows:
    """How the rows of a table are cut into ranges, and for which rules."""

    cuts: Mapping[str, Cuts]
    """By column."""
    checks: Mapping[int, PairCheck]
    """By rule, as it was before it went by ranges."""

    def names(self, rule: int) -> list[str]:
        """The columns that a rule orders, a dimension of its cells each."""
        return [term.left for term in self.checks[rule].terms]

    def shape(self, rule: int) -> tuple[int, ...]:
        """How many ranges each of these has."""
        return tuple(self.cuts[name].ranges for name in self.names(rule))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows get, which rules by ranges read."""
        found: dict[str, None] = {}
        for check in self.checks.values():
            for at, term in enumerate(check.terms):
                own = range_columns(term)
                found |= dict.fromkeys((own.place, own.number)[: 1 + (at + 1 < len(check.terms))])
        return tuple(found)

    def numbers(self, rows: pa.Table) -> dict[str, I32]:
        """By column the ranges of some rows. Complexity: O(rows * columns * log cuts)."""
        return {name: cuts.numbers(rows.column(name), name) for name, cuts in self.cuts.items()}

    def with_columns(self, rows: pa.Table, numbers: Mapping[str, I32]) -> pa.Table:
        """The same rows with the columns that they get."""
        found: dict[str, pa.Array] = {}
        for check in self.checks.values():
            for term in check.terms:
                own, number = range_columns(term), numbers[term.left]
                # two values that are alone in their range are equal
                nowhere = number < 0 if allows_equal(term.op) else (number < 0) | (number % 2 == 1)
                found[own.number] = pa.array(number, mask=number < 0)
                found[own.place] = pa.array(number, mask=nowhere)
        for name in self.columns:
            rows = rows.append_column(name, found[name])
        return rows

    def cells(self, rule: int, numbers: Mapping[str, I32]) -> I64:
        """The number of each row's combination of ranges, -1 where a value is NULL."""
        total = np.zeros(len(next(iter(numbers.values()))), dtype=np.int64)
        known = np.ones(total.size, dtype=np.bool_)
        for name, ranges in zip(self.names(rule), self.shape(rule), strict=True):
            total = total * ranges + numbers[name]
            known &= numbers[name] >= 0
        return np.where(known, total, -1)

    def roles(self, rule: int, rows: pa.Table) -> tuple[Mask, Mask]:
        """Which rows may be t of a rule, and which may be s."""
        check = self.checks[rule]

        def values(name: str) -> pa.Array:
            return plain(rows.column(name))

        t, s = (holds(member, values, rows.num_rows) for member in (check.t_member, check.s_member))
        return t, s

    def chosen(self, rule: int, rows: pa.Table, numbers: Mapping[str, I32], masks: tuple[Mask, Mask]) -> Mask:
        """The rows that may be t in a cell of the first mask, or s in one of the second."""
        cells = self.cells(rule, numbers)
        found = np.zeros(cells.size, dtype=np.bool_)
        for role, mask in zip(self.roles(rule, rows), masks, strict=True):
            found |= role & (cells >= 0) & mask.ravel()[cells]
        return found


class CellCounts:
    """How many rows of some rules lie in which cells, as they pass."""

    def __init__(self, ranged: RangedRows) -> None:
        self._ranged = ranged
        self._counts = {rule: np.zeros((2, math.prod(ranged.shape(rule))), dtype=np.int64) for rule in ranged.checks}

    def read(self, rows: pa.Table, numbers: Mapping[str, I32]) -> None:
        """Count some rows. Complexity: O(rows + cells) a rule."""
        for rule, counts in self._counts.items():
            cells = self._ranged.cells(rule, numbers)
            for at, role in enumerate(self._ranged.roles(rule, rows)):
                counts[at] += np.bincount(cells[role & (cells >= 0)], minlength=counts.shape[1])

    def messages(self, table: str, tasks: int) -> Iterator[Message]:
        """What was counted, to the tasks that add it up: cells of the same number to the same task."""
        for rule, counts in self._counts.items():
            cells = np.flatnonzero(counts.any(axis=0))
            told = pa.table({CELL: pa.array(cells), AS_T: pa.array(counts[0][cells]), AS_S: pa.array(counts[1][cells])})
            yield from to_tasks(told, (cells % tasks).astype(np.int32), CELLS, rule, table)


class CellSums:
    """What tasks that read rows counted, added up in the task that gets it."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[I64, I64]] = {}

    def add(self, message: Message) -> None:
        """Add what one task counted. Complexity: O(cells log cells)."""
        told = message.table()
        cells = told.column(CELL).to_numpy()
        counts = np.stack([told.column(name).to_numpy() for name in (AS_T, AS_S)])
        if message.route in self._parts:
            known, before = self._parts[message.route]
            cells, counts = np.concatenate((known, cells)), np.concatenate((before, counts), axis=1)
        distinct, which = np.unique(cells, return_inverse=True)
        # whole numbers of rows, far below 2^53
        sums = np.stack([np.bincount(which, own, distinct.size).astype(np.int64) for own in counts])
        self._parts[message.route] = distinct, sums

    def messages(self) -> Iterator[Message]:
        """The sums, a rule each."""
        for rule, (cells, (t, s)) in self._parts.items():
            told = pa.table({CELL: pa.array(cells), AS_T: pa.array(t), AS_S: pa.array(s)})
            yield Message(0, SUMMARY, rule, "cells", pack(told))


@dataclass(frozen=True)
class CellRows:
    """The stage that names the rows of some cells that may be t, or s."""

    ranged: RangedRows
    rule: int
    schema: pa.Schema
    """Of the rows that come."""
    key: tuple[str, ...]
    wanted: tuple[Mapping[int, int], Mapping[int, int]]
    """Of t and of s: by cell how many rows are asked for at most."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, messages with keys out: of each partition as many as are asked for."""
        return send(self._messages(batches))

    def _messages(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
        left = [dict(cells) for cells in self.wanted]
        try:
            for batch in batches:
                if not any(left):
                    continue
                rows = pa.Table.from_batches([batch]).select(self.schema.names).cast(self.schema)
                cells = self.ranged.cells(self.rule, self.ranged.numbers(rows))
                for role, may in enumerate(self.ranged.roles(self.rule, rows)):
                    at = _first(cells, may, left[role])
                    if at.size:
                        named = rows.select(self.key).take(pa.array(at)).append_column(CELL, pa.array(cells[at]))
                        yield Message(0, SUMMARY, role, "rows", pack(named))
        except HoldstrueError as error:
            yield failure(error, HOME)


def _first(cells: I64, may: Mask, left: dict[int, int]) -> I64:
    """The first rows of each cell, as many as are `left`, which go down."""
    among = np.flatnonzero(may & np.isin(cells, np.fromiter(left, dtype=np.int64)))
    found = []
    for cell in np.unique(cells[among]).tolist():
        own = among[cells[among] == cell][: left[cell]]
        left[cell] -= own.size
        if not left[cell]:
            del left[cell]
        found.append(own)
    return np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)


def shaped(told: Sequence[pa.Table], shape: tuple[int, ...]) -> tuple[I64, I64]:
    """What tasks added up as two arrays with a dimension for each term; a cell of no task is empty."""
    both = np.zeros((2, math.prod(shape)), dtype=np.int64)
    for part in told:
        for at, name in enumerate((AS_T, AS_S)):
            both[at][part.column(CELL).to_numpy()] = part.column(name).to_numpy()
    return both[0].reshape(shape), both[1].reshape(shape)
