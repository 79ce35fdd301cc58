"""How outcomes of comparisons are packed for counting, and how packed words become sets of atoms.

A layout serves one tile: rows t against rows s, by ranks instead of codes. It packs each comparison in as
few bits as the rows at hand allow (equality needs a second bit only where a value is unknown), and both
directions of comparisons across columns, so that the word of (s, t) follows from that of (t, s).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdstrue.discovery.denials.space import ComparedColumns, Space
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

    def known_lanes(self, known: Mask, role: str) -> Lanes:
        """Masks of the bits that a row's known values allow, as t or as s; without columns if all of both sides are."""
        if not self._unsure:
            return np.zeros((self.groups, 0), dtype=self.base.dtype)
        full = (1 << self.lane) - 1
        lanes = np.full((self.groups, known.shape[1]), full, dtype=self.base.dtype)
        for slot in self.slots:
            column = slot.comparison.left if role == "t" else slot.comparison.right
            missing = ~known[column]
            for bit in (slot.first, slot.second, slot.known):
                if bit >= 0:
                    lanes[bit // self.lane, missing] &= self.base.dtype.type(full ^ (1 << (bit % self.lane)))
        return lanes

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

        for atom in self.space.members(mask):
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
    for several that are equal (without entries each stands for itself), and then the slot of a second one.
    """

    ranks: Lanes
    known: tuple[Lanes, Lanes]
    hopes: U8
    weights: I64
    slots: I64
    copies: I64

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.ranks.shape[1])
