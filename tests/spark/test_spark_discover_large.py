"""Rules of tables that stay on Spark are those of one process, with the same measures; the driver takes a sample."""

from __future__ import annotations

import random
from datetime import date, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from holdstrue import Discovery, check, discover
from holdstrue import spark as on_spark
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.report.forms import formats_of, parts
from holdstrue.spark.discovering import (
    frame_conditions,
    frame_dependencies,
    lane_table,
    left_side_jobs,
    pattern_jobs,
    pattern_sides,
)
from holdstrue.spark.discovering.bounded_jobs import collected
from holdstrue.spark.runner import SparkRunner
from laws.test_column_rules import SCHEMA, row
from spark.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOWHERE = 0
"""Bytes of tables that the driver takes whole."""


def orders(rows: int, seed: int = 1) -> pa.Table:
    """Orders with values of many types, NULLs, FDs that hold and one that a few rows break."""
    draw = random.Random(seed)
    zips = [draw.choice([None, "10", "11", "12é", "13"]) for _ in range(rows)]
    return pa.table(
        {
            "id": list(range(rows)),
            "zip": zips,
            "city": [None if z is None or draw.random() < 0.1 else f"c{z[:1]}" for z in zips],
            "pay": [draw.randrange(5) * 10 for _ in range(rows)],
            "tax": [draw.choice([None, 0.5, float("nan"), -0.0, 0.0]) for _ in range(rows)],
            "at": pa.array([draw.choice([None, time(9), time(10)]) for _ in range(rows)], pa.time64("us")),
            "day": pa.array([draw.choice([date(2020, 1, 1), date(2021, 1, 1)]) for _ in range(rows)], pa.date32()),
            "sum": pa.array(
                [draw.choice([None, Decimal("1.10"), Decimal("2.20"), Decimal("9" * 20)]) for _ in range(rows)]
            ),
            "never": pa.nulls(rows, pa.string()),
        }
    )


def told(found: Discovery) -> tuple[list[dict[str, Any]], bool, dict[str, int]]:
    rules = sorted((rule.to_dict() for rule in found.rules), key=lambda rule: str(rule["text"]))
    return rules, found.complete, found.counts()


