"""Accepted violations held against a report: how many of each rule there are, and which are new."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.detect.delta import RuleResult, Violation, plain
from holdstrue.detect.engine import Engine
from holdstrue.errors import HoldstrueError, brief
from holdstrue.index.arrays import Numbering
from holdstrue.monitor.known import AcceptedEntry, KnownViolations, WrittenReport, comparable
from holdstrue.monitor.report import Findings, Report
from holdstrue.operators import Op
from holdstrue.plan.compile import compile_rules
from holdstrue.rules.accepted import MOST_ACCEPTED, TOO_MANY, Acceptance, RowName, load_accepted
from holdstrue.rules.bodies import CFD, DC, FD, Body
from holdstrue.rules.bodies import Key as KeyBody
from holdstrue.rules.model import Pattern, Rule, RuleSet
from holdstrue.rules.terms import across

SET = "holdstrue accepted set"
"""The column that tells which rows were accepted together; no column of people is called so."""


def accepting(report: Report, source: str | Sequence[Acceptance], *, today: dt.date | None = None) -> Report:
    """The report with accepted violations counted, and left out of its lists; they do not fail it.

    Parameters
    ----------
    source
        A file as `holdstrue accept` writes it, or its entries.
    today
        The day on which entries are or are not expired; now unless given.

    Complexity: O(rows) for the keys of tables with entries, and O(accepted rows log accepted rows).

    Examples
    --------
    >>> import holdstrue
    >>> rows = pa.table({"id": [1, 2, 3], "zip": ["1", "1", "1"], "city": ["Bonn", "Ulm", "Kiel"]})
    >>> report = holdstrue.check(rows, "zip -> city", key="id")
    >>> known = accepting(report, [Acceptance("zip -> city", "seen", conflicts=((1, 2),))])
    >>> known.total, known.new, list(known)
    (3, 2, [Violation(rule='zip -> city', t=1, s=3), Violation(rule='zip -> city', t=2, s=3)])
    """
    entries = entries_for(report, source)
    with report.reading():
        results, counted, known = weighed(report.results, entries, partial(_violations, report), today)
    return replace(report, results=results, accepted=counted, _known=known)


def entries_for(report: Findings, source: str | Sequence[Acceptance]) -> tuple[Acceptance, ...]:
    """The entries of a file, all of which are about rules of a report whose rows have keys."""
    entries = load_accepted(source) if isinstance(source, str) else tuple(source)
    by_name = {result.rule.name: result for result in report.results}
    for entry in entries:
        if entry.rule not in by_name:
            raise HoldstrueError(
                f"violations of rule {entry.rule!r} are accepted, and there is no such rule",
                hint=f"the rules are {', '.join(by_name)}: name one of them in the file, or remove the entry",
            )
        if by_name[entry.rule].rule.kind == "measure":
            raise _whole_table(entry.rule)
        _require_key(report.key_columns(by_name[entry.rule].rule))
    return entries


def weighed(
    found: Sequence[RuleResult],
    entries: Sequence[Acceptance],
    violations: Callable[[RuleResult, Acceptance], int],
    today: dt.date | None = None,
) -> tuple[tuple[RuleResult, ...], tuple[AcceptedEntry, ...], dict[str, KnownViolations]]:
    """Results with what is accepted of them, the entries with what each stands for, and by rule what is known.

    `violations` counts those of a rule that an entry names.
    """
    today = today or dt.datetime.now(dt.UTC).astimezone().date()
    counted: list[AcceptedEntry] = []
    known: dict[str, KnownViolations] = {}
    results = []
    for result in found:
        own = [
            AcceptedEntry(
                entry, violations(result, entry), entry.expired(today), entry.text not in (None, result.rule.text)
            )
            for entry in entries
            if entry.rule == result.rule.name
        ]
        live = [entry.acceptance for entry in own if not entry.lapsed]
        _require_apart(live)
        counted += own
        accepted = sum(entry.violations for entry in own if not entry.lapsed)
        if live:
            known[result.rule.name] = KnownViolations.of(live)
        status = "accepted" if accepted == result.counts.open > 0 else result.status
        results.append(replace(result, accepted=accepted, status=status))
    return tuple(results), tuple(counted), known


def _require_apart(entries: Sequence[Acceptance]) -> None:
    """Nothing is accepted twice, so that what each entry stands for can be added up."""
    rows: set[Any] = set()
    sets: dict[Any, list[int]] = {}
    number = 0
    for entry in entries:
        for name in map(comparable, entry.rows):
            if name in rows:
                raise _twice(entry, brief(name))
            rows.add(name)
        for conflict in entry.conflicts:
            number += 1
            names = list(map(comparable, conflict))
            shared = Counter(other for name in names for other in sets.get(name, ()))
            for other, count in shared.items():
                if count > 1:
                    both = [name for name in names if other in sets.get(name, ())][:2]
                    raise _twice(entry, " and ".join(map(brief, both)))
            for name in names:
                sets.setdefault(name, []).append(number)


def _twice(entry: Acceptance, what: str) -> HoldstrueError:
    return HoldstrueError(
        f"violations of {entry.rule!r} by {what} are accepted twice",
        hint="remove one of the entries, or one of the rows from it",
    )


def _violations(report: Report, result: RuleResult, entry: Acceptance) -> int:
    """How many violations there are that an entry accepts."""
    engine, rule = report._engine, result.rule
    table, key = rule.own_table or engine.plan.main, report.key_columns(rule)
    count = 0
    if entry.rows:
        slots = _slots(engine, table, key, entry.rows)[1]
        for detector in engine.detectors:
            if detector.check.rule == _number(report, rule) and detector.check.width == 1:
                count += int((detector.degrees(slots) > 0).sum())
    if entry.conflicts:
        names = [name for conflict in entry.conflicts for name in conflict]
        sets = np.repeat(np.arange(len(entry.conflicts)), [len(conflict) for conflict in entry.conflicts])
        which, slots = _slots(engine, table, key, names)
        rows = engine.tables[table].rows.take(slots, rule.columns)
        count += conflicts_in(rule, rows.append_column(SET, pa.array(sets[which])), engine.plan.rules.nulls)
    return count


def _number(report: Report, rule: Rule) -> int:
    return [result.rule.name for result in report.results].index(rule.name)


def _slots(engine: Engine, table: str, key: Sequence[str], names: Sequence[RowName]) -> tuple[Any, Any]:
    """Living rows with these keys: for each the place of its name, and its slot."""
    rows = engine.tables[table].rows
    wanted = Numbering()
    numbers = wanted.assign(*engine.key_digest(table, key_table(rows.schema, key, names), key), _all(len(names)))
    living = rows.living_slots()
    found = wanted.find(*engine.key_digest(table, rows.take(living, key), key), _all(living.size))
    places: dict[int, list[int]] = {}
    for place, number in enumerate(numbers.tolist()):
        places.setdefault(number, []).append(place)
    there = np.flatnonzero(found >= 0)
    which = [place for number in found[there].tolist() for place in places[number]]
    times = [len(places[number]) for number in found[there].tolist()]
    return np.array(which, dtype=np.int64), np.repeat(living[there], times)


def _all(size: int) -> Any:
    return np.ones(size, dtype=np.bool_)


def key_table(schema: pa.Schema, key: Sequence[str], names: Sequence[RowName]) -> pa.Table:
    """Keys of a file as values of the key's columns."""
    columns = []
    for at, column in enumerate(key):
        type_ = schema.field(column).type
        parts = []
        for name in names:
            if len(key) > 1 and (not isinstance(name, tuple) or len(name) != len(key)):
                raise HoldstrueError(f"{brief(name)} is no key", hint=f"write a row as [{', '.join(key)}]")
            parts.append(name[at] if len(key) > 1 and isinstance(name, tuple) else name)
        try:
            columns.append(pa.array(parts, type_))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            try:
                texts = pa.array([None if part is None else str(part) for part in parts], pa.string())
                columns.append(texts.cast(type_))
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise HoldstrueError(
                    f"accepted rows do not have keys of column {column!r}, which holds {type_}: {error}",
                    hint="is it the right file?",
                ) from error
    return pa.table(columns, names=list(key))


