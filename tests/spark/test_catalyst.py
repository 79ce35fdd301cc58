"""What Catalyst checks from scratch: counts and lists are those of one process, in one scan where nothing violates."""

from __future__ import annotations

import datetime as dt
import io
from contextlib import redirect_stdout
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdstrue
from holdstrue import load_rules
from holdstrue.plan.checks import GroupCheck
from holdstrue.spark import footers
from holdstrue.spark.catalyst import joint, keyed, left_sides, native, sampling
from holdstrue.spark.catalyst.detecting import Detection, Tables
from holdstrue.spark.catalyst.native import Native
from holdstrue.spark.catalyst.pairing import Pairing
from holdstrue.spark.checking import SparkReport, check
from holdstrue.spark.footers import footer_rows
from laws.test_detection import found
from spark.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("by_cluster")

NAN = float("nan")


def assert_like_one_process(report: SparkReport, one: holdstrue.Report, *, kernels: tuple[str, ...] = ()) -> None:
    """The same counts, the same lists, and by Catalyst but for some rules."""
    for mine, other in zip(report.results, one.results, strict=True):
        assert (mine.counts, mine.status, mine.measured) == (other.counts, other.status, other.measured), mine.rule.name
    assert found(report.listed()) == found(one.listed())
    assert report.notes == one.notes
    rules = [result.rule.name for result in report.results]
    assert {rules[i] for i in range(len(rules)) if i not in report.native.rules} == set(kernels)


# --- values --------------------------------------------------------------------------------------

VALUES: dict[str, tuple[pa.DataType, list[Any], list[str]]] = {
    "long": (pa.int64(), [2**63 - 1, -(2**63), 0, 1, None], ["0", "1.5", "-9223372036854775808", "1e30", "-1e30"]),
    "byte": (pa.int8(), [127, -128, 0, None, 5], ["0.5", "127", "128"]),
    "double": (pa.float64(), [0.0, -0.0, NAN, float("-inf"), 2.0**53], ["0", "9007199254740993", "0.1", "1e400"]),
    "float": (pa.float32(), [0.1, -0.0, NAN, None, float("inf")], ["0.1", "0"]),
    "money": (pa.decimal128(12, 2), [Decimal("1.50"), Decimal("-0.01"), None, Decimal("9999999999.99"), Decimal(0)],
              ["1.5", "1.505", "-0.01", "1e40"]),
    "wide": (pa.decimal128(38, 0), [Decimal(10) ** 37, Decimal(-1), None, Decimal(0), Decimal("9" * 38)],
             ["0", "1e37", "1e39"]),
    "text": (pa.string(), ["a", "a ", "", None, "é'\\\"\n"], ["'a'", "'a '", "''", "'é'"]),
    "truth": (pa.bool_(), [True, False, None, True, False], ["true", "false"]),
    "day": (pa.date32(), [dt.date(2024, 1, 31), dt.date(1969, 12, 31), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)],
            ["date '2024-01-31'", "date '1969-12-31'"]),
    "local": (pa.timestamp("us"), [dt.datetime(2024, 3, 31, 2, 30), dt.datetime(1969, 1, 1), None,
              dt.datetime(2024, 3, 31, 2, 30, 0, 1), dt.datetime(2024, 1, 1)], ["timestamp '2024-03-31 02:30:00'"]),
    "zoned": (pa.timestamp("us", "UTC"), [dt.datetime(2024, 3, 31, 2, 30, tzinfo=dt.UTC), None,
              dt.datetime(1969, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None],
              ["timestamp '2024-03-31 02:30:00'"]),
    "bytes": (pa.binary(), [b"\x00", b"\xff", b"", None, b"a"], ["'a'"]),
}  # fmt: skip
"""By column its type, its values and the constants that it is compared with."""


def test_constants_and_columns_of_every_type(spark: SparkSession) -> None:
    """One-row rules with every operator, in one job; what compares is what one process compares."""
    table = pa.table({"id": list(range(5)), **{n: pa.array(values, type_) for n, (type_, values, _) in VALUES.items()}})
    rules = []
    for name, (_, _, constants) in VALUES.items():
        signs = ["!=", "<"] if name == "truth" else ["=", "<", ">="][: 3 if name in ("long", "double") else 2]
        rules += [f"not(t.{name} {sign} {constant})" for constant in constants for sign in signs]
    rules += ["not(t.long > t.byte)", "not(t.double = t.float)", "not(t.day != t.day)"]
    rules = [text for text in rules if _stands(table, text)]
    one = holdstrue.check(table, rules, key="id", limit=None)
    report = check(frame(spark, table, 2), rules, key="id", limit=None)
    assert_like_one_process(report, one)
    assert len(rules) > 45 and sum(result.counts.rows > 0 for result in one.results) > 25


