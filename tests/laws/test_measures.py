"""Laws of rules about whole tables: of columns of any type, of two tables, as time passes, in states and in shards."""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from holdstrue import HoldstrueError, Monitor, RuleSet, check, load_rules
from holdstrue.detect.delta import Delta
from holdstrue.index import extremes
from holdstrue.monitor.recount import recounted
from holdstrue.monitor.sharded import Sharded
from holdstrue.monitor.sharded_check import from_scratch
from holdstrue.shards.lists import violation_of
from holdstrue.shards.shard import POOL
from holdstrue.state import runs as state_runs
from laws.shards import Loops
from laws.test_detection import found, nonempty
from laws.test_shards import SHAPES, listed, partitions
from laws.worlds import OPS, applied, literal
from translate import at_first, expected

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
IN_STATES = settings(SETTINGS, max_examples=40)

NOW = dt.datetime(2026, 11, 16, 12, tzinfo=dt.UTC)


class Hands:
    """A clock that is put where a test wants it."""

    def __init__(self) -> None:
        self.time = NOW

    def wall(self) -> int:
        return (self.time - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1) * 1000


@pytest.fixture(autouse=True)
def hands() -> Iterator[Hands]:
    clock = Hands()
    with (
        mock.patch("holdstrue.detect.clock.wall", clock.wall),
        mock.patch("holdstrue.monitor.in_shards.wall", clock.wall),
        mock.patch("holdstrue.monitor.sharded_check.wall", clock.wall),
    ):
        yield clock


_BIG = 2**63 - 1
_moments = st.datetimes(
    NOW.replace(tzinfo=None) - dt.timedelta(days=4), NOW.replace(tzinfo=None) + dt.timedelta(days=1)
)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-3, 3) | st.sampled_from([_BIG, -_BIG - 1]),
    pa.uint64(): st.integers(0, 3) | st.sampled_from([2**64 - 1, 2**63]),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats() | st.sampled_from([0.1, 0.2, -0.3, 5e-324, 1e308, -1e308, 1e16, 1.0]),
    pa.decimal128(9, 2): st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    pa.decimal128(38, 0): st.integers(-3, 3).map(Decimal) | st.sampled_from([Decimal(10) ** 37, -(Decimal(10) ** 37)]),
    pa.decimal256(60, 5): st.integers(-(10**27), 10**27).map(lambda n: Decimal(n).scaleb(-5)),
    pa.date32(): _moments.map(lambda moment: moment.date()),
    pa.timestamp("ms"): _moments.map(lambda moment: moment.replace(microsecond=0)),
    pa.timestamp("ns", "Europe/Berlin"): _moments.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    pa.duration("us"): st.timedeltas(dt.timedelta(-9), dt.timedelta(9)),
    pa.time64("us"): st.times(),
    pa.string(): st.sampled_from(["", "x", "10"]),
    pa.bool_(): st.booleans(),
    pa.null(): st.none(),
}
"""Every family of types with values that meet at their edges."""

units = st.sampled_from(["seconds", "minutes", "hours", "days", "weeks"])


@st.composite
def measured(draw: st.DrawFn, types: dict[str, pa.DataType], table: str) -> str:
    """One side of a rule."""
    function = draw(st.sampled_from(["rows", "count", "sum", "min", "max"]))
    of = "" if table == "orders" and draw(st.booleans()) else f"{table}."
    return f"{of}count()" if function == "rows" else f"{of}{function}({draw(st.sampled_from([*types]))})"


@st.composite
def rule(draw: st.DrawFn, types: dict[str, dict[str, pa.DataType]]) -> dict[str, Any]:
    """A rule about the orders, some of them, or the orders and their lines."""
    column = draw(st.sampled_from([*types["orders"]]))
    kind = draw(st.sampled_from(["constant", "constant", "fresh", "both", "other"]))
    op = draw(st.sampled_from(OPS))
    if kind == "fresh":
        text = f"fresh({column}) {draw(st.sampled_from(['<', '<=', '>']))} {draw(st.integers(0, 100))} {draw(units)}"
    elif kind == "constant":
        value = draw(VALUES[types["orders"][column]])
        function = draw(
            st.sampled_from(["count()", f"count({column})", f"sum({column})", f"min({column})", f"max({column})"])
        )
        if function.startswith("count") or value is None or isinstance(value, dt.timedelta | dt.time):
            value = draw(st.integers(0, 6))
        text = f"{function} {op} {literal(value)}"
    else:
        left = draw(measured(types["orders"], "orders"))
        right = draw(
            measured(types["lines" if kind == "other" else "orders"], "lines" if kind == "other" else "orders")
        )
        text = f"{left} {op} {right}"
    where = draw(st.sampled_from([None, None, "id > 2", "id != 1 and id != 4"]))
    return {"rule": text} | ({} if where is None else {"where": where})


