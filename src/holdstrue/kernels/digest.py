"""Digests of values: 128 bits that stand for a value, or for a tuple of values, wherever only equality counts.

Two lanes of 64 bits are mixed independently, so two different values share a digest with
probability about 2^-128. A digest depends on the value alone: it is the same in every process, on
every site and in every state directory, and needs no dictionary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdstrue.kernels.jit import inline, kernel

U64 = NDArray[np.uint64]

_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_K1 = np.uint64(0x9E3779B97F4A7C15)
_K2 = np.uint64(0xD6E8FEB86659FD93)
_K3 = np.uint64(0xA0761D6478BD642F)
_K4 = np.uint64(0xE7037ED1A0B428DB)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)
_S32 = np.uint64(32)
_S29 = np.uint64(29)
_S35 = np.uint64(35)

EMPTY_KEY = (_K4, _K3)
"""The digest of an empty tuple, from which the digest of a longer one is extended."""


@inline
def mix(x: np.uint64) -> np.uint64:
    """A bijection of 64-bit words in which every input bit reaches every output bit."""
    x = (x ^ (x >> _S30)) * _M1
    x = (x ^ (x >> _S27)) * _M2
    return x ^ (x >> _S31)


@inline
def _eight(data: NDArray[np.uint8], at: int) -> np.uint64:
    """Eight bytes as a little-endian word; written out so that the compiler makes one load of it."""
    return (
        np.uint64(data[at])
        | (np.uint64(data[at + 1]) << np.uint64(8))
        | (np.uint64(data[at + 2]) << np.uint64(16))
        | (np.uint64(data[at + 3]) << np.uint64(24))
        | (np.uint64(data[at + 4]) << np.uint64(32))
        | (np.uint64(data[at + 5]) << np.uint64(40))
        | (np.uint64(data[at + 6]) << np.uint64(48))
        | (np.uint64(data[at + 7]) << np.uint64(56))
    )


@inline
def _last(data: NDArray[np.uint8], at: int, end: int) -> np.uint64:
    """The bytes that are left (fewer than eight) as a word."""
    left = end - at
    if left == 0:
        return np.uint64(0)
    if at + 8 <= data.size:
        return _eight(data, at) & ((np.uint64(1) << np.uint64(8 * left)) - np.uint64(1))
    word = np.uint64(0)
    for i in range(left):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return word


@kernel
def digest_bytes(data: NDArray[np.uint8], offsets: NDArray[np.int32], hi: U64, lo: U64) -> None:
    """Digest the byte strings `data[offsets[i]:offsets[i + 1]]` into `hi[i], lo[i]`.

    Complexity: O(total bytes / 8 + strings).
    """
    for i in range(offsets.size - 1):
        at = int(offsets[i])
        end = int(offsets[i + 1])
        h1 = _K1 ^ np.uint64(end - at)
        h2 = _K2 + np.uint64(end - at)
        while at + 8 <= end:
            word = _eight(data, at)
            h1 = ((h1 ^ word) * _M1) ^ (h1 >> _S29)
            h1 = (h1 << _S31) | (h1 >> np.uint64(33))
            h2 = (h2 + word * _K3) * _M2
            h2 = (h2 << _S29) | (h2 >> _S35)
            at += 8
        word = _last(data, at, end)
        h1 = (h1 ^ word) * _K3
        h2 = (h2 + word) * _K4
        lo[i] = mix(h1 ^ (h1 >> _S32))
        hi[i] = mix((h2 ^ (h2 >> _S29)) + h1)


@kernel
def extend_key(hi: U64, lo: U64, value_hi: U64, value_lo: U64) -> None:
    """Append one more value, given by its digest, to the digest of a tuple. Complexity: O(n)."""
    for i in range(hi.size):
        lo[i] = mix(lo[i] * _K1 + value_lo[i])
        hi[i] = mix(hi[i] * _K2 + value_hi[i] + (value_lo[i] >> _S32))


@kernel
def extend_key_by_words(hi: U64, lo: U64, words: U64) -> None:
    """The same for values that are 64-bit words themselves. Complexity: O(n)."""
    for i in range(hi.size):
        lo[i] = mix(lo[i] * _K1 + words[i])
        hi[i] = mix(hi[i] * _K2 + mix(words[i] * _K4 + _K2) + (words[i] >> _S32))


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
