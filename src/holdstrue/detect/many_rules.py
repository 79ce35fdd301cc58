"""The keys and FDs of a table given a batch together: two compiled calls instead of some calls a rule.

Rules with one right-hand column, or none, take part; others are given the batch one by one (`GroupDetector.apply`),
which leaves the same counters behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from holdstrue.detect.costs import Counting
from holdstrue.detect.detector import Batch, NewRows, Outcome
from holdstrue.detect.frame import FrameLines
from holdstrue.detect.group import NOTHING, GroupDetector
from holdstrue.index.arrays import FIRST_PART
from holdstrue.index.grouping import Grouping
from holdstrue.index.one_probe import address
from holdstrue.kernels import many_rules as kernels
from holdstrue.kernels import one_row
from holdstrue.plan.filter import holds
from holdstrue.typing import I32, I64, U64

MOST_HITS = 1 << 16
"""Rows with conflicts, over all rules, that the kernel lists. Chosen, not tuned."""


class GroupProgram:
    """Takes batches into the groupings of a table and the counters of its keys and FDs.

    Parameters
    ----------
    groupings
        With the columns of either side, and whether NULLs are equal.
    detectors
        Those that take part, with their numbers.
    """

    def __init__(
        self,
        groupings: Sequence[tuple[tuple[str, ...], tuple[str, ...], bool, Grouping]],
        detectors: Sequence[tuple[int, GroupDetector]],
        keys: U64,
    ) -> None:
        self._groupings, self._detectors, self._keys = groupings, detectors, keys
        names = [name for lefts, rights, _, _ in groupings for name in (*lefts, *rights)]
        names += [detector.check.rhs[0] for _, detector in detectors if detector.check.rhs]
        self._names = tuple(dict.fromkeys(names))
        place = {name: at for at, name in enumerate(self._names)}
        listed: list[int] = []
        self._sides: list[tuple[int, ...]] = []
        for lefts, rights, _, _ in groupings:
            first = len(listed)
            listed += [place[name] for name in (*lefts, *rights)]
            self._sides.append((first, len(lefts), first + len(lefts), len(rights)))
        lines = {id(grouping): at for at, (_, _, _, grouping) in enumerate(groupings)}
        self._rights: list[tuple[int, int, int, int]] = []
        for _, detector in detectors:
            self._rights.append((lines[id(detector.grouping)], detector.shape, len(listed), len(detector.check.rhs)))
            listed += [place[name] for name in detector.check.rhs]
        self._columns: I32 = np.array(listed, dtype=np.int32)
        self._members = [at for at, (_, detector) in enumerate(detectors) if detector.check.member is not None]
        lines_in_all = len(groupings) + len(detectors)
        self._held = [FrameLines() for _ in range(lines_in_all)]
        self._frame: I64 = np.zeros((lines_in_all, one_row.WIDTH), dtype=np.int64)
        self._short: I64 = np.zeros(lines_in_all, dtype=np.int64)
        self._fresh = np.zeros(lines_in_all)
        """By line which share of the last rows brought a key that was new."""
        self._lanes: I64 = np.zeros((len(self._names), 3), dtype=np.int64)
        self._out: I64 = np.zeros((max(len(detectors), 1), 4), dtype=np.int64)
        self._hits: I32 = np.empty(MOST_HITS, dtype=np.int32)
        self.stale = True
        """Whether arrays may lie elsewhere than the frame says."""

    @staticmethod
    def takes(detector: GroupDetector) -> bool:
        """Whether a detector can take part."""
        check = detector.check
        return len(check.rhs) <= 1 and all(asked is None for asked in check.asked)

    def check(self) -> None:
        """Raise unless the frame that the kernels would be given says where all arrays lie: for tests."""
        known = self._frame.copy()
        if not self.stale:
            self._lay_out(range(known.shape[0]))
            if not np.array_equal(self._frame, known):
                raise AssertionError("arrays were replaced, and GroupProgram.stale does not say so")

    def _lay_out(self, lines: Iterable[int]) -> None:
        """Write some lines of the frame: where the arrays of those structures lie now."""
        for at in lines:
            held = FrameLines()
            number = at - len(self._groupings)
            if number < 0:
                _, _, nulls_equal, grouping = self._groupings[at]
                line = held.grouping(grouping, self._sides[at], nulls_equal=nulls_equal)
            else:
                line = held.counters(self._detectors[number][1], self._rights[number])
            self._frame[at, : len(line)] = line
            self._held[at] = held

    def _make_room(self, end: int, more: int, left: int = 0) -> None:
        """Make room for so many more rows, up to slot `end`, where some lack it; `left` are those that follow.

        What has to grow gets room for as many of those as its keys let expect: a batch that changes all rows of a table
        mostly brings keys that are known.
        """
        found = kernels.short_of_room(self._frame, len(self._groupings), end, more, self._short)
        lines = self._short[:found].tolist()
        for at in lines:
            number = at - len(self._groupings)
            owner = self._groupings[at][3] if number < 0 else self._detectors[number][1]
            owner.reserve(end, more + (int(left * self._fresh[at]) if left else 0))
        self._lay_out(lines)
        # a key of all rows reads the groups of its grouping
        changed = set(lines)
        self._lay_out(
            len(self._groupings) + number
            for number, (grouping, shape, _, _) in enumerate(self._rights)
            if grouping in changed and shape == one_row.ALIASED
        )

    def _in_parts(self, rows: int, end: int) -> Iterator[tuple[int, int]]:
        """Parts of so many rows, for each of which there is room when it is given."""
        if rows <= FIRST_PART:
            self._make_room(end, rows)
            yield 0, rows
            return
        known = self._known()
        self._fresh[:] = 0
        for start in range(0, rows, FIRST_PART):
            stop = min(start + FIRST_PART, rows)
            self._make_room(end, stop - start, rows - stop)
            yield start, stop
            now = self._known()
            self._fresh, known = (now - known) / (stop - start), now

    def _known(self) -> I64:
        """By line how many groups, or groups and kinds, there are."""
        known = [len(grouping) for _, _, _, grouping in self._groupings]
        known += [max(len(detector.grouping), len(detector.counters.numbers)) for _, detector in self._detectors]
        return np.array(known, dtype=np.int64)

    def group(self, incoming: NewRows, first: int, rows: int) -> None:
        """Give new rows, from slot `first` on, their groups. Complexity: O(rows and groupings)."""
        if self.stale:
            self._lay_out(range(self._frame.shape[0]))
            self.stale = False
        self._read(incoming)
        width = len(self._groupings)
        for start, stop in self._in_parts(rows, first + rows):
            kernels.group_rows(self._frame, width, self._columns, self._lanes, self._keys, first, start, stop)

    def _read(self, incoming: NewRows) -> None:
        """Write where the digests of the columns lie."""
        self._coded: list[Any] = []
        for at, name in enumerate(self._names):
            coded = incoming.coded(name)
            lower = np.ascontiguousarray(coded.codes if coded.lower is None else coded.lower)
            upper = lower if coded.upper is None else np.ascontiguousarray(coded.upper)
            self._coded += [lower, upper]
            self._lanes[at, kernels.LOWER] = place = address(lower)
            self._lanes[at, kernels.UPPER] = place if upper is lower else address(upper)
            self._lanes[at, kernels.VALID] = 0
            if coded.valid is not None:
                valid = np.ascontiguousarray(coded.valid)
                self._coded.append(valid)
                self._lanes[at, kernels.VALID] = address(valid)

    def count(self, batch: Batch, limit: int) -> dict[int, Outcome]:
        """Count old rows out of every check and new ones in, which have their groups; what that did, by check.

        Complexity: O(rows and checks), and the pairs listed.
        """
        if not self._detectors:
            return {}
        new = batch.new.size
        members = np.zeros(len(self._detectors), dtype=np.int64)
        masks = []
        for at in self._members:
            condition = self._detectors[at][1].check.member
            if condition is not None and new:
                masks.append(np.ascontiguousarray(holds(condition, batch.incoming.column, new)))
                members[at] = address(masks[-1])
        width, first = len(self._groupings), batch.first_new
        lanes = (self._columns, self._lanes, members, first)
        for start, stop in self._in_parts(new, first + new) if new > FIRST_PART else ():
            kernels.place_rows(self._frame, width, *lanes, start, stop)
        kernels.count_rows(
            self._frame,
            width,
            *lanes,
            new,
            batch.old,
            batch.old_twin,
            batch.rows.alive,
            batch.leaves_few,
            new > FIRST_PART,
            self._hits,
            self._out,
        )
        self._coded = []
        counting = Counting(batch.old.size, new, batch.staying)
        outcomes, start = {}, 0
        for (at, detector), (added, removed, kept, end) in zip(self._detectors, self._out.tolist(), strict=True):
            detector.estimate = counting
            outcomes[at] = NOTHING
            if added or removed:
                # where there were more than are listed, any row may have had conflicts
                hits = self._hits[start:end] if end <= MOST_HITS else None
                outcomes[at] = detector.counted(batch, added, removed, kept, hits, limit)
            start = end
        return outcomes
