"""Digests of values: 128 bits that stand for a value, or for a tuple of values, wherever only equality counts.

Both lanes of 64 bits are made alike from keys of their own (`data/seed.py` derives them from a seed), so what
makes one lane collide says nothing about the other.

- A byte string is read as the coefficients of a polynomial over the integers modulo 2^61 - 1: a one, then seven
  bytes each, the last with the number of bytes it holds. So no two strings have the same coefficients, whatever
  their lengths and zero bytes. It is evaluated at a secret point: two strings of up to 7 n bytes share a lane with
  probability at most n / 2^61 over the choice of the seed, whoever chose the strings; up to seven bytes never.
- A tuple is a chain: each value is added to a secret multiple of what came before, and the sum goes through a
  bijection with secret multipliers. So tuples that differ in one place only never share a lane.
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import inline, kernel
from holdstrue.kernels.wide import eight_bytes, product_high
from holdstrue.typing import I32, U8, U64

POINT, STEP, FIRST, SECOND, START, NULL = range(6)
"""What the keys of a lane are: where polynomials are evaluated, the multiplier of what came before, the two of the
bijection, the digest of the empty tuple, and the value that stands for NULL where NULLs are equal."""
KEYS = 6

_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_K1 = np.uint64(0x9E3779B97F4A7C15)
_K2 = np.uint64(0xD6E8FEB86659FD93)
_K3 = np.uint64(0xA0761D6478BD642F)
_K4 = np.uint64(0xE7037ED1A0B428DB)
_S3 = np.uint64(3)
_S29 = np.uint64(29)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)
_S32 = np.uint64(32)
_S61 = np.uint64(61)
_PRIME = np.uint64(2**61 - 1)
_SEVEN = np.uint64(2**56 - 1)


@inline
def mix(x: np.uint64) -> np.uint64:
    """A bijection of 64-bit words in which every input bit reaches every output bit."""
    x = (x ^ (x >> _S30)) * _M1
    x = (x ^ (x >> _S27)) * _M2
    return x ^ (x >> _S31)


@inline
def keyed(x: np.uint64, first: np.uint64, second: np.uint64) -> np.uint64:
    """The same with multipliers (odd) that only the holder of the seed knows."""
    x = (x ^ (x >> _S32)) * first
    x = (x ^ (x >> _S29)) * second
    return x ^ (x >> _S32)


@inline
def _times(a: np.uint64, b: np.uint64) -> np.uint64:
    """A number below 2^61 + 4 that is `a * b` modulo 2^61 - 1, for a below 2^62 and b below 2^61."""
    low = a * b
    # ab = x 2^61 + y and 2^61 = 1, so ab = x + y, here below 3 * 2^61; once more for what that carries
    both = (low & _PRIME) + ((low >> _S61) | (product_high(a, b) << _S3))
    return (both & _PRIME) + (both >> _S61)


@inline
def _reduced(x: np.uint64) -> np.uint64:
    """The residue of a number modulo 2^61 - 1."""
    x = (x & _PRIME) + (x >> _S61)
    return x - _PRIME if x >= _PRIME else x


@inline
def _last(data: U8, at: int | np.int64, end: int | np.int64) -> np.uint64:
    """The bytes that are left (at most seven) and their number, as a word of 59 bits."""
    left = end - at
    word = np.uint64(left) << np.uint64(56)
    if at + 8 <= data.size:
        return word | (eight_bytes(data, at) & ((np.uint64(1) << np.uint64(8 * left)) - np.uint64(1)))
    for i in range(left):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return word


@kernel
def digest_bytes(data: U8, offsets: I32, keys: U64, hi: U64, lo: U64) -> None:
    """Digest the byte strings `data[offsets[i]:offsets[i + 1]]` into `hi[i], lo[i]`.

    With the bytes b"abba" and offsets 0, 1, 2, 3, 4, 4 the first string and the fourth, and no other two, get the
    same digest. Complexity: O(total bytes / 7 + strings).
    """
    upper_point, lower_point = keys[0, POINT], keys[1, POINT]
    upper_first, upper_second = keys[0, FIRST], keys[0, SECOND]
    lower_first, lower_second = keys[1, FIRST], keys[1, SECOND]
    for i in range(offsets.size - 1):
        at = int(offsets[i])
        end = int(offsets[i + 1])
        upper = upper_point
        lower = lower_point
        while at + 8 <= end:
            word = eight_bytes(data, at) & _SEVEN
            upper = _times(upper + word, upper_point)
            lower = _times(lower + word, lower_point)
            at += 7
        word = _last(data, at, end)
        hi[i] = keyed(_reduced(upper + word), upper_first, upper_second)
        lo[i] = keyed(_reduced(lower + word), lower_first, lower_second)


@kernel
def lower_digests(data: U8, offsets: I32, keys: U64, lo: U64) -> None:
    """The lower lane of `digest_bytes` alone, for what is only looked at once. Complexity: as there, half the time.

    >>> data, offsets = np.frombuffer(b"abba", np.uint8).copy(), np.array([0, 1, 2, 3, 4, 4], np.int32)
    >>> keys, one, both = np.arange(3, 3 + 2 * 2 * KEYS, 2, dtype=np.uint64).reshape(2, KEYS), *np.empty((2, 5), "u8")
    >>> lower_digests(data, offsets, keys, one)
    >>> digest_bytes(data, offsets, keys, np.empty(5, np.uint64), both)
    >>> one.tolist() == both.tolist()
    True
    """
    point, first, second = keys[1, POINT], keys[1, FIRST], keys[1, SECOND]
    for i in range(offsets.size - 1):
        at = int(offsets[i])
        end = int(offsets[i + 1])
        lower = point
        while at + 8 <= end:
            lower = _times(lower + (eight_bytes(data, at) & _SEVEN), point)
            at += 7
        lo[i] = keyed(_reduced(lower + _last(data, at, end)), first, second)


@inline
def string_digest(data: U8, at: np.int64, end: np.int64, keys: U64) -> tuple[np.uint64, np.uint64]:
    """The digest of the one byte string `data[at:end]`, as `digest_bytes` has it. Complexity: O(bytes / 7)."""
    upper = keys[0, POINT]
    lower = keys[1, POINT]
    while at + 8 <= end:
        word = eight_bytes(data, at) & _SEVEN
        upper = _times(upper + word, keys[0, POINT])
        lower = _times(lower + word, keys[1, POINT])
        at += 7
    word = _last(data, at, end)
    hi = keyed(_reduced(upper + word), keys[0, FIRST], keys[0, SECOND])
    return hi, keyed(_reduced(lower + word), keys[1, FIRST], keys[1, SECOND])


@inline
def extended(state: np.uint64, word: np.uint64, keys: U64, lane: int) -> np.uint64:
    """One lane of the digest of a tuple with one more word."""
    return keyed(state * keys[lane, STEP] + word, keys[lane, FIRST], keys[lane, SECOND])


@kernel
def extend_key(hi: U64, lo: U64, value_hi: U64, value_lo: U64, keys: U64) -> None:
    """Append one more value, given by its digest, to the digest of a tuple. Complexity: O(n).

    Examples
    --------
    The pairs (1, 2), (1, 3), (2, 1), (1, 2), (2, 2), a word at a time: the first and the fourth are one value.

    >>> keys = np.arange(3, 3 + 2 * 2 * KEYS, 2, dtype=np.uint64).reshape(2, KEYS)
    >>> hi, lo = np.full((2, 5), 11, dtype=np.uint64)
    >>> for words in ([1, 1, 2, 1, 2], [2, 3, 1, 2, 2]):
    ...     extend_key_by_words(hi, lo, np.array(words, dtype=np.uint64), keys)
    >>> len(set(hi.tolist())), bool(hi[0] == hi[3] and lo[0] == lo[3])
    (4, True)
    """
    step, first, second = keys[0, STEP], keys[0, FIRST], keys[0, SECOND]
    for i in range(hi.size):
        hi[i] = keyed(hi[i] * step + value_hi[i], first, second)
    step, first, second = keys[1, STEP], keys[1, FIRST], keys[1, SECOND]
    for i in range(lo.size):
        lo[i] = keyed(lo[i] * step + value_lo[i], first, second)


@kernel
def extend_key_by_words(hi: U64, lo: U64, words: U64, keys: U64) -> None:
    """The same for values that are 64-bit words themselves. Complexity: O(n)."""
    step, first, second = keys[0, STEP], keys[0, FIRST], keys[0, SECOND]
    upper_step, upper_first, upper_second = step, first, second
    step, first, second = keys[1, STEP], keys[1, FIRST], keys[1, SECOND]
    for i in range(hi.size):
        word = words[i]
        hi[i] = keyed(hi[i] * upper_step + word, upper_first, upper_second)
        lo[i] = keyed(lo[i] * step + word, first, second)


@kernel
def checksum(words: U64) -> np.uint64:
    """A 64-bit checksum of a buffer read as words, at about the speed of memory. Complexity: O(n)."""
    a = _K1
    b = _K2
    c = _K3
    d = _K4
    n = words.size
    whole = n - n % 4
    for i in range(0, whole, 4):
        a = (a ^ words[i]) * _M1
        b = (b ^ words[i + 1]) * _M2
        c = (c ^ words[i + 2]) * _K3
        d = (d ^ words[i + 3]) * _K4
    for i in range(whole, n):
        a = (a ^ words[i]) * _M1
        a ^= a >> _S31
    return mix(mix(mix(mix(a) + b) + c) + d + np.uint64(n))
