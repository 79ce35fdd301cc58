"""Answers as records, one after the other: JSON lines and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdstrue.detect.delta import Delta
from holdstrue.monitor.report import Findings
from holdstrue.report.answers import BatchLine, Groups, OpenViolations, Status, Worst, offender_dict
from holdstrue.report.typeset import json_text

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula can start with, in wide letters too."""
_PLAIN_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
CHUNK = 1000
"""Records written at once: few calls, and never more than some 100 KB in memory."""


@dataclass(frozen=True)
class Records:
    """Plain records that all have these fields, or fewer."""

    fields: tuple[str, ...]
    rows: Iterable[Mapping[str, Any]]


def violation_records(answer: Findings | OpenViolations) -> Records:
    """Violations, made while they are read."""
    listed = answer.listed() if isinstance(answer, Findings) else answer
    return Records(("rule", "t", "s"), (violation.to_dict() for violation in listed))


def delta_records(delta: Delta) -> Records:
    """What a batch added, then what it removed."""
    changes = (("added", delta.added), ("removed", delta.removed))
    return Records(
        ("change", "rule", "t", "s"),
        ({"change": change, **v.to_dict()} for change, violations in changes for v in violations),
    )


def line_records(line: BatchLine) -> Records:
    """One batch of a stream."""
    data = line.to_dict()
    return Records(tuple(data), (data,))


def group_records(groups: Groups) -> Records:
    """Violating groups."""
    return Records(("rule", "values", "rows", "sides"), (group.to_dict() for group in groups))


def worst_records(worst: Worst) -> Records:
    """Rows in most violations."""
    return Records(("key", "total", "by_rule"), (offender_dict(offender) for offender in worst))


def status_records(status: Status) -> Records:
    """The rules with their counts, or the history where that was asked for."""
    if status.history is not None:
        return Records(("batch", "time", "rule", "added", "removed", "open"), (vars(line) for line in status.history))
    return Records(("name", "kind", "text", "severity", "rows", "pairs", "groups", "status", "open"), status.rules())


def jsonl_parts(records: Records) -> Iterator[str]:
    """One JSON object a line."""
    yield from _joined(json_text(row) + "\n" for row in records.rows)


def raw_csv_parts(records: Records) -> Iterator[str]:
    """CSV with all cells as they are, for programs that know no apostrophes."""
    return _csv_parts(records, _csv_cell)


def csv_parts(records: Records) -> Iterator[str]:
    """Comma-separated values with a header; a key of several columns is JSON text, an absent value is empty.

    CSV is opened in spreadsheets, so text that one could take for a formula gets an apostrophe in front. Numbers stay
    numbers, and the text is had again by taking one apostrophe off wherever a formula follows.
    """
    return _csv_parts(records, _harmless_cell)


def _csv_parts(records: Records, cell: Callable[[Any], str]) -> Iterator[str]:
    yield _csv_line([*records.fields])
    yield from _joined(_csv_line([cell(row.get(name)) for name in records.fields]) for row in records.rows)


def _harmless_cell(value: Any) -> str:
    """A cell that no spreadsheet takes for a formula: text that starts like one gets an apostrophe in front.

    So does text that already has apostrophes there, which tells it from what was put in front.

    >>> [_harmless_cell(value) for value in ("=1+1", "@SUM(A1)", -5, "-5", "Bonn", "'=1", "'tis")]
    ["'=1+1", "'@SUM(A1)", '-5', '-5', 'Bonn', "''=1", "'tis"]
    """
    text = _csv_cell(value)
    if not isinstance(value, str) or _PLAIN_NUMBER.fullmatch(text):
        return text
    return f"'{text}" if text.lstrip("'")[:1] in _FORMULA else text


def _csv_line(cells: list[str]) -> str:
    line = io.StringIO()
    # cells are quoted for what stands in the line's end, so a lone carriage return is by this one
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n") + "\n"


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
