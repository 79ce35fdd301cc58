"""Counting what row pairs have in common: one packed word of outcomes a pair, and how often each word occurs.

An equality sets one bit of the word; an ordered comparison two, `<=` and `>=`, so that `<`, `=` and `>`
differ and an unknown outcome is neither. Words of a row against a strip of rows are built comparison by
comparison in lanes as narrow as the codes, so that every inner loop is a compare, an and and an or over
contiguous arrays. Words that fill much of a strip are counted by taking them out of it, the rest in an
open-addressing table.

Three rows with an ordered column a (1, 2, 2) and a column b that is compared for equality (5, 5, 6). Bit 0 says that b
is equal, bits 1 and 2 that a is at most, and at least, that of the other row; `plan` and `bits` spell it out.

>>> codes = np.array([[1, 2, 2], [5, 5, 6]], dtype=np.int16)
>>> plan, bits = np.array([[1, 1, 0, 0], [0, 0, 1, 0]]), np.array([[1, 0], [2, 4]], dtype=np.uint16)
>>> base, all_known = np.zeros(1, dtype=np.uint16), np.zeros((1, 0), dtype=np.uint16)
>>> t, s, words = np.array([0, 1, 0]), np.array([1, 0, 2]), np.empty((1, 3), dtype=np.uint64)
>>> words_of_pairs(codes, codes, plan, bits, base, all_known, all_known, t, s, words)
>>> [f"{word:03b}" for word in words[0].tolist()]
['011', '101', '010']
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holdstrue.kernels.digest import mix
from holdstrue.kernels.jit import inline, kernel
from holdstrue.kernels.word_table import hash_at
from holdstrue.typing import I64, U8, U64, Lanes, Mask

STRIP = 1024
"""Rows of a strip: its lanes, a few columns and the words stay in the first-level cache. Chosen, not tuned."""

_K = np.uint64(0x9E3779B97F4A7C15)

_ONE = np.uint64(1)
_FEW = 16
_RARE = 8
"""Words are taken out of a strip while it holds `_FEW`, and until `_RARE` of them filled less than an eighth of it.

