"""The table of what can be asked: each endpoint with its parameters, the shape of its answer and who answers.

Routing and the OpenAPI document follow from `ENDPOINTS`. Answers are made in a thread; an answer that is no plain data
says what it is of (`Reply`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from holdstrue.errors import HoldstrueError
from holdstrue.monitor.report import known_rule
from holdstrue.report.overview_page import page_file
from holdstrue.serve import downloads, questions
from holdstrue.serve.metrics import TYPE, metrics_text
from holdstrue.serve.screens import index_page, live_file, state_page
from holdstrue.serve.shapes import NUMBER, TEXT, Schema
from holdstrue.serve.wanted import NewSince, Wanted, held, rules_of
from holdstrue.serve.watched import OpenDiscovery, OpenVersion, WatchedState
from holdstrue.state.moment import at_of

PAGE = 50
"""Violations of a page unless told. Chosen, not tuned."""
LARGEST = 1000
"""Violations or batches of a page at most."""


class RefusedError(HoldstrueError):
    """A question that cannot be answered, with the status of HTTP that says why."""

    def __init__(self, status: int, message: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.status = status


@dataclass(frozen=True)
class Parameter:
    """What an endpoint can be told."""

    name: str
    said: str
    schema: Schema = field(default_factory=lambda: TEXT)
    place: Literal["query", "path"] = "query"
    required: bool = False


@dataclass(frozen=True)
class Reply:
    """An answer that is no plain data: whole, or piece by piece."""

    type: str
    content: str | Iterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """What is asked: all states, the parameters as they were given, and the body of a POST."""

    states: Mapping[str, WatchedState]
    given: Mapping[str, str]
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> WatchedState:
        """The state that is meant."""
        name = self.given["state"]
        if name not in self.states:
            raise RefusedError(404, f"no state called {name!r} is served", f"there are {', '.join(self.states)}")
        return self.states[name]

    def opened(self) -> OpenVersion:
        """The version that is meant, the newest unless `at` says otherwise."""
        state = self.state
        current = state.current
        if current is None:
            raise RefusedError(409, state.said.message, state.said.hint)
        return questions.at_version(state, current, self.given.get("at"))

    def text(self, name: str) -> str | None:
        """A parameter; None where it was not given, or given as nothing."""
        return self.given.get(name) or None

    def number(self, name: str, default: int, most: int) -> int:
        """A number from 0 on."""
        text = self.given.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) > most:
            raise RefusedError(400, f"{name} is {text!r}", f"a number from 0 to {most:,}")
        return int(text)

    def time(self, name: str) -> dt.datetime | None:
        """A time."""
        text = self.text(name)
        found = None if text is None else at_of(text, name)
        if isinstance(found, int):
            raise RefusedError(400, f"{name} is {text!r}", "give a time: 2026-03-01T14:30Z, or 2h ago")
        return found

    @property
    def selection(self) -> Wanted:
        """Which violations are meant."""
        return Wanted(*(self.text(name) for name in ("rule", "severity", "column", "key", "table")))


# --- answers -------------------------------------------------------------------------------------


def brief(state: WatchedState) -> dict[str, Any]:
    """A state in a few figures."""
    said, opened, found = state.said, state.current, state.discovery
    if found is not None:
        return _brief_discovery(state, found)
    moment = {"version": None, "time": None} if opened is None else opened.moment.to_dict()
    return {
        "name": state.name,
        "place": state.given,
        "standing": said.standing,
        "message": said.message,
        "hint": said.hint,
        **moment,
        "rows": 0 if opened is None else sum(opened.facts.rows.values()),
        "open": 0 if opened is None else sum(result.new for result in opened.results),
        "accepted": 0 if opened is None else sum(result.accepted or 0 for result in opened.results),
        "batches": 0 if opened is None else opened.facts.batches,
        "last_batch": None if opened is None else opened.facts.last_batch,
    }


def _brief_discovery(state: WatchedState, found: OpenDiscovery) -> dict[str, Any]:
    said = state.said
    return {
        "name": state.name,
        "place": state.given,
        "standing": said.standing,
        "message": said.message,
        "hint": said.hint,
        **found.moment.to_dict(),
        "rows": found.rows,
        "open": 0,
        "accepted": 0,
        "batches": found.batches,
        "last_batch": found.last_batch,
    }


def _states(asked: Asked) -> Any:
    return {"states": [brief(state) for state in asked.states.values()]}


def _state(asked: Asked) -> Any:
    opened = asked.state.current
    detail: dict[str, Any] = {"tables": {}, "rules": []}
    if opened is not None:
        detail = {"tables": opened.tables(), "rules": rules_of(opened.results)}
    return {**brief(asked.state), **detail}


def _overview(asked: Asked) -> Any:
    found = asked.state.discovery
    if found is not None:
        if asked.text("at") not in (None, str(found.moment.version)):
            raise RefusedError(400, "only the newest version of a discovery is shown", "leave out at")
        return found.overview(asked.state.given)
    return asked.opened().overview(asked.state.given)


def _violations(asked: Asked) -> Any:
    opened, selection = asked.opened(), asked.selection
    skip, limit = asked.number("offset", 0, 10**9), asked.number("limit", PAGE, LARGEST)
    since = asked.text("since")
    found: dict[str, Any]
    if since is None:
        found = {"total": selection.total(opened), "violations": selection.page(opened, skip, limit)}
    else:
        earlier = asked.state.version(since)
        found = questions.new_since(opened, earlier, selection, skip, limit)
    cut = skip + len(found["violations"]) < found["total"]
    return {**opened.moment.to_dict(), "offset": skip, **found, "truncated": cut}


def _download(asked: Asked) -> Reply:
    form = asked.given["format"]
    if form not in downloads.FORMS:
        raise RefusedError(404, f"no download as {form!r}", f"one of {', '.join(downloads.FORMS)}")
    opened, selection, since = asked.opened(), asked.selection, asked.text("since")
    results = selection.results(opened)
    total = selection.total(opened)
    if since is None:
        found = selection.violations(opened, downloads.MOST)
    else:
        earlier = asked.state.version(since)
        for result in results if selection.key is None else ():
            held(result, earlier)  # before the first piece is sent
        found = NewSince(selection, earlier).violations(opened, downloads.MOST)
    kind, write = downloads.FORMS[form]
    name = f"{asked.state.name}-violations-{opened.version}.{form}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if total > downloads.MOST and since is None:
        headers["X-Truncated"] = f"the first {downloads.MOST} of {total} violations"
    return Reply(kind, write(found, downloads.key_type(opened, results)), headers)


def _row(asked: Asked) -> Any:
    return questions.row(asked.opened(), asked.given["key"], asked.text("table"))


def _row_history(asked: Asked) -> Any:
    return questions.row_history(asked.state, asked.opened(), asked.given["key"], asked.text("table"))


def _history(asked: Asked) -> Any:
    opened, limit = asked.opened(), asked.number("limit", LARGEST, LARGEST)
    rule, first, last = asked.text("rule"), asked.time("from"), asked.time("until")
    known_rule(opened.facts.rules, rule)
    lines = [
        vars(line)
        for line in opened.history
        if rule in (None, line.rule)
        and (first is None or dt.datetime.fromisoformat(line.time) >= first)
        and (last is None or dt.datetime.fromisoformat(line.time) <= last)
    ]
    return {"batches": lines[-limit:] if limit else [], "total": len(lines), "truncated": len(lines) > limit}


def _versions(asked: Asked) -> Any:
    asked.opened()
    return questions.versions(asked.state)


def _compare(asked: Asked) -> Any:
    later = asked.opened() if asked.text("to") is None else asked.state.version(asked.given["to"])
    earlier = asked.state.version(asked.given["from"])
    if earlier.version > later.version:
        earlier, later = later, earlier
    return questions.compare(earlier, later, asked.selection, asked.number("limit", questions.LISTED, LARGEST))


def _alone(asked: Asked, answer: Callable[[OpenVersion], Any]) -> Any:
    """One trial of a state at a time: each takes about what opening the state takes."""
    opened, trying = asked.opened(), asked.state.trying
    if not trying.acquire(blocking=False):
        raise RefusedError(429, "something else is being tried on this state", "try again when that is done")
    try:
        return answer(opened)
    finally:
        trying.release()


def _try_row(asked: Asked) -> Any:
    row, op, table = asked.body.get("row"), asked.body.get("op", "upsert"), asked.body.get("table")
    if not isinstance(row, Mapping) or not isinstance(op, str) or not isinstance(table, str | None):
        raise RefusedError(400, "there is no row to try", 'give {"row": {"id": 1, ...}, "op": "upsert"}')
    return _alone(asked, lambda opened: questions.try_row(opened, row, op, table))


def _try_rule(asked: Asked) -> Any:
    text, table = asked.body.get("rule"), asked.body.get("table")
    if not isinstance(text, str) or not text.strip() or not isinstance(table, str | None):
        raise RefusedError(400, "there is no rule to try", 'give {"rule": "zip -> city", "table": "customers"}')
    return _alone(asked, lambda opened: questions.try_rule(opened, text, table))


def _metrics(asked: Asked) -> Reply:
    return Reply(TYPE, metrics_text(asked.states.values()))


def _health(asked: Asked) -> Any:
    standings = [state.said.standing for state in asked.states.values()]
    return {"status": "ok", "states": {standing: standings.count(standing) for standing in dict.fromkeys(standings)}}


def _index(asked: Asked) -> Reply:
    states = [brief(state) for state in asked.states.values()]
    return Reply("text/html; charset=utf-8", "".join(index_page(states)))


def _page(asked: Asked) -> Reply:
    state = asked.state
    opened = asked.state.current or asked.state.discovery
    shown = None if opened is None else opened.overview(state.given)
    return Reply("text/html; charset=utf-8", "".join(state_page(brief(state), shown, len(asked.states) > 1)))


def _file(asked: Asked) -> Reply:
    name = asked.given["name"]
    served = {"page.css": page_file, "page.js": page_file, "live.css": live_file, "live.js": live_file}
    if name not in served:
        raise RefusedError(404, f"no file {name!r}", f"there are {', '.join(served)}")
    kind = "text/css; charset=utf-8" if name.endswith(".css") else "text/javascript; charset=utf-8"
    return Reply(kind, served[name](name))


# --- the table -----------------------------------------------------------------------------------

_STATE = Parameter("state", "The name of a state.", place="path", required=True)
_AT = Parameter("at", "An earlier version that is kept: its number, or a time (`2026-03-01T14:30Z`, `2h ago`).")
_KEY = Parameter("key", "The key of a row; of several columns a JSON list.", required=True)
_TABLE = Parameter("table", "The table of the key, the main one unless told.")
_LIMIT = Parameter("limit", f"How many are listed, up to {LARGEST:,}.", NUMBER)
_FILTERS = (
    Parameter("rule", "Only of this rule."),
    Parameter("severity", "Only of rules of this severity.", {"enum": ["error", "warn"]}),
    Parameter("column", "Only of rules that read this column."),
    Parameter("key", "Only those that the row with this key is in."),
    _TABLE,
    _AT,
    Parameter("since", "Only those that this earlier version or time did not have."),
)


@dataclass(frozen=True)
class Endpoint:
    """One thing that can be asked."""

    path: str
    said: str
    answer: Callable[[Asked], Any]
    shape: str | None
    """The name of the answer's shape; None where it is no JSON."""
    parameters: tuple[Parameter, ...] = ()
    body: str | None = None
    """The name of the shape of what is posted."""
    type: str = "application/json"

    @property
    def method(self) -> str:
        """POST where something is sent to be tried; nothing is ever changed."""
        return "GET" if self.body is None else "POST"


