"""Some rows of a column of a Parquet file, without decoding the others.

Only what is plain enough is read so: columns of numbers, and of text that is a dictionary throughout, without NULLs.
For all else, and for whatever is not as the format says, the answer is None, and Arrow's reader takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.buffers import arrow_of, lend
from holdstrue.data.validity import validate_column
from holdstrue.kernels import parquet_pages as kernels
from holdstrue.threads import each
from holdstrue.typing import I32, I64, U8, Mask

_NUMBERS: dict[pa.DataType, tuple[str, type]] = {
    pa.int32(): ("INT32", np.int32),
    pa.int64(): ("INT64", np.int64),
    pa.float32(): ("FLOAT", np.float32),
    pa.float64(): ("DOUBLE", np.float64),
}
_CODECS = {"SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip", "UNCOMPRESSED": None}
_INDICES = (kernels.PLAIN_DICTIONARY, kernels.RLE_DICTIONARY)
R = TypeVar("R")

PAGES_A_THREAD = 16
"""Chosen, not tuned."""
SMALL_PAGE = 1 << 10
"""Bytes of a page below which there may be more than are looked for, so that Arrow reads them. Chosen, not tuned."""


class PageReader:
    """One column chunk of a file: which rows are there, and the values of some.

    Parameters
    ----------
    data
        The bytes of the chunk.
    chunk, column
        What the file says of it, and of the column in its schema.
    type_
        The type of its values.
    threads
        How many threads read its pages.
    """

    def __init__(self, data: bytes, chunk: Any, column: Any, type_: pa.DataType, threads: int) -> None:
        self._data: U8 = lend(np.frombuffer(data, dtype=np.uint8))
        self._type, self._rows, self._threads = type_, int(chunk.num_values), threads
        self._codec = _CODECS[chunk.compression]
        self._optional = column.max_definition_level == 1
        self._text = type_ not in _NUMBERS
        self._pages: I64 | None = None
        self._dictionary: Any = None
        self._held: dict[int, U8] = {}
        """Pages that were decompressed, by where they start: those that told rows are read again for their values."""

    @staticmethod
    def reads(chunk: Any, column: Any, type_: pa.DataType) -> bool:
        """Whether chunks of this kind can be read so."""
        physical = _NUMBERS[type_][0] if type_ in _NUMBERS else "BYTE_ARRAY"
        stored = chunk.statistics is not None and chunk.statistics.has_null_count and not chunk.statistics.null_count
        plain = column.max_definition_level <= 1 and column.max_repetition_level == 0
        kind = chunk.physical_type == physical and (type_ in _NUMBERS or type_ == pa.string())
        return bool(stored and plain and kind and chunk.compression in _CODECS)

    def taken(self, rows: I32) -> pa.Array | None:
        """The values of some rows, ascending; None where the pages are not understood.

        Text comes as a dictionary. Complexity: O(pages with such rows + rows).
        """
        try:
            if not self._opened() or self._pages is None:
                return None
            starts = self._starts(self._pages)
            cuts = np.searchsorted(rows, starts)
            found: NDArray[Any] = np.empty(rows.size, dtype=np.int32 if self._text else _NUMBERS[self._type][1])

            def take(at: int) -> bool:
                first, end = cuts[at], cuts[at + 1]
                own = (rows[first:end] - starts[at]).astype(np.int32)
                return bool(first == end) or self._take(self._pages[at], own, found[first:end])  # type: ignore[index]

            if not all(self._each(take)):
                return None
        except (OSError, pa.ArrowException, ValueError):
            return None  # damaged: Arrow's reader says how
        if not self._text:
            return arrow_of(found)
        return pa.DictionaryArray.from_arrays(arrow_of(found), self._dictionary)

    def satisfying(self, judge: Callable[[pa.Array], Mask]) -> I32 | None:
        """The rows whose values are judged to be true; None where the pages are not understood.

        Values of a dictionary are judged once each. Complexity: O(rows).
        """
        try:
            if not self._opened() or self._pages is None:
                return None
            truth = np.zeros(0, dtype=np.uint8)
            if self._dictionary is not None:
                values = self._dictionary if self._text else arrow_of(self._dictionary)
                truth = judge(values).astype(np.uint8)
            starts = self._starts(self._pages)
            pages = self._pages
            found = self._each(lambda at: self._match(pages[at], truth, judge))
        except (OSError, pa.ArrowException, ValueError):
            return None
        rows = [own + np.int32(start) for own, start in zip(found, starts, strict=False) if own is not None]
        return np.concatenate(rows) if len(rows) == len(found) else None

    def _each(self, work: Callable[[int], R]) -> list[R]:
        """Work on every page, each thread on as many that follow each other: handing over single ones takes longer."""
        count = 0 if self._pages is None else len(self._pages)
        threads = min(self._threads, count // PAGES_A_THREAD) or 1
        cuts = [count * part // threads for part in range(threads + 1)]
        parts = each(lambda part: [work(at) for at in range(cuts[part], cuts[part + 1])], range(threads), threads)
        return [done for part in parts for done in part]

    def _opened(self) -> bool:
        """Find the pages and read the dictionary; False where they are not understood."""
        if self._pages is None:
            pages = np.empty((self._data.size // SMALL_PAGE + 64, kernels.WIDTH), dtype=np.int64)
            count = kernels.page_headers(self._data, pages)
            pages = pages[: max(count, 0)]
            if count > 0 and pages[0, kernels.KIND] == kernels.DICTIONARY:
                self._dictionary = self._values_of(pages[0])
                pages = pages[1:]
                if self._dictionary is None:
                    return False
            if (pages[:, kernels.KIND] == kernels.DICTIONARY).any() or pages[:, kernels.VALUES].sum() != self._rows:
                return False
            self._pages = pages
        return True

    @staticmethod
    def _starts(pages: I64) -> I64:
        return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(pages[:, kernels.VALUES])))

    def _values(self, page: I64, hold: bool = False) -> tuple[U8, int]:
        """The bytes of a page, and where its values start."""
        data = self._unpacked(page, hold)
        if not self._optional or page[kernels.KIND] != kernels.DATA:
            return data, 0
        # nothing is NULL, so that the levels need not be looked at
        return data, 4 + int(data[:4].view("<u4")[0]) if data.size >= 4 else 4

    def _take(self, page: I64, rows: I32, out: NDArray[Any]) -> bool:
        """Write the values of some rows of a page; False where it is not understood."""
        data, start = self._values(page)
        values = int(page[kernels.VALUES])
        if page[kernels.ENCODING] in _INDICES and self._dictionary is not None:
            at = np.empty(rows.size, dtype=np.int32)
            done = kernels.take_indices(data, start, values, rows, at)
            if done < 0 or at.max() >= len(self._dictionary) or at.min() < 0:
                return False
            out[:] = at if self._text else self._dictionary[at]
            return True
        if self._text or page[kernels.ENCODING] != kernels.PLAIN:
            return False
        out[:] = np.frombuffer(data, dtype=out.dtype, count=values, offset=start)[rows]
        return True

    def _match(self, page: I64, truth: U8, judge: Callable[[pa.Array], Mask]) -> I32 | None:
        """The rows of a page that are judged to be true; None where it is not understood."""
        data, start = self._values(page, hold=True)
        values = int(page[kernels.VALUES])
        if page[kernels.ENCODING] in _INDICES and self._dictionary is not None:
            out = np.empty(values + 1, dtype=np.int32)
            count = kernels.matching_rows(data, start, values, truth, out)
            return None if count < 0 else out[:count]
        if self._text or page[kernels.ENCODING] != kernels.PLAIN:
            return None
        plain: NDArray[Any] = np.frombuffer(data, dtype=_NUMBERS[self._type][1], count=values, offset=start)
        return np.flatnonzero(judge(arrow_of(plain))).astype(np.int32)

    def _unpacked(self, page: I64, hold: bool = False) -> U8:
        start, packed = int(page[kernels.START]), int(page[kernels.PACKED])
        levels = int(page[kernels.LEVELS])
        data = self._data[start + levels : start + packed]
        if self._codec is None:
            return data
        if start in self._held:
            return self._held[start]
        size = int(page[kernels.UNPACKED]) - levels
        if size < 0:
            raise ValueError("a page has more levels than bytes")
        unpacked = pa.Codec(self._codec).decompress(pa.py_buffer(data), size)
        found: U8 = lend(np.frombuffer(unpacked, dtype=np.uint8))
        if hold:
            self._held[start] = found
        return found

    def _values_of(self, page: I64) -> Any:
        """The values of a dictionary page: an array of numbers, or Arrow's of text; None where it is something else."""
        if page[kernels.ENCODING] not in (kernels.PLAIN, kernels.PLAIN_DICTIONARY):
            return None
        data, values = self._unpacked(page), int(page[kernels.VALUES])
        if not self._text:
            return np.frombuffer(data, dtype=_NUMBERS[self._type][1], count=values)
        if 4 * values > data.size:
            return None
        offsets = np.empty(values + 1, dtype=np.int32)
        size = kernels.text_offsets(data, offsets)
        if size < 0:
            return None
        text = np.empty(size, dtype=np.uint8)
        kernels.join_texts(data, offsets, text)
        found = pa.Array.from_buffers(pa.string(), values, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
        validate_column(pa.chunked_array([found]))
        return found


def chunk_bytes(chunk: Any) -> Sequence[int]:
    """Where the bytes of a column chunk start, and how many there are."""
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
        start = min(start, chunk.dictionary_page_offset)
    return start, chunk.total_compressed_size
