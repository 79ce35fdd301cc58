"""Laws on Spark: however rows are spread, violations, deltas and counts are one process's and the oracle's."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import holdstrue
from holdstrue import RuleSet, load_rules
from holdstrue.shards import hot
from holdstrue.shards.hot import SPREAD_FROM
from holdstrue.spark import Monitor
from holdstrue.spark.checking import check
from laws import test_references as references
from laws import worlds
from laws.test_detection import assert_counts, draw_rules, found, nonempty
from spark.frames import Truth, assert_same, assert_step, frame, listed, shard_rows
from translate import at_first, expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("by_cluster")

# a batch takes half a second here: few examples, and none made smaller (tests/laws/test_shards.py does that)
SETTINGS = settings(
    max_examples=max(5, settings().max_examples // 15),
    phases=(Phase.explicit, Phase.generate),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

EVERY_KIND = load_rules(
    [
        {"name": "key", "rule": "key(a, c)"},
        {"name": "fd", "rule": "a -> c, d"},
        {"name": "fd of text", "rule": "e -> c"},
        {"name": "cfd", "rule": "[a, f] -> [c] with (1, _ || _), (0, true || 'é')"},
        {"name": "not null", "rule": "not null(b, e)"},
        {"name": "demand", "rule": "c matches '^[a-zé]*$' and len(e) < 2 or a in (0, 1)"},
        {"name": "row count", "rule": "count() between 1 and 7"},
        {"name": "exact sum", "rule": "sum(d) < 1"},
        {"name": "sum and extreme", "rule": "sum(a) <= max(b)", "where": "f = true or a = 2"},
        {"name": "smallest", "rule": "min(g) > date '1970-01-01'"},
        {"name": "one row", "rule": "not(t.d > 1 and t.g < date '2024-01-01')"},
        {"name": "one row, two columns", "rule": "not(t.a > t.b)"},
        {"name": "with an equality", "rule": "not(t.a = s.a and t.b < s.b and t.h > s.h)"},
        {"name": "without equality", "rule": "not(t.z < s.z and t.b > s.b)"},
        {"name": "only unequal", "rule": "not(t.e != s.e and t.g = s.g and t.d != s.d)"},
        {"name": "across columns", "rule": "not(t.a = s.i and t.b > s.a)"},
        {"name": "across columns of text", "rule": "not(t.c = s.e and t.d <= s.d)"},
        {"name": "some rows", "rule": "a -> b", "where": "f = true or b >= 2"},
        {"name": "constant", "rule": "not(t.a = s.a and t.c = 'x' and s.d > 0)"},
    ]
)
BIG = 2**63 - 1


@pytest.fixture(autouse=True, scope="module")
def _small_is_hot() -> Iterator[None]:
    """Keys that occur twice are hot, so that grids are tried on small tables."""
    before = hot.SEEN_AT_LEAST
    hot.SEEN_AT_LEAST = 2
    yield
    hot.SEEN_AT_LEAST = before


def shape(data: st.DataObject) -> dict[str, Any]:
    """How a monitor cuts its work."""
    sizes = {"shards": [1, 2, 5], "blocks": [1, 3, 4], "tasks": [1, 2, 3]}
    return {name: data.draw(st.sampled_from(some)) for name, some in sizes.items()} | {"hot_from": 0}


def parts(data: st.DataObject, spark: SparkSession, table: pa.Table) -> Any:
    """A table as a data frame cut in two somewhere."""
    return frame(spark, table, data.draw(st.integers(0, table.num_rows)))


def assert_everything(monitor: Monitor, one: holdstrue.Monitor, truth: Truth) -> None:
    """Violations and counts are the oracle's, those of one process, and those that one process finds in the state."""
    assert found(listed(monitor.violations())) == nonempty(truth)
    counts = monitor.counts()
    assert_counts(counts, truth)
    assert counts == one.counts()
    assert monitor.rows == one.rows
    with holdstrue.Monitor.open(monitor.path, read_only=True) as opened:
        assert found(opened.violations()) == nonempty(truth)
        assert opened.counts() == one.counts()


