"""Minimal keys and FDs that hold up to an error: a share of the pairs of rows (g1), or of rows to remove (g3).

No single pair refutes such a rule, so every batch counts left sides anew, shortest first (`limits.within`):
a batch costs what the search from scratch does, without coding the table again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.limited_search import NO_LIMIT, within
from holdstrue.discovery.dependencies.near_dependencies import near_misses, suspects
from holdstrue.discovery.dependencies.ranking import Dependency, body_of, judged, profiles
from holdstrue.discovery.dependencies.validation import Partitions, Validator
from holdstrue.discovery.found import Died, NearMiss, RuleTurnover
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.shares import allowed
from holdstrue.discovery.work import Work
from holdstrue.index.numbering import Snapshot, nested, unnested
from holdstrue.kernels.partitions import GATHERED, OFFENDING, SUPPORT, SURPLUS
from holdstrue.rules.model import Body
from holdstrue.typing import I64, U64


class ApproximateCore:
    """All minimal keys and FDs within an error.

    Examples
    --------
    >>> table = pa.table({"zip": [1, 1, 1, 1, 2, 2, 2], "city": ["A", "A", "A", "B", "C", "C", "C"]})
    >>> core = ApproximateCore.load(table, DiscoveryOptions(kinds=("fd",), error=0.15, measure="rows"))
    >>> [(rule.body.lhs, rule.body.rhs, round(rule.error, 3)) for rule in core.rules()]
    [(('zip',), ('city',), 0.143), (('city',), ('zip',), 0.0)]
    """

    def __init__(self, schema: pa.Schema, options: DiscoveryOptions) -> None:
        self.options, self._schema = options, schema
        self.codes = Codes(schema, options.nulls, options.seed)
        self.names = self.codes.names
        many = len(self.names)
        self._targets = [many] * ("key" in options.kinds) + list(range(many)) * ("fd" in options.kinds)
        self._longest = many if options.max_lhs is None else min(many, options.max_lhs)
        self._work = Work(threads=options.threads)
        self._lines: U64 = np.empty((0, many // 64 + 1), dtype=np.uint64)
        self._of: I64 = np.empty(0, dtype=np.int64)
        self._counts: I64 = np.empty((0, 4), dtype=np.int64)
        self.complete = False

    @classmethod
    def load(cls, table: pa.Table, options: DiscoveryOptions, work: Work | None = None) -> ApproximateCore:
        """Find all minimal keys and FDs within `options.error`; at the deadline it ends with what was found."""
        core = cls(table.schema, options)
        work = work or core._work
        core.codes.append(core.codes.encode(table, work))
        work.tell(0.1, "columns coded")
        core._find(work)
        return core

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return int(np.count_nonzero(self.codes.alive[: self.codes.used]))

    def _find(self, work: Work) -> None:
        error, rows = self.options.error, self.rows
        limits = np.array([NO_LIMIT, NO_LIMIT], dtype=np.int64)
        if self.options.measure == "pairs":
            limits[OFFENDING] = allowed(error, rows * (rows - 1) // 2)
        else:
            limits[SURPLUS] = allowed(error, rows)
        validator = self._validator(work)
        found, self.complete = within(validator, len(self.names), self._targets, limits, self._longest)
        found = [one for one in found if one.target < len(self.names) or one.line.any()]
        self._lines = np.array([one.line for one in found], dtype=np.uint64).reshape(-1, len(self.names) // 64 + 1)
        self._of = np.array([one.target for one in found], dtype=np.int64)
        self._counts = np.array([one.counts for one in found], dtype=np.int64).reshape(-1, 4)

    def _validator(self, work: Work) -> Validator:
        return Validator(Partitions(self.codes), work)

    def _body(self, target: int, line: U64) -> Body:
        return body_of(target, line, self.names)

    def apply(self, removed: I64, added: pa.Table, work: Work | None = None) -> RuleTurnover:
        """Take rows out by slot, add others; what became of the rules. Complexity: that of the search."""
        work = work or self._work
        before = {
            body: (int(target), line) for body, target, line in zip(self.bodies(), self._of, self._lines, strict=True)
        }
        codes, places = self.codes.encode(added, work), self.codes.places(removed)
        self.codes.remove(places)
        self.codes.compact()
        self.codes.append(codes)
        self._find(work)
        after = self.bodies()
        gone = [body for body in before if body not in set(after)]
        died = tuple(Died(body, self._witness(*before[body])) for body in gone)
        return RuleTurnover(died, tuple(body for body in after if body not in before))

    def _witness(self, target: int, line: U64) -> tuple[int, ...]:
        """Slots of two rows that break a dependency which breaks too often now; none where a shorter one took over."""
        shorter = self._lines[self._of == target]
        if ((shorter & ~line) == 0).all(axis=1).any():
            return ()
        column = None if target == len(self.names) else self.codes.matrix[target]
        pairs = suspects(column, *self._validator(self._work).rows_of(line))
        return tuple(sorted(int(self.codes.slots[place]) for place in pairs[0])) if pairs else ()

    def bodies(self) -> tuple[Body, ...]:
        """The minimal keys and FDs within the error."""
        return tuple(self._body(int(target), line) for target, line in zip(self._of, self._lines, strict=True))

    def rules(self) -> tuple[Dependency, ...]:
        """The minimal keys and FDs with their measures, the best first."""
        rows = self.rows
        extents = self._counts[:, (SUPPORT, GATHERED)]
        found = judged(
            self._lines,
            self._of,
            self._body,
            extents,
            profiles(self.codes, self._schema),
            rows,
            self.codes.known_rows,
            nulls_equal=False,
        )
        share = rows * (rows - 1) / 2 if self.options.measure == "pairs" else rows
        place = OFFENDING if self.options.measure == "pairs" else SURPLUS
        errors = {
            body: int(count[place]) / share if share else 0.0
            for body, count in zip(self.bodies(), self._counts, strict=True)
        }
        # transitivity and keys carry over exact rules only
        return tuple(replace(rule, error=errors[rule.body], implied=False, implied_by_key=False) for rule in found)

    def near_misses(
        self, most: int, work: Work | None = None, *, max_lhs: int = 2
    ) -> tuple[tuple[NearMiss, ...], bool]:
        """As `DependencyCore.near_misses`."""
        columns, validator = profiles(self.codes, self._schema), self._validator(work or self._work)
        return near_misses(self.codes, validator, self._targets, self._body, columns, most, max_lhs)

    def size_bytes(self) -> int:
        """Memory held."""
        return self.codes.size_bytes() + self._lines.nbytes + self._of.nbytes + self._counts.nbytes

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        found: Snapshot = {"lines": self._lines, "targets": self._of, "counts": self._counts}
        return nested("codes", self.codes.snapshot()) | found | {"complete": np.array([self.complete])}

    @classmethod
    def restore(cls, schema: pa.Schema, options: DiscoveryOptions, arrays: Snapshot) -> ApproximateCore:
        """A core as it was left (the arrays will be written to)."""
        core = cls(schema, options)
        core.codes.restore(unnested("codes", arrays))
        core._lines, core._of = np.ascontiguousarray(arrays["lines"]), arrays["targets"]
        core._counts, core.complete = arrays["counts"], bool(arrays["complete"][0])
        return core
