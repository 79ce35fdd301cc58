"""Which conditions could still make a dependency hold: those that enough rows satisfy and that no pair of rows refutes.

A job over all rows is asked only about left sides of which some condition is left. What refutes comes from the sample,
and from a part of the groups of all rows (`pattern_sides.scouted`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import prod

import numpy as np

from holdstrue.discovery.bitsets import set_of
from holdstrue.discovery.dependencies.patterns import Columns
from holdstrue.discovery.dependencies.validation import Partitions, Validator
from holdstrue.discovery.work import Work
from holdstrue.kernels import patterns as kernels
from holdstrue.spark.discovering.condition_stages import OpenRows
from holdstrue.spark.discovering.lane_table import LaneTable
from holdstrue.typing import I32, I64, Mask

MOST_OPEN = 1 << 13
"""Conditions on the same columns of which tasks are told one by one whether they are open. Chosen, not tuned."""


class FrequentConditions:
    """The conditions that enough rows satisfy, by their columns as ascending numbers.

    They are given as lines of the places of their values, whose first is a number's lowest digit.

    >>> frequent = FrequentConditions({3: 2, 5: 4}, {(3, 5): np.array([(0, 0), (1, 2)])})
    >>> frequent.numbers((3, 5), [np.array([1, 0, -1]), np.array([2, 3, 0])]).tolist(), frequent.many((3, 5))
    ([1, -1, -1], 2)
    """

    def __init__(self, sizes: Mapping[int, int], found: Mapping[Columns, I64]) -> None:
        self._sizes = dict(sizes)
        """By column how many values conditions may name."""
        self._known: dict[Columns, I64] = {}
        for fixed, places in found.items():
            self._known[fixed] = np.sort(self._keys(fixed, list(places.T)))

    def __contains__(self, fixed: Columns) -> bool:
        return fixed in self._known

    def size(self, column: int) -> int:
        """How many values conditions may name in a column, at most."""
        return self._sizes[column]

    def many(self, fixed: Columns) -> int:
        """How many conditions name these columns."""
        return int(self._known[fixed].size)

    def numbers(self, fixed: Columns, places: Sequence[I64]) -> I64:
        """The number, from 0, of the conditions with these values; -1 where it is not frequent. O(n log m)."""
        known, keys = self._known[fixed], self._keys(fixed, places)
        if not known.size:
            return np.full(keys.size, -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(known, keys), known.size - 1)
        found: I64 = np.where(known[at] == keys, at, -1)
        return found

    def values(self, fixed: Columns) -> list[I64]:
        """By column the places of the values of all conditions with these columns, in the order of their numbers."""
        keys, found = self._known[fixed], []
        for column in fixed:
            found.append(keys % self._sizes[column])
            keys = keys // self._sizes[column]
        return found

    def _keys(self, fixed: Columns, places: Sequence[I64]) -> I64:
        keys = np.zeros(len(places[0]), dtype=np.int64)
        lacks = np.zeros(keys.size, dtype=np.bool_)
        step = 1
        for column, own in zip(fixed, places, strict=True):
            keys += own * step
            lacks |= own < 0
            step *= self._sizes[column]
        keys[lacks] = -1
        return keys


class Refutations:
    """Which left sides, targets and conditions some rows refute.

    Memory: a bit of eight for each frequent condition, left side and target that are looked at.
    """

    def __init__(self, table: LaneTable, frequent: FrequentConditions, places: Mapping[int, I32]) -> None:
        self._table, self._frequent = table, frequent
        self._places = places
        """By column the place that each code of the sample has among the values of conditions; -1 for others."""
        self._validator: Validator | None = None
        self._broken: set[tuple[Columns, int]] = set()
        self._refuted: dict[tuple[Columns, int, Columns], Mask] = {}

    def forget(self) -> None:
        """Left sides that were looked at are of no use any more."""
        self._broken.clear()
        self._refuted.clear()

    def conditions(self, left: Columns) -> Iterator[Columns]:
        """Sets of columns of a left side that conditions may name."""
        usable = [column for column in left if column in self._places]
        for size in range(1, len(usable) + 1):
            yield from combinations(usable, size)

    def sift(self, left: Columns, targets: Sequence[int]) -> None:
        """Look for pairs of the sample that agree on a left side. Complexity: O(sample x targets)."""
        if not targets:
            return
        codes = self._table.codes
        if self._validator is None:
            self._validator = Validator(Partitions(codes, members=self._table.members), Work(threads=1))
        rows, starts = self._validator.rows_of(set_of(left, len(codes.names) // 64 + 1))
        asked = np.array(targets, dtype=np.int64)
        surplus, known, commonest = (np.empty((asked.size, starts.size - 1), dtype=np.int32) for _ in range(3))
        most = max(len(numbering) for numbering in codes.numberings) + 1
        scratch = np.zeros((3, most), dtype=np.int32)
        kernels.weigh_groups(codes.matrix, asked, rows, starts, scratch, surplus, known, commonest)
        heads = rows[starts[:-1]]
        values = {c: self._places[c][codes.matrix[c][heads]].astype(np.int64) for c in left if c in self._places}
        for fixed in self.conditions(left):
            places = [values[column] for column in fixed]
            for at, target in enumerate(targets):
                broken = surplus[at] > 0
                self.note(left, target, fixed, [own[broken] for own in places])
        self._broken |= {(left, target) for at, target in enumerate(targets) if surplus[at].any()}

    def note(self, left: Columns, target: int, fixed: Columns, places: Sequence[I64]) -> None:
        """Rows break a dependency under the conditions with these values; without any column: somewhere."""
        if not fixed or places[0].size:
            self._broken.add((left, target))
        if not fixed or fixed not in self._frequent:
            return
        numbers = self._frequent.numbers(fixed, places)
        seen = self._refuted.setdefault((left, target, fixed), np.zeros(self._frequent.many(fixed), dtype=np.bool_))
        seen[numbers[numbers >= 0]] = True

    def imply(self, left: Columns, target: int, fixed: Columns, parts: Columns, held: set[tuple[int, ...]]) -> None:
        """Nobody asks under conditions that name the values of one that holds, in these columns of theirs."""
        if fixed not in self._frequent or not held or not self._frequent.many(fixed):
            return
        values = self._frequent.values(fixed)
        lines = np.stack([values[fixed.index(column)] for column in parts], axis=1)
        found = np.array([tuple(line) in held for line in lines.tolist()], dtype=np.bool_)
        seen = self._refuted.setdefault((left, target, fixed), np.zeros(found.size, dtype=np.bool_))
        seen |= found

    def is_open(self, left: Columns, target: int, fixed: Columns, values: tuple[int, ...]) -> bool:
        """Whether a dependency may hold under a condition; of one that too few rows satisfy nobody knows."""
        if fixed not in self._frequent:
            return True
        [number] = self._frequent.numbers(fixed, [np.array([one], dtype=np.int64) for one in values]).tolist()
        seen = self._refuted.get((left, target, fixed))
        return number >= 0 and not (seen is not None and seen[number])

    def is_broken(self, left: Columns, target: int) -> bool:
        """Whether some rows break a dependency where nothing is asked of them."""
        return (left, target) in self._broken

    def open_rows(self, left: Columns, targets: Sequence[int]) -> OpenRows | None:
        """Which rows matter for a left side and targets: those that some open condition selects; None for all."""
        everywhere = sum(1 << at for at, target in enumerate(targets) if not self.is_broken(left, target))
        tables = []
        for fixed in self.conditions(left):
            sizes = [self._frequent.size(column) for column in fixed]
            if fixed not in self._frequent or prod(sizes) > MOST_OPEN:
                return None
            table = np.zeros(prod(sizes), dtype=np.int64)
            values = self._frequent.values(fixed)
            cells = np.zeros(self._frequent.many(fixed), dtype=np.int64)
            for own, size in zip(reversed(values), reversed(sizes), strict=True):
                cells = cells * size + own
            for at, target in enumerate(targets):
                seen = self._refuted.get((left, target, fixed))
                table[cells if seen is None else cells[~seen]] |= 1 << at
            if table.any():
                tables.append((tuple(left.index(column) for column in fixed), tuple(sizes), table))
        return OpenRows(everywhere, tuple(tables))

    def open(self, left: Columns, target: int) -> bool:
        """Whether a dependency may hold, everywhere or under some condition."""
        if (left, target) not in self._broken:
            return True
        for fixed in self.conditions(left):
            if fixed not in self._frequent:
                return True
            if self._frequent.many(fixed) and not self._refuted[left, target, fixed].all():
                return True
        return False
