"""Law of exports: what DuckDB answers to a rule written as SQL is what `check` finds, whatever the types."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

import oracle
from holdstrue import HoldstrueError, check, load_rules
from holdstrue.report.sql import RuleQuery, to_sql
from holdstrue.rules import RuleSet
from laws.test_detection import found
from laws.test_measures import VALUES
from laws.test_measures import _moments as moments
from laws.test_measures import rule as measured_rule
from laws.test_types import rows_of, rule, table_of
from laws.typed import KINDS, Column, Kind, column, compare
from laws.worlds import SCHEMA, row, rule_text, where_text

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))


def answered(query: RuleQuery, tables: dict[str, pa.Table], *, ordered: bool) -> set[tuple[Any, ...]]:
    """The violations that DuckDB lists, by key; the count that it gives must be theirs."""
    assert query.violations is not None and query.count is not None, query.problem
    note(query.violations)
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'Asia/Tokyo'")
        for name, table in tables.items():
            database.register(f"{name} given", table)
            database.execute(f'CREATE TABLE "{name}" AS SELECT * FROM "{name} given"')
        names = [part[0] for part in database.execute(query.violations).description]
        rows = database.execute(query.violations).fetchall()
        [(count,)] = database.execute(query.count).fetchall()
    assert count == len(rows)
    places = [names.index(name) for name in ("t.id", "s.id")] if "t.id" in names else [names.index("id")]
    listed = [tuple(one[place] for place in places if one[place] is not None) for one in rows]
    assert len(set(listed)) == len(listed), "each violation once"
    return set(listed) if ordered else {tuple(sorted(violation)) for violation in listed}


def broken(query: RuleQuery, tables: dict[str, pa.Table]) -> bool:
    """Whether DuckDB finds that a rule about a whole table is broken."""
    assert query.violations is not None and query.count is not None
    note(query.violations)
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'Asia/Tokyo'")
        for name, table in tables.items():
            database.register(f"{name} given", table)
            database.execute(f'CREATE TABLE "{name}" AS SELECT * FROM "{name} given"')
        rows = database.execute(query.violations).fetchall()
        assert database.execute(query.count).fetchall() == [(len(rows),)] and len(rows) <= 1
    return bool(rows)


def inexact(said: str) -> bool:
    """Whether a note says that a comparison may fail."""
    return "may fail" in said


def sides(violations: set[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    return {tuple(sorted(violation)) for violation in violations}


@SETTINGS
@given(data=st.data())
def test_any_rule(data: st.DataObject) -> None:
    """Keys, FDs, tableaux, denials of one row and of two, filters, NULLs either way; with types and without."""
    rows = [data.draw(row(key)) for key in range(data.draw(st.integers(0, 7)))]
    text, where = data.draw(rule_text), data.draw(where_text)
    note(f"{text} where {where}: {rows}")
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    try:
        loaded = load_rules([{"name": "r", "rule": text} | ({} if where is None else {"where": where})])
        rules = RuleSet(loaded.rules, nulls=data.draw(st.sampled_from(["unknown", "equal"])))
        report = check(table, rules, key="id", limit=None)
    except HoldstrueError:
        assume(False)
    schemas = table.schema if data.draw(st.booleans()) else None
    [query] = to_sql(rules, "duckdb", key="id", table="data", schemas=schemas)
    if query.rule.kind == "measure":
        assert query.violations is not None or "time" in str(query.problem) or "differently" in str(query.problem)
        if query.violations is not None and not any(inexact(said) for said in query.notes):
            assert broken(query, {"data": table}) == (report.total > 0)
        return
    truth = found(report).get("r", set())
    answer = answered(query, {"data": table}, ordered=True)
    assert answer == truth or (sides(answer) == sides(truth) and len(answer) == len(truth) == len(sides(truth)))


def held_by_duckdb(kind: Kind) -> bool:
    """Types whose every value DuckDB keeps as it is."""
    data_type = kind.type
    match kind.family:
        case "decimal":
            return data_type.bit_width == 128 and 0 <= data_type.scale <= data_type.precision
        case "float":
            return data_type.bit_width > 16
        case "time" | "zoned":
            return data_type.unit == "us"
        case "duration":
            return False
        case "timestamp":
            return True
        case "bytes":
            return data_type == pa.binary()
        case "text":
            return data_type == pa.string()
        case "date":
            return data_type == pa.date32()
    return True


HELD = [kind for kind in KINDS if held_by_duckdb(kind)]


@st.composite
def two_kinds(draw: st.DrawFn) -> tuple[Kind, Kind]:
    one = draw(st.sampled_from(HELD))
    return one, draw(st.sampled_from([other for other in HELD if compare(one, other)]))


@SETTINGS
@given(data=st.data())
def test_any_types(data: st.DataObject) -> None:
    """Every type against itself, others and constants at the edges; a comparison that is not exact says so."""
    one, two = data.draw(two_kinds())
    count = data.draw(st.integers(1, 6))
    x, y = (Column(kind, data.draw(column(kind, count)).raws, "plain") for kind in (one, two))
    text, where, body, holds, _ = data.draw(rule(x, y))
    note(f"{text} where {where}: x {one.type} {x.raws}, y {two.type} {y.raws}")
    table = table_of(x, y)
    rules = load_rules([{"name": "r", "rule": text} | ({} if where is None else {"where": where})])
    try:
        [query] = to_sql(rules, key="id", table="data", schemas=table.schema)
    except HoldstrueError:
        with pytest.raises(HoldstrueError):
            check(table, rules, key="id")
        return
    assume(query.violations is not None and not any(inexact(said) for said in query.notes))
    truth = oracle.violations(body, rows_of(x, y), where=holds)
    answer = answered(query, {"data": table}, ordered=True)
    assert answer == truth or sides(answer) == truth


@SETTINGS
@given(data=st.data())
def test_inclusions(data: st.DataObject) -> None:
    """Several columns, NULLs on either side, columns of two types."""
    one, two = data.draw(two_kinds())
    left, right = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 5))
    x, y = (Column(k, data.draw(column(k, n)).raws, "plain") for k, n in ((one, left), (two, right)))
    a, b = (data.draw(st.lists(st.sampled_from(["p", "q", None]), min_size=n, max_size=n)) for n in (left, right))
    tables = {
        "r": pa.table({"id": range(left), "x": x.arrow(), "a": pa.array(a, pa.string())}),
        "q": pa.table({"y": y.arrow(), "b": pa.array(b, pa.string())}),
    }
    rules = load_rules(["r.(x, a) in q.(y, b)"])
    [query] = to_sql(rules, key="id", schemas={name: table.schema for name, table in tables.items()})
    assume(not any(inexact(said) for said in query.notes))
    others = {"q": [{"y": v, "b": w} for v, w in zip(y.meanings, b, strict=True)]}
    rows = [{"x": v, "a": w} for v, w in zip(x.meanings, a, strict=True)]
    truth = oracle.violations(("in", ["x", "a"], "q", ["y", "b"]), rows, others=others)
    assert answered(query, tables, ordered=True) == truth


KEPT = {pa.int8(), pa.int64(), pa.uint64(), pa.float64(), pa.decimal128(9, 2), pa.date32(), pa.timestamp("us"),
        pa.timestamp("us", "UTC"), pa.string()}  # fmt: skip
"""Types that DuckDB keeps as they are, of every family that is measured."""


@SETTINGS
@given(data=st.data())
def test_measures(data: st.DataObject) -> None:
    """Counts, sums, extremes and freshness of one table and across two, with a filter; types meet at their edges."""
    values = {**VALUES, pa.timestamp("us"): moments, pa.timestamp("us", "UTC"): moments}
    types = {
        table: {name: data.draw(st.sampled_from(sorted(KEPT, key=str))) for name in "ab"}
        for table in ("orders", "lines")
    }
    entry = data.draw(
        measured_rule(
            {t: {n: k for n, k in own.items() if k in VALUES} or {"a": pa.int64()} for t, own in types.items()}
        )
    )
    tables = {}
    for name, own in types.items():
        size = data.draw(st.integers(0, 5))
        columns = {n: data.draw(st.lists(st.none() | values[k], min_size=size, max_size=size)) for n, k in own.items()}
        arrays = {n: pa.array(cells, own[n]) for n, cells in columns.items()}
        tables[name] = pa.table({"id": pa.array(range(size), pa.int64()), **arrays})
    note(f"{entry} {tables}")
    try:
        loaded = load_rules([entry | {"name": "r"}])
        rules = RuleSet(loaded.rules, table="orders")
        report = check(tables, rules, key="id")
    except HoldstrueError:
        assume(False)
    spoken = {"orders", *rules.rules[0].body.references}
    [query] = to_sql(rules, key="id", schemas={name: tables[name].schema for name in spoken})
    assume(query.violations is not None and not any(inexact(said) for said in query.notes))
    assert broken(query, tables) == (report.total > 0)
