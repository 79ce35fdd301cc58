"""Left sides tested on the data: partitions of rows, shared by all left sides with a common beginning."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdstrue.discovery.dependencies.codes import Codes, Spread
from holdstrue.kernels import partitions
from holdstrue.kernels.partitions import NEXT, PAIRS

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
Mask = NDArray[np.bool_]

BUDGET = 20_000_000
"""Rows looked at between two looks at the clock, some tenths of a second. Chosen, not tuned."""

MOST_PAIRS = 100
"""Pairs taken from a left side that fails, for each target. Chosen, not tuned."""

PIECE = 64
"""Left sides that one thread takes at a time, at least. Chosen, not tuned."""


@dataclass(frozen=True)
class Tested:
    """Which targets failed, as bits, and pairs of rows that show it; `done` tells which left sides were tested."""

    broken: U64
    pairs: I32
    done: Mask


class Partitions:
    """The partitions of a table by each of its columns, made when they are first needed.

    `fresh` is the position of the first new row: with it above zero only groups with new rows are kept.

    Memory: up to 6 bytes a value, while a batch is worked on.
    """

    def __init__(self, codes: Codes, fresh: int = 0) -> None:
        self.codes, self.fresh = codes, fresh
        self.members = codes.members()
        many = len(codes.names)
        self.matrix = codes.matrix
        self._made: dict[int, tuple[I32, I32]] = {}
        self.weights = np.zeros(many, dtype=np.int64)
        self.order: I32 | None = None
        self.most_codes = max((codes.distinct(c) for c in range(many)), default=0)

    def of(self, column: int) -> tuple[I32, I32]:
        """Rows and starts of one column's partition. Complexity: O(rows), once."""
        if column not in self._made:
            rows = np.empty(self.members.size, dtype=np.int32)
            starts = np.empty(self.members.size // 2 + 2, dtype=np.int32)
            if column == len(self.codes.names):
                rows[:] = self.members
                groups = int(rows.size > 1 and rows[-1] >= self.fresh)
                starts[0], starts[groups] = 0, rows.size if groups else 0
            else:
                groups = partitions.group(
                    self.matrix[column], self.members, self.codes.distinct(column), self.fresh, rows, starts
                )
            self._made[column] = rows[: starts[groups]].copy(), starts[: groups + 1].copy()
        return self._made[column]

    def ranked(self, spread: Spread[int, object]) -> I32:
        """Columns by how few rows they leave together, the most selective first."""
        if self.order is None:
            many = range(len(self.codes.names))
            spread(self.of, many)
            for column in many:
                starts = self.of(column)[1].astype(np.float64)
                self.weights[column] = int(np.square(np.diff(starts)).sum())
            self.order = np.argsort(self.weights, kind="stable").astype(np.int32)
        return self.order

    def joined(self) -> tuple[I32, I32, I64]:
        """All partitions made so far, one behind the other, and the place of each."""
        many = len(self.codes.names) + 1
        places = np.zeros((many, 3), dtype=np.int64)
        rows: list[I32] = []
        starts: list[I32] = []
        for column, (some_rows, some_starts) in self._made.items():
            places[column] = (sum(r.size for r in rows), sum(s.size for s in starts), some_starts.size - 1)
            rows.append(some_rows)
            starts.append(some_starts)
        return np.concatenate(rows), np.concatenate(starts), places


class Validator:
    """Tests left sides on one image of the table, in threads."""

    def __init__(self, partitions_: Partitions, spread: Spread[int, object], threads: int) -> None:
        self._parts, self._spread, self._threads = partitions_, spread, threads
        order = partitions_.ranked(spread)
        partitions_.of(len(partitions_.codes.names))
        self._order = order
        self._rows, self._starts, self._roots = partitions_.joined()
        self._widest = int(max((starts[-1] for _, starts in partitions_._made.values()), default=0))

    def test(self, sets: U64, wanted: U64, deadline: float | None) -> Tested:
        """Test every set against its wanted targets; stops at the deadline with some sets undone."""
        if sets.shape[0] == 0 or self._order.size == 0:
            # without columns there are no rows
            return Tested(np.zeros_like(wanted), np.empty((0, 2), dtype=np.int32), np.ones(sets.shape[0], np.bool_))
        columns, ordered = self._as_paths(sets)
        wanted = np.ascontiguousarray(wanted[ordered])
        broken = np.zeros_like(wanted)
        count = sets.shape[0]
        pieces = max(1, min(4 * self._threads, count // PIECE)) if self._threads > 1 else 1
        bounds = np.linspace(0, count, pieces + 1).astype(np.int64)
        done = np.zeros(count, dtype=np.bool_)
        found: list[I32] = []

        def one(piece: int) -> None:
            start, end = bounds[piece], bounds[piece + 1]
            reached, pairs = self._walk(columns[start:end], wanted[start:end], broken[start:end], deadline)
            done[start : start + reached] = True
            found.append(pairs)

        self._spread(one, range(pieces))
        back = np.empty(count, dtype=np.int64)
        back[ordered] = np.arange(count)
        return Tested(broken[back], np.concatenate(found), done[back])

    def _as_paths(self, sets: U64) -> tuple[I32, I64]:
        """Each set as its columns in the order of rank, filled up with -1; and the order in which they are tested."""
        many = self._order.size
        bits = np.unpackbits(np.ascontiguousarray(sets).view(np.uint8), axis=1, bitorder="little")[:, :many]
        ranked = bits[:, self._order].astype(np.bool_)
        longest = max(1, int(ranked.sum(axis=1).max()))
        ranks = np.argsort(~ranked, axis=1, kind="stable")[:, :longest].astype(np.int32)
        ranks[~np.take_along_axis(ranked, ranks.astype(np.int64), axis=1)] = -1
        ordered = np.lexsort(ranks.T[::-1])
        ranks = ranks[ordered]
        paths = np.where(ranks >= 0, self._order[ranks], -1).astype(np.int32) if many else ranks
        return np.ascontiguousarray(paths), ordered

    def _walk(self, columns: I32, wanted: U64, broken: U64, deadline: float | None) -> tuple[int, I32]:
        longest = columns.shape[1]
        walk = np.zeros(3, dtype=np.int64)
        path = np.full(longest, -1, dtype=np.int32)
        levels = np.zeros((longest + 1, 3), dtype=np.int64)
        # room for every level at the size of the widest partition; pages that are never written cost nothing
        stack_rows = np.empty(longest * self._widest, dtype=np.int32)
        stack_starts = np.empty(longest * (self._widest // 2 + 2), dtype=np.int32)
        scratch = np.zeros((3, self._parts.most_codes + 1), dtype=np.int32)
        targets = wanted.shape[1] * 64
        pairs = np.empty((max(4096, MOST_PAIRS * targets), 2), dtype=np.int32)
        found = []
        while walk[NEXT] < columns.shape[0]:
            walk[PAIRS] = 0
            partitions.validate(
                self._parts.matrix, self._parts.fresh, self._rows, self._starts, self._roots, columns, wanted,
                walk, path, levels, stack_rows, stack_starts, scratch, broken, pairs, MOST_PAIRS, BUDGET,
            )  # fmt: skip
            found.append(pairs[: walk[PAIRS]].copy())
            if deadline is not None and time.monotonic() > deadline:
                break
        return int(walk[NEXT]), np.concatenate(found)
