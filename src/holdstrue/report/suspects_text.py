"""Suspects as text, records and patches."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from holdstrue.discovery.suspects.answer import Suspects
from holdstrue.report.records import Records
from holdstrue.report.typeset import Cell, Style, aligned, heads, key_word, plural, printable, shorten, word

SHOWN = 20
"""Suspects that text shows unless told otherwise: a window full."""
REASONS = 2
"""Rules that are named for each of them."""


def suspects_text(found: Suspects, style: Style) -> Iterator[str]:
    """The suspects, the surest first, with what they should probably be and why."""
    ink = style.ink
    by = (
        f" by {plural(len(found.rules), 'rule')} and the forms of columns"
        if found.rules
        else " by the forms of columns"
    )
    total = sum(found.by_column.values())
    yield (
        f"{plural(found.rows, 'row')}: {plural(total, 'cell')} probably wrong,{by}\n"
        if found
        else (f"{plural(found.rows, 'row')}: no cell looks wrong\n")
    )
    if not found:
        return
    columns = ", ".join(f"{printable(name)} {n:,}" for name, n in found.by_column.items())
    yield f"  {ink.paint('faint', columns)}\n\n"
    most = SHOWN if style.limit is None else style.limit
    table = [heads("sure", "row", "column", "value", "probably", "because of", right=("sure",))]
    for suspect in found.found[:most]:
        reasons = ", ".join(suspect.why[:REASONS]) + (", …" if len(suspect.why) > REASONS else "")
        table.append(
            [
                Cell(f"{suspect.confidence:.2f}", right=True),
                Cell(_cut(key_word(suspect.key), style)),
                Cell(printable(suspect.column)),
                Cell(_cut(word(suspect.value), style), "bad"),
                Cell("?" if suspect.proposed is None else _cut(word(suspect.proposed), style), "good"),
                Cell(printable(reasons), "faint"),
            ]
        )
    yield from aligned(table, ink)
    if total > most:
        yield f"  {ink.paint('faint', f'… {total - most:,} more (--limit to see more)')}\n"


def _cut(text: str, style: Style) -> str:
    """Long values are cut on a terminal only."""
    return shorten(text) if style.ink.color else text


def suspect_records(found: Suspects) -> Records:
    """One record a suspect."""
    fields = ("row", "column", "value", "proposed", "confidence", "why", "rows")

    def rows() -> Iterator[dict[str, Any]]:
        yield from (suspect.to_dict() for suspect in found)

    return Records(fields, rows())


def patch_parts(found: Suspects, style: Style) -> Iterator[str]:
    """The rows with the proposed values, as CSV of updates that `apply` reads."""
    from pyarrow import csv

    written = io.BytesIO()
    csv.write_csv(found.patch(), written)
    yield written.getvalue().decode("utf-8")
