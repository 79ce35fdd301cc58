"""Dependencies that hold where some columns have certain values, and not on the whole table: minimal patterns.

A pattern has constants in some columns of its left side and any value in the others (Fan et al., Discovering
conditional functional dependencies, 2011). It says more than another with the same target if it has a part of its
constants and columns, where constants may become any value. Told is what holds while nothing that says more does.

Left sides go by length, constants and others together. The groups of a left side are weighed once for each target, and
their sums by the values that columns have are what all patterns with this left side say: many conditions cost as much
as one. Dependencies without any constant are patterns like others, so that nothing below them is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from holdstrue.discovery.bitsets import set_of
from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.conditions import NumberedConditions
from holdstrue.discovery.dependencies.validation import Partitions
from holdstrue.discovery.options import DiscoveryOptions, allowed, exact
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.kernels import partitions
from holdstrue.kernels import patterns as kernels
from holdstrue.kernels.patterns import BROKEN, SPEAKING
from holdstrue.typing import I32, I64, U64, Mask

Columns = tuple[int, ...]

MOST_CONSTANTS = 10
"""Constants of a pattern: so many columns of 64 values make a number of 62 bits (`NumberedConditions`)."""

TOGETHER = 1 << 24
"""Groups times targets that are weighed at a time: 200 MB."""


@dataclass(frozen=True)
class Conditional:
    """`target` depends on the columns of `line` among the rows whose `columns` have the codes `values`.

    Of `rows` that have the values `support` have a partner and a known target, in `groups`; `surplus` must go for it to
    hold. If it were broken as often as with one constant less, `expected` rows would have to go. `commonest` is the
    code that most rows have in the target, where the left side has constants alone.
    """

    columns: Columns
    values: tuple[int, ...]
    line: U64
    target: int
    rows: int
    surplus: int
    support: int
    groups: int
    commonest: int
    expected: float


def conditional(
    codes: Codes, constants: Mapping[int, Sequence[int]], options: DiscoveryOptions, work: Work
) -> tuple[list[Conditional], int | None]:
    """All minimal patterns whose conditions name these codes of columns; and, where time ended, up to which length.

    Complexity: O(rows + groups x 2^length) for each left side and target of which no part is known to hold.
    """
    search = PatternSearch(codes, constants, options, work)
    longest = min(options.max_conditional_lhs, len(codes.names))
    try:
        for length in range(longest + 1):
            reached = length - 1
            search.level(length, last=length == longest)
    except OutOfTimeError:
        return search.found, max(0, reached)
    return search.found, MOST_CONSTANTS if longest > MOST_CONSTANTS else None


class PatternSearch:
    """Goes over left sides by their length and tells which patterns are minimal.

    Memory: 10 bytes a row for each column on the left, and 24 bytes a frequent condition and target.
    """

    def __init__(
        self, codes: Codes, constants: Mapping[int, Sequence[int]], options: DiscoveryOptions, work: Work
    ) -> None:
        self._codes, self._work = codes, work
        self._support = max(2, options.support)
        self._exceptions = 1 - exact(options.confidence)
        self._parts = Partitions(codes)
        self._conditions = NumberedConditions(codes, self._parts.members, constants, self._support)
        self._scratch = np.zeros((3, self._parts.most_codes + 1), dtype=np.int32)
        self._everywhere: list[list[frozenset[int]]] = [[] for _ in codes.names]
        """By target left sides that hold without any constant."""
        self._held: dict[tuple[Columns, Columns, int], Mask] = {}
        """Which conditions make a minimal pattern, by left side, columns with constants and target."""
        self.found: list[Conditional] = []

    def level(self, length: int, *, last: bool) -> None:
        """All left sides of so many columns; OutOfTimeError at the deadline."""
        self._work.tell(0.0, f"patterns of {length} columns on the left")
        for left, rows, starts in self._partitioned(length):
            self._work.require_time()
            if not last or any(column in self._conditions for column in left):
                self._look(left, rows, starts)

    def _partitioned(self, length: int) -> Iterator[tuple[Columns, I32, I32]]:
        """Left sides with their partitions; those with a common beginning share what they can."""
        many = len(self._codes.names)
        if length == 0:
            yield (), *self._parts.of(many)
            return

        def finer(left: Columns, rows: I32, starts: I32) -> Iterator[tuple[Columns, I32, I32]]:
            if len(left) == length:
                yield left, rows, starts
                return
            for column in range(left[-1] + 1, many - (length - len(left)) + 1):
                out = np.empty(rows.size, dtype=np.int32), np.empty(rows.size // 2 + 2, dtype=np.int32)
                made = partitions.split(self._codes.matrix[column], rows, starts, self._scratch, *out)
                yield from finer((*left, column), out[0][: out[1][made]], out[1][: made + 1])

        for column in range(many - length + 1):
            yield from finer((column,), *self._parts.of(column))

    def _look(self, left: Columns, rows: I32, starts: I32) -> None:
        whole = frozenset(left)
        asked = [
            target
            for target in range(len(self._codes.names))
            if target not in whole and not any(part <= whole for part in self._everywhere[target])
        ]
        step = max(1, TOGETHER // max(1, starts.size))
        for start in range(0, len(asked), step):
            self._weigh(left, np.array(asked[start : start + step], dtype=np.int64), rows, starts)

    def _weigh(self, left: Columns, targets: I64, rows: I32, starts: I32) -> None:
        groups = starts.size - 1
        surplus, known, commonest = (np.empty((targets.size, groups), dtype=np.int32) for _ in range(3))
        kernels.weigh_groups(self._codes.matrix, targets, rows, starts, self._scratch, surplus, known, commonest)
        broken = surplus.sum(axis=1, dtype=np.int64)
        most = allowed(self._exceptions, self._parts.members.size)
        for target in targets[broken <= most].tolist():
            self._everywhere[target].append(frozenset(left))
        open_ = np.flatnonzero(broken > most)
        if not open_.size:
            return
        targets, surplus, known = targets[open_], surplus[open_], known[open_]
        speaking = np.where(known > 1, known, 0).sum(axis=1, dtype=np.int64)
        sums: dict[Columns, I64] = {
            (): np.stack([broken[open_], speaking, (known > 1).sum(axis=1)], axis=1)[:, None, :]
        }
        heads = rows[starts[:-1]]
        usable = [column for column in left if column in self._conditions]
        for size in range(1, len(usable) + 1):
            for fixed in combinations(usable, size):
                under = self._conditions.of(fixed, heads)
                sums[fixed] = np.zeros((targets.size, self._conditions.rows(fixed).size, 3), dtype=np.int64)
                kernels.sum_by_condition(under, surplus, known, sums[fixed])
                best = np.full(sums[fixed].shape[:2], -1, dtype=np.int32)
                if fixed == left:
                    # each condition is one group of its columns
                    best[:, under[under >= 0]] = commonest[open_][:, under >= 0]
                self._judge(left, fixed, targets, sums, best)

    def _judge(self, left: Columns, fixed: Columns, targets: I64, sums: Mapping[Columns, I64], best: I32) -> None:
        """Tell the conditions under which a target depends on the left side, and nothing that says more holds."""
        most, own = self._conditions.allowed(fixed, self._exceptions), sums[fixed]
        good = (own[:, :, BROKEN] <= most) & (own[:, :, SPEAKING] >= self._support)
        for at in np.flatnonzero(good.any(axis=1)).tolist():
            target, holds = int(targets[at]), good[at]
            for parts in more_general(left, fixed):
                if (known := self._held.get((*parts, target))) is not None:
                    holds = holds & ~known[self._conditions.seen_from(fixed, parts[1])]
            if not holds.any():
                continue
            self._held[left, fixed, target] = holds
            mine = {columns: one[at] for columns, one in sums.items()}
            for place in np.flatnonzero(holds).tolist():
                self.found.append(self._told(left, fixed, target, place, mine, int(best[at, place])))

    def _told(
        self, left: Columns, fixed: Columns, target: int, place: int, sums: Mapping[Columns, I64], best: int
    ) -> Conditional:
        others = set_of((column for column in left if column not in fixed), len(self._codes.names) // 64 + 1)
        rows, (surplus, support, groups) = int(self._conditions.rows(fixed)[place]), sums[fixed][place].tolist()
        expected = min(self._expected(fixed, place, sums, support))
        values = self._conditions.values(fixed, place)
        return Conditional(fixed, values, others, target, rows, surplus, support, groups, best, expected)

    def _expected(self, fixed: Columns, place: int, sums: Mapping[Columns, I64], support: int) -> Iterator[float]:
        """Rows that would have to go if one of the constants did not matter, for each of them."""
        for gone in fixed:
            rest = tuple(column for column in fixed if column != gone)
            at = int(self._conditions.seen_from(fixed, rest)[place]) if rest else 0
            broken, speaking, _ = sums[rest][at].tolist()
            yield support / max(1, speaking) * broken


def more_general(left: Columns, fixed: Columns) -> Iterator[tuple[Columns, Columns]]:
    """Left sides, and their columns with constants (at least one), of patterns that say more."""
    for size in range(1, len(left) + 1):
        for part in combinations(left, size):
            usable = [column for column in fixed if column in part]
            for count in range(1, len(usable) + 1):
                for some in combinations(usable, count):
                    if (part, some) != (left, fixed):
                        yield part, some