def _stands(table: pa.Table, text: str) -> bool:
    try:
        holdstrue.check(table.slice(0, 0), text)
    except holdstrue.HoldstrueError:
        return False
    return True


@pytest.mark.parametrize("nulls", ["unknown", "equal"])
def test_groups_of_every_type(spark: SparkSession, nulls: Any) -> None:
    """Every column as left side, as right side and as key, alone and in tuples, with rows that are NULL."""
    once = {n: pa.array([*values, *values[::-1], None], type_) for n, (type_, values, _) in VALUES.items()}
    table = pa.table({"id": list(range(11)), "k": [1, 1, 2, 2, 3, 3, 3, 1, None, 2, None], **once})
    names = list(VALUES)
    texts = [f"key({name})" for name in names] + [f"{name} -> k" for name in names] + [f"k -> {n}" for n in names]
    texts += [f"{a}, {b} -> k" for a, b in pairwise(names)] + [
        "[k, truth] -> [text] with (1, _ || _), (2, true || 'a')"
    ]
    rules = replace(load_rules(texts), nulls=nulls)
    one = holdstrue.check(table, rules, key="id", limit=None)
    assert_like_one_process(check(frame(spark, table, 5), rules, key="id", limit=None), one)
    assert sum(result.counts.open > 0 for result in one.results) > 30


# --- what is not wholly known, what is much ------------------------------------------------------


def test_right_sides_that_are_partly_known_are_left_to_kernels(spark: SparkSession) -> None:
    table = pa.table({"id": [0, 1, 2, 3], "a": [1, 1, 1, 2], "b": [1, None, 2, 3], "c": [None, 5, 6, 7]})
    one = holdstrue.check(table, ["a -> b, c", "key(a)"], key="id")
    assert_like_one_process(
        check(frame(spark, table, 2), ["a -> b, c", "key(a)"], key="id"), one, kernels=("a -> b, c",)
    )


