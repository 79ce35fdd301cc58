"""The pages: all states, one state as its report shows it, and a screen for a state that cannot be shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from holdstrue.report.overview_page import clock, harmless, overview_parts, page_start

TITLES: Mapping[str, str] = {
    "opening": "Opening",
    "empty": "No rows yet",
    "missing": "Nothing there yet",
    "vanished": "Gone",
    "no state": "No state",
    "being created": "Being created",
    "other kind": "Another kind of state",
    "damaged": "Damaged",
    "unreachable": "Not reached",
}
"""What the screens are called."""


def live_file(name: str) -> str:
    """`live.css` or `live.js`."""
    return (files("holdstrue.serve.static") / name).read_text(encoding="utf-8")


def _start(title: str, **data: Any) -> Iterator[str]:
    yield from page_start(title)
    yield '<link rel="stylesheet" href="/static/page.css">\n<link rel="stylesheet" href="/static/live.css">\n</head>\n'
    told = "".join(f' data-{name}="{harmless(str(value))}"' for name, value in data.items())
    yield f"<body{told}>\n"


def _end(*programs: str) -> Iterator[str]:
    for name in programs:
        yield f'<script src="/static/{name}"></script>\n'
    yield "</body>\n</html>\n"


def _top(several: bool) -> Iterator[str]:
    yield '<nav class="top" aria-label="holdstrue serve">'
    if several:
        yield '<a href="/">all states</a>'
    yield '<a href="/openapi.json">API</a><a href="/metrics">metrics</a>'
    yield '<span id="pulse" role="status" class="faint">connecting</span></nav>\n'


def index_page(states: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """All states in a table."""
    yield from _start("states", page="index")
    yield from _top(several=False)
    yield '<header id="head"><p class="brand">holdstrue</p><h1>States</h1></header>\n'
    yield '<section id="states"><div class="wide"><table class="states">\n<thead><tr><th>state</th>'
    yield '<th class="number">open</th>'
    yield '<th class="number">rows</th><th class="number">version</th><th>last batch</th></tr></thead>\n<tbody>\n'
    for state in states:
        yield f'<tr data-standing="{harmless(state["standing"])}"><td><a href="/states/{harmless(state["name"])}">'
        yield f'{harmless(state["name"])}</a><div class="faint">{harmless(state["place"])}</div>'
        if state["standing"] == "discovery":
            yield '<div class="faint">a discovery</div>'
        elif state["standing"] not in ("ready", "opening"):
            yield f'<div class="note">{harmless(TITLES[state["standing"]])}: {harmless(state["message"])}</div>'
        elif state["standing"] == "ready" and state["message"]:
            yield f'<div class="note">{harmless(state["message"])}</div>'
        yield "</td>"
        known = state["version"] is not None
        figures = (f"{state['open']:,}", f"{state['rows']:,}", str(state["version"])) if known else ("", "", "")
        if state["standing"] == "discovery":
            figures = ("", *figures[1:])
        if state["accepted"]:
            figures = (f'{figures[0]}<div class="faint">{state["accepted"]:,} accepted</div>', *figures[1:])
        tone = " bad" if state["open"] else ""
        yield f'<td class="number{tone}" data-word="open">{figures[0]}</td>'
        for word, figure in zip(("rows", "version"), figures[1:], strict=True):
            yield f'<td class="number" data-word="{word}">{figure}</td>'
        when = f'<div class="faint">{clock(state["time"])}</div>' if state["time"] else ""
        yield f'<td data-word="last batch">{harmless(state["last_batch"] or "")}{when}</td></tr>\n'
    yield "</tbody></table></div></section>\n"
    yield from _end("live.js")


def state_page(state: Mapping[str, Any], shown: Mapping[str, Any] | None, several: bool) -> Iterator[str]:
    """A state: its report with what can be asked, or a screen that says why there is none and what to do."""
    standing = state["standing"]
    yield from _start(
        state["place"],
        state=state["name"],
        standing=standing,
        version="" if state["version"] is None else state["version"],
        screen="no" if shown is not None and standing != "empty" else "yes",
    )
    yield from _top(several)
    if shown is None or standing == "empty":
        yield '<header id="head"><p class="brand">holdstrue</p>'
        yield f'<h1>{harmless(state["place"])}</h1></header>\n<section class="screen" id="screen">'
        yield f"<h2>{harmless(TITLES.get(standing, standing))}</h2><p>{harmless(state['message'])}</p>"
        yield f'<p class="hint">{harmless(state["hint"])}</p>'
        yield '<p class="faint">This page shows the state as soon as it can be read.</p></section>\n'
        yield from _end("live.js")
        return
    yield '<div id="banner">'
    if standing == "ready" and state["message"]:
        yield f'<p class="note">{harmless(state["message"])}: {harmless(state["hint"])}</p>'
    if standing not in ("ready", "discovery"):
        yield f'<p class="note">{harmless(TITLES[standing])}: {harmless(state["message"])} This is version '
        yield f"{state['version']}, the last that was read.</p>"
    yield "</div>\n"
    yield from overview_parts(shown)
    yield from _end("page.js", "live.js")
