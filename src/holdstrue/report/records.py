"""Answers as records, one after the other: JSON lines and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdstrue.detect.delta import Delta
from holdstrue.monitor.report import Findings
from holdstrue.report.answers import Groups, Listing, Standing, Worst, offender_dict
from holdstrue.report.words import json_text

CHUNK = 1000
"""Records written at once: few calls, and never more than some 100 KB in memory."""


@dataclass(frozen=True)
class Records:
    """Plain records that all have these fields, or fewer."""

    fields: tuple[str, ...]
    rows: Iterable[Mapping[str, Any]]


def records_of(answer: Findings | Delta | Listing | Groups | Worst | Standing) -> Records:
    """The list at the heart of an answer, as records that are made while they are read."""
    match answer:
        case Delta():
            changes = (("added", answer.added), ("removed", answer.removed))
            return Records(
                ("change", "rule", "t", "s"),
                ({"change": change, **v.to_dict()} for change, violations in changes for v in violations),
            )
        case Groups():
            return Records(("rule", "values", "rows", "sides"), (group.to_dict() for group in answer))
        case Worst():
            return Records(("key", "total", "by_rule"), (offender_dict(offender) for offender in answer))
        case Standing():
            if answer.history is not None:
                return Records(
                    ("batch", "time", "rule", "added", "removed", "open"), (vars(line) for line in answer.history)
                )
            return Records(
                ("name", "kind", "text", "severity", "rows", "pairs", "groups", "status", "open"), answer.rules()
            )
        case _:
            listed = answer.listed() if isinstance(answer, Findings) else answer
            return Records(("rule", "t", "s"), (violation.to_dict() for violation in listed))


def jsonl_parts(records: Records) -> Iterator[str]:
    """One JSON object a line."""
    yield from _joined(json_text(row) + "\n" for row in records.rows)


def csv_parts(records: Records) -> Iterator[str]:
    """Comma-separated values with a header; a key of several columns is JSON text, an absent value is empty."""
    yield _csv_line([*records.fields])
    yield from _joined(_csv_line([_csv_cell(row.get(name)) for name in records.fields]) for row in records.rows)


def _csv_line(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict | bool):
        return json_text(value)
    return str(value)


def _joined(lines: Iterable[str]) -> Iterator[str]:
    held: list[str] = []
    for line in lines:
        held.append(line)
        if len(held) >= CHUNK:
            yield "".join(held)
            held = []
    yield "".join(held)