def test_more_groups_and_larger_ones_than_are_listed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many violating groups and a huge one: counts are exact, lists stop at the limit and hold violations only."""
    monkeypatch.setattr(native, "LOOKED_UP", 3)
    rows = 1000
    table = pa.table(
        {
            "id": list(range(rows)),
            "few": [0 if i < 200 else i // 4 for i in range(rows)],
            "value": [int(i == 77 or (i >= 200 and i % 4 == 1)) for i in range(rows)],
            "ref": [i % 7 for i in range(rows)],
        }
    )  # fmt: skip
    keys = pa.table({"k": [0, 1, 2, 3, 4]})
    rules = ["few -> value", "key(few)", "data.ref in keys.k", "not(t.value = 1)", "few -> value, ref"]
    one = holdstrue.check(table, rules, key="id", tables={"keys": keys}, limit=None)
    frames = {"data": frame(spark, table, 500), "keys": frame(spark, keys)}
    for limit in (0, 40):
        report = check(frames, rules, key="id", limit=limit)
        assert [r.counts for r in report.results] == [r.counts for r in one.results]
        every, listed = found(one.listed()), list(report.listed())
        assert len(listed) == limit and all(pairs <= every[rule] for rule, pairs in found(listed).items())
        for result in report.results if limit else ():
            assert len(report.examples(result, 5)) == 5


def test_several_tables(spark: SparkSession) -> None:
    orders = pa.table({"id": [1, 2, 3, 4], "c": pa.array([7, 8, None, 9], pa.int32()), "n": [1.0, 2.0, 3.0, 4.0]})
    customers = pa.table({"id": pa.array([7, 7, 10], pa.int64()), "n": [1, 2, 5]})
    rules = ["orders.c in customers.id", "orders.n in customers.n"]
    one = holdstrue.check({"orders": orders, "customers": customers}, rules)
    report = check({"orders": frame(spark, orders), "customers": frame(spark, customers)}, rules, key="id")
    assert [r.counts for r in report.results] == [r.counts for r in one.results]
    # doubles among integers: exactly, and not as doubles
    assert [report.results[i].rule.name for i in range(2) if i not in report.native.rules] == rules[1:]
    assert {(v.rule, v.t) for v in report.listed()} == {(rules[0], 2), (rules[0], 4), (rules[1], 3), (rules[1], 4)}


# --- the plan ------------------------------------------------------------------------------------


def explained(data: DataFrame) -> str:
    said = io.StringIO()
    with redirect_stdout(said):
        data.explain()
    return said.getvalue()


def test_twenty_rules_are_one_scan(spark: SparkSession, tmp_path: Path) -> None:
    """Two shuffles however many rules there are, and one scan of the table where nothing violates them."""
    rows = 500
    columns = {f"c{i}": [n % (i + 2) for n in range(rows)] for i in range(6)}
    pq.write_table(pa.table({"id": list(range(rows)), **columns}), tmp_path / "t.parquet")
    data = spark.read.parquet(str(tmp_path / "t.parquet"))
    rules = [f"id, c{i} -> c{j}" for i in range(3) for j in range(3, 6)]
    rules += [f"key(id, c{i})" for i in range(3)] + ["key(id)", "[id] -> [c1] with (1 || 1), (_ || _)"]
    rules += ["not null(id, c0)", "not(t.c1 > 9)", "not(t.c2 > t.id and t.c2 > 99)", "count() = 500", "sum(c0) <= 250"]
    rules += ["max(id) < 500"]
    assert len(rules) == 20
    report = check(data, rules, key="id")
    assert report.ok and report.rows == {"data": rows}
    [only] = report.native.passes
    assert (only.tables, only.shuffles) == (("data",), 2)
    assert "1 scan (data), 2 shuffles" in report.explain()
    given = Native.of(report.given.plan, {"data": data}, {"data": ("id",)})
    plan = explained(Detection.of(given.tables, given.checks, {"data": ("id",)}, 10).totals())
    assert plan.count("FileScan") == len(only.tables) and plan.count("Exchange ") == only.shuffles
    assert "Python" not in plan and "MapInArrow" not in plan


def test_the_condition_of_a_cfd_is_pushed_where_footers_tell_the_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of Parquet are counted apart, with the same answers, also where the condition is unknown."""
    a, b = [1, 1, 1, None, 2, 2, 7, 7, 7, 7, None], [5, 6, None, 5, 5, 5, 1, 1, 2, None, 3]
    table = pa.table({"id": list(range(11)), "a": a, "b": b})
    pq.write_table(table, tmp_path / "t.parquet")
    data = spark.read.parquet(str(tmp_path / "t.parquet"))
    monkeypatch.setattr(footers, "LEAST_BYTES", 1)
    assert footer_rows(data.drop("b")) == 11
    with monkeypatch.context() as stored:
        stored.setattr(footers, "are_local", lambda _: False)
        assert footer_rows(data) == footer_rows(data.drop("b")) == 11
        stored.setattr(footers, "LEAST_BYTES", 1 << 40)
        assert footer_rows(data) is None
    assert [footer_rows(other) for other in (data.where("a = 1"), data.distinct())] == [None, None]
    for pattern in ("7", "99"):
        rule = f"[a] -> [b] with ({pattern} || _)"
        one = holdstrue.check(table, rule, limit=None)
        report = check(data, rule, limit=None, tasks=2)
        assert report.results[0].counts == one.results[0].counts
        assert found(report.listed()) == found(one.listed()) and report.rows == {"data": 11}
        assert [one.tables for one in report.native.passes][:1] == [("data",)]
        given = Native.of(report.given.plan, {"data": data}, {})
        plan = explained(Pairing(given.tables, given.checks, {}, 0).totals())  # type: ignore[arg-type]
        assert f"EqualTo(a,{pattern})" in plan


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("nulls", ["unknown", "equal"])
def test_what_a_condition_fixes_is_not_grouped_by(spark: SparkSession, nulls: Any) -> None:
    """Patterns and filters with constants, alone, beside others of the same left side, and with nothing left open."""
    random = Random(7)
    draw: dict[str, list[Any]] = {
        "a": [1, 1, 2, None],
        "t": ["x", "y", None],
        "f": [0.0, -0.0, 1.5],
        "b": [1, 2, None],
        "c": [1, 2],
    }
    table = pa.table({"id": list(range(60)), **{n: [random.choice(own) for _ in range(60)] for n, own in draw.items()}})
    data = frame(spark, table, 3)
    cases: dict[str, tuple[str, ...]] = {
        "[a, t] -> [b] with (1, _ || _)": ("t",),
        "[a, f] -> [b] with (1, 0 || _)": ("a",),
        "[a, t] -> [b] with (_, 'x' || _), (1, _ || _)": ("a", "t"),
        "[f, t] -> [b] with (0, _ || _)": ("t",),
        "[b, t] -> [c] with (2, _ || 1), (2, _ || _)": ("t",),
    }
    where = [{"rule": "key(a, t)", "where": "a = 1"}, {"rule": "c, f -> b", "where": "c = 1 and f > 0"}]
    sets: list[list[Any]] = [[one] for one in (*cases, *where)]
    sets += [[*cases, *where], [*list(cases)[:2], "a, f -> b", "key(a, t)"]]
    for texts in sets:
        rules = replace(load_rules(texts), nulls=nulls)
        one = holdstrue.check(table, rules, key="id", limit=None)
        assert_like_one_process(check(data, rules, key="id", limit=None), one)
        assert one.total
    for text, left in cases.items():
        plan = check(data, replace(load_rules([text]), nulls=nulls), limit=0).given.plan
        [own] = [one for one in plan.checks if isinstance(one, GroupCheck)]
        assert Tables(plan, {"data": data}).grouping(own) == left
    both = check(data, ["[a, t] -> [b] with (1, _ || _)", "a, t -> c"], limit=0).given.plan
    assert {Tables(both, {"data": data}).grouping(one) for one in both.checks if isinstance(one, GroupCheck)} == {
        ("a", "t")
    }


