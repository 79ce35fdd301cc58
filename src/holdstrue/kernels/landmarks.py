"""Codes as ranks among the codes of other rows.

Landmarks 10 and 20 have ranks 1 and 3. By order 5, 15 and 25 lie before, between and behind them; where order does not
matter they are just neither.

>>> codes, ranks = np.array([10, 15, 20, 25, 5]), np.empty(5, dtype=np.int16)
>>> ranks_among(np.array([10, 20]), codes, True, 0, ranks); ranks.tolist()
[1, 2, 3, 4, 0]
>>> ranks_among(np.array([10, 20]), codes, False, 0, ranks); ranks.tolist()
[1, 0, 3, 0, 0]
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.digest import mix
from holdstrue.kernels.jit import kernel
from holdstrue.typing import I64, Lanes


@kernel
def ranks_among(landmarks: I64, codes: I64, ordered: bool, lowest: int, out: Lanes) -> None:
    """Ranks by which codes compare with the landmarks (ascending, distinct) as their values do.

    The i-th landmark has rank 2i + 1, a code between two landmarks the even rank between theirs; where order
    does not matter any code that is no landmark has rank 0. All are above `lowest`, which is added.

    Complexity: O(log landmarks) a code, O(1) expected without order.
    """
    count = landmarks.size
    if ordered:
        for i in range(codes.size):
            low = 0
            high = count
            while low < high:
                middle = (low + high) // 2
                if landmarks[middle] < codes[i]:
                    low = middle + 1
                else:
                    high = middle
            hit = low < count and landmarks[low] == codes[i]
            out[i] = lowest + 2 * low + (1 if hit else 0)
        return
    size = 16
    while size < 2 * count:
        size *= 2
    mask = np.uint64(size - 1)
    cells = np.full(size, -1, dtype=np.int32)
    for k in range(count):
        at = mix(np.uint64(landmarks[k])) & mask
        while cells[at] >= 0:
            at = (at + np.uint64(1)) & mask
        cells[at] = k
    for i in range(codes.size):
        at = mix(np.uint64(codes[i])) & mask
        rank = 0
        while cells[at] >= 0:
            if landmarks[cells[at]] == codes[i]:
                rank = 2 * cells[at] + 1
                break
            at = (at + np.uint64(1)) & mask
        out[i] = lowest + rank
