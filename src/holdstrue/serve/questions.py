"""What is asked of more than one version, or of what is not there: a row's past, two versions compared, trials."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from holdstrue.detect.delta import Violation
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.answers import NoRowError
from holdstrue.monitor.trial import try_rules
from holdstrue.report.overview import shown, shown_violation
from holdstrue.report.typeset import key_word
from holdstrue.serve.wanted import MOST_COMPARED, NewSince, Wanted, key_of
from holdstrue.serve.watched import OpenVersion, WatchedState
from holdstrue.state.files import GoneError, StateFiles
from holdstrue.state.moment import Given

SECONDS = 10.0
"""How long earlier versions are opened for the past of one row; which were not reached is said. Chosen, not tuned."""
MOST_VERSIONS = 500
"""Versions that are listed, newest first. Chosen, not tuned."""
LISTED = 100
"""Violations of each rule that are listed: of one row, of a comparison, of a trial. Chosen, not tuned."""
OPS = ("upsert", "insert", "update", "delete")


def at_version(state: WatchedState, current: OpenVersion, at: Given | None) -> OpenVersion:
    """The version that is meant: the current one, which is open, or another that is kept."""
    if at is None or str(at) == str(current.version):
        return current
    return state.version(at)


def versions(state: WatchedState) -> dict[str, Any]:
    """The versions that can be read, newest first, and when each was made."""
    with StateFiles(state.place) as files:
        kept = files.kept()[::-1]
        listed = []
        for version in kept[:MOST_VERSIONS]:
            made = files.made(version)
            listed.append({"version": version, "time": None if made is None else made.isoformat()})
    return {"versions": listed, "kept": len(kept), "truncated": len(listed) < len(kept)}


def row(opened: OpenVersion, text: str, table: str | None) -> dict[str, Any]:
    """A row as far as it is kept, and its violations with the rows beside it."""
    name, key = key_of(opened, text, table)
    by_rule = opened.monitor.row(key, table=name)
    found = opened.monitor.violations_of(key, table=name, limit=LISTED)
    listed = [
        {
            **violation.to_dict(),
            **shown_violation(rule, violation, rows),
            "severity": rule.severity,
            "accepted": opened.known(violation),
        }
        for rule, violation, rows in found
    ]
    return {
        "version": opened.version,
        "table": name,
        "key": key_word(key),
        "values": {column: shown(value) for column, value in opened.monitor.values(key, table=name).items()},
        "by_rule": by_rule,
        "violations": listed,
        "truncated": len(listed) < sum(by_rule.values()),
    }


def row_history(state: WatchedState, current: OpenVersion, text: str, table: str | None) -> dict[str, Any]:
    """Which versions changed how a row stands, newest first, as far as versions are kept and there is time.

    Complexity: that of opening each version.
    """
    name, key = key_of(current, text, table)
    with StateFiles(state.place) as files:
        kept = [version for version in files.kept() if version <= current.version]
    until = time.monotonic() + SECONDS
    steps: list[dict[str, Any]] = []
    later, later_stands = current, _stands(current, name, key)
    oldest = current.version
    for version in reversed(kept):
        if version >= current.version:
            continue
        if time.monotonic() > until:
            break
        try:
            earlier = state.version(version)
        except GoneError:
            break
        stands = _stands(earlier, name, key)
        if stands != later_stands:
            steps.append(_step(later, stands, later_stands))
        later, later_stands, oldest = earlier, stands, version
    first = kept[0] if kept else current.version
    return {
        "key": key_word(key),
        "table": name,
        "steps": steps,
        "looked_back_to": oldest,
        "unknown": _unknown(oldest, first),
    }


def _unknown(oldest: int, first: int) -> str:
    """What is not known of the time before the oldest version that was looked at."""
    if oldest == 0:
        return ""
    if oldest > first:
        return f"versions {first} to {oldest - 1} are kept and were not looked at: that would have taken too long"
    return (
        f"versions before {oldest} are no longer kept, so what happened to this row before is not known; "
        "holdstrue vacuum STATE --keep 7d keeps versions longer"
    )


def _stands(opened: OpenVersion, table: str, key: Any) -> dict[str, Any] | None:
    """A row's values and violations by rule; None where there is no such row."""
    if not opened.facts.rows.get(table, 0):
        return None
    with suppress(NoRowError):
        values = opened.monitor.values(key, table=table)
        return {
            "values": {column: shown(value) for column, value in values.items()},
            "by_rule": opened.monitor.row(key, table=table),
        }
    return None