@st.composite
def world(draw: st.DrawFn) -> tuple[RuleSet, dict[str, pa.Schema]]:
    """Types of two tables, and rules that they allow."""
    types = {table: {name: draw(st.sampled_from([*VALUES])) for name in "ab"} for table in ("orders", "lines")}
    schemas = {name: pa.schema([("id", pa.int64()), *own.items()]) for name, own in types.items()}
    rules = []
    for number, entry in enumerate(draw(st.lists(rule(types), min_size=1, max_size=5))):
        try:
            [own] = load_rules([entry | {"name": f"r{number}"}])
            check({name: schema.empty_table() for name, schema in schemas.items()}, RuleSet((own,), table="orders"))
        except HoldstrueError:
            continue  # says nothing, or compares what does not compare
        rules.append(own)
    assume(rules)
    rules += load_rules([{"name": "watched", "rule": "count() != lines.count()"}])
    return RuleSet(tuple(rules), table="orders"), schemas


@st.composite
def batch(draw: st.DrawFn, present: set[int], schema: pa.Schema) -> list[tuple[str, dict[str, Any]]]:
    alive, changes = set(present), list[tuple[str, dict[str, Any]]]()
    for _ in range(draw(st.integers(0, 5))):
        key, kind = draw(st.integers(0, 6)), draw(st.sampled_from(["insert", "insert", "update", "delete"]))
        if (kind == "insert") == (key in alive):
            continue
        alive ^= {key} if kind != "update" else set()
        values = {field.name: draw(st.none() | VALUES[field.type]) for field in schema if field.name != "id"}
        changes.append((kind, {"id": key} | values))
    return changes


def as_table(changes: list[tuple[str, dict[str, Any]]], schema: pa.Schema) -> pa.Table:
    table = pa.Table.from_pylist([row for _, row in changes], schema=schema)
    return table.append_column("_op", pa.array([op for op, _ in changes], pa.string()))


Tables = dict[str, dict[int, dict[str, Any]]]


def truth_of(rules: RuleSet, tables: Tables, now: dt.datetime) -> dict[str, set[Any]]:
    others = {name: list(rows.values()) for name, rows in tables.items()}
    return expected(rules, others["orders"], list(tables["orders"]), others=others, now=now)


def step(data: st.DataObject, hands: Hands, tables: Tables, schemas: dict[str, pa.Schema]) -> dict[str, pa.Table]:
    """Time passes, and a batch comes; the rows are as they are after it."""
    hands.time += data.draw(st.timedeltas(dt.timedelta(0), dt.timedelta(days=2)))
    which = data.draw(st.sampled_from([["orders"], ["orders"], ["lines"], ["orders", "lines"]]))
    changes = {name: data.draw(batch(set(tables[name]), schemas[name])) for name in which}
    for name, own in changes.items():
        tables[name] = applied(tables[name], own)
    return {name: as_table(own, schemas[name]) for name, own in changes.items()}


def assert_stepped(delta: Delta, before: dict[str, set[Any]], after: dict[str, set[Any]]) -> None:
    """A delta is the difference between two verdicts at the time of the batch."""
    assert found(delta.added) == nonempty({rule: after[rule] - before[rule] for rule in after})
    assert found(delta.removed) == nonempty({rule: before[rule] - after[rule] for rule in after})
    assert {rule: made.open for rule, made in delta.counts.items()} == {rule: len(some) for rule, some in after.items()}
    assert delta.measured.keys() == {rule for rule in after if after[rule] != before[rule]}


