"""Numbers for words of any width: an open-addressing table from words to 0, 1, 2, ...

>>> cells, keys = np.zeros(16, dtype=np.int32), np.empty((8, 1), dtype=np.uint64)
>>> numbers = np.empty(5, dtype=np.int64)
>>> used = enter(cells, keys, 0, np.array([[7, 9, 7, 4, 9]], dtype=np.uint64), numbers)
>>> numbers.tolist(), keys[:used, 0].tolist()
([0, 1, 0, 2, 1], [7, 9, 4])
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.digest import mix
from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I32, I64, U64

_K = np.uint64(0x9E3779B97F4A7C15)


@inline
def hash_at(words: U64, j: int) -> np.uint64:
    """The hash of the word `words[:, j]`."""
    h = words[0, j] * _K
    for w in range(1, words.shape[0]):
        h = (mix(h) ^ words[w, j]) * _K
    return mix(h)


@inline
def _number(cells: I32, keys: U64, used: int, words: U64, j: int) -> int:
    """The number of the word at `words[:, j]`; `used` when it is new, and then it is entered."""
    mask = np.uint64(cells.size - 1)
    at = hash_at(words, j) & mask
    while True:
        number = int(cells[at]) - 1
        if number < 0:
            cells[at] = used + 1
            for w in range(words.shape[0]):
                keys[used, w] = words[w, j]
            return used
        same = True
        for w in range(words.shape[0]):
            if keys[number, w] != words[w, j]:
                same = False
                break
        if same:
            return number
        at = (at + np.uint64(1)) & mask


@kernel
def enter(cells: I32, keys: U64, used: int, words: U64, out: I64) -> int:
    """Number the words `words[:, j]`, adding new ones; the caller has made room. Complexity: O(n) expected."""
    for j in range(words.shape[1]):
        number = _number(cells, keys, used, words, j)
        if number == used:
            used += 1
        out[j] = number
    return used


@kernel
def accumulate(counts: I64, numbers: I64, more: I64) -> None:
    """Add `more[i]` to the count of `numbers[i]`. Complexity: O(n)."""
    for i in range(numbers.size):
        counts[numbers[i]] += more[i]


@kernel
def reenter(cells: I32, keys: U64, used: int) -> None:
    """Fill empty, larger cells with the words already numbered. Complexity: O(used)."""
    mask = np.uint64(cells.size - 1)
    one = np.empty((keys.shape[1], 1), dtype=np.uint64)
    for number in range(used):
        for w in range(keys.shape[1]):
            one[w, 0] = keys[number, w]
        at = hash_at(one, 0) & mask
        while cells[at] != 0:
            at = (at + np.uint64(1)) & mask
        cells[at] = number + 1
