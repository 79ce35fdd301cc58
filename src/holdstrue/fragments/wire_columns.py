"""Columns of numbers as few bytes: what a message carries, without loss.

Ids that repeat are written once and numbered by as few bits as it takes; rows that follow each other are a range, many
rows of a stretch a bitmap; conditions of CFDs that hold for the same rows are one mask. Every part is written in the
form that is smallest, with a byte that says which.

>>> rows = np.arange(5, 1005, dtype=np.uint32)
>>> ids = (np.repeat(np.arange(4, dtype=np.uint64), 250), np.zeros(1000, np.uint64))
>>> body = write_rows(rows) + write_pairs(*ids) + write_masks(np.ones((3, 1000), dtype=bool))
>>> len(body)  # 1000 rows, their ids (four different ones) and what three CFDs say of them
332
>>> reader = ColumnReader(body, 1000)
>>> (reader.rows() == rows).all(), (reader.pairs()[0] == ids[0]).all(), len(reader.masks())
(np.True_, np.True_, 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdstrue.index.arrays import Numbering, all_true
from holdstrue.kernels.bit_packing import pack_bits, unpack_bits
from holdstrue.typing import I32, U8, U64, Mask

PLAIN, RANGE, BITMAP, NUMBERED = 0, 1, 2, 3


def _head(form: int, *sizes: int) -> bytes:
    return bytes([form]) + np.array(sizes, dtype="<u4").tobytes()


def write_rows(rows: NDArray[Any]) -> bytes:
    """Row numbers, ascending. Complexity: O(rows + their range / 8)."""
    if not rows.size:
        return _head(PLAIN)
    first, last = int(rows[0]), int(rows[-1])
    span = last - first + 1
    if span == rows.size:
        return _head(RANGE, first)
    if span // 8 + 9 < 4 * rows.size:
        there = np.zeros(span, dtype=np.bool_)
        there[rows - first] = True
        return _head(BITMAP, first, span) + np.packbits(there, bitorder="little").tobytes()
    return _head(PLAIN) + rows.astype("<u4").tobytes()


def _numbered(at: I32, distinct: int) -> bytes:
    """Numbers below `distinct` in as few bits as they take."""
    width = max(distinct - 1, 0).bit_length()
    packed = np.zeros((width * at.size + 7) // 8, dtype=np.uint8)
    pack_bits(at, width, packed)
    return packed.tobytes()


def _pays(distinct: int, count: int, size: int) -> bool:
    """Whether values of so many bytes are shorter when each is written once and numbered."""
    width = max(distinct - 1, 0).bit_length()
    return size * distinct + (width * count + 7) // 8 + 5 < size * count


def write_pairs(hi: U64, lo: U64, *, repeats: bool = True) -> bytes:
    """Ids of two words, which may repeat. Complexity: O(ids) expected."""
    numbers = Numbering()
    at = numbers.assign(hi, lo, all_true(hi.size)) if repeats else np.empty(0, dtype=np.int32)
    if repeats and _pays(len(numbers), hi.size, 16):
        upper, lower = numbers.keys()
        words = upper.astype("<u8").tobytes() + lower.astype("<u8").tobytes()
        return _head(NUMBERED, len(numbers)) + words + _numbered(at, len(numbers))
    return _head(PLAIN) + hi.astype("<u8").tobytes() + lo.astype("<u8").tobytes()


def write_words(words: U64) -> bytes:
    """Single words, and how many. Complexity: O(words) expected."""
    numbers = Numbering()
    at = numbers.assign(np.zeros(words.size, dtype=np.uint64), words, all_true(words.size))
    if _pays(len(numbers), words.size, 8):
        return (
            _head(NUMBERED, words.size, len(numbers))
            + numbers.keys()[1].astype("<u8").tobytes()
            + _numbered(at, len(numbers))
        )
    return _head(PLAIN, words.size) + words.astype("<u8").tobytes()


def write_masks(masks: Sequence[Mask]) -> bytes:
    """By CFD which of the rows are for it: masks that are equal are written once, full ones not at all."""
    kept = [*masks]  # so that no two of them can have had the same place in memory
    size = kept[0].size if kept else 0
    known: dict[bytes, int] = {np.packbits(np.ones(size, dtype=np.bool_), bitorder="little").tobytes(): 0}
    same: dict[int, int] = {}
    at = []
    for mask in kept:
        # CFDs that ask the same of rows often share one array
        if id(mask) not in same:
            same[id(mask)] = known.setdefault(np.packbits(mask, bitorder="little").tobytes(), len(known))
        at.append(same[id(mask)])
    wide = "<u2" if len(known) > 255 else "u1"
    head = _head(NUMBERED if wide == "u1" else PLAIN, len(at))
    return head + np.array(at, dtype=wide).tobytes() + b"".join([*known][1:])


def write_codes(codes: U8) -> bytes:
    """Small numbers by CFD and row, bit by bit; CFDs of which the same is said are written once."""
    known: dict[bytes, int] = {}
    # at once, as a line of what is by row would be gathered byte by byte
    lines, width = np.ascontiguousarray(codes).tobytes(), codes.shape[1]
    at = [known.setdefault(lines[i * width : (i + 1) * width], len(known)) for i in range(codes.shape[0])]
    distinct = np.frombuffer(b"".join(known), dtype=np.uint8).reshape(len(known), codes.shape[1])
    bits = int(distinct.max(initial=0)).bit_length()
    planes = distinct[:, None, :] >> np.arange(bits, dtype=np.uint8)[None, :, None] & 1
    wide = "<u2" if len(known) > 255 else "u1"
    head = _head(NUMBERED if wide == "u1" else PLAIN, len(at), len(known), bits)
    return head + np.array(at, dtype=wide).tobytes() + np.packbits(planes, axis=-1, bitorder="little").tobytes()


class ColumnReader:
    """Reads a body of so many entries back, part by part in the order in which they were written."""

    def __init__(self, body: bytes, entries: int) -> None:
        self._body, self._entries, self._at = body, entries, 0

    def _take(self, code: str, count: int) -> NDArray[Any]:
        found = np.frombuffer(self._body, dtype=code, count=count, offset=self._at)
        self._at += found.nbytes
        return found

    def _packed(self, bits: int) -> Mask:
        bytes_ = self._take("u1", (bits + 7) // 8)
        return np.unpackbits(bytes_, count=bits, bitorder="little").view(np.bool_)

    def plain(self, code: str) -> NDArray[Any]:
        """Numbers as they are."""
        return self._take(code, self._entries).copy()

    def rows(self) -> NDArray[np.uint32]:
        """Row numbers."""
        [form] = self._take("u1", 1)
        if form == PLAIN:
            return self._take("<u4", self._entries).astype(np.uint32)
        if form == RANGE:
            [first] = self._take("<u4", 1)
            return np.arange(first, int(first) + self._entries, dtype=np.uint32)
        first, span = self._take("<u4", 2)
        return (np.flatnonzero(self._packed(int(span))) + int(first)).astype(np.uint32)

    def pairs(self) -> tuple[U64, U64]:
        """Ids."""
        [form] = self._take("u1", 1)
        if form == PLAIN:
            hi, lo = (self._take("<u8", self._entries).astype(np.uint64) for _ in range(2))
            return hi, lo
        distinct = int(self._take("<u4", 1)[0])
        hi, lo = (self._take("<u8", distinct).astype(np.uint64) for _ in range(2))
        at = self._numbers(self._entries, distinct)
        return hi[at], lo[at]

    def _numbers(self, count: int, distinct: int) -> I32:
        width = max(distinct - 1, 0).bit_length()
        found = np.empty(count, dtype=np.int32)
        unpack_bits(self._take("u1", (width * count + 7) // 8).copy(), width, found)
        return found

    def words(self) -> U64:
        """Single words, as many as there are."""
        [form] = self._take("u1", 1)
        count = int(self._take("<u4", 1)[0])
        if form == PLAIN:
            return self._take("<u8", count).astype(np.uint64)
        distinct = int(self._take("<u4", 1)[0])
        known: U64 = self._take("<u8", distinct).astype(np.uint64)
        return known[self._numbers(count, distinct)]

    def masks(self) -> list[Mask]:
        """By CFD which rows are for it; equal ones are one array."""
        [form] = self._take("u1", 1)
        count = int(self._take("<u4", 1)[0])
        at = self._take("u1" if form == NUMBERED else "<u2", count)
        known = [np.ones(self._entries, dtype=np.bool_)]
        known += [self._packed(self._entries) for _ in range(int(at.max(initial=0)))]
        return [known[i] for i in at]

    def codes(self) -> U8:
        """Small numbers by CFD and row."""
        [form] = self._take("u1", 1)
        count, distinct, bits = (int(size) for size in self._take("<u4", 3))
        at = self._take("u1" if form == NUMBERED else "<u2", count)
        width = (self._entries + 7) // 8
        packed = self._take("u1", distinct * bits * width).reshape(distinct, bits, width)
        planes = np.unpackbits(packed, axis=-1, count=self._entries, bitorder="little")
        weights = (1 << np.arange(bits, dtype=np.uint8)).astype(np.uint8)
        known: U8 = (planes * weights[None, :, None]).sum(axis=1, dtype=np.uint8)
        return known[at]
