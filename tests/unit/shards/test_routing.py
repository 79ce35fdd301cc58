"""Routes: which rows must meet, with as few placings as possible."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from holdstrue import load_rules
from holdstrue.plan.compile import compile_rules
from holdstrue.shards.layout import HOME, Columns, Layout
from holdstrue.shards.routing import Route, routes_of

SCHEMA = pa.schema(
    [("id", pa.int64()), *((name, pa.string()) for name in "abcd"), ("x", pa.int64()), ("y", pa.int64())]
)


def layout(*rules: str, shards: int = 4, blocks: int = 3) -> Layout:
    plan = compile_rules(load_rules(list(rules)), "data", {"data": SCHEMA})
    return Layout.of(plan, {"data": ("id",)}, shards, blocks)


def routes(*rules: str) -> list[str]:
    return [str(route) for route in layout(*rules).routes]


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        (("a -> b",), ["data by (a)"]),
        # what both agree on serves both
        (("a -> b", "key(a, c)"), ["data by (a)"]),
        # widened to all that the rules of a route share
        (("a, b -> c", "a, b -> d"), ["data by (a, b)"]),
        (("key(a, b)", "key(b, c)", "key(c, d)"), ["data by (b)", "data by (c, d)"]),
        (("a -> b", "c -> d"), ["data by (a)", "data by (c)"]),
        # the same column on both sides is enough: one place a row
        (("not(t.a = s.a and t.b = s.c and t.x < s.x)",), ["data by (a)"]),
        (("not(t.b = s.c and t.x < s.x)",), ["data by (b) with data by (c)"]),
        (("not(t.x < s.x and t.y > s.y)", "a -> b"), ["data by (all rows together)", "data by (a)"]),
        (("not(t.x < 0)", "not null(a)"), []),
    ],
)
def test_few_routes(rules: tuple[str, ...], wanted: list[str]) -> None:
    assert sorted(routes(*rules)) == sorted(wanted)


def test_every_check_has_a_route() -> None:
    many = [f"{left}, {right} -> x" for left in "abcd" for right in "abcd" if left < right]
    found = layout(*many, "not(t.x < s.y)", "key(x)").routes
    assert sorted(n for route in found for n in route.checks) == list(range(len(many) + 2))
    # two columns out of four: any two columns that are not in one rule leave no rule out
    assert len(found) == 5


def test_text_travels_as_digests_unless_somebody_looks_at_it() -> None:
    rules = load_rules([{"rule": "a -> b, x", "where": "c = 'z'"}])
    one = Layout.of(compile_rules(rules, "data", {"data": SCHEMA}), {"data": ("id",)}, 2, 1)
    types = {field.name: str(field.type) for field in one.travelling(0)["data"]}
    digest = "fixed_size_binary[16]"
    assert types == {"id": "int64", "a": digest, "b": digest, "x": "int64", "c": "string"}


def test_any_two_rows_meet_in_a_grid_and_count_once() -> None:
    grid = layout("not(t.x < s.x)", blocks=4)
    rows = pa.table({name: pa.array([None] * 40, kind) for name, kind in zip(SCHEMA.names, SCHEMA.types)})
    rows = rows.set_column(0, "id", pa.array(range(40)))
    columns = Columns(rows)
    _, block, _ = grid.home("data", columns)
    which, shards = grid.spread(0, grid.place(0, grid.routes[0].t, columns), block, provides=False)
    cells = {shard: set(which[shards == shard].tolist()) for shard in np.unique(shards).tolist()}
    assert len(cells) == 10
    assert max(len(own) for own in cells.values()) < 40
    for t in range(40):
        for s in range(t):
            met = sum(grid.spots[shard].weight for shard, own in cells.items() if {t, s} <= own)
            assert met == 1


def test_rows_without_a_value_stay_at_home() -> None:
    one = layout("a -> b")
    columns = Columns(pa.table({"id": [1, 2], "a": ["x", None], "b": ["y", "y"]}))
    places = one.place(0, one.routes[0].t, columns)
    assert places[0] >= one.shards
    assert places[1] == -1


def test_homes_come_first() -> None:
    spots = layout("a -> b", "not(t.x < s.x)", shards=2).spots
    assert [spot.route for spot in spots] == [HOME, HOME, 0, 0, 1, 1, *[1] * 6]


def test_a_route_of_references_names_both_tables() -> None:
    rules = load_rules(["orders.customer in customers.id"])
    schemas = {
        "orders": pa.schema([("id", pa.int64()), ("customer", pa.int64())]),
        "customers": pa.schema([("id", pa.int64())]),
    }
    [route] = routes_of(compile_rules(rules, "orders", schemas))
    assert isinstance(route, Route)
    assert str(route) == "orders by (customer) with customers by (id)"
    assert not route.flagged