def _step(opened: OpenVersion, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> dict[str, Any]:
    old, new = (dict(stands["by_rule"]) if stands else {} for stands in (before, after))
    moved = {rule: new.get(rule, 0) - old.get(rule, 0) for rule in sorted({*old, *new})}
    what = "inserted" if before is None else "deleted" if after is None else ""
    changed = (
        []
        if before is None or after is None
        else [name for name, value in after["values"].items() if before["values"].get(name) != value]
    )
    return {
        "version": opened.version,
        "time": opened.moment.to_dict()["time"],
        "batch": opened.facts.last_batch,
        "row": what or ("updated" if changed else "unchanged"),
        "columns": changed,
        "added": {rule: by for rule, by in moved.items() if by > 0},
        "removed": {rule: -by for rule, by in moved.items() if by < 0},
    }


def compare(earlier: OpenVersion, later: OpenVersion, selection: Wanted, limit: int) -> dict[str, Any]:
    """How two versions differ: counts of every rule, and the violations that only one of them has.

    Complexity: that of the violations of both; rules with very many are compared by their counts.
    """
    results, known = selection.results(later), {result.rule.name: result for result in earlier.results}
    rules = []
    added: list[dict[str, Any]] = []
    removed: list[dict[str, Any]] = []
    for result in results:
        name = result.rule.name
        before, after = known[name].new if name in known else 0, result.new
        line: dict[str, Any] = {"name": name, "before": before, "after": after, "added": None, "removed": None}
        if max(before, after) <= MOST_COMPARED:
            own = Wanted(name)
            old, new = (set(own.violations(side, MOST_COMPARED)) for side in (earlier, later))
            line["added"], line["removed"] = len(new - old), len(old - new)
            for more, into in ((new - old, added), (old - new, removed)):
                into += [one.to_dict() for one in in_order(more)[:limit]]
        rules.append(line)
    return {
        "from": earlier.moment.to_dict(),
        "to": later.moment.to_dict(),
        "rows": {name: [earlier.facts.rows.get(name, 0), count] for name, count in later.facts.rows.items()},
        "rules": rules,
        "added": added,
        "removed": removed,
        "truncated": sum(line["added"] or 0 for line in rules) > len(added)
        or sum(line["removed"] or 0 for line in rules) > len(removed)
        or any(line["added"] is None for line in rules),
    }


def in_order(violations: Iterable[Violation]) -> list[Violation]:
    """Violations of one rule by their keys; keys that do not compare are ordered by their text."""
    found = list(violations)
    try:
        return sorted(found, key=lambda one: (one.t, one.s) if one.pair else (one.t,))
    except TypeError:
        return sorted(found, key=lambda one: (key_word(one.t), key_word(one.s)))


def _of_each(violations: Iterable[Violation]) -> list[dict[str, Any]]:
    """The first of each rule, so that one with very many does not hide the others."""
    by_rule: dict[str, list[Violation]] = {}
    for violation in violations:
        by_rule.setdefault(violation.rule, []).append(violation)
    return [one.to_dict() for found in by_rule.values() for one in in_order(found)[:LISTED]]


def new_since(opened: OpenVersion, earlier: OpenVersion, selection: Wanted, skip: int, limit: int) -> dict[str, Any]:
    """The violations that an earlier version did not have."""
    found = list(NewSince(selection, earlier).violations(opened, MOST_COMPARED))
    return {"total": len(found), "violations": [_bare(one, opened) for one in found[skip : skip + limit]]}


def _bare(violation: Violation, opened: OpenVersion) -> dict[str, Any]:
    """A violation with the rows that it names."""
    rule = next(result.rule for result in opened.results if result.rule.name == violation.rule)
    table = rule.own_table or opened.facts.main
    keys = [violation.t, *([violation.s] if violation.pair else [])] if rule.kind != "measure" else []
    columns = list(dict.fromkeys((*opened.facts.keys[table], *rule.columns)))
    rows = [opened.monitor.values(key, table=table) for key in keys]
    cut = [{column: row[column] for column in columns if column in row} for row in rows]
    return {**violation.to_dict(), **shown_violation(rule, violation, cut), "severity": rule.severity}


def try_row(opened: OpenVersion, values: Mapping[str, Any], op: str, table: str | None) -> dict[str, Any]:
    """What one change would add and remove; nothing is applied. Complexity: that of opening the state."""
    if op not in OPS:
        raise HoldstrueError(f"op is {op!r}", hint=f"one of {', '.join(OPS)}")
    name = opened.facts.known_table(table or opened.facts.main)
    if op == "delete":
        values = {column: value for column, value in values.items() if column in opened.facts.keys[name]}
    mark = "_holdstrue_op"  # a name that no table of people's has
    if mark in values:
        raise HoldstrueError(f"a row has no column {mark!r}", hint="leave it out")
    delta = opened.monitor.preview({name: [{**values, mark: op}]}, limit=MOST_COMPARED, feed="ops", op_column=mark)
    added, removed = _of_each(delta.added), _of_each(delta.removed)
    return {
        "version": opened.version,
        "added": added,
        "removed": removed,
        "counts": delta.to_dict()["counts"],
        "truncated": len(added) + len(removed) < sum(step.added + step.removed for step in delta.counts.values()),
        "notes": list(delta.notes),
    }


def try_rule(opened: OpenVersion, text: str, table: str | None) -> dict[str, Any]:
    """How the rows stand to a rule that is not the state's, of the main table unless it or `table` names another.

    Complexity: that of `check` over its rows.
    """
    rule = {"rule": text} | ({} if table is None else {"table": opened.facts.known_table(table)})
    report = try_rules(opened.monitor, [rule], limit=LISTED)
    [result] = report.results
    table = result.rule.own_table or opened.facts.main
    return {
        "version": opened.version,
        **result.to_dict(),
        "open": result.counts.open,
        "table": table,
        "of": report.rows.get(table, 0),
        "violations": [
            {**violation.to_dict(), **shown_violation(result.rule, violation, rows), "severity": result.rule.severity}
            for violation, rows in report.examples(result, LISTED)
        ],
        "truncated": result.counts.open > LISTED,
        "notes": list(report.notes),
    }
