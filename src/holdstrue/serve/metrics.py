"""Figures of all states in the text form that Prometheus reads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping

from holdstrue.serve.watched import WatchedState

Sample = tuple[Mapping[str, str], float]

TYPE = "text/plain; version=0.0.4; charset=utf-8"

FAMILIES: Mapping[str, tuple[str, str]] = {
    "holdstrue_up": ("gauge", "1 where a state can be read, 0 where it cannot"),
    "holdstrue_version": ("gauge", "The version of a state that is shown"),
    "holdstrue_rows": ("gauge", "Rows of a table"),
    "holdstrue_violations_open": ("gauge", "Violations of a rule that are open and not accepted"),
    "holdstrue_violations_accepted": ("gauge", "Violations of a rule that are accepted"),
    "holdstrue_rules_discovered": ("gauge", "Rules that hold in the rows of a discovery"),
    "holdstrue_rows_violating": ("gauge", "Rows in violations of a rule"),
    "holdstrue_violations_added_total": ("counter", "Violations of a rule that batches added"),
    "holdstrue_violations_removed_total": ("counter", "Violations of a rule that batches removed"),
    "holdstrue_batches_total": ("counter", "Batches that were applied"),
    "holdstrue_last_batch_age_seconds": ("gauge", "Seconds since the last batch was applied"),
}


def metrics_text(states: Iterable[WatchedState], now: dt.datetime | None = None) -> str:
    """All figures. Complexity: O(rules and lines of history of all states)."""
    samples: dict[str, list[Sample]] = {name: [] for name in FAMILIES}
    for state in states:
        for name, labels, value in _of(state, now or dt.datetime.now(dt.UTC)):
            samples[name].append(({"state": state.name, **labels}, value))
    return "".join(
        f"# HELP {name} {said}\n# TYPE {name} {kind}\n" + "".join(_line(name, *sample) for sample in samples[name])
        for name, (kind, said) in FAMILIES.items()
        if samples[name]
    )


def _of(state: WatchedState, now: dt.datetime) -> Iterator[tuple[str, Mapping[str, str], float]]:
    opened = state.current
    yield "holdstrue_up", {}, int(state.said.standing in ("ready", "empty", "discovery"))
    found = state.discovery
    if found is not None:
        yield "holdstrue_version", {}, found.moment.version
        yield "holdstrue_batches_total", {}, found.batches
        yield "holdstrue_rules_discovered", {}, found.rules
    if opened is None:
        return
    yield "holdstrue_version", {}, opened.version
    yield "holdstrue_batches_total", {}, opened.facts.batches
    if opened.history:
        last = max(dt.datetime.fromisoformat(line.time) for line in opened.history[-len(opened.results) :])
        yield "holdstrue_last_batch_age_seconds", {}, round(max(0.0, (now - last).total_seconds()), 3)
    for table, rows in opened.facts.rows.items():
        yield "holdstrue_rows", {"table": table}, rows
    added: dict[str, int] = {}
    removed: dict[str, int] = {}
    for line in opened.history:
        added[line.rule] = added.get(line.rule, 0) + line.added
        removed[line.rule] = removed.get(line.rule, 0) + line.removed
    for result in opened.results:
        name = result.rule.name
        labels = {"rule": name, "severity": result.rule.severity}
        yield "holdstrue_violations_open", labels, result.new
        if result.accepted is not None:
            yield "holdstrue_violations_accepted", labels, result.accepted
        yield "holdstrue_rows_violating", labels, result.counts.rows
        yield "holdstrue_violations_added_total", labels, added.get(name, 0)
        yield "holdstrue_violations_removed_total", labels, removed.get(name, 0)


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    r"""A sample.

    >>> _line("rows", {"rule": 'a "b"\n\\'}, 3)
    'rows{rule="a \\"b\\"\\n\\\\"} 3\n'
    """
    told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{told}}} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
