"""A report as a small self-contained piece of HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from itertools import islice

from holdstrue.discovery.discovery import Discovery
from holdstrue.monitor.report import Findings
from holdstrue.report.typeset import key_word, plural, shorten

SHOWN = 10
"""Violations a notebook shows: it is a glance, the rest is asked for in Python."""

_STYLE = (
    "<style>.holdstrue table{border-collapse:collapse;font-size:90%;margin:0.3em 0}"
    ".holdstrue td,.holdstrue th{padding:0.15em 0.8em;text-align:left;border-bottom:1px solid #8884}</style>"
)
_COLORS = {"ok": "#2e7d32", "tolerated": "#b26a00", "violated": "#c62828"}


def html_of(report: Findings) -> str:
    """The rules with their counts, then the first violations; every name and value is escaped.

    Examples
    --------
    >>> import holdstrue, pyarrow as pa
    >>> html_of(holdstrue.check(pa.table({"a": [1, 1]}), "key(a)")).startswith("<div")
    True
    """
    rules = "".join(
        _row(
            [
                f'<span style="color:{_COLORS.get(result.status, "inherit")}">{escape(result.status)}</span>',
                escape(shorten(result.rule.name, 80)),
                *(f"{count:,}" for count in (result.counts.open, result.counts.rows, result.counts.groups)),
            ]
        )
        for result in report.results
    )
    shown = list(islice(report.listed(), SHOWN))
    listed = "".join(
        _row(
            [
                escape(shorten(v.rule, 80)),
                escape(shorten(key_word(v.t))),
                escape(shorten(key_word(v.s))) if v.pair else "",
            ]
        )
        for v in shown
    )
    more = report.total - len(shown)
    tables = _table(("status", "rule", "violations", "rows", "groups"), rules)
    tables += _table(("rule", "t", "s"), listed) if listed else ""
    return _page(report.rows, plural(report.total, "violation"), tables, more if shown else 0)


def discovery_html(found: Discovery) -> str:
    """The best rules of a discovery with their scores and words; every name is escaped."""
    telling = found.telling
    shown = telling[:SHOWN]
    rules = "".join(
        _row(
            [
                f"{rule.score:.2f}",
                escape(rule.kind),
                escape(shorten(f"{rule.table}: {rule.text}" if rule.table else rule.text, 100)),
                escape(shorten(rule.body.words, 120)),
            ]
        )
        for rule in shown
    )
    said = plural(len(telling), "rule") + ("" if found.complete else ", stopped before the end")
    table = _table(("score", "kind", "rule", "in words"), rules)
    return _page(found.counts(), said, table, len(telling) - len(shown))


def _page(counts: Mapping[str, int], said: str, tables: str, more: int) -> str:
    rows = ", ".join(f"{plural(count, 'row')} of {escape(name)}" for name, count in counts.items())
    left = f"<p>… {more:,} more</p>" if more > 0 else ""
    return f'<div class="holdstrue">{_STYLE}<p>{rows}: {said}</p>{tables}{left}</div>'


def _row(cells: Iterable[str], tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def _table(names: Iterable[str], rows: str) -> str:
    return f"<table><thead>{_row(names, 'th')}</thead><tbody>{rows}</tbody></table>"
