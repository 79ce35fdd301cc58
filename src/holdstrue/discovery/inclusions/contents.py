"""The contents of columns: digests of their values, by which all columns can be compared with all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import known, plain
from holdstrue.data.digests import digests
from holdstrue.data.seed import Seed
from holdstrue.data.values import common_families, family_of
from holdstrue.kernels import digest
from holdstrue.typing import U64, Mask

Compare: TypeAlias = Literal["types", "text"]
"""Whether values of different families differ, or are compared by their text."""

PART = 1 << 15
"""Rows that are digested together. 336,776 flights of 19 text columns: 0.29 s CPU in one part, 0.20 s in these."""


@dataclass(frozen=True)
class Content:
    """Digests of a column's values, or of a tuple of columns, and which are known (all, when `valid` is None)."""

    hi: U64
    lo: U64
    valid: Mask | None

    def mask(self) -> Mask:
        """Which values are known."""
        return np.ones(self.hi.size, dtype=np.bool_) if self.valid is None else self.valid


def comparable(one: pa.DataType, other: pa.DataType, compare: Compare) -> bool:
    """Whether an inclusion between columns of these types can be meant.

    Examples
    --------
    >>> comparable(pa.int8(), pa.float64(), "types"), comparable(pa.int8(), pa.string(), "types")
    (True, False)
    >>> comparable(pa.int8(), pa.string(), "text")
    True
    """
    if family_of(one) is None or family_of(other) is None:
        return False
    return compare == "text" or common_families([one, other]) is not None


def content_of(column: pa.ChunkedArray | pa.Array, compare: Compare, seed: Seed) -> Content:
    """The digests of a column's values. Complexity: O(values)."""
    array = plain(column)
    family = family_of(array.type)
    if family == "null":
        nothing = np.zeros(len(array), dtype=np.uint64)
        return Content(nothing, nothing, np.zeros(len(array), dtype=np.bool_))
    if compare == "text" and family != "text":
        array = _as_text(array)
    return Content(*digests(array, seed), known(array) if array.null_count else None)


def contents_of(column: pa.ChunkedArray, compare: Compare, seed: Seed) -> Iterator[Content]:
    """The same in parts that fit the processor's cache; parts of a chunked column are not copied together."""
    for chunk in column.chunks:
        for start in range(0, len(chunk), PART):
            yield content_of(chunk.slice(start, PART), compare, seed)


def tuple_of(parts: Sequence[Content], seed: Seed) -> Content:
    """The digests of tuples of values; one that holds a NULL is not known. Complexity: O(rows)."""
    if len(parts) == 1:
        return parts[0]
    size = parts[0].hi.size
    hi, lo = (np.full(size, lane) for lane in seed.start)
    for part in parts:
        digest.extend_key(hi, lo, part.hi, part.lo, seed.keys)
    masks = [part.valid for part in parts if part.valid is not None]
    return Content(hi, lo, np.logical_and.reduce(masks) if masks else None)


def _as_text(array: pa.Array) -> pa.Array:
    """What Arrow prints for a value; durations as their number of units, bytes as the text they spell."""
    if pa.types.is_duration(array.type):
        array = array.cast(pa.int64())
    if family_of(array.type) == "bytes":
        # under the type of text: they are only digested, so they need not be any
        text = pa.large_string() if pa.types.is_large_binary(array.type) else pa.string()
        return pa.Array.from_buffers(text, len(array), array.buffers(), array.null_count, array.offset)
    return array.cast(pa.string())