def assert_stands(counts: Any, truth: dict[str, set[Any]]) -> None:
    assert {rule: own.open for rule, own in counts.items()} == {rule: len(some) for rule, some in truth.items()}
    assert all(own.rows == own.pairs == own.groups == 0 for own in counts.values())


@SETTINGS
@given(data=st.data())
def test_from_scratch(hands: Hands, data: st.DataObject) -> None:
    rules, schemas = data.draw(world())
    tables: Tables = {name: applied({}, data.draw(batch(set(), schema))) for name, schema in schemas.items()}
    given_ = {name: pa.Table.from_pylist(list(rows.values()), schema=schemas[name]) for name, rows in tables.items()}
    report = check(given_, rules, key="id", limit=None)
    truth = truth_of(rules, tables, hands.time)
    hands.time += dt.timedelta(days=30)  # a report is of the time when it was made
    assert found(report) == nonempty(truth)
    assert_stands({result.rule.name: result.counts for result in report.results}, truth)
    assert all(result.measured for result in report.results)


@IN_STATES
@given(data=st.data())
def test_from_scratch_in_shards(hands: Hands, data: st.DataObject) -> None:
    """Rows are measured where they are read: none of them travels for that."""
    rules, schemas = data.draw(world())
    tables: Tables = {name: applied({}, data.draw(batch(set(), schema))) for name, schema in schemas.items()}
    given_ = {name: pa.Table.from_pylist(list(rows.values()), schema=schemas[name]) for name, rows in tables.items()}
    frames = {name: partitions(data, table) for name, table in given_.items()}
    key = data.draw(st.sampled_from([(), ("id",)]))
    found_ = from_scratch(Loops(), frames, rules, "orders", key, 1000, "blocks", data.draw(SHAPES))
    here = check(given_, rules, key=key, limit=None)
    assert [(r.counts, r.measured) for r in found_.results] == [(r.counts, r.measured) for r in here.results]
    truth = truth_of(rules, tables, hands.time)
    assert_stands({result.rule.name: result.counts for result in found_.results}, truth)
    lists = found(violation_of(row) for table in found_.lists for row in table.to_pylist())
    assert lists == nonempty(truth)


@pytest.mark.parametrize("kept", [1, 2, 1024])
@SETTINGS
@given(data=st.data())
def test_under_changes(hands: Hands, kept: int, data: st.DataObject) -> None:
    """Also where so few values are kept that all rows are looked at again and again."""
    with mock.patch.object(extremes.Extremes.__init__, "__defaults__", (kept,)):
        rules, schemas = data.draw(world())
        tables: Tables = {"orders": {}, "lines": {}}
        monitor = Monitor(rules, key={"orders": "id", "lines": "id"})
        first = True
        for _ in range(data.draw(st.integers(1, 5))):
            before = dict(tables)
            changes = step(data, hands, tables, schemas)
            was = at_first(rules) if first else truth_of(rules, before, hands.time)
            first = False
            delta = monitor.apply(changes, op_column="_op", feed="ops")
            assert_stepped(delta, was, truth_of(rules, tables, hands.time))
            hands.time += data.draw(st.timedeltas(dt.timedelta(0), dt.timedelta(days=2)))
            truth = truth_of(rules, tables, hands.time)
            assert_stands(monitor.counts(), truth)
            assert found(monitor.violations()) == nonempty(truth)
            assert recounted(monitor) == monitor.counts()


@pytest.mark.parametrize("checkpoints", [True, False])
@IN_STATES
@given(data=st.data())
def test_in_a_state_that_is_opened_again(hands: Hands, checkpoints: bool, data: st.DataObject) -> None:
    rules, schemas = data.draw(world())
    tables: Tables = {"orders": {}, "lines": {}}
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(state_runs, "CHECKPOINT_FROM", 0 if checkpoints else 10_000),
    ):
        place = Path(folder) / "state"
        Monitor.create(place, rules, key={"orders": "id", "lines": "id"}).close()
        first = True
        for _ in range(data.draw(st.integers(1, 5))):
            before = dict(tables)
            changes = step(data, hands, tables, schemas)
            was = at_first(rules) if first else truth_of(rules, before, hands.time)
            first = False
            with Monitor.open(place) as monitor:
                delta = monitor.apply(changes, op_column="_op", feed="ops")
                assert_stepped(delta, was, truth_of(rules, tables, hands.time))
            hands.time += dt.timedelta(days=data.draw(st.integers(0, 2)))
            with Monitor.open(place, read_only=True) as monitor:
                assert_stands(monitor.counts(), truth_of(rules, tables, hands.time))
                assert recounted(monitor) == monitor.counts()


