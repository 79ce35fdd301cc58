"""Minimal keys and FDs of a data frame, exact and within an error; only samples, counts and candidates are held here.

The search is that of one process (HyFD, Papenbrock and Naumann 2016): evidence of sampled pairs narrows left sides
down, what the sample cannot refute is tested on all rows in one job, and two rows of each group that fails join the
sample. A left side that contains a key needs no test.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from holdstrue.discovery.bitsets import members, set_of
from holdstrue.discovery.dependencies.agree_sets import AgreeSets
from holdstrue.discovery.dependencies.left_sides import LeftSides
from holdstrue.discovery.dependencies.limited_search import NO_LIMIT, Weighed, within
from holdstrue.discovery.dependencies.ranking import Dependency, Profile, body_of, judged, quality_of
from holdstrue.discovery.dependencies.search import Extents, LeftSideSearch, sample
from holdstrue.discovery.dependencies.validation import Partitions, Tested, Validator
from holdstrue.discovery.options import DiscoveryOptions, allowed
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.errors import StateError
from holdstrue.kernels import antichains
from holdstrue.kernels.partitions import GATHERED, OFFENDING, SUPPORT, SURPLUS
from holdstrue.rules.model import Body
from holdstrue.spark.discovering.lane_table import LaneTable
from holdstrue.spark.discovering.left_side_jobs import SideQuestion, breaking_rows, known_rows, test, weigh
from holdstrue.typing import I32, I64, U64, Mask

CASES = 64
"""Dependencies that one job counts: every row is written so many times. Chosen, not tuned."""


_STILL = "read the data frame from files that do not change"


class FrameDependencies:
    """All minimal keys and FDs of a data frame, or those within an error."""

    def __init__(self, table: LaneTable, options: DiscoveryOptions, work: Work) -> None:
        self.options = options
        self.table = table
        self.names = table.names
        many = len(self.names)
        self._targets = [many] * ("key" in options.kinds) + list(range(many)) * ("fd" in options.kinds)
        self._longest = many if options.max_lhs is None else min(many, options.max_lhs)
        self._words = many // 64 + 1
        self.complete = False
        self.rows = table.rows
        self._columns = profiles_of(table)
        self._lines: U64 = np.empty((0, self._words), dtype=np.uint64)
        self._of: I64 = np.empty(0, dtype=np.int64)
        self._extents: I64 = np.empty((0, 2), dtype=np.int64)
        self._errors: list[float] = []
        self._known: dict[tuple[int, ...], int] = {}
        self.jobs = 0
        if table.profiled:
            try:
                self._find(work)
            except OutOfTimeError:
                self.complete = False

    @property
    def length(self) -> int | None:
        """Up to which length all rules were found, as far as is known; None: all there are."""
        return None if self.complete else 0

    def _find(self, work: Work) -> None:
        if not self.table.members.size:
            self.table.sample(work)
        work.tell(0.1, "rows sampled")
        (self._approximate if self.options.error else self._exact)(work.part(0.1, 0.9))
        shown = (self._of < len(self.names)) | self._lines.any(axis=1)
        self._lines, self._of, self._extents = self._lines[shown], self._of[shown], self._extents[shown]
        self._errors = [error for error, is_shown in zip(self._errors, shown, strict=True) if is_shown]
        self._count_known()

    # --- rules without exception -----------------------------------------------------------------

    def _exact(self, work: Work) -> None:
        covers = [LeftSides(target, len(self.names)) for target in self._targets]
        tester = SideTester(self.table, work)
        evidence, codes = AgreeSets(len(self.names)), self.table.codes
        search = LeftSideSearch(codes, evidence, covers, Extents(), self._longest, tester=tester.test)
        parts = Partitions(codes, members=self.table.members)
        parts.ranked(work)
        sample(codes, parts, evidence, work)
        search.take(evidence.known(), work)
        try:
            self.complete = search.deepen(parts, parts, work)
        except OutOfTimeError:
            self.complete = False
        self._lines = np.concatenate([cover.holding() for cover in covers] or [self._lines])
        self._of = np.concatenate([np.full(len(c.holding()), c.target, dtype=np.int64) for c in covers] or [self._of])
        self._extents = np.array([tester.extent(line) for line in self._lines], dtype=np.int64).reshape(-1, 2)
        self._errors = [0.0] * len(self._of)
        self.jobs = tester.jobs

    # --- rules within an error -------------------------------------------------------------------

    def _approximate(self, work: Work) -> None:
        rows, by_pairs = self.rows, self.options.measure == "pairs"
        limits = np.array([NO_LIMIT, NO_LIMIT], dtype=np.int64)
        share = rows * (rows - 1) // 2 if by_pairs else rows
        place = OFFENDING if by_pairs else SURPLUS
        limits[place] = allowed(self.options.error, share)
        weigher = SideWeigher(self.table, work)
        found: list[Weighed]
        found, self.complete = within(weigher, len(self.names), self._targets, limits, self._longest)
        self._lines = np.array([one.line for one in found], dtype=np.uint64).reshape(-1, self._words)
        self._of = np.array([one.target for one in found], dtype=np.int64)
        counts = np.array([one.counts for one in found], dtype=np.int64).reshape(-1, 4)
        self._extents = counts[:, (SUPPORT, GATHERED)]
        self._errors = [int(count[place]) / share if share else 0.0 for count in counts]
        self.jobs = weigher.jobs

    # --- what was found --------------------------------------------------------------------------

    def _count_known(self) -> None:
        """Rows in which the columns of keys are known, where some of them are not; whatever the time."""
        keys = [tuple(members(line)) for line in self._lines[self._of == len(self.names)]]
        partly = [key for key in keys if any(self._columns[i].known < self.rows for i in key)]
        self._known = dict(zip(partly, known_rows(self.table, partly, Work()), strict=True))

    def _body(self, target: int, line: U64) -> Body:
        return body_of(target, line, self.names)

    def bodies(self) -> tuple[Body, ...]:
        """The minimal keys and FDs."""
        return tuple(self._body(int(target), line) for target, line in zip(self._of, self._lines, strict=True))

    def rules(self) -> tuple[Dependency, ...]:
        """The minimal keys and FDs with their measures, the best first."""
        exactly = not self.options.error
        equal = self.options.nulls == "equal" and exactly
        found = judged(
            self._lines, self._of, self._body, self._extents, self._columns, self.rows,
            lambda columns: self._known.get(tuple(columns), 0), nulls_equal=equal,
        )  # fmt: skip
        if exactly:
            return found
        errors = dict(zip(self.bodies(), self._errors, strict=True))
        # transitivity and keys carry over exact rules only
        return tuple(replace(rule, error=errors[rule.body], implied=False, implied_by_key=False) for rule in found)

    def size_bytes(self) -> int:
        """Memory held on the driver."""
        return self.table.codes.size_bytes() + self._lines.nbytes + self._of.nbytes + self._extents.nbytes


def profiles_of(table: LaneTable) -> list[Profile]:
    """What ranking has to know of columns."""
    return [
        Profile(f.name, quality_of(f), p.distinct, p.known, p.commonest / p.known if p.known else 1.0)
        for f, p in zip(map(table.schema.field, table.names), table.profiled, strict=False)
    ]


class SideTester:
    """Tests left sides: on the sample, by keys that are known, and on Spark what these do not decide."""

    def __init__(self, table: LaneTable, work: Work) -> None:
        self._table, self._work = table, work
        self._words = len(table.names) // 64 + 1
        self._here: Validator | None = None
        self._keys: U64 = np.empty((0, self._words), dtype=np.uint64)
        """Left sides of which all groups are single rows."""
        self._extents: dict[bytes, tuple[int, int]] = {}
        self.jobs = 0
        for number, one in enumerate(table.profiled):
            self._note(set_of([number], self._words), one.support, one.groups)
        self._note(set_of([], self._words), table.rows if table.rows > 1 else 0, int(table.rows > 1))

    def _note(self, line: U64, support: int, groups: int) -> None:
        self._extents[line.tobytes()] = support, groups
        if not groups:
            self._keys = np.concatenate([self._keys, line.reshape(1, -1)])

    def extent(self, line: U64) -> tuple[int, int]:
        """Rows and groups of a left side that holds."""
        return self._extents.get(line.tobytes(), (0, 0))

    def test(self, sets: U64, wanted: U64) -> Tested:
        """As `Validator.test`; what fails on the sample is told first, and the rest is then left undone."""
        if self._here is None:
            self._here = Validator(Partitions(self._table.codes, members=self._table.members), self._work)
        found = self._here.test(sets, wanted)
        if self._table.all_here:
            for place in np.flatnonzero(found.done):
                self._note(sets[place], *found.extent[place].tolist())
            return found
        if found.broken.any() or not found.done.all():
            # what the sample does not refute is as yet untold, also of the left sides of which some targets failed
            return replace(found, done=np.zeros_like(found.done))
        keyed = np.zeros(sets.shape[0], dtype=np.bool_)
        antichains.contained(np.ascontiguousarray(sets), self._keys, keyed)
        broken, done = np.zeros_like(wanted), keyed.copy()
        pairs: I32 = np.empty((0, 2), dtype=np.int32)
        left = np.flatnonzero(~keyed)
        if left.size:
            asked = [SideQuestion(tuple(members(sets[i])), tuple(members(wanted[i]))) for i in left]
            try:
                pairs = self._on_spark(asked, left, sets, broken)
                done[left] = True
            except OutOfTimeError:
                broken[:] = 0
        return Tested(broken, pairs, done, np.zeros((sets.shape[0], 2), dtype=np.int64))

    def _on_spark(self, asked: list[SideQuestion], places: I64, sets: U64, broken: U64) -> I32:
        answers = test(self._table, asked, self._work)
        self.jobs += 1
        for place, answer in zip(places, answers, strict=True):
            self._note(sets[place], answer.support, answer.groups)
            broken[place] = set_of(answer.broken, self._words)
        if not broken.any():
            return np.empty((0, 2), dtype=np.int32)
        self.jobs += 1
        shown, *rows = breaking_rows(self._table, asked, answers, self._work)
        one, other = (self._table.take(lanes) for lanes in rows)
        matrix = self._table.codes.matrix
        for (side, target), t, s in zip(shown, one, other, strict=True):
            left = list(asked[side].columns)
            agree = (matrix[left, t] == matrix[left, s]).all() and (matrix[left, t] >= 0).all()
            if not agree or (target < len(matrix) and matrix[target, t] == matrix[target, s]):
                # two such rows refute nothing: they would be found again, for ever
                raise StateError("rows that break a rule on Spark do not break it here", hint=_STILL)
        if not shown:
            raise StateError("rows that break a rule on Spark were not found again", hint=_STILL)
        return np.ascontiguousarray(np.stack([one, other], axis=1))


class SideWeigher:
    """Counts what breaks dependencies on Spark, behind the verbs of a `Validator`."""

    def __init__(self, table: LaneTable, work: Work) -> None:
        self._table, self.work = table, work
        self.order: I32 = np.argsort([-one.distinct for one in table.profiled], kind="stable").astype(np.int32)
        """Columns, the most selective first."""
        self.jobs = 0

    def weigh(self, sets: U64, targets: I64, limits: I64) -> tuple[I64, Mask]:
        """Counts, and which were counted in time."""
        if self._table.all_here:
            return self._here().weigh(sets, targets, limits)
        counts, done = np.zeros((len(sets), 4), dtype=np.int64), np.zeros(len(sets), dtype=np.bool_)
        for start in range(0, len(sets), CASES):
            part = slice(start, start + CASES)
            try:
                columns = [tuple(members(line)) for line in sets[part]]
                counts[part] = weigh(self._table, columns, targets[part].tolist(), self.work)
            except OutOfTimeError:
                break
            self.jobs += 1
            done[part] = True
        return counts, done

    def scout(self, rows: int) -> Validator | None:
        """A validator of the sample: nothing is broken there more often than in all rows."""
        return None if self._table.all_here else self._here()

    def _here(self) -> Validator:
        return Validator(Partitions(self._table.codes, members=self._table.members), self.work)
