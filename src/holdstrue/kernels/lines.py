"""The outer structure of JSON lines, looked at before a parser that trusts it: one object a line, not too deep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdstrue.kernels.jit import kernel

PLAIN, ODD, NOT_OBJECTS, DEEP = range(4)
"""What a text is: one object a line; the same with a word that is not JSON's (NaN); something else; nested too deeply."""

_LINE_END, _SPACE, _TAB, _RETURN = 10, 32, 9, 13
_QUOTE, _BACKSLASH, _OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = 34, 92, 123, 125, 91, 93
_I, _N = 73, 78


@kernel
def shape_of_lines(text: NDArray[np.uint8], deepest: int) -> tuple[int, int]:
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
        byte = text[at]
        if quoted:
            if escaped:
                escaped = False
            elif byte == _BACKSLASH:
                escaped = True
            elif byte == _QUOTE:
                quoted = False
            if byte != _LINE_END:
                continue
            # a line ends whatever is open in it, so that the next one is judged by itself
            quoted = escaped = False
            depth = max(depth, 1)
        if byte == _LINE_END:
            if depth > 0 and verdict < NOT_OBJECTS:
                verdict, place = NOT_OBJECTS, at
            depth = 0
            closed = False
        elif byte == _SPACE or byte == _TAB or byte == _RETURN:
            continue
        else:
            if depth == 0 and (closed or byte != _OPEN) and verdict < NOT_OBJECTS:
                verdict, place = NOT_OBJECTS, at
            if byte == _QUOTE:
                quoted = True
            elif byte == _OPEN or byte == _OPEN_LIST:
                depth += 1
                if depth > deepest:
                    return DEEP, at
            elif byte == _CLOSE or byte == _CLOSE_LIST:
                depth = max(0, depth - 1)
                closed = depth == 0
            elif (byte == _I or byte == _N) and verdict < ODD:
                verdict, place = ODD, at
    if (depth > 0 or quoted) and verdict < NOT_OBJECTS:
        verdict, place = NOT_OBJECTS, text.size
    return verdict, place
