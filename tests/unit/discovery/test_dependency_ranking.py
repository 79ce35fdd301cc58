"""What is worth more comes first; what says nothing is marked."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from holdstrue.discovery.dependencies.dependency_core import DependencyCore
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.rules.text import text_of


def orders(rows: int = 2000) -> pa.Table:
    """Customers with a zip, zips with a city; amounts that are unique by accident."""
    rng = np.random.default_rng(4)
    customer = rng.integers(0, 200, rows)
    zips = customer % 60
    return pa.table(
        {
            "order_id": np.arange(rows) + 100,
            "customer": customer,
            "zip": zips,
            "city": [f"city {z % 17}" for z in zips],
            "amount": rng.random(rows),
            "status": np.where(np.arange(rows) == 3, "odd", "paid"),
            "flag": rng.random(rows) < 0.5,
        }
    )


def test_keys_on_measures_are_ranked_down() -> None:
    rules = DependencyCore.load(orders(), DiscoveryOptions(kinds=("key",))).rules()
    scores = {text_of(rule.body): rule.score for rule in rules}
    assert next(iter(scores)) == "key(order_id)"
    assert scores["key(order_id)"] == 1.0
    assert scores["key(amount)"] < 0.2


def test_composite_keys_by_chance_are_ranked_down() -> None:
    rows = 3000
    rng = np.random.default_rng(5)
    table = pa.table(
        {
            "order": np.arange(rows) // 3,
            "line": np.arange(rows) % 3,
            "one": rng.permutation(rows // 2).repeat(2),
            "other": rng.permutation(rows // 2).repeat(2)[::-1],
        }
    )
    rules = DependencyCore.load(table, DiscoveryOptions(kinds=("key",))).rules()
    scores = {text_of(rule.body): rule.score for rule in rules}
    by_chance = [score for text, score in scores.items() if "line" not in text]
    assert scores["key(`order`, line)" if "key(`order`, line)" in scores else "key(order, line)"] > 0.5
    assert all(score < 0.5 for score in by_chance)


def test_fds_are_worth_what_could_have_broken_them() -> None:
    core = DependencyCore.load(orders())
    rules = {text_of(rule.body): rule for rule in core.rules()}
    assert rules["zip -> city"].score > 0.9
    assert rules["zip -> city"].support == 2000
    assert rules["zip -> city"].groups == 60
    assert rules["order_id -> zip"].implied_by_key
    assert rules["order_id -> zip"].score == 0
    assert rules["customer -> city"].implied
    assert not rules["customer -> zip"].implied
    # a column with hardly any other value is determined by chance
    assert all(rule.score < 0.5 for text, rule in rules.items() if text.endswith("-> status"))
    scores = [rule.score for rule in core.rules()]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_transitivity_does_not_go_through_nulls() -> None:
    a = list(range(10)) * 4
    table = pa.table({"a": a, "b": [i // 2 for i in a], "c": [i // 4 for i in a], "r": np.arange(40) % 7})
    rules = {text_of(r.body): r for r in DependencyCore.load(table, DiscoveryOptions(kinds=("fd",))).rules()}
    assert rules["a -> c"].implied
    holes = table.set_column(1, "b", [[None if i == 0 else i // 2 for i in a]])
    rules = {text_of(r.body): r for r in DependencyCore.load(holes, DiscoveryOptions(kinds=("fd",))).rules()}
    assert not rules["a -> c"].implied


def test_measures_follow_the_rows() -> None:
    table = orders()
    core = DependencyCore.load(table)
    core.apply(np.arange(1000), table.slice(0, 0))
    fresh = DependencyCore.load(table.slice(1000))
    assert [(r.body, round(r.score, 9)) for r in core.rules()] == [(r.body, round(r.score, 9)) for r in fresh.rules()]


def test_no_near_miss_without_support() -> None:
    rng = np.random.default_rng(6)
    table = pa.table({"a": rng.integers(0, 900, 1000), "b": rng.integers(0, 900, 1000), "c": rng.random(1000)})
    assert DependencyCore.load(table).near_misses(10) == ((), True)
    assert DependencyCore.load(table.slice(0, 0)).near_misses(10) == ((), True)


def test_a_near_key_names_its_double() -> None:
    ids = [*range(500), 17]
    core = DependencyCore.load(pa.table({"user_id": ids, "x": np.arange(501) % 3}))
    (miss,) = [m for m in core.near_misses(3)[0] if text_of(m.body) == "key(user_id)"]
    assert (miss.violations, miss.rows, miss.measures["pairs"]) == (1, ((500, 17),), 1)
