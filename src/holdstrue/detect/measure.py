"""Rules about whole tables: row counts, sums, extremes and freshness, of one table or of two.

Memory: some numbers a rule, and a thousand values for an extreme. Of a row that goes the old version is still there by
its slot, so that it can be taken off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import partial

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import plain
from holdstrue.data.exact import known_values
from holdstrue.detect.clock import Clock
from holdstrue.detect.detector import Batch, Batches, Detector, Outcome, Pairs, no_pairs
from holdstrue.detect.tallies import Tally, tally_of
from holdstrue.index.arrays import Snapshot, nested
from holdstrue.index.checked import Checked
from holdstrue.index.rows import Rows
from holdstrue.plan.checks import Check, MeasureCheck
from holdstrue.plan.filter import holds
from holdstrue.plan.measures import Aggregate, Part
from holdstrue.typing import I32, I64


class MeasureDetector(Detector):
    """The measures of one rule, and whether they break it: a violation without rows."""

    check: MeasureCheck

    def __init__(self, check: MeasureCheck, rows: Mapping[str, Rows], clock: Clock) -> None:
        self.check = check
        self._rows = rows
        self._clock = clock
        self._tallies: list[Tally] = [
            tally_of(measure, partial(self._everything, measure)) for measure in check.measures
        ]
        self._verdict: tuple[int, int] | None = None
        """The moment of the last verdict and what it was; None where rows changed since."""

    def apply(self, batches: Batches, limit: int) -> Outcome:
        """Count old rows out and new ones in. Complexity: O(batch)."""
        before = self._clock.started and bool(self.open)
        for measure, tally in zip(self.check.measures, self._tallies, strict=True):
            batch = batches.get(measure.table)
            if batch is not None:
                self._verdict = None
                tally.change(*_changed(measure, batch))
        added, removed = bool(self.open) and not before, before and not self.open
        one = np.empty((min(limit, 1), 0), dtype=np.int32)
        return Outcome(int(added), int(removed), one if added else no_pairs(0), one if removed else no_pairs(0))

    def _everything(self, measure: Aggregate) -> pa.Array:
        """The known values of a measure. Complexity: O(slots)."""
        rows = self._rows[measure.table]
        return _values(measure, rows, rows.living_slots())

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is kept of each measure."""
        return tuple(tally.part for tally in self._tallies)

    @property
    def open(self) -> int:
        """Whether the rule is violated, at the moment that the clock shows."""
        moment = self._clock.moment if self.check.timed else 0
        if self._verdict is None or self._verdict[0] != moment:
            self._verdict = moment, int(self.check.broken(self.parts, moment))
        return self._verdict[1]

    def measured(self) -> str:
        """The measures in words."""
        return self.check.said(self.parts, self._clock.moment)

    def at(self, clock: Clock) -> MeasureDetector:
        """The same by another clock."""
        other = copy(self)
        other._clock = clock
        return other

    def violating(self) -> I32:
        """No row: the violation is of the table as a whole."""
        return np.empty(0, dtype=np.int32)

    def violations(self) -> Iterator[Pairs]:
        """One violation without slots, if there is one."""
        if self.open:
            yield np.empty((1, 0), dtype=np.int32)

    def degrees(self, slots: I32) -> I64:
        """No row is in a violation."""
        return np.zeros(slots.size, dtype=np.int64)

    def explain(self) -> list[str]:
        """The measures as they are."""
        return [self.measured()]

    def size_bytes(self) -> int:
        """Memory held."""
        return sum(tally.size_bytes() for tally in self._tallies)

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        arrays: Snapshot = {}
        for at, tally in enumerate(self._tallies):
            arrays |= nested(f"m{at}", tally.snapshot())
        return arrays

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot."""
        self._verdict = None
        for at, (measure, tally) in enumerate(zip(self.check.measures, self._tallies, strict=True)):
            living, own = self._rows[measure.table].living, arrays.part(f"m{at}")
            tally.restore(own, living)
            if measure.function == "count" and not measure.columns:
                own.require(tally.part == (living,), f"it counts {tally.part[0]} rows, and there are {living}")


class PassingMeasures:
    """What measures of one table keep of rows that pass by and are kept nowhere.

    Examples
    --------
    >>> from holdstrue.plan.compile import compile_rules
    >>> from holdstrue.rules import load_rules
    >>> plan = compile_rules(load_rules(["sum(a) < 9"]), "data", {"data": pa.schema({"a": pa.int64()})})
    >>> passing = PassingMeasures(plan.checks, "data")
    >>> passing.read(pa.table({"a": [1, 2]}))
    >>> passing.read(pa.table({"a": [None, 4]}))
    >>> passing.parts()
    [(0, 0, (3, 7))]
    """

    def __init__(self, checks: Sequence[Check], table: str) -> None:
        self._tallies = [
            (number, at, measure, tally_of(measure, lambda: pa.nulls(0)))
            for number, check in enumerate(checks)
            if isinstance(check, MeasureCheck)
            for at, measure in enumerate(check.measures)
            if measure.table == table
        ]

    def read(self, rows: pa.Table) -> None:
        """Take in rows. Complexity: O(rows)."""
        for _, _, measure, tally in self._tallies:
            values = _values_in(measure, rows)
            tally.change(values, values.slice(0, 0))

    def parts(self) -> list[tuple[int, int, Part]]:
        """By check and number of the measure what is kept."""
        return [(number, at, tally.part) for number, at, _, tally in self._tallies]


def _changed(measure: Aggregate, batch: Batch) -> tuple[pa.Array, pa.Array]:
    """The known values that a batch brings, and those of the rows that it removes."""
    if not measure.columns:
        return pa.nulls(batch.new.size), pa.nulls(batch.old.size)
    chosen = None if measure.member is None else holds(measure.member, batch.incoming.column, batch.new.size)
    if measure.column is None:
        came = pa.nulls(batch.new.size if chosen is None else int(chosen.sum()))
    else:
        came = known_values(batch.incoming.column(measure.column), chosen)
    return came, _values(measure, batch.rows, batch.old)


def _values(measure: Aggregate, rows: Rows, slots: I32) -> pa.Array:
    """The known values of row versions; where a measure has no column, as many NULLs as it counts."""
    return _values_in(measure, rows.take(slots, measure.columns)) if measure.columns else pa.nulls(slots.size)


def _values_in(measure: Aggregate, table: pa.Table) -> pa.Array:
    """The same of the rows of a table."""
    chosen = None
    if measure.member is not None:
        chosen = holds(measure.member, lambda name: plain(table.column(name)), table.num_rows)
    if measure.column is None:
        return pa.nulls(table.num_rows if chosen is None else int(chosen.sum()))
    return known_values(table.column(measure.column), chosen)
