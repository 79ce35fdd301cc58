"""Pages of Parquet column chunks: where they lie, and the values of some of their rows.

A reader that needs one row of fifty decodes no others. What is read comes from a file and is not trusted: every step
stays within the bytes there are, and whatever is not as expected ends in -1, so that another reader says what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I32, I64, U8

KIND, START, PACKED, UNPACKED, VALUES, ENCODING, LEVELS = range(7)
"""Of a page: data, dictionary or data of the second version; where its bytes start; how many there are, and how many
they become; its values; how they are encoded; the bytes of levels before them, where the second version tells it."""
WIDTH = 7
DATA, _, DICTIONARY, DATA_2 = range(4)
PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY = 0, 2, 8

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_DEEPEST = 8
_ONE, _TWO, _THREE, _FOUR, _EIGHT, _SIXTEEN, _BITS = (np.uint64(n) for n in (1, 2, 3, 4, 8, 16, 32))


@inline
def _number(data: U8, at: np.int64 | int) -> tuple[np.int64, Any]:
    """A number of seven bits a byte, and where it ends; -1 where it does not, or is too large."""
    value, shift = np.int64(0), 0
    while at < data.size and shift < 56:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return np.int64(-1), data.size


@inline
def _signed(value: np.int64) -> np.int64:
    return (value >> 1) ^ -(value & 1)


@inline
def _note(page: I64, depth: int, within: int, field: int, value: np.int64 | int) -> None:
    """Keep what the header of a page says, as far as it is asked for."""
    if depth == 0 and field == 1:
        page[KIND] = value
    elif depth == 0 and field == 2:
        page[UNPACKED] = value
    elif depth == 0 and field == 3:
        page[PACKED] = value
    elif depth == 1 and field == 1 and within in (5, 7, 8):
        page[VALUES] = value
    elif depth == 1 and ((field == 2 and within in (5, 7)) or (field == 4 and within == 8)):
        page[ENCODING] = value
    elif depth == 1 and within == 8 and field in (5, 6):
        page[LEVELS] += value
    elif depth == 1 and within == 8 and field == 7 and value == 0:
        page[KIND] = -1  # values that are not compressed, where others of the chunk are


@kernel
def page_headers(data: U8, pages: I64) -> int:
    """Read the headers of the pages of a column chunk; returns how many there are, -1 where they are not understood.

    Headers are structs of Thrift's compact protocol: a byte of field and type, then the value. Complexity: O(pages).

    Examples
    --------
    One page of data: kind 0, 9 bytes that become 9, 3 values, PLAIN:

    >>> header = [0x15, 0, 0x15, 18, 0x15, 18, 0x2C, 0x15, 6, 0x15, 0, 0, 0]
    >>> pages = np.zeros((2, WIDTH), dtype=np.int64)
    >>> page_headers(np.array([*header, *range(9)], dtype=np.uint8), pages), pages[0].tolist()
    (1, [0, 13, 9, 9, 3, 0, 0])
    >>> page_headers(np.array(header, dtype=np.uint8), pages)
    -1
    """
    fields = np.zeros(_DEEPEST, dtype=np.int64)
    at, found = 0, 0
    while at < data.size:
        if found == pages.shape[0]:
            return -1
        page = pages[found]
        for i in range(WIDTH):
            page[i] = 0
        depth = 0
        fields[0] = 0
        while depth >= 0:
            if at >= data.size:
                return -1
            head = np.int64(data[at])
            at += 1
            kind = head & 0x0F
            if kind == _STOP:
                depth -= 1
                continue
            if head >> 4 == 0:
                value, at = _number(data, at)
                fields[depth] = _signed(value)
            else:
                fields[depth] += head >> 4
            within = fields[0] if depth == 1 else 0
            if kind in (_TRUE, _FALSE):
                _note(page, depth, within, fields[depth], 1 if kind == _TRUE else 0)
            elif kind in (_I16, _I32, _I64):
                value, at = _number(data, at)
                if value < 0:
                    return -1
                _note(page, depth, within, fields[depth], _signed(value))
            elif kind == _BINARY:
                value, at = _number(data, at)
                if value < 0 or value > data.size - at:
                    return -1
                at += value
            elif kind == _BYTE:
                at += 1
            elif kind == _DOUBLE:
                at += 8
            elif kind == _STRUCT and depth + 1 < _DEEPEST:
                depth += 1
                fields[depth] = 0
            else:
                return -1
        page[START] = at
        wrong = page[KIND] not in (DATA, DICTIONARY, DATA_2) or page[PACKED] < 0 or page[PACKED] > data.size - at
        if wrong or page[UNPACKED] < 0 or page[VALUES] < 0 or page[LEVELS] < 0:
            return -1
        at += page[PACKED]
        found += 1
    return found


@inline
def _packed(data: U8, at: np.int64, bit: np.int64, width: np.int64) -> np.int64:
    """The number of so many bits that starts at a bit after byte `at`; all of it lies within the bytes there are."""
    first = at + (bit >> 3)
    word = np.int64(0)
    if width <= 24 and first + 4 <= data.size:
        word = np.int64(data[first]) | np.int64(data[first + 1]) << 8
        word |= np.int64(data[first + 2]) << 16 | np.int64(data[first + 3]) << 24
    else:
        shift = 0
        while shift < width + (bit & 7):
            word |= np.int64(data[first]) << shift
            first += 1
            shift += 8
    return (word >> (bit & 7)) & ((np.int64(1) << width) - 1)


@inline
def _run_value(data: U8, at: np.int64, size: np.int64) -> np.int64:
    """The number that a run repeats."""
    value = np.int64(0)
    for i in range(size):
        value |= np.int64(data[at + i]) << (8 * i)
    return value


@kernel
def take_indices(data: U8, start: int, values: int, rows: I32, out: I32) -> int:
    """The numbers that stand at some rows, ascending, of a page of runs and packed bits; 0, or -1 where it ends early.

    Complexity: O(runs + rows).

    Examples
    --------
    Two bits a value: a run of three times 2, then eight packed values 0, 1, 2, 3, 0, 1, 2, 3.

    >>> page, out = np.array([2, 3 << 1, 2, 1 << 1 | 1, 0b11100100, 0b11100100], dtype=np.uint8), np.empty(3, np.int32)
    >>> take_indices(page, 0, 11, np.array([1, 4, 10], dtype=np.int32), out), out.tolist()
    (0, [2, 1, 3])
    """
    if start >= data.size:
        return -1
    width = np.int64(data[start])
    if width > 31:
        return -1
    at, begin, next_row = np.int64(start + 1), np.int64(0), 0
    while next_row < rows.size:
        head, at = _number(data, at)
        if head < 0 or begin >= values:
            return -1
        if head & 1:
            count, size = (head >> 1) * 8, (head >> 1) * width
            if size > data.size - at:
                return -1
            while next_row < rows.size and rows[next_row] < begin + count:
                out[next_row] = _packed(data, at, (rows[next_row] - begin) * width, width)
                next_row += 1
            at += size
        else:
            count, size = head >> 1, (width + 7) >> 3
            if size > data.size - at:
                return -1
            value = _run_value(data, at, size)
            while next_row < rows.size and rows[next_row] < begin + count:
                out[next_row] = value
                next_row += 1
            at += size
        if count == 0:
            return -1
        begin += count
    return 0


@kernel
def matching_rows(data: U8, start: int, values: int, truth: U8, out: I32) -> int:
    """The rows of a page whose numbers are true; `out` has room for one more than the page has values.

    Returns how many there are, -1 where the page ends early or has numbers without a truth. Complexity: O(values).

    >>> page, out = np.array([2, 3 << 1, 2, 1 << 1 | 1, 0b11100100, 0b11100100], dtype=np.uint8), np.empty(12, np.int32)
    >>> found = matching_rows(page, 0, 11, np.array([1, 0, 1, 0], dtype=np.uint8), out)
    >>> out[:found].tolist()
    [0, 1, 2, 3, 5, 7, 9]
    """
    if start >= data.size:
        return -1
    width = np.int64(data[start])
    if width > 31:
        return -1
    at, begin, found = np.int64(start + 1), np.int64(0), 0
    while begin < values:
        head, at = _number(data, at)
        if head < 0:
            return -1
        if head & 1:
            count, size = (head >> 1) * 8, (head >> 1) * width
            if size > data.size - at:
                return -1
            # bits wait in a word, which is filled by four bytes where so many are left, and emptied from below
            word, waiting, place = np.uint64(0), np.uint64(0), np.uint64(at)
            end, bits = np.uint64(at + size), np.uint64(width)
            mask = (np.uint64(1) << bits) - np.uint64(1)
            most = np.uint64(truth.size)
            last = begin + count if begin + count < values else np.int64(values)
            for i in range(begin, last):
                if waiting < bits:
                    if place + _FOUR <= end:
                        low = np.uint64(data[place]) | np.uint64(data[place + _ONE]) << _EIGHT
                        high = np.uint64(data[place + _TWO]) | np.uint64(data[place + _THREE]) << _EIGHT
                        word |= (low | high << _SIXTEEN) << waiting
                        place += _FOUR
                        waiting += _BITS
                    else:
                        while waiting < bits:
                            word |= np.uint64(data[place]) << waiting
                            place += _ONE
                            waiting += _EIGHT
                number = word & mask
                word >>= bits
                waiting -= bits
                if number >= most:
                    return -1
                out[found] = i
                found += truth[number]
        else:
            count, size = head >> 1, (width + 7) >> 3
            if size > data.size - at:
                return -1
            value = _run_value(data, at, size)
            if value >= truth.size:
                return -1
            if truth[value] != 0:
                for i in range(min(count, values - begin)):
                    out[found] = begin + i
                    found += 1
        if count == 0:
            return -1
        at += size
        begin += count
    return found


@kernel
def text_offsets(data: U8, offsets: I32) -> np.int64:
    """Where texts that follow each other, each after four bytes of its length, start once the lengths are left out.

    Returns how many bytes they have together, -1 where the bytes end early or are too many. Complexity: O(texts).

    >>> offsets = np.empty(3, dtype=np.int32)
    >>> text_offsets(np.frombuffer(bytes([2, 0, 0, 0]) + b"ab" + bytes([1, 0, 0, 0]) + b"c", np.uint8).copy(), offsets)
    3
    >>> offsets.tolist()
    [0, 2, 3]
    """
    at, total = np.int64(0), np.int64(0)
    for i in range(offsets.size - 1):
        if at + 4 > data.size:
            return np.int64(-1)
        size = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16
        size |= np.int64(data[at + 3]) << 24
        at += 4
        if size > data.size - at:
            return np.int64(-1)
        offsets[i] = total
        total += size
        at += size
    offsets[offsets.size - 1] = total
    return total


@kernel
def join_texts(data: U8, offsets: I32, out: U8) -> None:
    """Write texts without their lengths (see `text_offsets`). Complexity: O(bytes)."""
    for i in range(offsets.size - 1):
        start = offsets[i] + 4 * (i + 1)
        for j in range(offsets[i + 1] - offsets[i]):
            out[offsets[i] + j] = data[start + j]
