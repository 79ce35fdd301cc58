"""The report as one page of HTML that needs nothing else: no network, no build; data and program are inside.

The rules and their counts are in the page itself, so that they are there without its program. Lists and charts are
drawn by it from data that lies in the page as JSON; it writes text into elements and never markup.
"""

from __future__ import annotations

import datetime as dt
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from holdstrue.report.overview import Overview
from holdstrue.report.typeset import Style, json_text, plural, printable

FILES = ("page.css", "page.js")
"""What a page looks like, and its program; also of pages that are served."""


def overview_html(overview: Overview, _: Style) -> Iterator[str]:
    """The page, piece by piece."""
    data = overview.to_dict()
    look, program = (f"\n{page_file(name)}" for name in FILES)
    # nothing is loaded, and nothing runs but what was written here
    policy = f"default-src 'none'; style-src '{_digest(look)}'; script-src '{_digest(program)}'; base-uri 'none'"
    yield from page_start(data["title"], f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n')
    yield f"<style>{look}</style>\n</head>\n<body>\n"
    yield from overview_parts(data)
    yield f"<script>{program}</script>\n</body>\n</html>\n"


def page_start(title: str, first: str = "") -> Iterator[str]:
    """The head of a page, up to where it says what it looks like; `first` is markup that comes before all else."""
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield first
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n'
    yield '<link rel="icon" href="data:,">\n' if not first else ""
    yield f"<title>{harmless(title)} · holdstrue</title>\n"


def overview_parts(data: Mapping[str, Any]) -> Iterator[str]:
    """What stands in the page: its head, the rules with their counts, and the data that its program draws."""
    yield from _head(data)
    yield from _rules(data)
    yield '<main id="parts" aria-live="off"></main>\n'
    yield f'<script id="data" type="application/json">{embedded(data)}</script>\n'


def page_file(name: str) -> str:
    """One of `FILES`."""
    return (files("holdstrue.report.page") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """How a policy names what an element of the page holds."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def embedded(data: Any) -> str:
    """Plain data as JSON that cannot end the element it lies in.

    >>> embedded({"a": "</script><!--"})
    '{"a": "\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json_text(data)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def harmless(text: str) -> str:
    r"""Text that is no markup, and in which nothing steers how other text is read.

    >>> harmless("<b>\u202etxt.exe")
    '&lt;b&gt;\\u202etxt.exe'
    """
    return escape(printable(text))


def clock(time: str) -> str:
    """A time as people read it, to the second and in UTC.

    >>> clock("2026-03-01T14:30:05.123+01:00")
    '2026-03-01 13:30:05 UTC'
    """
    return dt.datetime.fromisoformat(time).astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _head(data: Mapping[str, Any]) -> Iterator[str]:
    tables = data["tables"] or (data["discovered"] or {}).get("tables", {})
    rows = ", ".join(f"{plural(count, 'row')} of {harmless(name)}" for name, count in tables.items())
    broken = sum(rule["status"] == "violated" for rule in data["rules"])
    new = sum(rule["new"] for rule in data["rules"])
    said = f"{plural(data['open'], 'violation')} of {plural(broken, 'rule')}" if data["open"] else "no violations"
    said += f", {data['open'] - new:,} accepted" if new < data["open"] else ""
    grades = _by_severity(data["rules"])
    if not data["rules"] and data["discovered"] is not None:
        said = f"{plural(data['discovered']['of_rules'], 'rule')} discovered"
    when = f"made {clock(data['made'])}"
    if "version" in data:
        when = f"version {data['version']}" + (f" of {clock(data['time'])}" if data["time"] else "")
    yield '<header id="head">\n<p class="brand">holdstrue</p>\n'
    yield f"<h1>{harmless(data['title'])}</h1>\n"
    yield f'<p class="lead {"bad" if broken else "good"}">{said}</p>\n'
    yield f'<p class="faint">{grades}</p>\n' if grades else ""
    yield f'<p class="faint">{rows or "no data yet"} · {harmless(when)}</p>\n'
    for note in data["notes"]:
        yield f'<p class="note">{harmless(note)}</p>\n'
    yield "</header>\n"


def _by_severity(rules: Sequence[Mapping[str, Any]]) -> str:
    """What is open by severity, where rules have several."""
    if len({rule["severity"] for rule in rules}) < 2:
        return ""
    said = []
    for severity in ("error", "warn"):
        own = [rule for rule in rules if rule["severity"] == severity]
        broken = sum(rule["open"] > 0 for rule in own)
        found = sum(rule["open"] for rule in own)
        said.append(f"{severity}: {plural(found, 'violation')}, {broken} of {plural(len(own), 'rule')}")
    return " · ".join(said)


def _rules(data: Mapping[str, Any]) -> Iterator[str]:
    if not data["rules"]:
        return
    yield '<section id="rules" aria-label="Rules">\n<div class="tools" id="tools"></div>\n<table class="rules">\n'
    yield "<thead><tr><th></th><th>rule</th><th class=number>violations</th><th class=number>rows</th>"
    yield "<th class=number>share of rows</th><th class=number>groups</th><th>over time</th></tr></thead>\n<tbody>\n"
    for at, rule in enumerate(data["rules"]):
        mark, tone = _mark(rule)
        share = f"{100 * rule['rows'] / rule['of']:.3g} %" if rule["of"] and rule["rows"] else ""
        words = f'<a href="#rule-{at}">{harmless(rule["name"])}</a>' if rule["new"] else harmless(rule["name"])
        text = "" if rule["name"] == rule["text"] else f'<div class="text">{harmless(rule["text"])}</div>'
        about = f'<div class="faint">{harmless(rule["description"])}</div>' if rule.get("description") else ""
        groups = f"{rule['groups']:,}" if rule["groups"] else ""
        yield f'<tr data-rule="{at}" class="{tone}"><td class="mark" title="{harmless(rule["status"])}">{mark}</td>'
        grade = "" if rule["severity"] == "error" else f' <span class="grade">{harmless(rule["severity"])}</span>'
        yield f"<td>{words}{grade}{text}{about}</td>"
        narrow = f'<div class="narrow faint">{share}</div>' if share else ""
        known = f'<div class="faint">{rule["accepted"]:,} accepted</div>' if rule.get("accepted") else ""
        for cell in (f"{rule['open']:,}{known}", f"{rule['rows']:,}{narrow}", share, groups):
            yield f'<td class="number">{cell}</td>'
        yield '<td class="spark"></td></tr>\n'
    yield "</tbody>\n</table>\n</section>\n"


def _mark(rule: Mapping[str, Any]) -> tuple[str, str]:
    """The mark of a rule's status, and the class of its line."""
    if rule["status"] == "ok":
        return "✓", "good"
    if rule["status"] in ("tolerated", "accepted"):
        return "~", "warn"
    return ("!", "warn") if rule["severity"] == "warn" else ("✗", "bad")
