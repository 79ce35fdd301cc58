"""How outcomes of comparisons are packed for counting, and how packed words become sets of atoms.

A layout serves one tile: rows t against rows s, by ranks instead of codes. It packs each comparison in as
few bits as the rows at hand allow (equality needs a second bit only where a value is unknown), and both
directions of comparisons across columns, so that the word of (s, t) follows from that of (t, s). Words are
counted in growing tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from holdstrue.discovery.bitsets import members
from holdstrue.discovery.denials.space import ComparedColumns, Space
from holdstrue.index.arrays import room
from holdstrue.kernels import outcome_words as kernels
from holdstrue.kernels import word_table as words_kernels
from holdstrue.rules.model import Op
from holdstrue.typing import I64, U8, U64, Lanes, Mask

_NARROW = 1 << 16
"""Ranks below this go into 16-bit lanes, where counting `airport` takes two thirds of the time of 32-bit lanes."""

_MIRRORED = {Op.LE: Op.GE, Op.GE: Op.LE}


@dataclass(frozen=True)
class Slot:
    """Where a comparison lies in the words: positions of its bits, -1 where it needs none."""

    comparison: ComparedColumns
    first: int
    second: int
    known: int


class WordLayout:
    """The packing for rows whose ranks are below `distinct` and whose columns `nullable` hold unknown values."""

    def __init__(self, space: Space, nullable: Mask, distinct: int) -> None:
        self.space = space
        self._unsure = bool(nullable.any())
        self.narrow = distinct <= _NARROW
        self.lane = 16 if self.narrow else 32
        self.lowest = -(1 << 15) if self.narrow else 0
        places = {(c.left, c.right) for c in space.comparisons}
        mirrored = [
            ComparedColumns(c.right, c.left, c.ordered) for c in space.comparisons if (c.right, c.left) not in places
        ]
        self.slots: list[Slot] = []
        at = 0
        # equalities first: four of them are compared in one loop
        for comparison in sorted([*space.comparisons, *mirrored], key=lambda c: c.ordered):
            unsure = bool(nullable[comparison.left] or nullable[comparison.right])
            needed = 2 if comparison.ordered or unsure else 1
            if at % self.lane + needed > self.lane:
                at += self.lane - at % self.lane
            ordered = comparison.ordered
            self.slots.append(Slot(comparison, at, at + 1 if ordered else -1, at + 1 if unsure and not ordered else -1))
            at += needed
        self.groups = max(1, -(-at // self.lane))
        self.width = -(-self.groups * self.lane // 64)
        lane_type = np.uint16 if self.narrow else np.uint32
        self.plan = np.zeros((len(self.slots), 4), dtype=np.int64)
        self.bits = np.zeros((len(self.slots), 2), dtype=lane_type)
        self.base = np.zeros(self.groups, dtype=lane_type)
        for k, slot in enumerate(self.slots):
            c = slot.comparison
            self.plan[k] = (c.left, c.right, int(c.ordered), slot.first // self.lane)
            self.bits[k, 0] = 1 << (slot.first % self.lane)
            if slot.second >= 0:
                self.bits[k, 1] = 1 << (slot.second % self.lane)
            if slot.known >= 0:
                self.base[slot.known // self.lane] |= lane_type(1 << (slot.known % self.lane))
        self._slot_of = {(s.comparison.left, s.comparison.right): s for s in self.slots}

    def hopes(self, t: Lanes, s: Lanes, *, same: bool) -> U8:
        """By comparison and row t: 0 where it is an equality with a value that no (other) row s has.

        Complexity: O(rows) a comparison.
        """
        found = np.ones((len(self.slots), t.shape[1]), dtype=np.uint8)
        for k, slot in enumerate(self.slots):
            left, right = slot.comparison.left, slot.comparison.right
            if not slot.comparison.ordered and t.shape[1]:
                size = max(int(t[left].max()), int(s[right].max(initial=self.lowest))) - self.lowest + 1
                partners = np.bincount(s[right].astype(np.int64) - self.lowest, minlength=size)
                others = partners[t[left].astype(np.int64) - self.lowest]
                if same:
                    others = others - (t[left] == s[right])
                found[k] = others > 0
        return found

    def known_lanes(self, known: Mask) -> tuple[Lanes, Lanes]:
        """Masks of the bits that a row's known values allow, as t and as s; without columns if all are known."""
        if not self._unsure:
            none: Lanes = np.zeros((self.groups, 0), dtype=self.base.dtype)
            return none, none
        full = (1 << self.lane) - 1
        as_t: Lanes = np.full((self.groups, known.shape[1]), full, dtype=self.base.dtype)
        as_s = as_t.copy()
        for slot in self.slots:
            for lanes, column in ((as_t, slot.comparison.left), (as_s, slot.comparison.right)):
                missing = ~known[column]
                for bit in (slot.first, slot.second, slot.known):
                    if bit >= 0:
                        lanes[bit // self.lane, missing] &= self.base.dtype.type(full ^ (1 << (bit % self.lane)))
        return as_t, as_s

    def atoms(self, words: U64, *, mirrored: bool) -> U64:
        """Sets of atoms `out[i]` of packed words `words[i]`; `mirrored`: of the pairs the other way round."""
        out = np.zeros((words.shape[0], self.space.width), dtype=np.uint64)

        def bit(position: int) -> Mask:
            shifted: U64 = words[:, position // 64] >> np.uint64(position % 64)
            return (shifted & np.uint64(1)).astype(np.bool_)

        for number, (i, op) in enumerate(self.space.atoms):
            c = self.space.comparisons[i]
            slot = self._slot_of[(c.right, c.left) if mirrored else (c.left, c.right)]
            first = bit(slot.first)
            if c.ordered:
                second = bit(slot.second)
                wanted = _MIRRORED.get(op, op) if mirrored else op
                holds = first if wanted is Op.LE else second if wanted is Op.GE else first != second
            elif op is Op.EQ:
                holds = first
            else:
                holds = ~first if slot.known < 0 else bit(slot.known) & ~first
            out[:, number // 64] |= holds.astype(np.uint64) << np.uint64(number % 64)
        return out

    def conditions(self, mask: U64, *, mirrored: bool) -> tuple[U64, U64, U64]:
        """When a word contains a set of atoms: bits that matter, what they must be, and bits unlike their neighbour."""
        care, want, unlike = [0] * self.width, [0] * self.width, [0] * self.width

        def need(position: int, value: bool) -> None:
            care[position // 64] |= 1 << (position % 64)
            want[position // 64] |= int(value) << (position % 64)

        for atom in members(mask):
            i, op = self.space.atoms[atom]
            c = self.space.comparisons[i]
            slot = self._slot_of[(c.right, c.left) if mirrored else (c.left, c.right)]
            wanted = _MIRRORED.get(op, op) if mirrored else op
            if not c.ordered:
                need(slot.first, op is Op.EQ)
                if slot.known >= 0:
                    need(slot.known, True)
            elif wanted is Op.NE:
                unlike[slot.first // 64] |= 1 << (slot.first % 64)
            else:
                need(slot.first if wanted is Op.LE else slot.second, True)
        return np.array(care, dtype=np.uint64), np.array(want, dtype=np.uint64), np.array(unlike, dtype=np.uint64)


@dataclass(frozen=True)
class TileSide:
    """Rows of one side of a tile.

    Ranks by column and row; the lanes that known values allow as t and as s; which comparisons may hold for a row
    as t (by comparison and row; only set for the rows t of a tile); multiplicities, where rows stand
    for several that are equal (without entries each stands for itself), and then the slot of a second one. Rows t may
    have the ends of the rows s that each of them is compared with.
    """

    ranks: Lanes
    known: tuple[Lanes, Lanes]
    hopes: U8
    weights: I64
    slots: I64
    copies: I64
    beside: I64 = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))


_SMALLEST = 4096


class WordCounts:
    """Words, numbered in the order of their first appearance, each with a count and the pair that brought it.

    Memory: 8 bytes a word and entry, 24 bytes an entry (its count and the pair it came with first), 4 bytes a cell
    with at most three cells in four in use.

    Examples
    --------
    >>> tally = WordCounts(1)
    >>> words = np.array([[7], [9], [7]], dtype=np.uint64)
    >>> tally.add(words, np.array([1, 1, 5])).tolist()
    [0, 1, 0]
    >>> tally.words().tolist(), tally.counts().tolist()
    ([[7], [9]], [6, 1])
    """

    def __init__(self, width: int) -> None:
        self._cells = np.zeros(_SMALLEST, dtype=np.int32)
        self._keys = np.empty((_SMALLEST, width), dtype=np.uint64)
        self._counts = np.zeros(_SMALLEST, dtype=np.int64)
        self._first = np.zeros((_SMALLEST, 2), dtype=np.int64)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def words(self) -> U64:
        """The distinct words."""
        return self._keys[: self._used]

    def counts(self) -> I64:
        """How often each occurred."""
        return self._counts[: self._used]

    def first(self) -> I64:
        """The pair each came with first."""
        return self._first[: self._used]

    def add(self, words: U64, counts: I64, first: I64 | None = None) -> I64:
        """Count words (`words[i]` occurs `counts[i]` times more); returns their numbers.

        Runtime complexity: O(words) expected.
        """
        needed, size = self._used + words.shape[0], self._cells.size
        self._keys, self._counts = room(self._keys, needed), room(self._counts, needed)
        self._first = room(self._first, needed)
        while needed * 4 > size * 3:
            size *= 2
        if size > self._cells.size:
            self._cells = np.zeros(size, dtype=np.int32)
            words_kernels.reenter(self._cells, self._keys, self._used)
        before, numbers = self._used, np.empty(words.shape[0], dtype=np.int64)
        self._used = words_kernels.enter(self._cells, self._keys, before, np.ascontiguousarray(words.T), numbers)
        self._counts[before : self._used] = 0
        words_kernels.accumulate(self._counts, numbers, np.ascontiguousarray(counts))
        if first is not None:
            fresh = np.flatnonzero(numbers >= before)
            new, place = np.unique(numbers[fresh], return_index=True)
            self._first[new] = first[fresh[place]]
        return numbers

    def size_bytes(self) -> int:
        """Memory held."""
        return self._cells.nbytes + self._keys.nbytes + self._counts.nbytes + self._first.nbytes


class PairCounter:
    """Counts the words of tiles: a table of words with their counts beside them, for one thread.

    Memory: 24 bytes and 8 bytes a word for each row of a table that is at most half full.
    """

    def __init__(self, width: int) -> None:
        self._table = np.zeros((2 * _SMALLEST, width + 1), dtype=np.uint64)
        self._first = np.zeros((2 * _SMALLEST, 2), dtype=np.int64)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def count(self, layout: WordLayout, t: TileSide, s: TileSide, span: I64) -> None:
        """Count the pairs of a tile. Runtime complexity: as `kernels.outcome_words.count_pairs`."""
        state = np.array([self._used, span[0], span[2], 1], dtype=np.int64)
        while not kernels.count_pairs(
            t.ranks, s.ranks, layout.plan, layout.bits, layout.base, t.known[0], s.known[1], t.hopes,
            t.weights, s.weights, span, t.beside, self._table, self._first, state,
        ):  # fmt: skip
            larger = np.zeros((2 * self._table.shape[0], self._table.shape[1]), dtype=np.uint64)
            larger_first = np.zeros((larger.shape[0], 2), dtype=np.int64)
            kernels.regrow(self._table, self._first, larger, larger_first)
            self._table, self._first = larger, larger_first
        self._used = int(state[0])

    def into(self, tally: WordCounts) -> None:
        """Add all counts to a tally."""
        used = np.flatnonzero(self._table[:, -1])
        counts = self._table[used, -1].astype(np.int64)
        tally.add(np.ascontiguousarray(self._table[used, :-1]), counts, self._first[used])