@SETTINGS
@given(data=st.data())
def test_under_changes(spark: SparkSession, data: st.DataObject) -> None:
    rules = draw_rules(data, most=6)
    with tempfile.TemporaryDirectory() as folder:
        monitor = Monitor(spark, Path(folder) / "state", rules, key="id", **shape(data))
        one = holdstrue.Monitor(rules, key="id")
        rows = {i: data.draw(worlds.row(i)) for i in range(data.draw(st.integers(0, 9)))}
        first = pa.Table.from_pylist(list(rows.values()), schema=worlds.SCHEMA)
        truth = expected(rules, list(rows.values()), list(rows))
        delta = monitor.apply(parts(data, spark, first), limit=None, feed="append")
        one.apply(first, limit=0)
        assert_step(delta, at_first(rules), truth)
        for _ in range(data.draw(st.integers(0, 2))):
            batch = data.draw(worlds.changes(set(rows)))
            changes = worlds.as_table(batch)
            options: dict[str, Any] = {"op_column": "_op", "feed": "ops"}
            delta = monitor.apply(parts(data, spark, changes), limit=None, one_task=data.draw(st.booleans()), **options)
            one.apply(changes, limit=0, **options)
            rows = worlds.applied(rows, batch)
            before, truth = truth, expected(rules, list(rows.values()), list(rows))
            assert_step(delta, before, truth)
        assert_everything(monitor, one, truth)


@SETTINGS
@given(data=st.data())
def test_both_tables_change(spark: SparkSession, data: st.DataObject) -> None:
    keys = {"orders": "id", "customers": "id"}
    with tempfile.TemporaryDirectory() as folder:
        monitor = Monitor(spark, Path(folder) / "state", references.RULES, key=keys, **shape(data))
        orders: dict[int, Any] = {}
        customers: dict[int, Any] = {}
        truth = references.truth(orders, customers)
        for _ in range(data.draw(st.integers(1, 3))):
            one = data.draw(references.batch(set(orders), references.order))
            two = data.draw(references.batch(set(customers), references.customer))
            tables = {
                "orders": references.as_table(one, references.ORDERS),
                "customers": references.as_table(two, references.CUSTOMERS),
            }
            skip = data.draw(st.sampled_from(["none", "orders", "customers"]))
            changes = {name: parts(data, spark, table) for name, table in tables.items() if name != skip}
            delta = monitor.apply(changes, op_column="_op", feed="ops", limit=None)
            orders = orders if skip == "orders" else worlds.applied(orders, one)
            customers = customers if skip == "customers" else worlds.applied(customers, two)
            before, truth = truth, references.truth(orders, customers)
            assert_step(delta, before, truth)
        assert found(listed(monitor.violations())) == nonempty(truth)
        assert_counts(monitor.counts(), truth)


@SETTINGS
@given(data=st.data())
def test_from_scratch(spark: SparkSession, data: st.DataObject) -> None:
    rules = draw_rules(data, most=6)
    rows = [data.draw(worlds.row(i)) for i in range(data.draw(st.integers(0, 9)))]
    table = pa.Table.from_pylist(rows, schema=worlds.SCHEMA)
    truth = expected(rules, rows, [row["id"] for row in rows])
    # without shards and blocks Catalyst checks what it can
    cut: dict[str, Any] = {"shards": data.draw(st.sampled_from([1, 3])), "blocks": data.draw(st.sampled_from([1, 3]))}
    cut = data.draw(st.sampled_from([{}, cut]))
    report = check(parts(data, spark, table), rules, key="id", limit=None, **cut)
    assert found(report.listed()) == nonempty(truth)
    assert_counts({r.rule.name: r.counts for r in report.results}, truth)
    one = holdstrue.check(table, rules, key="id")
    assert [(r.counts, r.status) for r in report.results] == [(r.counts, r.status) for r in one.results]
    if data.draw(st.booleans()):
        assert found(listed(report.violations())) == nonempty(truth)