Counting `airport` takes 1.00 s of CPU so, 1.80 s with 32 and 3, 0.97 s with 8 and no end (which tables with many
different words would pay for).
"""


@inline
def _equal(acc: Lanes, x: Any, column: Lanes, bit: Any) -> None:
    zero = bit ^ bit
    for j in range(acc.size):
        acc[j] |= bit if column[j] == x else zero


@inline
def _equal_two(acc: Lanes, x0: Any, c0: Lanes, b0: Any, x1: Any, c1: Lanes, b1: Any) -> None:
    zero = b0 ^ b0
    for j in range(acc.size):
        acc[j] |= (b0 if c0[j] == x0 else zero) | (b1 if c1[j] == x1 else zero)


@inline
def _equal_four(
    acc: Lanes,
    x0: Any, c0: Lanes, b0: Any, x1: Any, c1: Lanes, b1: Any,
    x2: Any, c2: Lanes, b2: Any, x3: Any, c3: Lanes, b3: Any,
) -> None:  # fmt: skip
    zero = b0 ^ b0
    for j in range(acc.size):
        acc[j] |= (
            (b0 if c0[j] == x0 else zero)
            | (b1 if c1[j] == x1 else zero)
            | (b2 if c2[j] == x2 else zero)
            | (b3 if c3[j] == x3 else zero)
        )


@inline
def _ordered(acc: Lanes, x: Any, column: Lanes, low: Any, high: Any) -> None:
    zero = low ^ low
    for j in range(acc.size):
        y = column[j]
        acc[j] |= (low if x <= y else zero) | (high if x >= y else zero)


@inline
def _keep(acc: Lanes, t_known: Any, s_known: Lanes) -> None:
    for j in range(acc.size):
        acc[j] &= t_known & s_known[j]


@inline
def _hopeful(t: int, hopes: U8, asked: I64) -> int:
    """The comparisons that may hold for row t into `asked`; returns their number.

    An equality has no hope where no other row has the value: most rows on columns with many values.
    """
    count = 0
    for k in range(hopes.shape[0]):
        asked[count] = k
        count += hopes[k, t]
    return count


@inline
def _strip_lanes(
    t: int, t_codes: Lanes, s_codes: Lanes, a: int, b: int, plan: I64, bits: Lanes, base: Lanes,
    t_known: Lanes, s_known: Lanes, asked: I64, count: int, acc: Lanes,
) -> None:  # fmt: skip
    """Outcome lanes of row t against rows a to b, by the comparisons `asked`.

    `plan` rows are left, right, ordered, group; they are sorted by group, equalities first.
    """
    i = 0
    for g in range(acc.shape[0]):
        lane = acc[g, : b - a]
        lane[:] = base[g]
        while i < count and plan[asked[i], 3] == g:
            k = asked[i]
            if plan[k, 2] == 1:
                _ordered(lane, t_codes[plan[k, 0], t], s_codes[plan[k, 1], a:b], bits[k, 0], bits[k, 1])
                i += 1
            elif i + 3 < count and plan[asked[i + 3], 3] == g and plan[asked[i + 3], 2] == 0:
                m, n, o = asked[i + 1], asked[i + 2], asked[i + 3]
                _equal_four(
                    lane,
                    t_codes[plan[k, 0], t], s_codes[plan[k, 1], a:b], bits[k, 0],
                    t_codes[plan[m, 0], t], s_codes[plan[m, 1], a:b], bits[m, 0],
                    t_codes[plan[n, 0], t], s_codes[plan[n, 1], a:b], bits[n, 0],
                    t_codes[plan[o, 0], t], s_codes[plan[o, 1], a:b], bits[o, 0],
                )  # fmt: skip
                i += 4
            elif i + 1 < count and plan[asked[i + 1], 3] == g and plan[asked[i + 1], 2] == 0:
                m = asked[i + 1]
                _equal_two(
                    lane,
                    t_codes[plan[k, 0], t], s_codes[plan[k, 1], a:b], bits[k, 0],
                    t_codes[plan[m, 0], t], s_codes[plan[m, 1], a:b], bits[m, 0],
                )  # fmt: skip
                i += 2
            else:
                _equal(lane, t_codes[plan[k, 0], t], s_codes[plan[k, 1], a:b], bits[k, 0])
                i += 1
        if s_known.shape[1] > 0:
            _keep(lane, t_known[g, t], s_known[g, a:b])


@inline
def _gather(acc: Lanes, words: U64, size: int) -> None:
    """Lanes put together into 64-bit words, `words[w, j]`."""
    lane_bits = np.uint64(acc.itemsize * 8)
    a_word = np.uint64(64) // lane_bits
    for w in range(words.shape[0]):
        first = w * np.int64(a_word)
        word = words[w, :size]
        lane = acc[first, :size]
        for j in range(size):
            word[j] = np.uint64(lane[j])
        for g in range(first + 1, min(first + np.int64(a_word), acc.shape[0])):
            lane = acc[g, :size]
            shift = np.uint64(g - first) * lane_bits
            for j in range(size):
                word[j] |= np.uint64(lane[j]) << shift


@inline
def _without(source: U64, size: int, word: np.uint64, out: U64) -> int:
    """Copy what differs from `word`; returns how many that are."""
    kept = 0
    for j in range(size):
        out[kept] = source[j]
        kept += source[j] != word
    return kept


@kernel
def count_pairs(
    t_codes: Lanes, s_codes: Lanes, plan: I64, bits: Lanes, base: Lanes, t_known: Lanes, s_known: Lanes,
    hopes: U8, t_weights: I64, s_weights: I64, span: I64, beside: I64, table: U64, first: I64, state: I64,
) -> bool:  # fmt: skip
    """Count the outcome words of the pairs (t, s) of a tile.

    `span` holds the ends of the rows t and s and whether only s after t count (a tile on the diagonal). Where `beside`
    has rows, row t is compared with the rows s from `beside[t, 0]` to `beside[t, 1]` alone.
    `t_known[g, t] & s_known[g, s]` masks the lanes where values are unknown; without columns all are
    known. `hopes[k, t]` is 0 where comparison k cannot hold for t. Weights are multiplicities of rows;
    without entries each counts once. A row of `table` is a word and its count, side by side so that one
    look-up is one place in memory; a count of 0 is a free row. `first` receives the pair in which a word
    came first. `state` holds the words used, the place to go on from, and how long a strip is searched for
    frequent words. Returns False when the table must grow.

    Complexity: O(pairs x comparisons / lanes of a vector), and one look-up a pair where words are many.
    """
    width = table.shape[1] - 1
    acc = np.empty((base.size, STRIP), dtype=base.dtype)
    asked_of_t = np.empty(hopes.shape[0] + 1, dtype=np.int64)
    words = np.empty((width, STRIP), dtype=np.uint64)
    left = np.empty((2, STRIP + 1), dtype=np.uint64)
    room = table.shape[0] // 2
    for t in range(state[1], span[1]):
        count = _hopeful(t, hopes, asked_of_t)
        a, end = span[2], span[3]
        if beside.shape[0] > 0:
            a, end = beside[t, 0], beside[t, 1]
        if span[4] == 1:
            a = max(a, t + 1)
        if t == state[1]:
            a = max(a, state[2])
        while a < end:
            if state[0] + STRIP > room:
                state[1], state[2] = t, a
                return False
            b = min(a + STRIP, end)
            size = b - a
            _strip_lanes(t, t_codes, s_codes, a, b, plan, bits, base, t_known, s_known, asked_of_t, count, acc)
            _gather(acc, words, size)
            if width == 1 and s_weights.size == 0:
                _count_strip(words[0], size, left, t, a, table, first, state)
            else:
                for j in range(size):
                    at = _row(table, words, j)
                    if table[at, width] == 0:
                        for w in range(width):
                            table[at, w] = words[w, j]
                        first[at, 0], first[at, 1] = t, a + j
                        state[0] += 1
                    table[at, width] += np.uint64(t_weights[t] * s_weights[a + j] if s_weights.size else 1)
            a = b
    state[1], state[2] = span[1], span[2]
    return True


@inline
def _row(table: U64, words: U64, j: int) -> np.uint64:
    """Where the word `words[:, j]` is or belongs."""
    mask = np.uint64(table.shape[0] - 1)
    width = words.shape[0]
    at = hash_at(words, j) & mask
    while table[at, width] != 0:
        same = True
        for w in range(width):
            if table[at, w] != words[w, j]:
                same = False
                break
        if same:
            break
        at = (at + np.uint64(1)) & mask
    return at


@inline
def _count_strip(words: U64, size: int, left: U64, t: int, a: int, table: U64, first: I64, state: I64) -> None:
    """Take frequent words out of the strip one by one, then look up what is left."""
    whole = size
    source = words
    now = 0
    rare = 0
    while size >= _FEW and rare < state[3]:
        word = source[0]
        kept = _without(source, size, word, left[now])
        _add(word, size - kept, words, t, a, table, first, state)
        rare += kept * 8 > size * 7
        size = kept
        source = left[now]
        now = 1 - now
    missed = _count_hits(source, size, left[now], table)
    for j in range(missed):
        _add(left[now, j], np.int64(1), words, t, a, table, first, state)
    # where words are many, the next strip is not searched for frequent ones as long
    state[3] = _RARE if size * 2 < whole else 1


@inline
def _count_hits(source: U64, size: int, out: U64, table: U64) -> int:
    """Count the words that are where they belong first; the others go to `out`. Returns how many those are.

    Without a branch, so that the processor goes on to the next words while it waits for memory.
    """
    mask = np.uint64(table.shape[0] - 1)
    missed = 0
    for j in range(size):
        word = source[j]
        at = mix(word * _K) & mask
        hit = np.uint64(table[at, 0] == word and table[at, 1] != 0)
        table[at, 1] += hit
        out[missed] = word
        missed += int(_ONE - hit)
    return missed


@inline
def _add(
    word: np.uint64, times: int | np.int64, strip: U64, t: int, a: int, table: U64, first: I64, state: I64
) -> None:
    mask = np.uint64(table.shape[0] - 1)
    at = mix(word * _K) & mask
    while table[at, 1] != 0:
        if table[at, 0] == word:
            table[at, 1] += np.uint64(times)
            return
        at = (at + np.uint64(1)) & mask
    table[at, 0] = word
    table[at, 1] = np.uint64(times)
    j = 0
    while strip[j] != word:
        j += 1
    first[at, 0] = t
    first[at, 1] = a + j
    state[0] += 1


@kernel
def regrow(table: U64, first: I64, larger: U64, larger_first: I64) -> None:
    """Move a table of counted words to an empty, larger one. Complexity: O(rows)."""
    width = table.shape[1] - 1
    one = np.empty((width, 1), dtype=np.uint64)
    for i in range(table.shape[0]):
        if table[i, width] != 0:
            for w in range(width):
                one[w, 0] = table[i, w]
            at = _row(larger, one, 0)
            for w in range(width + 1):
                larger[at, w] = table[i, w]
            larger_first[at, 0], larger_first[at, 1] = first[i, 0], first[i, 1]


@kernel
def match_pairs(
    t_codes: Lanes, s_codes: Lanes, plan: I64, bits: Lanes, base: Lanes, t_known: Lanes, s_known: Lanes,
    hopes: U8, span: I64, asked: U64, open_: Mask, out: I64, state: I64,
) -> int:  # fmt: skip
    """List pairs whose words satisfy a condition, as rows (d, t, s) of `out`.

    Condition d: the word agrees with `asked[d, 1]` on the bits `asked[d, 0]`, and every bit of
    `asked[d, 2]` differs from the next higher one.
    A condition d is looked for while `open_[d]`; `state[3] = 1` closes it at its first pair. Goes on from
    `state[1], state[2]` (row t, and the strip of s) and stops when `out` may have no room for another
    strip. Returns how many were listed; `state[1] == span[1]` when the tile is done.

    Complexity: O(pairs x (comparisons + conditions) / lanes of a vector).
    """
    width = asked.shape[2]
    acc = np.empty((base.size, STRIP), dtype=base.dtype)
    asked_of_t = np.empty(hopes.shape[0] + 1, dtype=np.int64)
    words = np.empty((width, STRIP), dtype=np.uint64)
    listed = 0
    for t in range(state[1], span[1]):
        count = _hopeful(t, hopes, asked_of_t)
        a = span[2]
        if span[4] == 1:
            a = max(a, t + 1)
        if t == state[1]:
            a = max(a, state[2])
        while a < span[3]:
            b = min(a + STRIP, span[3])
            size = b - a
            needed = 0
            for d in range(open_.size):
                if open_[d]:
                    needed += 1 if state[3] == 1 else size
            if listed + needed > out.shape[0]:
                state[1], state[2] = t, a
                return listed
            _strip_lanes(t, t_codes, s_codes, a, b, plan, bits, base, t_known, s_known, asked_of_t, count, acc)
            _gather(acc, words, size)
            for d in range(open_.size):
                if not open_[d]:
                    continue
                hits = 0
                care = asked[d, 0, 0]
                want = asked[d, 1, 0]
                for j in range(size):
                    hits += (words[0, j] & care) == want
                if hits == 0:
                    continue
                for j in range(size):
                    same = True
                    for w in range(width):
                        word = words[w, j]
                        same = same and (word & asked[d, 0, w]) == asked[d, 1, w]
                        same = same and ((word ^ (word >> np.uint64(1))) & asked[d, 2, w]) == asked[d, 2, w]
                    if same:
                        out[listed, 0], out[listed, 1], out[listed, 2] = d, t, a + j
                        listed += 1
                        if state[3] == 1:
                            open_[d] = False
                            break
            a = b
    state[1], state[2] = span[1], span[2]
    return listed


@kernel
def words_of_pairs(
    t_codes: Lanes, s_codes: Lanes, plan: I64, bits: Lanes, base: Lanes, t_known: Lanes, s_known: Lanes,
    t: I64, s: I64, words: U64,
) -> None:  # fmt: skip
    """Outcome words of listed pairs into `words[:, i]`. Complexity: O(pairs x comparisons)."""
    lane_bits = bits.itemsize * 8
    a_word = 64 // lane_bits
    words[:, :] = np.uint64(0)
    acc = np.empty(base.size, dtype=base.dtype)
    for i in range(t.size):
        acc[:] = base
        for k in range(plan.shape[0]):
            x = t_codes[plan[k, 0], t[i]]
            y = s_codes[plan[k, 1], s[i]]
            g = plan[k, 3]
            if plan[k, 2] == 1:
                if x <= y:
                    acc[g] |= bits[k, 0]
                if x >= y:
                    acc[g] |= bits[k, 1]
            elif x == y:
                acc[g] |= bits[k, 0]
        for g in range(base.size):
            lane = acc[g]
            if s_known.shape[1] > 0:
                lane &= t_known[g, t[i]] & s_known[g, s[i]]
            words[g // a_word, i] |= np.uint64(lane) << np.uint64((g % a_word) * lane_bits)
