"""One door to every form: a table of answers, a table of formats, and `render(answer, format)`.

A new answer is a class with `to_dict` and a line in `ANSWERS`; a new format is a function and a line in `FORMATS`, and
the command line offers it at once. What writes them is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from holdstrue.errors import HoldstrueError

if TYPE_CHECKING:
    from holdstrue.monitor.report import Report
    from holdstrue.report.lookup import Lookup
    from holdstrue.report.typeset import Style


Write: TypeAlias = "Callable[[Any, Style], Iterator[str]]"
"""Writes an answer in a style, piece by piece."""


class Answer(Protocol):
    """What a command or a question has found out; its class, or one that it derives from, is in `ANSWERS`."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""


@dataclass(frozen=True)
class Writers:
    """What writes a class of answers: `module.function` of this package, called with the answer and a style."""

    text: str
    records: str | None = None
    """Makes the list at the heart of the answer, for the formats that are lists."""
    data: str | None = None
    """Makes the plain data of JSON, where it is more than the answer's own `to_dict`."""
    drawing: str | None = None
    """Draws it as SVG."""


ANSWERS: Mapping[str, Writers] = {
    "Findings": Writers("answer_text.report_text", "records.violation_records"),
    "Delta": Writers("delta_text.delta_text", "records.delta_records"),
    "BatchLine": Writers("delta_text.batch_text", "records.line_records"),
    "OpenViolations": Writers("answer_text.open_text", "records.violation_records"),
    "Groups": Writers("answer_text.groups_text", "records.group_records"),
    "Worst": Writers("answer_text.worst_text", "records.worst_records"),
    "Status": Writers("answer_text.status_text", "records.status_records"),
    "Overview": Writers("answer_text.overview_text"),
    "Vacuumed": Writers("upkeep_text.vacuumed_text"),
    "Verified": Writers("upkeep_text.verified_text"),
    "Explanation": Writers("answer_text.explanation_text"),
    "RulesReview": Writers("ruleset_text.review_text"),
    "Discovery": Writers(
        "discovery_text.discovery_text", data="discovery_text.discovery_data", drawing="relationships.discovery_svg"
    ),
    "Suspects": Writers("suspects_text.suspects_text", "suspects_text.suspect_records"),
    "RuleChanges": Writers("discovery_text.rule_changes_text"),
    "ShippingPlan": Writers("fragments_text.plan_text", drawing="plan_svg.plan_svg"),
    "RelationDelta": Writers("fragments_text.relation_delta_text"),
    "ApartDelta": Writers("fragments_text.apart_delta_text"),
}


def _text(answer: Any, style: Style) -> Iterator[str]:
    yield from _function(ANSWERS[_name(answer)].text)(answer, style)


def _json(answer: Any, style: Style) -> Iterator[str]:
    from holdstrue.report.typeset import json_text

    data = ANSWERS[_name(answer)].data
    yield json_text(_function(data)(answer, style) if data else answer.to_dict(), indent=2) + "\n"


def _svg(answer: Any, _: Style) -> Iterator[str]:
    drawn: str = _function(ANSWERS[_name(answer)].drawing or "")(answer)
    yield drawn.rstrip("\n") + "\n"


def _list(written: str) -> Write:
    """A form of records, written by this function."""
    return lambda answer, _: _function(written)(_function(ANSWERS[_name(answer)].records or "")(answer))


def _own(written: str) -> Write:
    """A form that only some answers have, written by this function."""

    def write(answer: Any, style: Style) -> Iterator[str]:
        yield from _function(written)(answer, style)

    return write


@dataclass(frozen=True)
class Format:
    """A form of answers: what writes it, piece by piece, and which answers it is for."""

    write: Write
    answers: tuple[str, ...]


_LISTS = tuple(name for name, writers in ANSWERS.items() if writers.records)

FORMATS: Mapping[str, Format] = {
    "text": Format(_text, tuple(ANSWERS)),
    "json": Format(_json, tuple(name for name in ANSWERS if name != "BatchLine")),
    "jsonl": Format(_list("records.jsonl_parts"), _LISTS),
    "csv": Format(_list("records.csv_parts"), tuple(name for name in _LISTS if name != "BatchLine")),
    "raw-csv": Format(_list("records.raw_csv_parts"), tuple(name for name in _LISTS if name != "BatchLine")),
    "html": Format(_own("overview_page.overview_html"), ("Overview",)),
    "junit": Format(_own("junit.junit_text"), ("Findings",)),
    "rules": Format(_own("discovery_text.rule_file"), ("Discovery",)),
    "patch": Format(_own("suspects_text.patch_parts"), ("Suspects",)),
    "yaml": Format(_own("ruleset_text.review_yaml"), ("RulesReview",)),
    "sql": Format(_own("ruleset_text.review_sql"), ("RulesReview",)),
    "svg": Format(_svg, tuple(name for name, writers in ANSWERS.items() if writers.drawing)),
}


def formats_of(answer: str) -> tuple[str, ...]:
    """The formats that a class of answers has.

    >>> formats_of("Status"), formats_of("Discovery")
    (('text', 'json', 'jsonl', 'csv', 'raw-csv'), ('text', 'json', 'rules', 'svg'))
    """
    return tuple(name for name, format_ in FORMATS.items() if answer in format_.answers)


Rows: TypeAlias = "Report | Lookup | None"
"""Where the rows behind new violations are looked up."""


def render(
    answer: Answer,
    format: str = "text",  # noqa: A002
    *,
    limit: int | None = None,
    color: bool = False,
    report: Rows = None,
) -> str:
    """An answer as text, JSON, JSON lines, CSV or in one of the forms that only some answers have (see `FORMATS`).

    Parameters
    ----------
    answer
        What `check`, `discover`, `Monitor.apply` or a question to a state directory returned.
    format
        text, json, jsonl, csv, raw-csv (cells that look like formulas as they are); junit for reports; rules and svg
        for discoveries.
    limit
        How many violations (or groups) of each rule are shown in text and JUnit, 5 unless given, and how many rules
        of a discovery. The lists of the other forms have the limit of the answer itself.
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
    report: Rows = None,
) -> Iterator[str]:
    """The same piece by piece, so that a long list is never held as a whole."""
    from holdstrue.report.typeset import Ink, Style

    known = formats_of(_name(answer))
    if format not in known:
        raise HoldstrueError(f"no format {format!r} for this answer", hint=f"one of {', '.join(known)}")
    yield from FORMATS[format].write(answer, Style(limit, Ink(color), report))


def _name(answer: Any) -> str:
    """The class of answers that an answer is of."""
    for kind in type(answer).__mro__:
        if kind.__name__ in ANSWERS:
            return kind.__name__
    raise HoldstrueError(f"{type(answer).__name__} is no answer", hint=f"there are {', '.join(ANSWERS)}")


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(".")
    found: Callable[..., Any] = getattr(import_module(f"holdstrue.report.{module}"), function)
    return found