@IN_STATES
@given(data=st.data())
def test_in_shards(hands: Hands, data: st.DataObject) -> None:
    """The same in shards, whose state one process goes on with in the end."""
    rules, schemas = data.draw(world())
    tables: Tables = {"orders": {}, "lines": {}}
    POOL.empty()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "state"
        monitor = Sharded(Loops(), place, rules, {"orders": "id", "lines": "id"}, sizing=data.draw(SHAPES))
        first = True
        for _ in range(data.draw(st.integers(1, 4))):
            before = dict(tables)
            changes = step(data, hands, tables, schemas)
            parts = {name: partitions(data, table) for name, table in changes.items()}
            was = at_first(rules) if first else truth_of(rules, before, hands.time)
            first = False
            delta = monitor.apply(parts, op_column="_op", feed="ops", limit=None)
            assert_stepped(delta, was, truth_of(rules, tables, hands.time))
            again = monitor.last()
            assert again is not None and found(again.added) == found(delta.added)
            hands.time += dt.timedelta(days=data.draw(st.integers(0, 2)))
            truth = truth_of(rules, tables, hands.time)
            assert_stands(monitor.counts(), truth)
            assert found(listed(monitor)) == nonempty(truth)
        before = dict(tables)
        changes = step(data, hands, tables, schemas)
        was = truth_of(rules, before, hands.time)
        with Monitor.open(place) as one:
            assert_stepped(one.apply(changes, op_column="_op", feed="ops"), was, truth_of(rules, tables, hands.time))


def test_an_earlier_version_is_judged_as_it_was_then(hands: Hands, tmp_path: Path) -> None:
    made = dt.datetime.now(dt.UTC)
    hands.time = made
    rows = pa.table({"id": [1], "at": pa.array([made - dt.timedelta(hours=1)], pa.timestamp("us", "UTC"))})
    with Monitor.create(tmp_path / "state", ["fresh(at) < 1 day"], "id", data=rows) as monitor:
        monitor.apply(rows.set_column(0, "id", [[2]]))
    hands.time = made + dt.timedelta(days=3)
    now = Monitor.open(tmp_path / "state", read_only=True)
    then = Monitor.open(tmp_path / "state", at=0)
    assert (now.counts()["fresh(at) < 1 day"].open, then.counts()["fresh(at) < 1 day"].open) == (1, 0)
    assert [line.open for line in now.history()] == [0, 0], "history says what was true when a batch came"


def test_sums_of_floats_are_exact() -> None:
    rows = pa.table({"id": range(4), "x": [1e16, 1.0, -1e16, 2.0**-1074]})
    monitor = Monitor(["sum(x) > 1"], "id", data=rows)
    assert monitor.counts()["sum(x) > 1"].open == 0
    assert monitor.apply(pa.table({"id": [3], "op": ["delete"]})).counts["sum(x) > 1"].added == 1


def test_infinities_and_nan_come_and_go() -> None:
    monitor = Monitor(["sum(x) < 10", "max(x) < 10", "min(x) < 10"], "id", data=pa.table({"id": [1], "x": [1.0]}))
    for value, words in ((math.inf, "inf"), (math.nan, "nan")):
        monitor.apply(pa.table({"id": [2], "x": [value]}))
        assert {rule: own.open for rule, own in monitor.counts().items()} == {
            "sum(x) < 10": 1, "max(x) < 10": 1, "min(x) < 10": 0,
        }  # fmt: skip
        assert f"sum(x) is {words}" in str(monitor.report().results[0].measured)
        monitor.apply(pa.table({"id": [2], "op": ["delete"]}))
        assert not any(own.open for own in monitor.counts().values())