HTML = "text/html"
ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("/", "The page of all states.", _index, None, type=HTML),
    Endpoint("/states/{state}", "The page of a state.", _page, None, (_STATE,), type=HTML),
    Endpoint(
        "/static/{name}", "Files of the pages.", _file, None,
        (Parameter("name", "The name of a file.", place="path", required=True),), type="text/css",
    ),
    Endpoint("/api/states", "All states in a few figures.", _states, "States"),
    Endpoint("/api/states/{state}", "A state: its tables, and its rules with their counts.", _state, "StateDetail",
             (_STATE,)),
    Endpoint("/api/states/{state}/overview", "What the page of a state shows.", _overview, "Overview", (_STATE, _AT)),
    Endpoint(
        "/api/states/{state}/violations", "Violations, page by page; `total` is never cut.", _violations, "Violations",
        (_STATE, *_FILTERS, _LIMIT, Parameter("offset", "How many are left out before the first.", NUMBER)),
    ),
    Endpoint(
        "/api/states/{state}/violations.{format}", "Violations as a file.", _download, None,
        (_STATE, Parameter("format", "csv, parquet, jsonl, json.", {"enum": list(downloads.FORMS)}, "path", True),
         *_FILTERS), type="application/octet-stream",
    ),
    Endpoint("/api/states/{state}/row", "A row and its violations.", _row, "Row", (_STATE, _KEY, _TABLE, _AT)),
    Endpoint("/api/states/{state}/row/history", "Which versions changed how a row stands.", _row_history, "RowHistory",
             (_STATE, _KEY, _TABLE, _AT)),
    Endpoint(
        "/api/states/{state}/history", "What batches did to rules, the last ones.", _history, "History",
        (_STATE, Parameter("rule", "Only to this rule."), Parameter("from", "Not before this time: `2h ago`."),
         Parameter("until", "Not after this time: `2026-03-01T14:30Z`."), _LIMIT, _AT),
    ),
    Endpoint("/api/states/{state}/versions", "The versions that can be read.", _versions, "Versions", (_STATE,)),
    Endpoint(
        "/api/states/{state}/compare", "How two versions differ.", _compare, "Comparison",
        (_STATE, Parameter("from", "A version or a time.", required=True),
         Parameter("to", "Another, the newest unless told."), Parameter("rule", "Only of this rule."), _LIMIT),
    ),
    Endpoint("/api/states/{state}/try/row", "What a change of one row would add and remove; nothing is applied.",
             _try_row, "TriedRow", (_STATE,), "RowToTry"),
    Endpoint("/api/states/{state}/try/rule", "How the rows stand to another rule; the state stays as it is.",
             _try_rule, "TriedRule", (_STATE,), "RuleToTry"),
    Endpoint("/metrics", "Figures for Prometheus.", _metrics, None, type="text/plain"),
    Endpoint("/healthz", "Whether the server answers, and how its states stand.", _health, "Health"),
)  # fmt: skip
