"""The generators: seeded, clean where they say so, dirty where they are asked to be."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import holdstrue
from workloads.flights import flights
from workloads.tax import RULES, country, tax


def pairs(table: pa.Table, rule: str) -> int:
    return holdstrue.check(table, rule, limit=0).results[0].counts.pairs


def test_same_seed_same_rows() -> None:
    assert tax(500, seed=3).equals(tax(500, seed=3))
    assert not tax(500, seed=3).equals(tax(500, seed=4))
    assert flights(500, seed=3).equals(flights(500, seed=3))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_clean_tax_rows_satisfy_every_rule_across_parts(rule: str) -> None:
    parts = [tax(4000, noise=0), tax(1000, start=4000, noise=0), tax(10, start=5000, noise=0)]
    assert pairs(pa.concat_tables(parts), rule) == 0


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_noise_breaks_every_rule(rule: str) -> None:
    assert pairs(tax(20_000, noise=0.02), rule) > 0


def test_noise_stays_small() -> None:
    clean, dirty = tax(50_000, noise=0), tax(50_000, noise=0.01)
    city = dict(zip(country().zips.to_pylist(), pc.take(country().cities, country().zip_city).to_pylist(), strict=True))
    moved = sum(city[z] != c for z, c in zip(dirty["zip"].to_pylist(), dirty["city"].to_pylist(), strict=True))
    assert all(city[z] == c for z, c in zip(clean["zip"].to_pylist(), clean["city"].to_pylist(), strict=True))
    assert moved == pytest.approx(500, rel=0.3)


def test_corrupted_salaries_have_many_partners() -> None:
    dirty = tax(20_000, noise=0, corrupt_salaries=0.01)
    clean = tax(20_000, noise=0)
    changed = np.count_nonzero(dirty["salary"].to_numpy() != clean["salary"].to_numpy())
    assert changed == pytest.approx(200, rel=0.3)
    assert pairs(dirty, RULES["phi10"]) > 1000


def test_columns_are_those_of_the_published_table() -> None:
    named = "f_name,l_name,gender,area_code,phone,city,state,zip,marital_status,has_child,salary,rate,single_exemp"
    assert tax(1).column_names == ["id", *named.split(","), "married_exemp", "child_exemp"]
    assert all(pa.types.is_string(tax(1).schema.field(name).type) for name in ("phone", "city", "state", "zip"))


def test_pairs_of_flights_grow_with_the_square_of_the_rows() -> None:
    rule = "not(t.origin = s.origin and t.dest = s.dest and t.flights > s.flights and t.passengers < s.passengers)"
    small, large = pairs(flights(10_000), rule), pairs(flights(40_000), rule)
    assert large / small == pytest.approx(16, rel=0.4)
