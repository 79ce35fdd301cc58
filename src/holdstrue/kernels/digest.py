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
_S8 = np.uint64(8)


@inline
def mix(x: np.uint64) -> np.uint64:
    """A bijection of 64-bit words in which every input bit reaches every output bit."""
    x = (x ^ (x >> _S30)) * _M1
    x = (x ^ (x >> _S27)) * _M2
    return x ^ (x >> _S31)


@kernel
def digest_bytes(data: NDArray[np.uint8], offsets: NDArray[np.int64], hi: U64, lo: U64) -> None:
    """Digest the byte strings `data[offsets[i]:offsets[i + 1]]` into `hi[i], lo[i]`.

    Complexity: O(total bytes / 8 + strings).
    """
    for i in range(offsets.size - 1):
        start = offsets[i]
        end = offsets[i + 1]
        h1 = _K1 ^ np.uint64(end - start)
        h2 = _K2 + np.uint64(end - start)
        at = start
        while at + 8 <= end:
            word = np.uint64(0)
            for j in range(8):
                word |= np.uint64(data[at + j]) << (np.uint64(j) * _S8)
            h1 = ((h1 ^ word) * _M1) ^ (h1 >> _S29)
            h1 = (h1 << _S31) | (h1 >> np.uint64(33))
            h2 = (h2 + word * _K3) * _M2
            h2 = (h2 << _S29) | (h2 >> _S35)
            at += 8
        word = np.uint64(0)
        shift = np.uint64(0)
        while at < end:
            word |= np.uint64(data[at]) << shift
            shift += _S8
            at += 1
        h1 = (h1 ^ word) * _K3
        h2 = (h2 + word) * _K4
        lo[i] = mix(h1 ^ (h1 >> _S32))
        hi[i] = mix((h2 ^ (h2 >> _S29)) + h1)


@kernel
def digest_words(codes: NDArray[np.int64], hi: U64) -> None:
    """The second lane of values that are their own first lane. Complexity: O(n)."""
    for i in range(codes.size):
        hi[i] = mix(np.uint64(codes[i]) * _K4 + _K2)


@kernel
def start_key(hi: U64, lo: U64) -> None:
    """Begin the digest of a tuple of values. Complexity: O(n)."""
    for i in range(hi.size):
        hi[i] = _K4
        lo[i] = _K3


@kernel
def extend_key(hi: U64, lo: U64, value_hi: U64, value_lo: U64) -> None:
    """Append one more value to the digest of a tuple. Complexity: O(n)."""
    for i in range(hi.size):
        lo[i] = mix(lo[i] * _K1 + value_lo[i])
        hi[i] = mix(hi[i] * _K2 + value_hi[i] + (value_lo[i] >> _S32))


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
