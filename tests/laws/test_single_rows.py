"""Laws of single rows: given one at a time, in whatever form, they do what the oracle says and batches do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import oracle
from holdstrue import HoldstrueError, Monitor, load_rules
from holdstrue.detect import pair_set
from holdstrue.detect.one_row import RowProgram
from holdstrue.index import one_probe, rows
from holdstrue.rules import RuleSet
from laws import test_references as references
from laws import worlds
from laws.test_detection import INDEXES, assert_counts, draw_rules, found, nonempty
from laws.test_types import refused, rows_of, rule, table_of
from laws.typed import column, kinds
from places import Folders
from translate import at_first, expected

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
FEW = settings(SETTINGS, max_examples=30)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sizes that few rows cross; and before each row the compiled call is known to find all arrays where they are."""
    apply = RowProgram.apply

    def checked(program: RowProgram, *row: Any) -> Any:
        program.check()
        return apply(program, *row)

    monkeypatch.setattr(RowProgram, "apply", checked)
    monkeypatch.setattr(pair_set, "MOST_WAITING", 3)
    monkeypatch.setattr(rows, "MOST_WAITING", 3)
    monkeypatch.setattr(one_probe, "MOST_PARTNERS", 6)
    yield


def form_of(data: st.DataObject, op: str, row: worlds.Row, schema: pa.Schema) -> Any:
    """One change in one of the forms in which a row can be given."""
    table = pa.Table.from_pylist([row], schema=schema)
    if op == "delete":
        key = {"id": row["id"], "op": "delete"}
        return data.draw(st.sampled_from([key, [key], pa.table({"id": [row["id"]], "op": ["d"]}), {**row, "_op": "d"}]))
    if op == "insert":
        forms = [
            row,
            [row],
            (row,),
            table,
            table.to_batches()[0],
            tuple(row[name] for name in schema.names),
            {**row, "op": "upsert"},
        ]
        return data.draw(st.sampled_from(forms))
    with_op = table.append_column("op", pa.array([op]))
    return data.draw(st.sampled_from([{**row, "op": op}, [{"op": "u", **row}], with_op, with_op.to_batches()[0]]))


def change(data: st.DataObject, living: dict[int, worlds.Row]) -> tuple[str, worlds.Row]:
    """An insert of a new key, or an update or delete of one there is."""
    op = data.draw(st.sampled_from(["insert", "insert", "update", "delete"])) if living else "insert"
    key = data.draw(st.sampled_from([i for i in range(14) if i not in living] if op == "insert" else sorted(living)))
    return op, data.draw(worlds.row(key))


def assert_delta(delta: Any, before: dict[str, set[Any]], after: dict[str, set[Any]]) -> None:
    assert found(delta.added) == nonempty({name: after[name] - before[name] for name in after})
    assert found(delta.removed) == nonempty({name: before[name] - after[name] for name in after})
    for name, step in delta.counts.items():
        told = (len(after[name] - before[name]), len(before[name] - after[name]), len(after[name]))
        assert (step.added, step.removed, step.open) == told, name


def follow(data: st.DataObject, rules: RuleSet, monitor: Monitor, place: str | None = None) -> None:
    """Rows one by one, now and then several; every delta and every count is the oracle's."""
    living: dict[int, worlds.Row] = {}
    before = at_first(rules)
    for step in range(data.draw(st.integers(2, 9))):
        op, row = change(data, living)
        changes = [(op, row)]
        if data.draw(st.integers(0, 5)) == 0:
            extra = [data.draw(worlds.row(100 + 10 * step + i)) for i in range(4)]
            changes += [("insert", more) for more in extra]
        note(f"{changes}")
        if len(changes) == 1:
            given_ = form_of(data, op, row, worlds.SCHEMA) if step else pa.Table.from_pylist([row], worlds.SCHEMA)
            delta = monitor.apply(given_, limit=None)
        else:
            table = pa.Table.from_pylist([row for _, row in changes], schema=worlds.SCHEMA)
            delta = monitor.apply(table.append_column("op", pa.array([op for op, _ in changes])), limit=None)
        living = worlds.applied(living, changes)
        after = expected(rules, list(living.values()), list(living))
        assert_delta(delta, before, after)
        assert_counts(monitor.counts(), after)
        assert delta.batch == f"#{step + 1}" and monitor.rows == {"data": len(living)}
        if data.draw(st.integers(0, 3)) == 0:
            assert found(monitor.violations()) == nonempty(after)
        if place is not None and data.draw(st.booleans()):
            monitor.close()
            monitor = Monitor.open(place)
            assert_counts(monitor.counts(), after)
        before = after
    assert found(monitor.violations()) == nonempty(before)
    steps = {line.rule: line.open for line in monitor.history()}
    assert all(steps[name] == len(some) for name, some in before.items())
    monitor.close()


@pytest.mark.parametrize("index", INDEXES)
@FEW
@given(data=st.data())
def test_one_by_one(index: Any, data: st.DataObject) -> None:
    rules = draw_rules(data)
    note("; ".join(one.text for one in rules))
    follow(data, rules, Monitor(rules, key="id", index=index))


@FEW
@given(data=st.data())
def test_in_a_state_that_is_opened_again(data: st.DataObject, folders: Folders) -> None:
    rules, place = draw_rules(data, 2), folders.fresh()
    follow(data, rules, Monitor.create(place, rules, key="id"), place)


