"""Laws of values: for any two types, every path gives the oracle's answer or refuses with an error of ours."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import oracle
from holdstrue import HoldstrueError, Monitor, check, load_rules
from holdstrue.rules import RuleSet
from laws.test_detection import INDEXES, found
from laws.typed import Column, Kind, column, compare, kinds, may_refuse_values

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
OPS = ("=", "!=", "<", "<=", ">", ">=")
ORDERS = ("<", "<=", ">", ">=")


def other(var: str) -> str:
    return "s" if var == "t" else "t"


@st.composite
def rule(draw: st.DrawFn, one: Column, two: Column) -> tuple[str, str | None, Any, Any, bool]:
    """A rule over columns x and y: its text, its filter, both for the oracle, and whether it orders x and y together."""
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
    """An error is right where the types do not compare, or where their common order holds not all values."""
    note(f"refused: {error}")
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
