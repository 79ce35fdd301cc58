"""Minimal keys and FDs of a data frame, exact and within an error; only samples, counts and candidates are held here.

The search is that of one process (HyFD, Papenbrock and Naumann 2016): evidence of sampled pairs narrows left sides
down, what the sample cannot refute is tested on all rows in one job, and two rows of each group that fails join the
sample. A left side that contains a key needs no test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from holdstrue.discovery.bitsets import members, set_of
from holdstrue.discovery.dependencies.agree_sets import AgreeSets
from holdstrue.discovery.dependencies.left_sides import LeftSides
from holdstrue.discovery.dependencies.limited_search import NO_LIMIT, Weighed, within
from holdstrue.discovery.dependencies.ranking import Dependency, Profile, body_of, columns_of, judged, quality_of
from holdstrue.discovery.dependencies.search import Extents, LeftSideSearch, sample
from holdstrue.discovery.dependencies.validation import Partitions, Tested, Validator
from holdstrue.discovery.found import Died, RuleTurnover
from holdstrue.discovery.options import DiscoveryOptions, allowed
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.errors import StateError
from holdstrue.kernels import antichains
from holdstrue.kernels.partitions import GATHERED, OFFENDING, SUPPORT, SURPLUS
from holdstrue.rules.model import Body
from holdstrue.spark.discovering.frame_batches import FrameBatch
from holdstrue.spark.discovering.kept_lanes import follow
from holdstrue.spark.discovering.lane_table import NOTHING, LaneTable
from holdstrue.spark.discovering.left_side_jobs import (
    SCOUTED,
    SideAnswer,
    SideQuestion,
    SideShift,
    breaking_rows,
    known_rows,
)
from holdstrue.spark.discovering.side_jobs import SideFound, looked_at, rows_that_break, weigh
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
        self._search: LeftSideSearch | None = None
        self._tester: SideTester | None = None
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
        self._only_shown()

    def _only_shown(self) -> None:
        shown = (self._of < len(self.names)) | self._lines.any(axis=1)
        self._lines, self._of, self._extents = self._lines[shown], self._of[shown], self._extents[shown]
        self._errors = [error for error, is_shown in zip(self._errors, shown, strict=True) if is_shown]
        self._count_known()

    # --- rules without exception -----------------------------------------------------------------

    def _exact(self, work: Work) -> None:
        covers = [LeftSides(target, len(self.names)) for target in self._targets]
        tester = self._tester = SideTester(self.table, work)
        evidence, codes = AgreeSets(len(self.names)), self.table.codes
        search = LeftSideSearch(codes, evidence, covers, Extents(), self._longest, tester=tester.test)
        self._search = search
        parts = Partitions(codes, members=self.table.members)
        parts.ranked(work)
        sample(codes, parts, evidence, work)
        search.take(evidence.known(), work)
        self._deepen(search, tester, work)

    def _deepen(self, search: LeftSideSearch, tester: SideTester, work: Work) -> None:
        covers, parts = search.covers, Partitions(self.table.codes, members=self.table.members)
        try:
            self.complete = search.deepen(parts, parts, work)
        except OutOfTimeError:
            self.complete = False
        self._lines = np.concatenate([cover.holding() for cover in covers] or [self._lines])
        self._of = np.concatenate([np.full(len(c.holding()), c.target, dtype=np.int64) for c in covers] or [self._of])
        self._extents = np.array([tester.extent(line) for line in self._lines], dtype=np.int64).reshape(-1, 2)
        self._errors = [0.0] * len(self._of)
        self.jobs = tester.jobs

    # --- kept current ----------------------------------------------------------------------------

    @property
    def kept(self) -> bool:
        """Whether a batch is followed by the groups that it touches; else the search starts over."""
        return self._search is not None and self.complete

    def apply(self, batch: FrameBatch, work: Work) -> RuleTurnover:
        """Follow a batch: what holds is tested in the groups it touches, what is mended where witnesses went.

        As DynFD (Schirmer et al. 2019) in one process: new rows only break dependencies, in groups that they are in;
        rows that go only mend them, where the pair that showed the contrary lost a row. Complexity: one scan for every
        `SIDES` left sides that hold, and what a search costs for those that do not any more.
        """
        search, table, before = self._search, self.table, self.bodies()
        assert search is not None and self._tester is not None
        search.resume()
        held: dict[bytes, set[int]] = {}
        for cover in search.covers:
            for line in cover.holding():
                held.setdefault(line.tobytes(), set()).add(cover.target)
        lines = [np.frombuffer(name, dtype=np.uint64) for name in held]
        asked = [
            SideQuestion(tuple(members(line)), tuple(sorted(held[line.tobytes()])) if batch.come else ())
            for line in lines
        ]
        extents = [self._tester.extent(line) for line in lines]
        # counting ends, and a batch that is half counted would be no version of the table
        followed = follow(table, table.runner, batch, asked, Work())
        lost = search.agree_sets.remove(followed.gone)
        moved = table.forget(followed.gone)
        if moved is not None:
            search.agree_sets.move(moved)
        tester = self._tester = SideTester(table, work)
        search.tester = tester.test
        for line, (rows, groups), one, shift in zip(lines, extents, asked, followed.shifts, strict=True):
            tester.follow(line, rows + shift.support, groups + shift.groups, one, shift)
        if batch.come:
            for cover in search.covers:
                cover.age()
        self.rows, self._columns = table.rows, profiles_of(table)
        self._mend(search, lost, tester, work)
        self._deepen(search, tester, work)
        self._only_shown()
        search.agree_sets.compact()
        are = frozenset(self.bodies())
        died = tuple(Died(body, self._witness(body)) for body in before if body not in are)
        return RuleTurnover(died, tuple(body for body in self.bodies() if body not in before))

    def _mend(self, search: LeftSideSearch, lost: I64, tester: SideTester, work: Work) -> None:
        """Look for other pairs where those are gone that showed a dependency not to hold; renew covers without."""
        evidence = search.agree_sets
        targets = set_of((cover.target for cover in search.covers), evidence.words)
        while lost.size:
            wanted = evidence.uncovered(lost) & targets
            asked = np.flatnonzero(wanted.any(axis=1))
            if not asked.size:
                return
            tested = tester.test(evidence.agree[lost[asked]], wanted[asked])
            search.take(evidence.add(self.table.codes.matrix, tested.pairs), work)
            if not tested.broken.any():
                # all that is left holds; or time is over, and it is open
                mended = np.bitwise_or.reduce(wanted[asked], axis=0)
                search.renew(
                    [c for c in search.covers if mended[c.target >> 6] & np.uint64(1 << (c.target & 63))], work
                )
                return

    def _witness(self, body: Body) -> tuple[int, ...]:
        """Places of two rows that break a dependency; none where a shorter one holds."""
        assert self._search is not None
        left, right = columns_of(body)
        target = len(self.names) if right is None else self.names.index(right)
        line, evidence = set_of(map(self.names.index, left), self._words), self._search.agree_sets
        numbers = evidence.against(evidence.known(), target)
        breaking = numbers[((evidence.agree[numbers] & line) == line).all(axis=1)]
        return tuple(evidence.witness[breaking[0]].tolist()) if breaking.size else ()

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
        self._followed: dict[bytes, tuple[SideQuestion, SideShift]] = {}
        self._passed: dict[tuple[int, ...], set[int]] = {}
        """By left side targets that a part of its groups does not break."""
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

    def follow(self, line: U64, rows: int, groups: int, asked: SideQuestion, shift: SideShift) -> None:
        """A left side held before a batch, has this extent now, and was looked at in the groups that changed."""
        self._note(line, rows, groups)
        self._followed[line.tobytes()] = asked, shift

    def _touched(self, sets: U64, wanted: U64) -> Tested:
        """What is known of left sides that held before the batch; those of others are told as not done."""
        broken, done = np.zeros_like(wanted), np.zeros(sets.shape[0], dtype=np.bool_)
        asked, shifts = [], []
        for place, line in enumerate(sets):
            question, shift = self._followed.get(line.tobytes(), (None, None))
            if question is None or shift is None or not {*members(wanted[place])} <= {*question.targets}:
                continue
            done[place] = True
            own = {target: shift.broken[target] for target in members(wanted[place]) if target in shift.broken}
            broken[place] = set_of(own, self._words)
            asked.append(question)
            shifts.append(SideAnswer(broken=own))
        pairs = self._shown(asked, shifts) if broken.any() else np.empty((0, 2), dtype=np.int32)
        return Tested(broken, pairs, done, _no_extents(sets))

    def test(self, sets: U64, wanted: U64, stale: bool = False) -> Tested:
        """As `Validator.test`; what fails on the sample is told first, and the rest is then left undone."""
        if stale:
            touched = self._touched(sets, wanted)
            if touched.done.any():
                # the others of this round come again
                return touched
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
                answers = self._tried(asked)
                if not any(one.pairs.size for one in answers):
                    answers = looked_at(self._table, asked, self._work)
                    self.jobs += 1
                    for place, one in zip(left, answers, strict=True):
                        self._note(sets[place], one.profile.support, one.profile.groups)
                        done[place] = not one.pairs.size
                pairs = self._broken(asked, answers, left, broken)
            except OutOfTimeError:
                broken[:] = 0
        return Tested(broken, pairs, done, _no_extents(sets))

    def _tried(self, asked: list[SideQuestion]) -> list[SideFound]:
        """What one part of their groups breaks, of left sides that were not tried before.

        Few rows refute much: what they leave is asked of all rows in a later round.
        """
        part = self._table.rows // SCOUTED
        found = [SideFound(NOTHING, np.empty((0, 2), dtype=np.int64)) for _ in asked]
        fresh = [at for at, one in enumerate(asked) if not {*one.targets} <= self._passed.get(one.columns, set())]
        if part < 2 or not fresh:
            return found
        for at, one in zip(fresh, looked_at(self._table, [asked[at] for at in fresh], self._work, part), strict=True):
            found[at] = one
            if not one.pairs.size:
                self._passed.setdefault(asked[at].columns, set()).update(asked[at].targets)
        self.jobs += 1
        return found

    def _broken(self, asked: list[SideQuestion], found: list[SideFound], places: I64, broken: U64) -> I32:
        """Pairs of rows that break left sides, in the sample from now on, and which targets they break."""
        if not any(one.pairs.size for one in found):
            return np.empty((0, 2), dtype=np.int32)
        self.jobs += 1
        sides, one, other = rows_that_break(self._table, found, self._work)
        matrix, many = self._table.codes.matrix, len(self._table.names)
        for side, t, s in zip(sides, one.tolist(), other.tolist(), strict=True):
            left = list(asked[side].columns)
            agree = t >= 0 and s >= 0 and (matrix[left, t] == matrix[left, s]).all() and (matrix[left, t] >= 0).all()
            own = {
                target for target in asked[side].targets
                if target == many or (matrix[target, t] != matrix[target, s] and min(matrix[target, [t, s]]) >= 0)
            }  # fmt: skip
            if not agree or not own:
                # two such rows refute nothing: they would be found again, for ever
                raise StateError("rows that break a rule on Spark do not break it here", hint=_STILL)
            broken[places[side]] |= set_of(own, self._words)
        return np.ascontiguousarray(np.stack([one, other], axis=1))

    def _shown(self, asked: list[SideQuestion], answers: Sequence[SideAnswer]) -> I32:
        """Pairs of rows that break what was found to be broken, in the sample from now on."""
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


def _no_extents(sets: U64) -> I64:
    """Extents are told by the tester."""
    return np.zeros((sets.shape[0], 2), dtype=np.int64)


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
