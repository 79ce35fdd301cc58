"""Minimal keys and FDs that hold up to an error: a share of the pairs of rows (g1), or of rows to remove (g3).

No single pair refutes such a rule, so every batch searches left sides again, shortest first (`limited_search.within`).
What was counted before is known within bounds (`remembered_counts.py`): a batch counts the left sides that these leave
in doubt, and the rules that are told.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from holdstrue.discovery.bitsets import set_of
from holdstrue.discovery.dependencies.coded_core import CodedCore
from holdstrue.discovery.dependencies.limited_search import NO_LIMIT, within
from holdstrue.discovery.dependencies.ranking import Dependency, judged, profiles, suspects
from holdstrue.discovery.dependencies.remembered_counts import RememberedCounts, RememberingWeigher
from holdstrue.discovery.dependencies.validation import Partitions, Validator
from holdstrue.discovery.found import RuleTurnover
from holdstrue.discovery.options import DiscoveryOptions, allowed
from holdstrue.discovery.work import Work
from holdstrue.index.arrays import Snapshot, nested
from holdstrue.index.checked import Checked
from holdstrue.kernels.partitions import GATHERED, OFFENDING, SUPPORT, SURPLUS
from holdstrue.rules.model import Body
from holdstrue.typing import I64, U64


class ApproximateCore(CodedCore):
    """All minimal keys and FDs within an error.

    Examples
    --------
    >>> table = pa.table({"zip": [1, 1, 1, 1, 2, 2, 2], "city": ["A", "A", "A", "B", "C", "C", "C"]})
    >>> core = ApproximateCore.load(table, DiscoveryOptions(kinds=("fd",), error=0.15, measure="rows"))
    >>> [(rule.body.lhs, rule.body.rhs, round(rule.error, 3)) for rule in core.rules()]
    [(('zip',), ('city',), 0.143), (('city',), ('zip',), 0.0)]
    """

    def __init__(self, schema: pa.Schema, options: DiscoveryOptions) -> None:
        super().__init__(schema, options)
        self._lines: U64 = np.empty((0, len(self.names) // 64 + 1), dtype=np.uint64)
        self._of: I64 = np.empty(0, dtype=np.int64)
        self._counts: I64 = np.empty((0, 4), dtype=np.int64)
        self._place = OFFENDING if options.measure == "pairs" else SURPLUS
        self._remembered = RememberedCounts(self._place)
        self.counted = 0
        """Dependencies that were counted on the rows by the last search."""

    def apply(self, removed: I64, added: pa.Table, work: Work | None = None) -> RuleTurnover:
        """Take rows out by slot, add others; what became of the rules.

        Complexity: O(rows) for each left side that the bounds leave in doubt and each rule; that of the search at most.
        """
        self._remembered.moved(len(removed), added.num_rows, self.codes.rows + added.num_rows)
        return super().apply(removed, added, work)

    def _find(self, work: Work) -> None:
        error, rows = self.options.error, self.codes.rows
        limits = np.array([NO_LIMIT, NO_LIMIT], dtype=np.int64)
        limits[self._place] = allowed(error, rows * (rows - 1) // 2 if self._place == OFFENDING else rows)
        weigher = RememberingWeigher(Validator(Partitions(self.codes), work), self._remembered)
        found, self.complete = within(weigher, len(self.names), self._targets, limits, self._longest)
        self.counted = weigher.counted
        found = [one for one in found if one.target < len(self.names) or one.line.any()]
        self._lines = np.array([one.line for one in found], dtype=np.uint64).reshape(-1, len(self.names) // 64 + 1)
        self._of = np.array([one.target for one in found], dtype=np.int64)
        self._counts, counted = weigher.exactly(self._lines, self._of)
        if not counted.all():
            # a rule whose count is not known cannot be told
            self.complete = False
            self._lines, self._of, self._counts = self._lines[counted], self._of[counted], self._counts[counted]

    def _witness(self, body: Body) -> tuple[int, ...]:
        """Slots of two rows that break a dependency which breaks too often now; none where a shorter one took over."""
        target, line = self._target_and_line(body)
        if ((self._lines[self._of == target] & ~line) == 0).all(axis=1).any():
            return ()
        column = None if target == len(self.names) else self.codes.matrix[target]
        pairs = suspects(column, *Validator(Partitions(self.codes), self._work).rows_of(line))
        return tuple(sorted(int(self.codes.slots[place]) for place in pairs[0])) if pairs else ()

    def bodies(self) -> tuple[Body, ...]:
        """The minimal keys and FDs within the error."""
        return tuple(self._body(int(target), line) for target, line in zip(self._of, self._lines, strict=True))

    def rules(self) -> tuple[Dependency, ...]:
        """The minimal keys and FDs with their measures, the best first."""
        rows = self.codes.rows
        extents, columns = self._counts[:, (SUPPORT, GATHERED)], profiles(self.codes, self._schema)
        found = judged(
            self._lines, self._of, self._body, extents, columns, rows, self.codes.known_rows, nulls_equal=False
        )
        share = rows * (rows - 1) / 2 if self.options.measure == "pairs" else rows
        errors = {
            body: int(count[self._place]) / share if share else 0.0
            for body, count in zip(self.bodies(), self._counts, strict=True)
        }
        # transitivity and keys carry over exact rules only
        return tuple(replace(rule, error=errors[rule.body], implied=False, implied_by_key=False) for rule in found)

    def size_bytes(self) -> int:
        """Memory held."""
        found = self._lines.nbytes + self._of.nbytes + self._counts.nbytes
        return self.codes.size_bytes() + self._remembered.size_bytes() + found

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        found: Snapshot = {"lines": self._lines, "targets": self._of, "counts": self._counts}
        return nested("codes", self.codes.snapshot()) | found | {"complete": np.array([self.complete])}

    @classmethod
    def restore(cls, schema: pa.Schema, options: DiscoveryOptions, arrays: Checked) -> ApproximateCore:
        """A core as it was left (the arrays will be written to)."""
        core = cls(schema, options)
        core.codes.restore(arrays.part("codes"))
        many, rows = len(core.names), core.codes.rows
        core._lines = arrays.sets("lines", set_of(range(many), many // 64 + 1))
        found = core._lines.shape[0]
        core._of = arrays.array("targets", np.int64, (found,))
        arrays.require(bool(np.isin(core._of, core._targets).all()), "it has rules about other columns")
        core._counts = arrays.array("counts", np.int64, (found, 4))
        arrays.within("counts", core._counts, 0, rows * rows)
        [core.complete] = arrays.flags("complete", 1).tolist()
        return core