def conflicts_in(rule: Rule, rows: pa.Table, nulls: Any) -> int:
    """Violating pairs of rows of one set."""
    alone = RuleSet((replace(rule, body=_within_sets(rule.body), table=None),), nulls=nulls)
    plan = compile_rules(alone, "rows", {"rows": rows.schema})
    engine = Engine(plan, {"rows": rows.schema})
    engine.load("rows", rows, None)
    return sum(detector.pairs for detector in engine.detectors)


def _within_sets(body: Body) -> Body:
    """The same of two rows that are in one set."""
    match body:
        case KeyBody():
            return KeyBody((*body.columns, SET))
        case FD():
            return FD((*body.lhs, SET), body.rhs)
        case CFD():
            patterns = tuple(Pattern((*pattern.lhs, None), pattern.rhs) for pattern in body.tableau)
            return CFD((*body.lhs, SET), body.rhs, patterns)
        case DC() if body.two_rows:
            return DC((*body.predicates, across(SET, Op.EQ)))
    return body


def accepted_now(report: Report, rules: Iterable[str], reason: str, **about: Any) -> Iterator[Acceptance]:
    """Entries for all violations of some rules that are new in a report.

    Rows of a group that conflict make one set; other pairs are sets of two.
    """
    room = [MOST_ACCEPTED]
    for name in rules:
        result = next(result for result in report.results if result.rule.name == name)
        if result.rule.kind == "measure":
            continue
        _require_key(report.key_columns(result.rule))
        sets = []
        # of a group of which a part is accepted only the pairs are named that are not
        grouped = bool(result.counts.groups) and name not in report._known
        for group in report.groups(name) if grouped else ():
            sets.append(tuple(plain(key) for side in group.sides for key in side))
            _take(room, len(sets[-1]), name)
        # single rows come before pairs
        new = takewhile(lambda v: not v.pair, report.violations(name)) if grouped else report.violations(name)
        entry = _entry_of(name, reason, new, room, sets, {**about, "text": result.rule.text})
        if entry is not None:
            yield entry