@pytest.mark.parametrize(
    "how",
    [{}, {"nulls": "equal"}, {"error": 0.05, "measure": "rows"}, {"error": 0.02, "kinds": "fd"}],
    ids=str,
)
def test_keys_and_fds_are_those_of_one_process(
    spark: SparkSession, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if how:
        # several jobs for the left sides of a round, which are tried in a part of their groups first
        monkeypatch.setattr(left_side_jobs, "SIDES", 5)
        monkeypatch.setattr(frame_dependencies, "SCOUTED", 16)
        monkeypatch.setattr(frame_dependencies, "CASES", 20)
    table = orders(60).select(["id", "zip", "city", "at", "tax"] if not how else ["zip", "city", "pay", "sum", "never"])
    asked = {"kinds": ("fd", "key"), "max_predicates": 3, "budget": None, **how}
    found = on_spark.discover(frame(spark, table, 20), whole=NOWHERE, sample=8, **asked)
    assert told(found) == told(discover(table, **asked))
    assert "tested on Spark in 0 jobs" not in found.explain()


def test_rows_that_are_equal_break_every_key(spark: SparkSession) -> None:
    table = pa.table({"a": [1, 2, 3, 4] * 2, "b": ["x", "y"] * 4})
    found = on_spark.discover(frame(spark, table, 4), kinds=("fd", "key"), whole=NOWHERE, sample=2)
    assert [rule.text for rule in found] == ["a -> b"]


@pytest.mark.parametrize("kind", ["fd", "cfd"])
def test_the_time_ends_a_search(spark: SparkSession, kind: str) -> None:
    found = on_spark.discover(frame(spark, orders(60)), kinds=kind, whole=NOWHERE, sample=8, budget=0.001)
    assert (found.rules, found.complete, found.counts()) == ([], False, {"data": 60})


def test_a_job_is_stopped_when_the_time_is_up(spark: SparkSession) -> None:
    endless = spark.range(10**10).selectExpr("sum(hash(id))")
    with pytest.raises(OutOfTimeError):
        collected(SparkRunner(spark), endless, "an endless job", Work.lasting(0.5))


def test_rules_with_errors_pass_as_a_rule_file(spark: SparkSession) -> None:
    cities = ["A", "A", "A", "B", "B"] * 7 + ["A", "A", "X", "B", "B"]
    table = pa.table({"zip": ["1", "1", "1", "2", "2"] * 8, "city": cities})
    found = on_spark.discover(frame(spark, table), kinds="fd", whole=NOWHERE, sample=4, error=0.1, measure="rows")
    assert "zip -> city" in [rule.text for rule in found]
    assert check(table, found.ruleset()).ok
    for form in formats_of("Discovery"):
        assert "city" in "".join(map(str, parts(found, form)))


def test_what_needs_the_rows_is_refused_by_name(spark: SparkSession) -> None:
    rows = frame(spark, orders(9))
    found = on_spark.discover(rows, kinds="key", whole=NOWHERE, key="id")
    with pytest.raises(HoldstrueError, match="its rows stay on Spark") as refused:
        found.save("/nowhere")
    assert "whole=" in str(refused.value.hint)
    assert found.near_misses().unlooked
    with pytest.raises(HoldstrueError, match="whole=0 bytes"):
        on_spark.discover(rows, kinds="key", whole=NOWHERE, state="/nowhere")
    with pytest.raises(ChangeError, match="rows with the key pay="):
        on_spark.discover(rows, kinds="key", whole=NOWHERE, key="pay")


def shop(seed: int = 3) -> dict[str, pa.Table]:
    """Orders that refer to customers, one of them to nobody, and to their address by two columns."""
    draw = random.Random(seed)
    places = [(number, f"s{number % 4}") for number in range(12)]
    lines = [draw.choice(places) for _ in range(40)]
    return {
        "orders": pa.table(
            {
                "customer_id": pa.array([*(number for number, _ in lines), None, 99], pa.int32()),
                "street": [*(street for _, street in lines), None, "s1"],
                "amount": [float(draw.randrange(5)) for _ in range(42)],
            }
        ),
        "customers": pa.table(
            {
                "id": pa.array([Decimal(number) for number, _ in places], pa.decimal128(12, 2)),
                "number": [number for number, _ in places],
                "street": [street for _, street in places],
            }
        ),
    }


@pytest.mark.parametrize(
    "how", [{"arity": 2}, {"error": 0.1, "arity": 2}, {"error": 0.05, "measure": "rows"}, {"as_text": True}], ids=str
)
def test_inclusions_are_those_of_one_process(spark: SparkSession, how: dict[str, Any]) -> None:
    tables = shop()
    frames = {name: frame(spark, table, 7) for name, table in tables.items()}
    found = on_spark.discover(frames, kinds="ind", whole=NOWHERE, budget=None, **how)
    here = discover(tables, kinds="ind", budget=None, **how)
    assert told(found) == told(here)
    if how == {"arity": 2}:
        misses = [{(miss.text, miss.violations) for miss in one.near_misses()} for one in (found, here)]
        assert misses[0] == misses[1]
        values = {miss.text: miss.values for miss in found.near_misses()}
        assert values["orders.customer_id in customers.number"] == (99,)
        # Spark does not compare whole numbers with decimals as we do
        assert found.near_misses().unlooked == (
            "values that break orders.customer_id in customers.id: Spark compares their types otherwise",
        )


@pytest.mark.parametrize("nulls", ["unknown", "equal"])
def test_denial_constraints_are_those_of_one_process(spark: SparkSession, nulls: str) -> None:
    draw = random.Random(5)
    pay = [draw.choice([None, *range(8)]) for _ in range(50)]
    table = pa.table(
        {
            "state": [draw.choice(["A", "B", None]) for _ in range(50)],
            "pay": pay,
            "tax": [None if p is None else p * 2 + draw.choice([0, 0, 1]) for p in pay],
        }
    )
    asked: dict[str, Any] = {"kinds": "dc", "max_predicates": 3, "nulls": nulls, "budget": None}
    found = on_spark.discover(frame(spark, table, 20), whole=NOWHERE, sample=6, **asked)
    assert sorted(rule.text for rule in found) == sorted(rule.text for rule in discover(table, **asked))
    assert found.complete
    assert "in 0 checks" not in found.explain()


@pytest.mark.parametrize("how", [{}, {"confidence": 0.9, "max_predicates": 4}, {"nulls": "equal"}], ids=str)
def test_conditional_fds_are_those_of_one_process(
    spark: SparkSession, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # left sides are tried in a part of their groups, in several jobs; the sample comes in pieces
    monkeypatch.setattr(frame_conditions, "SCOUTED", 50)
    monkeypatch.setattr(pattern_sides, "LINE", 1 << 17)
    monkeypatch.setattr(lane_table, "ANSWER", 1000)
    draw = random.Random(7)
    lands = ["UK"] * 99 + ["US"] * 99 + [None] * 9
    zips = [number % 6 for number in range(207)]
    streets = [f"S{z // 2}" for z in zips[:99]] + [f"S{number % 7}" for number in range(108)]
    streets[5] = "S9" if "confidence" in how else streets[5]
    coins = {"UK": "GBP", "US": "USD", None: None}
    coin = [coins[land] if land == "UK" or draw.random() < 0.8 else draw.choice(["GBP", "EUR"]) for land in lands]
    table = pa.table({"land": lands, "zip": zips, "street": streets, "coin": coin})
    asked: dict[str, Any] = {"kinds": "cfd", "budget": None, **how}
    found = on_spark.discover(frame(spark, table, 100), whole=NOWHERE, sample=20, **asked)
    assert told(found) == told(discover(table, **asked))
    assert found.rules


def test_conditional_fds_of_several_constants_are_those_of_one_process(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_conditions, "SCOUTED", 300)
    # conditions are known of some columns only; few targets at a time
    monkeypatch.setattr(pattern_jobs, "MOST_CONDITIONS", 10)
    monkeypatch.setattr(frame_conditions, "WIDEST", 2)
    draw = random.Random(3)
    rows = []
    for _ in range(1200):
        land, kind, size, zip_ = draw.choice("AB"), draw.choice("pq"), draw.choice("xyz"), draw.randrange(9)
        known = land == "A" and kind == "p"
        # under two constants one follows from any zip, under three another is always the same
        fee = zip_ % 4 if known else draw.randrange(4)
        tax = "low" if known and size == "x" else draw.choice(["low", "high"])
        rows.append((land, kind, size, zip_, fee, tax))
    names = ("land", "kind", "size", "zip", "fee", "tax")
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
    asked: dict[str, Any] = {"kinds": "cfd", "budget": None, "max_predicates": 4}
    found = on_spark.discover(frame(spark, table, 100), whole=NOWHERE, sample=200, **asked)
    assert told(found) == told(discover(table, **asked))
    texts = {rule.text for rule in found}
    assert "[land='A', kind='p', zip] -> [fee]" in texts
    assert "[land='A', kind='p', size='x'] -> [tax='low']" in texts


def test_denial_constraints_with_exceptions_are_refused_by_name(spark: SparkSession) -> None:
    with pytest.raises(HoldstrueError, match="denial constraints with exceptions"):
        on_spark.discover(frame(spark, orders(9)), kinds="dc", whole=NOWHERE, error=0.1)


def test_rules_of_columns_are_those_of_one_process(spark: SparkSession) -> None:
    draw = random.Random(3)
    table = pa.Table.from_pylist([row(draw, key, 0.02) for key in range(1500)], schema=SCHEMA)
    table = table.drop_columns(["half", "sum", "large"])  # types that Spark does not have
    table = table.set_column(table.column_names.index("size"), "size", table["size"].cast(pa.string()))
    here = discover(table, kinds="column")
    there = on_spark.discover(frame(spark, table, 4), kinds="column", whole=NOWHERE)
    assert [rule.to_dict() for rule in there.best] == [rule.to_dict() for rule in here.best]
    assert any(rule.measures.get("error") for rule in there.best) and there.complete
    rules = there.ruleset(nearly=True)
    assert check(table, rules).ok
