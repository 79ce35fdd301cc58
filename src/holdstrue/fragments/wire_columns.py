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
>>> (reader.rows() == rows).all(), (reader.pairs()[0] == ids[0]).all(), reader.masks().shape
(np.True_, np.True_, (3, 1000))
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdstrue.index.arrays import Numbering, all_true
from holdstrue.typing import U64, Mask

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


def write_pairs(hi: U64, lo: U64) -> bytes:
    """Ids of two words. Complexity: O(ids) expected."""
    numbers = Numbering()
    at = numbers.assign(hi, lo, all_true(hi.size))
    distinct = len(numbers)
    width = max(distinct - 1, 0).bit_length()
    if 16 * distinct + (width * hi.size + 7) // 8 + 5 < 16 * hi.size:
        shifted = at[:, None] >> np.arange(width, dtype=np.int32) & 1
        packed = np.packbits(shifted.astype(np.bool_), axis=None, bitorder="little")
        upper, lower = numbers.keys()
        words = upper.astype("<u8").tobytes() + lower.astype("<u8").tobytes()
        return _head(NUMBERED, distinct) + words + packed.tobytes()
    return _head(PLAIN) + hi.astype("<u8").tobytes() + lo.astype("<u8").tobytes()


def write_masks(masks: Mask) -> bytes:
    """By CFD which of the rows are for it: masks that are equal are written once, full ones not at all."""
    known: dict[bytes, int] = {np.packbits(np.ones(masks.shape[1], dtype=np.bool_), bitorder="little").tobytes(): 0}
    at = [known.setdefault(np.packbits(mask, bitorder="little").tobytes(), len(known)) for mask in masks]
    wide = "<u2" if len(known) > 255 else "u1"
    head = _head(NUMBERED if wide == "u1" else PLAIN, masks.shape[0])
    return head + np.array(at, dtype=wide).tobytes() + b"".join([*known][1:])


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
        width = (distinct - 1).bit_length()
        bits = self._packed(width * self._entries).reshape(self._entries, width)
        at = bits.astype(np.int64) @ (np.int64(1) << np.arange(width, dtype=np.int64))
        return hi[at], lo[at]

    def masks(self) -> Mask:
        """By CFD which rows are for it."""
        [form] = self._take("u1", 1)
        count = int(self._take("<u4", 1)[0])
        at = self._take("u1" if form == NUMBERED else "<u2", count)
        known = [np.ones(self._entries, dtype=np.bool_)]
        known += [self._packed(self._entries) for _ in range(int(at.max(initial=0)))]
        return np.stack([known[i] for i in at]) if count else np.zeros((0, self._entries), dtype=np.bool_)
