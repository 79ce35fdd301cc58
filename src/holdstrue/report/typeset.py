"""Setting text: safe short words, aligned columns, and ink that is colour on a terminal and nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from rich.cells import cell_len

if TYPE_CHECKING:
    from holdstrue.monitor.report import Report
    from holdstrue.report.lookup import Lookup
import json
from itertools import takewhile
from typing import Any

from rich.cells import set_cell_size

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


Tone: TypeAlias = Literal["plain", "bad", "good", "note", "mark", "faint", "strong"]

_CODES: dict[Tone, str] = {
    "plain": "",
    "bad": "1;31",
    "good": "32",
    "note": "33",
    "mark": "1;33",
    "faint": "2",
    "strong": "1",
}
GAP = "   "


@dataclass(frozen=True)
class Ink:
    """Paints words for a terminal, or leaves them as they are.

    >>> Ink().paint("bad", "x"), Ink(color=True).paint("bad", "x")
    ('x', '\\x1b[1;31mx\\x1b[0m')
    """

    color: bool = False

    def paint(self, tone: Tone, text: str) -> str:
        """The text in a tone."""
        code = _CODES[tone]
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and code and text else text


@dataclass(frozen=True)
class Style:
    """How an answer is to be shown: how much of each list, in which ink, and where the rows behind it are found."""

    limit: int | None = None
    ink: Ink = Ink()
    rows: Report | Lookup | None = None


@dataclass(frozen=True)
class Cell:
    """A word in a table, with its tone."""

    text: str
    tone: Tone = "plain"
    right: bool = False


def heads(*names: str, right: Sequence[str] = ()) -> list[Cell]:
    """The first line of a table; the names in `right` stand over numbers."""
    return [Cell(name, "faint", name in right) for name in names]


def aligned(rows: Sequence[Sequence[Cell]], ink: Ink, indent: str = "  ") -> Iterator[str]:
    r"""Rows as lines with aligned columns; an empty row is an empty line.

    >>> list(aligned([[Cell("id"), Cell("city")], [Cell("7", right=True), Cell("Bonn")]], Ink()))
    ['  id   city\n', '   7   Bonn\n']
    """
    widths: dict[int, int] = {}
    for row in rows:
        for at, cell in enumerate(row):
            widths[at] = max(widths.get(at, 0), cell_len(cell.text))
    for row in rows:
        parts = []
        for at, cell in enumerate(row):
            space = " " * (widths[at] - cell_len(cell.text))
            painted = ink.paint(cell.tone, cell.text)
            last = at == len(row) - 1
            parts.append(space + painted if cell.right else painted + ("" if last else space))
        yield (indent + GAP.join(parts)).rstrip(" ") + "\n" if row else "\n"
