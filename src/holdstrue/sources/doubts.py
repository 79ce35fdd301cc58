"""Columns of CSV files that became text although nearly all of their cells look like something else."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

import pyarrow as pa

from holdstrue.data.looks import look_of
from holdstrue.sources.fit import is_text

_SHOWN = 40


@dataclass(frozen=True)
class Doubt:
    """A column that may not be meant as text, and the cell that says why."""

    column: str
    words: str
    """What its cells look like."""
    type: str
    row: int
    cell: str
    odd: int
    """How many cells look otherwise; 0 where all look alike and must be declared to be read so."""

    def note(self, place: Callable[[int], str]) -> str:
        """What to tell people about it."""
        shown = repr(self.cell[:_SHOWN])
        quoted = shlex.quote(f"{self.column}={self.type.split(' or ')[0]}")
        meant = f"{shlex.quote(self.column + '=text')} if it is meant as text"
        if not self.odd:
            either = f" (or {self.type.split(' or ')[1]})" if " or " in self.type else ""
            return (
                f"column {self.column!r} is read as text: its cells look like {self.words}, as {shown} in "
                f"{place(self.row)}; declare --type {quoted}{either}, or --type {meant}"
            )
        others = f" and {self.odd - 1} more" if self.odd > 1 else ""
        return (
            f"column {self.column!r} is read as text because of {shown} in {place(self.row)}{others}; the rest are "
            f"{self.words}: --null-value {shlex.quote(self.cell[:_SHOWN])} if that means NULL, or --type {meant}"
        )


def doubts(table: pa.Table, columns: Iterable[str], declared: Container[str]) -> list[Doubt]:
    """What there is to say about the text columns of a CSV file.

    Runtime complexity: O(a sample) for a column of ordinary text, O(rows) for one that looks like something else.

    >>> [doubt] = doubts(pa.table({"qty": ["1", "2", "n/a", "4"]}), ["qty"], ())
    >>> print(doubt.note(lambda i: f"row {i + 1} of t.csv"))  # doctest: +NORMALIZE_WHITESPACE
    column 'qty' is read as text because of 'n/a' in row 3 of t.csv; the rest are numbers:
    --null-value n/a if that means NULL, or --type qty=text if it is meant as text
    """
    found = []
    for name in columns:
        if name in declared or name not in table.column_names or not is_text(table.schema.field(name).type):
            continue
        seen = look_of(table.column(name))
        if seen is None or not seen.but_few:
            continue
        look = seen.look
        if seen.odd and look.read:
            found.append(Doubt(name, look.words, seen.type, seen.odd_row, seen.odd_cell, seen.odd))
        elif not look.read and seen.nearly_all:
            found.append(Doubt(name, look.words, seen.type, seen.row, seen.cell, 0))
    return found
