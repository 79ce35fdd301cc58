"""Setting text: aligned columns, how much is shown, and ink that is colour on a terminal and nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from rich.cells import cell_len

if TYPE_CHECKING:
    from holdstrue.monitor.report import Report
    from holdstrue.report.lookup import Lookup

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