@pytest.mark.parametrize("read", [True, False])
def test_rows_that_footers_tell_are_not_counted_in_the_scan(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: bool
) -> None:
    """Rules alone and together, with keys that are partly NULL and more rules about single rows than share a group."""
    n = range(40)
    a, b = [None if i % 7 == 3 else i % 12 for i in n], [None if i % 5 == 4 else i % 3 for i in n]
    table = pa.table({"a": a, "b": b, "c": [f"t{i % 4}" if i % 9 else None for i in n], "d": list(n)})
    pq.write_table(table, tmp_path / "t.parquet")
    data = spark.read.parquet(str(tmp_path / "t.parquet"))
    monkeypatch.setattr(footers, "MOST_LOCAL_FILES", 1 if read else 0)
    monkeypatch.setattr(footers, "LEAST_BYTES", 1 if read else 1 << 40)
    assert footer_rows(data) == (len(n) if read else None)
    groups: list[Any] = ["key(a, b)", "key(c)", "key(d)", "a -> b", "[a, b] -> [c] with (_, 1 || _)"]
    single = [f"not(t.d > {40 - i} and t.b = {i % 3})" for i in range(10)] + ["not null(a, c)"]
    equal = replace(load_rules(["key(a, b)"]), nulls="equal")
    for rules in (groups[:1], groups[-1:], equal, single, [groups[0], *single[:2]], groups + single):
        report = check(data, rules, limit=None)
        assert_like_one_process(report, holdstrue.check(table, rules, limit=None))
        assert report.rows == {"data": len(n)}


@pytest.mark.parametrize("nulls", ["unknown", "equal"])
@pytest.mark.parametrize(("reduced", "sampled"), [(0, 20_000), (1 << 40, 20_000), (1 << 40, 5)])
def test_groupings_of_large_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest,
    nulls: Any, reduced: int, sampled: int,
) -> None:  # fmt: skip
    """Keys that hold and that do not, FDs of every type in bundles, by left side, and where a sample is wrong of them;
    patterns and rows beside them."""
    if nulls == "equal":
        # the same queries but for how NULL is written: they are compiled once, for the other case
        request.getfixturevalue("interpreted")
    monkeypatch.setattr(sampling, "SAMPLED", sampled)
    monkeypatch.setattr(left_sides, "VALUES", 4)
    monkeypatch.setattr(footers, "LEAST_BYTES", 1)
    monkeypatch.setattr(native, "GROUPED_FROM", 1)
    monkeypatch.setattr(keyed, "SAMPLED_FROM", 1)
    monkeypatch.setattr(joint, "REDUCED", reduced)
    kept = {n: entry for n, entry in VALUES.items() if n not in ("wide", "float", "local")}
    once = {n: pa.array([*values, *values[::-1], None], type_) for n, (type_, values, _) in kept.items()}
    table = pa.table({"id": list(range(11)), "k": [1, 1, 2, 2, 3, 3, 3, 1, None, 2, None], **once})
    pq.write_table(table, tmp_path / "t.parquet", coerce_timestamps="us")
    data = spark.read.parquet(str(tmp_path / "t.parquet"))
    names = list(kept)
    texts = ["key(id, k)", "key(k)", "not(t.long > 0)", "k -> long, byte"]
    texts += [f"{name} -> k" for name in names] + [f"k -> {name}" for name in names]
    texts += [f"{a}, {b} -> k" for a, b in pairwise(names)] + [
        "[k, truth] -> [text] with (1, _ || _), (2, true || 'a')",
        "[truth] -> [text] with (_ || _), (true || 'a')",
    ]
    rules = replace(load_rules(texts), nulls=nulls)
    keys: dict[tuple[int, int], tuple[str | None, ...]] = {(0, 20_000): ("id", "k", None), (1 << 40, 20_000): ("k",)}
    for key in keys.get((reduced, sampled), (None,)) if nulls == "equal" else ("id",):
        one = holdstrue.check(table, rules, key=key, limit=None)
        report = check(data, rules, key=key, limit=None)
        assert [r.counts for r in report.results] == [r.counts for r in one.results]
        assert [r.status for r in report.results] == [r.status for r in one.results]
        if key != "k":
            assert found(report.listed()) == found(one.listed())
        for what, is_done in (("grouping", not reduced), ("left side", reduced)):
            assert any(what in done.what for done in report.native.passes) == bool(is_done)
        said = [["7 rows have the key of another" in note for note in notes] for notes in (report.notes, one.notes)]
        assert said == [[True] * (key == "k")] * 2
