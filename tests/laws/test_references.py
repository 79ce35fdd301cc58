"""Laws of inclusion dependencies: missing references as either table changes, or both at once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue import Monitor, check, load_rules
from laws.test_detection import found, nonempty
from laws.worlds import applied
from places import Folders
from translate import expected

RULES = load_rules(
    [
        {"name": "one", "rule": "orders.customer in customers.id"},
        {"name": "two", "rule": "orders.(customer, city) in customers.(id, city)"},
        {"name": "some", "rule": "orders.customer in customers.id", "where": "city != 'x'"},
        {"name": "self", "rule": "orders.parent in orders.id"},
        {"name": "back", "rule": "customers.best in orders.id"},
        {"name": "mixed", "rule": "orders.customer in customers.score"},
    ]
)
ORDERS = pa.schema([("id", pa.int64()), ("customer", pa.int64()), ("city", pa.string()), ("parent", pa.int64())])
CUSTOMERS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("best", pa.int64()), ("score", pa.float64())])

maybe = st.one_of(st.integers(0, 4), st.integers(0, 4), st.none())
cities = st.sampled_from(["x", "y", None])
order = st.fixed_dictionaries({"customer": maybe, "city": cities, "parent": maybe})
customer = st.fixed_dictionaries(
    {"city": cities, "best": maybe, "score": st.sampled_from([0.0, -0.0, 1.0, 2.5, float("nan"), None])}
)


@st.composite
def batch(draw: st.DrawFn, present: set[int], image: st.SearchStrategy[dict[str, Any]]) -> list[Any]:
    alive, changes = set(present), []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["insert", "update", "delete"]))
        key = draw(st.integers(0, 5))
        if (kind == "insert") == (key in alive):
            continue
        alive ^= {key} if kind != "update" else set()
        changes.append((kind, {"id": key} | draw(image)))
    return changes


def as_table(changes: list[Any], schema: pa.Schema) -> pa.Table:
    table = pa.Table.from_pylist([row for _, row in changes], schema=schema)
    return table.append_column("_op", pa.array([op for op, _ in changes], pa.string()))


def truth(orders: dict[int, Any], customers: dict[int, Any]) -> dict[str, set[Any]]:
    tables = {"orders": list(orders.values()), "customers": list(customers.values())}
    found_: dict[str, set[Any]] = {}
    for rule in RULES:
        own = customers if rule.name == "back" else orders
        found_ |= expected(load_rules(rule), list(own.values()), list(own), others=tables)
    return found_


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_both_tables_change(data: st.DataObject) -> None:
    both_change(data, None)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_both_tables_change_in_a_state_that_is_opened_again(folders: Folders, data: st.DataObject) -> None:
    both_change(data, folders.fresh())


def both_change(data: st.DataObject, place: str | None) -> None:
    key = {"orders": "id", "customers": "id"}
    monitor = Monitor(RULES, key=key) if place is None else Monitor.create(place, RULES, key=key)
    orders: dict[int, Any] = {}
    customers: dict[int, Any] = {}
    before = truth(orders, customers)
    for _ in range(data.draw(st.integers(1 if place is None else 3, 5))):
        one, two = data.draw(batch(set(orders), order)), data.draw(batch(set(customers), customer))
        parts = {"orders": as_table(one, ORDERS), "customers": as_table(two, CUSTOMERS)}
        skip = data.draw(st.sampled_from(["none", "orders", "customers"]))
        parts.pop(skip, None)
        delta = monitor.apply(parts, op_column="_op", feed="ops", limit=None)
        orders = orders if skip == "orders" else applied(orders, one)
        customers = customers if skip == "customers" else applied(customers, two)
        after = truth(orders, customers)
        assert found(delta.added) == nonempty({rule: after[rule] - before[rule] for rule in after})
        assert found(delta.removed) == nonempty({rule: before[rule] - after[rule] for rule in after})
        for rule, step in delta.counts.items():
            assert (step.added, step.removed, step.open) == (
                len(after[rule] - before[rule]),
                len(before[rule] - after[rule]),
                len(after[rule]),
            ), rule
        assert found(monitor.violations()) == nonempty(after)
        before = after
        if place is not None and data.draw(st.sampled_from([True, True, False])):
            counts = monitor.counts()
            monitor.close()
            monitor = Monitor.open(place)
            assert monitor.counts() == counts
            assert found(monitor.violations()) == nonempty(after)
    monitor.close()
    if orders and customers:
        data_orders = pa.Table.from_pylist(list(orders.values()), schema=ORDERS)
        data_customers = pa.Table.from_pylist(list(customers.values()), schema=CUSTOMERS)
        rules = load_rules([rule for rule in RULES if rule.name != "back"])
        report = check(data_orders, rules, key="id", tables={"customers": data_customers}, limit=None)
        assert found(report) == nonempty({rule: some for rule, some in before.items() if rule != "back"})
