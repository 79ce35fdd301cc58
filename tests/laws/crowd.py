"""Batches that several threads or processes apply to one state, and what there is to say of every version of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from holdstrue import Monitor, Violation, check, load_rules

RULES = ["zip -> city", "key(code)", "not(t.zip = s.zip and t.size > s.size and t.cost < s.cost)", "not(t.size < 0)"]

Row = dict[str, Any]


def row(key: int, salt: int = 0) -> Row:
    """A row that breaks rules together with those of other writers; another salt, another version of it."""
    at = key * 7 + salt * 31
    return {
        "id": key,
        "zip": f"z{at % 5}",
        "city": f"c{at % 5 if at % 9 else 99}",
        "code": at % 60,
        "size": at % 23 - (3 if at % 13 == 0 else 0),
        "cost": float(at * 5 % 17),
    }


FIRST = [row(key) for key in range(60)]


def table(rows: Sequence[Row]) -> pa.Table:
    """Rows as they are given to a monitor."""
    return pa.Table.from_pylist(list(rows))


def names(writer: int, steps: int) -> list[str]:
    """The ids of a writer's batches."""
    return [f"{writer}-{step}" for step in range(steps)]


def changes(name: str) -> list[Row]:
    """What a batch does, which follows from its id: new rows, one updated, and from the third step on one deleted."""
    writer, step = map(int, name.split("-"))
    start = 1000 * (writer + 1) + 4 * step
    some = [row(key) | {"op": "insert"} for key in range(start, start + 4)]
    if step:
        some.append(row(start - 1, salt=step) | {"op": "update"})
    if step > 1:
        some.append(row(start - 8) | {"op": "delete"})
    return some


def applied(rows: Mapping[int, Row], name: str) -> dict[int, Row]:
    """The rows after a batch."""
    after = dict(rows)
    for change in changes(name):
        if change["op"] == "delete":
            del after[change["id"]]
        else:
            after[change["id"]] = {column: value for column, value in change.items() if column != "op"}
    return after


def named(violations: Iterable[Violation]) -> list[tuple[Any, ...]]:
    """Violations in an order of their own."""
    return sorted((v.rule, v.t, -1 if v.s is None else v.s) for v in violations)


READS: dict[str, Callable[[Monitor], Any]] = {
    "counts": lambda monitor: monitor.counts(),
    "violations": lambda monitor: named(monitor.violations()),
    "groups": lambda monitor: sorted(monitor.groups("zip -> city"), key=str),
    "report": lambda monitor: monitor.report(limit=30).to_dict(),
    "history": lambda monitor: [line.batch for line in monitor.history()],
    "rows": lambda monitor: monitor.rows,
    "batches": lambda monitor: monitor.batches,
    "row": lambda monitor: monitor.row(3),
    "offenders": lambda monitor: monitor.offenders(5),
    "repr": repr,
}
"""What a reader may ask of a monitor."""


def versions(order: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Every answer of every version, from the first rows on: one thread applies the batches, and each is checked."""
    rows = {first["id"]: first for first in FIRST}
    monitor = Monitor(RULES, key="id", data=table(FIRST))
    yield {what: read(monitor) for what, read in READS.items()}
    for name in order:
        rows = applied(rows, name)
        monitor.apply(table(changes(name)), name)
        answers = {what: read(monitor) for what, read in READS.items()}
        scratch = check(table(list(rows.values())), RULES, key="id", limit=None)
        assert answers["violations"] == named(scratch)
        assert answers["counts"] == {result.rule.name: result.counts for result in scratch.results}
        yield answers


def assert_last(counts: Any, violations: Iterable[Violation], order: Iterable[str]) -> None:
    """In the end it is what the oracle makes of all rows."""
    # here, so that the processes of a crowd start quickly
    from laws.test_detection import assert_counts, found, nonempty
    from translate import expected

    rows = {first["id"]: first for first in FIRST}
    for name in order:
        rows = applied(rows, name)
    truth = expected(load_rules(RULES), list(rows.values()), list(rows))
    assert found(violations) == nonempty(truth)
    assert_counts(counts, truth)


def assert_in_order(seen: Iterable[tuple[str, Any]], known: Sequence[Mapping[str, Any]]) -> None:
    """What a reader saw are answers of versions, each no older than the one before."""
    at = 0
    for what, answer in seen:
        later = [number for number in range(at, len(known)) if known[number][what] == answer]
        assert later, f"no version from {at} on has these {what}: {answer}"
        at = later[0]