def odd_rows() -> dict[int, worlds.Row]:
    """Rows that meet every rule, with the values that go wrong first."""
    nan, zone = float("nan"), dt.timezone(dt.timedelta(hours=-7))
    days = dt.date(2024, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)
    late = dt.datetime(2024, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    times = late, late.astimezone(zone), dt.datetime(1900, 1, 1, tzinfo=dt.UTC)
    values: list[tuple[Any, ...]] = [
        (1, BIG, "é", 0.0, "日本", True, days[0], Decimal("1.50"), 1, times[0]),
        (1, -BIG - 1, "e\u0301", -0.0, "日本", True, days[1], Decimal("99999999.99"), 1, times[1]),
        (1, BIG - 1, "", nan, "", False, days[1], Decimal("-3.25"), 0, times[2]),
        (0, 2**53 + 1, "𝛑\u0000x", nan, "ß", True, days[2], None, 2, None),
        (0, 2**53, "x", float("inf"), "ss", None, None, Decimal("0.00"), None, times[0]),
        (None, None, None, None, None, None, None, None, None, None),
        (0, 0, "x", float("-inf"), "é", True, days[0], Decimal("0.00"), 0, times[1]),
        (2, 3, "ß", 5e-324, "x", False, days[0], Decimal("1.50"), 1, times[2]),
    ]
    return {i: {"id": i} | dict(zip(worlds.VALUES, row)) for i, row in enumerate(values)}


@pytest.mark.parametrize("cut", [{"shards": 1, "blocks": 1, "tasks": 1}, {"shards": 3, "blocks": 3, "tasks": 2}])
def test_every_kind_of_rule_from_nothing_to_nothing(spark: SparkSession, tmp_path: Path, cut: dict[str, Any]) -> None:
    """Batches of no rows, one row and all rows; values at the ends of their types; a table that is emptied."""
    rows = odd_rows()
    batches: list[list[tuple[str, worlds.Row]]] = [
        [],
        [("insert", rows[1])],
        [("insert", row) for key, row in rows.items() if key != 1],
        [],
        # rows change places, and with them their violations
        [("update", rows[key] | {"id": other}) for key, other in ((0, 6), (6, 0), (2, 5), (5, 3))],
        # several changes of one row
        [("delete", rows[1]), ("insert", rows[0] | {"id": 1}), ("update", rows[2] | {"id": 1})],
        [("delete", row) for row in rows.values()],
        [("insert", rows[0]), ("insert", rows[6])],
    ]
    monitor = Monitor(spark, tmp_path / "state", EVERY_KIND, key="id", hot_from=0, **cut)
    assert listed(monitor.violations()) == []
    one = holdstrue.Monitor(EVERY_KIND, key="id")
    table: dict[int, worlds.Row] = {}
    truth = at_first(EVERY_KIND)
    broken = set()
    for batch in batches:
        changes = worlds.as_table(batch)
        delta = monitor.apply(frame(spark, changes, len(batch) // 2), limit=None, op_column="_op", feed="ops")
        assert_same(delta, one.apply(changes, limit=None, op_column="_op", feed="ops"))
        table = worlds.applied(table, batch)
        before, truth = truth, expected(EVERY_KIND, list(table.values()), list(table))
        assert_step(delta, before, truth)
        broken |= {rule for rule, some in truth.items() if some}
        if len(table) in (0, 8):
            assert found(listed(monitor.violations())) == nonempty(truth)
            assert_counts(monitor.counts(), truth)
    assert broken == {rule.name for rule in EVERY_KIND}, "rules that nothing broke prove nothing"
    assert_everything(monitor, one, truth)
    assert [line.batch for line in monitor.history()][:: len(EVERY_KIND)] == [f"#{i + 1}" for i in range(len(batches))]


@pytest.mark.parametrize("cut", [{}, {"shards": 3, "blocks": 3}], ids=["catalyst", "kernels"])
def test_a_check_of_odd_rows(spark: SparkSession, cut: dict[str, Any]) -> None:
    rows = list(odd_rows().values())
    table = pa.Table.from_pylist(rows, schema=worlds.SCHEMA)
    truth = expected(EVERY_KIND, rows, [row["id"] for row in rows])
    report = check(frame(spark, table, 3), EVERY_KIND, key="id", limit=None, **cut)
    assert found(report.listed()) == found(listed(report.violations())) == nonempty(truth)
    assert_counts({r.rule.name: r.counts for r in report.results}, truth)


@pytest.mark.parametrize("cut", [{}, {"shards": 2, "blocks": 1}, {"shards": 2, "blocks": 3}], ids=str)
def test_a_check_of_repeated_rows(spark: SparkSession, cut: dict[str, Any]) -> None:
    """Nothing says that rows are told apart by a key: equal rows count as often as they occur."""
    rows = [row | {"id": row["id"] % 3} for row in odd_rows().values() for _ in range(2)]
    table = pa.Table.from_pylist(rows, schema=worlds.SCHEMA)
    truth = {name: len(some) for name, some in expected(EVERY_KIND, rows, list(range(len(rows)))).items()}
    for key in ("id", None):
        one = holdstrue.check(table, EVERY_KIND, key=key)
        report = check(frame(spark, table, 5), EVERY_KIND, key=key, limit=0, **cut)
        assert {r.rule.name: r.counts.open for r in report.results} == truth
        assert [r.counts for r in report.results] == [r.counts for r in one.results]


@pytest.mark.parametrize("size", [0, 1])
def test_a_check_of_hardly_anything(spark: SparkSession, size: int) -> None:
    rows = list(odd_rows().values())[4 : 4 + size]
    table = pa.Table.from_pylist(rows, schema=worlds.SCHEMA)
    truth = expected(EVERY_KIND, rows, [row["id"] for row in rows])
    cut: dict[str, Any] = {"shards": 3, "blocks": 3} if size else {}
    report = check(frame(spark, table), EVERY_KIND, key="id", **cut)
    assert report.rows == {"data": size}
    assert found(report.listed()) == found(listed(report.violations())) == nonempty(truth)
    assert report.ok == (not any(truth.values()))


def test_a_check_without_a_key_names_rows_by_their_places(spark: SparkSession) -> None:
    table = pa.table({"a": [1, 1, 2, 2], "b": [1, 2, 3, 3]})
    report = check(frame(spark, table, 2), "a -> b")
    pairs = [(v.t, v.s) for v in report.listed()]
    assert pairs == [(v.t, v.s) for v in listed(report.violations())]
    assert len(pairs) == 1 and pairs[0][0] != pairs[0][1]


def test_other_types_of_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Types that Spark has and the random tables do not; times in a zone of their own."""
    local = dt.datetime(2024, 3, 31, 1, 30)
    table = pa.table(
        {
            "id": pa.array(["a", "b", "c", "d"], pa.string()),
            "tiny": pa.array([1, 1, -128, None], pa.int8()),
            "short": pa.array([1, 2, 2, 2], pa.int16()),
            "int": pa.array([2**31 - 1, 2**31 - 1, -(2**31), 0], pa.int32()),
            "float": pa.array([0.1, 0.1, float("nan"), float("nan")], pa.float32()),
            "bytes": pa.array([b"\x00\xff", b"\x00\xff", b"", None], pa.binary()),
            "wide": pa.array([Decimal(10) ** 37, Decimal(10) ** 37, Decimal(-1), None], pa.decimal128(38, 0)),
            "local": pa.array([local, local, local + dt.timedelta(microseconds=1), None], pa.timestamp("us")),
            "zoned": pa.array([local, local, local, local], pa.timestamp("us", "Europe/Berlin")),
        }
    )
    rules = [
        *("tiny -> short", "int -> short", "float -> id", "bytes -> id", "wide -> id", "local -> id", "zoned -> id"),
        "not(t.wide < s.wide)",
        "not(t.local < s.local and t.short = s.short)",
        "not(t.float < s.float and t.int > s.int)",
        "not(t.int > t.short)",
    ]
    one = holdstrue.check(table, rules, key="id", limit=None)
    report = check(frame(spark, table), rules, key="id", limit=None)
    assert found(report.listed()) == found(one)
    monitor = Monitor(spark, tmp_path / "state", rules, key="id", data=frame(spark, table))
    assert found(listed(monitor.violations())) == found(one)
    assert all(result.counts.open for result in one.results)


# --- hot keys ------------------------------------------------------------------------------------

HOT = load_rules(
    [
        {"name": "fd", "rule": "k -> v"},
        {"name": "pairs", "rule": "not(t.k = s.k and t.x < s.x and t.y > s.y)"},
        {"name": "anywhere", "rule": "not(t.x < s.x and t.y > s.y)"},
        {"name": "across", "rule": "not(t.k = s.m and t.x > s.y)"},
        {"name": "known", "rule": "data.k in keys.k"},
    ]
)
ROWS = 20_000


def hot_row(number: int, **changed: int) -> dict[str, int]:
    """Half of all rows have key 0; one in 6,007 breaks each rule."""
    odd = number % 6007 == 5
    return {
        "id": number,
        "k": 0 if number % 2 else number % 700,
        "v": 9 if odd else 1,
        "m": number % 1000 if odd else -1 - number,
        "x": number,
        "y": number - 500 if odd else number,
    } | changed


def hot_changes() -> pa.Table:
    """Rows that leave the hot key, rows that come to it, and others that come and go, wrong ones among them."""
    changes = [("update", hot_row(i, k=2)) for i in range(1, 40, 2)]
    changes += [("update", hot_row(i, k=0, v=1 + i // 38)) for i in range(0, 40, 2)]
    changes += [("delete", hot_row(i)) for i in (6012, 12019)]
    changes += [("insert", hot_row(i, y=i - 200 * (i == ROWS + 1), m=i - ROWS)) for i in range(ROWS, ROWS + 30)]
    return pa.Table.from_pylist([{"op": op} | row for op, row in changes])


@pytest.mark.parametrize("blocks", [3, 5])
def test_hot_keys_are_spread(spark: SparkSession, tmp_path: Path, blocks: int) -> None:
    """No shard of a grid holds more than two blocks, and the answers are those of one process."""
    keys = pa.table({"k": list(range(1, 650))})
    data = pa.Table.from_pylist([hot_row(i) for i in range(ROWS)])
    both, known = {"data": "id", "keys": "k"}, {"data": data, "keys": keys}
    one = holdstrue.Monitor(HOT, both, data=known)
    monitor = Monitor(
        spark,
        tmp_path / "state",
        HOT,
        both,
        data={name: frame(spark, table, table.num_rows // 2) for name, table in known.items()},
        shards=3,
        blocks=blocks,
        tasks=2,
        hot_from=0,
    )
    spread = shard_rows(monitor)
    assert len(spread) == 5, "homes, by k, by k with m, all rows together, references"
    for route, held in spread.items():
        assert {shard % 2 for shard in held} == {0, 1}, f"one task does all of {route}"
        # two blocks of three; by chance a block is a little larger than the others
        assert max(held.values()) <= (0.7 if blocks == 3 else 0.5) * ROWS, route
    assert found(listed(monitor.violations())) == found(one.violations())
    assert monitor.counts() == one.counts()
    assert all(counts.open for counts in one.counts().values())
    changes = hot_changes()
    delta = monitor.apply(frame(spark, changes, 30), limit=None)
    assert_same(delta, one.apply(changes, limit=None))
    assert all(step.added and step.removed for step in delta.counts.values()), delta.counts
    refilled = pa.table({"k": [0, 651], "op": ["insert", "insert"]})
    delta = monitor.apply({"keys": frame(spark, refilled)}, limit=None)
    assert_same(delta, one.apply({"keys": refilled}, limit=None))
    assert delta.counts["known"].removed > ROWS // 2 - 100
    assert found(listed(monitor.violations())) == found(one.violations())
    assert monitor.counts() == one.counts()


def test_a_check_of_a_hot_key(spark: SparkSession) -> None:
    data, keys = pa.Table.from_pylist([hot_row(i) for i in range(ROWS)]), pa.table({"k": list(range(1, 650))})
    one = holdstrue.check(data, HOT, key="id", tables={"keys": keys}, limit=None)
    frames = {"data": frame(spark, data), "keys": frame(spark, keys)}
    report = check(frames, HOT, key="id", limit=None, shards=3, blocks=3, tasks=3)
    assert "hot" in report.explain()
    assert [r.counts for r in report.results] == [r.counts for r in one.results]
    assert found(report.listed()) == found(one)


@pytest.mark.parametrize(("limit", "how"), [(1000, "by ranges (65 of x, 65 of y)"), (None, "grids of 3 blocks")])
def test_a_check_that_turns_out_crowded(spark: SparkSession, limit: int | None, how: str) -> None:
    """Rows are counted, and spread, only when a task got too many of them."""
    rows = SPREAD_FROM + 20_000
    frame = spark.range(rows).selectExpr("id", "id as x", "if(id = 7, -1, id) as y")
    report = check(frame, ["not(t.x < s.x and t.y > s.y)"], key="id", limit=limit, tasks=2)
    assert how in report.explain()
    assert (report.results[0].counts.pairs, report.results[0].counts.rows) == (7, 8)
    assert {(v.t, v.s) for v in report.listed()} == {(t, 7) for t in range(7)}
    assert report.rows == {"data": rows}


# --- two engines, one state ----------------------------------------------------------------------


def test_a_state_goes_from_engine_to_engine(spark: SparkSession, place: str) -> None:
    rows = odd_rows()
    rules: RuleSet = EVERY_KIND
    holdstrue.Monitor.create(place, rules, key="id").close()
    turns: list[tuple[Any, list[tuple[str, worlds.Row]]]] = [
        (None, [("insert", rows[key]) for key in (0, 1, 2)]),
        ({"shards": 2, "tasks": 2}, [("insert", rows[key]) for key in (3, 4)]),
        ({"shards": 5, "tasks": 3}, [("update", rows[0] | {"id": 4})]),
        (None, [("insert", rows[key]) for key in (5, 6)]),
        ({"shards": 3, "blocks": 3, "tasks": 2}, [("delete", rows[1]), ("insert", rows[7])]),
        (None, [("update", rows[2] | {"id": 7})]),
    ]
    table: dict[int, worlds.Row] = {}
    truth = at_first(rules)
    for number, (cut, batch) in enumerate(turns):
        changes = worlds.as_table(batch)
        table = worlds.applied(table, batch)
        before, truth = truth, expected(rules, list(table.values()), list(table))
        options: dict[str, Any] = {"limit": None, "op_column": "_op", "feed": "ops"}
        if cut is None:
            with holdstrue.Monitor.open(place) as one:
                assert_step(one.apply(changes, batch_id=number, **options), before, truth)
                assert one.apply(changes, batch_id=number, **options).duplicate
        else:
            monitor = Monitor(spark, place, **cut)
            assert_step(monitor.apply(frame(spark, changes), number, **options), before, truth)
            assert monitor.apply(frame(spark, changes), number, **options).duplicate
    # a state that one process left is laid out anew before its violations are read in shards
    monitor = Monitor(spark, place, shards=4)
    assert found(listed(monitor.violations())) == nonempty(truth)
    assert_counts(monitor.counts(), truth)
    assert [line.batch for line in monitor.history()][:: len(rules)] == [str(number) for number in range(len(turns))]