@SETTINGS
@given(data=st.data())
def test_all_types(data: st.DataObject, folders: Folders) -> None:
    """Rows of any two types, as Arrow holds them or as Python's values: the oracle's answer, or an error of ours.

    What a state keeps of them is what was given.
    """
    one, two = data.draw(kinds())
    many = data.draw(st.integers(2, 6))
    x, y = data.draw(column(one, many)), data.draw(column(two, many))
    text, where, body, holds, ordered = data.draw(rule(x, y))
    note(f"{text} where {where}: x {one.type} {x.form} {x.raws}, y {two.type} {y.form} {y.raws}")
    table, meant = table_of(x, y), rows_of(x, y)
    entry = {"name": "r", "rule": text} | ({} if where is None else {"where": where})
    as_dicts = data.draw(st.booleans())
    try:
        rules, place = load_rules([entry]), folders.fresh() if data.draw(st.booleans()) else None
        monitor = Monitor(rules, key="id") if place is None else Monitor.create(place, rules, key="id")
        for at in range(many):
            part: Any = table.slice(at, 1)
            if as_dicts and at and _shown(part):
                part = part.to_pylist()[0]
            delta = monitor.apply(part, limit=None)
            before, after = (oracle.violations(body, meant[: at + more], where=holds) for more in (0, 1))
            assert found(delta.added).get("r", set()) == after - before
        if many > 2:
            monitor.apply({"id": 1, "op": "delete"})
            after = {some for some in after if 1 not in some}
            assert found(monitor.violations()).get("r", set()) == after
        if place is not None:
            kept = [repr(monitor.values(at)) for at in range(many) if at != 1 or many <= 2]
            monitor.close()
            with Monitor.open(place) as monitor:
                assert found(monitor.violations()).get("r", set()) == after
                assert [repr(monitor.values(at)) for at in range(many) if at != 1 or many <= 2] == kept
    except HoldstrueError as error:
        refused(error, text, one, two, ordered=ordered)


def _shown(part: pa.Table) -> bool:
    """Whether Python has the values exactly: not so of nanoseconds, far dates, and doubles that were narrower."""
    exact = (pa.types.is_integer, pa.types.is_float64, pa.types.is_string, pa.types.is_boolean, pa.types.is_binary)
    return all(any(test(type_) for test in exact) for type_ in part.schema.types)


@FEW
@given(data=st.data())
def test_several_tables(data: st.DataObject) -> None:
    """Rows of tables that refer to each other, one at a time."""
    monitor = Monitor(references.RULES, key={"orders": "id", "customers": "id"})
    empty = {"orders": references.ORDERS.empty_table(), "customers": references.CUSTOMERS.empty_table()}
    monitor.apply(empty)
    living: dict[str, dict[int, Any]] = {"orders": {}, "customers": {}}
    schemas = {"orders": references.ORDERS, "customers": references.CUSTOMERS}
    images: dict[str, st.SearchStrategy[dict[str, Any]]] = {
        "orders": references.order,
        "customers": references.customer,
    }
    before = references.truth(**living)
    for _ in range(data.draw(st.integers(1, 7))):
        name = data.draw(st.sampled_from(["orders", "customers"]))
        op = data.draw(st.sampled_from(["insert", "insert", "update", "delete"])) if living[name] else "insert"
        free = [i for i in range(8) if i not in living[name]]
        key = data.draw(st.sampled_from(free if op == "insert" else sorted(living[name])))
        row = {"id": key, **data.draw(images[name])}
        delta = monitor.apply({name: form_of(data, op, row, schemas[name])}, limit=None)
        living[name] = worlds.applied(living[name], [(op, row)])
        after = references.truth(**living)
        assert_delta(delta, before, after)
        before = after


@FEW
@given(data=st.data())
def test_previews_leave_nothing_behind(data: st.DataObject, folders: Folders) -> None:
    """A row that is only tried says what it would do, and everything goes on as if it had not been."""
    rules, place = draw_rules(data, 3), folders.fresh()
    note("; ".join(one.text for one in rules))
    monitor = Monitor.create(place, rules, key="id")
    living: dict[int, worlds.Row] = {}
    before = at_first(rules)
    for step in range(data.draw(st.integers(2, 6))):
        op, row = change(data, living)
        given_ = form_of(data, op, row, worlds.SCHEMA) if step else pa.Table.from_pylist([row], worlds.SCHEMA)
        if step:
            tried = data.draw(worlds.row(50))
            note(f"try {tried}")
            told = monitor.preview(tried, limit=None)
            assert_delta(told, before, expected(rules, [*living.values(), tried], [*living, 50]))
            assert_counts(monitor.counts(), before)
            assert monitor.batches == step and monitor.rows == {"data": len(living)}
        note(f"{op} {row}")
        delta = monitor.apply(given_, limit=None)
        living = worlds.applied(living, [(op, row)])
        after = expected(rules, list(living.values()), list(living))
        assert_delta(delta, before, after)
        assert found(monitor.violations()) == nonempty(after)
        before = after
    monitor.close()
    with Monitor.open(place) as again:
        assert found(again.violations()) == nonempty(before)


@pytest.mark.parametrize(
    "rule", ["a -> b", "key(a)", "not(t.a = s.b and t.b = s.a and t.c != s.c)", "not(t.a = s.a and t.b > s.b)"]
)
def test_every_row_makes_a_group_of_its_own(rule: str) -> None:
    """Structures are full at many sizes, and each of them is passed by one row."""
    one, all_at_once = Monitor([rule], key="id"), Monitor([rule], key="id")
    rows = [{"id": at, "a": at if at % 5 else at // 2, "b": at * 7 % 1000, "c": at % 3} for at in range(1500)]
    for row in rows:
        one.apply(row)
    all_at_once.apply(pa.Table.from_pylist(rows))
    assert one.counts() == all_at_once.counts()
