"""One door to every form: `render(answer, format)`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from holdstrue.detect.delta import Delta
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.report import Findings, Report
from holdstrue.report.answers import Groups, Listing, Standing, Worst
from holdstrue.report.delta_text import delta_text
from holdstrue.report.junit import junit_text
from holdstrue.report.layout import Ink
from holdstrue.report.lookup import Lookup, ReportLookup
from holdstrue.report.records import csv_parts, jsonl_parts, records_of
from holdstrue.report.text import groups_text, report_text, standing_text, worst_text
from holdstrue.report.words import json_text

Answer: TypeAlias = Findings | Delta | Listing | Groups | Worst | Standing

FORMATS = ("text", "json", "jsonl", "csv", "junit")


def render(
    answer: Answer,
    format: str = "text",  # noqa: A002
    *,
    limit: int | None = None,
    color: bool = False,
    report: Report | Lookup | None = None,
) -> str:
    """An answer as text, JSON, JSON lines, CSV or (reports only) JUnit XML.

    Parameters
    ----------
    answer
        What `check`, `Monitor.apply` or a question to a state directory returned.
    format
        text, json, jsonl, csv or junit.
    limit
        How many violations (or groups) of each rule are shown in text and JUnit, 5 unless given. The lists
        of the other forms have the limit of the answer itself.
    color
        Whether text has the colours of a terminal.
    report
        For the text of a delta: the monitor's report after it, or where else its rows are looked up, so
        that new violations show them.

    Examples
    --------
    >>> import holdstrue, pyarrow as pa
    >>> report = holdstrue.check(pa.table({"zip": ["1", "1"], "city": ["Bonn", "Ulm"]}), "zip -> city")
    >>> print(render(report, "csv"), end="")
    rule,t,s
    zip -> city,0,1
    """
    return "".join(parts(answer, format, limit=limit, color=color, report=report))


def parts(
    answer: Answer,
    format: str = "text",  # noqa: A002
    *,
    limit: int | None = None,
    color: bool = False,
    report: Report | Lookup | None = None,
) -> Iterator[str]:
    """The same piece by piece, so that a long list is never held as a whole."""
    match format:
        case "text":
            yield from _text(answer, limit, Ink(color), report)
        case "json":
            yield json_text(answer.to_dict(), indent=2) + "\n"
        case "jsonl":
            yield from jsonl_parts(records_of(answer))
        case "csv":
            yield from csv_parts(records_of(answer))
        case "junit" if isinstance(answer, Findings):
            yield junit_text(answer, limit=limit)
        case _:
            known = FORMATS if isinstance(answer, Findings) else FORMATS[:-1]
            raise HoldstrueError(f"no format {format!r} for this answer", hint=f"one of {', '.join(known)}")


def _text(answer: Answer, limit: int | None, ink: Ink, report: Report | Lookup | None) -> Iterator[str]:
    match answer:
        case Findings():
            yield from report_text(answer, limit=limit, ink=ink)
        case Delta():
            lookup = ReportLookup(report) if isinstance(report, Report) else report
            yield from delta_text(answer, limit=limit, ink=ink, lookup=lookup)
        case Listing():
            if answer.report is None:
                yield "no data yet, no violations\n"
            else:
                yield from report_text(answer.report, limit=limit, ink=ink, rule=answer.rule)
        case Groups():
            yield from groups_text(answer, ink=ink)
        case Worst():
            yield from worst_text(answer, ink=ink)
        case Standing():
            yield from standing_text(answer, ink=ink)
