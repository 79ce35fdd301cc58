"""The outer structure of JSON lines, looked at before a parser that trusts it: one object a line, not too deep."""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import kernel
from holdstrue.typing import U8

PLAIN, ODD, NOT_OBJECTS, DEEP = range(4)
"""What a text is: one object a line; the same with a word that is not JSON (NaN); something else; too deep."""

_OTHER, _LINE_END, _BLANK, _QUOTE, _BACKSLASH, _OPEN, _OPEN_LIST, _CLOSE, _ODD = range(9)

_KIND = np.zeros(256, dtype=np.uint8)
for _kind, _letters in (
    (_LINE_END, b"\n"), (_BLANK, b" \t\r"), (_QUOTE, b'"'), (_BACKSLASH, b"\\"), (_OPEN, b"{"), (_OPEN_LIST, b"["),
    (_CLOSE, b"}]"), (_ODD, b"IN"),
):  # fmt: skip
    _KIND[list(_letters)] = _kind


@kernel
def shape_of_lines(text: U8, deepest: int) -> tuple[int, int]:
    """What a text is, and where that shows.

    Strings and brackets are followed, nothing else: what is inside an object may still be no JSON, and a
    bracket may be closed by the other kind. A text is DEEP wherever it is, whatever was found before.

    Complexity: O(bytes).

    Examples
    --------
    >>> def shape(text): return shape_of_lines(np.frombuffer(text, np.uint8), 2)
    >>> shape(b'{"a": "}{"}') == (PLAIN, 0), shape(b'{"a": 1}{"a": 2}') == (NOT_OBJECTS, 8)
    (True, True)
    >>> shape(b'null') == (NOT_OBJECTS, 0), shape(b'{"a": NaN}') == (ODD, 6), shape(b'{"a": [[]]}') == (DEEP, 7)
    (True, True, True)
    """
    verdict, place = PLAIN, 0
    depth = 0
    closed = quoted = escaped = False
    for at in range(text.size):
        kind = _KIND[text[at]]
        if quoted:
            if escaped:
                escaped = False
            elif kind == _BACKSLASH:
                escaped = True
            elif kind == _QUOTE:
                quoted = False
            if kind != _LINE_END:
                continue
            # a line ends whatever is open in it, so that the next one is judged by itself
            quoted = escaped = False
            depth = max(depth, 1)
        if kind == _BLANK:
            continue
        if kind == _LINE_END:
            if depth > 0 and verdict < NOT_OBJECTS:
                verdict, place = NOT_OBJECTS, at
            depth = 0
            closed = False
            continue
        if depth == 0 and (closed or kind != _OPEN) and verdict < NOT_OBJECTS:
            verdict, place = NOT_OBJECTS, at
        if kind == _QUOTE:
            quoted = True
        elif kind in (_OPEN, _OPEN_LIST):
            depth += 1
            if depth > deepest:
                return DEEP, at
        elif kind == _CLOSE:
            depth = max(0, depth - 1)
            closed = depth == 0
        elif kind == _ODD and verdict < ODD:
            verdict, place = ODD, at
    if (depth > 0 or quoted) and verdict < NOT_OBJECTS:
        verdict, place = NOT_OBJECTS, text.size
    return verdict, place