def accepted_in(
    written: WrittenReport,
    rules: Iterable[str],
    reason: str,
    before: Sequence[Acceptance],
    today: dt.date,
    **about: Any,
) -> tuple[tuple[Acceptance, ...], tuple[Acceptance, ...]]:
    """Of the entries of before those that still stand for a violation, and entries for what else a check wrote."""
    if written.truncated:
        raise HoldstrueError(
            "the report does not list all violations",
            hint="write it with a higher --limit: holdstrue check ... --limit 100000",
        )
    if written.shared:
        raise HoldstrueError(
            "several rows have one key, so that it does not say which of them are accepted",
            hint="check with a unique --key",
        )
    live = [
        entry
        for entry in before
        if not entry.expired(today) and entry.text in (None, written.texts.get(entry.rule, entry.text))
    ]
    known = {name: KnownViolations.of(entry for entry in live if entry.rule == name) for name in written.keys}
    alone = {id(entry): KnownViolations.of([entry]) for entry in live}
    kept = tuple(
        entry for entry in live if any(v.rule == entry.rule and alone[id(entry)].holds(v) for v in written.violations)
    )
    room = [MOST_ACCEPTED]
    added = []
    for name in rules:
        if name in written.measured:
            continue
        _require_key(written.keys[name])
        own = [v for v in written.violations if v.rule == name]
        new = [v for v in own if not known[name].holds(v)]
        sets = list(_connected(new)) if name in written.grouped and len(new) == len(own) else []
        new = [v for v in new if not v.pair] if sets else new
        added.append(_entry_of(name, reason, new, room, sets, {**about, "text": written.texts[name]}))
    return kept, tuple(entry for entry in added if entry is not None)


def _connected(violations: Iterable[Violation]) -> Iterator[tuple[RowName, ...]]:
    """Rows that are connected by pairs: those of a violating group."""
    of: dict[Any, dict[Any, RowName]] = {}
    for violation in violations:
        if violation.pair:
            t, s = plain(violation.t), plain(violation.s)
            one, other = (of.get(comparable(name), {comparable(name): name}) for name in (t, s))
            larger, smaller = (one, other) if len(one) >= len(other) else (other, one)
            larger.update(smaller)
            of.update(dict.fromkeys(smaller, larger))
            of[comparable(t)] = of[comparable(s)] = larger
    yield from (tuple(group.values()) for group in {id(group): group for group in of.values()}.values())


def _entry_of(
    name: str,
    reason: str,
    violations: Iterable[Violation],
    room: list[int],
    sets: list[tuple[RowName, ...]],
    about: Mapping[str, Any],
) -> Acceptance | None:
    """The entry of violations, with sets of rows that are known already."""
    rows: dict[Any, RowName] = {}
    conflicts: dict[Any, tuple[RowName, ...]] = {frozenset(map(comparable, found)): found for found in sets}
    for violation in violations:
        for part in _parts(violation):
            if not isinstance(part, str | int | float | Decimal | dt.date):
                raise HoldstrueError(
                    f"a row that breaks {name!r} has the key {part!r}, which no file of accepted violations holds",
                    hint="choose a key of numbers, text or dates that is never NULL",
                )
        names = tuple(plain(key) for key in ((violation.t, violation.s) if violation.pair else (violation.t,)))
        if violation.pair:
            # rows that share a key are no two rows for a file of keys
            if comparable(names[0]) == comparable(names[1]):
                raise HoldstrueError(
                    f"two rows that break {name!r} have the key {brief(names[0])}", hint="give a unique key"
                )
            conflicts.setdefault(frozenset(map(comparable, names)), names)
        else:
            rows[comparable(names[0])] = names[0]
        _take(room, len(names), name)
    if not rows and not conflicts:
        return None
    return Acceptance(name, reason, tuple(rows.values()), tuple(conflicts.values()), **about)


def _parts(violation: Violation) -> Iterator[Any]:
    """The values of which the keys of a violation are made."""
    for key in (violation.t, violation.s) if violation.pair else (violation.t,):
        yield from key if isinstance(key, tuple) else (key,)


def _whole_table(rule: str) -> HoldstrueError:
    return HoldstrueError(
        f"rule {rule!r} is about a whole table, and what is accepted are rows",
        hint="change its number, or its severity to warn",
    )


def require_rows(wanted: Iterable[str], measured: Collection[str]) -> None:
    """Raise where violations of a rule are to be accepted that names no rows."""
    for rule in wanted:
        if rule in measured:
            raise _whole_table(rule)


def _require_key(key: Sequence[str]) -> None:
    if not key:
        raise HoldstrueError(
            "accepted violations name rows by their key, and no key is given", hint="give --key, or key: in the rules"
        )


def _take(room: list[int], names: int, rule: str) -> None:
    room[0] -= names
    if room[0] < 0:
        raise HoldstrueError(
            f"more than {MOST_ACCEPTED:,} rows would have to be named to accept what breaks {rule!r}", hint=TOO_MANY
        )
