"""Laws of values: for any two types, every path gives the oracle's answer or refuses with an error of ours."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import oracle
from holdstrue import HoldstrueError, Monitor, check, discover, load_rules
from holdstrue.fragments import Relation, Site
from holdstrue.monitor.sharded import Sharded
from holdstrue.rules import DC, Key, Rule, RuleSet
from holdstrue.shards.runner import Sizing
from holdstrue.sources.fit import plain_column
from laws.shards import Loops
from laws.test_detection import INDEXES, found
from laws.test_shards import listed
from laws.typed import KINDS, Column, Kind, column, compare, kinds, may_refuse_values
from oracle_dependencies import minimal_dependencies
from translate import as_tuple

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
OPS = ("=", "!=", "<", "<=", ">", ">=")
ORDERS = ("<", "<=", ">", ">=")


def other(var: str) -> str:
    return "s" if var == "t" else "t"


@st.composite
def rule(draw: st.DrawFn, one: Column, two: Column) -> tuple[str, str | None, Any, Any, bool]:
    """A rule over columns x and y: its text, its filter, both for the oracle; whether it orders x and y together."""
    x, y = ("t", "x"), ("t", "y")
    op, second = draw(st.sampled_from(OPS)), draw(st.sampled_from(OPS))
    shape = draw(st.sampled_from(["row", "pair", "pair", "cross", "key", "keys", "fd", "constant", "where", "cfd"]))
    ordered = op in ORDERS
    literals = [(raw, text) for raw in one.kind.raws if (text := one.kind.literal(raw)) is not None]
    if shape in ("constant", "where", "cfd") and not literals:
        shape = "key"
    match shape:
        case "row":
            return f"not(t.x {op} t.y)", None, ("dc", [(x, op, y)]), None, False
        case "pair":
            terms = [(x, op, ("s", "x")), (y, second, ("s", "y"))]
            return f"not(t.x {op} s.x and t.y {second} s.y)", None, ("dc", terms), None, False
        case "cross":
            return f"not(t.x {op} s.y)", None, ("dc", [(x, op, ("s", "y"))]), None, ordered
        case "key":
            return "key(x)", None, ("key", ["x"]), None, False
        case "keys":
            return "key(x, y)", None, ("key", ["x", "y"]), None, False
        case "fd":
            return "x -> y", None, ("fd", ["x"], ["y"]), None, False
    raw, text = draw(st.sampled_from(literals))
    meant = one.kind.meaning(raw)
    if shape == "constant":
        return f"not(t.x {op} {text})", None, ("dc", [(x, op, ("const", meant))]), None, False
    if shape == "where":
        where = lambda row: oracle.compare(row["x"], op, meant)  # noqa: E731
        return "key(y)", f"x {op} {text}", ("key", ["y"]), where, False
    return f"[x={text}] -> [y]", None, ("cfd", ["x"], ["y"], [([meant], [None])]), None, False


def rows_of(one: Column, two: Column) -> list[oracle.Row]:
    return [{"id": i, "x": a, "y": b} for i, (a, b) in enumerate(zip(one.meanings, two.meanings, strict=True))]


def table_of(one: Column, two: Column) -> pa.Table:
    return pa.table({"id": pa.array(range(len(one.raws)), pa.int64()), "x": one.arrow(), "y": two.arrow()})


def compares(text: str) -> bool:
    """Whether a rule compares x with y."""
    return "t.x" in text and (".y)" in text and "s.x" not in text)


def refused(error: HoldstrueError, text: str, one: Kind, two: Kind, *, ordered: bool) -> None:
    """An error is right where the types do not compare, or where their common order holds not all values.

    So it is where text is ordered of which all values that are there happen to look like numbers.
    """
    note(f"refused: {error}")
    if "whose values look like" in error.message:
        assert "text" in (one.family, two.family) and any(sign in text for sign in "<>")
        return
    assert compares(text), "each type compares with itself and with constants"
    assert not compare(one, two) or (ordered and may_refuse_values(one, two))


@pytest.mark.parametrize("index", INDEXES)
@SETTINGS
@given(data=st.data())
def test_check(index: Any, data: st.DataObject) -> None:
    """Comparisons of two rows, of one row and with constants; groups; keys; filters."""
    one, two = data.draw(kinds())
    rows = data.draw(st.integers(1, 7))
    x, y = data.draw(column(one, rows)), data.draw(column(two, rows))
    text, where, body, holds, ordered = data.draw(rule(x, y))
    note(f"{text} where {where}: x {one.type} {x.form} {x.raws}, y {two.type} {y.form} {y.raws}")
    entry = {"name": "r", "rule": text} | ({} if where is None else {"where": where})
    equal = data.draw(st.booleans()) and body[0] != "dc"
    rules = RuleSet(tuple(load_rules([entry])), nulls="equal" if equal else "unknown")
    try:
        report = check(table_of(x, y), rules, key="id", index=index, limit=None)
    except HoldstrueError as error:
        refused(error, text, one, two, ordered=ordered)
        return
    assert not compares(text) or compare(one, two), "types that do not compare are refused"
    truth = oracle.violations(body, rows_of(x, y), nulls_equal=equal, where=holds)
    assert found(report).get("r", set()) == truth
    assert report.results[0].counts.open == len(truth)


@SETTINGS
@given(data=st.data())
def test_kept_and_reopened(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same after batches, with a state that is left and opened again between them."""
    one, two = data.draw(kinds())
    rows = data.draw(st.integers(1, 6))
    x, y = data.draw(column(one, rows)), data.draw(column(two, rows))
    text, where, body, holds, ordered = data.draw(rule(x, y))
    note(f"{text} where {where}: x {one.type} {x.form} {x.raws}, y {two.type} {y.form} {y.raws}")
    table, meant = table_of(x, y), rows_of(x, y)
    place = tmp_path_factory.mktemp("state") / "s"
    entry = {"name": "r", "rule": text} | ({} if where is None else {"where": where})
    cut = data.draw(st.integers(0, rows))
    try:
        Monitor.create(place, load_rules([entry]), key="id", data=table.slice(0, cut)).close()
        with Monitor.open(place) as monitor:
            delta = monitor.apply(table.slice(cut), limit=None)
            before = oracle.violations(body, meant[:cut], where=holds)
            after = oracle.violations(body, meant, where=holds)
            assert found(delta.added).get("r", set()) == after - before
        with Monitor.open(place) as monitor:
            assert found(monitor.violations()).get("r", set()) == after
            monitor.apply(pa.table({"id": [0], "op": ["delete"]}))
        with Monitor.open(place) as monitor:
            gone = {violation for violation in after if 0 in violation}
            assert found(monitor.violations()).get("r", set()) == after - gone
    except HoldstrueError as error:
        refused(error, text, one, two, ordered=ordered)


