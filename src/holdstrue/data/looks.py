"""What the values of a text column look like: numbers, decimal commas, dates, and the few cells that do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SAMPLE = 20_000
"""Cells that tell what a column may look like; only where most of them agree is the whole column looked at."""

NEARLY_ALL = 0.9
"""The share of values from which on they are taken for what they look like."""

FEW = 3
"""Cells that may always be called a few, as long as more values than that look alike."""


@dataclass(frozen=True)
class Look:
    """A way to write values.

    `pattern` is understood by Arrow and by Java alike.
    """

    words: str
    pattern: str
    declare: Callable[[list[str]], str]
    """The type to declare for such values."""
    read: bool = False
    """Whether a CSV file whose cells are all written so is read as values rather than as text."""
    ordered: bool = False
    """Whether the order of such text is the order of its values."""


def _number_type(cells: list[str]) -> str:
    if any(letter in cell for cell in cells for letter in "eE"):
        return "number"
    return "decimal" if any("." in cell for cell in cells) else "integer"


def _comma_type(cells: list[str]) -> str:
    """A decimal comma, unless all commas may as well separate thousands."""
    parts = [cell.strip().partition(",")[2] for cell in cells if "," in cell]
    return "decimal(comma) or text" if parts and all(len(part) == 3 for part in parts) else "decimal(comma)"


def _clock_type(cells: list[str]) -> str:
    return "time(%H:%M:%S)" if any(cell.count(":") > 1 for cell in cells) else "time(%H:%M)"


def _slashed(separator: str) -> Callable[[list[str]], str]:
    """Day or month first: by the first cell that tells."""

    def declare(cells: list[str]) -> str:
        day, month = f"%d{separator}%m{separator}%Y", f"%m{separator}%d{separator}%Y"
        for cell in cells:
            first, second, *_ = cell.strip().split(separator)
            if int(first) > 12 or int(second) > 12:
                return _timed(day if int(first) > 12 else month, cells)
        return f"{_timed(day, cells)} or {_timed(month, cells)}"

    return declare


def _by(format_: str) -> Callable[[list[str]], str]:
    return lambda cells: _timed(format_, cells)


def _timed(format_: str, cells: list[str]) -> str:
    clock = max(cell.count(":") for cell in cells)
    return f"timestamp({format_} {'%H:%M:%S' if clock > 1 else '%H:%M'})" if clock else f"date({format_})"


_CLOCK = r"([ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2})?)?"
_D, _Y = "[0-9]{1,2}", "[0-9]{4}"

LOOKS = (
    Look("numbers", r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$", _number_type, read=True),
    Look("numbers with a decimal comma", r"^\s*[+-]?[0-9]+(,[0-9]+)?\s*$", _comma_type),
    Look("numbers with separated thousands", r"^\s*[+-]?[0-9]{1,3}([,.' ][0-9]{3})+([.,][0-9]+)?\s*$",
         lambda _: "text"),
    Look("numbers with separated thousands", r"^\s*[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]+)?\s*$",
         lambda _: "text"),
    Look("numbers with separated thousands", r"^\s*[+-]?([0-9]+|[0-9]{1,3}(,[0-9]{3})+)(\.[0-9]+)?\s*$",
         lambda _: "text"),
    Look("dates", rf"^\s*{_D}\.{_D}\.{_Y}{_CLOCK}\s*$", _by("%d.%m.%Y")),
    Look("dates", rf"^\s*{_D}\.{_D}\.[0-9]{{2}}{_CLOCK}\s*$", _by("%d.%m.%y")),
    Look("dates", rf"^\s*{_D}/{_D}/{_Y}{_CLOCK}\s*$", _slashed("/")),
    Look("dates", rf"^\s*{_D}-{_D}-{_Y}{_CLOCK}\s*$", _slashed("-")),
    Look("dates", rf"^\s*{_Y}/{_D}/{_D}{_CLOCK}\s*$", _by("%Y/%m/%d")),
    Look("dates", rf"^\s*{_Y}\.{_D}\.{_D}{_CLOCK}\s*$", _by("%Y.%m.%d")),
    Look("dates", rf"^\s*{_D} [A-Za-z]{{3}} {_Y}{_CLOCK}\s*$", _by("%d %b %Y")),
    Look("dates", rf"^\s*{_D}-[A-Za-z]{{3}}-{_Y}{_CLOCK}\s*$", _by("%d-%b-%Y")),
    Look("ISO dates", r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", lambda _: "date", read=True, ordered=True),
    Look("ISO timestamps", r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?$",
         lambda _: "timestamp", read=True, ordered=True),
    Look("dates", rf"^\s*{_Y}-{_D}-{_D}{_CLOCK}\s*$", _by("%Y-%m-%d")),
    Look("times", r"^[0-2][0-9]:[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?$", lambda _: "time", read=True, ordered=True),
    Look("times", r"^\s*[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?\s*$", _clock_type),
    Look("booleans", r"^(true|false|True|False|TRUE|FALSE)$", lambda _: "boolean", read=True, ordered=True),
)  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What the values of a column look like, and the first that does not."""

    look: Look
    alike: int
    odd: int
    """How many values do not look so."""
    type: str
    """What to declare."""
    row: int
    """The first row that looks so."""
    cell: str
    odd_row: int = -1
    odd_cell: str = ""

    @property
    def nearly_all(self) -> bool:
        """Whether all values look so but for few."""
        return self.alike >= NEARLY_ALL * (self.alike + self.odd) or (self.odd == 1 and self.alike >= FEW)

    @property
    def but_few(self) -> bool:
        """Whether the others are a few cells, however small the column is."""
        return self.nearly_all or (self.odd <= FEW and self.alike > self.odd)


def look_of(column: Any) -> Seen | None:
    """What most values of a text column look like; None where that is nothing in particular.

    Runtime complexity: O(n) where a sample looks alike, else O(SAMPLE).

    >>> seen = look_of(pa.chunked_array([["1", "2", "n/a", "4"]]))
    >>> seen.type, seen.odd_row, seen.odd_cell, seen.nearly_all
    ('integer', 2, 'n/a', True)
    """
    n = len(column)
    some = column
    if n > SAMPLE:
        some = column.take(pa.array(np.linspace(0, n - 1, SAMPLE).astype(np.int64)))
    values = pc.drop_null(some)
    if not len(values):
        return None
    shares = [pc.sum(pc.match_substring_regex(values, look.pattern)).as_py() / len(values) for look in LOOKS]
    best = int(np.argmax(shares))
    return None if shares[best] <= 0.5 else _seen(column, LOOKS[best])


def _seen(column: Any, look: Look) -> Seen | None:
    matches = pc.match_substring_regex(column, look.pattern)
    alike = np.asarray(pc.fill_null(matches, False)).astype(bool)
    odd = ~alike & np.asarray(pc.is_valid(column)).astype(bool)
    rows, others = np.flatnonzero(alike), np.flatnonzero(odd)
    if not rows.size:
        return None
    # all cells may tell the type, but some thousands are as good
    some = rows[np.linspace(0, rows.size - 1, min(rows.size, 2000)).astype(np.int64)]
    shown = column.take(pa.array(some)).to_pylist()
    first = int(rows[0])
    odd_row = int(others[0]) if others.size else -1
    odd_cell = column[odd_row].as_py() if others.size else ""
    return Seen(look, rows.size, others.size, look.declare(shown), first, column[first].as_py(), odd_row, odd_cell)
