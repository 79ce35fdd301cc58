"""Numbers, keys and values as short, safe words for a line of text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from rich.cells import cell_len, set_cell_size

from holdstrue.detect.delta import Key

WIDEST = 40
"""Terminal cells a value takes at most: two rows of four such values still fit a wide window."""

CONTEXT = 8
"""Characters kept before the first difference when a long value is cut in front."""


def plural(count: int, noun: str) -> str:
    """A number with thousands separators and its noun.

    >>> plural(1, "row"), plural(12345, "row"), plural(2, "batch")
    ('1 row', '12,345 rows', '2 batches')
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}{'es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def printable(text: str) -> str:
    r"""Text in which nothing can steer a terminal or break a line: such characters are written as escapes.

    >>> printable("a\nb\x1b[31m é")
    'a\\nb\\x1b[31m é'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def word(value: Any) -> str:
    """A value as it stands in a table cell; quoted where its ends would not be seen.

    >>> word(None), word("Bonn"), word("Bonn "), word(""), word(1.5), word("NULL")
    ('NULL', 'Bonn', "'Bonn '", "''", '1.5', "'NULL'")
    """
    if value is None:
        return "NULL"
    if isinstance(value, str):
        shown = printable(value)
        return f"'{shown}'" if value != value.strip() or value in ("", "NULL") else shown
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return printable(str(value))


def key_word(key: Key) -> str:
    """A row's key: its value, or its values in brackets.

    >>> key_word(7), key_word((212, "5551234"))
    ('7', '(212, 5551234)')
    """
    return f"({', '.join(word(part) for part in key)})" if isinstance(key, tuple) else word(key)


def shorten(text: str, width: int = WIDEST) -> str:
    """Text cut to so many terminal cells, with an ellipsis where it was cut.

    >>> shorten("a" * 50, 6), shorten("東京都庁", 5)
    ('aaaaa…', '東京…')
    """
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip(" ") + "…"


def shorten_together(texts: Sequence[str], width: int = WIDEST) -> list[str]:
    """Texts cut to so many terminal cells each, from the front where their ends are what tells them apart.

    >>> shorten_together(["x" * 90 + "one", "x" * 90 + "two"], 20)
    ['…xxxxxxxxone', '…xxxxxxxxtwo']
    """
    short = [shorten(text, width) for text in texts]
    if len(set(short)) == len(set(texts)):
        return short
    start = sum(1 for _ in takewhile(lambda at: len(set(at)) == 1, zip(*texts, strict=False))) - CONTEXT
    return [shorten("…" + text[start:], width) for text in texts] if start > 0 else short


def json_text(data: Any, *, indent: int | None = None) -> str:
    """JSON that every reader takes: numbers JSON does not have are written as text.

    >>> json_text({"t": float("nan"), "s": "é"})
    '{"t": "nan", "s": "é"}'
    """
    try:
        return json.dumps(data, ensure_ascii=False, indent=indent, allow_nan=False, default=str)
    except ValueError:
        return json.dumps(_finite(data), ensure_ascii=False, indent=indent, default=str)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, float) and data - data != 0:
        return str(data)
    return data