@SETTINGS
@given(data=st.data())
def test_inclusions(data: st.DataObject) -> None:
    """Every value of one column among those of another, of another type."""
    one, two = data.draw(kinds())
    x, y = data.draw(column(one, data.draw(st.integers(1, 6)))), data.draw(column(two, data.draw(st.integers(1, 6))))
    note(f"x {one.type} {x.form} {x.raws}, y {two.type} {y.form} {y.raws}")
    tables = {
        "r": pa.table({"id": pa.array(range(len(x.raws)), pa.int64()), "x": x.arrow()}),
        "q": pa.table({"no": pa.array(range(len(y.raws)), pa.int64()), "y": y.arrow()}),
    }
    try:
        report = check(tables, "r.x in q.y", key="id", limit=None)
    except HoldstrueError:
        assert not compare(one, two)
        return
    assert compare(one, two)
    others = {"q": [{"y": value} for value in y.meanings]}
    truth = oracle.violations(("in", ["x"], "q", ["y"]), [{"x": value} for value in x.meanings], others=others)
    assert {(v.t,) for v in report} == truth


def canonical(value: Any) -> Any:
    """One object for equal values: NaN is itself."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@SETTINGS
@given(data=st.data())
def test_discovered(data: st.DataObject) -> None:
    """Keys and FDs are those of the oracle, and every denial constraint and inclusion that is found holds."""
    one, two = data.draw(kinds())
    rows = data.draw(st.integers(2, 6))
    x, y = data.draw(column(one, rows)), data.draw(column(two, rows))
    equal = data.draw(st.booleans())
    note(f"x {one.type} {x.form} {x.raws}, y {two.type} {y.form} {y.raws}")
    table = pa.table({"x": x.arrow(), "y": y.arrow()})
    nulls: Any = "equal" if equal else "unknown"
    try:
        discovered = discover({"r": table}, kinds=("fd", "key"), nulls=nulls, budget=None)
    except HoldstrueError:
        assert table.column("x").null_count == rows and table.column("y").null_count == rows
        return
    pairs = [(canonical(a), canonical(b)) for a, b in zip(x.meanings, y.meanings, strict=True)]
    minimal = minimal_dependencies(pairs, 2, equal=equal)
    full = {i for i, name in enumerate("xy") if table.column(name).null_count < rows}
    wanted = {(left, target) for left, target in minimal if left | ({target} - {2}) <= full}
    assert {dependency(rule.body) for rule in discovered} == wanted
    for rule in discover({"r": table}, kinds=("dc", "ind"), budget=None, cross=True, shared=0.0):
        assert not truth_of(rule.body, x, y), rule.text


def dependency(body: Any) -> tuple[frozenset[int], int]:
    """A key or FD of x and y as the oracle writes it."""
    if isinstance(body, Key):
        return frozenset("xy".index(name) for name in body.columns), 2
    if isinstance(body, DC):  # a constant column
        [predicate] = body.predicates
        return frozenset(), "xy".index(predicate.left.name)
    [target] = body.rhs
    return frozenset("xy".index(name) for name in body.lhs), "xy".index(target)


def truth_of(body: Any, x: Column, y: Column) -> set[tuple[int, ...]]:
    """What breaks a discovered rule."""
    rows = rows_of(x, y)
    return oracle.violations(as_tuple(Rule(body, "r")), rows, others={"r": rows})


@SETTINGS
@given(data=st.data())
def test_inclusions_are_discovered_as_they_are_checked(data: st.DataObject) -> None:
    """One digest for all: `discover` and `check` never contradict each other."""
    one, two = data.draw(kinds())
    x, y = data.draw(column(one, data.draw(st.integers(1, 6)))), data.draw(column(two, data.draw(st.integers(1, 6))))
    tables = {"r": pa.table({"x": x.arrow()}), "q": pa.table({"y": y.arrow()})}
    have = {name: any(value is not None for value in c.meanings) for name, c in (("r", x), ("q", y))}
    found_ = {rule.text for rule in discover(tables, kinds=("ind",), budget=None)}
    if not compare(one, two):
        assert "r.x in q.y" not in found_
    elif have["r"] and have["q"]:
        others = {"q": [{"y": value} for value in y.meanings]}
        missing = oracle.violations(("in", ["x"], "q", ["y"]), [{"x": value} for value in x.meanings], others=others)
        assert ("r.x in q.y" in found_) == (not missing)


@SETTINGS
@given(data=st.data())
def test_split_over_sites(data: st.DataObject) -> None:
    """A column that two sites hold in two types, and one that only one of them has."""
    one = data.draw(st.sampled_from(KINDS))
    rows = data.draw(st.integers(1, 6))
    x, y = data.draw(column(one, rows)), data.draw(column(data.draw(st.sampled_from(KINDS)), rows))
    note(f"x {one.type} {x.form} {x.raws}, y {y.kind.type} {y.form} {y.raws}")
    numbers = pa.array(range(rows), pa.int64())
    sites = [
        Site("a", ("x",), source=pa.table({"id": numbers, "x": x.arrow()})),
        Site("b", ("y",), source=pa.table({"id": numbers, "y": y.arrow()})),
    ]
    relation = Relation(sites, ["x -> y"], key="id")
    truth = oracle.violations(("fd", ["x"], ["y"]), rows_of(x, y))
    assert relation.load().added_keys("x -> y") == {row for pair in truth for row in pair}


FEWER = settings(
    deadline=None, suppress_health_check=list(HealthCheck), max_examples=max(40, settings().max_examples // 3)
)


@FEWER
@given(data=st.data())
def test_in_shards(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Rows of two types spread over shards, in two batches: values that are equal meet, whatever their types."""
    one, two = data.draw(kinds())
    rows = data.draw(st.integers(1, 6))
    x, y = data.draw(column(one, rows)), data.draw(column(two, rows))
    text, where, body, holds, ordered = data.draw(rule(x, y))
    note(f"{text} where {where}: x {one.type} {x.form} {x.raws}, y {two.type} {y.form} {y.raws}")
    entry = {"name": "r", "rule": text} | ({} if where is None else {"where": where})
    sizing = Sizing(shards=data.draw(st.sampled_from([1, 3])), blocks=data.draw(st.sampled_from([1, 2])), tasks=2)
    # Spark has no dictionaries: its frames hold plain columns
    table = pa.table([plain_column(part) for part in table_of(x, y).columns], names=["id", "x", "y"])
    cut = data.draw(st.integers(1, rows))
    meant = rows_of(x, y)
    truth = oracle.violations(body, meant, where=holds) if compare(one, two) or not compares(text) else None
    try:
        monitor = Sharded(
            Loops(2), tmp_path_factory.mktemp("state") / "s", load_rules([entry]), key="id", sizing=sizing
        )
        monitor.apply([table.slice(0, cut)], feed="append")
        monitor.apply([table.slice(cut)], feed="append")
    except HoldstrueError as error:
        refused(error, text, one, two, ordered=ordered)
        return
    assert {(v.t,) if v.s is None else (v.t, v.s) for v in listed(monitor)} == truth
