"""Stable sorting permutations of integer keys, least significant digit first."""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import kernel
from holdstrue.typing import I32, I64, U64

DIGIT_BITS = 11
"""2,048 counters fit the first-level cache. Chosen, not tuned: other widths were not measured."""

SMALL = 2048
"""Below this many keys numpy sorts, to spare clearing the counters. Chosen, not tuned."""


@kernel
def _radix_pass(keys: U64, order: I32, keys_out: U64, order_out: I32, shift: int, counts: I64) -> bool:
    """One counting pass that carries keys and rows along; False when all digits agree (nothing is written)."""
    mask = np.uint64(counts.size - 1)
    amount = np.uint64(shift)
    counts[:] = 0
    n = keys.size
    for i in range(n):
        counts[np.int64((keys[i] >> amount) & mask)] += 1
    if counts[np.int64((keys[0] >> amount) & mask)] == n:
        return False
    total = 0
    for digit in range(counts.size):
        count = counts[digit]
        counts[digit] = total
        total += count
    for i in range(n):
        key = keys[i]
        place = np.int64((key >> amount) & mask)
        at = counts[place]
        keys_out[at] = key
        order_out[at] = order[i]
        counts[place] = at + 1
    return True


def _radix(keys: U64, order: I32, bits: int) -> I32:
    """`order` rearranged so that its keys ascend; `keys` is in the order of `order` and is used up."""
    keys_out = np.empty_like(keys)
    order_out = np.empty_like(order)
    counts = np.empty(1 << DIGIT_BITS, dtype=np.int64)
    for shift in range(0, bits, DIGIT_BITS):
        if _radix_pass(keys, order, keys_out, order_out, shift, counts):
            keys, keys_out = keys_out, keys
            order, order_out = order_out, order
    return order


def _sorted(keys: U64, order: I32, bits: int) -> I32:
    return order[np.argsort(keys, kind="stable")] if keys.size < SMALL else _radix(keys, order, bits)


def argsort(*columns: I64 | I32) -> I32:
    """The stable permutation that sorts rows by the first column, then by the second, and so on.

    Columns whose value ranges fit 64 bits together are packed into one key.
    Complexity: O(n) per 11 bits of the columns' value ranges.

    Examples
    --------
    >>> argsort(np.array([1, 0, 1]), np.array([5, 9, 4])).tolist()
    [1, 2, 0]
    """
    n = columns[0].size
    if n < 2:
        return np.arange(n, dtype=np.int32)
    order = np.arange(n, dtype=np.int32)
    packed: U64 | None = None
    used = 0
    for column in reversed(columns):
        low = int(column.min())
        bits = (int(column.max()) - low).bit_length()
        digits = (column.astype(np.int64) - np.int64(low)).view(np.uint64)
        if packed is not None and used + bits > 64:
            order = _sorted(packed[order], order, used)
            packed, used = None, 0
        packed = digits if packed is None else packed | (digits << np.uint64(used)) if bits else packed
        used += bits
    return order if packed is None else _sorted(packed[order], order, used)
